"""Element-wise arithmetic. ``ggml`` broadcasts the second operand of a binary op only."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.opset import Glu, Unary
from executorch_ggml.ir.shape_rules import can_repeat
from executorch_ggml.ir.types import Dim, DType, dims_equal
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.registry import Lowering, Unsupported, lowering

_COMMUTATIVE = ("add", "mul")


def binary_values(ctx: LoweringContext, op: str, a: Value, b: Value) -> Value:
    """``a op b`` with torch broadcasting."""
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


def _require_float(node: fx.Node) -> None:
    dtype = node.meta["val"].dtype
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise Unsupported(f"result dtype {dtype}")


def _binary(
    ctx: LoweringContext,
    node: fx.Node,
    op: str,
    scalar: Callable[[Value, float], Value],
    scalar_first: Callable[[float, Value], Value] | None = None,
) -> Tensor:
    """Tensor with tensor or number; ``scalar`` lowers ``tensor op number``."""
    _require_float(node)
    shape = ctx.output_shape(node)
    first, second = node.args[0], node.args[1]
    if (number := ctx.scalar(second)) is not None and _has_shape(first, shape):
        return ctx.result(node, scalar(ctx.float_tensor(first).value, number))
    if (number := ctx.scalar(first)) is not None and scalar_first and _has_shape(second, shape):
        return ctx.result(node, scalar_first(number, ctx.float_tensor(second, "other").value))
    a = ctx.float_tensor(first)
    b = ctx.float_tensor(second, "other")
    return ctx.result(node, binary_values(ctx, op, ctx.aligned(a, shape), ctx.aligned(b, shape)))


def _has_shape(arg: object, shape: tuple[Dim, ...]) -> bool:
    if not isinstance(arg, fx.Node):
        return False
    found = LoweringContext.output_shape(arg)
    return len(found) == len(shape) and all(
        dims_equal(a, b) for a, b in zip(found, shape, strict=True)
    )


def _alpha(ctx: LoweringContext, node: fx.Node) -> float:
    return ctx.number(ctx.argument(node, 2, "alpha", 1), "alpha")


def _scaled_other(ctx: LoweringContext, node: fx.Node, op: str, sign: float) -> Tensor:
    alpha = _alpha(ctx, node)
    if alpha != 1.0 and ctx.scalar(node.args[1]) is None:
        _require_float(node)
        a = ctx.float_tensor(node.args[0])
        b = ctx.float_tensor(node.args[1], "other")
        shape = ctx.output_shape(node)
        scaled = scale_value(ctx, ctx.aligned(b, shape), alpha)
        return ctx.result(node, binary_values(ctx, op, ctx.aligned(a, shape), scaled))
    return _binary(
        ctx,
        node,
        op,
        lambda x, y: scale_value(ctx, x, 1.0, sign * alpha * y),
        lambda x, y: scale_value(ctx, y, sign, x) if alpha == 1.0 else _no_alpha(),
    )


def _no_alpha() -> Value:
    raise Unsupported("alpha on a tensor that follows a number")


@lowering("aten.add.Tensor", "aten.add.Scalar")
def add(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``input + alpha * other``."""
    return _scaled_other(ctx, node, "add", 1.0)


@lowering("aten.sub.Tensor", "aten.sub.Scalar")
def sub(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``input - alpha * other``."""
    return _scaled_other(ctx, node, "sub", -1.0)


@lowering("aten.rsub.Scalar")
def rsub(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``other - alpha * input``."""
    _require_float(node)
    x = ctx.float_tensor(node.args[0])
    other = ctx.number(node.args[1], "other")
    return ctx.result(node, scale_value(ctx, x.value, -_alpha(ctx, node), other))


@lowering("aten.mul.Tensor", "aten.mul.Scalar")
def mul(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _binary(
        ctx,
        node,
        "mul",
        lambda x, y: scale_value(ctx, x, y),
        lambda x, y: scale_value(ctx, y, x),
    )


@lowering("aten.div.Tensor", "aten.div.Scalar")
def div(ctx: LoweringContext, node: fx.Node) -> Tensor:
    def by_number(x: Value, y: float) -> Value:
        if y == 0.0 or math.frexp(y)[0] not in (0.5, -0.5):
            # Only a power of two has an exact reciprocal; else divide as eager does.
            return ctx.call("div", ctx.rows(x), ctx.constant(torch.tensor(y)))
        return scale_value(ctx, x, 1.0 / y)

    return _binary(ctx, node, "div", by_number)


@lowering("aten.neg.default")
def neg(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _unary(ctx, node, lambda x: unary_value(ctx, Unary.NEG, x))


@lowering("aten.pow.Tensor_Scalar")
def pow_scalar(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Exponents with an exact form: 0.5, 1, 2, 3, 4, -0.5, -1."""
    exponent = ctx.number(node.args[1], "exponent")

    def body(x: Value) -> Value:
        if exponent == 1.0:
            return x
        if exponent == 2.0:
            return ctx.call("sqr", ctx.rows(x))
        if exponent == 3.0:
            rows = ctx.rows(x)
            return ctx.call("mul", ctx.call("sqr", rows), rows)
        if exponent == 4.0:
            return ctx.call("sqr", ctx.call("sqr", ctx.rows(x)))
        if exponent == 0.5:
            return ctx.call("sqrt", ctx.rows(x))
        if exponent == -0.5:
            return reciprocal_value(ctx, ctx.call("sqrt", ctx.rows(x)))
        if exponent == -1.0:
            return reciprocal_value(ctx, x)
        raise Unsupported(f"exponent {exponent}")

    return _unary(ctx, node, body)


def reciprocal_value(ctx: LoweringContext, x: Value) -> Value:
    one = ctx.constant(torch.tensor(1.0))
    ones = ctx.call("repeat", one, **{f"ne{i}": d for i, d in enumerate(x.ne)})
    return ctx.call("div", ones, ctx.rows(x))


def _unary(ctx: LoweringContext, node: fx.Node, body: Callable[[Value], Value]) -> Tensor:
    _require_float(node)
    return ctx.result(node, body(ctx.float_tensor(node.args[0], "input").value))


def _register_calls() -> None:
    """Ops that are one ``ggml`` call each."""

    def plain(ir_op: str) -> Lowering:
        return lambda ctx, node: _unary(ctx, node, lambda x: ctx.call(ir_op, ctx.rows(x)))

    def kind(unary: Unary) -> Lowering:
        return lambda ctx, node: _unary(ctx, node, lambda x: unary_value(ctx, unary, x))

    for name, ir_op in (("sqrt", "sqrt"), ("log", "log"), ("sin", "sin"), ("cos", "cos")):
        lowering(f"aten.{name}.default")(plain(ir_op))
    for name, unary in (
        ("abs", Unary.ABS),
        ("exp", Unary.EXP),
        ("tanh", Unary.TANH),
        ("sigmoid", Unary.SIGMOID),
        ("relu", Unary.RELU),
        ("silu", Unary.SILU),
        ("floor", Unary.FLOOR),
        ("ceil", Unary.CEIL),
        ("trunc", Unary.TRUNC),
        ("hardswish", Unary.HARDSWISH),
        ("hardsigmoid", Unary.HARDSIGMOID),
    ):
        whole = unary in (Unary.SILU, Unary.HARDSWISH, Unary.HARDSIGMOID)
        lowering(f"aten.{name}.default", whole=whole)(kind(unary))


_register_calls()


@lowering("aten.square.default")
def square(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _unary(ctx, node, lambda x: ctx.call("sqr", ctx.rows(x)))


@lowering("aten.rsqrt.default")
def rsqrt(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _unary(ctx, node, lambda x: reciprocal_value(ctx, ctx.call("sqrt", ctx.rows(x))))


@lowering("aten.reciprocal.default")
def reciprocal(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _unary(ctx, node, lambda x: reciprocal_value(ctx, x))


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

    return _unary(ctx, node, body)


@lowering("aten.leaky_relu.default", whole=True)
def leaky_relu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    slope = ctx.number(ctx.argument(node, 1, "negative_slope", 0.01), "negative_slope")
    return _unary(
        ctx, node, lambda x: ctx.call("leaky_relu", ctx.contiguous(x), negative_slope=slope)
    )


def _clamp(ctx: LoweringContext, node: fx.Node, low: object, high: object) -> Tensor:
    lowest = -math.inf if low is None else ctx.number(low, "min")
    highest = math.inf if high is None else ctx.number(high, "max")
    return _unary(
        ctx, node, lambda x: ctx.call("clamp", ctx.contiguous(x), min=lowest, max=highest)
    )


@lowering("aten.clamp.default")
def clamp(ctx: LoweringContext, node: fx.Node) -> Tensor:
    low, high = ctx.argument(node, 1, "min"), ctx.argument(node, 2, "max")
    return _clamp(ctx, node, low, high)


@lowering("aten.hardtanh.default")
def hardtanh(ctx: LoweringContext, node: fx.Node) -> Tensor:
    low, high = ctx.argument(node, 1, "min_val", -1.0), ctx.argument(node, 2, "max_val", 1.0)
    return _clamp(ctx, node, low, high)


@lowering("aten.relu6.default")
def relu6(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _clamp(ctx, node, 0.0, 6.0)


@lowering("ggml.swiglu.default")
def swiglu(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``silu(gate) * up``."""
    gate = ctx.float_tensor(node.args[0], "gate")
    up = ctx.float_tensor(node.args[1], "up")
    y = ctx.call("glu", ctx.rows(gate.value), ctx.rows(up.value), kind=int(Glu.SWIGLU))
    return ctx.result(node, y)
