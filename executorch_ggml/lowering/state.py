"""Writes into mutable buffers.

A buffer that a program mutates is session memory. The graph is functional: a write yields
a new tensor that becomes the buffer's next value. When nothing else reads the old value
rows are written in place; else the write is that of any tensor, and its result is assigned
at the end.
"""

from __future__ import annotations

from torch import fx

from executorch_ggml.ir.graph import Value, ValueKind
from executorch_ggml.ir.types import product
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.host import converted
from executorch_ggml.lowering.registry import lowering


@lowering("aten.copy.default", "aten.copy_.default")
def copy(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``copy(old, new)`` is ``new``, broadcast and converted to the shape and dtype of ``old``."""
    old = ctx.tensor(node.args[0], "self")
    new = ctx.tensor(node.args[1], "src")
    same = Tensor(converted(ctx, new, old.dtype), new.shape, old.dtype)
    if same.is_float:
        same = ctx.as_f32(same)
    return ctx.result(node, ctx.broadcast_to(same, ctx.output_shape(node)))


def is_written_in_place(node: fx.Node, target: Tensor) -> bool:
    """Whether the first operand of ``node`` is a buffer of floats that nothing else reads."""
    source = node.args[0]
    return (
        target.value.kind is ValueKind.STATE
        and target.is_float
        and target.rank > 0
        and isinstance(source, fx.Node)
        and len(source.users) == 1
    )


def write_rows(ctx: LoweringContext, buffer: Tensor, dim: int, ids: Value, source: Tensor) -> Value:
    """Slices ``source`` written at ids of a dim of the buffer; gives the buffer."""
    state = ctx.around(buffer, dim).value
    rows = ctx.contiguous(ctx.around(source, dim).value)
    flat = ctx.contiguous(ctx.reshape(ids, [product(ids.ne)]))
    return ctx.reshape(ctx.call("set_rows", state, rows, flat), buffer.shape)
