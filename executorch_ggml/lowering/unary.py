"""Mathematical functions of one value."""

from __future__ import annotations

import math

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary, HostUnary, Unary
from executorch_ggml.ir.graph import Value
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.elementwise import (
    clamp_value,
    constant_number,
    divided_by,
    float_unary,
    is_float,
    operand,
    reciprocal_value,
    scale_value,
    unary_value,
)
from executorch_ggml.lowering.host import host_binary, host_unary, settled
from executorch_ggml.lowering.registry import Lowering, Unsupported, lowering


def _calls() -> None:
    """Functions that are one call each."""

    def plain(ir_op: str) -> Lowering:
        return lambda ctx, node: float_unary(ctx, node, lambda x: ctx.call(ir_op, ctx.rows(x)))

    def kind(unary: Unary) -> Lowering:
        return lambda ctx, node: float_unary(ctx, node, lambda x: unary_value(ctx, unary, x))

    def host(unary: HostUnary) -> Lowering:
        return lambda ctx, node: float_unary(ctx, node, lambda x: host_unary(ctx, unary, x))

    for ir_op in ("sqrt", "log", "sin", "cos"):
        lowering(f"aten.{ir_op}.default")(plain(ir_op))
    for name, unary in (("exp", Unary.EXP), ("tanh", Unary.TANH), ("sigmoid", Unary.SIGMOID)):
        lowering(f"aten.{name}.default")(kind(unary))
    # ggml lacks them, or loses the digits of small results (expm1).
    for function in (
        HostUnary.LOG2,
        HostUnary.LOG10,
        HostUnary.LOG1P,
        HostUnary.EXPM1,
        HostUnary.ASIN,
        HostUnary.ACOS,
        HostUnary.ATAN,
        HostUnary.SINH,
        HostUnary.COSH,
        HostUnary.ASINH,
        HostUnary.ACOSH,
        HostUnary.ATANH,
        HostUnary.ERF,
    ):
        lowering(f"aten.{function.name.lower()}.default")(host(function))
    for function in (HostUnary.EXP2, HostUnary.ERFC, HostUnary.LGAMMA):
        lowering(f"aten.{function.name.lower()}.default", whole=True)(host(function))


_calls()


@lowering("aten.tan.default")
def tan(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The quotient is as accurate as its terms, also beside their zeros."""
    return float_unary(
        ctx,
        node,
        lambda x: ctx.call("div", ctx.call("sin", ctx.rows(x)), ctx.call("cos", ctx.rows(x))),
    )


@lowering("aten.rsqrt.default")
def rsqrt(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return float_unary(ctx, node, lambda x: reciprocal_value(ctx, ctx.call("sqrt", ctx.rows(x))))


@lowering("aten.reciprocal.default")
def reciprocal(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return float_unary(ctx, node, lambda x: reciprocal_value(ctx, x))


@lowering("aten.logit.default", whole=True)
def logit(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``log(x / (1 - x))`` with x in ``[eps, 1 - eps]``; without eps, NaN outside of [0, 1]."""
    eps = ctx.argument(node, 1, "eps")
    x = operand(ctx, node.args[0], ctx.output_dtype(node), ctx.output_shape(node))
    is_float(ctx.output_dtype(node))
    if eps is not None:
        low = ctx.number(eps, "eps")
        x = clamp_value(ctx, x, low, 1.0 - low)
    odds = ctx.call("div", ctx.rows(x), scale_value(ctx, x, -1.0, 1.0))
    return ctx.result(node, ctx.call("log", odds))


# --- rounding -----------------------------------------------------------------------------


def _whole_numbers(ctx: LoweringContext, node: fx.Node) -> Tensor | None:
    """The result of rounding integers: they are whole already."""
    x = ctx.tensor(node.args[0])
    return None if x.is_float else ctx.result(node, x.value)


@lowering("aten.floor.default", "aten.ceil.default", "aten.trunc.default")
def round_toward(ctx: LoweringContext, node: fx.Node) -> Tensor:
    kind = Unary[str(node.target).split(".")[-2].upper()]
    return _whole_numbers(ctx, node) or float_unary(
        ctx, node, lambda x: unary_value(ctx, kind, x), exact=True
    )


@lowering("aten.frac.default")
def frac(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return float_unary(
        ctx,
        node,
        lambda x: ctx.call("sub", ctx.rows(x), unary_value(ctx, Unary.TRUNC, x)),
        exact=True,
    )


@lowering("aten.round.default")
def round_even(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Halves go to the even neighbour; ggml's go away from zero."""
    return _whole_numbers(ctx, node) or float_unary(
        ctx, node, lambda x: host_unary(ctx, HostUnary.ROUND_EVEN, x), exact=True
    )


@lowering("aten.round.decimals", whole=True)
def round_decimals(ctx: LoweringContext, node: fx.Node) -> Tensor:
    decimals = ctx.static(ctx.argument(node, 1, "decimals", 0), "decimals")
    power = float(torch.tensor(10.0 ** abs(decimals), dtype=torch.float32))
    if not math.isfinite(power):
        raise Unsupported(f"rounding to {decimals} decimals")

    def body(x: Value) -> Value:
        if decimals < 0:
            whole = host_unary(ctx, HostUnary.ROUND_EVEN, divided_by(ctx, x, power))
            return scale_value(ctx, whole, power)
        whole = host_unary(ctx, HostUnary.ROUND_EVEN, scale_value(ctx, x, power))
        return divided_by(ctx, whole, power)

    return float_unary(ctx, node, body, exact=True)


# --- classification -----------------------------------------------------------------------


@lowering("aten.isnan.default")
def isnan(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    if x.is_float:
        found = host_unary(ctx, HostUnary.IS_NAN, ctx.as_f32(x).value, torch.bool)
    else:
        found = host_binary(ctx, HostBinary.NE, x.value, x.value, torch.bool)
    return ctx.result(node, found)


@lowering("aten.isinf.default")
def isinf(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    if x.is_float:
        found = host_unary(ctx, HostUnary.IS_INF, settled(ctx, x), torch.bool)
    else:
        found = host_binary(ctx, HostBinary.NE, x.value, x.value, torch.bool)
    return ctx.result(node, found)


@lowering("aten.isfinite.default", whole=True)
def isfinite(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    if x.is_float:
        size = unary_value(ctx, Unary.ABS, settled(ctx, x))
        infinite = constant_number(ctx, math.inf, torch.float32)
        found = host_binary(ctx, HostBinary.LT, size, infinite, torch.bool)
    else:
        found = host_binary(ctx, HostBinary.EQ, x.value, x.value, torch.bool)
    return ctx.result(node, found)


@lowering("aten.signbit.default", whole=True)
def signbit(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Also of -0.0 and of NaN."""
    x = ctx.tensor(node.args[0])
    if x.is_float:
        found = host_unary(ctx, HostUnary.SIGN_BIT, ctx.as_f32(x).value, torch.bool)
    else:
        zero = constant_number(ctx, 0, x.dtype)
        found = host_binary(ctx, HostBinary.LT, x.value, zero, torch.bool)
    return ctx.result(node, found)


@lowering("aten.nan_to_num.default", whole=True)
def nan_to_num(ctx: LoweringContext, node: fx.Node) -> Tensor:
    unchanged = _whole_numbers(ctx, node)
    if unchanged is not None:
        return unchanged
    limits = torch.finfo(ctx.output_dtype(node))
    given = [ctx.argument(node, i + 1, n) for i, n in enumerate(("nan", "posinf", "neginf"))]
    defaults = (0.0, limits.max, limits.min)
    p, q, r = (
        default if value is None else ctx.number(value, "replacement")
        for value, default in zip(given, defaults, strict=True)
    )
    return float_unary(
        ctx,
        node,
        lambda x: host_unary(ctx, HostUnary.NAN_TO_NUM, x, p=p, q=q, r=r),
        exact=True,
    )
