"""Rows of a table: embeddings, and bags of them added up."""

from __future__ import annotations

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary, HostReduce, Scatter
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, product
from executorch_ggml.lowering.constructors import filled
from executorch_ggml.lowering.context import LoweringContext, Tensor, getitem_index
from executorch_ggml.lowering.host import host_binary, iota, where
from executorch_ggml.lowering.index import index_operand, static_sizes
from executorch_ggml.lowering.registry import Unsupported, lowering


def _rows(ctx: LoweringContext, node: fx.Node) -> tuple[Value, Tensor]:
    """The rows of the table (argument 0) at ids (argument 1) of any shape, as ``[k, n]``."""
    table = ctx.tensor(node.args[0], "weight")
    ids = index_operand(ctx, node.args[1], "indices")
    if not table.is_float:
        raise Unsupported("an integer embedding table")
    flat = ctx.contiguous(ctx.reshape(ids.value, [product(ids.shape)]))
    return ctx.call("get_rows", ctx.rows(table.value), flat), ids


@lowering("aten.embedding.default")
def embedding(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``padding_idx`` says where no gradient goes; it changes no result."""
    rows, _ = _rows(ctx, node)
    return ctx.result(node, ctx.reshape(rows, ctx.output_shape(node)))


_MODES = ("sum", "mean", "max")


@lowering(
    "aten._embedding_bag.default",
    "aten._embedding_bag_forward_only.default",
    "aten.embedding_bag.padding_idx",
    whole=True,
)
def embedding_bag(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    """Rows of one bag, one after the other, into the bag's row.

    Offsets say where each bag starts; with ``include_last_offset`` there is one more, which
    says where the last bag ends. Rows behind that end belong to no sum, but torch counts
    them in a mean; with ``max`` and with padding it takes them into the last bag.
    """
    if any(getitem_index(user) != 0 and user.users for user in node.users):
        raise Unsupported("the bags of embedding_bag are used, not only their sums")
    offsets = index_operand(ctx, node.args[2], "offsets")
    mode = _MODES[ctx.static(ctx.argument(node, 4, "mode", 0), "mode")]
    weights = ctx.optional_tensor(ctx.argument(node, 6, "per_sample_weights"), "weights")
    last = bool(ctx.argument(node, 7, "include_last_offset", False))
    padding = ctx.argument(node, 8, "padding_idx")
    if padding is not None and padding < 0:
        # The composite counts from the end; what it is made of takes -1 for none.
        counts_back = "padding_idx" in str(node.target)
        (n_rows,) = static_sizes(ctx.tensor(node.args[0]), [0])
        padding = padding + n_rows if counts_back else None
    if weights is not None:
        raise Unsupported("weights for each sample of a bag")
    rows, ids = _rows(ctx, node)
    count, width = product(ids.shape), rows.ne[0]
    n_bags = ctx.dim(node.meta["val"][0].shape[0])
    starts = ctx.slice(offsets, 0, 0, n_bags) if last else offsets.value
    bags = _bag_of(ctx, starts, count, n_bags)
    fill = float("-inf") if mode == "max" else 0.0
    counted = filled(ctx, 1.0, torch.float32, (1, count))
    if padding is not None:
        padded = host_binary(
            ctx,
            HostBinary.EQ,
            ctx.reshape(ids.value, (count, 1)),
            ctx.constant(torch.tensor(padding)),
            torch.bool,
        )
        rows = where(ctx, padded, filled(ctx, fill, torch.float32, ()), rows)
        nothing, one = (filled(ctx, n, torch.float32, ()) for n in (0.0, 1.0))
        counted = where(ctx, ctx.reshape(padded, (1, count)), nothing, one)
    columns = ctx.permute(rows, (1, 0))
    if last and padding is None and mode != "max":
        every = _bag_of(ctx, offsets.value, count, offsets.shape[0])
        y = _summed(ctx, columns, every, offsets.shape[0])
        y = ctx.slice(Tensor(y, (width, offsets.shape[0]), torch.float32), 1, 0, n_bags)
    elif mode == "max":
        lowest = filled(ctx, fill, torch.float32, (width, n_bags))
        y = ctx.call("host_scatter", lowest, bags, columns, mode=int(Scatter.MAX))
    else:
        y = _summed(ctx, columns, bags, n_bags)
    if mode != "sum":
        counts = _summed(ctx, counted, bags, n_bags)
        zero, one = (filled(ctx, n, torch.float32, ()) for n in (0.0, 1.0))
        empty = host_binary(ctx, HostBinary.EQ, counts, zero, torch.bool)
        if mode == "mean":
            y = ctx.call("div", ctx.rows(y), where(ctx, empty, one, counts))
        else:
            y = where(ctx, empty, zero, y)
    dtype = node.meta["val"][0].dtype
    return (Tensor(ctx.permute(y, (1, 0)), (n_bags, width), dtype),)


def _summed(ctx: LoweringContext, columns: Value, bags: Value, n_bags: Dim) -> Value:
    """``[width, k]`` added up by bag, as ``[width, n_bags]``."""
    nothing = filled(ctx, 0.0, torch.float32, (columns.ne[1], n_bags))
    return ctx.call("host_scatter", nothing, bags, columns, mode=int(Scatter.ADD))


def _bag_of(ctx: LoweringContext, offsets: Value, count: Dim, n_bags: Dim) -> Value:
    """Which bag each of ``count`` rows lies in: as many offsets as are not behind it, less 1."""
    position = ctx.reshape(iota(ctx, count), (count, 1))
    starts = ctx.contiguous(ctx.reshape(offsets, (1, n_bags)))
    started = host_binary(ctx, HostBinary.GE, position, starts, torch.bool)
    number = ctx.call("host_reduce", started, kind=int(HostReduce.SUM))
    bag = host_binary(ctx, HostBinary.SUB, number, ctx.constant(torch.tensor(1)), torch.int64)
    return ctx.reshape(bag, (1, count))
