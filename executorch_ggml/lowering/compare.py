"""Comparisons, logic, selection: kernels of our own, for floats and integers alike."""

from __future__ import annotations

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary, HostUnary
from executorch_ggml.ir.graph import Value
from executorch_ggml.lowering.arithmetic import host_binary_node
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.elementwise import common_dtype, is_float, operand
from executorch_ggml.lowering.host import converted, host_binary, host_unary, settled, where
from executorch_ggml.lowering.registry import Lowering, Unsupported, lowering


def _comparison(kind: HostBinary) -> Lowering:
    """In the dtype to which torch promotes both operands."""

    def lower(ctx: LoweringContext, node: fx.Node) -> Tensor:
        dtype, shape = common_dtype(*node.args[:2]), ctx.output_shape(node)
        is_float(dtype)
        a, b = (operand(ctx, arg, dtype, shape, exact=True) for arg in node.args[:2])
        return ctx.result(node, host_binary(ctx, kind, a, b, torch.bool))

    return lower


def _logical(kind: HostBinary) -> Lowering:
    """Of any two dtypes: what is not 0 counts as true."""

    def lower(ctx: LoweringContext, node: fx.Node) -> Tensor:
        tensors = [ctx.tensor(arg) for arg in node.args[:2]]
        shape = ctx.output_shape(node)
        # One element type for both; truth is told from either.
        as_they_are = len({t.is_float for t in tensors}) == 1

        def value_of(x: Tensor) -> Value:
            value = settled(ctx, x) if as_they_are else converted(ctx, x, torch.bool)
            return ctx.aligned(Tensor(value, x.shape, x.dtype), shape)

        a, b = (value_of(t) for t in tensors)
        return ctx.result(node, host_binary(ctx, kind, a, b, torch.bool))

    return lower


def _integers(kind: HostBinary) -> Lowering:
    def lower(ctx: LoweringContext, node: fx.Node) -> Tensor:
        if is_float(ctx.output_dtype(node)):
            raise Unsupported(f"bits of {ctx.output_dtype(node)}")
        return host_binary_node(ctx, node, kind)

    return lower


def _any(kind: HostBinary, integers: HostBinary | None = None) -> Lowering:
    def lower(ctx: LoweringContext, node: fx.Node) -> Tensor:
        floats = is_float(ctx.output_dtype(node))
        return host_binary_node(ctx, node, kind if floats or integers is None else integers)

    return lower


def _register() -> None:
    for kind in (
        HostBinary.EQ,
        HostBinary.NE,
        HostBinary.LT,
        HostBinary.LE,
        HostBinary.GT,
        HostBinary.GE,
    ):
        name = kind.name.lower()
        lowering(f"aten.{name}.Tensor", f"aten.{name}.Scalar")(_comparison(kind))
    for kind in (HostBinary.LOGICAL_AND, HostBinary.LOGICAL_OR, HostBinary.LOGICAL_XOR):
        lowering(f"aten.{kind.name.lower()}.default")(_logical(kind))
    for kind, operator in (
        (HostBinary.BITWISE_AND, "__and__"),
        (HostBinary.BITWISE_OR, "__or__"),
        (HostBinary.BITWISE_XOR, "__xor__"),
    ):
        function = f"aten.{kind.name.lower()}"
        tensors = (f"{function}.Tensor", f"{function}.Scalar")
        lowering(*tensors, f"aten.{operator}.Tensor", f"aten.{operator}.Scalar")(_integers(kind))
        lowering(f"{function}.Scalar_Tensor", whole=True)(_integers(kind))
    for kind, function, operator in (
        (HostBinary.SHIFT_LEFT, "bitwise_left_shift", "__lshift__"),
        (HostBinary.SHIFT_RIGHT, "bitwise_right_shift", "__rshift__"),
    ):
        shifts = [f"aten.{function}.{o}" for o in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")]
        operators = [f"aten.{operator}.{o}" for o in ("Tensor", "Scalar")]
        lowering(*shifts, *operators, whole=True)(_integers(kind))
    lowering("aten.maximum.default")(_any(HostBinary.MAXIMUM))
    lowering("aten.minimum.default")(_any(HostBinary.MINIMUM))
    lowering("aten.fmax.default", whole=True)(_any(HostBinary.FMAX, HostBinary.MAXIMUM))
    lowering("aten.fmin.default", whole=True)(_any(HostBinary.FMIN, HostBinary.MINIMUM))


_register()


@lowering("aten.logical_not.default")
def logical_not(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = settled(ctx, ctx.tensor(node.args[0]))
    return ctx.result(node, host_unary(ctx, HostUnary.LOGICAL_NOT, x, torch.bool))


@lowering("aten.bitwise_not.default")
def bitwise_not(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    kind = HostUnary.LOGICAL_NOT if x.dtype == torch.bool else HostUnary.BITWISE_NOT
    return ctx.result(node, host_unary(ctx, kind, x.value, x.dtype))


def _selected(
    ctx: LoweringContext, node: fx.Node, condition: object, chosen: object, other: object
) -> Tensor:
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    is_float(dtype)
    mask = ctx.tensor(condition, "condition")
    if mask.is_float:
        raise Unsupported(f"a condition of {mask.dtype}")
    a, b = operand(ctx, chosen, dtype, shape), operand(ctx, other, dtype, shape)
    return ctx.result(node, where(ctx, ctx.aligned(mask, shape), a, b))


@lowering("aten.where.self")
@lowering("aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar", whole=True)
def select(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _selected(ctx, node, *node.args[:3])


@lowering("aten.masked_fill.Scalar", "aten.masked_fill.Tensor", whole=True)
def masked_fill(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x, mask, value = node.args[:3]
    return _selected(ctx, node, mask, value, x)
