"""Rows picked by index: embeddings, ``index_select``, ``index`` on the first dim."""

from __future__ import annotations

from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import dims_equal, product
from executorch_ggml.lowering.context import LoweringContext, Tensor, normalize_dim
from executorch_ggml.lowering.registry import Unsupported, lowering


def _rows(ctx: LoweringContext, table: Value, ids: Tensor) -> Value:
    """Rows of a matrix ``[rows, n]`` at ids of any shape, as ``[ids..., n]``."""
    if ids.is_float:
        raise Unsupported(f"indices of dtype {ids.dtype}")
    flat = ctx.reshape(ids.value, [product(ids.shape)])
    return ctx.call("get_rows", table, ctx.contiguous(flat))


@lowering("aten.embedding.default")
def embedding(ctx: LoweringContext, node: fx.Node) -> Tensor:
    table = ctx.tensor(node.args[0], "weight")
    ids = ctx.tensor(node.args[1], "indices")
    if not table.is_float:
        raise Unsupported("an integer embedding table")
    y = _rows(ctx, ctx.rows(table.value), ids)
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


def _select_rows(ctx: LoweringContext, node: fx.Node, dim: int, ids: Tensor) -> Tensor:
    """Rows along ``dim``: the dims after it are flattened into one row."""
    x = ctx.tensor(node.args[0])
    if dim != 0 or any(dims_equal(d, 0) for d in ctx.output_shape(node)):
        raise Unsupported(f"indexing along dim {dim}")
    table = ctx.reshape(x.value, [x.shape[0], product(x.shape[1:])])
    y = _rows(ctx, ctx.contiguous(table), ids)
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


@lowering("aten.index_select.default")
def index_select(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    if x.rank == 0:
        raise Unsupported("index_select of a scalar")
    return _select_rows(
        ctx, node, normalize_dim(node.args[1], x.rank), ctx.tensor(node.args[2], "index")
    )
