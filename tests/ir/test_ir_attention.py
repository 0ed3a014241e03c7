"""Rotation, attention and the cache, against torch and against transformers' YaRN."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from ir_graphs import (
    FLOAT,
    HIDDEN,
    INT,
    decoder_layer,
    decoder_weights,
    f32,
    float_input,
    i32,
)

from executorch_ggml.ir.graph import Graph, State, StateKind
from executorch_ggml.ir.interpret import interpret
from executorch_ggml.ir.types import IRError
from executorch_ggml.ir.verify import verify_graph


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


# --- rotation --------------------------------------------------------------------------------


def rope(
    x: torch.Tensor, positions: torch.Tensor, factors: torch.Tensor | None = None, **params: Any
) -> torch.Tensor:
    """``x`` [B, S, H, D]."""
    graph = Graph()
    value = float_input(graph, *x.shape)
    where = graph.input(i32(len(positions)), INT, (len(positions),))
    extra = None if factors is None else graph.weight(f32(len(factors)), "factors")
    graph.output(graph.call("rope", value, where, extra, **params), FLOAT, x.shape)
    verify_graph(graph)
    weights = {} if factors is None else {"factors": factors}
    return interpret(graph, [x, positions.int()], weights)[0]


def test_neox_rotates_halves_as_transformers_does() -> None:
    x, positions = randn(2, 5, 3, 16), torch.tensor([0, 1, 2, 7, 100])
    inverse = 1.0 / 10000.0 ** (torch.arange(0, 16, 2).float() / 16)
    angles = torch.outer(positions.float(), inverse)
    cos, sin = (torch.cat([f, f], -1)[:, None, :] for f in (angles.cos(), angles.sin()))
    half = torch.cat([-x[..., 8:], x[..., :8]], dim=-1)
    close(rope(x, positions, n_dims=16, mode=2), x * cos + half * sin)


def test_normal_multiplies_adjacent_pairs_as_complex_numbers() -> None:
    x, positions = randn(1, 4, 2, 8), torch.tensor([3, 4, 5, 6])
    inverse = 1.0 / 500.0 ** (torch.arange(0, 8, 2).float() / 8)
    turn = torch.polar(torch.ones(4, 4), torch.outer(positions.float(), inverse))[:, None, :]
    expected = torch.view_as_real(torch.view_as_complex(x.reshape(1, 4, 2, 4, 2)) * turn)
    close(rope(x, positions, n_dims=8, mode=0, freq_base=500.0), expected.reshape(x.shape))


def test_dims_beyond_n_dims_pass_through() -> None:
    x, positions = randn(1, 4, 2, 12), torch.arange(4)
    y = rope(x, positions, n_dims=8, mode=2)
    assert torch.equal(y[..., 8:], x[..., 8:])
    close(y[..., :8], rope(x[..., :8].contiguous(), positions, n_dims=8, mode=2))


def test_frequency_factors_divide_and_scale_multiplies_the_angles() -> None:
    x, positions = randn(1, 4, 2, 8), torch.tensor([2, 4, 6, 8])
    halved = rope(x, positions, torch.full((4,), 2.0), n_dims=8, mode=0)
    close(halved, rope(x, positions // 2, n_dims=8, mode=0))
    close(rope(x, positions, n_dims=8, mode=0, freq_scale=0.5), halved)
    close(
        rope(x, positions, n_dims=8, mode=0, attn_factor=3.0),
        3 * rope(x, positions, n_dims=8, mode=0),
    )


def test_yarn_as_transformers_computes_it() -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    factor, context, dims = 4.0, 64, 32
    config = LlamaConfig(
        hidden_size=dims,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=int(context * factor),
        rope_parameters={
            "rope_type": "yarn",
            "factor": factor,
            "rope_theta": 10000.0,
            "original_max_position_embeddings": context,
        },
    )
    inverse, magnitude = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
    x, positions = randn(1, 4, 1, dims), torch.tensor([0, 5, 63, 200])
    angles = torch.outer(positions.float(), inverse)
    cos, sin = (torch.cat([f, f], -1)[:, None, :] * magnitude for f in (angles.cos(), angles.sin()))
    half = torch.cat([-x[..., dims // 2 :], x[..., : dims // 2]], dim=-1)
    y = rope(
        x,
        positions,
        n_dims=dims,
        mode=2,
        original_context=context,
        freq_scale=1 / factor,
        ext_factor=1.0,
    )
    torch.testing.assert_close(y, x * cos + half * sin, rtol=1e-4, atol=1e-4)


# --- attention without a cache ------------------------------------------------------------------


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    **params: Any,
) -> torch.Tensor:
    graph = Graph()
    given = [q, k, v] if mask is None else [q, k, v, mask]
    values = [float_input(graph, *x.shape) for x in given]
    result = graph.call("attention", *values, **params)
    graph.output(result, FLOAT, [int(d) for d in reversed(result.ne)])
    verify_graph(graph)
    return interpret(graph, given)[0]


def sdpa(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """torch's own, on [B, S, H, D]."""
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    out = F.scaled_dot_product_attention(
        *heads_first, attn_mask=mask, scale=scale, enable_gqa=q.shape[2] != k.shape[2]
    )
    return out.transpose(1, 2)


def test_attention_is_sdpa() -> None:
    q, k, v = randn(2, 5, 4, 8), randn(2, 7, 4, 8, seed=1), randn(2, 7, 4, 6, seed=2)
    close(attention(q, k, v, scale=0.3), sdpa(q, k, v, None, 0.3))


def test_grouped_heads_and_masks() -> None:
    q, k, v = randn(2, 5, 6, 8), randn(2, 7, 2, 8, seed=1), randn(2, 7, 2, 8, seed=2)
    for shape in ((1, 1, 5, 7), (2, 1, 5, 7), (1, 6, 5, 7)):
        mask = randn(*shape, seed=3)
        close(attention(q, k, v, mask, scale=0.3), sdpa(q, k, v, mask, 0.3))


def test_causal_is_aligned_to_the_last_query_and_key() -> None:
    q, k, v = randn(1, 3, 2, 8), randn(1, 7, 2, 8, seed=1), randn(1, 7, 2, 8, seed=2)
    see = torch.tensor([[t <= s + 4 for t in range(7)] for s in range(3)])
    close(attention(q, k, v, scale=0.3, causal=True), sdpa(q, k, v, see, 0.3))


# --- the cache -----------------------------------------------------------------------------------


class Cached:
    """A graph of one ``update_and_attend`` for given sizes, and its state."""

    def __init__(self, window: int = 0, capacity: int = 64, batch: int = 1, **params: Any) -> None:
        self.states: dict[str, Any] = {}
        self.state = State(
            StateKind.KV_CACHE,
            "kv",
            k_head_dim=8,
            v_head_dim=8,
            n_kv_heads=2,
            n_batch=batch,
            window=window,
            default_capacity=capacity,
            max_capacity=capacity,
        )
        self.params = {"scale": 0.35, **params}

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        positions: list[int],
        mask: torch.Tensor | None = None,
        sinks: torch.Tensor | None = None,
        sequences: list[int] | None = None,
    ) -> torch.Tensor:
        graph = Graph(states=[self.state])
        given: list[torch.Tensor] = []

        def argument(x: torch.Tensor | None) -> Any:
            if x is None:
                return None
            given.append(x)
            if x.dtype == torch.float32:
                return float_input(graph, *x.shape)
            return graph.input(i32(*reversed(x.shape)), INT, x.shape)

        ids = torch.tensor(positions, dtype=torch.int32)
        rows = None if sequences is None else torch.tensor(sequences, dtype=torch.int32)
        operands = [argument(x) for x in (q, k, v, ids, mask, sinks, rows)]
        result = graph.call("update_and_attend", *operands, state=0, **self.params)
        graph.output(result, FLOAT, q.shape)
        verify_graph(graph)
        return interpret(graph, given, states=self.states)[0]


def qkv(length: int, batch: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (
        randn(batch, length, 4, 8),
        randn(batch, length, 2, 8, seed=1),
        randn(batch, length, 2, 8, seed=2),
    )


def causal_mask(length: int, window: int = 0) -> torch.Tensor:
    s, t = torch.arange(length)[:, None], torch.arange(length)[None, :]
    return (t <= s) & ((s - t < window) if window else torch.tensor(True))


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("chunks", [[9], [4, 5], [1] * 9, [7, 1, 1]], ids=str)
def test_chunks_agree_with_one_causal_attention(window: int, chunks: list[int]) -> None:
    q, k, v = qkv(9)
    cached = Cached(window=window)
    outputs, at = [], 0
    for n in chunks:
        part = slice(at, at + n)
        outputs.append(cached(q[:, part], k[:, part], v[:, part], list(range(at, at + n))))
        at += n
    close(torch.cat(outputs, 1), sdpa(q, k, v, causal_mask(9, window), 0.35))


def test_rewritten_positions_hide_what_came_later() -> None:
    q, k, v = qkv(6)
    cached = Cached()
    cached(
        randn(1, 6, 4, 8, seed=5), randn(1, 6, 2, 8, seed=6), randn(1, 6, 2, 8, seed=7), [*range(6)]
    )
    outputs = [cached(q[:, i : i + 1], k[:, i : i + 1], v[:, i : i + 1], [i]) for i in range(6)]
    close(torch.cat(outputs, 1), sdpa(q, k, v, causal_mask(6), 0.35))


def test_positions_past_the_capacity_are_refused_and_nothing_is_lost() -> None:
    q, k, v = qkv(6)
    cached = Cached(capacity=5)
    cached(q[:, :4], k[:, :4], v[:, :4], [0, 1, 2, 3])
    with pytest.raises(IRError, match=r"positions 4\.\.5 of a cache of 5"):
        cached(q[:, 4:], k[:, 4:], v[:, 4:], [4, 5])
    y = cached(q[:, 4:5], k[:, 4:5], v[:, 4:5], [4])
    close(y, sdpa(q, k, v, causal_mask(6), 0.35)[:, 4:5])


def test_softcap_and_sinks() -> None:
    q, k, v = qkv(5)
    sinks = randn(4, seed=9)
    y = Cached(softcap=2.0)(q, k, v, [*range(5)], sinks=sinks)
    keys, values = (x.repeat_interleave(2, dim=2) for x in (k, v))
    scores = 2.0 * torch.tanh(torch.einsum("bshd,bthd->bhst", q, keys) * 0.35 / 2.0)
    scores = scores.masked_fill(~causal_mask(5), -math.inf)
    exp = scores.exp()
    weights = exp / (exp.sum(-1, keepdim=True) + sinks.exp()[None, :, None, None])
    close(y, torch.einsum("bhst,bthd->bshd", weights, values))


def test_reading_only_sees_all_and_changes_nothing() -> None:
    q, k, v = qkv(5)
    cached = Cached()
    cached(q, k, v, [*range(5)])
    cached.params |= {"update": False, "causal": False}
    other = randn(1, 2, 4, 8, seed=4)
    junk = torch.full((1, 2, 2, 8), 99.0)
    y = cached(other, junk, junk, [0, 1])
    close(y, sdpa(other, k, v, None, 0.35))


def test_an_explicit_mask_covers_positions_from_zero() -> None:
    q, k, v = qkv(5)
    mask = randn(1, 1, 5, 5, seed=3)
    y = Cached(causal=False)(q, k, v, [*range(5)], mask=mask)
    close(y, sdpa(q, k, v, mask, 0.35))


def test_sequences_pick_rows_of_the_cache() -> None:
    q, k, v = qkv(4, batch=2)
    cached = Cached(batch=3)
    first = cached(q[:, :2], k[:, :2], v[:, :2], [0, 1], sequences=[2, 0])
    second = cached(q[:, 2:], k[:, 2:], v[:, 2:], [2, 3], sequences=[2, 0])
    close(torch.cat([first, second], 1), sdpa(q, k, v, causal_mask(4), 0.35))
    with pytest.raises(IRError, match="sequence 3"):
        cached(q[:, :1], k[:, :1], v[:, :1], [4], sequences=[3, 0])


@pytest.mark.parametrize("window", [0, 4])
def test_a_decoder_layer_prefills_and_decodes_alike(window: int) -> None:
    graph, weights = decoder_layer(window).graphs[0], decoder_weights()
    x = randn(1, 8, HIDDEN)
    (whole,) = interpret(graph, [x, torch.arange(8)], weights)
    states: dict[str, Any] = {}
    steps = [
        interpret(graph, [x[:, i : i + 1], torch.tensor([i])], weights, states)[0] for i in range(8)
    ]
    close(torch.cat(steps, 1), whole)
    assert not torch.allclose(whole, x, atol=0.1)
