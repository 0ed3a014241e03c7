"""Arithmetic of integers and booleans: exact, and wrapping as torch's narrow types do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.lowering.cases.base import EXACT, Case, S, host, ids

#: A dtype, its name in a row, and two operands that reach its limits (not those of int64,
#: whose values a delegate holds in 32 bits).
OPERANDS: tuple[tuple[str, Tensor, Tensor], ...] = (
    ("i64", torch.tensor([-70000, -7, 0, 5, 46000]), torch.tensor([3, -2, 4, -3, 45000])),
    (
        "i32",
        torch.tensor([-(2**31), 2**31 - 1, 7, -9, 100000], dtype=torch.int32),
        torch.tensor([-1, 2, -3, 4, 100000], dtype=torch.int32),
    ),
    (
        "i16",
        torch.tensor([-(2**15), 2**15 - 1, 7, -9, 300], dtype=torch.int16),
        torch.tensor([-1, 2, -3, 4, 300], dtype=torch.int16),
    ),
    (
        "i8",
        torch.tensor([-128, 127, 7, -9, 20], dtype=torch.int8),
        torch.tensor([-1, 2, -3, 4, 20], dtype=torch.int8),
    ),
    (
        "u8",
        torch.tensor([0, 255, 7, 200, 20], dtype=torch.uint8),
        torch.tensor([1, 2, 3, 200, 20], dtype=torch.uint8),
    ),
)
_BY_NAME = {name: (a, b) for name, a, b in OPERANDS}
I64, J64 = _BY_NAME["i64"]
I32, J32 = _BY_NAME["i32"]
I8, J8 = _BY_NAME["i8"]
U8, V8 = _BY_NAME["u8"]
MATRIX = ids(9, 3, 5) - 4
BOOL, OTHER = ids(2, 3, 5).bool(), ids(3, 3, 5) > 0


def _exact(
    name: str, function: Callable[..., Any], *inputs: Any, ops: tuple[str, ...] = ()
) -> Case:
    return host(name, function, inputs, *ops, rtol=EXACT)


def _div(mode: str) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: torch.div(a, b, rounding_mode=mode)


_FUNCTIONS: tuple[tuple[str, Callable[..., Tensor]], ...] = (
    ("add", torch.add),
    ("sub", torch.sub),
    ("mul", torch.mul),
    ("div_trunc", _div("trunc")),
    ("floor_divide", lambda a, b: a // b),
    ("remainder", torch.remainder),
)

#: What overflows in each of these: i64 would leave 32 bits, and i32's smallest value by -1 is
#: undefined in C.
_AVOIDED = {("mul", "i64"), ("div_trunc", "i32"), ("floor_divide", "i32"), ("remainder", "i32")}

BINARY = [
    *(
        _exact(f"int_{name}_{kind}", function, a, b, ops=("host_binary",))
        for name, function in _FUNCTIONS
        for kind, a, b in OPERANDS
        if (name, kind) not in _AVOIDED
    ),
    _exact("int_mul_i64", torch.mul, I64[:4], J64[:4], ops=("host_binary",)),
    _exact("int_floor_divide_i32", lambda a, b: a // b, I32[1:], J32[1:]),
    _exact("int_remainder_i32", torch.remainder, I32[1:], J32[1:]),
    _exact("int_fmod_i64", torch.fmod, I64, J64, ops=("host_binary",)),
    _exact("int_fmod_i8", torch.fmod, I8, J8),
    _exact("int_add_scalar", lambda x: x + 3, MATRIX, ops=("host_binary",)),
    _exact("int_add_scalar_u8", lambda x: x + 200, U8),
    _exact("int_add_alpha", lambda x, y: torch.add(x, y, alpha=-2), MATRIX, MATRIX.flip(0)),
    _exact("int_sub_alpha_i8", lambda x, y: torch.sub(x, y, alpha=3), I8, J8),
    _exact("int_sub_scalar", lambda x: x - 3, MATRIX),
    _exact("int_rsub", lambda x: 3 - x, MATRIX),
    _exact("int_mul_scalar", lambda x: x * -3, MATRIX),
    _exact("int_mul_scalar_i16", lambda x: x * 300, _BY_NAME["i16"][0]),
    _exact("int_floor_divide_scalar", lambda x: x // -3, MATRIX),
    _exact("int_div_trunc_scalar", lambda x: torch.div(x, 3, rounding_mode="trunc"), MATRIX),
    _exact("int_remainder_scalar", lambda x: x % 3, MATRIX, ops=("host_binary",)),
    _exact("int_remainder_of_scalar", lambda x: torch.remainder(7, x), MATRIX.abs() + 1),
    _exact("int_broadcast_both", torch.add, MATRIX[:, :1], MATRIX[0], ops=("host_binary",)),
    _exact("int_rank_0", torch.mul, MATRIX, torch.tensor(7)),
    _exact("int_rank_6", torch.add, ids(9, 2, 1, 3, 1, 2, 2), ids(7, 2, 3, 2, 1)),
    _exact("int_of_transposed", lambda x: x.t() * 2, MATRIX, ops=("permute", "host_binary")),
    _exact("int_of_slices", lambda x: x[:, 1:] - x[:, :-1], MATRIX),
    _exact("int_addcmul", lambda x: torch.addcmul(x, x, x, value=2), MATRIX),
    host(
        "int_add_dynamic",
        torch.add,
        (ids(9, 4, 5), ids(5, 5)),
        "host_binary",
        rtol=EXACT,
        dynamic_shapes={"args": ({0: S}, None)},
        others=[(ids(9, 1, 5), ids(5, 5)), (ids(9, 16, 5), ids(5, 5))],
    ),
]

#: Different widths: the wider one, or int16 for u8 with i8.
MIXED = [
    _exact("i64_plus_i32", torch.add, I64, J64.int(), ops=("host_binary",)),
    _exact("i32_plus_i8", torch.add, I32, J8),
    _exact("i8_plus_u8", torch.add, I8, V8),
    _exact("i16_times_u8", torch.mul, _BY_NAME["i16"][0], V8),
    _exact("u8_minus_i64", torch.sub, U8, I64[:5]),
    _exact("i64_plus_bool", torch.add, MATRIX, BOOL),
    _exact("u8_times_bool", torch.mul, U8, BOOL[0]),
    _exact("i8_plus_i64_rank_0", torch.add, I8, torch.tensor(100)),
    _exact("bool_plus_number", lambda x: x + 1, BOOL),
    _exact("bool_times_number", lambda x: x * 5, BOOL),
    _exact("number_minus_bool", lambda x: 1 - x.long(), BOOL),
    _exact("bool_floor_divide_number", lambda x: x // 2, BOOL),
    _exact("bool_plus_bool", torch.add, BOOL, OTHER, ops=("host_binary",)),
    _exact("bool_times_bool", torch.mul, BOOL, OTHER, ops=("host_binary",)),
]

UNARY = [
    *(_exact(f"int_neg_{kind}", torch.neg, a, ops=("host_unary",)) for kind, a, _ in OPERANDS),
    *(_exact(f"int_abs_{kind}", torch.abs, a, ops=("host_unary",)) for kind, a, _ in OPERANDS),
    *(_exact(f"int_sign_{kind}", torch.sign, a, ops=("host_unary",)) for kind, a, _ in OPERANDS),
    *(_exact(f"int_square_{kind}", torch.square, a) for kind, a, _ in OPERANDS[2:]),
    _exact("int_sign_bool", torch.sign, BOOL),
    _exact("int_pow_2", lambda x: x**2, MATRIX, ops=("host_binary",)),
    _exact("int_pow_3", lambda x: x**3, MATRIX, ops=("host_binary",)),
    _exact("int_pow_0", lambda x: x**0, MATRIX),
    _exact("int_pow_i8", lambda x: x**3, I8),
    _exact("int_pow_u8", torch.pow, U8, torch.tensor([0, 1, 2, 3, 4], dtype=torch.uint8)),
    _exact("int_pow_tensor", torch.pow, MATRIX, ids(5, 3, 5)),
    _exact("int_pow_of_number", lambda x: 3**x, ids(9, 3, 5)),
    _exact("int_relu", torch.relu, MATRIX, ops=("host_binary",)),
    _exact("int_clamp", lambda x: x.clamp(-1, 2), MATRIX, ops=("host_binary", "host_binary")),
    _exact("int_clamp_min", lambda x: x.clamp(min=1), MATRIX, ops=("host_binary",)),
    _exact("int_clamp_max_u8", lambda x: x.clamp(max=100), U8),
    _exact("int_clamp_tensor", torch.clamp, MATRIX, MATRIX - 1, MATRIX.flip(0)),
    _exact("int_floor", lambda x: torch.floor(x) + 1, MATRIX, ops=("host_binary",)),
    _exact("int_round", lambda x: torch.round(x) + 1, MATRIX),
    _exact("int_trunc", lambda x: torch.trunc(x) + 1, I8),
    _exact("int_nan_to_num", lambda x: torch.nan_to_num(x) + 1, MATRIX),
]

_AMOUNTS = torch.tensor([0, 1, 3, 5, 2])

SHIFTS = [
    _exact("shift_left", lambda x: x << 2, MATRIX, ops=("host_binary",)),
    _exact("shift_right", lambda x: x >> 1, MATRIX, ops=("host_binary",)),
    _exact("shift_left_tensor", lambda x, y: x << y, I64, _AMOUNTS),
    _exact("shift_right_tensor", lambda x, y: x >> y, I64, _AMOUNTS),
    _exact("bitwise_left_shift", lambda x: torch.bitwise_left_shift(x, 1), I32),
    _exact("bitwise_right_shift", torch.bitwise_right_shift, I32, _AMOUNTS.int()),
    _exact("bitwise_left_shift_of_number", lambda x: torch.bitwise_left_shift(3, x), _AMOUNTS),
    _exact("shift_left_i8", lambda x: x << 1, I8),
    _exact("shift_right_u8", lambda x: x >> 3, U8),
    _exact("shift_left_beyond_i16", lambda x: x << 17, _BY_NAME["i16"][0]),
    _exact("shift_right_beyond_i32", lambda x, y: x >> y, I32, (_AMOUNTS * 20).int()),
    _exact("shift_right_beyond_u8", lambda x, y: x >> y, U8, (_AMOUNTS * 4).to(torch.uint8)),
]

CASES = [*BINARY, *MIXED, *UNARY, *SHIFTS]
