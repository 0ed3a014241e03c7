"""Elements written by index: ``scatter``, ``index_put`` and their kin, as new tensors.

Indices that are constants become one ``get_rows`` over the old elements and the new ones;
computed ones go to a host-side kernel, or in place into a buffer that the program mutates
(:mod:`executorch_ggml.lowering.state`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary, HostScan, Scatter
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, DType, dims_equal, product
from executorch_ggml.lowering.constructors import filled
from executorch_ggml.lowering.context import LoweringContext, Tensor, ir_dtype, normalize_dim
from executorch_ggml.lowering.host import as_dtype, host_binary, int_type, integer, where
from executorch_ggml.lowering.index import (
    MAX_STORED_IDS,
    IndexPlan,
    at_least_rank_1,
    computed_ids,
    cut_to,
    fixed_ids,
    index_operand,
    merged,
    plan_index,
    take,
    take_fixed,
)
from executorch_ggml.lowering.registry import Unsupported, lowering
from executorch_ggml.lowering.scan import host_scan
from executorch_ggml.lowering.slices import joined, replaced
from executorch_ggml.lowering.state import is_written_in_place, write_rows

_NARROW = (torch.int16, torch.int8, torch.uint8, torch.bool)


def _scatter(
    ctx: LoweringContext, x: Value, ids: Value, src: Value, mode: Scatter, dtype: torch.dtype
) -> Value:
    """Elements of each row of ``x`` combined with those of ``src`` at the row's ids."""
    y = ctx.call("host_scatter", x, ids, src, mode=int(mode))
    if mode in (Scatter.ADD, Scatter.MUL) and dtype in _NARROW:
        y = ctx.call("host_convert", y, to=int(int_type(dtype)))
    return y


# --- scatter ----------------------------------------------------------------------------


class _Rows:
    """Tensors as rows along one dim of ``x``, and the way back."""

    def __init__(self, ctx: LoweringContext, x: Tensor, dim: int) -> None:
        self._ctx = ctx
        self._order = [d for d in range(x.rank) if d != dim] + [dim]

    def of(self, x: Tensor) -> Value:
        """``[rows, length]``"""
        moved = self._ctx.permuted(x, self._order)
        return self._ctx.reshape(moved.value, (product(moved.shape[:-1]), moved.shape[-1]))

    def back(self, value: Value, like: Tensor) -> Tensor:
        """A value ``[rows, length]`` in the shape of ``like``."""
        shape = tuple(like.shape[d] for d in self._order)
        moved = Tensor(self._ctx.reshape(value, shape), shape, like.dtype)
        return self._ctx.permuted(moved, [self._order.index(d) for d in range(like.rank)])


def _scattered(
    ctx: LoweringContext,
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | float,
    modes: Sequence[Scatter],
    before: float | None = None,
) -> Tensor:
    """``x.scatter(dim, index, src)``: the index may cover less than x, and src more than it.

    ``before``: a number that is written first wherever something will be combined.
    """
    x, index = at_least_rank_1(ctx, x), at_least_rank_1(ctx, index)
    dim = normalize_dim(dim, x.rank)
    dtype = x.dtype
    if isinstance(src, Tensor):
        src = as_dtype(ctx, at_least_rank_1(ctx, src), dtype)
        src = cut_to(ctx, src, index.shape)
    else:
        src = Tensor(filled(ctx, src, dtype, index.shape), index.shape, dtype)
    covered = ctx.widened(cut_to(ctx, x, index.shape, dim))
    rows = _Rows(ctx, x, dim)
    ids, y = rows.of(index), rows.of(covered)
    if before is not None:
        start = filled(ctx, before, dtype, index.shape)
        y = _scatter(ctx, y, ids, rows.of(Tensor(start, index.shape, dtype)), Scatter.SET, dtype)
    for mode in modes:
        y = _scatter(ctx, y, ids, rows.of(src), mode, dtype)
    result = rows.back(y, covered)
    # What the index does not cover stays, dim by dim.
    shape = list(result.shape)
    for d in range(x.rank):
        if not dims_equal(shape[d], x.shape[d]):
            shape[d] = x.shape[d]
            result = replaced(ctx, cut_to(ctx, x, shape), result, d, 0)
    return Tensor(result.value, x.shape, dtype)


def _finish(ctx: LoweringContext, node: fx.Node, y: Tensor) -> Tensor:
    return ctx.result(node, ctx.reshape(y.value, ctx.output_shape(node)))


def _dim(node: fx.Node) -> Any:
    return node.args[1]


@lowering("aten.scatter.src", "aten.scatter_add.default")
def scatter_src(ctx: LoweringContext, node: fx.Node) -> Tensor:
    mode = Scatter.ADD if "scatter_add" in str(node.target) else Scatter.SET
    x, index = ctx.tensor(node.args[0]), index_operand(ctx, node.args[2])
    src = ctx.tensor(node.args[3], "src")
    return _finish(ctx, node, _scattered(ctx, x, _dim(node), index, src, [mode]))


@lowering("aten.scatter.value")
def scatter_value(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x, index = ctx.tensor(node.args[0]), index_operand(ctx, node.args[2])
    number = ctx.number(node.args[3], "value")
    return _finish(ctx, node, _scattered(ctx, x, _dim(node), index, number, [Scatter.SET]))


_REDUCE = {
    "add": Scatter.ADD,
    "sum": Scatter.ADD,
    "mean": Scatter.ADD,
    "multiply": Scatter.MUL,
    "prod": Scatter.MUL,
    "amax": Scatter.MAX,
    "amin": Scatter.MIN,
}


def _mode(name: Any) -> Scatter:
    if name not in _REDUCE:
        raise Unsupported(f"a scatter that reduces by {name!r}")
    return _REDUCE[name]


@lowering("aten.scatter.reduce", "aten.scatter.value_reduce", whole=True)
def scatter_with(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x, index = ctx.tensor(node.args[0]), index_operand(ctx, node.args[2])
    given = node.args[3]
    src = ctx.tensor(given) if isinstance(given, fx.Node) else ctx.number(given, "value")
    mode = _mode(ctx.argument(node, 4, "reduce"))
    return _finish(ctx, node, _scattered(ctx, x, _dim(node), index, src, [mode]))


def _neutral(mode: Scatter, dtype: torch.dtype) -> float:
    """What a reduction starts from where the old element does not count."""
    if mode is Scatter.ADD:
        return 0
    if mode is Scatter.MUL:
        return 1
    lowest = mode is Scatter.MAX
    if dtype.is_floating_point:
        return float("-inf" if lowest else "inf")
    if dtype == torch.bool:
        return 0 if lowest else 1
    limits = torch.iinfo(torch.int32 if dtype == torch.int64 else dtype)
    return limits.min if lowest else limits.max


@lowering("aten.scatter_reduce.two")
def scatter_reduce(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x, index = ctx.tensor(node.args[0]), index_operand(ctx, node.args[2])
    src = ctx.tensor(node.args[3], "src")
    name = ctx.argument(node, 4, "reduce")
    include_self = bool(ctx.argument(node, 5, "include_self", True))
    return _finish(ctx, node, _reduced(ctx, x, _dim(node), index, src, name, include_self))


@lowering("aten.index_reduce.default", whole=True)
def index_reduce(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """As ``scatter_reduce``, with one index for whole slices."""
    x, source = ctx.tensor(node.args[0]), ctx.tensor(node.args[3], "source")
    index = _along(ctx, index_operand(ctx, node.args[2]), source, _dim(node))
    name = ctx.argument(node, 4, "reduce")
    include_self = bool(ctx.argument(node, 5, "include_self", True))
    return _finish(ctx, node, _reduced(ctx, x, _dim(node), index, source, name, include_self))


def _along(ctx: LoweringContext, index: Tensor, source: Tensor, dim: Any) -> Tensor:
    """One index for whole slices, as an index for each element of ``source``."""
    if source.rank == 0:
        return index
    d = normalize_dim(dim, source.rank)
    shape = (*(1 for _ in source.shape[:d]), source.shape[d], *(1 for _ in source.shape[d + 1 :]))
    flat = Tensor(ctx.reshape(index.value, shape), shape, index.dtype)
    return Tensor(ctx.broadcast_to(flat, source.shape), source.shape, index.dtype)


def _reduced(
    ctx: LoweringContext,
    x: Tensor,
    dim: Any,
    index: Tensor,
    src: Tensor,
    name: str,
    include_self: bool,
) -> Tensor:
    mode = _mode(name)
    before = None if include_self else _neutral(mode, x.dtype)
    y = _scattered(ctx, x, dim, index, src, [mode], before)
    if name != "mean":
        return y
    if not x.is_float:
        raise Unsupported("a scatter that averages integers")
    ones = Tensor(filled(ctx, 1.0, torch.float32, x.shape), x.shape, torch.float32)
    start = None if include_self else 0.0
    counts = _scattered(ctx, ones, dim, index, 1.0, [Scatter.ADD], start)
    y = at_least_rank_1(ctx, y)
    quotient = ctx.call("div", ctx.rows(y.value), ctx.rows(counts.value))
    return Tensor(quotient, y.shape, x.dtype)


# --- index_put and its kin ----------------------------------------------------------------


@lowering("aten.index_copy.default", whole=True)
def index_copy(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Slices ``source`` at ``index`` of a dim."""
    x, source = ctx.tensor(node.args[0]), ctx.tensor(node.args[3], "source")
    index = at_least_rank_1(ctx, index_operand(ctx, node.args[2]))
    x1, source = at_least_rank_1(ctx, x), at_least_rank_1(ctx, source)
    dim = normalize_dim(node.args[1], x1.rank)
    if source.rank < x1.rank:
        raise Unsupported("one slice without its dim as the source")
    if is_written_in_place(node, x) and source.is_float:
        return ctx.result(node, write_rows(ctx, x, dim, index.value, ctx.as_f32(source)))
    along = _along(ctx, index, source, dim)
    return _finish(ctx, node, _scattered(ctx, x, dim, along, source, [Scatter.SET]))


@lowering("aten.index_put.default", "aten.index_put_.default", "aten._unsafe_index_put.default")
def index_put(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x[i, :, j] = values``, or ``+=`` with ``accumulate``."""
    x = ctx.tensor(node.args[0])
    indices = node.args[1]
    assert isinstance(indices, (list, tuple))
    values = ctx.tensor(node.args[2], "values")
    accumulate = bool(ctx.argument(node, 3, "accumulate", False))
    given = [i for i in indices if i is not None]
    if any(ctx.tensor(i).dtype in (torch.bool, torch.uint8) for i in given):
        return ctx.result(node, _put_at_mask(ctx, x, indices, values, accumulate))
    plan = plan_index(ctx, x, indices)
    values = as_dtype(ctx, values, x.dtype)
    picked = (*plan.front, *plan.shape, *plan.back)
    values = Tensor(ctx.broadcast_to(values, picked), picked, values.dtype)
    values = merged(ctx, values, plan.n_front, len(plan.shape))
    fixed = fixed_ids(ctx, plan, indices)
    in_place = is_written_in_place(node, x) and len(given) == 1
    if fixed is not None and not accumulate and not in_place and _fits(plan):
        y = _put_fixed(ctx, plan, fixed.reshape(-1), values)
    else:
        if fixed is not None:
            ids = ctx.constant(fixed.reshape(-1).contiguous())
        else:
            ids = computed_ids(ctx, plan, indices)
        if in_place and not accumulate:
            return ctx.result(node, write_rows(ctx, x, plan.n_front, ids, values))
        mode = Scatter.ADD if accumulate else Scatter.SET
        y = _put_computed(ctx, plan, ids, values, mode, x.dtype)
    shaped = Tensor(ctx.reshape(y, plan.moved.shape), plan.moved.shape, x.dtype)
    back = ctx.permuted(shaped, [plan.order.index(d) for d in range(x.rank)])
    return ctx.result(node, back.value)


def _fits(plan: IndexPlan) -> bool:
    size = product(plan.indexed)
    return isinstance(size, int) and size <= MAX_STORED_IDS


def _put_fixed(ctx: LoweringContext, plan: IndexPlan, ids: torch.Tensor, values: Tensor) -> Value:
    """Each slice of the result is an old one or a new one: of several, the last."""
    flat = ctx.widened(merged(ctx, plan.moved, plan.n_front, plan.n_indexed))
    size = flat.shape[plan.n_front]
    assert isinstance(size, int)
    source = list(range(size))
    for new, old in enumerate(ids.tolist()):
        source[old] = size + new
    both = joined(ctx, [flat, values], plan.n_front)
    return take_fixed(ctx, both, plan.n_front, torch.tensor(source)).value


def _put_computed(
    ctx: LoweringContext,
    plan: IndexPlan,
    ids: Value,
    values: Tensor,
    mode: Scatter,
    dtype: torch.dtype,
) -> Value:
    flat = ctx.widened(merged(ctx, plan.moved, plan.n_front, plan.n_indexed))
    rows = _Rows(ctx, flat, plan.n_front)
    y = _scatter(ctx, rows.of(flat), ids, rows.of(values), mode, dtype)
    return rows.back(y, flat).value


def _put_at_mask(
    ctx: LoweringContext, x: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool
) -> Value:
    """A value that is the same wherever the mask is set: a choice between old and new."""
    (dim,) = _only([d for d, i in enumerate(indices) if i is not None])
    mask = ctx.tensor(indices[dim])
    rest = x.rank - dim - mask.rank
    if values.rank > rest and not dims_equal(values.shape[values.rank - rest - 1], 1):
        raise Unsupported("a value of its own for each element that a mask picks")
    ones: tuple[Dim, ...] = (1,) * mask.rank
    head = values.shape[: max(values.rank - rest - 1, 0)]
    tail = values.shape[max(values.rank - rest, 0) :]
    shape = (*head, *ones, *tail) if values.rank >= rest else values.shape
    new = as_dtype(ctx, values, x.dtype)
    new = Tensor(ctx.reshape(new.value, shape), shape, new.dtype)
    wide = (*mask.shape, *((1,) * rest))
    condition = Tensor(ctx.reshape(mask.value, wide), wide, mask.dtype)
    old = ctx.widened(x)
    y = ctx.aligned(new, x.shape)
    if accumulate:
        y = _sum(ctx, old, Tensor(y, shape, new.dtype))
    return where(ctx, ctx.aligned(condition, x.shape), y, old.value)


def _only(dims: list[int]) -> list[int]:
    if len(dims) != 1:
        raise Unsupported("index_put with a mask beside another index")
    return dims


def _sum(ctx: LoweringContext, a: Tensor, b: Tensor) -> Value:
    if ir_dtype(a.dtype) is DType.F32:
        return ctx.call("add", ctx.rows(a.value), ctx.rows(b.value))
    return host_binary(ctx, HostBinary.ADD, a.value, b.value, a.dtype)


@lowering("aten.masked_scatter.default")
def masked_scatter(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Where the mask is set, the elements of ``source`` one after the other.

    A source that is too short is an error of the call.
    """
    shape, dtype = ctx.output_shape(node), ctx.output_dtype(node)
    x, mask = ctx.tensor(node.args[0]), ctx.tensor(node.args[1], "mask")
    source = ctx.tensor(node.args[2], "source")
    set_at = ctx.reshape(ctx.broadcast_to(mask, shape), [product(shape)])
    count = host_scan(ctx, HostScan.SUM, set_at, torch.int64)
    ids = host_binary(ctx, HostBinary.SUB, count, integer(ctx, 1), torch.int64)
    ids = host_binary(ctx, HostBinary.MAXIMUM, ids, integer(ctx, 0), torch.int64)
    picked = take(ctx, merged(ctx, source, 0, source.rank), 0, ids)
    new = ctx.aligned(Tensor(ctx.reshape(picked.value, shape), shape, dtype), shape)
    condition, old = ctx.aligned(mask, shape), ctx.aligned(ctx.widened(x), shape)
    return ctx.result(node, where(ctx, condition, new, old))
