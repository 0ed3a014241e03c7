"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.lowering.cases.base import BF16, F16, Case, S, fn, host, ids, r

X = r(2, 3, 4)
X5 = r(2, 3, 4, 2, 3)
INF = math.inf

#: Rows that are masked in part and whole, infinite, NaN, far apart, and equal.
ROWS = torch.tensor(
    [
        [0.5, -INF, 1.0, -INF, 2.0, 0.0, 1.0, 3.0, -1.0],
        [-INF] * 9,
        [INF, 1.0, 2.0, 0.0, -INF, 0.0, 0.0, 0.0, 0.0],
        [1.0, math.nan, 2.0, 0.0, -INF, 0.0, 0.0, 0.0, 0.0],
        [1e5, 1e5 - 1, -7e4, 0.0, 1e4, 0.0, 3e38, 0.0, -3e38],
        [200.0, 100.0, 90.0, 0.0, -100.0, 1e-40, -1e-40, 0.0, 0.0],
        [2.0] * 9,
    ]
)


def _family(name: str, function: Callable[..., Any]) -> list[Case]:
    """What softmax and log_softmax share: dims, ranks, dtypes, special rows."""
    return [
        fn(f"{name}_first", lambda x: function(x, dim=0), (r(4, 3),)),
        fn(f"{name}_negative", lambda x: function(x, dim=-2), (X,)),
        fn(f"{name}_rank_0", lambda x: function(x, dim=0), (r(),)),
        fn(f"{name}_rank_0_inf", lambda x: function(x, dim=-1), (torch.tensor(INF),)),
        fn(f"{name}_rank_1", lambda x: function(x, dim=0), (r(17),)),
        fn(f"{name}_rank_5", lambda x: function(x, dim=1), (X5,)),
        fn(f"{name}_rank_5_last", lambda x: function(x, dim=-1), (X5,)),
        fn(f"{name}_images", lambda x: function(x, dim=1), (r(2, 5, 3, 4),)),
        fn(f"{name}_special", lambda x: function(x, dim=1), (ROWS,)),
        fn(f"{name}_special_columns", lambda x: function(x, dim=0), (ROWS.T.contiguous(),)),
        fn(f"{name}_transposed", lambda x: function(x.transpose(0, 2), dim=-1), (X,)),
        fn(f"{name}_half", lambda x: function(x, dim=-1), (X.half(),), rtol=F16),
        fn(f"{name}_bf16", lambda x: function(x, dim=-1), (X.bfloat16(),), rtol=BF16),
        fn(
            f"{name}_half_to_float",
            lambda x: function(x, dim=1, dtype=torch.float32),
            (X.half() * 20,),
        ),
        fn(f"{name}_of_int", lambda x: function(x, dim=1, dtype=torch.float32), (ids(9, 3, 4),)),
        fn(f"{name}_long", lambda x: function(x, dim=-1), (r(2, 5000) * 10,)),
        fn(
            f"{name}_dynamic",
            lambda x: function(x, dim=0),
            (r(4, 3),),
            dynamic_shapes={"args": ({0: S},)},
            others=[(r(1, 3),), (r(16, 3),)],
        ),
    ]


SOFTMAX = [
    fn("softmax", lambda x: x.softmax(-1), (r(2, 3, 8),), "soft_max"),
    fn(
        "softmax_dim_0",
        lambda x: x.softmax(0),
        (r(4, 3),),
        "permute",
        "cont",
        "soft_max",
        "permute",
        "cont",
    ),
    *_family("softmax", torch.softmax),
    fn("softmin", lambda x: F.softmin(x, 1), (X,)),
    host(
        "safe_softmax",
        lambda x: torch.ops.aten._safe_softmax.default(x, -1),
        (ROWS,),
    ),
    host(
        "safe_softmax_first",
        lambda x: torch.ops.aten._safe_softmax.default(x, 0),
        (ROWS.T.contiguous(),),
    ),
]

LOG = [
    *_family("log_softmax", torch.log_softmax),
    #: Probabilities near 1 and below the smallest normal float keep their logarithm.
    fn(
        "log_softmax_extremes",
        lambda x: torch.log_softmax(x, -1),
        (torch.tensor([[30.0, 0.0, -200.0], [12.0, 0.0, 0.5]]),),
        atol=0.0,
    ),
    fn("logsumexp", lambda x: x.logsumexp(1), (X,)),
    fn("logsumexp_dims_keep", lambda x: x.logsumexp((0, -1), keepdim=True), (X,)),
    fn("logsumexp_rank_0", lambda x: x.logsumexp(0), (r(),)),
    fn("logsumexp_rank_5", lambda x: x.logsumexp((1, 3)), (X5,)),
    fn("logsumexp_special", lambda x: x.logsumexp(-1), (ROWS,)),
    fn("logsumexp_large", lambda x: x.logsumexp(0), (X * 1e5,)),
    fn("logsumexp_half", lambda x: x.logsumexp(-1), (X.half(),), rtol=F16),
    fn(
        "logsumexp_dynamic",
        lambda x: x.logsumexp((0, 1)),
        (r(4, 3, 2),),
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 3, 2),), (r(16, 3, 2),)],
    ),
]

CASES = [*SOFTMAX, *LOG]
