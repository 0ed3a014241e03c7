"""Norms, softmax and reductions."""

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

NORMS = [
    Case(
        "layer_norm",
        seeded(lambda: nn.LayerNorm(8)),
        (r(2, 3, 8),),
        ("norm", "mul", "add"),
        PRODUCT,
    ),
    Case(
        "layer_norm_two_dims",
        seeded(lambda: nn.LayerNorm((3, 8))),
        (r(2, 3, 8),),
        ("reshape", "norm", "reshape", "mul", "add"),
        PRODUCT,
    ),
    Case(
        "rms_norm",
        seeded(lambda: nn.RMSNorm(8, eps=1e-5)),
        (r(2, 3, 8),),
        ("rms_norm", "mul"),
        PRODUCT,
    ),
    fn("softmax", lambda x: x.softmax(-1), (r(2, 3, 8),), "soft_max"),
    fn(
        "softmax_dim_0",
        lambda x: x.softmax(0),
        (r(4, 3),),
        "permute",
        "cont",
        "soft_max",
        "permute",
        "cont",
    ),
    fn("mean_last", lambda x: x.mean(-1), (r(2, 3, 8),), "mean_rows", "reshape", rtol=PRODUCT),
    fn(
        "mean_keepdim", lambda x: x.mean(-1, keepdim=True), (r(2, 3, 8),), "mean_rows", rtol=PRODUCT
    ),
    fn("mean_two_dims", lambda x: x.mean((2, 3)), (r(2, 3, 4, 5),), rtol=PRODUCT),
    fn("mean_first_dim", lambda x: x.mean(0), (r(4, 3),), rtol=PRODUCT),
    fn("mean_all", torch.mean, (r(4, 3),), rtol=PRODUCT),
    fn("sum_last", lambda x: x.sum(-1), (r(2, 3, 8),), "sum_rows", "reshape", rtol=PRODUCT),
    fn("sum_middle", lambda x: x.sum(1), (r(2, 3, 8),), rtol=PRODUCT),
]


CASES = [*NORMS]
