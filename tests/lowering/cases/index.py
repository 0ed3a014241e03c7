"""Rows by index."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.lowering.cases.base import (
    Case,
    fn,
    ids,
    r,
)


class _Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(11, 6)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)


ROWS = [
    Case("embedding", _Embedding(), (ids(11, 7),), ("get_rows",)),
    Case("embedding_rank_2", _Embedding(), (ids(11, 2, 3),), ("reshape", "get_rows", "reshape")),
    Case("embedding_int32", _Embedding(), (ids(11, 7).int(),), ("get_rows",)),
    fn(
        "index_select",
        lambda x, i: x.index_select(0, i) + 1,
        (r(5, 4), ids(5, 3)),
        "get_rows",
        "scale",
    ),
    fn("int_to_float", lambda i: i.float() * 2, (ids(11, 7),), "cast", "scale"),
]


CASES = [*ROWS]
