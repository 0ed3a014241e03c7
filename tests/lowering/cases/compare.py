"""Comparisons, logic, selection."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.lowering.cases.base import EXACT, Case, S, each, host, ids, r

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
    _exact("compare_float", _COMPARE, X.round(), Y.round(), ops=("host_binary",) * 6),
    _exact("compare_special", _COMPARE, *PAIRS),
    _exact("compare_i64", _COMPARE, I64, J64, ops=("host_binary",) * 6),
    _exact("compare_bool", _COMPARE, BOOL, OTHER),
    _exact("compare_numbers", _numbers, X.round()),
    _exact("compare_special_numbers", _numbers, SPECIAL),
    _exact("compare_i64_numbers", _numbers, I64),
    _exact("compare_bool_number", lambda x: (x == True, x > 0), BOOL),  # noqa: E712
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
    _exact("eq_rank_6", torch.eq, ids(2, 2, 1, 3, 1, 2, 2), ids(2, 3, 3, 2, 2)),
    _exact("compare_strided", lambda x, y: (x.t() < y, x[:, :2] > x[:, 1::2]), X, r(5, 3)),
    _exact("isclose", torch.isclose, X, X + torch.tensor([0.0, 1e-9, 1e-3, 0.0, 1.0])),
    _exact("causal_mask", lambda i, j: i[:, None] >= j[None], ids(9, 4), ids(7, 6)),
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
    _exact("logical_bool", _LOGICAL, BOOL, OTHER, ops=("host_binary",) * 3),
    _exact("logical_i64", _LOGICAL, I64, J64, ops=("host_binary",) * 3),
    _exact("logical_float", _LOGICAL, *PAIRS, ops=("host_binary",) * 3),
    _exact("logical_promoted", _LOGICAL, X.round(), I64),
    _exact("logical_not", each(torch.logical_not), SPECIAL, ops=("host_unary",)),
    _exact("logical_not_integers", lambda b, i: (~b, torch.logical_not(i)), BOOL, I64),
    _exact("bitwise_bool", _BITWISE, BOOL, OTHER),
    _exact("bitwise_i64", _BITWISE, I64, J64),
    _exact("bitwise_u8", _BITWISE, ids(200, 7).to(torch.uint8), ids(255, 7).to(torch.uint8)),
    _exact("bitwise_promoted", _BITWISE, I8, J64.int()),
    _exact(
        "bitwise_numbers",
        lambda x: (x & 3, x | 8, x ^ 255, torch.bitwise_and(6, x), torch.bitwise_or(6, x)),
        I64,
    ),
]

MASKS = [
    _exact(
        "classify",
        each(torch.isnan, torch.isinf, torch.isfinite, torch.isposinf, torch.isneginf),
        SPECIAL,
    ),
    _exact("signbit", torch.signbit, SPECIAL, ops=("host_unary",)),
    _exact(
        "classify_i64",
        each(torch.isnan, torch.isinf, torch.isfinite, torch.signbit),
        I64,
    ),
]

SELECTION = [
    _exact("where", torch.where, BOOL, X, Y, ops=("host_where",)),
    _exact("where_of_comparison", lambda x, y: torch.where(x > y, x, y), X, Y),
    _exact("where_broadcast", torch.where, r(3, 1) > 0, r(5), r(4, 1, 1), ops=("host_where",)),
    _exact("where_i64", torch.where, BOOL, I64, J64, ops=("host_where",)),
    _exact("where_bool", torch.where, BOOL, OTHER, ~OTHER),
    _exact("where_i64_and_float", torch.where, BOOL, I64, X, ops=("cast", "host_where")),
    _exact("where_u8_and_i16", torch.where, BOOL, U8, I64.short()),
    _exact(
        "where_numbers",
        lambda c, x: (torch.where(c, x, -1e9), torch.where(c, 2, x), torch.where(c, 1.0, 0.5)),
        BOOL,
        X,
    ),
    _exact(
        "where_i64_numbers",
        lambda c, x: (torch.where(c, x, 7), torch.where(c, x, 0.5), torch.where(c, True, x)),
        BOOL,
        I64,
    ),
    _exact("where_infinite", lambda c, x: torch.where(c, x, -math.inf), BOOL, X),
    _exact("where_hides_nan", lambda c, x: torch.where(c, x / x, 0.0), BOOL, X * BOOL),
    _exact(
        "where_rank_6",
        torch.where,
        r(2, 1, 3, 2, 1, 2) > 0,
        r(3, 2, 4, 2),
        r(2, 1, 1, 1, 1, 1),
    ),
    _exact(
        "where_of_transposed", lambda c, x, y: torch.where(c, x.t(), y), r(5, 3) > 0, X, r(5, 3)
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
    _exact("masked_fill", lambda x, m: x.masked_fill(m, -math.inf), X, BOOL, ops=("host_where",)),
    _exact(
        "masked_fill_broadcast",
        lambda x, m, row: (x.masked_fill(row, 0.5), row.float().masked_fill(m, 2)),
        X,
        BOOL,
        r(5) > 0,
    ),
    _exact("masked_fill_tensor", torch.masked_fill, X, BOOL, torch.tensor(3.0)),
    _exact(
        "masked_fill_integers",
        lambda i, b, m: (i.masked_fill(m, -7), b.masked_fill(m, True)),
        I64,
        OTHER,
        BOOL,
    ),
    _exact("maximum", torch.maximum, X, Y, ops=("host_binary",)),
    _exact("minimum", torch.minimum, X, Y, ops=("host_binary",)),
    _exact("fmax", torch.fmax, *PAIRS, ops=("host_binary",)),
    _exact("fmin", torch.fmin, *PAIRS, ops=("host_binary",)),
    _exact("maximum_special", each(torch.maximum, torch.minimum), *PAIRS),
    _exact(
        "maximum_integers", each(torch.maximum, torch.minimum, torch.fmax, torch.fmin), I64, J64
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
    found: list[Case] = []
    for dtype, name in ((torch.float16, "f16"), (torch.bfloat16, "bf16")):
        x = torch.tensor([0.1, 0.3, -0.1, 1.0, 300.0]).to(dtype)
        tiny = torch.full((5,), 1e-3).to(dtype)
        whole = torch.tensor([2049, 257, 3, 5, 7])
        wide = x.float() + torch.tensor([0, 1e-4, 0, 0, 0])
        found += [
            _exact(f"compare_numbers_{name}", lambda x: (x == 0.1, x < 0.3, x >= 0.1), x),
            _exact(
                f"compare_promoted_{name}",
                lambda x, f, i: (x == f, i == x, i < x),
                whole.to(dtype),
                wide,
                whole,
            ),
            _exact(
                f"told_from_unrounded_{name}",
                lambda x, y: ((x + y) > x, torch.isinf(x * x), torch.logical_not(x * y * y * y)),
                x,
                tiny,
            ),
            _exact(
                f"select_{name}",
                lambda x, m: (torch.where(m, x, -x), x.masked_fill(m, -math.inf), x.maximum(-x)),
                x,
                x > 0,
            ),
        ]
    return found


CASES = [*COMPARISONS, *LOGIC, *MASKS, *SELECTION, *_halves()]
