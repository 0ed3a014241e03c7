"""What eager gives for NaN, infinities, denormals, and values past half precision's largest."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.lowering.cases.base import EXACT, Case, each, fn, host

#: Values at which functions go wrong first.
ODD = torch.tensor(
    [
        *(0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e-45, 65504.0, 65520.0),
        *(-1e5, 1e10, 3e38, -3e38, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 88.9, -88.9),
        *(104.0, -104.0),
    ]
)
#: Without those at which eager's hardswish overflows on its way (ggml's does not), and its
#: vector code for ``fmod``, which is right for quotients of moderate size only, gives NaN.
MODERATE = ODD[ODD.abs().nan_to_num(0, 0) < 1e38]
DIVISORS = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 0.5, -2.5, 1e5, -1e10])
#: Every size of value that activations see.
GRID = torch.linspace(-100, 100, 2001)
#: Small values, whose results must keep their digits: compared with no absolute tolerance.
SMALL = torch.cat([s * torch.logspace(-20, 0, 200) for s in (1.0, -1.0)])

_Function = Callable[[Tensor], Tensor]

_GGML: tuple[tuple[str, _Function], ...] = (
    ("abs", torch.abs),
    ("neg", torch.neg),
    ("exp", torch.exp),
    ("log", torch.log),
    ("sqrt", torch.sqrt),
    ("rsqrt", torch.rsqrt),
    ("reciprocal", torch.reciprocal),
    ("sin", torch.sin),
    ("cos", torch.cos),
    ("tan", torch.tan),
    ("tanh", torch.tanh),
    ("sigmoid", torch.sigmoid),
    ("sign", torch.sign),
    ("floor", torch.floor),
    ("ceil", torch.ceil),
    ("trunc", torch.trunc),
    ("frac", torch.frac),
    ("square", torch.square),
    ("pow_half", lambda x: x**0.5),
    ("pow_minus_2", lambda x: x**-2),
    ("relu", torch.relu),
    ("leaky_relu", F.leaky_relu),
    ("silu", F.silu),
    ("elu", F.elu),
    ("selu", F.selu),
    ("mish", F.mish),
    ("hardsigmoid", F.hardsigmoid),
    ("softsign", F.softsign),
    ("relu6", F.relu6),
    ("clamp", lambda x: x.clamp(-1e5, 70000.0)),
    ("add_scalar", lambda x: x + 65504.0),
    ("mul_scalar", lambda x: x * 1e5),
    ("div_scalar", lambda x: x / 3e-5),
    ("div_by_zero", lambda x: x / 0.0),
    ("div_of_number", lambda x: 1.0 / x),
    ("div_trunc", lambda x: torch.div(x, 0.3, rounding_mode="trunc")),
)

#: By kind, a row each: their results are many, and their calls are all host-side.
_HOST: tuple[tuple[str, tuple[_Function, ...]], ...] = (
    ("exponentials", (torch.exp2, torch.expm1, lambda x: 1.5**x)),
    ("logarithms", (torch.log2, torch.log10)),
    ("inverse_angles", (torch.asin, torch.acos, torch.atan)),
    ("hyperbolics", (torch.sinh, torch.cosh)),
    ("inverse_hyperbolics", (torch.asinh, torch.acosh, torch.atanh)),
    ("error_functions", (torch.erf, torch.erfc, torch.lgamma)),
    ("round", (torch.round, lambda x: torch.round(x, decimals=1))),
    ("softplus", (F.softplus, F.logsigmoid)),
    ("thresholds", (lambda x: F.threshold(x, 0.1, -1.0), F.hardshrink, F.softshrink)),
    ("power_fraction", (lambda x: x**2.5, lambda x: x**5)),
    ("remainders_by_zero", (lambda x: x % 0.0, lambda x: torch.fmod(x, 0.0), lambda x: x // 0.0)),
    ("nan_to_num", (torch.nan_to_num, lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0))),
)

_PAIRS: tuple[tuple[str, Callable[[Tensor, Tensor], Tensor]], ...] = (
    ("add", torch.add),
    ("sub", torch.sub),
    ("mul", torch.mul),
    ("div", torch.div),
)

_Pairs = tuple[Callable[[Tensor, Tensor], Tensor], ...]

_HOST_PAIRS: tuple[tuple[str, _Pairs], ...] = (
    ("power", (torch.pow,)),
    ("angle", (torch.atan2, torch.hypot, torch.copysign)),
    ("logarithm", (torch.xlogy, torch.logaddexp)),
)

#: Each odd value with each other one.
EACH, OTHER = (x.contiguous() for x in torch.broadcast_tensors(ODD[:, None], ODD))

SPECIAL = [
    *(fn(f"{name}_of_special", f, (ODD,), atol=0.0) for name, f in _GGML),
    *(host(f"{name}_of_special", each(*fs), (ODD,), atol=0.0) for name, fs in _HOST),
    *(fn(f"{name}_of_specials", f, (EACH, OTHER), atol=0.0) for name, f in _PAIRS),
    *(host(f"{name}_of_specials", each(*fs), (EACH, OTHER), atol=0.0) for name, fs in _HOST_PAIRS),
    fn("hardswish_of_special", F.hardswish, (MODERATE,), atol=0.0),
    # Eager loses the smallest denormal.
    host("log1p_of_special", torch.log1p, (ODD,), atol=1e-44),
    host(
        "remainders_of_special",
        each(torch.remainder, torch.fmod, lambda a, b: a // b),
        tuple(x.contiguous() for x in torch.broadcast_tensors(MODERATE[:, None], DIVISORS)),
        atol=0.0,
    ),
    host(
        "remainders_of_specials_by_number",
        lambda x: (x % 0.3, torch.fmod(x, 0.3), x // 0.3),
        (MODERATE,),
        atol=0.0,
    ),
]

#: Over the whole range of activations. GELU loses its digits below -3 in eager too.
RANGE = [
    fn("tanh_range", torch.tanh, (GRID,), atol=0.0),
    fn("sigmoid_range", torch.sigmoid, (GRID[120:],), atol=0.0),
    fn("silu_range", F.silu, (GRID[140:],), atol=0.0),
    fn("exp_range", torch.exp, (GRID,), atol=1e-38),
    fn("elu_range", F.elu, (GRID,), atol=0.0),
    fn("mish_range", F.mish, (GRID,)),
    fn("gelu_erf_range", F.gelu, (GRID,)),
    fn("gelu_tanh_range", lambda x: F.gelu(x, approximate="tanh"), (GRID,)),
    fn("hardswish_range", F.hardswish, (GRID,), atol=0.0),
    fn("tan_range", torch.tan, (GRID,), atol=0.0),
    host("softplus_range", each(F.softplus, F.logsigmoid), (GRID,), atol=1e-37),
]

KEEPS_DIGITS = [
    *(
        fn(f"{name}_of_small", f, (SMALL,), atol=0.0)
        for name, f in (
            ("sin", torch.sin),
            ("tan", torch.tan),
            ("tanh", torch.tanh),
            ("elu", F.elu),
            ("silu", F.silu),
            ("mish", F.mish),
            ("gelu_erf", F.gelu),
            ("softsign", F.softsign),
        )
    ),
    host(
        "host_functions_of_small",
        each(
            torch.expm1,
            lambda x: torch.log1p(x * 0.5),
            torch.sinh,
            torch.asinh,
            lambda x: torch.atanh(x * 0.5),
            torch.erf,
        ),
        (SMALL,),
        atol=0.0,
    ),
]

#: The sign of a zero, seen through a quotient.
ZEROS = [
    fn("sign_of_zero_neg", lambda x: 1 / -x, (ODD[:2],), rtol=EXACT),
    fn("sign_of_zero_abs", lambda x: 1 / x.abs(), (ODD[:2],), rtol=EXACT),
    fn("sign_of_zero_sqrt", lambda x: 1 / x.sqrt(), (ODD[:2],), rtol=EXACT),
    fn(
        "sign_of_zero_trunc",
        lambda x: 1 / torch.trunc(x / 4),
        (torch.tensor([-2.0, 2.0]),),
        rtol=EXACT,
    ),
    fn("sign_of_zero_ceil", lambda x: 1 / torch.ceil(x), (torch.tensor([-0.5, 0.0]),), rtol=EXACT),
    fn("sign_of_zero_product", lambda x: 1 / (x * 0.5), (ODD[:2],), rtol=EXACT),
    host(
        "sign_of_zero_round", lambda x: 1 / torch.round(x), (torch.tensor([-0.4, 0.4]),), rtol=EXACT
    ),
]

#: Intermediate values past F16's range in an F32 graph.
WIDE = [
    fn("sum_past_65504", lambda x: (x * 1e5 + 7e4) / 1e3, (torch.tensor([1.0, -2.0, 65504.0]),)),
    fn("silu_past_65504", lambda x: F.silu(x) * 1e-3, (torch.tensor([65520.0, 1e6, 1e30]),)),
    fn("gelu_past_65504", lambda x: F.gelu(x), (torch.tensor([65520.0, 1e6, -1e6]),)),
    fn("glu_past_65504", F.glu, (torch.tensor([[1e6, 2e6, 1.0, -1.0]]),)),
    fn("exp_past_65504", lambda x: torch.exp(x) / torch.exp(x - 1), (torch.tensor([20.0, 60.0]),)),
]

CASES: list[Case] = [*SPECIAL, *RANGE, *KEEPS_DIGITS, *ZEROS, *WIDE]
