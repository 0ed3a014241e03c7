"""Comparisons, logic, selection."""

from __future__ import annotations

import math
import operator

import torch

from tests.lowering.cases.base import EXACT, Case, S, host, ids, r

X, Y = r(3, 5), r(3, 5).flip(0)
SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1.0, 2.5])
I64, J64 = ids(9, 3, 5) - 4, ids(5, 3, 5) - 2
BOOL, OTHER = X > 0, X.flip(1) > 0.3

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _exact(name: str, function: object, *inputs: object, ops: tuple[str, ...] = ()) -> Case:
    return host(name, function, inputs, *ops, rtol=EXACT)  # type: ignore[arg-type]


COMPARISONS = [
    *(
        _exact(f"{name}_float", getattr(torch, name), X.round(), Y.round(), ops=("host_binary",))
        for name in _COMPARISONS
    ),
    *(
        _exact(f"{name}_i64", getattr(torch, name), I64, J64, ops=("host_binary",))
        for name in _COMPARISONS
    ),
    *(
        _exact(f"{name}_special", getattr(torch, name), SPECIAL[:, None], SPECIAL)
        for name in _COMPARISONS
    ),
    _exact("eq_scalar", lambda x: x == 1, X.round(), ops=("host_binary",)),
    _exact("ne_scalar", lambda x: x != 0.5, X),
    _exact("lt_scalar", lambda x: x < 0.1, X),
    _exact("le_scalar_i64", lambda x: x <= 2, I64, ops=("host_binary",)),
    _exact("gt_scalar_inf", lambda x: x > -math.inf, SPECIAL),
    _exact("le_scalar", lambda x: x <= 0.25, X),
    _exact("gt_i64_and_fraction", lambda x: x > 1.5, I64, ops=("cast", "host_binary")),
    _exact("eq_i64_and_float", torch.eq, I64, X.round(), ops=("cast", "host_binary")),
    _exact("lt_i8_and_u8", torch.lt, (I64 * 9).to(torch.int8), (I64 + 120).to(torch.uint8)),
    _exact("gt_i32_and_i16", torch.gt, I64.int(), J64.short()),
    _exact("eq_bool", torch.eq, BOOL, OTHER, ops=("host_binary",)),
    _exact("lt_bool_and_i64", torch.lt, BOOL, I64),
    _exact("eq_bool_scalar", lambda x: x == True, BOOL),  # noqa: E712
    _exact("gt_broadcast_both", torch.gt, r(3, 1), r(4, 1, 5), ops=("host_binary",)),
    _exact("gt_rank_0", torch.gt, X, r()),
    _exact("eq_rank_6", torch.eq, ids(2, 2, 1, 3, 1, 2, 2), ids(2, 3, 3, 2, 1)),
    _exact(
        "lt_of_transposed", lambda x, y: x.t() < y, r(3, 5), r(5, 3), ops=("permute", "host_binary")
    ),
    _exact("gt_of_slices", lambda x: x[:, ::2] > x[:, 1::2], r(3, 6)),
    _exact("isclose", torch.isclose, X, X + torch.tensor([0.0, 1e-9, 1e-3, 0.0, 1.0])),
    host(
        "ge_dynamic",
        torch.ge,
        (r(4, 5), r(5)),
        "host_binary",
        rtol=EXACT,
        dynamic_shapes={"args": ({0: S}, None)},
        others=[(r(1, 5), r(5)), (r(16, 5), r(5))],
    ),
    _exact("causal_mask", lambda i, j: i[:, None] >= j[None], ids(9, 4), ids(7, 6)),
]

LOGIC = [
    *(
        _exact(f"{name}_{kind}", getattr(torch, name), a, b, ops=("host_binary",))
        for name in ("logical_and", "logical_or", "logical_xor")
        for kind, a, b in (
            ("bool", BOOL, OTHER),
            ("i64", I64, J64),
            ("float", SPECIAL, SPECIAL.flip(0)),
        )
    ),
    _exact("logical_and_float_and_i64", torch.logical_and, X.round(), I64),
    _exact("logical_not_bool", torch.logical_not, BOOL, ops=("host_unary",)),
    _exact("logical_not_i64", torch.logical_not, I64, ops=("host_unary",)),
    _exact("logical_not_float", torch.logical_not, SPECIAL, ops=("host_unary",)),
    _exact("logical_not_u8", torch.logical_not, ids(3, 7).to(torch.uint8)),
    *(
        _exact(f"bitwise_{name}_{kind}", function, a, b, ops=("host_binary",))
        for name, function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor))
        for kind, a, b in (("bool", BOOL, OTHER), ("i64", I64, J64))
    ),
    _exact("bitwise_and_scalar", lambda x: x & 3, I64, ops=("host_binary",)),
    _exact("bitwise_or_scalar", lambda x: x | 8, I64.int()),
    _exact("bitwise_xor_u8", lambda x: x ^ 255, ids(200, 7).to(torch.uint8)),
    _exact("bitwise_and_i8_and_i32", torch.bitwise_and, I64.to(torch.int8), J64.int()),
    _exact("bitwise_and_of_number", lambda x: torch.bitwise_and(6, x), I64),
    _exact("bitwise_not_bool", torch.bitwise_not, BOOL, ops=("host_unary",)),
    _exact("bitwise_not_i64", torch.bitwise_not, I64, ops=("host_unary",)),
    _exact("bitwise_not_u8", torch.bitwise_not, ids(200, 7).to(torch.uint8)),
]

MASKS = [
    _exact("isnan", torch.isnan, SPECIAL, ops=("host_unary",)),
    _exact("isnan_i64", torch.isnan, I64),
    _exact("isinf", torch.isinf, SPECIAL, ops=("host_unary",)),
    _exact("isfinite", torch.isfinite, SPECIAL, ops=("unary", "host_binary")),
    _exact("isfinite_i64", torch.isfinite, I64),
    _exact("isposinf", torch.isposinf, SPECIAL),
    _exact("isneginf", torch.isneginf, SPECIAL),
    _exact("signbit", torch.signbit, SPECIAL, ops=("host_unary",)),
    _exact("signbit_i64", torch.signbit, I64),
]

SELECTION = [
    _exact("where", torch.where, BOOL, X, Y, ops=("host_where",)),
    _exact("where_of_comparison", lambda x, y: torch.where(x > y, x, y), X, Y),
    _exact("where_broadcast", torch.where, r(3, 1) > 0, r(5), r(4, 1, 1), ops=("host_where",)),
    _exact("where_i64", torch.where, BOOL, I64, J64, ops=("host_where",)),
    _exact("where_bool", torch.where, BOOL, OTHER, ~OTHER),
    _exact("where_i64_and_float", torch.where, BOOL, I64, X, ops=("cast", "host_where")),
    _exact("where_u8_and_i16", torch.where, BOOL, ids(9, 3, 5).to(torch.uint8), I64.short()),
    _exact(
        "where_scalar_other", lambda c, x: torch.where(c, x, -1e9), BOOL, X, ops=("host_where",)
    ),
    _exact("where_scalar_self", lambda c, x: torch.where(c, 2, x), BOOL, X, ops=("host_where",)),
    _exact("where_i64_scalar", lambda c, x: torch.where(c, x, 7), BOOL, I64),
    _exact("where_i64_float_scalar", lambda c, x: torch.where(c, x, 0.5), BOOL, I64),
    _exact("where_scalars", lambda c: torch.where(c, 1.0, 0.5), BOOL),
    _exact("where_infinite", lambda c, x: torch.where(c, x, -math.inf), BOOL, X),
    _exact("where_hides_nan", lambda c, x: torch.where(c, x / x, 0.0), BOOL, X * BOOL),
    _exact(
        "where_rank_6", torch.where, r(2, 1, 3, 2, 1, 2) > 0, r(3, 2, 4, 2), r(2, 1, 1, 1, 1, 1)
    ),
    _exact(
        "where_of_transposed", lambda c, x, y: torch.where(c, x.t(), y), r(5, 3) > 0, X, r(5, 3)
    ),
    host(
        "where_dynamic",
        torch.where,
        (r(4, 5) > 0, r(5), r(4, 1)),
        "host_where",
        rtol=EXACT,
        dynamic_shapes={"args": ({0: S}, None, {0: S})},
        others=[(r(1, 5) > 0, r(5), r(1, 1)), (r(16, 5) > 0, r(5), r(16, 1))],
    ),
    _exact("masked_fill", lambda x, m: x.masked_fill(m, -math.inf), X, BOOL, ops=("host_where",)),
    _exact("masked_fill_broadcast_mask", lambda x, m: x.masked_fill(m, 0.5), X, r(5) > 0),
    _exact("masked_fill_broadcast_input", lambda x, m: x.masked_fill(m, 0.5), r(1, 5), BOOL),
    _exact("masked_fill_tensor", torch.masked_fill, X, BOOL, torch.tensor(3.0)),
    _exact("masked_fill_i64", lambda x, m: x.masked_fill(m, -7), I64, BOOL, ops=("host_where",)),
    _exact("masked_fill_bool", lambda x, m: x.masked_fill(m, True), OTHER, BOOL),
    _exact("maximum", torch.maximum, X, Y, ops=("host_binary",)),
    _exact("maximum_nan", torch.maximum, SPECIAL[:, None], SPECIAL, ops=("host_binary",)),
    _exact("maximum_i64", torch.maximum, I64, J64, ops=("host_binary",)),
    _exact("maximum_i64_and_float", torch.maximum, I64, X, ops=("cast", "host_binary")),
    _exact("maximum_bool", torch.maximum, BOOL, OTHER),
    _exact("maximum_broadcast", torch.maximum, r(3, 1), r(4, 1, 5)),
    _exact("minimum", torch.minimum, X, Y, ops=("host_binary",)),
    _exact("minimum_nan", torch.minimum, SPECIAL[:, None], SPECIAL),
    _exact(
        "minimum_u8_and_i8",
        torch.minimum,
        ids(250, 5).to(torch.uint8),
        (ids(9, 5) - 4).to(torch.int8),
    ),
    _exact("fmax", torch.fmax, X, Y, ops=("host_binary",)),
    _exact("fmax_nan", torch.fmax, SPECIAL[:, None], SPECIAL),
    _exact("fmax_i64", torch.fmax, I64, J64),
    _exact("fmin", torch.fmin, X, Y, ops=("host_binary",)),
    _exact("fmin_nan", torch.fmin, SPECIAL[:, None], SPECIAL),
]


def _halves() -> list[Case]:
    """A number is rounded to the tensor's dtype, and so is a sum before it is compared."""
    found: list[Case] = []
    for dtype, name in ((torch.float16, "f16"), (torch.bfloat16, "bf16")):
        x = torch.tensor([0.1, 0.3, -0.1, 1.0, 300.0]).to(dtype)
        tiny = torch.tensor(1e-3).to(dtype) * torch.ones(5, dtype=dtype)
        found += [
            _exact(f"eq_scalar_{name}", lambda x: x == 0.1, x),
            _exact(f"lt_scalar_{name}", lambda x: x < 0.3, x),
            _exact(f"eq_f32_{name}", torch.eq, x, x.float() + torch.tensor([0, 1e-4, 0, 0, 0])),
            _exact(f"gt_sum_{name}", lambda x, y: (x + y) > x, x, tiny),
            _exact(
                f"eq_i64_{name}",
                torch.eq,
                torch.tensor([2049, 257, 3]),
                torch.tensor([2048, 256, 3]).to(dtype),
            ),
            _exact(
                f"logical_not_of_underflow_{name}",
                lambda x, y: torch.logical_not(x * y),
                (x * 1e-7).to(dtype),
                tiny.to(dtype) ** 2,
            ),
            _exact(f"isinf_of_overflow_{name}", lambda x: torch.isinf(x * x), x),
            _exact(f"where_{name}", lambda c, x, y: torch.where(c, x, y), x > 0, x, -x),
            _exact(f"masked_fill_{name}", lambda x, m: x.masked_fill(m, -math.inf), x, x > 0),
            _exact(f"maximum_{name}", torch.maximum, x, -x),
        ]
    return found


CASES = [*COMPARISONS, *LOGIC, *MASKS, *SELECTION, *_halves()]
