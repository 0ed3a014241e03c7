"""Reductions and running functions over any dims, dtypes and special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.lowering.cases.base import (
    BF16,
    ELEMENTWISE,
    EXACT,
    F16,
    PRODUCT,
    Case,
    S,
    each,
    fn,
    host,
    host_over,
    ids,
    r,
    together,
)

X = r(2, 3, 4)
X5 = r(2, 3, 4, 2, 3)
X8 = r(2, 1, 3, 2, 1, 2, 3, 2)
INT = ids(9, 2, 3, 4) - 4
BOOL = INT > 0
NAN, INF = math.nan, math.inf

#: Rows with NaN, infinities, beyond half precision's range, denormal, and ties.
SPECIAL = torch.tensor(
    [
        [1.0, NAN, 3.0, INF, NAN],
        [-INF, -INF, -INF, -INF, -INF],
        [INF, -INF, 0.0, 1.0, INF],
        [7e4, -8e4, 1e-40, 0.0, 8e4],
        [2.0, 5.0, 5.0, -3.0, -3.0],
        [0.0, -0.0, 0.0, 0.0, 0.0],
    ]
)
#: As above, but sums and products of a row are not indeterminate.
FINITE = torch.tensor([[1.0, NAN, 3.0], [INF, 2.0, 1.0], [7e4, -8e4, 6.5e4], [1e-40, 0.0, 2e-40]])


def steps(*shape: int) -> Tensor:
    """Distinct values in a shuffled order."""
    count = math.prod(shape)
    generator = torch.Generator().manual_seed(count)
    return torch.randperm(count, generator=generator).reshape(shape) / 4.0 - count / 8.0


def _over_dims(name: str, function: Callable[..., Any]) -> list[Case]:
    """The ways to name dims, for a function that takes ``dim`` and ``keepdim``."""
    return [
        fn(f"{name}_dims_negative", lambda x: function(x, dim=(-1, -3)), (X,), rtol=PRODUCT),
        fn(
            f"{name}_dims_keep", lambda x: function(x, dim=(0, 2), keepdim=True), (X,), rtol=PRODUCT
        ),
        fn(f"{name}_first", lambda x: function(x, dim=(0,)), (r(4, 3),), rtol=PRODUCT),
        fn(f"{name}_rank_0", lambda x: function(x, dim=(-1,)), (r(),), rtol=PRODUCT),
        fn(f"{name}_rank_5", lambda x: function(x, dim=(1, 3)), (X5,), rtol=PRODUCT),
        fn(
            f"{name}_rank_8",
            lambda x: function(x, dim=(0, 3, 7), keepdim=True),
            (X8,),
            rtol=PRODUCT,
        ),
        fn(
            f"{name}_transposed",
            lambda x: function(x.transpose(0, 2), dim=(1,)),
            (X,),
            rtol=PRODUCT,
        ),
        fn(
            f"{name}_dynamic",
            lambda x: function(x, dim=(0, 1)),
            (r(4, 3, 5),),
            rtol=PRODUCT,
            dynamic_shapes={"args": ({0: S},)},
            others=[(r(1, 3, 5),), (r(16, 3, 5),)],
        ),
    ]


SUMS = [
    fn("sum_last", lambda x: x.sum(-1), (r(2, 3, 8),), "sum_rows", "reshape", rtol=PRODUCT),
    fn("sum_middle", lambda x: x.sum(1), (r(2, 3, 8),), rtol=PRODUCT),
    fn("sum_all", torch.sum, (X,), rtol=PRODUCT),
    fn("sum_no_dims", lambda x: x.sum(()), (X,), rtol=PRODUCT),
    *_over_dims("sum", torch.sum),
    fn("sum_expanded", lambda x: x[:, None].expand(3, 5, 4).sum((0, 1)), (r(3, 4),), rtol=PRODUCT),
    fn("sum_special", lambda x: x.sum(-1), (FINITE,), rtol=PRODUCT),
    fn("sum_long", lambda x: x.sum(-1), (r(2, 70000) + 100,), rtol=ELEMENTWISE),
    fn("sum_dtype_float", lambda x: x.sum(1, dtype=torch.float32), (INT,), rtol=EXACT),
    fn("sum_bool", lambda x: x.sum(1), (BOOL,), rtol=EXACT),
    fn("sum_bool_all_int32", lambda x: x.sum(dtype=torch.int32), (BOOL,), rtol=EXACT),
    host(
        "sum_bool_dynamic",
        lambda x: x.sum(0),
        (r(4, 3) > 0,),
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 3) > 0,), (r(16, 3) > 0,)],
        rtol=EXACT,
    ),
    fn("sum_half", lambda x: x.sum(-1), (r(3, 40).half(),), rtol=F16),
    fn("sum_half_overflow", lambda x: x.sum(-1), (r(3, 4).half().abs() + 3e4,), rtol=F16),
    fn("sum_half_dtype", lambda x: x.sum(0, dtype=torch.float32), (r(9, 4).half() + 3e4,)),
    fn("sum_bf16", lambda x: x.sum((0, 1)), (r(3, 4, 2).bfloat16(),), rtol=BF16),
    together(
        "sum_int",
        host("int64", lambda x: x.sum(1), (INT,), rtol=EXACT),
        host("uint8", lambda x: x.sum((0, 1)), (ids(256, 3, 4, 2).to(torch.uint8),), rtol=EXACT),
        host(
            "int32_wraps",
            lambda x: x.sum(0, dtype=torch.int32),
            (torch.full((3, 2), 2**30 + 5, dtype=torch.int32),),
            rtol=EXACT,
        ),
        host("of_float", lambda x: x.sum(1, dtype=torch.int64), (X * 9,), rtol=EXACT),
    ),
    fn("mean_last", lambda x: x.mean(-1), (r(2, 3, 8),), "mean_rows", "reshape", rtol=PRODUCT),
    fn("mean_all", torch.mean, (r(4, 3),), rtol=PRODUCT),
    fn("mean_two_dims", lambda x: x.mean((2, 3)), (r(2, 3, 4, 5),), rtol=PRODUCT),
    *_over_dims("mean", torch.mean),
    fn("mean_dtype", lambda x: x.mean(0, dtype=torch.float32), (INT,), rtol=PRODUCT),
    fn("mean_half", lambda x: x.mean(1), (r(3, 5).half() + 4e4,), rtol=F16),
    fn("mean_special", lambda x: x.mean(-1), (FINITE,), rtol=PRODUCT),
    fn("mean_long", lambda x: x.mean(-1), (r(2, 70000) + 100,), rtol=ELEMENTWISE),
    fn("count_nonzero_bool", lambda x: torch.count_nonzero(x, dim=(0, 2)), (BOOL,), rtol=EXACT),
    host("count_nonzero", lambda x: torch.count_nonzero(x, dim=1), (SPECIAL,), rtol=EXACT),
    host("nansum", lambda x: x.nansum(-1), (FINITE,), rtol=PRODUCT),
    host("nanmean", lambda x: x.nanmean(0), (FINITE,), rtol=PRODUCT),
    host("nanmean_all_nan", lambda x: x.nanmean(-1), (torch.tensor([[NAN, NAN], [1.0, NAN]]),)),
    together(
        "prod",
        host("float", each(lambda x: x.prod(1), torch.prod), (X,), rtol=PRODUCT),
        host("special", lambda x: x.prod(-1), (FINITE,), rtol=PRODUCT),
    ),
    together(
        "prod_int",
        host("int", lambda x: x.prod(2), (INT,), rtol=EXACT),
        host("bool", lambda x: x.prod(1), (BOOL,), rtol=EXACT),
    ),
]


def _extremes(name: str) -> list[Case]:
    """``amax``, ``max`` and ``argmax``, or their opposites."""
    extreme: Callable[..., Any] = getattr(torch, f"a{name}")
    valued: Callable[..., Any] = getattr(torch, name)
    index: Callable[..., Any] = getattr(torch, f"arg{name}")
    return [
        together(
            f"a{name}",
            host("keep", lambda x: extreme(x, dim=(0, 2), keepdim=True), (X,), rtol=EXACT),
            host("special", lambda x: extreme(x, dim=-1), (SPECIAL,), rtol=EXACT),
            host("int", lambda x: extreme(x, dim=(0, 1)), (INT,), rtol=EXACT),
        ),
        host(f"{name}_all", valued, (SPECIAL[3:],), rtol=EXACT),
        together(
            f"{name}_dim",
            host("keep", lambda x: tuple(valued(x, -2, keepdim=True)), (X,), rtol=EXACT),
            host("special", lambda x: tuple(valued(x, 1)), (SPECIAL,), rtol=EXACT),
            host("ties", lambda x: tuple(valued(x, 1)), (INT,), rtol=EXACT),
        ),
        together(
            f"arg{name}",
            host(
                "float",
                each(lambda x: index(x, 1), lambda x: index(x, keepdim=True)),
                (X,),
                rtol=EXACT,
            ),
            host("special", lambda x: index(x, -1), (SPECIAL,), rtol=EXACT),
        ),
    ]


EXTREMES = [
    *_extremes("max"),
    *_extremes("min"),
    together(
        "amax_shapes",
        host("all", torch.amax, (X,), rtol=EXACT),
        host("bool", lambda x: x.amax(1), (BOOL,), rtol=EXACT),
        host("rank_0", lambda x: x.amax(-1), (r(),), rtol=EXACT),
        host("rank_8", lambda x: x.amax((0, 3, 7)), (X8,), rtol=EXACT),
    ),
    host("amin_transposed", lambda x: x.transpose(0, 2).amin(1), (X,), rtol=EXACT),
    host(
        "amin_dynamic",
        lambda x: x.amin((0, 1)),
        (r(4, 3, 5),),
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 3, 5),), (r(16, 3, 5),)],
        rtol=EXACT,
    ),
    host("max_dim_used", each(lambda x: x.max(1), lambda x: x.max(0)[0] * 2), (X,), rtol=EXACT),
    host(
        "argmax_half_ties",  # 1500.5 is 1500 in half precision
        lambda x: (x * 0.5 + 1000).argmax(-1),
        (torch.tensor([[1000.0, 1001.0], [998.0, 1001.0]]).half(),),
        rtol=EXACT,
    ),
    host("argmax_rank_5", lambda x: x.argmax(3), (X5,), rtol=EXACT),
    together(
        "aminmax",
        host("dim", lambda x: tuple(torch.aminmax(x, dim=1)), (SPECIAL,), rtol=EXACT),
        host("all", torch.aminmax, (INT,), rtol=EXACT),
    ),
]


def _truths(name: str) -> list[Case]:
    truth: Callable[..., Any] = getattr(torch, name)
    ones = torch.tensor([[True, True], [True, False], [False, False]])
    return [
        fn(f"{name}", truth, (BOOL,), rtol=EXACT),
        fn(f"{name}_dim", lambda x: truth(x, 1), (ones,), rtol=EXACT),
        fn(f"{name}_dim_keep", lambda x: truth(x, -2, keepdim=True), (ones,), rtol=EXACT),
        fn(f"{name}_dims", lambda x: truth(x, dim=(0, 2)), (BOOL,), rtol=EXACT),
        fn(f"{name}_rank_5", lambda x: truth(x, dim=(1, 4)), (X5 > -1,), rtol=EXACT),
        fn(
            f"{name}_dynamic",
            lambda x: truth(x, 0),
            (r(4, 3) > 0,),
            dynamic_shapes={"args": ({0: S},)},
            others=[(r(1, 3) > 0,), (r(16, 3) > 0,)],
            rtol=EXACT,
        ),
        together(
            f"{name}_of_numbers",
            host("float", lambda x: truth(x, 1), (SPECIAL,), rtol=EXACT),
            host("uint8", lambda x: truth(x, 0), (ids(2, 3, 4).to(torch.uint8),), rtol=EXACT),
        ),
    ]


SPREAD = [
    fn("var", lambda x: x.var(1), (X,), rtol=PRODUCT),
    fn("var_all", torch.var, (X,), rtol=PRODUCT),
    fn("var_biased", lambda x: x.var(-1, unbiased=False), (X,), rtol=PRODUCT),
    fn("var_correction", lambda x: torch.var(x, (0, 2), correction=2), (X,), rtol=PRODUCT),
    fn("var_keep", lambda x: x.var((0, 1), keepdim=True), (X,), rtol=PRODUCT),
    fn("var_one_element", lambda x: x.var(1), (r(3, 1),), rtol=PRODUCT),
    fn("var_beyond_count", lambda x: x.var(1, correction=4), (r(3, 3),), rtol=PRODUCT),
    fn("var_far_from_0", lambda x: x.var(-1), (r(3, 64) * 0.01 + 1e4,), rtol=PRODUCT),
    fn("var_special", lambda x: x.var(-1), (FINITE,), rtol=PRODUCT),
    fn("var_rank_5", lambda x: x.var((1, 3)), (X5,), rtol=PRODUCT),
    fn("var_half", lambda x: x.var(-1), (r(3, 9).half(),), rtol=F16),
    host(
        "var_dynamic",
        lambda x: x.var(0),
        (r(4, 3),),
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(2, 3),), (r(16, 3),)],
        rtol=PRODUCT,
    ),
    fn(
        "var_biased_dynamic",
        lambda x: x.var(0, unbiased=False),
        (r(4, 3),),
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(2, 3),), (r(16, 3),)],
        rtol=PRODUCT,
    ),
    fn("var_mean", lambda x: torch.var_mean(x, 1), (X,), rtol=PRODUCT),
    fn("var_mean_all", lambda x: torch.var_mean(x, correction=0), (X,), rtol=PRODUCT),
    fn("std", lambda x: x.std(0), (X,), rtol=PRODUCT),
    fn("std_all_biased", lambda x: x.std(unbiased=False), (X,), rtol=PRODUCT),
    fn("std_mean", lambda x: torch.std_mean(x, (0, 2), keepdim=True), (X,), rtol=PRODUCT),
]

NORMS = [
    fn("norm_all", torch.norm, (X,), rtol=PRODUCT),
    fn("norm_1", lambda x: x.norm(1, 1), (X,), rtol=PRODUCT),
    fn("norm_2_dims", lambda x: x.norm(2, (0, 2), keepdim=True), (X,), rtol=PRODUCT),
    fn("norm_rank_5", lambda x: torch.linalg.vector_norm(x, 2, (1, 3)), (X5,), rtol=PRODUCT),
    fn("norm_special", lambda x: x.norm(2, -1), (FINITE,), rtol=PRODUCT),
    fn("norm_half", lambda x: x.norm(2, -1), (r(3, 5).half() * 300,), rtol=F16),
    fn("norm_frobenius", lambda x: torch.linalg.matrix_norm(x), (X,), rtol=PRODUCT),
    *(
        host(
            f"norm_order_{name}",
            each(*(lambda x, p=p: torch.linalg.vector_norm(x, p, -1) for p in orders)),
            (torch.cat([FINITE, -FINITE.flip(1)], 1),),
            rtol=PRODUCT,
        )
        for name, orders in (("0", (0,)), ("others", (3, -1)), ("infinite", (INF, -INF)))
    ),
]


SCANS = [
    fn("cumsum", lambda x: x.cumsum(-1), (X,), "cumsum", rtol=PRODUCT),
    fn("cumsum_first", lambda x: x.cumsum(0), (X,), rtol=PRODUCT),
    fn("cumsum_rank_0", lambda x: x.cumsum(0), (r(),), rtol=EXACT),
    fn("cumsum_rank_5", lambda x: x.cumsum(2), (X5,), rtol=PRODUCT),
    fn("cumsum_special", lambda x: x.cumsum(-1), (SPECIAL,), rtol=PRODUCT),
    fn("cumsum_bool_as_float", lambda x: x.cumsum(1, dtype=torch.float32), (BOOL,), rtol=EXACT),
    fn("cumsum_half", lambda x: x.cumsum(1), (r(2, 9).half() + 8e3,), rtol=F16),
    fn(
        "cumsum_dynamic",
        lambda x: x.cumsum(0),
        (r(4, 3),),
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 3),), (r(16, 3),)],
        rtol=PRODUCT,
    ),
    together(
        "cumsum_int",
        host("int", lambda x: x.cumsum(1), (INT,), rtol=EXACT),
        host("bool", lambda x: x.cumsum(-1), (BOOL,), rtol=EXACT),
        host(
            "int8_wraps",
            lambda x: x.cumsum(0, dtype=torch.int8),
            (torch.full((5,), 100, dtype=torch.int8),),
            rtol=EXACT,
        ),
    ),
    together(
        "cumprod",
        host("float", lambda x: x.cumprod(1), (X,), rtol=PRODUCT),
        host("special", lambda x: x.cumprod(-1), (FINITE,), rtol=PRODUCT),
        host(
            "expanded",
            lambda x: x[:, None].expand(3, 5, 4).cumprod(1),
            (r(3, 4),),
            rtol=PRODUCT,
        ),
    ),
    host("cumprod_int", lambda x: x.cumprod(0), (INT,), rtol=EXACT),
    together(
        "cummax",
        host("float", lambda x: tuple(x.cummax(1)), (X,), rtol=EXACT),
        host("special", lambda x: tuple(x.cummax(-1)), (SPECIAL,), rtol=EXACT),
        host("int_ties", lambda x: tuple(x.cummax(0)), (INT,), rtol=EXACT),
        host("rank_0", lambda x: tuple(x.cummax(0)), (r(),), rtol=EXACT),
    ),
    together(
        "cummin",
        host("float", lambda x: tuple(x.cummin(-2)), (X,), rtol=EXACT),
        host("special", lambda x: tuple(x.cummin(-1)), (SPECIAL,), rtol=EXACT),
    ),
    host_over("logcumsumexp", lambda x: x.logcumsumexp(1), [(X * 50,), (SPECIAL,)]),
]

CASES = [*SUMS, *EXTREMES, *_truths("any"), *_truths("all"), *SPREAD, *NORMS, *SCANS]
