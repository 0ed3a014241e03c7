"""The same elements in another shape or order, or several times."""

from __future__ import annotations

import operator

from torch import fx

from executorch_ggml.ir.types import Dim, dims_equal, product
from executorch_ggml.lowering.context import (
    MAX_RANK,
    Lowered,
    LoweringContext,
    Tensor,
    normalize_dim,
)
from executorch_ggml.lowering.registry import Unsupported, lowering


@lowering("operator.getitem")
def getitem(ctx: LoweringContext, node: fx.Node) -> Lowered:
    source = node.args[0]
    assert isinstance(source, fx.Node)
    values = ctx.lowered(source)
    index = node.args[1]
    if not isinstance(values, tuple) or not isinstance(index, int) or index >= len(values):
        raise Unsupported("an element of something that is not lowered as a tuple")
    return values[index]


@lowering(
    "aten.view.default",
    "aten.view_copy.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten.unsqueeze.default",
    "aten.unsqueeze_copy.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.squeeze_copy.default",
    "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
)
def reshape(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Every op whose result is the input's elements in the same order."""
    x = ctx.tensor(node.args[0])
    return ctx.result(node, ctx.reshape(x.value, ctx.output_shape(node)))


@lowering(
    "aten.clone.default",
    "aten.alias.default",
    "aten.alias_copy.default",
    "aten.detach.default",
    "aten.detach_copy.default",
    "aten.lift_fresh_copy.default",
    "aten.contiguous.default",
    "aten.dropout.default",
    "dim_order_ops._clone_dim_order.default",
)
def identity(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Copies have no meaning inside a functional graph."""
    if op_trains(node):
        raise Unsupported("dropout in training mode")
    return ctx.result(node, ctx.tensor(node.args[0]).value)


def op_trains(node: fx.Node) -> bool:
    return "dropout" in str(node.target) and len(node.args) > 2 and node.args[2] is True


@lowering("aten.permute.default", "aten.permute_copy.default")
def permute(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    dims = node.args[1]
    assert isinstance(dims, (list, tuple))
    return ctx.result(node, ctx.permuted(x, [normalize_dim(d, x.rank) for d in dims]).value)


@lowering("aten.transpose.int", "aten.transpose_copy.int")
def transpose(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    if x.rank == 0:
        return ctx.result(node, x.value)
    dim0, dim1 = (normalize_dim(d, x.rank) for d in node.args[1:3])
    return ctx.result(node, ctx.transpose(x, dim0, dim1).value)


@lowering("aten.t.default", "aten.t_copy.default", "aten.numpy_T.default")
def t(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    return ctx.result(node, ctx.permuted(x, list(reversed(range(x.rank)))).value)


@lowering("aten.expand.default", "aten.expand_copy.default")
def expand(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    return ctx.result(node, ctx.broadcast_to(x, ctx.output_shape(node)))


@lowering("aten.repeat.default")
def repeat(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    counts = node.args[1]
    assert isinstance(counts, (list, tuple))
    shape = ctx.output_shape(node)
    times = [ctx.dim(c) for c in counts]
    sizes = [*((1,) * (len(shape) - x.rank)), *x.shape]
    plain = [d for d, n in enumerate(times) if not dims_equal(n, 1)]
    fixed = all(isinstance(shape[d], int) or dims_equal(sizes[d], 1) for d in plain)
    if len(shape) <= MAX_RANK and fixed:
        return ctx.result(node, ctx.broadcast_to(x, shape))  # ggml repeats whole tensors
    value = x.value
    for d in reversed(plain):
        inner = product(sizes[d:])
        value = ctx.reshape(value, (product(sizes[:d]), 1, inner))
        value = ctx.call(
            "repeat", ctx.rows(value), ne0=inner, ne1=times[d], ne2=product(sizes[:d]), ne3=1
        )
        sizes[d] = shape[d]
    return ctx.result(node, ctx.reshape(value, shape))


#: Size arithmetic is part of the shape expressions: it needs no calls of its own.
SIZE_OPS = (
    "aten.sym_size.int",
    "operator.add",
    "operator.sub",
    "operator.mul",
    "operator.floordiv",
    "operator.mod",
    "operator.neg",
)


@lowering(*SIZE_OPS)
def size(ctx: LoweringContext, node: fx.Node) -> Dim:
    return ctx.dim(node)


assert operator.getitem.__module__ == "_operator"  # what registry.op_name relies on
