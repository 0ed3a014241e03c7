"""Attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.lowering.cases.base import (
    BF16,
    F16,
    PRODUCT,
    Case,
    fn,
    host,
    r,
    seeded,
)

_L = Dim("l", min=1, max=32)
_S = Dim("s", min=1, max=64)
_B = Dim("b", min=1, max=8)


def _with(**arguments: Any) -> Callable[..., Tensor]:
    """Attention with these arguments; a fourth operand is the mask."""

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **arguments)

    return attend


_sdpa = _with()
_causal = _with(is_causal=True)
_grouped = _with(enable_gqa=True)


def _qkv(queries: int, keys: int, *lead: int) -> tuple[Tensor, Tensor, Tensor]:
    return r(*lead, queries, 8), r(*lead, keys, 8) * 0.5, r(*lead, keys, 8) + 1


_QKV = _qkv(6, 7, 2, 4)
_HEADS = ("permute", "permute", "permute", "attention", "permute", "cont")
_BOOL_MASK = ("cast", "log")

PLAIN = [
    fn("sdpa", _sdpa, _QKV, *_HEADS, rtol=PRODUCT),
    fn("sdpa_rank_2", _sdpa, _qkv(6, 7), rtol=PRODUCT),
    fn("sdpa_rank_3", _sdpa, _qkv(6, 7, 4), rtol=PRODUCT),
    fn("sdpa_rank_5", _sdpa, _qkv(6, 7, 2, 3, 2), rtol=PRODUCT),
    fn("sdpa_one_query", _sdpa, _qkv(1, 7, 2, 4), rtol=PRODUCT),
    fn("sdpa_one_key", _sdpa, _qkv(6, 1, 2, 4), rtol=PRODUCT),
    fn("sdpa_value_size", _sdpa, (r(2, 4, 6, 8), r(2, 4, 7, 8), r(2, 4, 7, 5)), rtol=PRODUCT),
    fn("sdpa_one_batch_of_keys", _sdpa, (r(2, 4, 6, 8), r(1, 4, 7, 8), r(1, 4, 7, 8))),
    fn("sdpa_one_head_of_keys", _sdpa, (r(2, 4, 6, 8), r(2, 1, 7, 8), r(2, 1, 7, 8))),
    fn("sdpa_one_head_of_queries", _sdpa, (r(2, 1, 6, 8), r(2, 4, 7, 8), r(2, 4, 7, 8))),
    fn("sdpa_keys_without_batch", _sdpa, (r(2, 4, 6, 8), r(4, 7, 8), r(4, 7, 8)), rtol=PRODUCT),
    fn("sdpa_scale", _with(scale=0.3), _QKV, *_HEADS, rtol=PRODUCT),
    fn("sdpa_scale_0", _with(scale=0.0), _QKV, *_HEADS, rtol=PRODUCT),
    fn("sdpa_scale_negative", _with(scale=-0.7), _QKV, *_HEADS, rtol=PRODUCT),
    fn("sdpa_grouped", _grouped, (r(2, 4, 6, 8), r(2, 2, 7, 8), r(2, 2, 7, 8)), rtol=PRODUCT),
    fn(
        "sdpa_expanded_keys",
        lambda q, k, v: _sdpa(
            q, *(x[:, :, None].expand(2, 2, 2, 7, 8).flatten(1, 2) for x in (k, v))
        ),
        (r(2, 4, 6, 8), r(2, 2, 7, 8), r(2, 2, 7, 8)),
        rtol=PRODUCT,
    ),
    fn(
        "sdpa_large_scores",
        _sdpa,
        (r(2, 4, 6, 8) * 1e3, r(2, 4, 7, 8) * 1e3, r(2, 4, 7, 8) * 1e5),
        atol=10,
    ),
    fn("sdpa_nan_key", _sdpa, (_QKV[0], (_QKV[1] + 1).sqrt(), _QKV[2]), *_HEADS, rtol=PRODUCT),
    fn("sdpa_infinite_value", _sdpa, (*_QKV[:2], _QKV[2].reciprocal().floor() / 0.0), rtol=PRODUCT),
    fn(
        "sdpa_between_transposes",
        lambda q, k, v: _sdpa(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2).flatten(2),
        (r(2, 6, 4, 8), r(2, 7, 4, 8), r(2, 7, 4, 8)),
        "attention",
        "reshape",
        rtol=PRODUCT,
    ),
    fn("sdpa_half", _sdpa, tuple(x.half() for x in _QKV), rtol=F16),
    fn("sdpa_bfloat16", _causal, tuple(x.bfloat16() for x in _qkv(6, 6, 2, 4)), rtol=BF16),
    fn(
        "sdpa_dynamic",
        _sdpa,
        _QKV,
        *_HEADS,
        rtol=PRODUCT,
        dynamic_shapes={"args": ({2: _L}, {2: _S}, {2: _S})},
        others=[_qkv(1, 1, 2, 4), _qkv(32, 64, 2, 4)],
    ),
]

CAUSAL = [
    fn("sdpa_causal", _causal, _qkv(6, 6, 2, 4), *_HEADS, rtol=PRODUCT),
    # The first query sees the first key, whatever the number of keys.
    fn("sdpa_causal_more_keys", _causal, _qkv(6, 9, 2, 4), *_HEADS, rtol=PRODUCT),
    fn("sdpa_causal_more_queries", _causal, _qkv(9, 6, 2, 4), *_HEADS, rtol=PRODUCT),
    fn("sdpa_causal_one_query", _causal, _qkv(1, 5, 2, 4), rtol=PRODUCT),
    fn("sdpa_causal_rank_3", _causal, _qkv(6, 6, 3), rtol=PRODUCT),
    fn(
        "sdpa_causal_grouped",
        _with(enable_gqa=True, is_causal=True),
        (r(2, 6, 5, 8), r(2, 2, 5, 8), r(2, 2, 5, 8)),
        rtol=PRODUCT,
    ),
    fn(
        "sdpa_causal_dynamic",
        _causal,
        _qkv(6, 6, 2, 4),
        *_HEADS,
        rtol=PRODUCT,
        dynamic_shapes={"args": ({2: _L}, {2: _L}, {2: _L})},
        others=[_qkv(1, 1, 2, 4), _qkv(32, 32, 2, 4)],
    ),
    host(
        "sdpa_causal_two_dynamic_lengths",
        _causal,
        _QKV,
        rtol=PRODUCT,
        dynamic_shapes={"args": ({2: _L}, {2: _S}, {2: _S})},
        others=[_qkv(9, 3, 2, 4), _qkv(3, 9, 2, 4), _qkv(1, 1, 2, 4)],
    ),
]

_BLIND_ROW = torch.ones(6, 7, dtype=torch.bool)
_BLIND_ROW[1, :3] = False
_BLIND_ROW[2] = False

BOOLEAN = [
    *(
        fn(
            f"sdpa_bool_mask_{'x'.join(map(str, shape))}",
            _sdpa,
            (*_QKV, r(*shape) > -0.5),
            rtol=PRODUCT,
        )
        for shape in (
            (6, 7),
            (1, 7),
            (6, 1),
            (1, 1),
            (4, 6, 7),
            (2, 1, 6, 7),
            (2, 1, 1, 7),
            (1, 4, 6, 7),
            (2, 4, 1, 1),
        )
    ),
    fn("sdpa_bool_mask_blind_row", _sdpa, (*_QKV, _BLIND_ROW), *_BOOL_MASK, *_HEADS, rtol=PRODUCT),
    fn("sdpa_bool_mask_nothing_seen", _sdpa, (*_QKV, torch.zeros(6, 7, dtype=torch.bool))),
    fn("sdpa_bool_mask_rank_2", _sdpa, (*_qkv(6, 7), _BLIND_ROW), rtol=PRODUCT),
    fn("sdpa_bool_mask_rank_3", _sdpa, (*_qkv(6, 7, 2), r(2, 6, 7) > -0.5), rtol=PRODUCT),
    fn(
        "sdpa_bool_mask_rank_5",
        _sdpa,
        (*_qkv(6, 7, 2, 3, 2), r(1, 3, 1, 6, 7) > -0.5),
        rtol=PRODUCT,
    ),
    fn(
        "sdpa_bool_mask_grouped",
        _grouped,
        (r(2, 4, 6, 8), r(2, 2, 7, 8), r(2, 2, 7, 8), _BLIND_ROW),
        rtol=PRODUCT,
    ),
    fn(
        "sdpa_bool_mask_dynamic",
        _sdpa,
        (*_QKV, _BLIND_ROW[None, None]),
        *_BOOL_MASK,
        *_HEADS,
        rtol=PRODUCT,
        dynamic_shapes={"args": ({0: _B, 2: _L}, {0: _B, 2: _S}, {0: _B, 2: _S}, {2: _L, 3: _S})},
        others=[(*_qkv(1, 1, 1, 4), torch.zeros(1, 1, 1, 1, dtype=torch.bool))],
    ),
]

_LOWEST = torch.finfo(torch.float32).min
_HIDING = torch.zeros(6, 7).masked_fill(~_BLIND_ROW, -math.inf)
#: Rows of the lowest number are seen evenly; beside it -inf is still hidden.
_LOW = r(2, 1, 6, 7)
_LOW[0, 0, 2] = _LOWEST
_LOW[0, 0, 3, :3] = _LOWEST
_LOW[1, 0, 4] = -math.inf
_LOW[1, 0, 4, 2] = _LOWEST

FLOAT = [
    fn("sdpa_float_mask", _sdpa, (*_QKV, r(6, 7)), rtol=PRODUCT),
    fn("sdpa_float_mask_batch", _sdpa, (*_QKV, r(2, 1, 1, 7)), rtol=PRODUCT),
    fn("sdpa_float_mask_heads", _sdpa, (*_QKV, r(1, 4, 6, 7)), rtol=PRODUCT),
    fn("sdpa_float_mask_column", _sdpa, (*_QKV, r(6, 1)), rtol=PRODUCT),
    fn("sdpa_float_mask_blind_row", _sdpa, (*_QKV, _HIDING), rtol=PRODUCT),
    fn("sdpa_float_mask_lowest", _sdpa, (*_QKV, _LOW), rtol=PRODUCT),
    fn("sdpa_float_mask_rank_2", _sdpa, (*_qkv(6, 7), _HIDING), rtol=PRODUCT),
    fn("sdpa_float_mask_rank_3", _sdpa, (*_qkv(6, 7, 2), _LOW[:, 0].contiguous()), rtol=PRODUCT),
    fn("sdpa_float_mask_rank_5", _sdpa, (*_qkv(6, 7, 2, 3, 2), r(2, 1, 1, 6, 7)), rtol=PRODUCT),
    fn(
        "sdpa_float_mask_half",
        _sdpa,
        tuple(x.half() for x in (*_QKV, _HIDING)),
        rtol=F16,
    ),
    fn(
        "sdpa_float_mask_dynamic",
        _sdpa,
        (*_qkv(6, 7, 3), r(3, 6, 7)),
        rtol=PRODUCT,
        dynamic_shapes={
            "args": ({0: _B, 1: _L}, {0: _B, 1: _S}, {0: _B, 1: _S}, {0: _B, 1: _L, 2: _S})
        },
        others=[(*_qkv(1, 1, 1), r(1, 1, 1))],
    ),
]


def _by_hand(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~mask, _LOWEST).softmax(-1) @ v


#: Forms that others write, or that torch takes attention apart to.
DECOMPOSED = [
    host("attention_by_hand", _by_hand, (*_QKV, r(6, 7) > -0.5), rtol=PRODUCT),
    host("attention_by_hand_blind_row", _by_hand, (*_QKV, _BLIND_ROW), rtol=PRODUCT),
    host(
        "attention_math",
        lambda q, k, v: torch.ops.aten._scaled_dot_product_attention_math(q, k, v)[0],
        _QKV,
        rtol=PRODUCT,
    ),
    host(
        "attention_math_blind_row",
        lambda *a: torch.ops.aten._scaled_dot_product_attention_math(*a)[0],
        (*_QKV, _BLIND_ROW),
        rtol=PRODUCT,
    ),
    host(
        "safe_softmax_of_attention",
        lambda x: torch.ops.aten._safe_softmax(x, -1),
        (_HIDING,),
    ),
]


class _SelfAttention(nn.Module):
    """``nn.MultiheadAttention`` as modules call it."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.arguments = {
            name: arguments.pop(name) for name in ("need_weights",) if name in arguments
        }
        self.attention = seeded(lambda: nn.MultiheadAttention(16, 4, **arguments))
        for p in self.attention.parameters():
            nn.init.normal_(p, std=0.3)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Any:
        found, weights = self.attention(x, x, x, attn_mask=attn_mask, **self.arguments)
        return found if weights is None else (found, weights)


def _layer(make: Callable[[], nn.Module]) -> nn.Module:
    """A layer in inference, its zero biases replaced."""
    layer = seeded(make).eval()
    for p in layer.parameters():
        nn.init.normal_(p, std=0.2)
    return layer


MODULES = [
    Case("multihead_attention", _SelfAttention(need_weights=False), (r(5, 2, 16),), (), PRODUCT),
    Case("multihead_attention_weights", _SelfAttention(), (r(5, 2, 16),), (), PRODUCT),
    Case(
        "multihead_attention_batch_first",
        _SelfAttention(batch_first=True, need_weights=False),
        (r(2, 5, 16),),
        (),
        PRODUCT,
    ),
    Case(
        "multihead_attention_no_bias",
        _SelfAttention(bias=False, need_weights=False),
        (r(5, 2, 16),),
        (),
        PRODUCT,
    ),
    Case(
        "transformer_encoder_layer",
        _layer(lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)),
        (r(2, 5, 16),),
        (),
        PRODUCT,
    ),
    Case(
        "transformer_encoder_layer_norm_first",
        _layer(lambda: nn.TransformerEncoderLayer(16, 4, 32, norm_first=True, activation="gelu")),
        (r(5, 2, 16),),
        (),
        PRODUCT,
    ),
    Case(
        "transformer_decoder_layer",
        _layer(lambda: nn.TransformerDecoderLayer(16, 4, 32, batch_first=True)),
        (r(2, 5, 16), r(2, 7, 16)),
        (),
        PRODUCT,
    ),
]

CASES = [*PLAIN, *CAUSAL, *BOOLEAN, *FLOAT, *DECOMPOSED, *MODULES]
