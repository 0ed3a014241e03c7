"""Functions of one and two floating-point values."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.lowering.cases.base import BF16, F16, Case, S, each, fn, host, ids, positive, r


def _floor_divide(x: Tensor, y: Any) -> Tensor:
    return torch.div(x, y, rounding_mode="floor")


#: A half-precision dtype, its name in a row, and its tolerance.
HALVES = ((torch.float16, "f16", F16), (torch.bfloat16, "bf16", BF16))

#: What a division or a power may meet: both signs, no zeros.
NONZERO = r(3, 5).sign() * positive(3, 5)

_ZEROS = (torch.tensor([0.0, -0.0, 0.0, -0.0]), torch.tensor([0.0, 0.0, -0.0, -0.0]))
_ODD = torch.tensor([0.0, math.inf, math.nan])
_INFINITE = torch.tensor([math.inf, -math.inf, 2.0, -math.inf, -math.inf])

UNARY = [
    fn("abs", torch.abs, (r(3, 5),), "unary"),
    fn("exp", torch.exp, (r(3, 5),), "unary"),
    fn("log", torch.log, (positive(3, 5),), "log"),
    fn("sqrt", torch.sqrt, (positive(3, 5),), "sqrt"),
    fn("sin", torch.sin, (r(3, 5),), "sin"),
    fn("cos", torch.cos, (r(3, 5),), "cos"),
    fn("tan", torch.tan, (r(3, 5),), "sin", "cos", "div"),
    fn("tanh", torch.tanh, (r(3, 5),), "unary"),
    fn("sigmoid", torch.sigmoid, (r(3, 5),), "unary"),
    fn("floor", torch.floor, (r(3, 5) * 4,), "unary"),
    fn("ceil", torch.ceil, (r(3, 5) * 4,), "unary"),
    fn("trunc", torch.trunc, (r(3, 5) * 4,), "unary"),
    fn("frac", torch.frac, (r(3, 5) * 4,), "unary", "sub"),
    fn("neg", torch.neg, (r(3, 5),), "unary"),
    fn("sign", torch.sign, (torch.tensor([-2.0, -0.0, 0.0, 1e-30, 3.0]),), "unary"),
    fn("sgn", torch.sgn, (r(3, 5),), "unary"),
    fn("square", torch.square, (r(3, 5),), "sqr"),
    fn("rsqrt", torch.rsqrt, (positive(3, 5),), "sqrt", "repeat", "div"),
    fn("reciprocal", torch.reciprocal, (NONZERO,), "repeat", "div"),
    fn("logit", torch.logit, (positive(3, 5) / 4,), "scale", "div", "log"),
    fn("logit_eps", lambda x: torch.logit(x, 0.1), (r(3, 5),), "clamp", "scale", "div", "log"),
    fn("rad2deg", torch.rad2deg, (r(3, 5),), "scale"),
    fn("deg2rad", torch.deg2rad, (r(3, 5) * 90,), "scale"),
    fn("positive", lambda x: torch.positive(x) + 1, (r(3, 5),), "scale"),
    fn("unary_of_transposed", lambda x: torch.exp(x.t()), (r(3, 5),), "permute", "cont", "unary"),
    fn("unary_of_slice", lambda x: x[:, 1:4].tanh(), (r(3, 5),), "view", "unary"),
    fn("unary_of_expanded", lambda x: x.expand(4, 3, 5).exp(), (r(3, 5),), "repeat", "unary"),
    fn("unary_of_rank_0", torch.exp, (r(),), "unary"),
    fn("unary_of_rank_7", torch.sin, (r(2, 1, 3, 2, 1, 2, 2),), "sin"),
    fn(
        "unary_dynamic",
        torch.tanh,
        (r(4, 5),),
        "unary",
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 5),), (r(16, 5),), (r(4, 5),)],
    ),
]

#: Functions that ggml lacks or has less exactly, by domain.
HOST_UNARY = [
    host(
        "logarithms", each(torch.log2, torch.log10), (positive(3, 5),), "host_unary", "host_unary"
    ),
    host(
        "of_unit_interval",
        each(torch.log1p, torch.asin, torch.acos, torch.atanh),
        (r(3, 5).tanh(),),
    ),
    host("exponentials", each(torch.exp2, torch.expm1, torch.sinh, torch.cosh), (r(3, 5) * 4,)),
    host("acosh", torch.acosh, (positive(3, 5) + 1,), "host_unary"),
    host(
        "of_every_number",
        each(torch.atan, torch.asinh, torch.erf, torch.erfc, torch.lgamma),
        (r(3, 5) * 3,),
    ),
    host(
        "round_half_to_even",
        torch.round,
        (torch.tensor([0.5, 1.5, 2.5, -0.5, -2.5, 2.4, -2.6, 1e7]),),
        "host_unary",
    ),
    host(
        "round_decimals",
        each(*(lambda x, d=d: torch.round(x * 10 ** (1 - d), decimals=d) for d in (0, 2, -2))),
        (r(3, 5),),
    ),
]

POWERS = [
    fn("pow_0", lambda x: x**0, (r(3, 5),), "repeat"),
    fn("pow_1", lambda x: x**1 + 1, (r(3, 5),), "scale"),
    fn("pow_2", lambda x: x**2, (r(3, 5),), "sqr"),
    fn("pow_3", lambda x: x**3, (r(3, 5),), "sqr", "mul"),
    fn("pow_4", lambda x: x**4, (r(3, 5),), "sqr", "sqr"),
    fn("pow_half", lambda x: x**0.5, (positive(3, 5),), "sqrt"),
    fn("pow_minus_half", lambda x: x**-0.5, (positive(3, 5),), "sqrt", "repeat", "div"),
    fn("pow_minus_1", lambda x: x**-1, (NONZERO,), "repeat", "div"),
    fn("pow_minus_2", lambda x: x**-2, (NONZERO,), "sqr", "repeat", "div"),
    host("pow_others", each(*(lambda x, n=n: x**n for n in (2.5, 5, 10, -3))), (NONZERO,)),
    host("pow_tensor", torch.pow, (positive(3, 1), r(5)), "host_binary"),
    host("pow_negative_base", torch.pow, (r(3, 5), ids(4, 3, 5).float()), "host_binary"),
    host("pow_of_numbers", lambda x: (2.0**x, 1.7**x, 0**x), (r(3, 5),)),
]

ADD_SUB = [
    fn("add", torch.add, (r(3, 5), r(3, 5)), "add"),
    fn("add_alpha", lambda x, y: torch.add(x, y, alpha=3), (r(3, 5), r(3, 5)), "scale", "add"),
    fn(
        "add_alpha_broadcast",
        lambda x, y: torch.add(x, y, alpha=-0.5),
        (r(3, 5), r(5)),
        "scale",
        "add",
    ),
    fn("add_scalar", lambda x: x + 2.5, (r(3, 5),), "scale"),
    fn("add_scalar_alpha", lambda x: torch.add(x, 2.5, alpha=2), (r(3, 5),), "scale", "add"),
    fn("add_itself", lambda x: x + x, (r(3, 5),), "add"),
    fn("scalar_plus", lambda x: 2.5 + x, (r(3, 5),), "scale"),
    fn("sub", torch.sub, (r(3, 5), r(3, 5)), "sub"),
    fn("sub_alpha", lambda x, y: torch.sub(x, y, alpha=2), (r(3, 5), r(3, 5)), "scale", "sub"),
    fn("sub_scalar", lambda x: x - 2.5, (r(3, 5),), "scale"),
    fn("rsub", lambda x: 2.0 - x, (r(3, 5),), "scale"),
    fn("rsub_alpha", lambda x: torch.rsub(x, 2.0, alpha=3), (r(3, 5),), "scale", "repeat", "sub"),
    fn("rsub_tensor", torch.rsub, (r(3, 5), r(5)), "repeat", "sub"),
    fn("lerp_near_start", lambda x, y: torch.lerp(x, y, 0.3), (r(3, 5), r(5))),
    fn("lerp_near_end", lambda x, y: torch.lerp(x, y, 0.8), (r(3, 5), r(3, 5))),
]

MUL_DIV = [
    fn("mul", torch.mul, (r(3, 5), r(3, 5)), "mul"),
    fn("mul_scalar", lambda x: x * 0.3, (r(3, 5),), "scale"),
    fn("mul_true", lambda x: x * True + 1, (r(3, 5),), "scale"),
    fn("div", torch.div, (r(3, 5), NONZERO), "div"),
    fn("div_by_power_of_two", lambda x: x / 8, (r(3, 5),), "scale"),
    fn("div_scalar", lambda x: x / 3, (r(3, 5),), "div"),
    fn("div_of_scalar", lambda x: 3 / x, (NONZERO,), "repeat", "div", "scale"),
    fn("true_divide", torch.true_divide, (r(3, 5), NONZERO), "div"),
    fn(
        "div_trunc",
        lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        (r(3, 5) * 9, NONZERO),
        "div",
        "unary",
    ),
    fn(
        "div_trunc_scalar",
        lambda x: torch.div(x, 0.7, rounding_mode="trunc"),
        (r(3, 5) * 9,),
        "div",
        "unary",
    ),
    host(
        "floor_quotients",
        each(_floor_divide, torch.remainder, torch.fmod),
        (r(3, 5) * 9, NONZERO),
        *("host_binary",) * 3,
    ),
    host(
        "floor_quotients_of_numbers",
        lambda x: (_floor_divide(x, 0.7), x // 2, x % -0.75, torch.fmod(x, -0.75)),
        (r(3, 5) * 9,),
        *("host_binary",) * 4,
    ),
    host("number_by_tensor", lambda x: (7.5 // x, torch.remainder(7.5, x)), (NONZERO,)),
    host(
        "quotients_by_a_size",
        lambda x: tuple(
            quotient
            for y in (x, x.long())
            for n in [x.shape[0]]
            for quotient in (y / n, y // n, y % n, torch.fmod(y, n))
        ),
        (r(4, 5) * 9,),
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 5) * 3,), (r(16, 5) * 99,)],
    ),
    fn("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), (r(3, 5), r(3, 5), r(5))),
    fn("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=-2), (r(3, 5), r(3, 5), NONZERO)),
]

#: ggml broadcasts its second operand only; the lowering repeats or swaps for the rest.
BROADCASTS = [
    fn("broadcast_row", torch.add, (r(4, 3, 5), r(5)), "add"),
    fn("broadcast_column", torch.mul, (r(4, 3, 5), r(3, 1)), "mul"),
    fn("broadcast_first", torch.sub, (r(5), r(4, 3, 5)), "repeat", "sub"),
    fn("broadcast_first_of_product", torch.mul, (r(5), r(4, 3, 5)), "mul"),
    fn("broadcast_both", torch.add, (r(3, 1), r(1, 5)), "repeat", "add"),
    fn("broadcast_both_of_quotient", torch.div, (r(3, 1), positive(4, 1, 5)), "repeat", "div"),
    fn("broadcast_rank_0", torch.mul, (r(3, 5), r()), "mul"),
    fn("broadcast_rank_0_first", torch.div, (r(), NONZERO), "repeat", "div"),
    fn("broadcast_rank_6", torch.add, (r(2, 3, 1, 2, 1, 2), r(2, 3, 4, 2, 5, 2))),
    fn("broadcast_merged_dims", torch.mul, (r(2, 3, 4, 2, 5), r(3, 1, 2, 5))),
    fn("add_rank_8", torch.add, (r(2, 1, 2, 1, 2, 2, 1, 2), r(2, 1, 2, 1, 2, 2, 1, 2)), "add"),
    fn("add_transposed", lambda x, y: x.t() + y, (r(3, 5), r(5, 3)), "permute", "cont", "add"),
    fn("mul_of_slices", lambda x: x[:, ::2] * x[:, 1::2], (r(3, 6),)),
    fn("sub_of_expanded", lambda x, y: x.expand(4, 3, 5) - y, (r(3, 1), r(4, 3, 5))),
    fn(
        "add_dynamic",
        torch.add,
        (r(4, 5), r(5)),
        "add",
        dynamic_shapes={"args": ({0: S}, None)},
        others=[(r(1, 5), r(5)), (r(16, 5), r(5))],
    ),
    fn(
        "div_dynamic_broadcast_first",
        torch.div,
        (r(1, 5), positive(4, 1)),
        "repeat",
        "div",
        dynamic_shapes={"args": (None, {0: S})},
        others=[(r(1, 5), positive(1, 1)), (r(1, 5), positive(16, 1))],
    ),
    host(
        "remainder_dynamic",
        torch.remainder,
        (r(4, 5), positive(5)),
        "host_binary",
        dynamic_shapes={"args": ({0: S}, None)},
        others=[(r(1, 5), positive(5)), (r(16, 5), positive(5))],
    ),
]

OF_TWO = [
    host("atan2", torch.atan2, (r(3, 5), r(3, 5)), "host_binary"),
    host("hypot", torch.hypot, (r(3, 5), r(5)), "host_binary"),
    host("copysign", lambda x, y: (x.copysign(y), x.copysign(-1.0)), (r(3, 5), r(3, 5))),
    host("signed_zeros", each(torch.atan2, torch.copysign), _ZEROS, "host_binary", "host_binary"),
    host(
        "xlogy",
        lambda x, y: (torch.xlogy(x, y), torch.xlogy(x, 2.0), torch.xlogy(2.0, y)),
        (r(3, 5), positive(3, 5)),
    ),
    host("xlogy_of_zero", torch.xlogy, (torch.zeros(3), _ODD), "host_binary"),
    host(
        "ldexp",
        lambda x, i, y: (torch.ldexp(x, i), torch.ldexp(i, y), torch.ldexp(x.half(), i[0])),
        (r(3, 5), ids(300, 3, 5) - 150, r(5)),
    ),
    host("logaddexp", each(torch.logaddexp, torch.logaddexp2), (r(3, 5) * 9, r(5) * 9)),
    host("logaddexp_infinite", torch.logaddexp, (_INFINITE, _INFINITE.flip(0))),
    host("heaviside", torch.heaviside, (torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5]))),
    host("sinc", torch.sinc, (torch.tensor([-1.5, 0.0, 0.25, 2.0]),)),
]

# --- promotion ------------------------------------------------------------------------------

#: Integers, each with what its values are taken from.
INTEGERS = (
    ("i64", ids(9, 3, 5) - 4),
    ("i32", (ids(9, 3, 5) - 4).int()),
    ("i16", (ids(9, 3, 5) - 4).short()),
    ("i8", (ids(9, 3, 5) - 4).to(torch.int8)),
    ("u8", ids(9, 3, 5).to(torch.uint8)),
    ("bool", ids(2, 3, 5).bool()),
)

I64 = INTEGERS[0][1]
BOOL = INTEGERS[5][1]

#: A float operand makes the result a float: integers are widened first.
PROMOTED = [
    *(fn(f"{name}_plus_number", lambda x: x + 1.5, (x,), "cast", "scale") for name, x in INTEGERS),
    *(fn(f"{name}_times_float", torch.mul, (x, r(3, 5)), "cast", "mul") for name, x in INTEGERS),
    *(fn(f"{name}_true_division", lambda x: x / 3, (x,), "cast", "div") for name, x in INTEGERS),
    fn("float_minus_i64", torch.sub, (r(3, 5), I64), "cast", "sub"),
    fn("i64_minus_float", torch.sub, (I64, r(3, 5)), "cast", "sub"),
    fn("i64_by_i64", torch.div, (I64, ids(4, 3, 5) + 1), "cast", "cast", "div"),
    fn("u8_by_i16", torch.div, (INTEGERS[4][1], INTEGERS[2][1] + 9)),
    fn("number_minus_i64", lambda x: 0.5 - x, (I64,), "cast", "scale"),
    fn("i64_scalar_and_float", torch.add, (r(3, 5), torch.tensor(3)), "cast", "add"),
    fn("i64_alpha_float", lambda x, y: torch.add(x, y, alpha=2), (r(3, 5), I64)),
    fn(
        "bool_by_bool", torch.div, (BOOL, torch.ones(3, 5, dtype=torch.bool)), "cast", "cast", "div"
    ),
    fn("i64_to_negative_float_power", lambda x: (x + 5.0) ** -1, (I64,)),
    fn("i64_half_power", lambda x: (x * x) ** 0.5, (BOOL.float(),)),
    *(
        fn(f"{name}_of_{kind}", getattr(torch, name), (x,))
        for name, (kind, x) in zip(
            ("exp", "tanh", "sigmoid", "sin", "cos", "exp"), INTEGERS, strict=True
        )
    ),
    fn("sqrt_of_u8", torch.sqrt, (INTEGERS[4][1],), "cast", "sqrt"),
    fn("log_of_i64", torch.log, (I64.abs() + 1,)),
    fn("rsqrt_of_i32", torch.rsqrt, (INTEGERS[1][1].abs() + 1,)),
    fn("reciprocal_of_bool", torch.reciprocal, (torch.ones(4, dtype=torch.bool),)),
    host(
        "integers_on_host",
        lambda i, n, x: (i % 1.5, i // x, n.erf(), i.abs().log1p(), i.atan2(x), i.copysign(x)),
        (I64, INTEGERS[3][1], positive(3, 5)),
    ),
]


# --- half precision -------------------------------------------------------------------------


def _halves() -> list[Case]:
    """Computed in F32 and rounded at the end; exact where the function jumps."""
    found: list[Case] = []
    for dtype, name, tolerance in HALVES:
        x, y = r(3, 5).to(dtype), NONZERO.to(dtype)
        rows = (
            ("exp", torch.exp, (x,)),
            ("log", torch.log, (y.abs(),)),
            ("sqrt", torch.sqrt, (y.abs(),)),
            ("sin", torch.sin, (x,)),
            ("tanh", torch.tanh, (x,)),
            ("sigmoid", torch.sigmoid, (x,)),
            ("rsqrt", torch.rsqrt, (y.abs(),)),
            ("reciprocal", torch.reciprocal, (y,)),
            ("neg", torch.neg, (x,)),
            ("floor", torch.floor, (x * 4,)),
            ("frac", torch.frac, (x * 4,)),
            ("square", torch.square, (x,)),
            ("add", torch.add, (x, y)),
            ("add_scalar", lambda x: x + 0.1, (x,)),
            ("add_rank_0_f32", torch.add, (x, torch.tensor(0.1))),
            ("sub_alpha", lambda x, y: torch.sub(x, y, alpha=0.3), (x, y)),
            ("mul", torch.mul, (x, y)),
            ("div", torch.div, (x, y)),
            ("div_scalar", lambda x: x / 3, (x,)),
            ("div_trunc_scalar", lambda x: torch.div(x, 0.7, rounding_mode="trunc"), (x * 9,)),
            ("plus_i64", torch.add, (x, I64)),
            ("chain", lambda x, y: (x * y + 1).tanh() / 3, (x, y)),
        )
        found += [fn(f"{n}_{name}", f, i, rtol=tolerance) for n, f, i in rows]
        # Promoted to F32, in which the result is exact.
        found += [fn(f"{name}_plus_f32", torch.add, (x, r(3, 5)), "add")]
        on_host = (
            ("functions", lambda x, y: (x.erf(), (x * 0.5).expm1(), y.abs() ** x)),
            ("round", lambda x, y: (torch.round(x * 4),)),
            ("remainders", lambda x, y: (x % y, torch.fmod(x, y), x % 0.1)),
            ("quotients", lambda x, y: (torch.div(x, y, rounding_mode="trunc"), x // 0.7)),
        )
        found += [host(f"{n}_{name}", f, (x * 9, y), rtol=tolerance) for n, f in on_host]
        found += [
            host(
                f"quotients_by_a_size_{name}",
                lambda x: (x // x.shape[0], x % x.shape[0], torch.fmod(x, x.shape[0])),
                (x * 9,),
                rtol=tolerance,
                dynamic_shapes={"args": ({0: S},)},
                others=[(x[:1],), (torch.cat([x, -x, x]) * 99,)],
            )
        ]
        # The sum is rounded before it is floored, or widened: eager's result, exactly.
        near = torch.arange(1, 200, dtype=torch.float32).to(dtype)
        up, tiny = torch.tensor(0.999).to(dtype), torch.tensor(1e-3).to(dtype)
        jumps = (
            ("floor_of_sum", lambda x, y: torch.floor(x + y), up),
            ("widened_sum", lambda x, y: (x + y).float() * 2, tiny),
        )
        found += [host(f"{n}_{name}", f, (near, y * 1), rtol=0.0) for n, f, y in jumps]
    return found


CASES = [
    *UNARY,
    *HOST_UNARY,
    *POWERS,
    *ADD_SUB,
    *MUL_DIV,
    *BROADCASTS,
    *OF_TWO,
    *PROMOTED,
    *_halves(),
]
