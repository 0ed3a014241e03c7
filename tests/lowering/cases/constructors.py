"""Tensors made of nothing, and sizes as numbers."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from tests.lowering.cases.base import EXACT, S, fn, host, ids, r, sizes

made = partial(fn, rtol=EXACT)
counted = partial(host, rtol=EXACT)

ROWS = sizes({0: S})
MORE = [(r(1, 3),), (r(16, 3),), (r(4, 3),)]


def _mask(*shape: int) -> Tensor:
    return r(*shape) > 0


RANGES = [
    made("arange", lambda x: x + torch.arange(3), (r(2, 3),)),
    made("arange_start_step", lambda x: torch.arange(2, 11, 3) * 1.0 + x, (r(3),)),
    made("arange_backwards", lambda x: x + torch.arange(4, 1, -1).float(), (r(3),)),
    made("arange_floats", lambda x: x + torch.arange(0.5, 2.0, 0.5), (r(3),)),
    made("arange_tenths", lambda x: x + torch.arange(0, 1, 0.1), (r(10),)),
    made("arange_half", lambda x: x + torch.arange(0, 3, dtype=torch.float16), (r(3).half(),)),
    made(
        "arange_int32",
        lambda x: torch.cat([x, torch.arange(3, dtype=torch.int32)]),
        (ids(9, 2).int(),),
    ),
    made("arange_as_output", lambda x: (x * 2, torch.arange(4)), (r(3),)),
    counted(
        "arange_dynamic",
        lambda x: torch.arange(x.shape[0])[:, None] + x,
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    counted(
        "arange_dynamic_int",
        lambda x: torch.arange(x.shape[0]),
        (r(4, 3),),
        "host_iota",
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    counted(
        "arange_from_a_size",
        lambda x: torch.arange(x.shape[0], x.shape[0] + 5),
        (r(4, 3),),
        "host_iota",
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    counted(
        "arange_dynamic_backwards",
        lambda x: torch.arange(x.shape[0] - 1, -1, -1),
        (r(4, 3),),
        "host_iota",
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    host(
        "arange_dynamic_floats",
        lambda x: torch.arange(x.shape[0]) * 0.25 + x[:, 0],
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    counted(
        "positions",
        lambda x: torch.arange(x.shape[0]).unsqueeze(0).expand(2, -1),
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    made("linspace", lambda x: x + torch.linspace(-1, 2, 7), (r(7),)),
    made("linspace_of_one", lambda x: x + torch.linspace(-1, 2, 1), (r(2),)),
    made("logspace", lambda x: x + torch.logspace(0, 2, 5), (r(5),)),
    made(
        "grid_of_coordinates",
        lambda x: (
            torch.stack(torch.meshgrid(torch.arange(3), torch.arange(2), indexing="ij"), -1).float()
            + x
        ),
        (r(3, 2, 2),),
    ),
]

FILLED = [
    made("full", lambda x: torch.cat([x, torch.full((1, 3), 2.5)]), (r(2, 3),)),
    made("full_of_int", lambda x: torch.cat([x, torch.full((1, 3), -7)]), (ids(9, 2, 3),)),
    made("full_of_bool", lambda x: torch.cat([x, torch.full((1, 3), True)]), (_mask(2, 3),)),
    made("full_rank_0", lambda x: x + torch.full((), 2.5), (r(2, 3),)),
    made("full_rank_6", lambda x: torch.full((1, 2, 1, 2, 3, 2), 0.5) - x, (r(3, 2),)),
    made("full_inf", lambda x: torch.full((2, 3), float("-inf")) + x, (r(2, 3),)),
    made("full_like", lambda x: torch.full_like(x, 1.5) + x, (r(2, 3),)),
    made("full_like_of_int", lambda x: torch.full_like(x, 3), (ids(9, 2, 3),), "repeat"),
    made(
        "full_like_as_float",
        lambda x: torch.full_like(x, 0.5, dtype=torch.float32),
        (ids(9, 2, 3),),
        "repeat",
    ),
    made("full_like_half", lambda x: torch.full_like(x, 0.1), (r(2, 3).half(),), "repeat"),
    made(
        "full_like_dynamic",
        lambda x: torch.full_like(x, 1.5) - x,
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    made(
        "full_dynamic",
        lambda x: torch.full((x.shape[0], 2), 7),
        (r(4, 3),),
        "repeat",
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    made("zeros", lambda x: (torch.zeros(2, 3), x * 2), (r(2, 3),)),
    made("zeros_alone", lambda x: torch.zeros(2, 3), (r(2, 3),), "repeat"),
    made("zeros_like", lambda x: torch.stack([x, torch.zeros_like(x)]), (r(2, 3),)),
    made(
        "zeros_of_rows",
        lambda x: torch.cat([x.new_zeros(x.shape[0], 2), x], 1),
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    made("ones", lambda x: torch.cat([x, torch.ones(2, 1)], 1), (r(2, 3),)),
    made("ones_like_of_bool", lambda x: torch.ones_like(x), (_mask(2, 3),), "repeat"),
    made("new_full", lambda x: torch.cat([x, x.new_full((1, 3), 4)]), (r(2, 3),)),
    made("new_ones", lambda x: torch.cat([x, x.new_ones(1, 3)]), (ids(9, 2, 3),)),
    made("new_tensor", lambda x: x + x.new_tensor([1, 2, 3]), (r(2, 3),)),
    made("empty_then_filled", lambda x: x + torch.empty(3).fill_(2), (r(2, 3),)),
    made("empty_like_then_zeroed", lambda x: x + torch.empty_like(x).zero_(), (r(2, 3),)),
    made("new_empty_then_copied", lambda x: x.new_empty(2, 3).copy_(x), (r(3),)),
    made("fill", lambda x: torch.fill(x, 2.5), (r(2, 3),), "repeat"),
    made("fill_by_tensor", lambda x, y: torch.fill(x, y), (r(2, 3), r()), "repeat"),
    made("scalar_tensor", lambda x: torch.scalar_tensor(2.5) * x, (r(2, 3),)),
    made("tensor_of_numbers", lambda x: torch.tensor([[1.0], [2.0]]) * x, (r(2, 3),)),
    made("eye", lambda x: torch.eye(3) + x, (r(3, 3),), "add"),
    made("eye_of_rectangle", lambda x: torch.eye(2, 3) + x, (r(2, 3),), "add"),
    made("tril_indices", lambda x: torch.tril_indices(3, 3).float() + x, (r(6),)),
    counted(
        "eye_dynamic",
        lambda x: torch.eye(x.shape[0]) + x[:, :1],
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
]

SIZES = [
    counted(
        "size_as_a_tensor",
        lambda x: torch.full((), x.shape[0]),
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    counted(
        "size_as_a_float",
        lambda x: torch.full((2,), x.shape[0] * 3 - 1, dtype=torch.float32),
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    counted(
        "size_scalar_tensor",
        lambda x: torch.scalar_tensor(x.shape[0] // 2, dtype=torch.int64),
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
    counted(
        "lengths",
        lambda x: x.new_full((3,), x.shape[0], dtype=torch.int64),
        (r(4, 3),),
        dynamic_shapes=ROWS,
        others=MORE,
    ),
]

CASES = [*RANGES, *FILLED, *SIZES]
