"""Elements written by index, into inputs, constants and buffers."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tests.lowering.cases.base import (
    ELEMENTWISE,
    EXACT,
    Case,
    S,
    each,
    fn,
    host,
    host_over,
    ids,
    r,
    sizes,
    together,
)
from tests.lowering.cases.index import _mask, _signed

move = partial(fn, rtol=EXACT)
put = partial(host, rtol=EXACT)


def _distinct(limit: int, count: int) -> Tensor:
    return torch.randperm(limit, generator=torch.Generator().manual_seed(limit))[:count]


def _columns(limit: int, *shape: int) -> Tensor:
    """Distinct indices along dim 0, for every position of the other dims."""
    order = torch.rand((limit, *shape[1:]), generator=torch.Generator().manual_seed(limit))
    return order.argsort(0)[: shape[0]]


class _OnConstant(nn.Module):
    """Rows written into a table of the module that stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", r(5, 3))

    def forward(self, index: Tensor, values: Tensor) -> Tensor:
        return self.table.index_put((index,), values)


class _OnBuffer(nn.Module):
    """A write into a buffer, whose old content is read as well, or not. Run once."""

    def __init__(self, write: Any, reads_old: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.write = write
        self.reads_old = reads_old
        self.register_buffer("rows", (r(2, 5, 3) * 9).to(dtype))

    def forward(self, index: Tensor, values: Tensor) -> Tensor:
        old = self.rows * 2 if self.reads_old else None
        self.write(self.rows, index, values)
        return self.rows * 1 if old is None else old + self.rows


def _reduced(name: str, include_self: bool) -> Any:
    def run(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
        return x.scatter_reduce(1, index, src, name, include_self=include_self)

    return run


X, SRC = r(4, 5), r(4, 3)
ONES_AND_TWOS = torch.tensor([[0, 0, 2], [4, 1, 4], [3, 3, 3], [1, 2, 0]])

ROWS_OF_5 = _columns(5, 2, 3)


def _scattered(dim: int) -> Any:
    return lambda x, i, v: x.scatter(dim, i, v)


SCATTERS = [
    host_over(
        "scatter",
        _scattered(0),
        [
            (r(5, 3), ROWS_OF_5, r(2, 3)),
            (r(5, 3).half(), ROWS_OF_5, r(2, 3).half()),
            (ids(9, 5, 3), ROWS_OF_5, ids(9, 2, 3)),
        ],
        rtol=EXACT,
    ),
    put("scatter_last_dim", _scattered(-1), (r(3, 5), ROWS_OF_5.t().contiguous(), r(3, 2))),
    host_over(
        "scatter_of_part",
        _scattered(0),
        [
            (r(5, 4), ROWS_OF_5, r(2, 3)),
            (r(5, 3), ROWS_OF_5, r(4, 6)),
            (r(), torch.tensor(0), r()),
        ],
        rtol=EXACT,
    ),
    put(
        "scatter_of_part_rank_5",
        _scattered(1),
        (r(2, 4, 2, 3, 2), ids(4, 2, 1, 1, 2, 2), r(2, 1, 1, 2, 2)),
    ),
    together(
        "scatter_value",
        put("float", lambda x, i: x.scatter(0, i, 2.5), (r(5, 3), ROWS_OF_5)),
        put("int", lambda x, i: x.scatter(1, i, 7), (ids(9, 3, 5), ids(5, 3, 2))),
        put("bool", lambda x, i: x.scatter(1, i, True), (_mask(3, 5), ids(5, 3, 2))),
    ),
    host("scatter_add", lambda x, i, v: x.scatter_add(1, i, v), (X, ONES_AND_TWOS, SRC)),
    host_over(
        "scatter_add_of_ints",
        lambda x, i, v: x.scatter_add(1, i, v),
        [
            (ids(9, 4, 5), ONES_AND_TWOS, ids(7, 4, 3)),
            # Wraps.
            (
                torch.full((4, 5), 100, dtype=torch.int8),
                ONES_AND_TWOS,
                torch.full((4, 3), 100, dtype=torch.int8),
            ),
        ],
        rtol=EXACT,
    ),
    host(
        "scatter_and_reduce",
        each(
            lambda x, i, v: x.scatter(1, i, v, reduce="add"),
            lambda x, i, v: x.scatter(1, i, v, reduce="multiply"),
            lambda x, i, _: x.scatter(1, i, 3.0, reduce="multiply"),
        ),
        (X, ONES_AND_TWOS, SRC),
    ),
    *(
        host(
            f"scatter_reduce_{name}",
            each(_reduced(name, True), _reduced(name, False)),
            (X, ONES_AND_TWOS, SRC),
        )
        for name in ("sum", "prod", "mean", "amax", "amin")
    ),
    together(
        "scatter_reduce_of_others",
        put(
            "ints",
            _reduced("amax", False),
            (ids(9, 4, 5), ONES_AND_TWOS, ids(7, 4, 3)),
        ),
        put(
            "nan",
            _reduced("amin", True),
            (X, ONES_AND_TWOS, torch.where(SRC > 0, float("nan"), SRC)),
        ),
    ),
    put(
        "scatter_dynamic",
        lambda x, i, v: x.scatter(1, i, v),
        (r(4, 5), _columns(5, 2, 4).t().contiguous(), r(4, 2)),
        dynamic_shapes=sizes({0: S}, {0: S}, {0: S}),
        others=[
            (r(1, 5), _columns(5, 2, 1).t().contiguous(), r(1, 2)),
            (r(16, 5), _columns(5, 2, 16).t().contiguous(), r(16, 2)),
        ],
    ),
]

TWICE = torch.tensor([1, 1, 4])


def _into_rows(x: Tensor, index: Tensor, values: Tensor) -> Tensor:
    return x.index_put((index,), values)


def _into_pairs(x: Tensor, i: Tensor, j: Tensor, values: Tensor) -> Tensor:
    return x.index_put((i, j), values)


def _onto_rows(x: Tensor, index: Tensor, values: Tensor) -> Tensor:
    return x.index_put((index,), values, accumulate=True)


WRITES = [
    together(
        "index_copy",
        put("first", lambda x, i, v: x.index_copy(0, i, v), (r(5, 3), _distinct(5, 2), r(2, 3))),
        put("last", lambda x, i, v: x.index_copy(-1, i, v), (r(3, 5), _distinct(5, 2), r(3, 2))),
        put(
            "ints",
            lambda x, i, v: x.index_copy(1, i, v),
            (ids(9, 3, 5), _distinct(5, 2), ids(9, 3, 2)),
        ),
    ),
    together(
        "index_fill",
        put("float", lambda x, i: x.index_fill(0, i, 2.5), (r(5, 3), _distinct(5, 2))),
        put("bool", lambda x, i: x.index_fill(1, i, True), (_mask(3, 5), _distinct(5, 2))),
    ),
    together(
        "index_add",
        host("first", lambda x, i, v: x.index_add(0, i, v), (r(5, 3), TWICE, r(3, 3))),
        host(
            "alpha",
            lambda x, i, v: x.index_add(1, i, v, alpha=-2),
            (r(3, 5), TWICE, r(3, 3)),
        ),
    ),
    host(
        "index_reduce",
        each(
            lambda x, i, v: x.index_reduce(0, i, v, "prod"),
            lambda x, i, v: x.index_reduce(0, i, v, "amax", include_self=False),
        ),
        (r(5, 3), TWICE, r(3, 3)),
    ),
    host_over(
        "index_put",
        _into_rows,
        [
            (r(5, 3), _distinct(5, 2) - 5, r(2, 3)),
            (ids(9, 5, 3), _distinct(5, 2), ids(9, 2, 3)),
            # The last one stays.
            (r(5, 3), torch.tensor([1, 1]), r(2, 3)),
        ],
        rtol=EXACT,
    ),
    host_over(
        "index_put_shapes",
        _into_rows,
        [
            (r(5, 3), _distinct(5, 2), r(1)),
            (r(5, 3), _distinct(5, 4).view(2, 2), r(2, 2, 3)),
            (r(5), _distinct(5, 2), r(2)),
        ],
        rtol=EXACT,
    ),
    put("index_put_pairs", _into_pairs, (r(5, 3), _distinct(5, 3), _signed(3, 3), r(3))),
    put(
        "index_put_columns",
        lambda x, i, v: torch.ops.aten.index_put(x, [None, i], v),
        (r(3, 5), _distinct(5, 2), r(3, 2)),
    ),
    put(
        "index_put_with_a_gap",
        lambda x, i, j, v: torch.ops.aten.index_put(x, [i, None, j], v),
        (r(3, 4, 5), _distinct(3, 2), _distinct(5, 2), r(2, 4)),
    ),
    put(
        "index_put_all_of_rank_4",
        lambda x, i, v: x.index_put((i, i, i, i), v),
        (r(3, 3, 3, 3), _distinct(3, 2), r(2)),
    ),
    host("index_put_accumulate", _onto_rows, (r(5, 3), torch.tensor([1, -4, 1]), r(3, 3))),
    put(
        "index_put_accumulate_ints",
        _onto_rows,
        (ids(9, 5, 3), torch.tensor([1, 1, 1]), ids(9, 3, 3)),
    ),
    host(
        "index_put_accumulate_pairs",
        lambda x, i, j, v: x.index_put((i, j), v, accumulate=True),
        (r(5, 3), torch.tensor([1, 1, 1]), torch.tensor([2, 2, 0]), r(3)),
    ),
    together(
        "index_put_mask",
        put("all", _into_rows, (r(5, 3), _mask(5, 3), r())),
        put("rows", _into_rows, (r(5, 3), _mask(5), r(3))),
        put(
            "columns",
            lambda x, m, v: torch.ops.aten.index_put(x, [None, m], v),
            (r(5, 3), _mask(3), r(5, 1)),
        ),
    ),
    host("index_put_mask_accumulate", _onto_rows, (r(5, 3), _mask(5, 3), r(1))),
    host_over(
        "masked_scatter",
        torch.masked_scatter,
        [
            (r(5, 3), _mask(5, 3), r(4, 4)),
            (ids(9, 5, 3), _mask(3), ids(9, 15)),
            (
                r(2, 5, 3).half(),
                torch.tensor([[False], [False], [True], [True], [False]]),
                r(12).half(),
            ),
            (r(5, 3), torch.zeros(5, 1, dtype=torch.bool), r(1)),
        ],
        rtol=EXACT,
    ),
    put(
        "masked_scatter_of_features",
        lambda x, i, v: x.masked_scatter((i == 1).unsqueeze(-1).expand_as(x), v),
        (r(4, 3), torch.tensor([1, 0, 1, 0]), r(2, 3)),
        dynamic_shapes=sizes({0: S}, {0: S}, None),
        others=[
            (r(1, 3), torch.tensor([1]), r(2, 3)),
            (r(16, 3), torch.arange(16) // 14, r(2, 3)),
        ],
    ),
    put(
        "index_put_dynamic",
        lambda x, i, v: x.index_put((i,), v),
        (r(4, 3), torch.tensor([0, -1]), r(2, 3)),
        dynamic_shapes=sizes({0: S}, None, None),
        others=[
            (r(1, 3), torch.tensor([0, 0]), r(2, 3)),
            (r(16, 3), torch.tensor([15, -16]), r(2, 3)),
        ],
    ),
    move(
        "index_put_constant",
        lambda x, v: x.index_put((torch.tensor([3, -5]),), v),
        (r(5, 3), r(2, 3)),
        "concat",
        "get_rows",
    ),
    move(
        "index_put_constant_twice",
        lambda x, v: x.index_put((torch.tensor([1, 1]),), v),
        (r(5, 3), r(2, 3)),
        "concat",
        "get_rows",
    ),
    move(
        "index_put_constant_columns",
        lambda x, v: torch.ops.aten.index_put(x, [None, torch.tensor([1, 3])], v),
        (r(3, 5), r(3, 2)),
    ),
    move(
        "index_put_constant_pairs",
        lambda x, v: x.index_put((torch.tensor([0, -1]), torch.tensor([2, 1])), v),
        (r(5, 3), r(2)),
    ),
    move(
        "index_put_constant_of_ints",
        lambda x, v: x.index_put((torch.tensor([0]),), v),
        (ids(9, 5, 3), ids(9, 1, 3)),
    ),
    Case(
        "index_put_into_a_constant",
        _OnConstant(),
        (_distinct(5, 2), r(2, 3)),
        rtol=EXACT,
        host=True,
    ),
]


def _copied(rows: Tensor, index: Tensor, values: Tensor) -> None:
    rows.index_copy_(1, index, values)


def _put_first(rows: Tensor, index: Tensor, values: Tensor) -> None:
    rows[index] = values


def _put_last(rows: Tensor, index: Tensor, values: Tensor) -> None:
    rows[:, :, index] = values


def _added(rows: Tensor, index: Tensor, values: Tensor) -> None:
    rows.index_add_(1, index, values)


def _on_buffer(
    name: str, write: Any, index: Tensor, values: Tensor, reads_old: bool, dtype: torch.dtype
) -> Case:
    return Case(
        name,
        _OnBuffer(write, reads_old, dtype),
        (index, values.to(dtype)),
        rtol=ELEMENTWISE if write is _added else EXACT,
        host=reads_old or write is not _copied,
    )


#: A write into a buffer, and one whose old content is read as well: of floats and of integers.
BUFFERS = [
    row
    for name, write, index, values in (
        ("index_copy", _copied, _distinct(5, 2), r(2, 2, 3)),
        ("put_first", _put_first, torch.tensor([-1]), r(1, 5, 3)),
        ("put_last", _put_last, _distinct(3, 2), r(2, 5, 2)),
        ("added", _added, torch.tensor([1, 1]), r(2, 2, 3)),
    )
    for row in (
        _on_buffer(f"buffer_{name}", write, index, values, False, torch.float32),
        together(
            f"buffer_{name}_read_before",
            _on_buffer("float", write, index, values, True, torch.float32),
            _on_buffer("int", write, index, values, True, torch.int64),
        ),
    )
]

CASES = [*SCATTERS, *WRITES, *BUFFERS]
