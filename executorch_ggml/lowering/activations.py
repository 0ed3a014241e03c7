"""Activation functions: one ggml call, a few that compose it exactly, or a kernel of our own."""

from __future__ import annotations

import math

from torch import fx

from executorch_ggml.ir.enums import Glu, HostBinary, HostUnary, Unary
from executorch_ggml.ir.graph import Value
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.elementwise import (
    binary_values,
    clamp_value,
    constant_number,
    float_unary,
    is_float,
    number_of,
    operand,
    scale_value,
    unary_value,
)
from executorch_ggml.lowering.host import host_binary, host_unary
from executorch_ggml.lowering.registry import Unsupported, lowering


@lowering("aten.relu.default")
def relu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    dtype = ctx.output_dtype(node)
    if is_float(dtype):
        return float_unary(ctx, node, lambda x: unary_value(ctx, Unary.RELU, x))
    x, zero = ctx.tensor(node.args[0]), constant_number(ctx, 0, dtype)
    return ctx.result(node, host_binary(ctx, HostBinary.MAXIMUM, x.value, zero, dtype))


@lowering("aten.silu.default", whole=True)
def silu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return float_unary(ctx, node, lambda x: unary_value(ctx, Unary.SILU, x))


@lowering("aten.hardswish.default", whole=True)
def hardswish(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return float_unary(ctx, node, lambda x: unary_value(ctx, Unary.HARDSWISH, x))


@lowering("aten.hardsigmoid.default", whole=True)
def hardsigmoid(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return float_unary(ctx, node, lambda x: unary_value(ctx, Unary.HARDSIGMOID, x))


@lowering("aten.gelu.default", whole=True)
def gelu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """erf form as one call; the tanh form composed, because ggml's goes through an F16 table."""
    approximate = ctx.argument(node, 1, "approximate", "none")

    def body(x: Value) -> Value:
        if approximate == "none":
            return unary_value(ctx, Unary.GELU_ERF, x)
        x = ctx.rows(x)
        cube = ctx.call("mul", ctx.call("sqr", x), x)
        inner = ctx.call("add", scale_value(ctx, cube, 0.044715), x)
        tanh = unary_value(ctx, Unary.TANH, scale_value(ctx, inner, math.sqrt(2.0 / math.pi)))
        return ctx.call("mul", scale_value(ctx, tanh, 0.5, 0.5), x)

    return float_unary(ctx, node, body)


@lowering("ggml.swiglu.default")
def swiglu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``silu(gate) * up``."""
    gate = ctx.float_tensor(node.args[0], "gate")
    up = ctx.float_tensor(node.args[1], "up")
    y = ctx.call("glu", ctx.rows(gate.value), ctx.rows(up.value), kind=int(Glu.SWIGLU))
    return ctx.result(node, y)


# --- slopes -------------------------------------------------------------------------------


def _leaky(ctx: LoweringContext, x: Value, slope: float) -> Value:
    return ctx.call("leaky_relu", ctx.contiguous(x), negative_slope=slope)


@lowering("aten.leaky_relu.default", whole=True)
def leaky_relu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    slope = ctx.number(ctx.argument(node, 1, "negative_slope", 0.01), "negative_slope")
    return float_unary(ctx, node, lambda x: _leaky(ctx, x, slope))


@lowering("aten.rrelu.default", whole=True)
def rrelu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Outside of training the slope is the mean of its limits."""
    if ctx.argument(node, 3, "training", False):
        raise Unsupported("rrelu in training mode")
    lower = ctx.number(ctx.argument(node, 1, "lower", 1 / 8), "lower")
    upper = ctx.number(ctx.argument(node, 2, "upper", 1 / 3), "upper")
    return float_unary(ctx, node, lambda x: _leaky(ctx, x, (lower + upper) / 2))


@lowering("aten.prelu.default", whole=True)
def prelu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``relu(x) - weight * relu(-x)``: one of the terms is 0. A weight per channel (dim 1)."""
    x, weight = ctx.float_tensor(node.args[0]), ctx.float_tensor(node.args[1], "weight")
    slope = weight.value
    if x.rank > 1 and weight.rank == 1:
        shape = (1, weight.shape[0], *((1,) * (x.rank - 2)))
        slope = ctx.aligned(Tensor(ctx.reshape(slope, shape), shape, weight.dtype), x.shape)
    above = unary_value(ctx, Unary.RELU, x.value)
    below = unary_value(ctx, Unary.RELU, unary_value(ctx, Unary.NEG, x.value))
    return ctx.result(node, ctx.call("sub", above, binary_values(ctx, "mul", below, slope)))


# --- exponentials -------------------------------------------------------------------------


@lowering("aten.elu.default", whole=True)
def elu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1))``."""
    alpha, scale, input_scale = (
        ctx.number(ctx.argument(node, i + 1, name, 1.0), name)
        for i, name in enumerate(("alpha", "scale", "input_scale"))
    )
    return float_unary(ctx, node, lambda x: _elu(ctx, x, alpha, scale, input_scale))


def _elu(ctx: LoweringContext, x: Value, alpha: float, scale: float, input_scale: float) -> Value:
    """ggml's ELU has the sign of its operand, which a leaky relu can scale afterwards."""
    if input_scale != 1.0:
        kind = HostUnary.ELU
        return host_unary(ctx, kind, x, p=alpha, q=scale, r=input_scale)
    y = unary_value(ctx, Unary.ELU, x)
    y = y if alpha == 1.0 else _leaky(ctx, y, alpha)
    return scale_value(ctx, y, scale)


@lowering("aten.selu.default", whole=True)
def selu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return float_unary(ctx, node, lambda x: _elu(ctx, x, alpha, scale, 1.0))


@lowering("aten.celu.default", whole=True)
def celu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x > 0 ? x : alpha * (exp(x / alpha) - 1)``."""
    alpha = ctx.number(ctx.argument(node, 1, "alpha", 1.0), "alpha")
    if alpha == 0.0:
        raise Unsupported("celu with alpha 0")
    return float_unary(ctx, node, lambda x: _elu(ctx, x, alpha, 1.0, 1.0 / alpha))


@lowering("aten.softplus.default", whole=True)
def softplus(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``log(1 + exp(beta x)) / beta``; ggml's loses the digits of small results."""
    beta = ctx.number(ctx.argument(node, 1, "beta", 1.0), "beta")
    threshold = ctx.number(ctx.argument(node, 2, "threshold", 20.0), "threshold")
    return float_unary(
        ctx, node, lambda x: host_unary(ctx, HostUnary.SOFTPLUS, x, p=beta, q=threshold)
    )


@lowering("aten.mish.default", whole=True)
def mish(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x tanh(softplus(x))``, where ``tanh(log(1 + e)) = n / (n + 2)``, ``n = e (e + 2)``.

    Beyond 20 the quotient is 1, so a limit there only keeps ``n`` finite.
    """

    def body(x: Value) -> Value:
        e = unary_value(ctx, Unary.EXP, clamp_value(ctx, x, -math.inf, 20.0))
        n = ctx.call("mul", e, scale_value(ctx, e, 1.0, 2.0))
        gate = ctx.call("div", n, scale_value(ctx, n, 1.0, 2.0))
        return ctx.call("mul", gate, ctx.rows(x))

    return float_unary(ctx, node, body)


@lowering("aten.log_sigmoid.default", whole=True)
def log_sigmoid(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return float_unary(ctx, node, lambda x: host_unary(ctx, HostUnary.LOG_SIGMOID, x))


# --- thresholds ---------------------------------------------------------------------------


@lowering("aten.threshold.default", whole=True)
def threshold(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x > threshold ? x : value``."""
    limit, value = ctx.number(node.args[1], "threshold"), ctx.number(node.args[2], "value")
    return float_unary(
        ctx,
        node,
        lambda x: host_unary(ctx, HostUnary.THRESHOLD, x, p=limit, q=value),
        exact=True,
    )


# --- limits -------------------------------------------------------------------------------


def _clamp(ctx: LoweringContext, node: fx.Node, low: object, high: object) -> Tensor:
    """Limits that are None, numbers, sizes, or tensors that broadcast.

    A NaN in a tensor of limits gives NaN; where limits cross, the upper one stands.
    """
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    x = operand(ctx, node.args[0], dtype, shape)
    limits = ((low, -math.inf, HostBinary.MAXIMUM), (high, math.inf, HostBinary.MINIMUM))
    numbers = [none if limit is None else number_of(ctx, limit) for limit, none, _ in limits]
    if any(number is not None and math.isnan(number) for number in numbers):
        raise Unsupported("a limit that is NaN")
    lowest, highest = numbers
    if is_float(dtype) and lowest is not None and highest is not None:
        return ctx.result(node, clamp_value(ctx, x, lowest, highest))
    for limit, _, kind in limits:
        if limit is not None:
            x = host_binary(ctx, kind, x, operand(ctx, limit, dtype, shape), dtype)
    return ctx.result(node, x)


@lowering("aten.clamp.default", "aten.clamp.Tensor")
def clamp(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _clamp(ctx, node, ctx.argument(node, 1, "min"), ctx.argument(node, 2, "max"))


@lowering("aten.clamp_min.default")
def clamp_min(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _clamp(ctx, node, node.args[1], None)


@lowering("aten.clamp_max.default")
def clamp_max(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _clamp(ctx, node, None, node.args[1])


@lowering("aten.hardtanh.default")
def hardtanh(ctx: LoweringContext, node: fx.Node) -> Tensor:
    low, high = ctx.argument(node, 1, "min_val", -1.0), ctx.argument(node, 2, "max_val", 1.0)
    return _clamp(ctx, node, low, high)


@lowering("aten.relu6.default")
def relu6(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _clamp(ctx, node, 0.0, 6.0)
