"""Padding: every mode, any value, negative amounts, every dtype."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.lowering.cases.base import EXACT, S, fn, host, ids, r, sizes

move = partial(fn, rtol=EXACT)

MORE = [(r(1, 3),), (r(16, 3),), (r(4, 3),)]

N = torch.export.Dim("n", min=4, max=16)


def _mask(*shape: int) -> Tensor:
    return r(*shape) > 0


def _pad(*amounts: int, mode: str = "constant", value: float | None = None) -> object:
    def run(x: Tensor) -> Tensor:
        return F.pad(x, amounts, mode=mode, value=value)

    return run


CONSTANT = [
    fn("pad", lambda x: F.pad(x, (1, 2, 0, 1)) + 1, (r(3, 5),), "pad", "scale"),
    move("pad_last_of_rank_3", _pad(2, 0), (r(2, 3, 4),), "pad"),
    move("pad_four_dims", _pad(1, 0, 0, 1, 2, 0, 0, 2), (r(1, 2, 2, 3),), "pad"),
    move("pad_rank_5_outer", _pad(0, 0, 0, 0, 0, 0, 1, 0, 0, 2), (r(2, 1, 2, 3, 2),)),
    move("pad_rank_6_inner", _pad(1, 1, 0, 2), (r(1, 2, 1, 2, 2, 3),)),
    move("pad_a_vector", _pad(1, 3), (r(4),), "pad"),
    move("pad_of_transposed", lambda x: F.pad(x.t(), (1, 0)), (r(3, 2),), "permute", "cont", "pad"),
    move("pad_value", _pad(1, 2, value=3.5), (r(2, 3),)),
    move("pad_value_two_dims", _pad(1, 0, 2, 1, value=-1.0), (r(2, 3, 2),)),
    move("pad_minus_inf", _pad(1, 1, value=float("-inf")), (r(2, 3),)),
    move("pad_nan", _pad(0, 1, value=float("nan")), (r(2, 3),), "repeat", "concat"),
    move("pad_negative", _pad(-1, -2), (r(2, 6),), "view", "cont"),
    move("pad_cut_and_fill", _pad(-1, 2, value=1.5), (r(2, 4),)),
    move("pad_cut_and_zero", _pad(2, -1, -1, 1), (r(3, 4),), "view", "pad"),
    move("pad_nothing", _pad(0, 0), (r(2, 3),)),
    move("pad_of_int64", _pad(1, 2, value=7), (ids(9, 2, 3),)),
    move("pad_of_ints_with_zero", _pad(0, 1), (ids(9, 2, 3),), "repeat", "concat"),
    move("pad_of_bool", _pad(1, 1, value=True), (_mask(2, 3),)),
    move("pad_of_half", _pad(1, 1, value=0.1), (r(2, 3).half(),)),
    move(
        "pad_dynamic",
        _pad(1, 2, value=0.5),
        (r(4, 3),),
        dynamic_shapes=sizes({0: S}),
        others=[(r(1, 3),), (r(16, 3),), (r(4, 3),)],
    ),
    move(
        "pad_dynamic_dim",
        _pad(1, 2),
        (r(3, 4),),
        "pad",
        dynamic_shapes=sizes({1: S}),
        others=[(r(3, 1),), (r(3, 16),), (r(3, 4),)],
    ),
    move(
        "pad_dynamic_negative",
        _pad(-1, 0),
        (r(3, 4),),
        dynamic_shapes=sizes({1: N}),
        others=[(r(3, 16),)],
    ),
    *(
        host(name, function, (r(4, 3),), rtol=EXACT, dynamic_shapes=sizes({0: S}), others=MORE)
        for name, function in (
            ("pad_by_a_size", lambda x: F.pad(x, (0, 0, x.shape[0], 1), value=2.0)),
            ("pad_to_a_length", lambda x: F.pad(x, (0, 0, 0, 16 - x.shape[0]))),
            ("pad_to_a_multiple", lambda x: F.pad(x, (0, 0, 0, -x.shape[0] % 4))),
            ("pad_or_cut_to_a_length", lambda x: F.pad(x, (0, 0, 0, 8 - x.shape[0]))),
        )
    ),
    fn(
        "causal_conv_padding",
        lambda x, w: F.conv1d(F.pad(x, (2, 0)), w),
        (r(1, 2, 5), r(3, 2, 3)),
        rtol=1e-4,
    ),
]

MODES = (
    [
        move(f"pad_{mode}_{dims}d", _pad(*amounts, mode=mode), (x,))
        for mode in ("reflect", "replicate", "circular")
        for dims, amounts, x in (
            (1, (2, 1), r(2, 3, 4)),
            (2, (1, 2, 0, 1), r(1, 2, 3, 4)),
            (3, (1, 0, 1, 1, 0, 1), r(1, 2, 2, 3, 2)),
        )
    ]
    + [
        move(f"pad_{mode}_unbatched", _pad(1, 1, mode=mode), (r(2, 4),))
        for mode in ("reflect", "replicate", "circular")
    ]
    + [
        move("pad_replicate_of_one", _pad(3, 2, mode="replicate"), (r(1, 2, 1),)),
        move("pad_replicate_cut", _pad(-1, 2, mode="replicate"), (r(1, 2, 4),)),
        move("pad_reflect_half", _pad(1, 1, mode="reflect"), (r(1, 2, 4).half(),)),
        move("pad_circular_whole_turn", _pad(3, 3, mode="circular"), (r(1, 2, 3),)),
        *(
            move(
                f"pad_{mode}_dynamic",
                _pad(3, 2, mode=mode),
                (r(1, 2, 6),),
                dynamic_shapes=sizes({2: N}),
                others=[(r(1, 2, 4),), (r(1, 2, 16),), (r(1, 2, 6),)],
            )
            for mode in ("reflect", "replicate", "circular")
        ),
        move(
            "pad_reflect_beside_dynamic",
            _pad(1, 1, mode="reflect"),
            (r(4, 2, 3),),
            dynamic_shapes=sizes({0: S}),
            others=[(r(1, 2, 3),), (r(16, 2, 3),)],
        ),
        fn(
            "conv_reflect",
            torch.nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect").eval(),
            (r(1, 2, 4, 5),),
            rtol=1e-4,
        ),
    ]
)

CASES = [*CONSTANT, *MODES]
