"""Whole programs: state, several methods, interplay of inputs and outputs, strictness."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch import Tensor, nn
from torch.export import Dim, export

from executorch_ggml import GgmlOptions, GgmlPartitioner, NotDelegatedError
from executorch_ggml._library import load_library
from executorch_ggml.fusion import FusionNotFoundError
from tests.harness import lower, run_reference, run_runtime
from tests.lowering.cases.base import Fn


class _ConvEncoder(nn.Module):
    """A causal convolution that keeps the last two frames for the next chunk."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(4, 6, 3)
        self.register_buffer("past", torch.zeros(1, 4, 2))

    def forward(self, chunk: Tensor) -> Tensor:
        frames = torch.cat([self.past, chunk], 2)
        self.past.copy_(frames[:, :, -2:])
        return F.relu(self.conv(frames))


class _LSTMPredictor(nn.Module):
    """One LSTM step on a token; hidden and cell state are buffers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(10, 6)
        self.gates_in = nn.Linear(6, 24)
        self.gates_hidden = nn.Linear(6, 24, bias=False)
        self.register_buffer("hidden", torch.zeros(1, 6))
        self.register_buffer("cell", torch.full((1, 6), 0.25))

    def forward(self, token: Tensor) -> Tensor:
        gates = self.gates_in(self.table(token)) + self.gates_hidden(self.hidden)
        i, f, g, o = gates.chunk(4, 1)
        cell = f.sigmoid() * self.cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        self.cell.copy_(cell)
        self.hidden.copy_(hidden)
        return hidden


class _Joint(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.out = nn.Linear(6, 10)

    def forward(self, encoded: Tensor, predicted: Tensor) -> Tensor:
        return self.out((encoded + predicted).tanh())


def test_transducer_in_one_pte() -> None:
    """Encoder with convolution state, LSTM predictor and joint: the shape of a transducer."""
    frames = Dim("frames", min=1, max=16)
    modules = {"encoder": _ConvEncoder(), "predictor": _LSTMPredictor(), "joint": _Joint()}
    inputs: dict[str, tuple[Any, ...]] = {
        "encoder": (torch.randn(1, 4, 5),),
        "predictor": (torch.tensor([3]),),
        "joint": (torch.randn(1, 6), torch.randn(1, 6)),
    }
    shapes: dict[str, Any] = {"encoder": {"chunk": {2: frames}}, "predictor": None, "joint": None}
    programs = {
        name: export(module.eval(), inputs[name], dynamic_shapes=shapes[name])
        for name, module in modules.items()
    }
    partitioner = GgmlPartitioner(GgmlOptions(strict=True))
    edge = to_edge_transform_and_lower(programs, partitioner=[partitioner])
    load_library()
    program = Runtime.get().load_program(bytes(edge.to_executorch().buffer))
    methods = {name: program.load_method(name) for name in modules}
    for step, length in enumerate((5, 1, 16, 3)):
        chunk = torch.randn(1, 4, length)
        token = torch.tensor([step])
        for name, args in (("encoder", (chunk,)), ("predictor", (token,))):
            expected = modules[name](*args)
            (actual,) = methods[name].execute(list(args))
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        pair = (torch.randn(1, 6), torch.randn(1, 6))
        (actual,) = methods["joint"].execute(list(pair))
        torch.testing.assert_close(actual, modules["joint"](*pair), rtol=1e-4, atol=1e-5)


class _RowCache(nn.Module):
    """A static cache: rows written by index, then read whole."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(1, 2, 8, 4))

    def forward(self, new: Tensor, index: Tensor) -> Tensor:
        self.rows.index_copy_(2, index, new)
        return self.rows * 2


def test_rows_are_written_in_place() -> None:
    module, eager = _RowCache(), _RowCache()
    lowered = lower(module, (torch.randn(1, 2, 3, 4), torch.arange(3)))
    assert lowered.ops == ["set_rows", "scale"]
    for start in (0, 3, 5):
        inputs = (torch.randn(1, 2, 3, 4), torch.arange(start, start + 3))
        (actual,) = run_runtime(lowered, inputs)
        torch.testing.assert_close(actual, eager(*inputs))


def test_a_row_past_the_buffer_is_an_error_and_the_next_call_works() -> None:
    module, eager = _RowCache(), _RowCache()
    inputs = (torch.randn(1, 2, 3, 4), torch.arange(3))
    lowered = lower(module, inputs)
    (actual,) = run_runtime(lowered, inputs)
    with pytest.raises(RuntimeError):
        run_runtime(lowered, (torch.randn(1, 2, 3, 4), torch.tensor([6, 7, 8])))
    eager(*inputs)
    more = (torch.randn(1, 2, 3, 4), torch.arange(3, 6))
    (actual,) = run_runtime(lowered, more)
    torch.testing.assert_close(actual, eager(*more))


class _Swap(nn.Module):
    """Each buffer gets the other's old value; an old value is returned too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.arange(4.0))
        self.register_buffer("b", -torch.arange(4.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        old = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(old)
        return old, x + self.a


def test_buffers_may_swap() -> None:
    module, eager = _Swap(), _Swap()
    lowered = lower(module, (torch.ones(4),))
    for _ in range(3):
        x = torch.randn(4)
        expected = eager(x)
        for actual, wanted in zip(run_runtime(lowered, (x,)), expected, strict=True):
            torch.testing.assert_close(actual, wanted)


class _Turn(nn.Module):
    """A buffer whose next value is itself, seen another way."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("square", torch.arange(9.0).view(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.square
        self.square.copy_(self.square.t().clone())
        return y


def test_a_buffer_may_become_a_view_of_itself() -> None:
    module, eager = _Turn(), _Turn()
    lowered = lower(module, (torch.ones(3, 3),))
    for _ in range(3):
        x = torch.randn(3, 3)
        (actual,) = run_runtime(lowered, (x,))
        torch.testing.assert_close(actual, eager(x))


class _Outputs(nn.Module):
    """The same tensor twice, a view of it, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("constant", torch.tensor([1.0, 2.0]))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        return y, y, y.view(6), self.constant * 1.0


def test_every_output_is_filled() -> None:
    lowered = lower(_Outputs(), (torch.randn(2, 3),))
    for _ in range(2):
        x = torch.randn(2, 3)
        for actual, wanted in zip(run_runtime(lowered, (x,)), _Outputs()(x), strict=True):
            torch.testing.assert_close(actual, wanted)


class _HalfPrecision(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 4).to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.linear(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_accumulates_in_float32(dtype: torch.dtype) -> None:
    """Only the result is rounded: within one rounding of the float32 result."""
    module = _HalfPrecision(dtype)
    x = torch.randn(3, 8).to(dtype)
    lowered = lower(module, (x,))
    (actual,) = run_runtime(lowered, (x,))
    exact = F.silu(F.linear(x.float(), module.linear.weight.float(), module.linear.bias.float()))
    assert actual.dtype == dtype
    # mul_mat rounds the activations to the weight's type, which they already have.
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(actual.float(), exact, rtol=eps, atol=eps)


def test_gguf_blocks_are_multiplied_without_being_unpacked() -> None:
    """torchao::dequantize_gguf + linear becomes one product with a weight of blocks."""
    from executorch.extension.llm.export.gguf import ExportableGGUFTensor

    generator = torch.Generator().manual_seed(0)
    blocks = torch.randint(0, 255, (16, 210), generator=generator, dtype=torch.uint8)
    blocks[:, 208:] = torch.tensor([0x00, 0x20], dtype=torch.uint8)  # the scale: 2^-7
    weight = ExportableGGUFTensor.from_raw(blocks, "q6_k", torch.float32)

    class Quantized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Parameter(blocks, requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(
                x, torch.ops.torchao.dequantize_gguf(self.blocks, "q6_k", torch.float32)
            )

    x = torch.randn(3, 256, generator=generator)
    lowered = lower(Quantized(), (x,))
    assert lowered.ops == ["mul_mat"]
    expected = F.linear(x, weight.dequantize(torch.float32))
    (reference,) = run_reference(lowered, (x,))
    torch.testing.assert_close(reference, expected, rtol=1e-4, atol=1e-2)
    # ggml quantizes the activations to 8 bits: an error of about 1/250 of their scale.
    (actual,) = run_runtime(lowered, (x,))
    assert (actual - expected).norm() / expected.norm() < 0.01


def test_gguf_blocks_are_an_embedding_table() -> None:
    from executorch.extension.llm.export.gguf import ExportableGGUFTensor

    generator = torch.Generator().manual_seed(1)
    blocks = torch.randint(0, 255, (9, 210), generator=generator, dtype=torch.uint8)
    blocks[:, 208:] = torch.tensor([0x00, 0x20], dtype=torch.uint8)  # the scale: 2^-7

    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Parameter(blocks, requires_grad=False)

        def forward(self, ids: Tensor) -> Tensor:
            table = torch.ops.torchao.dequantize_gguf(self.blocks, "q6_k", torch.float32)
            return F.embedding(ids, table)

    ids = torch.tensor([8, 0, 3])
    lowered = lower(Table(), (ids,))
    assert lowered.ops == ["get_rows"]
    (actual,) = run_runtime(lowered, (ids,))
    table = ExportableGGUFTensor.from_raw(blocks, "q6_k", torch.float32).dequantize(torch.float32)
    torch.testing.assert_close(actual, table[ids])


def test_strict_names_what_is_left_out_and_where() -> None:
    class Double(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.double().exp().float() * x

    program = export(Double(), (torch.randn(3),))
    with pytest.raises(NotDelegatedError, match=r"aten\.exp.*float64.*test_programs\.py"):
        to_edge_transform_and_lower(
            program, partitioner=[GgmlPartitioner(GgmlOptions(strict=True))]
        )


def test_an_expected_fusion_that_finds_nothing_is_an_error() -> None:
    program = export(nn.Linear(4, 4), (torch.randn(2, 4),))
    options = GgmlOptions(expect_fusions=("rms_norm",))
    with pytest.raises(FusionNotFoundError, match="rms_norm"):
        to_edge_transform_and_lower(program, partitioner=[GgmlPartitioner(options)])


def test_unsupported_ops_fall_back_around_the_delegates() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(torch.atan(self.a(x).double()).float())

    module, x = Mixed(), torch.randn(2, 4)
    lowered = lower(module, (x,))
    (report,) = lowered.partitioner.reports
    assert len(lowered.graphs) == 2
    left = {r.op: r.reason for r in report.rejections}
    assert "float64" in left["aten.atan.default"]
    (actual,) = run_runtime(lowered, (x,))
    torch.testing.assert_close(actual, module(x), rtol=1e-4, atol=1e-5)


def test_empty_tensors_stay_with_executorch() -> None:
    class Empty(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return x.sin(), y.sin()

    inputs = (torch.zeros(0, 4), torch.randn(2, 4))
    lowered = lower(Empty(), inputs)
    (report,) = lowered.partitioner.reports
    assert [(r.op, r.reason) for r in report.rejections] == [
        ("aten.sin.default", "a tensor without elements")
    ]
    for actual, wanted in zip(run_runtime(lowered, inputs), Empty()(*inputs), strict=True):
        torch.testing.assert_close(actual, wanted)


def test_dynamic_lengths_4_1_4_and_one_past_the_bound() -> None:
    module = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4)).eval()
    length = Dim("length", min=1, max=8)
    lowered = lower(module, (torch.randn(3, 4),), {"input": {0: length}})
    for n in (4, 1, 4, 8):
        x = torch.randn(n, 4)
        (actual,) = run_runtime(lowered, (x,))
        torch.testing.assert_close(actual, module(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError):
        run_runtime(lowered, (torch.randn(9, 4),))
    x = torch.randn(2, 4)
    (actual,) = run_runtime(lowered, (x,))
    torch.testing.assert_close(actual, module(x), rtol=1e-4, atol=1e-5)


class _KeptAlone(nn.Module):
    """A kept op that only moves data, between ops that stay with ExecuTorch."""

    def forward(self, x: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        return x.double().exp(), x.select_scatter(row, 0, 1)


def test_an_op_that_was_kept_whole_is_delegated_even_alone() -> None:
    inputs = (torch.randn(3, 4), torch.randn(4))
    lowered = lower(_KeptAlone(), inputs)
    (report,) = lowered.partitioner.reports
    assert report.n_partitions == 1
    for actual, expected in zip(run_runtime(lowered, inputs), _KeptAlone()(*inputs), strict=True):
        torch.testing.assert_close(actual, expected)


class _MovesBetween(nn.Module):
    """Views and constants only, between ops that stay with ExecuTorch."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.double().exp(), torch.cat([x[1:], torch.zeros(1, 4)])


def test_moving_data_alone_splits_no_program() -> None:
    lowered = lower(_MovesBetween(), (torch.randn(3, 4),))
    (report,) = lowered.partitioner.reports
    assert report.n_partitions == 0


def test_a_size_that_must_be_two_is_at_least_two() -> None:
    """torch's lower bound of 2 usually means 1 too; not where two rows are cut off."""
    rows = Dim("rows", min=2, max=9)
    lowered = lower(Fn(lambda x: x[:2] * 2), (torch.randn(4, 3),), {"args": ({0: rows},)})
    assert lowered.ops
    for n in (2, 5, 9):
        x = torch.randn(n, 3)
        (actual,) = run_runtime(lowered, (x,))
        torch.testing.assert_close(actual, x[:2] * 2)
    with pytest.raises(RuntimeError):
        run_runtime(lowered, (torch.randn(1, 3),))


def test_a_buffer_of_wide_integers_stays_with_executorch() -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.tensor([2**40, 5]))

        def forward(self, x: Tensor) -> Tensor:
            return (x + (self.table > x)) * 2

    x = torch.tensor([3, 4])
    lowered = lower(Wide(), (x,))
    (rejection,) = lowered.partitioner.reports[0].rejections
    assert "'table' holds integers that do not fit 32 bits" in rejection.reason
    (actual,) = run_runtime(lowered, (x,))
    torch.testing.assert_close(actual, Wide()(x))
