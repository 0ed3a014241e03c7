"""Ops that move elements, at every rank from 0 to 8: one row for a rank and a kind of op."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.lowering.cases.base import EXACT, Case, fn, ids, r

#: A shape of each rank, with a dim of size 1 among many.
SHAPES = {n: (2, 3, 1, 2, 3, 2, 1, 2)[:n] for n in range(9)}


def _order(x: Tensor) -> tuple[Tensor, ...]:
    dims = list(range(x.dim()))
    results = [x.permute(dims[::-1]), x.reshape(-1), x.unsqueeze(-1), x.squeeze()]
    if dims:
        results += [x.movedim(0, -1), x.permute(*dims[1::2], *dims[::2])]
    return tuple(results)


def _parts(x: Tensor) -> tuple[Tensor, ...]:
    return (x[1:], x[..., -1], x[:, ::2], x.select(1, 1), *x.split(2, 1), *x.unbind(0))


def _joins(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    if x.dim() == 0:
        return (torch.stack([x, y]),)
    middle = x.dim() // 2
    return (
        torch.cat([x, y], middle),
        torch.cat([x, y], -1),
        torch.stack([x, y], middle),
        x.roll(1, middle),
        x.expand(2, *x.shape),
        x.repeat(*[1 + d % 2 for d in range(x.dim())]),
    )


def _pads(x: Tensor) -> tuple[Tensor, ...]:
    pairs = [(d % 2, 1) for d in range(x.dim())]
    every = [n for pair in pairs for n in pair]
    return (
        F.pad(x, every),
        F.pad(x, every[:2], value=2.0),
        F.pad(x, [0] * len(every[2:]) + [1, 1]),
    )


def _picks(x: Tensor, index: Tensor) -> tuple[Tensor, ...]:
    middle = x.dim() // 2
    where = index.reshape(*[-1 if d == middle else 1 for d in range(x.dim())])
    shape = [2 if d == middle else n for d, n in enumerate(x.shape)]
    return (
        x.flip(*{middle, x.dim() - 1}),
        x.index_select(middle, index),
        x.gather(middle, where.expand(shape)),
        torch.cat([x, x], middle)[(slice(None),) * middle + ([0, -1],)],
    )


def _rows(n: int) -> list[Case]:
    shape = SHAPES[n]
    rows = [
        fn(f"order_rank_{n}", _order, (r(*shape),), rtol=EXACT),
        fn(f"joins_rank_{n}", _joins, (r(*shape), r(*shape) + 1), rtol=EXACT),
    ]
    if n >= 1:
        middle = shape[n // 2] if n > 1 else shape[0]
        rows.append(fn(f"picks_rank_{n}", _picks, (r(*shape), ids(middle, 2)), rtol=EXACT))
        rows.append(fn(f"pads_rank_{n}", _pads, (r(*shape),), rtol=EXACT))
    if n >= 2:
        rows.append(fn(f"parts_rank_{n}", _parts, (r(*shape),), rtol=EXACT))
    return rows


CASES = [row for n in SHAPES for row in _rows(n)]
