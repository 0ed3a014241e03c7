"""Arithmetic of two operands: floats by ggml, integers by kernels that wrap as torch's do."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary, HostUnary, Unary
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import dims_equal, product
from executorch_ggml.lowering.context import HALVES, LoweringContext, Tensor
from executorch_ggml.lowering.elementwise import (
    binary_values,
    constant_number,
    divided_by,
    float_unary,
    has_shape,
    is_float,
    number_of,
    ones_like,
    operand,
    reciprocal_value,
    scale_value,
    unary_value,
)
from executorch_ggml.lowering.host import host_binary, host_unary, rounded
from executorch_ggml.lowering.registry import Unsupported, lowering

_INTEGER_KINDS = {"add": HostBinary.ADD, "sub": HostBinary.SUB, "mul": HostBinary.MUL}


def _binary(
    ctx: LoweringContext,
    node: fx.Node,
    op: str,
    scalar: Callable[[Value, float], Value],
    scalar_first: Callable[[float, Value], Value] | None = None,
) -> Tensor:
    """Tensor with tensor or number; ``scalar`` lowers ``tensor op number`` of floats."""
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    first, second = node.args[0], node.args[1]
    if is_float(dtype):
        if (number := number_of(ctx, second)) is not None and has_shape(first, shape):
            return ctx.result(node, scalar(operand(ctx, first, dtype, shape), number))
        number = number_of(ctx, first)
        if number is not None and scalar_first is not None and has_shape(second, shape):
            return ctx.result(node, scalar_first(number, operand(ctx, second, dtype, shape)))
    a, b = operand(ctx, first, dtype, shape), operand(ctx, second, dtype, shape)
    if is_float(dtype):
        return ctx.result(node, binary_values(ctx, op, a, b))
    return ctx.result(node, host_binary(ctx, _INTEGER_KINDS[op], a, b, dtype))


def host_binary_node(
    ctx: LoweringContext, node: fx.Node, kind: HostBinary, exact: bool = False
) -> Tensor:
    """A host-side function of the first two arguments in the dtype of the result."""
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    is_float(dtype)
    a, b = (operand(ctx, arg, dtype, shape, exact) for arg in node.args[:2])
    return ctx.result(node, host_binary(ctx, kind, a, b, dtype))


# --- sums and products --------------------------------------------------------------------


def _plus_scaled(
    ctx: LoweringContext, node: fx.Node, op: str, first: object, second: object
) -> Tensor:
    """``first op alpha * second`` where alpha is not 1."""
    alpha = ctx.number(ctx.argument(node, 2, "alpha", 1), "alpha")
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    a, b = operand(ctx, first, dtype, shape), operand(ctx, second, dtype, shape)
    if is_float(dtype):
        return ctx.result(node, binary_values(ctx, op, a, scale_value(ctx, b, alpha)))
    scaled = host_binary(ctx, HostBinary.MUL, b, constant_number(ctx, alpha, dtype), dtype)
    return ctx.result(node, host_binary(ctx, _INTEGER_KINDS[op], a, scaled, dtype))


def _has_alpha(ctx: LoweringContext, node: fx.Node) -> bool:
    return ctx.number(ctx.argument(node, 2, "alpha", 1), "alpha") != 1.0


@lowering("aten.add.Tensor", "aten.add.Scalar")
def add(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``input + alpha * other``."""
    if _has_alpha(ctx, node):
        return _plus_scaled(ctx, node, "add", node.args[0], node.args[1])
    return _binary(
        ctx,
        node,
        "add",
        lambda x, y: scale_value(ctx, x, 1.0, y),
        lambda x, y: scale_value(ctx, y, 1.0, x),
    )


@lowering("aten.sub.Tensor", "aten.sub.Scalar")
def sub(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``input - alpha * other``."""
    if _has_alpha(ctx, node):
        return _plus_scaled(ctx, node, "sub", node.args[0], node.args[1])
    return _binary(
        ctx,
        node,
        "sub",
        lambda x, y: scale_value(ctx, x, 1.0, -y),
        lambda x, y: scale_value(ctx, y, -1.0, x),
    )


@lowering("aten.rsub.Scalar", "aten.rsub.Tensor")
def rsub(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``other - alpha * input``."""
    return _plus_scaled(ctx, node, "sub", node.args[1], node.args[0])


@lowering("aten.mul.Tensor", "aten.mul.Scalar")
def mul(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _binary(
        ctx,
        node,
        "mul",
        lambda x, y: scale_value(ctx, x, y),
        lambda x, y: scale_value(ctx, y, x),
    )


@lowering("aten.lerp.Scalar", whole=True)
def lerp(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """From whichever end is nearer, as torch: the far one is then exact at weight 1."""
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    if not is_float(dtype):
        raise Unsupported(f"result dtype {dtype}")
    weight = ctx.number(node.args[2], "weight")
    start, end = (operand(ctx, arg, dtype, shape) for arg in node.args[:2])
    distance = binary_values(ctx, "sub", end, start)
    if abs(weight) < 0.5:
        moved = scale_value(ctx, distance, weight)
        return ctx.result(node, binary_values(ctx, "add", start, moved))
    moved = scale_value(ctx, distance, 1.0 - weight)
    return ctx.result(node, binary_values(ctx, "sub", end, moved))


# --- quotients ----------------------------------------------------------------------------


@lowering("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _divide(ctx, node)


def _divide(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The quotient of integers is a float too."""
    return _binary(ctx, node, "div", lambda x, y: divided_by(ctx, x, y))


@lowering("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(ctx: LoweringContext, node: fx.Node) -> Tensor:
    mode = ctx.argument(node, 2, "rounding_mode")
    if mode is None:
        return _divide(ctx, node)
    return _divide_floor(ctx, node) if mode == "floor" else _divide_trunc(ctx, node)


def _divides_by_one_number(ctx: LoweringContext, node: fx.Node) -> bool:
    divisor = node.args[1]
    if number_of(ctx, divisor) is not None or not isinstance(divisor, fx.Node):
        return True
    if not isinstance(divisor.meta["val"], torch.Tensor):
        return True  # a size of the program
    return bool(dims_equal(product(ctx.output_shape(divisor)), 1))


def _divide_trunc(ctx: LoweringContext, node: fx.Node) -> Tensor:
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    if not is_float(dtype):
        return host_binary_node(ctx, node, HostBinary.DIV_TRUNC)
    a = operand(ctx, node.args[0], dtype, shape, exact=True)
    # torch divides by one number in F32, whatever the dtype.
    one_number = _divides_by_one_number(ctx, node)
    quotient = binary_values(
        ctx, "div", a, operand(ctx, node.args[1], dtype, shape, exact=not one_number)
    )
    if dtype in HALVES and not one_number:
        quotient = rounded(ctx, quotient, dtype)
    return ctx.result(node, unary_value(ctx, Unary.TRUNC, quotient))


@lowering("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _divide_floor(ctx, node)


def _divide_floor(ctx: LoweringContext, node: fx.Node) -> Tensor:
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    one_number = _divides_by_one_number(ctx, node)
    if is_float(dtype) and dtype in HALVES and not one_number:
        # torch rounds after each of the steps, and the floor shows it.
        raise Unsupported(f"a floor division of {dtype} tensors")
    a = operand(ctx, node.args[0], dtype, shape, exact=True)
    b = operand(ctx, node.args[1], dtype, shape)
    return ctx.result(node, host_binary(ctx, HostBinary.DIV_FLOOR, a, b, dtype))


@lowering("aten.remainder.Tensor", "aten.remainder.Scalar")
@lowering("aten.remainder.Scalar_Tensor", whole=True)
def remainder(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The sign is the divisor's."""
    return host_binary_node(ctx, node, HostBinary.REMAINDER, exact=True)


@lowering("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The sign is the dividend's."""
    return host_binary_node(ctx, node, HostBinary.FMOD, exact=True)


# --- powers -------------------------------------------------------------------------------


@lowering("aten.pow.Tensor_Scalar")
def pow_scalar(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _power(ctx, node, ctx.number(node.args[1], "exponent"))


@lowering("aten.square.default")
def square(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _power(ctx, node, 2.0)


def _power(ctx: LoweringContext, node: fx.Node, exponent: float) -> Tensor:
    """Calls of ggml for the exponents that torch does not take to ``pow`` either."""
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    x = operand(ctx, node.args[0], dtype, shape)
    if not is_float(dtype):
        if exponent == 1.0:
            return ctx.result(node, x)
        if exponent == 2.0:
            return ctx.result(node, host_binary(ctx, HostBinary.MUL, x, x, dtype))
        if exponent < 0:
            raise Unsupported("an integer to a negative power")
        n = constant_number(ctx, exponent, dtype)
        return ctx.result(node, host_binary(ctx, HostBinary.POW, x, n, dtype))

    def square_of(y: Value) -> Value:
        return ctx.call("sqr", ctx.rows(y))

    exact: dict[float, Callable[[], Value]] = {
        0.0: lambda: ones_like(ctx, x),
        1.0: lambda: x,
        2.0: lambda: square_of(x),
        3.0: lambda: ctx.call("mul", square_of(x), ctx.rows(x)),
        4.0: lambda: square_of(square_of(x)),
        0.5: lambda: ctx.call("sqrt", ctx.rows(x)),
        -0.5: lambda: reciprocal_value(ctx, ctx.call("sqrt", ctx.rows(x))),
        -1.0: lambda: reciprocal_value(ctx, x),
        -2.0: lambda: reciprocal_value(ctx, square_of(x)),
    }
    if exponent in exact:
        return ctx.result(node, exact[exponent]())
    n = constant_number(ctx, exponent, dtype)
    return ctx.result(node, host_binary(ctx, HostBinary.POW, x, n, dtype))


@lowering("aten.pow.Tensor_Tensor")
def pow_tensor(ctx: LoweringContext, node: fx.Node) -> Tensor:
    exponent = number_of(ctx, node.args[1])
    if exponent is not None and has_shape(node.args[0], ctx.output_shape(node)):
        return _power(ctx, node, exponent)
    return host_binary_node(ctx, node, HostBinary.POW)


@lowering("aten.pow.Scalar")
def pow_of_number(ctx: LoweringContext, node: fx.Node) -> Tensor:
    base, dtype = ctx.number(node.args[0], "base"), ctx.output_dtype(node)
    if base == 2.0 and is_float(dtype):
        value = operand(ctx, node.args[1], dtype, ctx.output_shape(node))
        return ctx.result(node, host_unary(ctx, HostUnary.EXP2, value))
    return host_binary_node(ctx, node, HostBinary.POW)


# --- other functions of two values ----------------------------------------------------------


@lowering("aten.atan2.default")
def atan2(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return host_binary_node(ctx, node, HostBinary.ATAN2)


@lowering("aten.hypot.default", whole=True)
def hypot(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return host_binary_node(ctx, node, HostBinary.HYPOT)


@lowering("aten.copysign.Tensor", "aten.copysign.Scalar", whole=True)
def copysign(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return host_binary_node(ctx, node, HostBinary.COPYSIGN)


@lowering("aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self", whole=True)
def xlogy(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``input * log(other)``; 0 where the input is, unless ``other`` is NaN."""
    return host_binary_node(ctx, node, HostBinary.XLOGY, exact=True)


@lowering("aten.ldexp.Tensor", whole=True)
def ldexp(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``input * 2 ** other``."""
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    if not is_float(dtype) or ctx.tensor(node.args[1]).dtype in HALVES:
        raise Unsupported("powers of 2 that are rounded to half precision, or no floats")
    x, exponent = (operand(ctx, arg, dtype, shape) for arg in node.args[:2])
    power = host_unary(ctx, HostUnary.EXP2, exponent)
    return ctx.result(node, binary_values(ctx, "mul", x, power))


@lowering("aten.logaddexp.default", "aten.logaddexp2.default", whole=True)
def logaddexp(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The larger operand, and the logarithm of 1 + what the other adds to it."""
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    if not is_float(dtype):
        raise Unsupported(f"result dtype {dtype}")
    base_two = "logaddexp2" in str(node.target)
    a, b = (operand(ctx, arg, dtype, shape) for arg in node.args[:2])
    larger = host_binary(ctx, HostBinary.MAXIMUM, a, b)
    distance = unary_value(ctx, Unary.ABS, binary_values(ctx, "sub", a, b))
    below = unary_value(ctx, Unary.NEG, distance)
    if base_two:
        ratio = host_unary(ctx, HostUnary.EXP2, below)
        added = scale_value(ctx, host_unary(ctx, HostUnary.LOG1P, ratio), 1.0 / math.log(2.0))
    else:
        added = host_unary(ctx, HostUnary.LOG1P, unary_value(ctx, Unary.EXP, below))
    total = ctx.call("add", larger, added)
    # inf - inf is no number, but the sum of two infinite operands is one of them.
    infinite = host_unary(ctx, HostUnary.IS_INF, larger, torch.bool)
    return ctx.result(node, ctx.call("host_where", infinite, larger, total))


def _integer_or_ggml(
    ctx: LoweringContext, node: fx.Node, host: HostUnary, ggml: Unary, exact: bool = False
) -> Tensor:
    dtype = ctx.output_dtype(node)
    if is_float(dtype):
        return float_unary(ctx, node, lambda x: unary_value(ctx, ggml, x), exact)
    x = operand(ctx, node.args[0], dtype, ctx.output_shape(node))
    return ctx.result(node, host_unary(ctx, host, x, dtype))


@lowering("aten.neg.default")
def neg(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _integer_or_ggml(ctx, node, HostUnary.NEG, Unary.NEG)


@lowering("aten.abs.default")
def absolute(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _integer_or_ggml(ctx, node, HostUnary.ABS, Unary.ABS)


@lowering("aten.sign.default", "aten.sgn.default")
def sign(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """0 for NaN."""
    return _integer_or_ggml(ctx, node, HostUnary.SIGN, Unary.SGN, exact=True)
