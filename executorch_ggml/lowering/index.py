"""Elements picked by index: ``index_select``, ``gather``, ``index``, and moves by fixed ids.

What an op moves ahead of time known, such as a flip or a diagonal, is a list of constant
ids. Rows of one element are rows too: ggml's ``get_rows`` is all that is needed, and it
checks ids that are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, dims_equal, product, simplify_dim
from executorch_ggml.lowering.constructors import filled
from executorch_ggml.lowering.context import (
    LoweringContext,
    Tensor,
    broadcast_shape,
    normalize_dim,
)
from executorch_ggml.lowering.host import host_binary, integer, iota
from executorch_ggml.lowering.registry import Unsupported, lowering

#: Lists of ids up to this long are stored with the program.
MAX_STORED_IDS = 2**16

#: Rows below this are better transposed than picked one by one.
_SHORT_ROW = 16

#: A triangle of more elements is told from its indices, element by element.
_MAX_TRIANGLE = 2**12


# --- along one dim ---------------------------------------------------------------------


def take(ctx: LoweringContext, x: Tensor, dim: int, ids: Value) -> Tensor:
    """``x`` at I32 ids [k] of one dim, as ``[outer, k, inner]``; ids outside are an error."""
    around = ctx.around(x, dim)
    outer, _, inner = around.shape
    count = ids.ne[0]
    shape = (outer, count, inner)
    if dims_equal(outer, 1):
        table, lists = around.value, ids
    elif isinstance(inner, int) and inner < _SHORT_ROW:
        # Rows of all outer elements: longer than those of the inner ones.
        table = ctx.reshape(ctx.permute(around.value, (1, 0, 2)), (1, x.shape[dim], outer * inner))
        picked = ctx.call("get_rows", ctx.rows(table), ctx.contiguous(ids))
        apart = ctx.reshape(picked, (count, outer, inner))
        return Tensor(ctx.permute(apart, (1, 0, 2)), shape, x.dtype)
    else:
        table = around.value
        lists = ctx.call("repeat", ids, ne0=count, ne1=outer, ne2=1, ne3=1)
    picked = ctx.call("get_rows", ctx.rows(table), ctx.contiguous(lists))
    return Tensor(picked, shape, x.dtype)


def take_fixed(ctx: LoweringContext, x: Tensor, dim: int, ids: torch.Tensor) -> Tensor:
    """As :func:`take`, at ids known now: any shape, read in order.

    Raises:
        Unsupported: too many ids to store.
    """
    if ids.numel() > MAX_STORED_IDS:
        raise Unsupported(f"{ids.numel()} fixed ids; up to {MAX_STORED_IDS} are stored")
    return take(ctx, x, dim, ctx.constant(ids.reshape(-1).to(torch.int64).contiguous()))


def merged(ctx: LoweringContext, x: Tensor, first: int, count: int) -> Tensor:
    """``count`` dims from ``first`` on as one dim."""
    end = first + count
    shape = (*x.shape[:first], product(x.shape[first:end]), *x.shape[end:])
    return Tensor(ctx.reshape(x.value, shape), shape, x.dtype)


def static_sizes(x: Tensor, dims: Sequence[int]) -> list[int]:
    """The sizes of some dims.

    Raises:
        Unsupported: a dynamic one.
    """
    sizes = [x.shape[d] for d in dims]
    if any(not isinstance(s, int) for s in sizes):
        raise Unsupported(f"fixed ids along a dynamic dim of {list(x.shape)}")
    return [int(s) for s in sizes]


def at_least_rank_1(ctx: LoweringContext, x: Tensor) -> Tensor:
    """A scalar as one element, which is how torch indexes it."""
    return x if x.rank else Tensor(ctx.reshape(x.value, (1,)), (1,), x.dtype)


def index_operand(ctx: LoweringContext, arg: Any, name: str = "index") -> Tensor:
    """An operand that holds indices.

    Raises:
        Unsupported: floats, or a mask: how much that picks depends on its contents.
    """
    ids = ctx.tensor(arg, name)
    if ids.is_float:
        raise Unsupported(f"indices of dtype {ids.dtype}")
    if ids.dtype in (torch.bool, torch.uint8):
        raise Unsupported("a mask as the index: the size of the result depends on its contents")
    return ids


@lowering("aten.index_select.default")
def index_select(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = at_least_rank_1(ctx, ctx.tensor(node.args[0]))
    dim = normalize_dim(node.args[1], x.rank)
    ids = index_operand(ctx, node.args[2])
    flat = ctx.reshape(ids.value, [product(ids.shape)])
    return ctx.result(node, ctx.reshape(take(ctx, x, dim, flat).value, ctx.output_shape(node)))


@lowering("aten.gather.default")
def gather(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Rows of one element: one table for each position of the other dims."""
    x = at_least_rank_1(ctx, ctx.tensor(node.args[0]))
    index = at_least_rank_1(ctx, index_operand(ctx, node.args[2]))
    dim = normalize_dim(node.args[1], x.rank)
    x = cut_to(ctx, x, index.shape, dim)
    order = [d for d in range(x.rank) if d != dim] + [dim]
    moved, ids = ctx.permuted(x, order), ctx.permuted(index, order)
    n_rows, count = product(ids.shape[:-1]), ids.shape[-1]
    table = ctx.reshape(moved.value, (n_rows, x.shape[dim], 1))
    flat = ctx.contiguous(ctx.reshape(ids.value, (n_rows, count)))
    picked = ctx.call("get_rows", ctx.rows(table), flat)
    result = Tensor(ctx.reshape(picked, ids.shape), ids.shape, x.dtype)
    back = ctx.permuted(result, [order.index(d) for d in range(x.rank)])
    return ctx.result(node, ctx.reshape(back.value, ctx.output_shape(node)))


def cut_to(ctx: LoweringContext, x: Tensor, shape: Sequence[Dim], but: int | None = None) -> Tensor:
    """The first elements of every dim (but one), as many as in ``shape``."""
    for d in range(x.rank):
        if d != but and not dims_equal(x.shape[d], shape[d]):
            if not isinstance(x.shape[d], int) or not isinstance(shape[d], int):
                raise Unsupported(f"indices of shape {list(shape)} into {list(x.shape)}")
            cut = (*x.shape[:d], shape[d], *x.shape[d + 1 :])
            x = Tensor(ctx.slice(x, d, 0, shape[d]), cut, x.dtype)
    return x


# --- index tensors ----------------------------------------------------------------------


@dataclass(frozen=True)
class IndexPlan:
    """Where index tensors pick from ``x[indices]``.

    ``moved`` is x with the indexed dims beside each other: ``[*front, *indexed, *back]``;
    ``order`` says which dims of x these are. ``shape`` is what the index tensors broadcast
    to, and it takes the place of the indexed dims in the result.
    """

    moved: Tensor
    order: list[int]
    n_front: int
    n_indexed: int
    shape: tuple[Dim, ...]

    @property
    def front(self) -> tuple[Dim, ...]:
        return self.moved.shape[: self.n_front]

    @property
    def indexed(self) -> tuple[Dim, ...]:
        return self.moved.shape[self.n_front : self.n_front + self.n_indexed]

    @property
    def back(self) -> tuple[Dim, ...]:
        return self.moved.shape[self.n_front + self.n_indexed :]


def plan_index(ctx: LoweringContext, x: Tensor, indices: Sequence[Any]) -> IndexPlan:
    """Index tensors that are not neighbours put their dims first, as in numpy."""
    dims = [d for d, i in enumerate(indices) if i is not None]
    shapes = [index_operand(ctx, indices[d]).shape for d in dims]
    rest = [d for d in range(x.rank) if d not in dims]
    together = dims == list(range(dims[0], dims[0] + len(dims)))
    front = [d for d in rest if together and d < dims[0]]
    order = [*front, *dims, *(d for d in rest if d not in front)]
    shape = broadcast_shape(*shapes)
    return IndexPlan(ctx.permuted(x, order), order, len(front), len(dims), shape)


def fixed_ids(ctx: LoweringContext, plan: IndexPlan, indices: Sequence[Any]) -> torch.Tensor | None:
    """Ids into the indexed dims as one, if all of them are constants; negative ones wrapped."""
    given = [ctx.known_integers(i) for i in indices if i is not None]
    ids: torch.Tensor | None = None
    for size, one in zip(plan.indexed, given, strict=True):
        if one is None or not isinstance(size, int):
            return None
        if one.numel() and (int(one.min()) < -size or int(one.max()) >= size):
            raise Unsupported(f"a constant index outside a dim of {size}")
        wrapped = torch.where(one < 0, one + size, one)
        ids = wrapped if ids is None else ids * size + wrapped
    return ids


def computed_ids(ctx: LoweringContext, plan: IndexPlan, indices: Sequence[Any]) -> Value:
    """Ids [k] into the indexed dims as one; negative ones count from the end of their dim."""
    result: Tensor | None = None
    for size, arg in zip(plan.indexed, (i for i in indices if i is not None), strict=True):
        one = index_operand(ctx, arg)
        known = ctx.known_integers(arg)
        if known is None or not isinstance(size, int) or int(known.min()) < 0:
            value = ctx.call("host_wrap_ids", one.value, limit=size)
            one = Tensor(value, one.shape, one.dtype)
        if result is not None:
            scaled = host_binary(ctx, HostBinary.MUL, result.value, integer(ctx, size), torch.int64)
            shape = broadcast_shape(result.shape, one.shape)
            total = host_binary(
                ctx,
                HostBinary.ADD,
                ctx.aligned(Tensor(scaled, result.shape, torch.int64), shape),
                ctx.aligned(one, shape),
                torch.int64,
            )
            one = Tensor(total, shape, torch.int64)
        result = one
    assert result is not None
    full = ctx.broadcast_to(result, plan.shape)
    return ctx.contiguous(ctx.reshape(full, [product(plan.shape)]))


@lowering("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x[i, :, j]``: the indexed dims as one, taken along."""
    x = ctx.tensor(node.args[0])
    indices = node.args[1]
    assert isinstance(indices, (list, tuple))
    plan = plan_index(ctx, x, indices)
    flat = merged(ctx, plan.moved, plan.n_front, plan.n_indexed)
    fixed = fixed_ids(ctx, plan, indices)
    if fixed is not None and fixed.numel() <= MAX_STORED_IDS:
        picked = take_fixed(ctx, flat, plan.n_front, fixed)
    else:
        picked = take(ctx, flat, plan.n_front, computed_ids(ctx, plan, indices))
    return ctx.result(node, ctx.reshape(picked.value, ctx.output_shape(node)))


# --- moves by fixed ids -------------------------------------------------------------------


@lowering("aten.flip.default")
def flip(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    dims = node.args[1]
    assert isinstance(dims, (list, tuple))
    for dim in dims if x.rank else ():
        d = normalize_dim(dim, x.rank)
        size = x.shape[d]
        if dims_equal(size, 1):
            continue
        if isinstance(size, int) and size <= MAX_STORED_IDS:
            taken = take_fixed(ctx, x, d, torch.arange(size - 1, -1, -1))
        else:
            taken = take(ctx, x, d, iota(ctx, size, simplify_dim(size - 1), -1))
        x = Tensor(ctx.reshape(taken.value, x.shape), x.shape, x.dtype)
    return ctx.result(node, x.value)


@lowering("aten.unfold.default", "aten.unfold_copy.default")
def unfold(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Windows of ``size``, ``step`` apart; the place in the window becomes the last dim."""
    x = ctx.tensor(node.args[0])
    size, step = (ctx.static(a, "window") for a in node.args[2:4])
    if x.rank == 0:
        return ctx.result(node, ctx.reshape(x.value, ctx.output_shape(node)))
    dim = normalize_dim(node.args[1], x.rank)
    (extent,) = static_sizes(x, [dim])
    ids = torch.arange(extent).unfold(0, size, step)
    taken = take_fixed(ctx, x, dim, ids)
    windows = (*x.shape[:dim], *ids.shape, *x.shape[dim + 1 :])
    value = Tensor(ctx.reshape(taken.value, windows), windows, x.dtype)
    order = [d for d in range(x.rank + 1) if d != dim + 1] + [dim + 1]
    return ctx.result(node, ctx.permuted(value, order).value)


def _matrix(ctx: LoweringContext, x: Tensor, dim0: int, dim1: int) -> tuple[Tensor, int, int]:
    """Two dims moved to the end and merged, and their sizes."""
    rows, columns = static_sizes(x, [dim0, dim1])
    order = [d for d in range(x.rank) if d not in (dim0, dim1)] + [dim0, dim1]
    return merged(ctx, ctx.permuted(x, order), x.rank - 2, 2), rows, columns


def _two_dims(node: fx.Node, rank: int, defaults: tuple[int, int]) -> tuple[int, int, int]:
    """The arguments ``offset, dim1, dim2`` of the diagonal's family."""
    offset = LoweringContext.argument(node, 1, "offset", 0)
    dim0 = normalize_dim(LoweringContext.argument(node, 2, "dim1", defaults[0]), rank)
    dim1 = normalize_dim(LoweringContext.argument(node, 3, "dim2", defaults[1]), rank)
    return offset, dim0, dim1


@lowering("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    offset, dim0, dim1 = _two_dims(node, x.rank, (0, 1))
    matrix, rows, columns = _matrix(ctx, x, dim0, dim1)
    ids = torch.arange(rows * columns).reshape(rows, columns).diagonal(offset)
    taken = take_fixed(ctx, matrix, matrix.rank - 1, ids)
    return ctx.result(node, ctx.reshape(taken.value, ctx.output_shape(node)))


def with_zero(ctx: LoweringContext, x: Tensor) -> Tensor:
    """The last dim with a 0 behind it, for ids that pick nothing."""
    shape = (*x.shape[:-1], simplify_dim(x.shape[-1] + 1))
    flat = ctx.around(x, x.rank - 1).value
    zeros = filled(ctx, 0, x.dtype, (product(x.shape[:-1]), 1, 1))
    flat = ctx.call("concat", flat, zeros, axis=1)
    return Tensor(ctx.reshape(flat, shape), shape, x.dtype)


@lowering("aten.diag_embed.default", whole=True)
def diag_embed(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    shape = ctx.output_shape(node)
    offset, dim0, dim1 = _two_dims(node, len(shape), (-2, -1))
    (length,) = static_sizes(x, [x.rank - 1])
    positions = torch.diag_embed(torch.arange(length) - length, offset) + length
    taken = take_fixed(ctx, with_zero(ctx, ctx.widened(x)), x.rank - 1, positions)
    square = (*x.shape[:-1], *positions.shape)
    value = Tensor(ctx.reshape(taken.value, square), square, x.dtype)
    order = [d for d in range(len(shape)) if d not in (dim0, dim1)] + [dim0, dim1]
    return ctx.result(node, ctx.permuted(value, [order.index(d) for d in range(len(shape))]).value)


@lowering("aten.tril.default", "aten.triu.default", whole=True)
def triangle(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The kept elements, and a 0 in place of the others: as they are, be they inf or NaN."""
    x = ctx.widened(ctx.tensor(node.args[0]))
    offset = ctx.argument(node, 1, "diagonal", 0)
    matrix, rows, columns = _matrix(ctx, x, x.rank - 2, x.rank - 1)
    if rows * columns > _MAX_TRIANGLE:
        raise Unsupported(f"a triangle of {rows} x {columns} by fixed ids")
    keep = torch.tril if "tril" in str(node.target) else torch.triu
    kept = keep(torch.ones(rows, columns, dtype=torch.bool), offset)
    ids = torch.where(kept.reshape(-1), torch.arange(rows * columns), rows * columns)
    if bool(kept.all()):
        return ctx.result(node, x.value)
    taken = take_fixed(ctx, with_zero(ctx, matrix), matrix.rank - 1, ids)
    return ctx.result(node, ctx.reshape(taken.value, ctx.output_shape(node)))


def strided_ids(x: Tensor, fake: Any, size: Any, stride: Any, offset: Any) -> torch.Tensor:
    """Where the elements of ``as_strided`` lie in a contiguous tensor.

    Raises:
        Unsupported: not a whole contiguous tensor, or dynamic.
    """
    numbers = (*size, *stride, offset or 0)
    if any(not isinstance(n, int) for n in numbers):
        raise Unsupported("as_strided with dynamic sizes or strides")
    total = math.prod(static_sizes(x, range(x.rank)))
    whole = fake.is_contiguous() and fake.storage_offset() == 0
    if not whole or fake.untyped_storage().nbytes() != total * fake.element_size():
        raise Unsupported("as_strided of what is not a whole contiguous tensor")
    return torch.arange(total).as_strided(tuple(size), tuple(stride), offset or 0)


def take_runs(ctx: LoweringContext, x: Tensor, ids: torch.Tensor) -> Value:
    """All elements as one row, at fixed ids; in runs where ids follow each other."""
    flat = ids.reshape(-1)
    starts = torch.cat(
        [torch.zeros(1, dtype=torch.int64), torch.nonzero(flat.diff() != 1)[:, 0] + 1]
    )
    total = math.prod(static_sizes(x, range(x.rank)))
    run = math.gcd(total, flat.numel(), *starts.tolist(), *flat[starts].tolist())
    table = Tensor(ctx.reshape(x.value, (total // run, run)), (total // run, run), x.dtype)
    return take_fixed(ctx, table, 0, flat[::run] // run).value


@lowering("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    source = node.args[0]
    assert isinstance(source, fx.Node)
    offset = ctx.argument(node, 3, "storage_offset")
    ids = strided_ids(x, source.meta["val"], node.args[1], node.args[2], offset)
    return ctx.result(node, ctx.reshape(take_runs(ctx, x, ids), ctx.output_shape(node)))


@lowering("aten.one_hot.default", whole=True)
def one_hot(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Rows of an identity matrix; a class outside is an error, as in torch."""
    classes = index_operand(ctx, node.args[0], "classes")
    count = ctx.argument(node, 1, "num_classes", -1)
    if not isinstance(count, int) or count < 0:
        raise Unsupported("one_hot whose number of classes depends on its input")
    if count * count > MAX_STORED_IDS:
        raise Unsupported(f"one_hot of {count} classes")
    table = ctx.constant(torch.eye(count, dtype=torch.int64))
    flat = ctx.contiguous(ctx.reshape(classes.value, [product(classes.shape)]))
    return ctx.result(node, ctx.reshape(ctx.call("get_rows", table, flat), ctx.output_shape(node)))
