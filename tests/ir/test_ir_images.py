"""Ops over channels-last images: references against plain torch, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from ir_graphs import FLOAT, f32, i32

from executorch_ggml.ir.graph import Graph, Value
from executorch_ggml.ir.interpret import interpret
from executorch_ggml.ir.types import IRError, TensorType
from executorch_ggml.ir.verify import IRVerifyError, verify_graph

_PANEL = 16


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def run(op: str, *inputs: torch.Tensor | None, **params: Any) -> torch.Tensor:
    """The call's value, as torch's ``[n, c, h, w]``."""
    graph = Graph()
    values: list[Value | None] = []
    for x in inputs:
        known = None if x is None else graph.input(f32(*reversed(x.shape)), FLOAT, x.shape)
        values.append(known)
    result = graph.call(op, *values, **params)
    graph.output(result, FLOAT, tuple(int(d) for d in reversed(result.ne)))
    verify_graph(graph)
    return interpret(graph, [x for x in inputs if x is not None])[0].permute(0, 3, 1, 2)


def in_panels(kernel: torch.Tensor) -> torch.Tensor:
    """Element by element: the panel and lane of the result, the window's place, the input."""
    c_out, c_in, height, width = kernel.shape
    packed = torch.zeros(-(-c_out // _PANEL), height * width * c_in, _PANEL)
    for o in range(c_out):
        for y in range(height):
            for x in range(width):
                row = (y * width + x) * c_in
                packed[o // _PANEL, row : row + c_in, o % _PANEL] = kernel[o, :, y, x]
    return packed


def last(x: torch.Tensor) -> torch.Tensor:
    return x.permute(0, 2, 3, 1).contiguous()


def window(kernel: torch.Tensor, **pairs: tuple[int, int]) -> dict[str, int]:
    """Parameters; each pair is (height, width), as in torch."""
    neutral = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
    pairs = {"kernel": tuple(kernel.shape[2:]), **neutral, **pairs}  # type: ignore[dict-item]
    pairs.setdefault("after", pairs["padding"])
    return {f"{name}{i}": pair[1 - i] for name, pair in pairs.items() for i in (0, 1)}


WINDOWS: dict[str, dict[str, tuple[int, int]]] = {
    "plain": {},
    "stride": {"stride": (2, 3)},
    "padding": {"padding": (2, 1)},
    "dilation": {"dilation": (2, 3), "padding": (1, 2)},
    "more zeros after": {"padding": (0, 1), "after": (2, 3), "stride": (2, 1)},
    "more zeros before": {"padding": (3, 2), "after": (0, 0), "stride": (1, 2)},
}


def convolved(
    x: torch.Tensor, kernel: torch.Tensor, groups: int = 1, **pairs: tuple[int, int]
) -> torch.Tensor:
    """Zeros around the image, and then torch's convolution."""
    (top, left), (bottom, right) = (
        pairs.get("padding", (0, 0)),
        pairs.get("after", pairs.get("padding", (0, 0))),
    )
    n, c, h, w = x.shape
    padded = torch.zeros(n, c, top + h + bottom, left + w + right)
    padded[:, :, top : top + h, left : left + w] = x
    options = {name: pairs[name] for name in ("stride", "dilation") if name in pairs}
    return F.conv2d(padded, kernel, groups=groups, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("pairs", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize(
    ("c_in", "c_out", "size"), [(3, 5, (3, 2)), (1, 16, (1, 1)), (4, 17, (2, 3)), (2, 40, (1, 4))]
)
def test_convolutions(
    c_in: int, c_out: int, size: tuple[int, int], pairs: dict[str, tuple[int, int]]
) -> None:
    kernel, x = randn(c_out, c_in, *size), randn(2, c_in, 9, 11)
    found = run(
        "conv_2d_nhwc", in_panels(kernel), last(x), channels=c_out, **window(kernel, **pairs)
    )
    torch.testing.assert_close(found, convolved(x, kernel, **pairs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pairs", WINDOWS.values(), ids=WINDOWS)
def test_depthwise_convolutions(pairs: dict[str, tuple[int, int]]) -> None:
    kernel, x = randn(5, 1, 3, 2), randn(2, 5, 9, 11)
    flat = kernel[:, 0].permute(1, 2, 0).contiguous()
    found = run("conv_2d_dw_nhwc", flat, last(x), **window(kernel, **pairs))
    expected = convolved(x, kernel, groups=5, **pairs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_residual", [False, True])
def test_bias_residual_and_limits(depthwise: bool, has_bias: bool, has_residual: bool) -> None:
    kernel, x = randn(5, 1 if depthwise else 5, 3, 3), randn(2, 5, 6, 7)
    bias = randn(5, seed=1) if has_bias else None
    residual = randn(2, 5, 4, 5, seed=2) if has_residual else None
    op = "conv_2d_dw_nhwc" if depthwise else "conv_2d_nhwc"
    packed = kernel[:, 0].permute(1, 2, 0).contiguous() if depthwise else in_panels(kernel)
    channels = {} if depthwise else {"channels": 5}
    found = run(
        *(op, packed, last(x), bias),
        None if residual is None else last(residual),
        **window(kernel),
        **channels,
        min=-0.5,
        max=2.0,
    )
    expected = F.conv2d(x, kernel, bias, groups=5 if depthwise else 1)
    expected = expected if residual is None else expected + residual
    expected = expected.clamp(-0.5, 2.0)
    assert float(expected.max()) == 2.0
    assert float(expected.min()) == -0.5
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("limits", [{}, {"min": 0.0}, {"max": 0.0}])
def test_limits_are_none_unless_given(limits: dict[str, float]) -> None:
    x = torch.tensor([-1e30, 1e30, math.nan]).reshape(1, 1, 3, 1)
    found = run(
        "conv_2d_dw_nhwc", torch.ones(1, 1, 1), x, **window(torch.ones(1, 1, 1, 1)), **limits
    )
    expected = x.flatten().clamp(limits.get("min"), limits.get("max")) if limits else x.flatten()
    torch.testing.assert_close(found.flatten(), expected, rtol=0, atol=0, equal_nan=True)


def test_pools() -> None:
    x = randn(2, 5, 8, 9)
    params = {"kernel0": 2, "kernel1": 3, "stride0": 1, "stride1": 2, "padding0": 1, "padding1": 1}
    found = run("pool_2d_nhwc", last(x), kind=0, **params)
    assert torch.equal(found, F.max_pool2d(x, (3, 2), (2, 1), (1, 1)))
    found = run("pool_2d_nhwc", last(x), kind=1, **params)
    expected = F.avg_pool2d(x, (3, 2), (2, 1), (1, 1), count_include_pad=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


# --- what is refused --------------------------------------------------------------------------

#: Operands and parameters that fit: 5 channels of 7 x 6, a window of 3 x 2.
_GOOD: dict[str, list[TensorType | None]] = {
    "conv_2d_nhwc": [f32(16, 30, 2), f32(5, 7, 6, 2), f32(20), f32(20, 5, 5, 2)],
    "conv_2d_dw_nhwc": [f32(5, 3, 2), f32(5, 7, 6, 2), f32(5), f32(5, 5, 5, 2)],
    "pool_2d_nhwc": [f32(5, 7, 6, 2)],
}


def _call(op: str, operands: list[TensorType | None], **changed: Any) -> Graph:
    graph = Graph()
    given = [None if t is None else graph.input(t, FLOAT, tuple(reversed(t.ne))) for t in operands]
    params: dict[str, Any] = {"kernel0": 3, "kernel1": 2, "stride0": 1, "stride1": 1}
    params |= {"channels": 20} if op == "conv_2d_nhwc" else {}
    params |= {"kind": 0} if op == "pool_2d_nhwc" else {}
    graph.call(op, *given, **{**params, **changed})
    return graph


@pytest.mark.parametrize("op", _GOOD)
def test_operands_that_fit_are_taken(op: str) -> None:
    graph = _call(op, _GOOD[op])
    assert graph.calls[0].outputs[0].ne == (20 if op == "conv_2d_nhwc" else 5, 5, 5, 2)


_MISFITS: list[tuple[str, int, TensorType, str]] = [
    ("conv_2d_nhwc", 0, f32(16, 24, 2), "kernel .* does not fit"),  # rows of four channels
    ("conv_2d_nhwc", 0, f32(16, 30, 1), "kernel .* does not fit"),  # one panel of two
    ("conv_2d_nhwc", 0, f32(8, 30, 3), "kernel .* does not fit"),  # panels of eight
    ("conv_2d_nhwc", 0, f32(16, 30, 2, 2), "kernel .* does not fit"),
    ("conv_2d_nhwc", 0, i32(16, 30, 2), "'kernel' is I32"),
    ("conv_2d_nhwc", 1, f32(6, 7, 6, 2), "kernel .* does not fit"),
    ("conv_2d_nhwc", 2, f32(32), "bias .* does not fit"),
    ("conv_2d_nhwc", 2, f32(1, 1, 20), "bias .* does not fit"),
    ("conv_2d_nhwc", 2, i32(20), "'bias' is I32"),
    ("conv_2d_nhwc", 3, f32(20, 5, 5), "residual .* does not fit"),
    ("conv_2d_nhwc", 3, f32(20, 7, 6, 2), "residual .* does not fit"),
    ("conv_2d_dw_nhwc", 0, f32(3, 2, 1, 5), "depthwise kernel .* does not fit"),
    ("conv_2d_dw_nhwc", 0, f32(5, 2, 3), "depthwise kernel .* does not fit"),
    ("conv_2d_dw_nhwc", 1, i32(5, 7, 6, 2), "'x' is I32"),
    ("conv_2d_dw_nhwc", 2, f32(1), "bias .* does not fit"),
    ("conv_2d_dw_nhwc", 3, f32(5, 5, 5, 1), "residual .* does not fit"),
    ("pool_2d_nhwc", 0, i32(5, 7, 6, 2), "'x' is I32"),
]


@pytest.mark.parametrize(("op", "index", "type", "message"), _MISFITS)
def test_operands_that_do_not_fit_are_refused(
    op: str, index: int, type: TensorType, message: str
) -> None:
    operands = list(_GOOD[op])
    operands[index] = type
    with pytest.raises(IRError, match=rf"{op}: .*{message}"):
        _call(op, operands)


@pytest.mark.parametrize("op", ["conv_2d_nhwc", "conv_2d_dw_nhwc"])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"stride0": 0}, "stride0 must be positive"),
        ({"dilation1": 0}, "dilation1 must be positive"),
        ({"padding1": -1}, "padding1 must not be negative"),
        ({"after0": -1}, "after0 must not be negative"),
    ],
)
def test_windows_that_are_none_are_refused(op: str, changed: dict[str, int], message: str) -> None:
    with pytest.raises(IRError, match=f"{op}: {message}"):
        _call(op, _GOOD[op], **changed)


@pytest.mark.parametrize("op", _GOOD)
def test_windows_beyond_the_image_are_refused(op: str) -> None:
    large = _call(op, [*_GOOD[op][:2], None, None][: len(_GOOD[op])], stride1=1, **_too_wide(op))
    with pytest.raises(IRVerifyError, match=rf"call 0 \({op}\)"):
        verify_graph(large)


def _too_wide(op: str) -> dict[str, int]:
    return {"kernel0": 9} if op == "pool_2d_nhwc" else {"dilation0": 5}


def test_operands_are_contiguous() -> None:
    graph = Graph()
    x = graph.input(f32(7, 6, 5, 2), FLOAT, (2, 5, 6, 7))
    turned = graph.call("permute", x, axis0=1, axis1=2, axis2=0, axis3=3)
    with pytest.raises(IRError, match="'x' must be contiguous"):
        graph.call("pool_2d_nhwc", turned, kind=0, kernel0=2, kernel1=2, stride0=1, stride1=1)


def test_a_declared_result_of_another_size_is_refused() -> None:
    graph = _call("conv_2d_nhwc", _GOOD["conv_2d_nhwc"])
    graph.calls[0].params["channels"] = 21
    with pytest.raises(IRVerifyError, match=r"call 0 \(conv_2d_nhwc\)"):
        verify_graph(graph)
