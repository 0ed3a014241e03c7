"""Parts of tensors, tensors of parts, and parts replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from executorch_ggml.ir.enums import HostBinary
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, dims_equal, product, simplify_dim
from executorch_ggml.lowering.context import (
    LoweringContext,
    Tensor,
    axis_of,
    normalize_dim,
)
from executorch_ggml.lowering.host import as_dtype, host_binary, integer, iota, where
from executorch_ggml.lowering.index import (
    merged,
    static_sizes,
    strided_ids,
    take,
    take_fixed,
)
from executorch_ggml.lowering.registry import Unsupported, lowering

_INT64_MAX = 2**63 - 1


# --- parts -----------------------------------------------------------------------------


def _bound(ctx: LoweringContext, arg: Any, extent: Dim, default: Dim) -> Dim:
    """A slice bound, clipped to the extent as torch clips it."""
    if arg is None:
        return default
    bound = ctx.dim(arg)
    if not isinstance(bound, int):
        return simplify_dim(bound + extent) if _is_negative(arg) else bound
    if bound >= _INT64_MAX:
        return extent
    if bound < 0:
        bound = simplify_dim(bound + extent)
        return max(bound, 0) if isinstance(bound, int) else bound
    return min(bound, extent) if isinstance(extent, int) else bound


def _is_negative(arg: Any) -> bool:
    """Whether a computed bound counts from the end.

    Raises:
        Unsupported: for some sizes it does and for others it does not.
    """
    size = arg.meta["val"] if isinstance(arg, fx.Node) else arg
    if statically_known_true(size >= 0):
        return False
    if statically_known_true(size < 0):
        return True
    raise Unsupported(f"a bound of {size} elements, which may be negative")


@lowering("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    dim = normalize_dim(ctx.argument(node, 1, "dim", 0), x.rank)
    start = _bound(ctx, ctx.argument(node, 2, "start"), x.shape[dim], 0)
    step = ctx.static(ctx.argument(node, 4, "step", 1), "step")
    shape = ctx.output_shape(node)
    if dims_equal(shape[dim], x.shape[dim]) and step == 1:
        return ctx.result(node, x.value)
    if any(dims_equal(d, 0) for d in shape):
        raise Unsupported("an empty slice")
    return ctx.result(node, ctx.slice(x, dim, start, shape[dim], step))


@lowering("aten.narrow.default", "aten.narrow_copy.default")
def narrow(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    dim = normalize_dim(node.args[1], x.rank)
    start = _bound(ctx, node.args[2], x.shape[dim], 0)
    return ctx.result(node, ctx.slice(x, dim, start, ctx.output_shape(node)[dim]))


@lowering("aten.select.int", "aten.select_copy.int")
def select(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    dim = normalize_dim(node.args[1], x.rank)
    index = _element(ctx, node.args[2], x.shape[dim])
    picked = ctx.slice(x, dim, index, 1)
    return ctx.result(node, ctx.reshape(picked, ctx.output_shape(node)))


def _element(ctx: LoweringContext, arg: Any, extent: Dim) -> Dim:
    """An index into a dim, counted from its start.

    Raises:
        Unsupported: a computed one that may lie outside.
    """
    index = ctx.dim(arg)
    if isinstance(index, int) and index < 0:
        index = simplify_dim(index + extent)
    if not isinstance(index, int) and index.free_symbols and not _is_in_bounds(index, extent):
        raise Unsupported(f"index {index} is not known to be in range")
    return index


def _is_in_bounds(index: Dim, extent: Dim) -> bool:
    """Whether the index is the extent less a constant (``x[:, -1]``)."""
    difference = simplify_dim(extent - index)
    return isinstance(difference, int) and difference > 0


@lowering(
    "aten.split_with_sizes.default",
    "aten.split_with_sizes_copy.default",
    "aten.split.Tensor",
    "aten.split_copy.Tensor",
    "aten.chunk.default",
)
def split(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    x = ctx.tensor(node.args[0])
    dim = normalize_dim(ctx.argument(node, 2, "dim", 0), x.rank)
    parts: list[Tensor] = []
    start: Dim = 0
    for fake in node.meta["val"]:
        shape = tuple(ctx.dim(s) for s in fake.shape)
        if any(dims_equal(s, 0) for s in shape):
            raise Unsupported("a split with an empty part")
        parts.append(Tensor(ctx.slice(x, dim, start, shape[dim]), shape, x.dtype))
        start = simplify_dim(start + shape[dim])
    return tuple(parts)


@lowering("aten.unbind.int", "aten.unbind_copy.int")
def unbind(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    x = ctx.tensor(node.args[0])
    dim = normalize_dim(ctx.argument(node, 1, "dim", 0), x.rank)
    parts: list[Tensor] = []
    for index, fake in enumerate(node.meta["val"]):
        shape = tuple(ctx.dim(s) for s in fake.shape)
        parts.append(Tensor(ctx.reshape(ctx.slice(x, dim, index, 1), shape), shape, x.dtype))
    return tuple(parts)


# --- tensors of parts --------------------------------------------------------------------


def concatenate(ctx: LoweringContext, parts: Sequence[Tensor], dim: int) -> Value:
    """Tensors of one rank and dtype after each other along ``dim``."""
    axis = axis_of(parts[0].shape, dim)
    if axis is None or any(axis_of(p.shape, dim) != axis for p in parts):
        parts = [ctx.around(p, dim) for p in parts]
        axis = 1
    result = parts[0].value
    for part in parts[1:]:
        result = ctx.call("concat", result, part.value, axis=axis)
    return result


def joined(ctx: LoweringContext, parts: Sequence[Tensor], dim: int) -> Tensor:
    """As :func:`concatenate`, with the shape that results."""
    first = parts[0]
    total = simplify_dim(sum((p.shape[dim] for p in parts[1:]), start=first.shape[dim]))
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    return Tensor(ctx.reshape(concatenate(ctx, parts, dim), shape), shape, first.dtype)


@lowering("aten.cat.default", "aten.concat.default")
def cat(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Of mixed dtypes the parts are converted to the result's."""
    tensors = node.args[0]
    assert isinstance(tensors, (list, tuple))
    shape, dtype = ctx.output_shape(node), ctx.output_dtype(node)
    dim = normalize_dim(ctx.argument(node, 1, "dim", 0), len(shape))
    parts = [as_dtype(ctx, ctx.tensor(t), dtype) for t in tensors]
    return ctx.result(node, ctx.reshape(concatenate(ctx, parts, dim), shape))


@lowering("aten.stack.default")
def stack(ctx: LoweringContext, node: fx.Node) -> Tensor:
    tensors = node.args[0]
    assert isinstance(tensors, (list, tuple))
    shape, dtype = ctx.output_shape(node), ctx.output_dtype(node)
    dim = normalize_dim(ctx.argument(node, 1, "dim", 0), len(shape))
    part_shape = (*shape[:dim], 1, *shape[dim + 1 :])
    parts = [as_dtype(ctx, ctx.tensor(t), dtype) for t in tensors]
    parts = [Tensor(ctx.reshape(p.value, part_shape), part_shape, p.dtype) for p in parts]
    return ctx.result(node, ctx.reshape(concatenate(ctx, parts, dim), shape))


@lowering("aten.roll.default", whole=True)
def roll(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The last elements of each dim come first. Without dims, of all elements in a row."""
    x = ctx.tensor(node.args[0])
    shifts, dims = node.args[1], ctx.argument(node, 2, "dims", [])
    assert isinstance(shifts, (list, tuple))
    shape = x.shape
    if not dims:
        flat = (product(shape),)
        x, dims = Tensor(ctx.reshape(x.value, flat), flat, x.dtype), [0]
    for shift, dim in zip(shifts, dims, strict=True):
        d = normalize_dim(dim, x.rank)
        size = x.shape[d]
        if not isinstance(size, int):
            x = _rolled_ids(ctx, x, d, ctx.dim(shift))
            continue
        first = ctx.static(shift, "shift") % size
        if first == 0:
            continue
        x = joined(
            ctx, [_part(ctx, x, d, size - first, size), _part(ctx, x, d, 0, size - first)], d
        )
    return ctx.result(node, ctx.reshape(x.value, shape))


def _rolled_ids(ctx: LoweringContext, x: Tensor, dim: int, shift: Dim) -> Tensor:
    """A dim of dynamic size, which may be less than the shift."""
    size = x.shape[dim]
    ids = iota(ctx, size, simplify_dim(-shift))
    ids = host_binary(ctx, HostBinary.REMAINDER, ids, integer(ctx, size), torch.int64)
    return Tensor(ctx.reshape(take(ctx, x, dim, ids).value, x.shape), x.shape, x.dtype)


def _part(ctx: LoweringContext, x: Tensor, dim: int, start: Dim, end: Dim) -> Tensor:
    length = simplify_dim(end - start)
    shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])
    return Tensor(ctx.slice(x, dim, start, length), shape, x.dtype)


# --- parts replaced ------------------------------------------------------------------------


def replaced(
    ctx: LoweringContext, x: Tensor, part: Tensor, dim: int, start: Dim, step: int = 1
) -> Tensor:
    """``x`` with ``part`` in the place of as many elements of a dim, ``step`` apart."""
    extent, length = x.shape[dim], part.shape[dim]
    x, part = ctx.widened(x), ctx.widened(part)
    if step != 1:
        (size,) = static_sizes(x, [dim])
        if not isinstance(start, int) or not isinstance(length, int):
            raise Unsupported("a strided part of dynamic size")
        ids = torch.arange(size)
        ids[start : start + step * length : step] = torch.arange(size, size + length)
        taken = take_fixed(ctx, joined(ctx, [x, part], dim), dim, ids)
        return Tensor(ctx.reshape(taken.value, x.shape), x.shape, x.dtype)
    rest = simplify_dim(extent - start - length)
    before, after = _some(start), _some(rest)
    if before is None or after is None:
        return _replaced_ids(ctx, x, part, dim, start)
    parts = [part]
    if before:
        parts.insert(0, _part(ctx, x, dim, 0, start))
    if after:
        parts.append(_part(ctx, x, dim, simplify_dim(start + length), extent))
    return joined(ctx, parts, dim)


def _some(count: Dim) -> bool | None:
    """Whether there is anything; None if that depends on sizes."""
    if isinstance(count, int):
        return count > 0
    if dims_equal(count, 0):
        return False
    return True if count.is_positive else None


def _replaced_ids(ctx: LoweringContext, x: Tensor, part: Tensor, dim: int, start: Dim) -> Tensor:
    """As :func:`replaced`: each element of the old or the new ones, counted at run time."""
    extent, length = x.shape[dim], part.shape[dim]
    ids = iota(ctx, extent)
    inside = within(ctx, ids, start, simplify_dim(start + length))
    new = iota(ctx, extent, simplify_dim(extent - start))
    taken = take(ctx, joined(ctx, [x, part], dim), dim, where(ctx, inside, new, ids))
    return Tensor(ctx.reshape(taken.value, x.shape), x.shape, x.dtype)


def within(ctx: LoweringContext, ids: Value, low: Dim, high: Dim) -> Value:
    """Which I32 values are in ``low..high - 1``."""
    from_low = host_binary(ctx, HostBinary.GE, ids, integer(ctx, low), torch.bool)
    below_high = host_binary(ctx, HostBinary.LT, ids, integer(ctx, high), torch.bool)
    return host_binary(ctx, HostBinary.LOGICAL_AND, from_low, below_high, torch.bool)


@lowering("aten.slice_scatter.default")
def slice_scatter(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    part = as_dtype(ctx, ctx.tensor(node.args[1], "src"), x.dtype)
    dim = normalize_dim(ctx.argument(node, 2, "dim", 0), x.rank)
    start = _bound(ctx, ctx.argument(node, 3, "start"), x.shape[dim], 0)
    step = ctx.static(ctx.argument(node, 5, "step", 1), "step")
    return ctx.result(node, replaced(ctx, x, part, dim, start, step).value)


@lowering("aten.select_scatter.default", whole=True)
def select_scatter(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    part = as_dtype(ctx, ctx.tensor(node.args[1], "src"), x.dtype)
    dim = normalize_dim(node.args[2], x.rank)
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    row = Tensor(ctx.reshape(part.value, shape), shape, x.dtype)
    start = _element(ctx, node.args[3], x.shape[dim])
    return ctx.result(node, replaced(ctx, x, row, dim, start).value)


def _replaced_at(ctx: LoweringContext, x: Tensor, part: Tensor, ids: torch.Tensor) -> Value:
    """Elements of the last dim replaced by those of ``part``, at fixed ids."""
    (size,) = static_sizes(x, [x.rank - 1])
    picked = torch.arange(size)
    picked[ids.reshape(-1)] = torch.arange(size, size + ids.numel())
    both = joined(ctx, [ctx.widened(x), part], x.rank - 1)
    return take_fixed(ctx, both, x.rank - 1, picked).value


@lowering("aten.diagonal_scatter.default", whole=True)
def diagonal_scatter(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    part = as_dtype(ctx, ctx.tensor(node.args[1], "src"), x.dtype)
    offset = ctx.static(ctx.argument(node, 2, "offset", 0), "offset")
    dim0 = normalize_dim(ctx.argument(node, 3, "dim1", 0), x.rank)
    dim1 = normalize_dim(ctx.argument(node, 4, "dim2", 1), x.rank)
    rows, columns = static_sizes(x, [dim0, dim1])
    order = [d for d in range(x.rank) if d not in (dim0, dim1)] + [dim0, dim1]
    moved = ctx.permuted(x, order)
    ids = torch.arange(rows * columns).reshape(rows, columns).diagonal(offset)
    y = _replaced_at(ctx, merged(ctx, moved, x.rank - 2, 2), part, ids)
    result = Tensor(ctx.reshape(y, moved.shape), moved.shape, x.dtype)
    return ctx.result(node, ctx.permuted(result, [order.index(d) for d in range(x.rank)]).value)


@lowering("aten.as_strided_scatter.default", whole=True)
def as_strided_scatter(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    part = as_dtype(ctx, ctx.tensor(node.args[1], "src"), x.dtype)
    source = node.args[0]
    assert isinstance(source, fx.Node)
    offset = ctx.argument(node, 4, "storage_offset")
    ids = strided_ids(x, source.meta["val"], node.args[2], node.args[3], offset)
    if len(set(ids.reshape(-1).tolist())) != ids.numel():
        raise Unsupported("as_strided_scatter that writes an element twice")
    flat = merged(ctx, x, 0, x.rank)
    y = _replaced_at(ctx, flat, merged(ctx, part, 0, part.rank), ids)
    return ctx.result(node, ctx.reshape(y, x.shape))
