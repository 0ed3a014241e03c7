"""Comparisons, logic, selection."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.lowering.cases.base import EXACT, Case, S, each, host, host_over, ids, r, together

X, Y = r(3, 5), r(3, 5).flip(0)
SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1.0, 2.5])
#: Each special value against each other one.
PAIRS = tuple(x.contiguous() for x in torch.broadcast_tensors(SPECIAL[:, None], SPECIAL))
I64, J64 = ids(9, 3, 5) - 4, ids(5, 3, 5) - 2
I8, U8 = (I64 * 9).to(torch.int8), (I64 + 120).to(torch.uint8)
BOOL, OTHER = X > 0, X.flip(1) > 0.3

_COMPARE = each(torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)


def _exact(
    name: str, function: Callable[..., Any], *inputs: Any, ops: tuple[str, ...] = (), **more: Any
) -> Case:
    return host(name, function, inputs, *ops, rtol=EXACT, **more)


def _numbers(x: Tensor) -> tuple[Tensor, ...]:
    return x == 1, x != 0.5, x < 0.1, x <= 2, x > -math.inf, x >= -1.5


COMPARISONS = [
    host_over(
        "compare",
        _COMPARE,
        [(X.round(), Y.round()), PAIRS, (I64, J64), (BOOL, OTHER)],
        *("host_binary",) * 6,
        rtol=EXACT,
    ),
    together(
        "compare_numbers",
        *(_exact("numbers", _numbers, x) for x in (X.round(), SPECIAL, I64)),
        _exact("bool", lambda x: (x == True, x > 0), BOOL),  # noqa: E712
    ),
    _exact(
        "compare_promoted",
        lambda i, x, i8, u8, b: (i > x.round(), i8 < u8, u8 >= i, i.int() == i8, b < i),
        I64,
        X,
        I8,
        U8,
        BOOL,
    ),
    _exact("gt_broadcast_both", torch.gt, r(3, 1), r(4, 1, 5), ops=("host_binary",)),
    together(
        "compare_shapes",
        _exact("rank_6", torch.eq, ids(2, 2, 1, 3, 1, 2, 2), ids(2, 3, 3, 2, 2)),
        _exact("strided", lambda x, y: (x.t() < y, x[:, :2] > x[:, 1::2]), X, r(5, 3)),
        _exact("causal_mask", lambda i, j: i[:, None] >= j[None], ids(9, 4), ids(7, 6)),
    ),
    _exact("isclose", torch.isclose, X, X + torch.tensor([0.0, 1e-9, 1e-3, 0.0, 1.0])),
    _exact(
        "gt_of_a_size",
        lambda x: (x > x.shape[0], x.long() < x.shape[0]),
        r(4, 5) * 9,
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 5) * 3,), (r(16, 5) * 9,)],
    ),
    _exact(
        "ge_dynamic",
        torch.ge,
        r(4, 5),
        r(5),
        ops=("host_binary",),
        dynamic_shapes={"args": ({0: S}, None)},
        others=[(r(1, 5), r(5)), (r(16, 5), r(5))],
    ),
]

_LOGICAL = each(torch.logical_and, torch.logical_or, torch.logical_xor)
_BITWISE = each(operator.and_, operator.or_, operator.xor, lambda a, b: ~a)

LOGIC = [
    host_over(
        "logical",
        _LOGICAL,
        [(BOOL, OTHER), (I64, J64), PAIRS],
        *("host_binary",) * 3,
        rtol=EXACT,
    ),
    _exact("logical_promoted", _LOGICAL, X.round(), I64),
    host_over("logical_not", torch.logical_not, [(SPECIAL,), (BOOL,), (I64,)], rtol=EXACT),
    host_over(
        "bitwise",
        _BITWISE,
        [
            (BOOL, OTHER),
            (I64, J64),
            (ids(200, 7).to(torch.uint8), ids(255, 7).to(torch.uint8)),
            (I8, J64.int()),
        ],
        rtol=EXACT,
    ),
    _exact(
        "bitwise_numbers",
        lambda x: (x & 3, x | 8, x ^ 255, torch.bitwise_and(6, x), torch.bitwise_or(6, x)),
        I64,
    ),
]

MASKS = [
    _exact(
        "classify",
        each(
            torch.isnan,
            torch.isinf,
            torch.isfinite,
            torch.isposinf,
            torch.isneginf,
            torch.signbit,
        ),
        SPECIAL,
    ),
    _exact("classify_i64", each(torch.isnan, torch.isinf, torch.isfinite, torch.signbit), I64),
]

_EXTREMES = each(torch.maximum, torch.minimum, torch.fmax, torch.fmin)

SELECTION = [
    host_over(
        "where",
        torch.where,
        [(BOOL, X, Y), (BOOL, I64, J64), (BOOL, OTHER, ~OTHER)],
        "host_where",
        rtol=EXACT,
    ),
    host_over("where_promoted", torch.where, [(BOOL, I64, X), (BOOL, U8, I64.short())], rtol=EXACT),
    host_over(
        "where_broadcast",
        torch.where,
        [
            (r(3, 1) > 0, r(5), r(4, 1, 1)),
            (r(2, 1, 3, 2, 1, 2) > 0, r(3, 2, 4, 2), r(2, 1, 1, 1, 1, 1)),
        ],
        rtol=EXACT,
    ),
    _exact(
        "where_of_transposed", lambda c, x, y: torch.where(c, x.t(), y), r(5, 3) > 0, X, r(5, 3)
    ),
    together(
        "where_numbers",
        _exact(
            "floats",
            lambda c, x: (
                torch.where(c, x, -1e9),
                torch.where(c, 2, x),
                torch.where(c, 1.0, 0.5),
                torch.where(c, x, -math.inf),
            ),
            BOOL,
            X,
        ),
        _exact(
            "i64",
            lambda c, x: (torch.where(c, x, 7), torch.where(c, x, 0.5), torch.where(c, True, x)),
            BOOL,
            I64,
        ),
    ),
    _exact(
        "where_of_computed",
        lambda c, x, y: (torch.where(x > y, x, y), torch.where(c, x * c / (x * c), 0.0)),
        BOOL,
        X,
        Y,
    ),
    _exact(
        "where_dynamic",
        torch.where,
        r(4, 5) > 0,
        r(5),
        r(4, 1),
        ops=("host_where",),
        dynamic_shapes={"args": ({0: S}, None, {0: S})},
        others=[(r(1, 5) > 0, r(5), r(1, 1)), (r(16, 5) > 0, r(5), r(16, 1))],
    ),
    together(
        "masked_fill",
        _exact("number", lambda x, m: x.masked_fill(m, -math.inf), X, BOOL, ops=("host_where",)),
        _exact("tensor", torch.masked_fill, X, BOOL, torch.tensor(3.0), ops=("host_where",)),
        _exact("i64", lambda i, m: i.masked_fill(m, -7), I64, BOOL, ops=("host_where",)),
        _exact("bool", lambda b, m: b.masked_fill(m, True), OTHER, BOOL, ops=("host_where",)),
    ),
    _exact(
        "masked_fill_broadcast",
        lambda x, m, row: (x.masked_fill(row, 0.5), row.float().masked_fill(m, 2)),
        X,
        BOOL,
        r(5) > 0,
    ),
    together(
        "maximum",
        *(_exact("floats", _EXTREMES, x, y, ops=("host_binary",) * 4) for x, y in ((X, Y), PAIRS)),
        # Without NaN there are two functions.
        _exact("i64", _EXTREMES, I64, J64, ops=("host_binary",) * 2),
    ),
    _exact(
        "maximum_promoted",
        lambda i, x, i8, u8: (torch.maximum(i, x), torch.minimum(u8, i8), torch.fmax(i, x)),
        I64,
        X,
        I8,
        U8,
    ),
    _exact("maximum_broadcast", torch.maximum, r(3, 1), r(4, 1, 5)),
]


def _halves() -> list[Case]:
    """A number is rounded to the tensor's dtype, and so is a sum before it is compared."""
    numbers, promoted, rounded, selected = [], [], [], []
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.tensor([0.1, 0.3, -0.1, 1.0, 300.0]).to(dtype)
        whole = torch.tensor([2049, 257, 3, 5, 7])
        numbers.append((x,))
        promoted.append(
            (whole.to(dtype), x.float() + torch.tensor([0, 1e-4, 0, 0, 0]), whole),
        )
        rounded.append((x, torch.full((5,), 1e-3).to(dtype)))
        selected.append((x, x > 0))
    return [
        host_over(
            "compare_numbers_halves",
            lambda x: (x == 0.1, x < 0.3, x >= 0.1),
            numbers,
            rtol=EXACT,
        ),
        host_over(
            "compare_promoted_halves",
            lambda x, f, i: (x == f, i == x, i < x),
            promoted,
            rtol=EXACT,
        ),
        host_over(
            "told_from_unrounded_halves",
            lambda x, y: ((x + y) > x, torch.isinf(x * x), torch.logical_not(x * y * y * y)),
            rounded,
            rtol=EXACT,
        ),
        host_over(
            "select_halves",
            lambda x, m: (torch.where(m, x, -x), x.masked_fill(m, -math.inf), x.maximum(-x)),
            selected,
            rtol=EXACT,
        ),
    ]


CASES = [*COMPARISONS, *LOGIC, *MASKS, *SELECTION, *_halves()]
