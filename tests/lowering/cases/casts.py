"""Conversions between dtypes: fractions dropped, narrow integers wrapped, truth of any value."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tests.lowering.cases.base import EXACT, Case, S, each, fn, host, host_over, ids, r, together

_INTEGERS = {
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
_FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

#: Fractions of both signs, and values that narrow types do not hold.
FRACTIONS = torch.tensor([-300.7, -129.5, -1.5, -0.9, -0.0, 0.5, 0.999, 1.5, 200.9, 60000.9])
WHOLE = torch.tensor([-70001, -300, -129, -1, 0, 1, 2, 127, 128, 255, 256, 40000])
#: What no integer holds; int64 is left out, where it is an error of the call.
BEYOND = torch.tensor([3e9, -3e9, 1e20, math.inf, -math.inf, math.nan])


def _to(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda x: x.to(dtype)


def _casts() -> list[Case]:
    found: list[Case] = []
    narrow = [dtype for dtype in _INTEGERS.values() if dtype != torch.int64]
    to_all = each(*map(_to, _INTEGERS.values()))
    floats = [(FRACTIONS.to(dtype),) for dtype in _FLOATS.values()]
    found.append(host_over("cast_floats_to_integers", to_all, floats, rtol=EXACT))
    found.append(host("cast_beyond_integers", each(*map(_to, narrow)), (BEYOND,), rtol=EXACT))
    for source, of in _INTEGERS.items():
        others = [dtype for dtype in _INTEGERS.values() if dtype != of]
        if of != torch.bool:  # which any integer type holds
            to_others = each(*map(_to, others))
            found.append(host(f"cast_{source}_to_integers", to_others, (WHOLE.to(of),), rtol=EXACT))
        for target, dtype in _FLOATS.items():
            x = (ids(9, 3, 5) - 4).to(of)
            found.append(fn(f"cast_{source}_to_{target}", _to(dtype), (x,), "cast", rtol=EXACT))
    # What needs no conversion is no call at all.
    for source, target in (
        *(("bool", to) for to in ("u8", "i8", "i16", "i32", "i64")),
        *(("u8", to) for to in ("i16", "i32", "i64")),
        *(("i8", to) for to in ("i16", "i32", "i64")),
        *(("i16", to) for to in ("i32", "i64")),
        ("i32", "i64"),
        ("i64", "i32"),
    ):
        x = (ids(9, 3, 5) - 4).to(_INTEGERS[source])
        found.append(fn(f"cast_{source}_to_{target}", _to(_INTEGERS[target]), (x,), rtol=EXACT))
    for source, of in _FLOATS.items():
        for target, dtype in _FLOATS.items():
            if source != target:
                x = (r(3, 5) * 1e3).to(of)
                found.append(fn(f"cast_{source}_to_{target}", _to(dtype), (x,), rtol=EXACT))
    return found


ROUNDING = [
    # A value that was narrowed is told from one that was not where it is widened again.
    *(
        host(
            f"through_{name}",
            lambda x, dtype=dtype: x.to(dtype).float() + 1,
            (x,),
            "host_round",
            "scale",
            rtol=EXACT,
        )
        for name, dtype, x in (
            ("f16", torch.float16, torch.tensor([0.1, 1e-8, 65504.0, 65520.0, 1e6, -1e-6])),
            ("bf16", torch.bfloat16, torch.tensor([0.1, 1e-40, 3.4e38, -1e-39, 257.0])),
        )
    ),
    together(
        "integers_of_rounded",
        host("i64", lambda x: (x + 0.5).long(), (torch.arange(2040, 2060).half(),), rtol=EXACT),
        host("bool", lambda x: (x * 1e-30).bool(), (r(9).bfloat16() * 1e-12,), rtol=EXACT),
    ),
    together(
        "i64_through_narrower",
        host(
            "f16",
            lambda x: x.half().long(),
            (torch.tensor([2049, 2051, 4099, -2049]),),
            rtol=EXACT,
        ),
        host("bool", lambda x: x.bool().long() + 1, (WHOLE,), rtol=EXACT),
        host("u8", lambda x: x.to(torch.uint8).float(), (WHOLE,), rtol=EXACT),
    ),
    fn(
        "i32_max_to_f32",
        _to(torch.float32),
        (torch.tensor([2**31 - 1, 2**24 + 1, -(2**31)]),),
        "cast",
        rtol=EXACT,
    ),
    fn(
        "cast_special_to_bf16",
        _to(torch.bfloat16),
        (torch.tensor([math.nan, math.inf, -math.inf, 3.4e38, 1e-40]),),
        rtol=EXACT,
    ),
    fn(
        "cast_special_to_f16",
        _to(torch.float16),
        (torch.tensor([math.nan, math.inf, 65519.0, 65520.0, 1e-8]),),
        rtol=EXACT,
    ),
]

FORMS = [
    fn("converted_number", lambda x: x + torch.tensor(1.7).long(), (r(3, 5),), rtol=EXACT),
    fn("rounded_number", lambda x: x * torch.tensor(0.1).half().float(), (r(3, 5),), rtol=EXACT),
    together(
        "cast_of_computed",
        host("scaled", lambda x: (x * 3).int(), (r(3, 5),), "scale", "host_convert", rtol=EXACT),
        host(
            "transposed",
            lambda x: x.t().int(),
            (r(3, 5) * 9,),
            "permute",
            "host_convert",
            rtol=EXACT,
        ),
    ),
    fn("type_as", lambda x, y: x.type_as(y) * 2, (ids(9, 3, 5), r(2)), "cast", "scale"),
    fn("to_other", lambda x, y: x.to(y) + y, (ids(9, 3, 5), r(3, 5)), "cast", "add"),
    fn("cast_rank_6", _to(torch.float32), (ids(9, 2, 1, 3, 1, 2, 2),), "cast", rtol=EXACT),
    fn("cast_rank_0", lambda x: x.float() * 2, (torch.tensor(7),), "cast", "scale"),
    host(
        "cast_dynamic",
        lambda x: (x * 9).long(),
        (r(4, 5),),
        "scale",
        "host_convert",
        rtol=EXACT,
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 5),), (r(16, 5),)],
    ),
]

CASES = [*_casts(), *ROUNDING, *FORMS]
