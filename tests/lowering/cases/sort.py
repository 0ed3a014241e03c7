"""Order: sorting, the first few, the middle, the most frequent, and searching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.lowering.cases.base import EXACT, Case, S, ids, r
from tests.lowering.cases.base import host as _host
from tests.lowering.cases.reduce import INF, NAN, SPECIAL, steps

X = steps(2, 3, 4)
X5 = steps(2, 3, 4, 2, 3)
INT = ids(9, 3, 7) - 4
#: Values in order, NaN last, for each row.
TABLE = torch.tensor([[-INF, -2.0, -2.0, 0.5, 7e4], [-1.0, 0.0, 0.0, 0.0, INF]])
WANTED = torch.tensor([[-2.0, 7e4, NAN, 0.0, 8e4, -INF], [0.0, 2.0, INF, -9.0, NAN, -0.0]])


def host(name: str, function: Callable[..., Any], inputs: tuple[Any, ...], **more: Any) -> Case:
    """A row that gives elements and indices as they are."""
    return _host(name, function, inputs, **{"rtol": EXACT, **more})


def _values_of_unordered(x: Tensor, k: int) -> Tensor:
    """The top values in an order that their own leaves open."""
    return torch.sort(x.topk(k, sorted=False)[0])[0]


SORT = [
    host("sort", lambda x: tuple(x.sort()), (X,)),
    host("sort_first_descending", lambda x: tuple(x.sort(0, True)), (X,)),
    host("sort_middle", lambda x: tuple(x.sort(-2)), (X,)),
    host("sort_stable", lambda x: tuple(x.sort(stable=True)), (SPECIAL,)),
    host(
        "sort_stable_descending",
        lambda x: tuple(torch.sort(x, dim=1, descending=True, stable=True)),
        (SPECIAL,),
    ),
    host("sort_int_ties", lambda x: tuple(x.sort(dim=1, stable=True)), (INT,)),
    host(
        "sort_half_ties",
        lambda x: tuple((x * 0.5 + 1000).sort(dim=-1, stable=True, descending=True)),
        (torch.tensor([[1000.0, 1001.0], [998.0, 1001.0]]).half(),),
    ),
    host("sort_rank_0", lambda x: tuple(x.sort()), (r(),)),
    host("sort_rank_5", lambda x: tuple(x.sort(1)), (X5,)),
    host("sort_half", lambda x: x.sort(-1)[0], (X.half(),)),
    host(
        "sort_dynamic",
        lambda x: tuple(x.sort(0)),
        (steps(4, 3),),
        dynamic_shapes={"args": ({0: S},)},
        others=[(steps(1, 3),), (steps(16, 3),)],
    ),
    host("argsort", lambda x: x.argsort(1, descending=True), (X,)),
    host("msort", torch.msort, (X,)),
]

TOPK = [
    host("topk", lambda x: tuple(x.topk(2)), (X,)),
    host("topk_smallest", lambda x: tuple(x.topk(3, -1, largest=False)), (X,)),
    host("topk_unordered", lambda x: _values_of_unordered(x, 3), (X,)),
    host("topk_special", lambda x: x.topk(3)[0], (SPECIAL,)),
    host("topk_special_smallest", lambda x: x.topk(3, largest=False)[0], (SPECIAL,)),
    host("topk_int", lambda x: x.topk(4, 1)[0], (INT,)),
    host("topk_rank_5", lambda x: tuple(x.topk(2, 2)), (X5,)),
    host(
        "topk_dynamic",
        lambda x: tuple(x.topk(2, 0)),
        (steps(4, 3),),
        dynamic_shapes={"args": ({0: torch.export.Dim("n", min=2, max=16)},)},
        others=[(steps(2, 3),), (steps(16, 3),)],
    ),
    host("kthvalue_keep", lambda x: tuple(x.kthvalue(3, 1, keepdim=True)), (X,)),
    host("kthvalue_special", lambda x: x.kthvalue(4, -1)[0], (SPECIAL,)),
    host("kthvalue_int", lambda x: x.kthvalue(5, 1)[0], (INT,)),
]


def _medians(name: str) -> list[Case]:
    median: Callable[..., Any] = getattr(torch, name)
    return [
        host(f"{name}", median, (X,)),
        host(f"{name}_dim", lambda x: tuple(median(x, 1)), (X,)),
        host(f"{name}_special", lambda x: median(x, 1)[0], (SPECIAL,)),
        host(
            f"{name}_nan_index",
            lambda x: tuple(median(x, 1)),
            (
                torch.tensor(
                    [
                        [3.0, NAN, 1.0, NAN, 2.0, 5.0],
                        [NAN, 2.0, 1.0, 4.0, 3.0, NAN],
                        [6.0, 5.0, 4.0, 3.0, 2.0, INF],
                    ]
                ),
            ),
        ),
    ]


MEDIAN = [
    *_medians("median"),
    *_medians("nanmedian"),
    host("median_even_keep", lambda x: tuple(x.median(-1, keepdim=True)), (X,)),
    host("median_int", lambda x: x.median(0)[0], (INT,)),
    host(
        "median_dynamic",
        lambda x: tuple(x.median(0)),
        (steps(4, 3),),
        dynamic_shapes={"args": ({0: S},)},
        others=[(steps(1, 3),), (steps(15, 3),)],
    ),
    host(
        "median_int_dynamic",
        lambda x: x.median(0)[0],
        (ids(9, 4, 3),),
        dynamic_shapes={"args": ({0: S},)},
        others=[(ids(9, 1, 3),), (ids(9, 15, 3),)],
    ),
]

MODE = [
    host("mode", lambda x: tuple(x.mode()), (INT,)),
    host("mode_first_keep", lambda x: tuple(x.mode(0, keepdim=True)), (ids(3, 6, 4),)),
    host("mode_float", lambda x: x.mode(1)[0], (SPECIAL,)),
    host(
        "mode_ties",
        lambda x: tuple(x.mode(-1)),
        (torch.tensor([[2, 1, 2, 1, 3], [5, 4, 3, 2, 1]]),),
    ),
]

SEARCH = [
    host("searchsorted", torch.searchsorted, (TABLE, WANTED)),
    host("searchsorted_right", lambda t, x: torch.searchsorted(t, x, right=True), (TABLE, WANTED)),
    host(
        "searchsorted_side_int32",
        lambda t, x: torch.searchsorted(t, x, side="right", out_int32=True),
        (TABLE, WANTED),
    ),
    host("searchsorted_one_row", torch.searchsorted, (TABLE[0].contiguous(), WANTED)),
    host("searchsorted_number", lambda t: torch.searchsorted(t, 0.25), (TABLE[0].contiguous(),)),
    host("searchsorted_int", torch.searchsorted, (ids(9, 6).sort()[0], ids(9, 2, 3))),
    host(
        "searchsorted_sorter",
        lambda t, x: torch.searchsorted(t, x, sorter=t.argsort(-1)),
        (steps(2, 5), steps(2, 4) + 0.1),
    ),
    host(
        "bucketize_right",
        lambda x, b: torch.bucketize(x, b, right=True),
        (WANTED[0], TABLE[1].contiguous()),
    ),
    host("buckets_of_a_constant", lambda x: torch.bucketize(x, TABLE[0].contiguous()), (WANTED,)),
    host(
        "bucketize_dynamic",
        torch.bucketize,
        (ids(20, 4, 3), torch.tensor([0, 5, 5, 9])),
        dynamic_shapes={"args": ({0: S}, None)},
        others=[(ids(20, 1, 3), torch.tensor([0, 5, 5, 9]))],
    ),
]

CASES = [*SORT, *TOPK, *MEDIAN, *MODE, *SEARCH]
