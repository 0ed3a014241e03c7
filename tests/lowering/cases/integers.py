"""Arithmetic of integers and booleans: exact, and wrapping as torch's narrow types do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.lowering.cases.base import EXACT, Case, S, each, host, host_over, ids, together


def _of(dtype: torch.dtype, *values: int) -> Tensor:
    return torch.tensor(values, dtype=dtype)


#: A dtype's name in a row, and two operands that reach the dtype's limits (int64's, whose
#: values a delegate holds in 32 bits, excepted).
OPERANDS: tuple[tuple[str, Tensor, Tensor], ...] = (
    ("i64", _of(torch.int64, -46000, -7, 0, 5, 46000), _of(torch.int64, 3, -2, 4, -3, 45000)),
    (
        "i32",
        _of(torch.int32, 1 - 2**31, 2**31 - 1, 7, -9, 100000),
        _of(torch.int32, -1, 2, -3, 4, 100000),
    ),
    ("i16", _of(torch.int16, -(2**15), 2**15 - 1, 7, -9, 300), _of(torch.int16, -1, 2, -3, 4, 300)),
    ("i8", _of(torch.int8, -128, 127, 7, -9, 20), _of(torch.int8, -1, 2, -3, 4, 20)),
    ("u8", _of(torch.uint8, 0, 255, 7, 200, 20), _of(torch.uint8, 1, 2, 3, 200, 20)),
)
(_, I64, J64), (_, I32, J32), (_, I16, J16), (_, I8, J8), (_, U8, V8) = OPERANDS
MATRIX = ids(9, 3, 5) - 4
BOOL, OTHER = ids(2, 3, 5).bool(), ids(3, 3, 5) > 0


def _exact(
    name: str, function: Callable[..., Any], *inputs: Any, ops: tuple[str, ...] = (), **more: Any
) -> Case:
    return host(name, function, inputs, *ops, rtol=EXACT, **more)


def _trunc(a: Tensor, b: Any) -> Tensor:
    return torch.div(a, b, rounding_mode="trunc")


_SUMS = each(torch.add, torch.sub, torch.mul)
_QUOTIENTS = each(_trunc, lambda a, b: a // b, torch.remainder, torch.fmod)

#: int64's sums and products must stay within 32 bits.
_SUMMED = [(I64[:4], J64[:4]), *((a, b) for _, a, b in OPERANDS[1:])]

BINARY = [
    host_over("integer_sums", _SUMS, _SUMMED, *("host_binary",) * 3, rtol=EXACT),
    host_over(
        "integer_quotients",
        _QUOTIENTS,
        [(a, b) for _, a, b in OPERANDS],
        *("host_binary",) * 4,
        rtol=EXACT,
    ),
    together(
        "integer_and_numbers",
        _exact(
            "i64",
            lambda x: (x + 3, x - 3, 3 - x, x * -3, x // -3, x % 3, torch.remainder(7, x * x + 1)),
            MATRIX,
        ),
        _exact("narrow", lambda x, y: (x + 200, x * 3, y * 300), U8, I16),
    ),
    _exact(
        "integer_alpha",
        lambda x, y, i: (
            torch.add(x, x, alpha=-2),
            torch.sub(i, y, alpha=3),
            torch.rsub(x, 1, alpha=2),
        ),
        MATRIX,
        J8,
        I8,
    ),
    together(
        "integer_shapes",
        _exact("broadcast", torch.add, ids(9, 3, 1), ids(8, 1, 5)),
        _exact("rank_0", torch.mul, MATRIX, torch.tensor(7)),
        _exact("narrow_rank_0", lambda x, y: x + y, I8, torch.tensor(100)),
        _exact("rank_6", torch.add, ids(9, 2, 1, 3, 1, 2, 2), ids(7, 3, 3, 2, 2)),
        _exact("strided", lambda x: (x.t() * 2, x[:, 1:] - x[:, :-1]), MATRIX),
    ),
    _exact("integer_addcmul", lambda x: torch.addcmul(x, x, x, value=2), MATRIX),
    _exact(
        "integer_dynamic",
        torch.add,
        ids(9, 4, 5),
        ids(5, 5),
        ops=("host_binary",),
        dynamic_shapes={"args": ({0: S}, None)},
        others=[(ids(9, 1, 5), ids(5, 5)), (ids(9, 16, 5), ids(5, 5))],
    ),
    #: Different widths: the wider one, or int16 for int8 with uint8.
    _exact(
        "mixed_widths",
        lambda i64, i32, i16, i8, u8: (i64 + i32, i32 + i8, i8 + u8, i16 * u8, u8 - i64, i8 * i16),
        I64,
        J32,
        J16,
        I8,
        U8,
    ),
    _exact(
        "bool_with_integers",
        lambda b, i, u: (b + i, u * b[0], b + 1, b * 5, 1 - i, b // 2),
        BOOL,
        MATRIX,
        U8,
    ),
    _exact("bool_with_bool", each(torch.add, torch.mul), BOOL, OTHER, ops=("host_binary",) * 2),
]

UNARY = [
    host_over(
        "integer_signs",
        each(torch.neg, torch.abs, torch.sign),
        [(a,) for _, a, _ in OPERANDS],
        *("host_unary",) * 3,
        rtol=EXACT,
    ),
    _exact(
        "integer_powers",
        lambda x, n, u: (x**2, n.square(), u * u, x**3, x**0, x**1 + 1, n**5),
        MATRIX,
        I8,
        U8,
    ),
    host_over(
        "integer_power_tensor",
        torch.pow,
        [(MATRIX, ids(5, 3, 5)), (U8, _of(torch.uint8, 0, 1, 2, 3, 4))],
        rtol=EXACT,
    ),
    _exact("power_of_integer_number", lambda x: 3**x, ids(9, 3, 5)),
    _exact("integer_relu", torch.relu, MATRIX, ops=("host_binary",)),
    _exact(
        "integer_clamp",
        lambda x, u: (x.clamp(-1, 2), x.clamp(min=1), u.clamp(max=100)),
        MATRIX,
        U8,
        ops=("host_binary",) * 4,
    ),
    _exact("integer_clamp_tensor", torch.clamp, MATRIX, MATRIX - 1, MATRIX.flip(0)),
    _exact(
        "integers_are_whole",
        lambda x: tuple(
            f(x) + 1 for f in (torch.floor, torch.ceil, torch.trunc, torch.round, torch.nan_to_num)
        ),
        MATRIX,
    ),
]

_AMOUNTS = torch.tensor([0, 1, 3, 5, 2])

SHIFTS = [
    _exact("shift_by_number", lambda x: (x << 2, x >> 1), MATRIX, ops=("host_binary",) * 2),
    together(
        "shift_by_tensor",
        _exact("i64", lambda x, y: (x << y, x >> y), I64, _AMOUNTS),
        _exact(
            "bitwise",
            lambda x, y: (
                torch.bitwise_left_shift(x, 1),
                torch.bitwise_right_shift(x, y),
                torch.bitwise_left_shift(3, y),
            ),
            I32,
            _AMOUNTS.int(),
        ),
    ),
    together(
        "shift_out",
        _exact("numbers", lambda i, u: (i << 1, i >> 1, u << 1, u >> 3), I8, U8),
        _exact(
            "tensors",
            lambda i, j, u, y: (i << 17, j >> (y * 20), u >> (y * 4).to(torch.uint8)),
            I16,
            I32,
            U8,
            _AMOUNTS.int(),
        ),
    ),
]

CASES = [*BINARY, *UNARY, *SHIFTS]
