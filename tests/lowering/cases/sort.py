"""Order: sorting, the first few, the middle, the most frequent, and searching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.lowering.cases.base import EXACT, Case, S, each, ids, r, together
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


def _stable(x: Tensor, descending: bool = False) -> tuple[Tensor, ...]:
    return tuple(x.sort(dim=-1, descending=descending, stable=True))


#: In half precision 1500.5 is 1500, so that these are equal.
_HALF_TIES = torch.tensor([[1000.0, 1001.0], [998.0, 1001.0]]).half()

SORT = [
    host(
        "sort",
        each(lambda x: x.sort(), lambda x: tuple(x.sort(0, True)), lambda x: tuple(x.sort(-2))),
        (X,),
    ),
    together(
        "sort_stable",
        host("special", each(_stable, lambda x: _stable(x, descending=True)), (SPECIAL,)),
        host("int", _stable, (INT,)),
        host("half", lambda x: _stable(x * 0.5 + 1000, descending=True), (_HALF_TIES,)),
    ),
    together(
        "sort_shapes",
        host("rank_0", lambda x: tuple(x.sort()), (r(),)),
        host("rank_5", lambda x: tuple(x.sort(1)), (X5,)),
        host("half", lambda x: x.sort(-1)[0], (X.half(),)),
    ),
    host(
        "sort_dynamic",
        lambda x: tuple(x.sort(0)),
        (steps(4, 3),),
        dynamic_shapes={"args": ({0: S},)},
        others=[(steps(1, 3),), (steps(16, 3),)],
    ),
    host("argsort", each(lambda x: x.argsort(1, descending=True), torch.msort), (X,)),
]

TOPK = [
    together(
        "topk",
        host("largest", lambda x: tuple(x.topk(2)), (X,)),
        host("smallest", lambda x: tuple(x.topk(3, -1, largest=False)), (X,)),
        host("int", lambda x: x.topk(4, 1)[0], (INT,)),
        host("rank_5", lambda x: tuple(x.topk(2, 2)), (X5,)),
    ),
    host("topk_unordered", lambda x: _values_of_unordered(x, 3), (X,)),
    host(
        "topk_special",
        each(lambda x: x.topk(3)[0], lambda x: x.topk(3, largest=False)[0]),
        (SPECIAL,),
    ),
    host(
        "topk_dynamic",
        lambda x: tuple(x.topk(2, 0)),
        (steps(4, 3),),
        dynamic_shapes={"args": ({0: torch.export.Dim("n", min=2, max=16)},)},
        others=[(steps(2, 3),), (steps(16, 3),)],
    ),
    together(
        "kthvalue",
        host("keep", lambda x: tuple(x.kthvalue(3, 1, keepdim=True)), (X,)),
        host("special", lambda x: x.kthvalue(4, -1)[0], (SPECIAL,)),
        host("int", lambda x: x.kthvalue(5, 1)[0], (INT,)),
    ),
]

_SOME_NAN = torch.tensor(
    [
        [3.0, NAN, 1.0, NAN, 2.0, 5.0],
        [NAN, 2.0, 1.0, 4.0, 3.0, NAN],
        [6.0, 5.0, 4.0, 3.0, 2.0, INF],
    ]
)


def _medians(name: str) -> Case:
    median: Callable[..., Any] = getattr(torch, name)
    return together(
        name,
        host("float", each(median, lambda x: tuple(median(x, 1))), (X,)),
        host("special", lambda x: median(x, 1)[0], (SPECIAL,)),
        host("nan_index", lambda x: tuple(median(x, 1)), (_SOME_NAN,)),
    )


MEDIAN = [
    _medians("median"),
    _medians("nanmedian"),
    together(
        "median_even",
        host("keep", lambda x: tuple(x.median(-1, keepdim=True)), (X,)),
        host("int", lambda x: x.median(0)[0], (INT,)),
    ),
    host(
        "median_dynamic",
        lambda x, i: (*x.median(0), i.median(0)[0]),
        (steps(4, 3), ids(9, 4, 3)),
        dynamic_shapes={"args": ({0: S}, {0: S})},
        others=[(steps(1, 3), ids(9, 1, 3)), (steps(15, 3), ids(9, 15, 3))],
    ),
]

MODE = [
    together(
        "mode",
        host("last", lambda x: tuple(x.mode()), (INT,)),
        host("first_keep", lambda x: tuple(x.mode(0, keepdim=True)), (ids(3, 6, 4),)),
        host("float", lambda x: x.mode(1)[0], (SPECIAL,)),
        host(
            "ties",
            lambda x: tuple(x.mode(-1)),
            (torch.tensor([[2, 1, 2, 1, 3], [5, 4, 3, 2, 1]]),),
        ),
    ),
]

SEARCH = [
    host(
        "searchsorted",
        each(
            torch.searchsorted,
            lambda t, x: torch.searchsorted(t, x, right=True),
            lambda t, x: torch.searchsorted(t, x, side="right", out_int32=True),
        ),
        (TABLE, WANTED),
    ),
    host(
        "searchsorted_one_row",
        lambda t, x: (torch.searchsorted(t, x), torch.searchsorted(t, 0.25)),
        (TABLE[0].contiguous(), WANTED),
    ),
    host("searchsorted_int", torch.searchsorted, (ids(9, 6).sort()[0], ids(9, 2, 3))),
    host(
        "searchsorted_sorter",
        lambda t, x: torch.searchsorted(t, x, sorter=t.argsort(-1)),
        (steps(2, 5), steps(2, 4) + 0.1),
    ),
    host(
        "bucketize",
        lambda x, b: (
            torch.bucketize(x[0], b, right=True),
            torch.bucketize(x, TABLE[0].contiguous()),
        ),
        (WANTED, TABLE[1].clone()),
    ),
    host(
        "bucketize_dynamic",
        torch.bucketize,
        (ids(20, 4, 3), torch.tensor([0, 5, 5, 9])),
        dynamic_shapes={"args": ({0: S}, None)},
        others=[(ids(20, 1, 3), torch.tensor([0, 5, 5, 9]))],
    ),
]

CASES = [*SORT, *TOPK, *MEDIAN, *MODE, *SEARCH]
