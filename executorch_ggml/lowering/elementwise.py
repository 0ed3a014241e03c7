"""What the element-wise families share: operands in the dtype of a result, and basic calls.

``arithmetic``, ``unary``, ``activations`` and ``compare`` hold the lowerings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.enums import Unary
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.shape_rules import can_repeat
from executorch_ggml.ir.types import Dim, DType, dims_equal, extents_equal
from executorch_ggml.lowering.constructors import filled
from executorch_ggml.lowering.context import FLOATS, LoweringContext, Tensor
from executorch_ggml.lowering.host import converted, held, integer
from executorch_ggml.lowering.registry import Unsupported

_COMMUTATIVE = ("add", "mul")

# --- operands ---------------------------------------------------------------------------


def is_float(dtype: torch.dtype) -> bool:
    """Whether values of a dtype are F32 inside a delegate.

    Raises:
        Unsupported: a dtype that no value of a delegate has.
    """
    if (dtype.is_floating_point and dtype not in FLOATS) or dtype.is_complex:
        raise Unsupported(f"result dtype {dtype}")
    return dtype.is_floating_point


def float_dtype(ctx: LoweringContext, node: fx.Node) -> torch.dtype:
    """The dtype of a result whose values are F32 inside a delegate.

    Raises:
        Unsupported: integers, or a dtype that no value of a delegate has.
    """
    dtype = ctx.output_dtype(node)
    if dtype not in FLOATS:
        raise Unsupported(f"result dtype {dtype}")
    return dtype


def number_of(ctx: LoweringContext, arg: object) -> float | None:
    """The value of a number, or of a constant of one element."""
    return float(arg) if isinstance(arg, bool) else ctx.scalar(arg)


def constant_number(
    ctx: LoweringContext, number: float, dtype: torch.dtype, exact: bool = False
) -> Value:
    """A constant of one element; ``exact``: as the dtype holds it, not only as F32 does.

    Raises:
        Unsupported: an integer of more than 32 bits.
    """
    if dtype.is_floating_point:
        kept = torch.tensor(number, dtype=dtype if exact else torch.float32)
        return ctx.constant(kept.to(torch.float32))
    whole = int(bool(number)) if dtype == torch.bool else int(number)
    if not -(2**31) <= whole < 2**31:
        raise Unsupported(f"the integer {whole}, which does not fit 32 bits")
    return ctx.constant(torch.tensor(whole, dtype=torch.int32))


def operand(
    ctx: LoweringContext,
    arg: object,
    dtype: torch.dtype,
    shape: Sequence[Dim],
    exact: bool = False,
) -> Value:
    """A tensor or number as values of ``dtype`` that broadcast to ``shape``.

    ``exact``: half-precision values are rounded, because the caller's function jumps.
    """
    number = number_of(ctx, arg)
    if number is not None:
        return constant_number(ctx, number, dtype, exact)
    if isinstance(arg, fx.Node) and isinstance(arg.meta["val"], (torch.SymInt, int)):
        x = Tensor(integer(ctx, ctx.dim(arg)), (1,), torch.int64)  # a size of the program
    else:
        x = ctx.tensor(arg)
    value = (converted if exact else held)(ctx, x, dtype)
    return ctx.aligned(Tensor(value, x.shape, dtype), shape)


def common_dtype(a: object, b: object) -> torch.dtype:
    """The dtype to which torch promotes two tensors or numbers."""
    found: list[Any] = [x.meta["val"] if isinstance(x, fx.Node) else x for x in (a, b)]
    return torch.result_type(found[0], found[1])


def has_shape(arg: object, shape: Sequence[Dim]) -> bool:
    if not isinstance(arg, fx.Node):
        return False
    return extents_equal(LoweringContext.output_shape(arg), shape)


# --- calls ------------------------------------------------------------------------------


def binary_values(ctx: LoweringContext, op: str, a: Value, b: Value) -> Value:
    """``a op b`` with torch broadcasting; ggml broadcasts the second operand only."""
    if not can_repeat(b.type, a.type):
        if op in _COMMUTATIVE and can_repeat(a.type, b.type):
            a, b = b, a
        else:
            ne: list[Dim] = [y if dims_equal(x, 1) else x for x, y in zip(a.ne, b.ne, strict=True)]
            a = ctx.call("repeat", ctx.rows(a), **{f"ne{i}": d for i, d in enumerate(ne)})
    if a.type.dtype != DType.F32 and op in _COMMUTATIVE and b.type.dtype == DType.F32:
        a, b = b, a
    if a.type.dtype == DType.FROM_FILE:
        a = ctx.call("cast", a, dtype=int(DType.F32))
    return ctx.call(op, ctx.rows(a), ctx.rows(b))


def add_values(ctx: LoweringContext, a: Value, b: Value) -> Value:
    return binary_values(ctx, "add", a, b)


def scale_value(ctx: LoweringContext, x: Value, scale: float = 1.0, bias: float = 0.0) -> Value:
    """``x * scale + bias`` for constants."""
    if scale == 1.0 and bias == 0.0:
        return x
    return ctx.call("scale", ctx.contiguous(x), scale=scale, bias=bias)


def unary_value(ctx: LoweringContext, kind: Unary, x: Value) -> Value:
    return ctx.call("unary", ctx.rows(x), kind=int(kind))


def clamp_value(ctx: LoweringContext, x: Value, low: float, high: float) -> Value:
    return ctx.call("clamp", ctx.contiguous(x), min=low, max=high)


def divided_by(ctx: LoweringContext, x: Value, number: float) -> Value:
    """``x / number``. Only a power of two has an exact reciprocal; else divide as eager does."""
    mantissa, exponent = math.frexp(number)
    if mantissa in (0.5, -0.5) and -125 <= exponent <= 127:
        return scale_value(ctx, x, 1.0 / number)
    return ctx.call("div", ctx.rows(x), ctx.constant(torch.tensor(number)))


def ones_like(ctx: LoweringContext, x: Value) -> Value:
    return filled(ctx, 1.0, torch.float32, x.ne[::-1])


def reciprocal_value(ctx: LoweringContext, x: Value) -> Value:
    return ctx.call("div", ones_like(ctx, x), ctx.rows(x))


def float_unary(
    ctx: LoweringContext, node: fx.Node, body: Callable[[Value], Value], exact: bool = False
) -> Tensor:
    """A function of the first argument with a floating-point result.

    ``exact``: the function jumps, so half-precision values are rounded before it.
    """
    dtype = float_dtype(ctx, node)
    x = ctx.tensor(node.args[0])
    return ctx.result(node, body((converted if exact else held)(ctx, x, dtype)))
