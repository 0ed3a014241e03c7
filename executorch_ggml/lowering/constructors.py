"""Tensors made of nothing: constants where their size is known, else filled or counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, DType, dims_equal
from executorch_ggml.lowering.context import (
    LoweringContext,
    Tensor,
    extents_of,
    ir_dtype,
    to_dim,
)
from executorch_ggml.lowering.host import integer, iota
from executorch_ggml.lowering.registry import Unsupported, lowering

#: Constants up to this many elements are stored with the program.
MAX_STORED = 2**16


def filled(ctx: LoweringContext, number: float, dtype: torch.dtype, shape: Sequence[Dim]) -> Value:
    """One number in every element, rounded to the dtype."""
    ir_dtype(dtype)  # refuses what a delegate has no values of
    one = _stored(ctx, torch.full((), number, dtype=dtype))
    return _repeated(ctx, one, shape)


def _repeated(ctx: LoweringContext, one: Value, shape: Sequence[Dim]) -> Value:
    """One value in every element of a shape."""
    ne = extents_of(shape)
    if all(dims_equal(n, 1) for n in ne):
        return one
    return ctx.call("repeat", one, ne0=ne[0], ne1=ne[1], ne2=ne[2], ne3=ne[3])


def _stored(ctx: LoweringContext, tensor: torch.Tensor) -> Value:
    """A constant as the values of a delegate: F32 or I32."""
    return ctx.constant(tensor.float() if tensor.is_floating_point() else tensor)


def _symbolic(arg: Any) -> Dim | None:
    """The expression of an argument that depends on sizes; None for a number.

    Raises:
        Unsupported: one that is no integer.
    """
    if isinstance(arg, fx.Node):
        arg = arg.meta["val"]
    if isinstance(arg, (torch.SymBool, torch.SymFloat)):
        raise Unsupported("a number that depends on sizes and is no integer")
    return to_dim(arg) if isinstance(arg, (torch.SymInt, sympy.Expr)) else None


def _full(ctx: LoweringContext, node: fx.Node, arg: Any) -> Tensor:
    dtype, shape = ctx.output_dtype(node), ctx.output_shape(node)
    size = _symbolic(arg)
    if size is None or isinstance(size, int):
        number = size if size is not None else arg
        if not isinstance(number, (bool, int, float)):
            raise Unsupported("a fill value that is not a constant number")
        return ctx.result(node, filled(ctx, number, dtype, shape))
    value = integer(ctx, size)
    if ir_dtype(dtype) is DType.F32:
        value = ctx.call("cast", value, dtype=int(DType.F32))
    elif dtype not in (torch.int64, torch.int32):
        raise Unsupported(f"a size as {dtype}")
    return ctx.result(node, _repeated(ctx, value, shape))


@lowering(
    "aten.full.default", "aten.full_like.default", "aten.fill.Scalar", "aten.new_full.default"
)
def full(ctx: LoweringContext, node: fx.Node) -> Tensor:
    position = 2 if "new_full" in str(node.target) else 1
    return _full(ctx, node, ctx.argument(node, position, "fill_value"))


@lowering(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.empty.memory_format",
    "aten.new_empty.default",
    "dim_order_ops._empty_dim_order.default",
)
@lowering("aten.empty_like.default", "aten.empty_permuted.default", whole=True)
def zeros(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """What is empty may hold anything, so 0."""
    return _full(ctx, node, 0)


@lowering("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _full(ctx, node, 1)


@lowering("aten.scalar_tensor.default")
def scalar_tensor(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _full(ctx, node, node.args[0])


@lowering("aten.arange.start_step", "aten.arange.start", "aten.arange.default")
def arange(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Counted at run time where the length, or a bound, depends on sizes."""
    start, step = _range(node)
    dtype, (length,) = ctx.output_dtype(node), ctx.output_shape(node)
    first = _symbolic(start)
    by = _symbolic(step)
    numbers = (int, float)
    if first is None and by is None and isinstance(length, int) and length <= MAX_STORED:
        assert isinstance(start, numbers)
        assert isinstance(step, numbers)
        return ctx.result(node, _stored(ctx, _counted(start, step, length, dtype)))
    if isinstance(start, float) or isinstance(step, float):
        return ctx.result(node, _counted_floats(ctx, start, step, length, dtype))
    value = iota(ctx, length, start if first is None else first, step if by is None else by)
    if ir_dtype(dtype) is DType.F32:
        value = ctx.call("cast", value, dtype=int(DType.F32))
    return ctx.result(node, value)


def _range(node: fx.Node) -> tuple[Any, Any]:
    """Start and step."""
    args = node.args
    if len(args) < 2:
        return 0, node.kwargs.get("step", 1)
    return args[0], args[2] if len(args) > 2 else node.kwargs.get("step", 1)


def _counted(start: float, step: float, length: int, dtype: torch.dtype) -> torch.Tensor:
    """As ``torch.arange`` counts: the end only says how many there are."""
    end = start + step * length
    if isinstance(end, float):  # the middle of the last step, whatever was rounded
        end -= step / 2
    return torch.arange(start, end, step, dtype=dtype)


def _counted_floats(
    ctx: LoweringContext, start: Any, step: Any, length: Dim, dtype: torch.dtype
) -> Value:
    if not isinstance(start, (int, float)) or not isinstance(step, (int, float)):
        raise Unsupported("a range of floats from or by a size")
    if dtype != torch.float32:
        raise Unsupported(f"a range of fractions as {dtype}")
    whole = ctx.call("cast", iota(ctx, length), dtype=int(DType.F32))
    return ctx.call("scale", whole, scale=float(step), bias=float(start))


@lowering(
    "aten.eye.default",
    "aten.eye.m",
    "aten.linspace.default",
    "aten.logspace.default",
    "aten.tril_indices.default",
    "aten.triu_indices.default",
    whole=True,
)
def computed_now(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The op itself says what the constant is.

    Raises:
        Unsupported: a dynamic size, or too many elements to store.
    """
    shape = ctx.output_shape(node)
    if any(not isinstance(n, int) for n in shape):
        raise Unsupported("a constant of dynamic size")
    if math.prod(int(n) for n in shape) > MAX_STORED:
        raise Unsupported(f"a constant of more than {MAX_STORED} elements")
    if any(isinstance(a, fx.Node) for a in (*node.args, *node.kwargs.values())):
        raise Unsupported("a constant made from a computed number")
    ir_dtype(ctx.output_dtype(node))
    target: Any = node.target
    return ctx.result(node, _stored(ctx, target(*node.args, **node.kwargs)))
