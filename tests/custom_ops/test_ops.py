"""The ``ggml::*`` operators: registration, references, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRMSNorm, apply_rotary_pos_emb

from executorch_ggml.custom_ops import rms_norm, rope, swiglu

_PLAIN: tuple[Any, ...] = (1e4, 1.0, 0.0, 1.0, 32.0, 1.0, 4096)
_POSITIONS = torch.tensor([0, 1, 7, 100, 2000])


def _x(heads: int = 3, head_dim: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, heads, len(_POSITIONS), head_dim, generator=generator)


def _interleave(x: torch.Tensor) -> torch.Tensor:
    """Reorder heads from rotated halves to adjacent pairs."""
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        (torch.ops.ggml.rope.default, (_x(), _POSITIONS, None, 16, "neox", *_PLAIN)),
        (torch.ops.ggml.rope.default, (_x(), _POSITIONS, torch.ones(8), 12, "normal", *_PLAIN)),
        (torch.ops.ggml.rms_norm.default, (_x(), torch.ones(16), 1e-6)),
        (torch.ops.ggml.rms_norm.default, (_x().half(), None, 1e-6)),
        (torch.ops.ggml.swiglu.default, (_x(), _x())),
    ],
)
def test_registration_is_sound(op: Any, arguments: tuple[Any, ...]) -> None:
    torch.library.opcheck(op, arguments)


@pytest.mark.parametrize("theta", [1e4, 1e6])
def test_rope_rotates_complex_numbers(theta: float) -> None:
    """Pair i is a complex number turned by position * theta^(-2i/n)."""
    x = _x().double()
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    frequency = theta ** (-2.0 * torch.arange(8, dtype=torch.float64) / 16)
    turned = pairs * torch.polar(torch.ones(5, 8).double(), _POSITIONS[:, None] * frequency)
    expected = torch.view_as_real(turned).flatten(-2).float()
    normal = rope(x.float(), _POSITIONS, None, 16, "normal", theta, *_PLAIN[1:])
    torch.testing.assert_close(normal, expected, rtol=1e-5, atol=1e-5)


def test_normal_and_neox_are_one_rotation_in_two_orders() -> None:
    neox = rope(_x(), _POSITIONS, None, 16, "neox", *_PLAIN)
    normal = rope(_interleave(_x()), _POSITIONS, None, 16, "normal", *_PLAIN)
    torch.testing.assert_close(normal, _interleave(neox), rtol=0, atol=1e-6)


def test_rope_leaves_the_rest_of_a_head_alone() -> None:
    x = _x(head_dim=24)
    out = rope(x, _POSITIONS, None, 16, "neox", *_PLAIN)
    torch.testing.assert_close(out[..., 16:], x[..., 16:], rtol=0, atol=0)
    torch.testing.assert_close(
        out[..., :16], rope(x[..., :16], _POSITIONS, None, 16, "neox", *_PLAIN), rtol=0, atol=0
    )


@pytest.mark.parametrize("factor", [1.0, 4.0, 16.0])
@pytest.mark.parametrize("original", [64, 4096])
def test_yarn_equals_transformers(factor: float, original: int) -> None:
    head_dim, base = 64, 1e4
    config = transformers.LlamaConfig(
        hidden_size=head_dim,
        num_attention_heads=1,
        max_position_embeddings=int(original * factor),
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": base,
            "factor": factor,
            "original_max_position_embeddings": original,
        },
    )
    inv_freq, magnitude = ROPE_INIT_FUNCTIONS["yarn"](config)
    angle = torch.cat([_POSITIONS[:, None].double() * inv_freq.double()] * 2, dim=-1)
    cos, sin = (angle.cos() * magnitude).float()[None], (angle.sin() * magnitude).float()[None]
    x = _x(head_dim=head_dim)
    expected, _ = apply_rotary_pos_emb(x, x, cos, sin)
    out = rope(
        x, _POSITIONS, None, head_dim, "neox", base, 1 / factor, 1.0, 1.0, 32.0, 1.0, original
    )
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=2e-4)


def test_freq_factors_divide_and_freq_scale_multiplies() -> None:
    """One factor for all pairs is linear scaling by its inverse."""
    by_factor = rope(_x(), _POSITIONS, torch.full((8,), 4.0), 16, "neox", *_PLAIN)
    by_scale = rope(_x(), _POSITIONS, None, 16, "neox", 1e4, 0.25, *_PLAIN[2:])
    torch.testing.assert_close(by_factor, by_scale, rtol=0, atol=1e-6)
    plain = rope(_x(), _POSITIONS, None, 16, "neox", *_PLAIN)
    assert (by_scale - plain).abs().max() > 0.1


def test_rms_norm_equals_transformers() -> None:
    norm = LlamaRMSNorm(16, eps=1e-5)
    torch.nn.init.uniform_(norm.weight)
    torch.testing.assert_close(rms_norm(_x(), norm.weight, 1e-5), norm(_x()), rtol=1e-6, atol=1e-6)
    ones = torch.ones(16)
    torch.testing.assert_close(rms_norm(_x(), None, 1e-5), rms_norm(_x(), ones, 1e-5))


def test_swiglu_is_silu_of_the_gate() -> None:
    gate, up = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 5.0])
    expected = [3.0 / (1 + math.exp(-1.0)), -10.0 / (1 + math.exp(2.0))]
    torch.testing.assert_close(swiglu(gate, up), torch.tensor(expected))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: rope(x, _POSITIONS[:3], None, 16, "neox", *_PLAIN), "3 positions for 5 tokens"),
        (lambda x: rope(x, _POSITIONS, None, 15, "neox", *_PLAIN), "must be even"),
        (lambda x: rope(x, _POSITIONS, None, 16, "gptj", *_PLAIN), "mode 'gptj'"),
        (lambda x: rms_norm(x, torch.ones(8, device="meta"), 1e-6), "does not fit"),
        (lambda x: swiglu(x, x[..., :8]), "differ"),
    ],
)
def test_tracing_refuses_what_does_not_fit(call: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(_x().to("meta"))
