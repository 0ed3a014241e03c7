"""Values as rows along ``ne[0]``, which ggml's calls and our own work on, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, dims_equal
from executorch_ggml.lowering.context import (
    MAX_RANK,
    LoweringContext,
    Tensor,
    normalize_dim,
    product,
    to_dim,
)


def reduced_dims(dims: Any, rank: int) -> list[int]:
    """The torch dims that an argument names, in order: None or an empty list means all."""
    if rank == 0:
        return []
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(rank))
    named = dims if isinstance(dims, (list, tuple)) else [dims]
    return sorted({normalize_dim(d, rank) for d in named})


def count_over(x: Tensor, dims: Sequence[int]) -> Dim:
    """How many elements are reduced to one."""
    return product(x.shape[d] for d in dims)


def rows_over(ctx: LoweringContext, x: Tensor, dims: Sequence[int]) -> Value:
    """The elements over ``dims`` as rows ``ne[0]``, one for each position of the other dims."""
    kept = [d for d in range(x.rank) if d not in dims]
    moved = ctx.permuted(x, [*kept, *dims]).value
    lead: list[Dim] = [x.shape[d] for d in kept]
    if len(kept) >= MAX_RANK:  # rows must not share their axis, nor lose it
        lead = [product(lead)]
    return ctx.reshape(moved, [*lead, count_over(x, dims)])


@dataclass(frozen=True)
class Lines:
    """A tensor as rows along one torch dim, and the way back to the tensor's order.

    ``rows`` is a view, perhaps strided.
    """

    tensor: Tensor
    dim: int
    rows: Value

    @property
    def length(self) -> Dim:
        return self.tensor.shape[self.dim] if self.tensor.rank else 1

    def restored(self, ctx: LoweringContext, rows: Value) -> Value:
        """Rows of any length in place of the tensor's, in torch's order of dims."""
        x, dim, length = self.tensor, self.dim, rows.ne[0]
        if x.rank == 0:
            return rows
        result = (*x.shape[:dim], length, *x.shape[dim + 1 :])
        inner = product(x.shape[dim + 1 :])
        if dims_equal(inner, 1):
            return ctx.reshape(rows, result)
        if x.rank <= MAX_RANK:
            last = x.rank - 1
            moved = list(result)
            moved[dim], moved[last] = moved[last], moved[dim]
            return ctx.transpose(Tensor(rows, tuple(moved), x.dtype), dim, last).value
        three = (product(x.shape[:dim]), inner, length)
        swapped = Tensor(ctx.reshape(rows, three), three, x.dtype)
        return ctx.reshape(ctx.transpose(swapped, 1, 2).value, result)


def lines(ctx: LoweringContext, x: Tensor, dim: Any) -> Lines:
    """The tensor's elements along a torch dim as rows; a scalar is a row of one."""
    if x.rank == 0:
        return Lines(x, 0, x.value)
    axis = normalize_dim(dim, x.rank)
    if dims_equal(product(x.shape[axis + 1 :]), 1):
        lead = x.shape[:axis] if axis < MAX_RANK else (product(x.shape[:axis]),)
        return Lines(x, axis, ctx.reshape(x.value, (*lead, x.shape[axis])))
    if x.rank <= MAX_RANK:
        return Lines(x, axis, ctx.transpose(x, axis, x.rank - 1).value)
    return Lines(x, axis, ctx.transpose(ctx.around(x, axis), 1, 2).value)


def shaped(ctx: LoweringContext, fake: Any, value: Value) -> Tensor:
    """A value as the tensor that ``fake`` describes: one of several results of a node."""
    shape = tuple(to_dim(s) for s in fake.shape)
    return Tensor(ctx.reshape(value, shape), shape, fake.dtype)


def shaped_all(ctx: LoweringContext, node: fx.Node, *values: Value) -> tuple[Tensor, ...]:
    """The results of a node that gives a tuple."""
    fakes = node.meta["val"]
    return tuple(shaped(ctx, fake, value) for fake, value in zip(fakes, values, strict=True))
