"""Distances and similarities of vectors."""

from __future__ import annotations

import torch
from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.lowering.context import LoweringContext, Tensor, broadcast_shape, product
from executorch_ggml.lowering.elementwise import binary_values, scale_value
from executorch_ggml.lowering.reduce import norm_rows, sum_rows
from executorch_ggml.lowering.registry import Unsupported, lowering
from executorch_ggml.lowering.rows import reduced_dims, rows_over, shaped


def _broadcast(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, Tensor]:
    """The two operands, repeated to their common shape."""
    a, b = ctx.float_tensor(node.args[0], "x1"), ctx.float_tensor(node.args[1], "x2")
    shape = broadcast_shape(a.shape, b.shape)
    return (
        Tensor(ctx.broadcast_to(a, shape), shape, a.dtype),
        Tensor(ctx.broadcast_to(b, shape), shape, b.dtype),
    )


@lowering("aten.cosine_similarity.default", whole=True)
def cosine_similarity(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x1 x2 / (max(|x1|, eps) max(|x2|, eps))`` along a dim."""
    eps = ctx.number(ctx.argument(node, 3, "eps", 1e-8), "eps")

    def directions(x: Tensor) -> Value:
        rows = rows_over(ctx, x, reduced_dims(ctx.argument(node, 2, "dim", 1), x.rank))
        return ctx.call("l2_norm", ctx.rows(rows), eps=eps)

    a, b = (directions(x) for x in _broadcast(ctx, node))
    return shaped(ctx, node.meta["val"], sum_rows(ctx, ctx.call("mul", a, b)))


@lowering("aten.pairwise_distance.default", whole=True)
def pairwise_distance(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The norm of ``x1 - x2 + eps`` over the last dim."""
    order = ctx.number(ctx.argument(node, 2, "p", 2.0), "p")
    eps = ctx.number(ctx.argument(node, 3, "eps", 1e-6), "eps")
    a, b = _broadcast(ctx, node)
    difference = scale_value(ctx, binary_values(ctx, "sub", a.value, b.value), bias=eps)
    rows = rows_over(ctx, Tensor(difference, a.shape, a.dtype), [a.rank - 1])
    return shaped(ctx, node.meta["val"], norm_rows(ctx, rows, order))


@lowering("aten.cdist.default", whole=True)
@lowering("aten._cdist_forward.default")
def cdist(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The norm of the difference of each row of x1 and each row of x2.

    Never by products, as eager may compute it: they cancel where the rows are close.
    """
    a, b = ctx.float_tensor(node.args[0], "x1"), ctx.float_tensor(node.args[1], "x2")
    order = ctx.number(ctx.argument(node, 2, "p", 2.0), "p")
    shape = ctx.output_shape(node)
    lead = shape[:-2]
    batch, width = product(lead), a.shape[-1]

    def spread(x: Tensor, columns: bool) -> Value:
        rows = x.shape[-2]
        repeated = ctx.broadcast_to(x, (*lead, rows, width))
        return ctx.reshape(
            repeated, (batch, 1, rows, width) if columns else (batch, rows, 1, width)
        )

    difference = binary_values(ctx, "sub", spread(a, False), spread(b, True))
    return ctx.result(node, ctx.reshape(norm_rows(ctx, difference, order), shape))


@lowering("aten.pdist.default", whole=True)
@lowering("aten._pdist_forward.default")
def pdist(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The norm of the difference of each pair of rows, row by row of the upper triangle."""
    x = ctx.float_tensor(node.args[0])
    n = x.shape[0]
    if not isinstance(n, int):
        raise Unsupported("pairs of a dynamic number of rows")
    a, b = (
        ctx.call("get_rows", ctx.rows(x.value), ctx.constant(ids.to(torch.int32)))
        for ids in torch.triu_indices(n, n, 1)
    )
    order = ctx.number(ctx.argument(node, 1, "p", 2.0), "p")
    distances = norm_rows(ctx, ctx.call("sub", a, b), order)
    return shaped(ctx, node.meta["val"], distances)


@lowering("aten.dist.default", whole=True)
def dist(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The norm of all of ``x1 - x2``."""
    a, b = _broadcast(ctx, node)
    difference = Tensor(binary_values(ctx, "sub", a.value, b.value), a.shape, a.dtype)
    rows = rows_over(ctx, difference, range(a.rank))
    order = ctx.number(ctx.argument(node, 2, "p", 2.0), "p")
    return shaped(ctx, node.meta["val"], norm_rows(ctx, rows, order))
