"""A llama-like decoder as ggml computes it: one operator per ``ggml_*`` call where possible.

Parameters are named as in ``transformers``, so its checkpoints load and the
``gguf`` package knows their tensor names. Keys and values live outside the
graph, behind ExecuTorch's ``kvcache::update_and_attend``.
"""

from __future__ import annotations

import torch
from executorch.extension.llm.cache import update_and_attend as _registers_the_op  # noqa: F401
from torch import nn

from executorch_ggml.custom_ops import rms_norm, rope, swiglu
from executorch_ggml.gguf.config import DecoderConfig, RopeConfig

_update_and_attend = torch.ops.kvcache.update_and_attend.default


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.weight, self.eps)


class FeedForward(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        d, ffn, biases = config.hidden_size, config.intermediate_size, config.biases
        self.gate_proj = nn.Linear(d, ffn, bias="ffn_gate" in biases)
        self.up_proj = nn.Linear(d, ffn, bias="ffn_up" in biases)
        self.down_proj = nn.Linear(ffn, d, bias="ffn_down" in biases)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))
        return out


class Attention(nn.Module):
    """Grouped-query attention over a cache of the runtime."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.n_heads, self.n_kv_heads = config.n_heads, config.n_kv_heads
        self.head_dim = config.head_dim
        self.rope = config.rope
        d, biases = config.hidden_size, config.biases
        q, kv = config.n_heads * self.head_dim, config.n_kv_heads * self.head_dim
        self.q_proj = nn.Linear(d, q, bias="attn_q" in biases)
        self.k_proj = nn.Linear(d, kv, bias="attn_k" in biases)
        self.v_proj = nn.Linear(d, kv, bias="attn_v" in biases)
        self.o_proj = nn.Linear(q, d, bias="attn_output" in biases)
        self.q_norm = RMSNorm(self.head_dim, config.rms_eps) if config.qk_norm else nn.Identity()
        self.k_norm = RMSNorm(self.head_dim, config.rms_eps) if config.qk_norm else nn.Identity()

    def forward(
        self, x: torch.Tensor, positions: torch.Tensor, freq_factors: torch.Tensor | None
    ) -> torch.Tensor:
        """``[1, S, d]`` to ``[1, S, H * D]``: the heads' outputs, before ``o_proj``."""
        n_tokens, d = x.shape[1], self.head_dim
        q = self.q_norm(self.q_proj(x).view(1, n_tokens, self.n_heads, d)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(1, n_tokens, self.n_kv_heads, d)).transpose(1, 2)
        v = self.v_proj(x).view(1, n_tokens, self.n_kv_heads, d).transpose(1, 2)
        q = _rotate(q, positions, freq_factors, self.rope)
        k = _rotate(k, positions, freq_factors, self.rope)
        out = _update_and_attend(q, k, v, positions[:, None], self.layer, d**-0.5, q.dtype)
        heads: torch.Tensor = out.transpose(1, 2).reshape(1, n_tokens, self.n_heads * d)
        return heads


def _rotate(
    x: torch.Tensor, positions: torch.Tensor, freq_factors: torch.Tensor | None, r: RopeConfig
) -> torch.Tensor:
    return rope(
        x,
        positions,
        freq_factors,
        r.n_dims,
        r.mode,
        r.freq_base,
        r.freq_scale,
        r.ext_factor,
        r.attn_factor,
        r.beta_fast,
        r.beta_slow,
        r.original_context,
    )


class Layer(nn.Module):
    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_eps)
        self.mlp = FeedForward(config)

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        freq_factors: torch.Tensor | None,
        last_row_only: bool,
    ) -> torch.Tensor:
        """``[1, S, d]`` to ``[1, S, d]``, or to its last row ``[1, 1, d]``."""
        attended = self.self_attn(self.input_layernorm(x), positions, freq_factors)
        if last_row_only:
            attended, x = attended[:, -1:], x[:, -1:]
        x = x + self.self_attn.o_proj(attended)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Body(nn.Module):
    """Embedding, layers and final norm; named ``model`` in the whole."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.n_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_eps)
        factors = config.rope.has_freq_factors
        self.rope_freqs = nn.Parameter(torch.empty(config.rope.n_dims // 2)) if factors else None

    def forward(
        self, input_ids: torch.Tensor, cache_pos: torch.Tensor, last_row_only: bool
    ) -> torch.Tensor:
        x = self.embed_tokens(input_ids)
        for i, layer in enumerate(self.layers):
            # Rows that nothing reads any more end with the last layer's attention.
            last = last_row_only and i + 1 == len(self.layers)
            x = layer(x, cache_pos, self.rope_freqs, last)
        out: torch.Tensor = self.norm(x)
        return out


class Decoder(nn.Module):
    """Logits of the last token, or with ``all_rows`` of every token."""

    def __init__(self, config: DecoderConfig, all_rows: bool = False) -> None:
        super().__init__()
        self.all_rows = all_rows
        self.model = Body(config)
        self.lm_head = nn.Linear(
            config.hidden_size, config.vocab_size, bias="output" in config.biases
        )

    def forward(self, input_ids: torch.Tensor, cache_pos: torch.Tensor) -> torch.Tensor:
        """One step over S tokens.

        Args:
            input_ids: ``[1, S]`` int64.
            cache_pos: ``[S]`` int64, the tokens' positions.

        Returns:
            ``[1, 1, vocab]``, or ``[1, S, vocab]`` with ``all_rows``.
        """
        logits: torch.Tensor = self.lm_head(self.model(input_ids, cache_pos, not self.all_rows))
        return logits
