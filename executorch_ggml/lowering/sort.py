"""Order: sorting, the first few, the one in the middle, the most frequent, and searching."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary, HostReduce, HostScan, HostUnary
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, dims_equal, simplify_dim
from executorch_ggml.lowering.context import LoweringContext, Tensor, product
from executorch_ggml.lowering.elementwise import constant_number
from executorch_ggml.lowering.host import host_binary, host_unary, integer, iota, where
from executorch_ggml.lowering.reduce import compared_operand, host_reduce
from executorch_ggml.lowering.registry import Lowering, Unsupported, lowering, op_name
from executorch_ggml.lowering.rows import lines, reduced_dims, rows_over, shaped, shaped_all
from executorch_ggml.lowering.scan import host_scan


def _order(ctx: LoweringContext, rows: Value, descending: bool = False) -> Value:
    return ctx.call("host_argsort", rows, descending=int(descending))


def _picked(ctx: LoweringContext, rows: Value, index: Value) -> Value:
    return ctx.call("host_gather", rows, index)


def _columns(ctx: LoweringContext, rows: Value, start: Dim, length: Dim) -> Value:
    """A few elements of each row. That a row of dynamic size has them is checked at run time."""
    return _picked(ctx, rows, iota(ctx, length, start=start))


def _subtracted(ctx: LoweringContext, a: Value, b: Value) -> Value:
    return host_binary(ctx, HostBinary.SUB, a, b, torch.int64)


@lowering("aten.sort.default")
@lowering("aten.sort.stable", "aten.argsort.stable", whole=True)
def sort(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    """Values and indices along a dim; always stable, NaN is the largest."""
    named = "dim" in node.kwargs or op_name(node.target).endswith(".stable")
    dim = node.kwargs.get("dim", -1) if named else ctx.argument(node, 1, "dim", -1)
    descending = bool(node.kwargs.get("descending", False))
    if not named:
        descending = bool(ctx.argument(node, 2, "descending", False))
    along = lines(ctx, compared_operand(ctx, node.args[0]), dim)
    order = _order(ctx, along.rows, descending)
    if isinstance(node.meta["val"], torch.Tensor):
        return shaped(ctx, node.meta["val"], along.restored(ctx, order))
    values = _picked(ctx, along.rows, order)
    return shaped_all(ctx, node, along.restored(ctx, values), along.restored(ctx, order))


@lowering("aten.topk.default")
def topk(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    """The ``k`` largest or smallest along a dim, in order, and their indices."""
    k = ctx.dim(node.args[1])
    if dims_equal(k, 0):
        raise Unsupported("the top 0 have no elements")
    largest = bool(ctx.argument(node, 3, "largest", True))
    along = lines(ctx, compared_operand(ctx, node.args[0]), ctx.argument(node, 2, "dim", -1))
    first = _columns(ctx, _order(ctx, along.rows, descending=largest), 0, k)
    values = _picked(ctx, along.rows, first)
    return shaped_all(ctx, node, along.restored(ctx, values), along.restored(ctx, first))


@lowering("aten.kthvalue.default", whole=True)
def kthvalue(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    """The ``k``-th smallest along a dim, counted from 1, and its index."""
    x = compared_operand(ctx, node.args[0])
    rows = rows_over(ctx, x, reduced_dims(ctx.argument(node, 2, "dim", -1), x.rank))
    index = _columns(ctx, _order(ctx, rows), simplify_dim(ctx.dim(node.args[1]) - 1), 1)
    return shaped_all(ctx, node, _picked(ctx, rows, index), index)


def _median(ctx: LoweringContext, x: Tensor, rows: Value, ignore_nan: bool) -> tuple[Value, Value]:
    """The lower of the middle values of each row, and its index.

    A NaN, of which the first counts, is the median unless it is to be ignored.
    """
    order = _order(ctx, rows)
    n = rows.ne[0]
    if x.is_float:
        is_nan = host_unary(ctx, HostUnary.IS_NAN, rows, torch.bool)
        missing = host_reduce(ctx, HostReduce.SUM, is_nan, torch.int64)
        present = _subtracted(ctx, integer(ctx, n), missing)
        last = _subtracted(ctx, present, integer(ctx, 1))
        place = host_binary(ctx, HostBinary.DIV_TRUNC, last, integer(ctx, 2), torch.int64)
        place = place if ignore_nan else where(ctx, missing, present, place)
    else:
        half = integer(ctx, simplify_dim((n - 1) // 2))
        place = ctx.call("repeat", half, ne0=1, ne1=rows.ne[1], ne2=rows.ne[2], ne3=rows.ne[3])
    index = _picked(ctx, order, place)
    return _picked(ctx, rows, index), index


def _register_medians() -> None:
    def lower(ignore_nan: bool) -> Lowering:
        def median(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
            x = compared_operand(ctx, node.args[0])
            dims = reduced_dims(ctx.argument(node, 1, "dim"), x.rank)
            value, index = _median(ctx, x, rows_over(ctx, x, dims), ignore_nan)
            if isinstance(node.meta["val"], torch.Tensor):
                return shaped(ctx, node.meta["val"], value)
            return shaped_all(ctx, node, value, index)

        return median

    lowering("aten.median.default", "aten.median.dim", whole=True)(lower(ignore_nan=False))
    lowering("aten.nanmedian.default", "aten.nanmedian.dim", whole=True)(lower(ignore_nan=True))


_register_medians()


@lowering("aten.mode.default", whole=True)
def mode(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    """The most frequent value along a dim, the smallest of several, and its last index."""
    x = compared_operand(ctx, node.args[0])
    rows = rows_over(ctx, x, reduced_dims(ctx.argument(node, 1, "dim", -1), x.rank))
    order = _order(ctx, rows)
    ascending = _picked(ctx, rows, order)
    zero, places = integer(ctx, 0), iota(ctx, rows.ne[0])
    before = host_binary(
        ctx, HostBinary.MAXIMUM, iota(ctx, rows.ne[0], start=-1), zero, torch.int64
    )
    starts = host_binary(ctx, HostBinary.NE, ascending, _picked(ctx, ascending, before), torch.bool)
    # How far each element is from the start of its run of equals.
    latest = host_scan(ctx, HostScan.MAX, where(ctx, starts, places, zero), torch.int64)
    best = host_reduce(ctx, HostReduce.ARGMAX, _subtracted(ctx, places, latest), torch.int64)
    return shaped_all(ctx, node, _picked(ctx, ascending, best), _picked(ctx, order, best))


# --- searching ---------------------------------------------------------------------------


def _insertion_points(
    ctx: LoweringContext, node: fx.Node, sequence: Tensor, wanted: Any, right: bool
) -> Tensor:
    """How many elements of a sorted row lie before each wanted value.

    That is its length less the elements that are not before it, which holds for NaN too.
    """
    n = sequence.shape[-1]
    if isinstance(wanted, fx.Node):
        x = compared_operand(ctx, wanted)
        if x.is_float != sequence.is_float:
            raise Unsupported(f"searching {x.dtype} among {sequence.dtype}")
        batch = sequence.rank > 1
        lead = product(sequence.shape[:-1])
        count = x.shape[-1] if batch else product(x.shape)
        values = ctx.reshape(x.value, (lead, count, 1))
        table = ctx.reshape(sequence.value, (lead, 1, n))
    else:
        if isinstance(wanted, float) and not sequence.is_float:
            raise Unsupported(f"searching a fraction among {sequence.dtype}")
        values = constant_number(ctx, ctx.number(wanted, "self"), sequence.dtype, exact=True)
        table = sequence.value
    kind = HostBinary.GT if right else HostBinary.GE
    rest = host_reduce(
        ctx, HostReduce.SUM, host_binary(ctx, kind, table, values, torch.bool), torch.int64
    )
    return shaped(ctx, node.meta["val"], _subtracted(ctx, integer(ctx, n), rest))


@lowering("aten.searchsorted.Tensor", "aten.searchsorted.Scalar", whole=True)
def searchsorted(ctx: LoweringContext, node: fx.Node) -> Tensor:
    sequence = compared_operand(ctx, node.args[0])
    if (sorter := node.kwargs.get("sorter")) is not None:
        order = ctx.tensor(sorter, "sorter")
        picked = _picked(ctx, sequence.value, order.value)
        sequence = Tensor(picked, sequence.shape, sequence.dtype)
    right = node.kwargs.get("side") == "right" or bool(node.kwargs.get("right", False))
    return _insertion_points(ctx, node, sequence, node.args[1], right)


@lowering("aten.bucketize.Tensor", "aten.bucketize.Scalar", whole=True)
def bucketize(ctx: LoweringContext, node: fx.Node) -> Tensor:
    right = bool(node.kwargs.get("right", False))
    return _insertion_points(ctx, node, compared_operand(ctx, node.args[1]), node.args[0], right)
