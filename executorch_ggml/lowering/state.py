"""Writes into mutable buffers.

A buffer that a program mutates is session memory. The graph is functional: an
``index_copy`` yields a new tensor that becomes the buffer's next value. When
nothing else reads the old value the rows are written in place; else a copy is
written and assigned at the end.
"""

from __future__ import annotations

from torch import fx

from executorch_ggml.ir.graph import Value, ValueKind
from executorch_ggml.lowering.context import LoweringContext, Tensor, normalize_dim
from executorch_ggml.lowering.registry import Unsupported, lowering


@lowering("aten.copy.default", "aten.copy_.default")
def copy(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``copy(old, new)`` is ``new``, broadcast and converted to the shape and dtype of ``old``."""
    old = ctx.tensor(node.args[0], "self")
    new = ctx.tensor(node.args[1], "src")
    if old.is_float != new.is_float:
        raise Unsupported(f"a copy from {new.dtype} to {old.dtype}")
    if new.is_float:
        new = ctx.as_f32(new)
    return ctx.result(node, ctx.broadcast_to(new, ctx.output_shape(node)))


def _target(ctx: LoweringContext, node: fx.Node, buffer: Tensor) -> Value:
    """What rows are written to: the state itself if this is its only reader, else a copy."""
    source = node.args[0]
    value = buffer.value
    if value.kind is ValueKind.STATE and isinstance(source, fx.Node) and len(source.users) == 1:
        return value
    return ctx.call("cont", value)


@lowering("aten.index_copy.default", whole=True)
def index_copy(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Rows ``source`` at ``index`` of dim ``dim``, which must be the last but one."""
    buffer = ctx.tensor(node.args[0], "self")
    dim = normalize_dim(node.args[1], buffer.rank)
    index = ctx.tensor(node.args[2], "index")
    source = ctx.tensor(node.args[3], "source")
    return _write_rows(ctx, node, buffer, dim, index, source)


@lowering("aten.index_put.default", "aten.index_put_.default")
def index_put(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``buffer[:, :, index] = values``: one index tensor of rank 1."""
    buffer = ctx.tensor(node.args[0], "self")
    indices = node.args[1]
    values = ctx.tensor(node.args[2], "values")
    assert isinstance(indices, (list, tuple))
    if ctx.argument(node, 3, "accumulate", False):
        raise Unsupported("index_put that accumulates")
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(given) != 1:
        raise Unsupported(f"index_put with {len(given)} index tensors")
    dim, index_node = given[0]
    index = ctx.tensor(index_node, "indices")
    if index.rank != 1 or index.dtype.itemsize == 1 or index.is_float:
        raise Unsupported("index_put with a mask or an index of several dims")
    return _write_rows(ctx, node, buffer, dim, index, values)


def _write_rows(
    ctx: LoweringContext,
    node: fx.Node,
    buffer: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
) -> Tensor:
    if not buffer.is_float or not source.is_float:
        raise Unsupported(f"a row write of dtype {buffer.dtype}")
    if dim != buffer.rank - 2:
        raise Unsupported(f"a row write along dim {dim} of {buffer.rank}")
    shape = (*buffer.shape[:dim], index.shape[0], *buffer.shape[dim + 1 :])
    rows = ctx.broadcast_to(ctx.as_f32(source), shape)
    ids = ctx.reshape(index.value, [index.shape[0]])
    written = ctx.call(
        "set_rows", _target(ctx, node, buffer), ctx.contiguous(rows), ctx.contiguous(ids)
    )
    return ctx.result(node, written)
