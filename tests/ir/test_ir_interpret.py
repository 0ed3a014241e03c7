"""Op references against plain torch, written independently, per family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
import torch.nn.functional as F
from ir_graphs import BOOL, FLOAT, HALF, INT, LONG, f32, float_input, i32, running_rows

from executorch_ggml.ir.enums import Glu, Unary
from executorch_ggml.ir.graph import Call, Graph, Symbol, SymbolSource, Value
from executorch_ggml.ir.interpret import interpret
from executorch_ggml.ir.opset import OPSET
from executorch_ggml.ir.types import DType, IRError, TensorType
from executorch_ggml.ir.verify import verify_graph

Build = Callable[[Graph, "list[Value]"], Value]


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def run(build: Build, *inputs: torch.Tensor, shape: tuple[int, ...] | None = None) -> torch.Tensor:
    """Interpret a graph of F32 and I32 arguments; the result in ``shape``, or in four dims."""
    graph = Graph()
    values = []
    for x in inputs:
        is_float = x.dtype == torch.float32
        ne = list(reversed(x.shape))
        values.append(
            graph.input(f32(*ne) if is_float else i32(*ne), FLOAT if is_float else INT, x.shape)
        )
    result = build(graph, values)
    if not result.type.is_contiguous:
        result = graph.call("cont", result)
    sizes = shape or tuple(int(d) for d in reversed(result.ne))
    graph.output(result, FLOAT if result.type.dtype == DType.F32 else INT, sizes)
    verify_graph(graph)
    return interpret(graph, inputs)[0]


def call(op: str, **params: Any) -> Build:
    return lambda graph, values: graph.call(op, *values, **params)


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


# --- views and copies -----------------------------------------------------------------------


def test_permute_takes_dim_i_to_axis_i() -> None:
    x = randn(2, 3, 4, 5)
    # ggml: ne = (5, 4, 3, 2); dim 0 goes to 1, 1 to 2, 2 to 0.
    y = run(call("permute", axis0=1, axis1=2, axis2=0, axis3=3), x)
    assert torch.equal(y, torch.einsum("dcba->dbac", x))


def test_view_takes_a_slice_without_a_copy() -> None:
    x = randn(4, 6)
    params = {"ne0": 3, "ne1": 2, "ne2": 1, "ne3": 1, "stride1": 12, "stride2": 24, "stride3": 24}
    y = run(call("view", offset=8, **params), x, shape=(2, 3))
    assert torch.equal(y, x[1::2, 2:5])


@pytest.mark.parametrize("axis", range(4))
def test_concat(axis: int) -> None:
    a, b = randn(2, 3, 4, 5), randn(2, 3, 4, 5, seed=1)
    assert torch.equal(run(call("concat", axis=axis), a, b), torch.cat([a, b], dim=3 - axis))


def test_repeat_and_pad() -> None:
    x = randn(1, 3, 1, 5)
    y = run(call("repeat", ne0=10, ne1=4, ne2=3, ne3=2), x)
    assert torch.equal(y, x.repeat(2, 1, 4, 2))
    y = run(call("pad", before0=1, after0=2, after1=3, before2=4), x)
    assert torch.equal(y, F.pad(x, (1, 2, 0, 3, 4, 0)))


def test_cast_to_integers_drops_the_fraction() -> None:
    x = torch.tensor([-1.7, -0.2, 0.9, 2.5])
    assert run(call("cast", dtype=DType.I32), x).flatten().tolist() == [-1, 0, 0, 2]
    rounded = run(
        lambda g, v: g.call("cast", g.call("cast", v[0], dtype=DType.F16), dtype=DType.F32),
        randn(9),
    )
    assert torch.equal(rounded.flatten(), randn(9).half().float())


# --- rows and states --------------------------------------------------------------------------


def test_get_rows() -> None:
    table, ids = randn(10, 6), torch.tensor([3, 0, 9, 3], dtype=torch.int32)
    y = run(call("get_rows"), table, ids, shape=(4, 6))
    assert torch.equal(y, F.embedding(ids, table))


def test_get_rows_of_each_matrix() -> None:
    table = randn(2, 3, 5, 4)
    ids = torch.randint(0, 5, (2, 3, 7), generator=torch.Generator().manual_seed(0)).int()
    y = run(call("get_rows"), table, ids)
    expected = torch.stack(
        [torch.stack([table[b, h][ids[b, h].long()] for h in range(3)]) for b in range(2)]
    )
    assert torch.equal(y, expected)


@pytest.mark.parametrize("bad", [-1, 10])
def test_rows_out_of_range_are_refused(bad: int) -> None:
    with pytest.raises(IRError, match=r"call 0 \(get_rows\).*of 10"):
        run(call("get_rows"), randn(10, 6), torch.tensor([0, bad], dtype=torch.int32))


def test_a_buffer_is_written_in_place_and_lives_on() -> None:
    graph = running_rows().graphs[0]
    start, x = randn(4, 8), randn(2, 8, seed=1)
    ids = torch.tensor([2, 0], dtype=torch.int32)
    states: dict[str, Any] = {}
    (first,) = interpret(graph, [x, ids], {"rows.init": start}, states)
    updated = start.clone()
    updated[ids.long()] = x
    close(first, updated + start)
    (second,) = interpret(graph, [2 * x, ids], {"rows.init": start}, states)
    again = updated.clone()
    again[ids.long()] = 2 * x
    close(second, again + updated)


def test_assign_through_a_view_writes_part_of_a_state() -> None:
    graph = Graph()
    x = float_input(graph, 2)
    state = graph.buffer_state(f32(6), "b")
    rest = {"ne1": 1, "ne2": 1, "ne3": 1, "stride1": 6, "stride2": 6, "stride3": 6}
    tail = graph.call("view", state, ne0=2, offset=4, **rest)
    graph.call("assign", tail, x)
    graph.output(graph.call("cont", state), FLOAT, (6,))
    verify_graph(graph)
    (y,) = interpret(graph, [torch.tensor([5.0, 6.0])])
    assert y.tolist() == [0, 0, 0, 0, 5, 6]


# --- element-wise --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "function"),
    [("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div)],
)
@pytest.mark.parametrize("shape", [(2, 3, 4), (4,), (3, 1), (1, 1, 1), (2, 1, 4)], ids=str)
def test_binary_broadcasts(op: str, function: Any, shape: tuple[int, ...]) -> None:
    a, b = randn(2, 3, 4), randn(*shape, seed=1)
    assert torch.equal(run(call(op), a, b, shape=(2, 3, 4)), function(a, b))


@pytest.mark.parametrize(
    ("op", "params", "function"),
    [
        ("scale", {"scale": 0.5, "bias": 2.0}, lambda x: x * 0.5 + 2),
        ("clamp", {"min": -0.5, "max": 0.25}, lambda x: torch.clamp(x, -0.5, 0.25)),
        ("leaky_relu", {"negative_slope": 0.1}, lambda x: torch.where(x > 0, x, 0.1 * x)),
        ("sqr", {}, lambda x: x**2),
        ("sin", {}, torch.sin),
        ("cos", {}, torch.cos),
    ],
)
def test_functions(op: str, params: dict[str, Any], function: Any) -> None:
    x = randn(3, 40) * 3
    close(run(call(op, **params), x), function(x))


def test_functions_of_positive_numbers() -> None:
    x = randn(3, 40).abs() + 0.1
    close(run(call("sqrt"), x), x.sqrt())
    close(run(call("log"), x), x.log())


_UNARY: dict[Unary, Callable[[torch.Tensor], torch.Tensor]] = {
    Unary.ABS: lambda x: torch.maximum(x, -x),
    Unary.SGN: lambda x: (x > 0).float() - (x < 0).float(),
    Unary.NEG: lambda x: -x,
    Unary.STEP: lambda x: (x > 0).float(),
    Unary.TANH: lambda x: 2 * torch.sigmoid(2 * x) - 1,
    Unary.ELU: lambda x: torch.where(x > 0, x, x.exp() - 1),
    Unary.RELU: lambda x: x.clamp(min=0),
    Unary.SIGMOID: lambda x: 1 / (1 + (-x).exp()),
    Unary.GELU: lambda x: (
        0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    Unary.GELU_QUICK: lambda x: x / (1 + (-1.702 * x).exp()),
    Unary.SILU: lambda x: x / (1 + (-x).exp()),
    Unary.HARDSWISH: lambda x: x * (x + 3).clamp(0, 6) / 6,
    Unary.HARDSIGMOID: lambda x: (x + 3).clamp(0, 6) / 6,
    Unary.EXP: lambda x: torch.e**x,
    Unary.EXPM1: lambda x: x.exp() - 1,
    Unary.SOFTPLUS: lambda x: (1 + x.exp()).log(),
    Unary.GELU_ERF: lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
    Unary.FLOOR: lambda x: -((-x).ceil()),
    Unary.CEIL: lambda x: -((-x).floor()),
    Unary.ROUND: lambda x: torch.sign(x) * (x.abs() + 0.5).floor(),
    Unary.TRUNC: lambda x: x.int().float(),
}


@pytest.mark.parametrize("kind", Unary, ids=lambda k: k.name)
def test_unary(kind: Unary) -> None:
    x = torch.cat([randn(50) * 3, torch.tensor([0.0, 0.5, -0.5, 1.5, 2.5, -2.5])])
    close(run(call("unary", kind=kind), x), _UNARY[kind](x))


@pytest.mark.parametrize(
    ("kind", "activation"),
    [
        (Glu.REGLU, Unary.RELU),
        (Glu.GEGLU, Unary.GELU),
        (Glu.SWIGLU, Unary.SILU),
        (Glu.GEGLU_ERF, Unary.GELU_ERF),
        (Glu.GEGLU_QUICK, Unary.GELU_QUICK),
    ],
)
def test_gated_units(kind: Glu, activation: Unary) -> None:
    a, b = randn(3, 16), randn(3, 16, seed=1)
    close(run(call("glu", kind=kind), a, b), _UNARY[activation](a) * b)


# --- reductions and norms ------------------------------------------------------------------------


def test_reductions() -> None:
    x = randn(2, 3, 8)
    close(run(call("sum_rows"), x, shape=(2, 3, 1)), x.sum(-1, keepdim=True))
    close(run(call("mean_rows"), x, shape=(2, 3, 1)), x.mean(-1, keepdim=True))
    close(run(call("sum"), x, shape=()), x.sum())
    close(run(call("cumsum"), x), x.cumsum(-1))
    found = run(call("argmax"), torch.tensor([[1.0, 5.0, 5.0], [7.0, 0.0, 7.0]]))
    assert found.flatten().tolist() == [1, 0]


def test_norms() -> None:
    x = randn(2, 3, 8) * 2 + 1
    close(run(call("norm", eps=1e-5), x), F.layer_norm(x, [8], eps=1e-5))
    close(run(call("rms_norm", eps=1e-5), x), F.rms_norm(x, [8], eps=1e-5))
    length = x.pow(2).sum(-1, keepdim=True).sqrt()
    close(run(call("l2_norm", eps=1e-6), x), x / length)
    close(run(call("l2_norm", eps=100.0), x), x / 100)


def test_group_norm() -> None:
    x = randn(2, 6, 4, 5)
    y = run(call("group_norm", n_groups=3, eps=1e-5), x)
    close(y, F.group_norm(x, 3, eps=1e-5))
    # Seven channels in three groups: 3, 3 and 1.
    x = randn(1, 7, 4, 5)
    y = run(call("group_norm", n_groups=3, eps=1e-5), x)
    parts = [F.layer_norm(p, p.shape[1:], eps=1e-5) for p in (x[:, :3], x[:, 3:6], x[:, 6:])]
    close(y, torch.cat(parts, dim=1))


def test_soft_max_scales_before_the_mask_and_broadcasts_it() -> None:
    x, mask = randn(2, 4, 3, 8), randn(2, 1, 3, 8, seed=1)
    close(run(call("soft_max", scale=0.3), x, mask), (x * 0.3 + mask).softmax(-1))
    close(run(call("soft_max"), x), x.softmax(-1))


# --- products and convolution --------------------------------------------------------------------


def test_mul_mat_is_linear() -> None:
    w, x = randn(7, 16), randn(2, 5, 16)
    close(run(call("mul_mat"), w, x, shape=(2, 5, 7)), F.linear(x, w))


def test_mul_mat_shares_a_matrix_among_consecutive_ones() -> None:
    w, x = randn(1, 2, 7, 16), randn(3, 6, 5, 16)
    y = run(call("mul_mat"), w, x)
    expected = torch.stack(
        [torch.stack([x[b, h] @ w[0, h // 3].T for h in range(6)]) for b in range(3)]
    )
    close(y, expected)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_convolutions(stride: int, padding: int, dilation: int) -> None:
    params = {
        **{f"stride{i}": stride for i in (0, 1)},
        **{f"padding{i}": padding for i in (0, 1)},
        **{f"dilation{i}": dilation for i in (0, 1)},
    }
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    kernel, x = randn(5, 3, 3, 2), randn(2, 3, 9, 11)
    y = run(call("conv_2d", **params), kernel, x)
    close(y, F.conv2d(x, kernel, **options))  # type: ignore[arg-type]
    kernel = randn(3, 1, 3, 2)
    y = run(call("conv_2d_dw", **params), kernel, x)
    close(y, F.conv2d(x, kernel, groups=3, **options))  # type: ignore[arg-type]


def test_convolution_takes_width_first() -> None:
    params = {"stride0": 1, "stride1": 2, "padding0": 0, "padding1": 1}
    kernel, x = randn(5, 3, 3, 2), randn(1, 3, 9, 11)
    y = run(call("conv_2d", **params), kernel, x)
    close(y, F.conv2d(x, kernel, stride=(2, 1), padding=(1, 0)))


def test_pooling() -> None:
    x = randn(1, 3, 8, 9)
    params = {"kernel0": 2, "kernel1": 3, "stride0": 1, "stride1": 2, "padding0": 1, "padding1": 1}
    y = run(call("pool_2d", kind=0, **params), x)
    close(y, F.max_pool2d(x, (3, 2), (2, 1), (1, 1)))
    y = run(call("pool_2d", kind=1, **params), torch.ones(1, 3, 8, 9))
    # The corner's window of 3 x 2 holds 2 x 1 of the image; the rest counts as zeros.
    assert y[0, 0, 0, 0] == pytest.approx(2 / 6)
    assert y[0, 0, 1, 1] == pytest.approx(1.0)


def _windows(rank: int, kernel: list[int], **more: list[int]) -> dict[str, int]:
    """Parameters numbered from the innermost dim, given from the outermost."""
    neutral = {"stride": [1] * rank, "padding": [0] * rank, "dilation": [1] * rank}
    lists = {"kernel": kernel, **neutral, **more}
    return {f"{n}{i}": v for n, values in lists.items() for i, v in enumerate(reversed(values))}


def test_rows_of_windows_times_a_kernel_convolve() -> None:
    x, kernel = randn(2, 3, 9, 11), randn(5, 3, 3, 2)
    options = {"stride": [2, 1], "padding": [1, 2], "dilation": [1, 3]}
    rows = run(call("im2col", **_windows(2, [3, 2], **options)), x)
    expected = F.conv2d(x, kernel, **options)  # type: ignore[arg-type]
    assert rows.shape == (2, *expected.shape[2:], 18)
    close((rows @ kernel.reshape(5, 18).T).permute(0, 3, 1, 2), expected)


def test_rows_of_windows_over_volumes() -> None:
    x, kernel = randn(2, 3, 5, 6, 7), randn(4, 3, 3, 2, 2)
    options = {"stride": [1, 2, 1], "padding": [2, 0, 1], "dilation": [1, 2, 3]}
    params = {"channels": 3, "images": 2, **_windows(3, [3, 2, 2], **options)}
    rows = run(call("im2col_3d", **params), x.reshape(6, 5, 6, 7))
    expected = F.conv3d(x, kernel, **options)  # type: ignore[arg-type]
    products = rows.reshape(2, *expected.shape[2:], 36) @ kernel.reshape(4, 36).T
    close(products.permute(0, 4, 1, 2, 3), expected)


@pytest.mark.parametrize("extra", [0, 1])
def test_windows_added_up_are_a_transposed_convolution(extra: int) -> None:
    """``extra``: output padding, rows and columns that no window or a part of one reaches."""
    x, kernel = randn(2, 3, 4, 5), randn(3, 2, 3, 2)
    options = {"stride": [2, 3], "padding": [1, 0], "dilation": [1, 2]}
    expected = F.conv_transpose2d(x, kernel, output_padding=extra, **options)  # type: ignore[arg-type]
    rows = x.permute(0, 2, 3, 1) @ kernel.reshape(3, 12)
    size = {"ne1": expected.shape[2], "ne0": expected.shape[3]}
    close(run(call("col2im", **size, **_windows(2, [3, 2], **options)), rows), expected)


def test_upscale_reads_between_elements() -> None:
    x = torch.tensor([[[[0.0, 4.0]]]])
    size = {"ne0": 4, "ne1": 1}
    for mode, align, expected in (
        (0, 0, [0.0, 0.0, 4.0, 4.0]),
        (1, 0, [0.0, 1.0, 3.0, 4.0]),
        (1, 1, [0.0, 4 / 3, 8 / 3, 4.0]),
    ):
        y = run(call("upscale", mode=mode, align_corners=align, **size), x)
        close(y, torch.tensor([[[expected]]]))


def test_resize_follows_the_given_step() -> None:
    """5 elements by a factor of 1.7 are 8: at 1 / 1.7 from one to the next, not at 5 / 8."""
    x = torch.arange(5.0).reshape(1, 1, 1, 5)
    size = {"ne0": 8, "ne1": 1, "ne2": 1}
    given = run(call("host_resize", kind=0, rank=1, step0=1 / 1.7, **size), x)
    assert given.flatten().tolist() == [0, 0, 1, 1, 2, 2, 3, 4]
    divided = run(call("host_resize", kind=0, rank=1, **size), x)
    assert divided.flatten().tolist() == [0, 0, 1, 1, 2, 3, 3, 4]
    exact = run(call("host_resize", kind=1, rank=1, **size), x)
    assert exact.flatten().tolist() == [0, 0, 1, 2, 2, 3, 4, 4]


def test_grid_sample_counts_from_the_centre() -> None:
    x = torch.arange(6.0).reshape(1, 1, 2, 3)
    grid = torch.tensor([[[[0.0, 0.0], [-1.0, -1.0], [5.0, 0.0]]]])
    corners = run(call("host_grid_sample", mode=0, padding=0, align_corners=1), x, grid)
    assert corners.flatten().tolist() == [2.5, 0.0, 0.0]
    border = run(call("host_grid_sample", mode=1, padding=1), x, grid[:, :, 1:])
    assert border.flatten().tolist() == [0.0, 2.0]


# --- arguments -----------------------------------------------------------------------------------


def test_symbols_come_from_sizes_and_elements_and_are_checked() -> None:
    graph = Graph()
    half, start = (sympy.Symbol(n, integer=True, nonnegative=True) for n in ("s0", "u0"))
    graph.symbols.append(Symbol(half, 1, 4, SymbolSource.INPUT_DIM, 0, 0, offset=1, divisor=2))
    graph.symbols.append(Symbol(start, 0, 2, SymbolSource.INPUT_ELEMENT, 1, 0))
    n = 2 * half + 1
    x = float_input(graph, n, 4)
    graph.input(i32(1), LONG, (1,))
    rest = {"ne2": 1, "ne3": 1, "stride1": 4, "stride2": 4 * n, "stride3": 4 * n}
    row = graph.call("view", x, ne0=4, ne1=1, offset=4 * start, **rest)
    graph.output(graph.call("cont", row), FLOAT, (4,))
    verify_graph(graph)
    x5 = randn(5, 4)
    assert torch.equal(interpret(graph, [x5, torch.tensor([2])])[0], x5[2])
    with pytest.raises(IRError, match=r"'s0' = .*whole number from 1 to 4"):
        interpret(graph, [randn(4, 4), torch.tensor([0])])
    with pytest.raises(IRError, match="'u0'"):
        interpret(graph, [x5, torch.tensor([3])])


def test_half_and_bool_arguments_are_widened_and_dim_orders_undone() -> None:
    graph = Graph()
    # Channels last in memory: [N, C, H, W] with order 0 2 3 1.
    x = graph.input(f32(3, 5, 4, 2), HALF, (2, 3, 4, 5), dim_order=(0, 2, 3, 1))
    flag = graph.input(i32(1), BOOL, ())
    y = graph.call("mul", x, graph.call("cast", flag, dtype=DType.F32))
    graph.output(y, HALF, (2, 3, 4, 5), dim_order=(0, 2, 3, 1))
    verify_graph(graph)
    given = randn(2, 3, 4, 5).half().to(memory_format=torch.channels_last)
    seen: list[tuple[Call, torch.Tensor]] = []
    (result,) = interpret(
        graph, [given, torch.tensor(True)], observer=lambda c, r: seen.append((c, r))
    )
    assert torch.equal(result, given)
    assert result.stride() == given.stride()
    assert [c.op.name for c, _ in seen] == ["cast", "mul"]
    assert torch.equal(seen[1][1], given.permute(0, 2, 3, 1).float())


def test_wrong_arguments_are_refused() -> None:
    graph = Graph()
    ids = graph.input(i32(2), LONG, (2,))
    w = graph.weight(TensorType.contiguous(DType.FROM_FILE, [4, 3]), "w", "w.old")
    graph.output(graph.call("get_rows", w, ids), FLOAT, (2, 4))
    weights = {"w.old": randn(3, 4)}
    good = torch.tensor([0, 2])
    assert torch.equal(interpret(graph, [good], weights)[0], weights["w.old"][good])
    for inputs, data, message in (
        ([], weights, "0 inputs, expected 1"),
        ([torch.tensor([0])], weights, r"input 0 is \[1\], expected \[2\]"),
        ([good.int()], weights, "int32, expected torch.int64"),
        ([torch.tensor([0, 2**33])], weights, "do not fit"),
        ([good], {}, r"\['w', 'w.old'\]"),
        ([good], {"w": randn(5)}, "weight 'w'"),
    ):
        with pytest.raises(IRError, match=message):
            interpret(graph, inputs, data)


def test_every_op_has_a_reference_of_its_own() -> None:
    assert len({op.reference for op in OPSET.values()}) == len(OPSET)
