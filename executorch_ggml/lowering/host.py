"""Calls of host-side ops: integers, comparisons, and functions that ggml lacks.

A value is I32 for every integer torch dtype; what its arithmetic wraps to is a
parameter of the call (:func:`int_type`). Floats are F32.
"""

from __future__ import annotations

import torch

from executorch_ggml.ir.enums import HostBinary, HostUnary, IntType
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import DType
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.registry import Unsupported

_INT_TYPES = {
    torch.int64: IntType.I64,
    torch.int32: IntType.I32,
    torch.int16: IntType.I16,
    torch.int8: IntType.I8,
    torch.uint8: IntType.U8,
    torch.bool: IntType.BOOL,
}

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)

#: What each integer type holds: (bits, is signed).
_WIDTHS = {
    torch.int64: (64, True),
    torch.int32: (32, True),
    torch.int16: (16, True),
    torch.int8: (8, True),
    torch.uint8: (8, False),
    torch.bool: (1, False),
}


def int_type(dtype: torch.dtype) -> IntType:
    """Whose arithmetic integers of a torch dtype follow; I64 for a float."""
    return _INT_TYPES.get(dtype, IntType.I64)


def host_unary(
    ctx: LoweringContext,
    kind: HostUnary,
    x: Value,
    dtype: torch.dtype = torch.float32,
    p: float = 0.0,
    q: float = 0.0,
    r: float = 0.0,
) -> Value:
    """A function of one value; ``dtype`` is the result's."""
    return ctx.call("host_unary", x, kind=int(kind), type=int(int_type(dtype)), p=p, q=q, r=r)


def host_binary(
    ctx: LoweringContext, kind: HostBinary, a: Value, b: Value, dtype: torch.dtype = torch.float32
) -> Value:
    """A function of two values of one element type; ``dtype`` is the result's."""
    return ctx.call("host_binary", a, b, kind=int(kind), type=int(int_type(dtype)))


def where(ctx: LoweringContext, condition: Value, a: Value, b: Value) -> Value:
    """``condition != 0 ? a : b``, broadcast."""
    return ctx.call("host_where", condition, a, b)


def iota(ctx: LoweringContext, length: object, start: object = 0, step: object = 1) -> Value:
    """``start + step * i`` for ``i`` below ``length``, as I32."""
    return ctx.call("host_iota", ne0=length, ne1=1, ne2=1, ne3=1, start=start, step=step)


def converted(ctx: LoweringContext, x: Tensor, target: torch.dtype) -> Value:
    """The tensor's elements in another dtype, as ``Tensor.to`` converts them.

    Half precision is rounded to, since what follows may tell (a comparison, a floor).

    Raises:
        Unsupported: a dtype that no value of a delegate has.
    """
    if x.dtype == target:
        return x.value
    if x.is_float and target in _FLOATS:
        value = ctx.as_f32(x).value
        narrows = target in (torch.float16, torch.bfloat16)
        return rounded(ctx, value, target) if narrows else value
    if target in _FLOATS:
        value = ctx.call("cast", ctx.contiguous(x.value), dtype=int(DType.F32))
        # bool and 8-bit values are exact in every float type.
        exact = target == torch.float32 or _WIDTHS[x.dtype][0] <= 8
        return value if exact else rounded(ctx, value, target)
    if target not in _INT_TYPES:
        raise Unsupported(f"a conversion from {x.dtype} to {target}")
    if x.is_float:
        return ctx.call("host_convert", ctx.as_f32(x).value, to=int(int_type(target)))
    bits, signed = _WIDTHS[x.dtype]
    target_bits, target_signed = _WIDTHS[target]
    holds_all = target_bits > bits and (target_signed or not signed)
    if holds_all or target == torch.int64:
        return x.value
    return ctx.call("host_convert", x.value, to=int(int_type(target)))


def rounded(ctx: LoweringContext, value: Value, dtype: torch.dtype) -> Value:
    """An F32 value rounded to the nearest F16 or BF16."""
    kind = DType.F16 if dtype == torch.float16 else DType.BF16
    return ctx.call("host_round", value, dtype=int(kind))
