"""Shape rules of the ops over channels-last images, ``ne = (c, w, h, n)``."""

from __future__ import annotations

from executorch_ggml.ir.shape_rules import (
    Params,
    Types,
    conv_extent,
    describe,
    operand,
    require,
    require_contiguous,
    require_dtype,
)
from executorch_ggml.ir.types import Dim, DType, TensorType, extents_equal, simplify_dim

#: Output channels of a packed kernel lie in panels of this many, the last filled with zeros.
PANEL = 16


def conv_2d_nhwc(types: Types, params: Params) -> tuple[TensorType, ...]:
    """kernel [16, kh * kw * c_in, ceil(c_out / 16)] and x [c_in, w, h, n] give [c_out, ow, oh, n].

    The kernel's rows are ordered by window row, window column, input channel.
    """
    kernel = operand(types, 0, "kernel")
    require_dtype(kernel, "kernel", DType.F32, DType.F16, DType.BF16)
    require_contiguous(kernel, "kernel")
    x = _floats(types, 1, "x")
    channels = params["channels"]
    require(channels > 0, "channels must be positive")
    packed = (PANEL, simplify_dim(x.ne[0] * _taps(params)), -(-channels // PANEL), 1)
    require(
        extents_equal(kernel.ne, packed),
        f"kernel {describe(kernel)} does not fit {describe(x)}",
    )
    return (_result(types, params, x, channels),)


def conv_2d_dw_nhwc(types: Types, params: Params) -> tuple[TensorType, ...]:
    """kernel [c, kw, kh] and x [c, w, h, n] give [c, ow, oh, n]."""
    kernel = _floats(types, 0, "kernel")
    x = _floats(types, 1, "x")
    expected = (x.ne[0], params["kernel0"], params["kernel1"], 1)
    require(
        extents_equal(kernel.ne, expected),
        f"depthwise kernel {describe(kernel)} does not fit {describe(x)}",
    )
    return (_result(types, params, x, x.ne[0]),)


def pool_2d_nhwc(types: Types, params: Params) -> tuple[TensorType, ...]:
    """x [c, w, h, n] gives [c, ow, oh, n]; an average counts the padding."""
    x = _floats(types, 0, "x")
    ne = [
        conv_extent(
            x.ne[i + 1], params[f"kernel{i}"], params[f"stride{i}"], params[f"padding{i}"], 1
        )
        for i in (0, 1)
    ]
    return (TensorType.contiguous(DType.F32, [x.ne[0], *ne, x.ne[3]]),)


def _floats(types: Types, index: int, name: str) -> TensorType:
    found = operand(types, index, name)
    require_dtype(found, name, DType.F32)
    require_contiguous(found, name)
    return found


def _taps(params: Params) -> int:
    return int(params["kernel0"] * params["kernel1"])


def _result(types: Types, params: Params, x: TensorType, channels: Dim) -> TensorType:
    ne = []
    for i in (0, 1):
        for name in ("kernel", "stride", "dilation"):
            require(params[f"{name}{i}"] > 0, f"{name}{i} must be positive")
        for name in ("padding", "after"):
            require(params[f"{name}{i}"] >= 0, f"{name}{i} must not be negative")
        size = simplify_dim(x.ne[i + 1] + params[f"padding{i}"] + params[f"after{i}"])
        kernel, stride = params[f"kernel{i}"], params[f"stride{i}"]
        ne.append(conv_extent(size, kernel, stride, 0, params[f"dilation{i}"]))
    result = TensorType.contiguous(DType.F32, [channels, *ne, x.ne[3]])
    if len(types) > 2 and types[2] is not None:
        bias = _floats(types, 2, "bias")
        require(
            extents_equal(bias.ne, (channels, 1, 1, 1)),
            f"bias {describe(bias)} does not fit {describe(result)}",
        )
    if len(types) > 3 and types[3] is not None:
        residual = _floats(types, 3, "residual")
        require(
            extents_equal(residual.ne, result.ne),
            f"residual {describe(residual)} does not fit {describe(result)}",
        )
    return result
