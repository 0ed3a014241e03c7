"""Attention."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from tests.lowering.cases.base import (
    PRODUCT,
    fn,
    r,
)


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


_QKV = (r(2, 4, 6, 8), r(2, 4, 7, 8), r(2, 4, 7, 8))
_SQUARE = (r(2, 4, 6, 8), r(2, 4, 6, 8) * 0.5, r(2, 4, 6, 8) + 1)

ATTENTION = [
    fn("sdpa", F.scaled_dot_product_attention, _QKV, rtol=PRODUCT),
    fn("sdpa_causal", _causal, _SQUARE, rtol=PRODUCT),
    fn("sdpa_float_mask", _masked, (*_QKV, r(6, 7)), rtol=PRODUCT),
    fn("sdpa_bool_mask", _masked, (*_QKV, r(2, 1, 6, 7) > -1), rtol=PRODUCT),
    fn("sdpa_grouped", _grouped, (r(2, 4, 6, 8), r(2, 2, 7, 8), r(2, 2, 7, 8)), rtol=PRODUCT),
    fn(
        "sdpa_rank_3",
        F.scaled_dot_product_attention,
        (r(4, 6, 8), r(4, 7, 8), r(4, 7, 8)),
        rtol=PRODUCT,
    ),
]


CASES = [*ATTENTION]
