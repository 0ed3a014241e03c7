"""What each host-side op computes, in torch; see :mod:`executorch_ggml.ir.reference`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from executorch_ggml.ir.enums import (
    HostBinary,
    HostPool,
    HostReduce,
    HostResize,
    HostScan,
    HostUnary,
    IntType,
    Scatter,
)
from executorch_ggml.ir.reference import Context, Inputs, Params, operand
from executorch_ggml.ir.types import DType, IRError

_INT_TYPES: Final[Mapping[IntType, torch.dtype]] = {
    IntType.I32: torch.int32,
    IntType.I16: torch.int16,
    IntType.I8: torch.int8,
    IntType.U8: torch.uint8,
    IntType.BOOL: torch.bool,
}

_I32_MIN, _I32_MAX = -(2**31), 2**31 - 1
_I64_MIN = -(2**63)


def wrapped(x: Tensor, type: IntType) -> Tensor:
    """int64 values as I32, with the wrap-around of an integer type.

    Raises:
        IRError: an I64 value that does not fit 32 bits.
    """
    if type is IntType.I64:
        if x.numel() and (int(x.min()) < _I32_MIN or int(x.max()) > _I32_MAX):
            raise IRError("an integer result does not fit 32 bits")
        return x.to(torch.int32)
    return x.to(_INT_TYPES[type]).to(torch.int32)


def _elu(x: Tensor, p: Params) -> Tensor:
    return torch.where(x > 0, x * p["q"], torch.expm1(x * p["r"]) * (p["p"] * p["q"]))


_Function = Callable[[Tensor, Params], Tensor]

_UNARY: Final[Mapping[HostUnary, _Function]] = {
    HostUnary.RELU: lambda x, p: torch.relu(x),
    HostUnary.SIGN: lambda x, p: torch.sign(x),
    HostUnary.ROUND_EVEN: lambda x, p: torch.round(x),
    HostUnary.FRAC: lambda x, p: torch.frac(x),
    HostUnary.RSQRT: lambda x, p: torch.rsqrt(x),
    HostUnary.RECIPROCAL: lambda x, p: torch.reciprocal(x),
    HostUnary.LOG2: lambda x, p: torch.log2(x),
    HostUnary.LOG10: lambda x, p: torch.log10(x),
    HostUnary.LOG1P: lambda x, p: torch.log1p(x),
    HostUnary.EXP2: lambda x, p: torch.exp2(x),
    HostUnary.EXPM1: lambda x, p: torch.expm1(x),
    HostUnary.TAN: lambda x, p: torch.tan(x),
    HostUnary.ASIN: lambda x, p: torch.asin(x),
    HostUnary.ACOS: lambda x, p: torch.acos(x),
    HostUnary.ATAN: lambda x, p: torch.atan(x),
    HostUnary.SINH: lambda x, p: torch.sinh(x),
    HostUnary.COSH: lambda x, p: torch.cosh(x),
    HostUnary.ASINH: lambda x, p: torch.asinh(x),
    HostUnary.ACOSH: lambda x, p: torch.acosh(x),
    HostUnary.ATANH: lambda x, p: torch.atanh(x),
    HostUnary.ERF: lambda x, p: torch.erf(x),
    HostUnary.ERFC: lambda x, p: torch.erfc(x),
    HostUnary.LGAMMA: lambda x, p: torch.lgamma(x),
    HostUnary.ELU: _elu,
    HostUnary.SOFTPLUS: lambda x, p: F.softplus(x, p["p"], p["q"]),
    HostUnary.THRESHOLD: lambda x, p: F.threshold(x, p["p"], p["q"]),
    HostUnary.HARDSHRINK: lambda x, p: F.hardshrink(x, p["p"]),
    HostUnary.SOFTSHRINK: lambda x, p: F.softshrink(x, p["p"]),
    HostUnary.CLAMP: lambda x, p: torch.clamp(x, p["p"], p["q"]),
    HostUnary.NAN_TO_NUM: lambda x, p: torch.nan_to_num(x, p["p"], p["q"], p["r"]),
    HostUnary.LOG_SIGMOID: lambda x, p: F.logsigmoid(x),
    HostUnary.LEAKY_RELU: lambda x, p: F.leaky_relu(x, p["p"]),
    HostUnary.ABS: lambda x, p: torch.abs(x),
    HostUnary.NEG: lambda x, p: torch.neg(x),
    HostUnary.BITWISE_NOT: lambda x, p: torch.bitwise_not(x),
    HostUnary.HARDSIGMOID: lambda x, p: F.hardsigmoid(x),
    HostUnary.LOGICAL_NOT: lambda x, p: torch.logical_not(x),
    HostUnary.IS_NAN: lambda x, p: torch.isnan(x),
    HostUnary.IS_INF: lambda x, p: torch.isinf(x),
    HostUnary.SIGN_BIT: lambda x, p: torch.signbit(x),
}


def host_unary(x: Inputs, p: Params, c: Context) -> Tensor:
    kind = HostUnary(p["kind"])
    source = operand(x, 0).contiguous()
    if source.dtype != torch.int32:
        result = _UNARY[kind](source, p)
        return result.to(torch.int32) if result.dtype == torch.bool else result
    return wrapped(_UNARY[kind](source.to(torch.int64), p), IntType(p["type"]))


_BINARY: Final[Mapping[HostBinary, Callable[[Tensor, Tensor], Tensor]]] = {
    HostBinary.ADD: torch.add,
    HostBinary.SUB: torch.sub,
    HostBinary.MUL: torch.mul,
    HostBinary.DIV_TRUNC: lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    HostBinary.DIV_FLOOR: lambda a, b: torch.div(a, b, rounding_mode="floor"),
    HostBinary.REMAINDER: torch.remainder,
    HostBinary.FMOD: torch.fmod,
    HostBinary.POW: torch.pow,
    HostBinary.MAXIMUM: torch.maximum,
    HostBinary.MINIMUM: torch.minimum,
    HostBinary.FMAX: torch.fmax,
    HostBinary.FMIN: torch.fmin,
    HostBinary.ATAN2: torch.atan2,
    HostBinary.HYPOT: torch.hypot,
    HostBinary.COPYSIGN: torch.copysign,
    HostBinary.XLOGY: torch.xlogy,
    HostBinary.BITWISE_AND: torch.bitwise_and,
    HostBinary.BITWISE_OR: torch.bitwise_or,
    HostBinary.BITWISE_XOR: torch.bitwise_xor,
    HostBinary.SHIFT_LEFT: torch.bitwise_left_shift,
    HostBinary.SHIFT_RIGHT: torch.bitwise_right_shift,
    HostBinary.EQ: torch.eq,
    HostBinary.NE: torch.ne,
    HostBinary.LT: torch.lt,
    HostBinary.LE: torch.le,
    HostBinary.GT: torch.gt,
    HostBinary.GE: torch.ge,
    HostBinary.LOGICAL_AND: torch.logical_and,
    HostBinary.LOGICAL_OR: torch.logical_or,
    HostBinary.LOGICAL_XOR: torch.logical_xor,
}

_DIVISIONS = frozenset(
    {HostBinary.DIV_TRUNC, HostBinary.DIV_FLOOR, HostBinary.REMAINDER, HostBinary.FMOD}
)


def host_binary(x: Inputs, p: Params, c: Context) -> Tensor:
    kind = HostBinary(p["kind"])
    a, b = operand(x, 0), operand(x, 1)
    if a.dtype != torch.int32:
        result = _BINARY[kind](a, b).contiguous()
        return result.to(torch.int32) if result.dtype == torch.bool else result
    if kind in _DIVISIONS and bool((b == 0).any()):
        raise IRError("an integer is divided by zero")
    if kind is HostBinary.POW:
        shape = torch.logical_and(a, b).shape
        a, b = a.expand(shape), b.expand(shape)
        exact = [_int_pow(int(m), int(n)) for m, n in zip(a.flatten(), b.flatten(), strict=True)]
        type = IntType(p["type"])
        if type is IntType.I64 and any(not _I32_MIN <= v <= _I32_MAX for v in exact):
            raise IRError("an integer result does not fit 32 bits")
        low = [(v + 2**63) % 2**64 - 2**63 for v in exact]
        return wrapped(torch.tensor(low, dtype=torch.int64).reshape(a.shape), type)
    wide = _BINARY[kind](a.to(torch.int64), b.to(torch.int64)).contiguous()
    return wrapped(wide.to(torch.int64), IntType(p["type"]))


def _int_pow(base: int, exponent: int) -> int:
    if exponent >= 0:
        return int(base**exponent)
    if base == 0:
        raise IRError("an integer is divided by zero")
    return base ** (-exponent % 2) if abs(base) == 1 else 0


def host_where(x: Inputs, p: Params, c: Context) -> Tensor:
    return torch.where(operand(x, 0) != 0, operand(x, 1), operand(x, 2)).contiguous()


def host_convert(x: Inputs, p: Params, c: Context) -> Tensor:
    """A float loses its fraction; to BOOL, what is not 0 becomes 1."""
    source, type = operand(x, 0), IntType(p["to"])
    if type is IntType.BOOL:
        return (source != 0).to(torch.int32).contiguous()
    # torch takes a float that its integer type does not hold through 64 or 32 bits.
    through = torch.int64 if type is IntType.I64 or source.dtype == torch.int32 else torch.int32
    whole = source.to(through).to(torch.int64)
    # What int64 does not hold becomes its smallest value: here that of int32.
    return wrapped(whole.masked_fill(whole == _I64_MIN, _I32_MIN), type).contiguous()


def host_round(x: Inputs, p: Params, c: Context) -> Tensor:
    dtype = torch.float16 if p["dtype"] == DType.F16 else torch.bfloat16
    return operand(x, 0).to(dtype).to(torch.float32).contiguous()


def host_reduce(x: Inputs, p: Params, c: Context) -> Tensor:
    source, kind = operand(x, 0), HostReduce(p["kind"])
    correction = p["correction"]
    if kind in (HostReduce.SUM, HostReduce.PROD):
        wide = source.to(torch.int64) if source.dtype == torch.int32 else source
        result = (
            wide.sum(-1, keepdim=True) if kind is HostReduce.SUM else wide.prod(-1, keepdim=True)
        )
        return result if source.is_floating_point() else wrapped(result, IntType(p["type"]))
    functions: dict[HostReduce, Callable[[], Tensor]] = {
        HostReduce.MAX: lambda: source.amax(-1, keepdim=True),
        HostReduce.MIN: lambda: source.amin(-1, keepdim=True),
        HostReduce.ARGMAX: lambda: source.argmax(-1, keepdim=True),
        HostReduce.ARGMIN: lambda: source.argmin(-1, keepdim=True),
        HostReduce.ANY: lambda: source.any(-1, keepdim=True),
        HostReduce.ALL: lambda: source.all(-1, keepdim=True),
        HostReduce.VAR: lambda: source.var(-1, correction=correction, keepdim=True),
        HostReduce.LOGSUMEXP: lambda: source.logsumexp(-1, keepdim=True),
        HostReduce.NORM: lambda: torch.linalg.vector_norm(source, correction, -1, keepdim=True),
    }
    result = functions[kind]()
    return result.contiguous() if result.dtype == source.dtype else result.to(torch.int32)


def host_scan(x: Inputs, p: Params, c: Context) -> Tensor:
    source, kind = operand(x, 0), HostScan(p["kind"])
    if kind in (HostScan.SUM, HostScan.PROD):
        wide = source.to(torch.int64) if source.dtype == torch.int32 else source
        result = wide.cumsum(-1) if kind is HostScan.SUM else wide.cumprod(-1)
        return result if source.is_floating_point() else wrapped(result, IntType(p["type"]))
    if kind is HostScan.LOGSUMEXP:
        return source.logcumsumexp(-1)
    largest = kind in (HostScan.MAX, HostScan.ARGMAX)
    values, indices = source.cummax(-1) if largest else source.cummin(-1)
    is_index = kind in (HostScan.ARGMAX, HostScan.ARGMIN)
    return (indices.to(torch.int32) if is_index else values).contiguous()


def host_argsort(x: Inputs, p: Params, c: Context) -> Tensor:
    descending = bool(p["descending"])
    found = torch.sort(operand(x, 0), dim=-1, descending=descending, stable=True).indices
    return found.to(torch.int32).contiguous()


def _checked(index: Tensor, limit: int) -> Tensor:
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= limit):
        raise IRError(f"index {int(index.min())}..{int(index.max())} of {limit}")
    return index.to(torch.int64)


def host_gather(x: Inputs, p: Params, c: Context) -> Tensor:
    source, index = operand(x, 0), operand(x, 1)
    _checked(index, source.shape[-1])
    shape = [max(a, b) for a, b in zip(source.shape[:3], index.shape[:3], strict=True)]
    rows = source.expand(*shape, source.shape[-1])
    return rows.gather(-1, index.to(torch.int64).expand(*shape, index.shape[-1])).contiguous()


_SCATTER: Final[Mapping[Scatter, str | None]] = {
    Scatter.SET: None,
    Scatter.ADD: "sum",
    Scatter.MUL: "prod",
    Scatter.MAX: "amax",
    Scatter.MIN: "amin",
}


def host_scatter(x: Inputs, p: Params, c: Context) -> Tensor:
    """Indices in order: of several writes to one element, the last stands."""
    result = operand(x, 0).clone(memory_format=torch.contiguous_format)
    src = operand(x, 2)
    index = _checked(operand(x, 1), result.shape[-1]).expand(src.shape)
    reduce = _SCATTER[Scatter(p["mode"])]
    if reduce is None:
        for i in range(src.shape[-1]):  # torch leaves the order of equal indices open
            result.scatter_(-1, index[..., i : i + 1], src[..., i : i + 1])
        return result
    return result.scatter_reduce_(-1, index, src, reduce)


def host_wrap_ids(x: Inputs, p: Params, c: Context) -> Tensor:
    ids, limit = operand(x, 0), p["limit"]
    shifted = torch.where(ids < 0, ids + limit, ids)
    _checked(shifted, limit)
    return shifted.contiguous()


def host_iota(x: Inputs, p: Params, c: Context) -> Tensor:
    row = p["start"] + p["step"] * torch.arange(p["ne0"], dtype=torch.int64)
    shape = [p[f"ne{i}"] for i in (3, 2, 1, 0)]
    return wrapped(row, IntType.I64).expand(shape).contiguous()


def _windows(p: Params, axis: int, extent: int) -> list[list[int]]:
    """The covered positions of each output along an axis, without those in the padding."""
    n: int = p[f"ne{axis}"]
    if p["adaptive"]:
        return [list(range(i * extent // n, -(-(i + 1) * extent // n))) for i in range(n)]
    kernel, stride = p[f"kernel{axis}"], p[f"stride{axis}"]
    starts = [i * stride - p[f"padding{axis}"] for i in range(n)]
    steps = [k * p[f"dilation{axis}"] for k in range(kernel)]
    return [[s + k for k in steps if 0 <= s + k < extent] for s in starts]


def _window_sizes(p: Params, axis: int, extent: int) -> list[int]:
    """Positions of each window including padding, as an average counts them."""
    kernel, stride, padding = (p[f"{n}{axis}"] for n in ("kernel", "stride", "padding"))
    starts = [i * stride - padding for i in range(p[f"ne{axis}"])]
    return [min(s + kernel, extent + padding) - s for s in starts]


def host_pool(x: Inputs, p: Params, c: Context) -> Tensor:
    source, kind = operand(x, 0), HostPool(p["kind"])
    planes, depth, height, width = source.shape
    windows = [_windows(p, axis, n) for axis, n in enumerate((width, height, depth))]
    sizes = [[0]] * 3
    if not p["adaptive"]:
        sizes = [_window_sizes(p, axis, n) for axis, n in enumerate((width, height, depth))]
    shape = (planes, p["ne2"], p["ne1"], p["ne0"])
    result = torch.empty(shape, dtype=torch.int32 if kind is HostPool.MAX_INDEX else torch.float32)
    for k, zs in enumerate(windows[2]):
        for j, ys in enumerate(windows[1]):
            for i, xs in enumerate(windows[0]):
                flat = [(z * height + y) * width + v for z in zs for y in ys for v in xs]
                values = source.reshape(planes, -1)[:, flat]
                if kind is HostPool.AVG:
                    divisor = p["divisor"] or len(flat)
                    if not p["divisor"] and p["count_include_pad"] and not p["adaptive"]:
                        divisor = sizes[2][k] * sizes[1][j] * sizes[0][i]
                    result[:, k, j, i] = values.sum(-1) / divisor
                elif kind is HostPool.MAX:
                    result[:, k, j, i] = values.amax(-1)
                else:
                    # The first of equals, but the last NaN.
                    bad = values.isnan()
                    last = len(flat) - 1 - bad.flip(-1).int().argmax(-1)
                    best = torch.where(bad.any(-1), last, values.argmax(-1))
                    result[:, k, j, i] = torch.tensor(flat, dtype=torch.int32)[best]
    return result


_aten = torch.ops.aten

_RESIZE: Final[Mapping[HostResize, tuple[Callable[..., Tensor] | None, ...]]] = {
    HostResize.NEAREST: (
        _aten.upsample_nearest1d,
        _aten.upsample_nearest2d,
        _aten.upsample_nearest3d,
    ),
    HostResize.NEAREST_EXACT: (
        _aten._upsample_nearest_exact1d,
        _aten._upsample_nearest_exact2d,
        _aten._upsample_nearest_exact3d,
    ),
    HostResize.LINEAR: (
        _aten.upsample_linear1d,
        _aten.upsample_bilinear2d,
        _aten.upsample_trilinear3d,
    ),
    HostResize.CUBIC: (None, _aten.upsample_bicubic2d, None),
    HostResize.LINEAR_AA: (None, _aten._upsample_bilinear2d_aa, None),
    HostResize.CUBIC_AA: (None, _aten._upsample_bicubic2d_aa, None),
}


def host_resize(x: Inputs, p: Params, c: Context) -> Tensor:
    source, kind, rank = operand(x, 0).contiguous(), HostResize(p["kind"]), p["rank"]
    function = _RESIZE[kind][rank - 1]
    assert function is not None
    axes = list(reversed(range(rank)))
    size = [p[f"ne{i}"] for i in axes]
    scales = [1.0 / p[f"step{i}"] if p[f"step{i}"] else None for i in axes]
    align = [] if kind <= HostResize.NEAREST_EXACT else [bool(p["align_corners"])]
    planes = source.reshape(1, -1, *source.shape[4 - rank :])
    shape = (source.shape[0], p["ne2"], p["ne1"], p["ne0"])
    found: Tensor = function(planes, size, *align, *scales)
    return found.reshape(shape)


def host_grid_sample(x: Inputs, p: Params, c: Context) -> Tensor:
    image, grid = operand(x, 0), operand(x, 1)
    found: Tensor = _aten.grid_sampler_2d(
        image, grid, p["mode"], p["padding"], bool(p["align_corners"])
    )
    return found.contiguous()
