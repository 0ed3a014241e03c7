"""Matrix products."""

from __future__ import annotations

import torch
from torch import nn

from tests.lowering.cases.base import (
    PRODUCT,
    Case,
    fn,
    r,
    seeded,
)

PRODUCTS = [
    Case("linear", seeded(lambda: nn.Linear(8, 6)), (r(3, 8),), ("mul_mat", "add"), PRODUCT),
    Case("linear_rank_1", seeded(lambda: nn.Linear(8, 6)), (r(8),), ("mul_mat", "add"), PRODUCT),
    Case(
        "linear_rank_4",
        seeded(lambda: nn.Linear(10, 3)),
        (r(1, 2, 3, 10),),
        ("mul_mat", "add"),
        PRODUCT,
    ),
    Case(
        "linear_no_bias",
        seeded(lambda: nn.Linear(8, 6, bias=False)),
        (r(3, 8),),
        ("mul_mat",),
        PRODUCT,
    ),
    fn("mm", torch.mm, (r(3, 8), r(8, 5)), "permute", "cont", "mul_mat", rtol=PRODUCT),
    fn("mm_transposed", lambda a, b: a @ b.t(), (r(3, 8), r(5, 8)), "mul_mat", rtol=PRODUCT),
    fn("bmm", torch.bmm, (r(4, 3, 8), r(4, 8, 5)), "permute", "cont", "mul_mat", rtol=PRODUCT),
    fn("matmul_batch", torch.matmul, (r(2, 3, 4, 8), r(2, 3, 8, 5)), rtol=PRODUCT),
    fn("matmul_broadcast_w", torch.matmul, (r(2, 3, 4, 8), r(8, 5)), rtol=PRODUCT),
    fn("matmul_broadcast_x", torch.matmul, (r(4, 8), r(3, 8, 5)), rtol=PRODUCT),
    fn("matmul_vector", torch.matmul, (r(4, 8), r(8)), "mul_mat", "reshape", rtol=PRODUCT),
    fn("addmm", torch.addmm, (r(5), r(3, 8), r(8, 5)), rtol=PRODUCT),
    fn(
        "addmm_scaled",
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0),
        (r(5), r(3, 8), r(8, 5)),
        rtol=PRODUCT,
    ),
]


CASES = [*PRODUCTS]
