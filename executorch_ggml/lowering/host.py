"""Calls of host-side ops: integers, comparisons, and functions that ggml lacks.

A value is I32 for every integer torch dtype; what its arithmetic wraps to is a
parameter of the call (:func:`int_type`). Floats are F32.
"""

from __future__ import annotations

import torch
from executorch.exir.tensor import scalar_type_enum

from executorch_ggml.ir.enums import HostBinary, HostUnary, IntType, Unary
from executorch_ggml.ir.graph import Value, ValueKind
from executorch_ggml.ir.types import Dim, DType
from executorch_ggml.lowering.context import FLOATS, HALVES, LoweringContext, Tensor
from executorch_ggml.lowering.registry import Unsupported

_INT_TYPES = {
    torch.int64: IntType.I64,
    torch.int32: IntType.I32,
    torch.int16: IntType.I16,
    torch.int8: IntType.I8,
    torch.uint8: IntType.U8,
    torch.bool: IntType.BOOL,
}

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


def integer(ctx: LoweringContext, size: Dim) -> Value:
    """A size, which may depend on the program's inputs, as one I32 value."""
    if isinstance(size, int):
        return ctx.constant(torch.tensor(size))
    return iota(ctx, 1, start=size)


def held(ctx: LoweringContext, x: Tensor, target: torch.dtype) -> Value:
    """The tensor's elements as values of another dtype, for arithmetic in that dtype.

    A half-precision result stays unrounded, as every value of such a dtype does inside a
    delegate: see :func:`settled` for where the rounding is made up for.

    Raises:
        Unsupported: a dtype that no value of a delegate has.
    """
    if x.dtype == target:
        return ctx.widened(x).value
    if target in FLOATS:
        if x.is_float:
            return settled(ctx, x)
        return ctx.call("cast", ctx.contiguous(x.value), dtype=int(DType.F32))
    if target not in _INT_TYPES:
        raise Unsupported(f"a conversion from {x.dtype} to {target}")
    if x.is_float:
        return ctx.call("host_convert", settled(ctx, x), to=int(int_type(target)))
    bits, signed = _WIDTHS[x.dtype]
    target_bits, target_signed = _WIDTHS[target]
    holds_all = target_bits > bits and (target_signed or not signed)
    if holds_all or target in (torch.int64, torch.int32):  # a value has 32 bits
        return x.value
    return ctx.call("host_convert", x.value, to=int(int_type(target)))


def settled(ctx: LoweringContext, x: Tensor) -> Value:
    """The tensor's elements exactly as its dtype holds them.

    Half-precision values are computed in F32 and rounded where they leave the delegate.
    What tells an unrounded value from a rounded one settles it first: a conversion to
    another dtype, a comparison, and functions that jump (``floor``, ``remainder``, ``sign``).
    """
    if not x.is_float:
        return x.value
    value = ctx.as_f32(x).value
    if x.dtype == torch.float32 or _is_settled(ctx, value, x.dtype):
        return value
    return rounded(ctx, value, x.dtype)


def converted(ctx: LoweringContext, x: Tensor, target: torch.dtype) -> Value:
    """The tensor's elements in another dtype, exactly as ``Tensor.to`` converts them.

    Raises:
        Unsupported: a dtype that no value of a delegate has.
    """
    return settled(ctx, Tensor(held(ctx, x, target), x.shape, target))


def as_dtype(ctx: LoweringContext, x: Tensor, dtype: torch.dtype) -> Tensor:
    """As :func:`converted`, with its shape: F32 if floating point."""
    return Tensor(converted(ctx, x, dtype), x.shape, dtype)


#: Functions of one operand that give values of a half-precision type for such values.
_KEEPS_SETTLED = frozenset(
    {"reshape", "permute", "view", "cont", "repeat", "get_rows", "host_gather", "cast"}
)
_KEEPS_SETTLED_UNARY = frozenset(
    {Unary.ABS, Unary.NEG, Unary.RELU, Unary.FLOOR, Unary.CEIL, Unary.TRUNC, Unary.SGN}
)


def _is_settled(ctx: LoweringContext, value: Value, dtype: torch.dtype) -> bool:
    """Whether an F32 value is known to hold elements of a half-precision dtype."""
    while value.producer is not None:
        call = value.producer
        if call.op.name == "host_round":
            return bool(call.params["dtype"] == int(HALVES[dtype]))
        keeps = call.op.name in _KEEPS_SETTLED or (
            call.op.name == "unary" and call.params["kind"] in _KEEPS_SETTLED_UNARY
        )
        source = call.inputs[0] if keeps else None
        if source is None:
            return False
        value = source
    if value.kind is ValueKind.WEIGHT:
        return value.type.dtype == HALVES[dtype]
    code = int(scalar_type_enum(dtype))
    return any(a.value is value and a.scalar_type == code for a in ctx.graph.inputs)


def rounded(ctx: LoweringContext, value: Value, dtype: torch.dtype) -> Value:
    """An F32 value rounded to the nearest F16 or BF16."""
    return ctx.call("host_round", value, dtype=int(HALVES[dtype]))
