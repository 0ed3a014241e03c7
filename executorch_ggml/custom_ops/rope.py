"""``ggml::rope``: rotary position embedding with ggml's parameters.

The frequency of pair ``i`` is ``freq_base^(-2i/n_dims)``, divided by
``freq_factors[i]`` where given. Linear scaling multiplies the angle by
``freq_scale``; YaRN (``ext_factor`` != 0) mixes the scaled and the unscaled
angle by a ramp over the pairs and enlarges the result, as in Peng et al.,
"YaRN: Efficient Context Window Extension of Large Language Models" (2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch

from executorch_ggml.custom_ops._registration import check, define, eager, fake

MODES: Final = ("neox", "normal")

define(
    "rope",
    "(Tensor x, Tensor positions, Tensor? freq_factors, int n_dims, str mode, float freq_base,"
    " float freq_scale, float ext_factor, float attn_factor, float beta_fast, float beta_slow,"
    " int original_context) -> Tensor",
)


def _yarn_pair(rotations: float, n_dims: int, freq_base: float, original_context: int) -> float:
    """The pair index whose wave makes ``rotations`` turns over the original context."""
    turns = original_context / (rotations * 2 * math.pi)
    return n_dims * math.log(turns) / (2 * math.log(freq_base))


def _cos_sin(
    positions: torch.Tensor,
    freq_factors: torch.Tensor | None,
    n_dims: int,
    freq_base: float,
    freq_scale: float,
    ext_factor: float,
    attn_factor: float,
    beta_fast: float,
    beta_slow: float,
    original_context: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, ``[S, n_dims / 2]`` float32 each.

    Angles are float64: a float32 angle of a late position is off by 1e-3.
    """
    pair = torch.arange(n_dims // 2, dtype=torch.float64, device=positions.device)
    frequency = freq_base ** (-2.0 * pair / n_dims)
    if freq_factors is not None:
        frequency = frequency / freq_factors[: n_dims // 2].double()
    unscaled = positions.double()[:, None] * frequency
    angle = unscaled * freq_scale
    magnitude = attn_factor
    if ext_factor != 0.0:
        low = math.floor(_yarn_pair(beta_fast, n_dims, freq_base, original_context))
        high = math.ceil(_yarn_pair(beta_slow, n_dims, freq_base, original_context))
        low, high = max(low, 0), min(high, n_dims - 1)
        ramp = ((pair - low) / max(high - low, 0.001)).clamp(0.0, 1.0)
        mix = (1.0 - ramp) * ext_factor
        angle = angle * (1.0 - mix) + unscaled * mix
        magnitude *= 1.0 + 0.1 * math.log(1.0 / freq_scale)
    return (angle.cos() * magnitude).float(), (angle.sin() * magnitude).float()


@eager("rope")
def _eager(
    x: torch.Tensor,
    positions: torch.Tensor,
    freq_factors: torch.Tensor | None,
    n_dims: int,
    mode: str,
    freq_base: float,
    freq_scale: float,
    ext_factor: float,
    attn_factor: float,
    beta_fast: float,
    beta_slow: float,
    original_context: int,
) -> torch.Tensor:
    """Rotate the pairs of the first ``n_dims`` elements of each head.

    Args:
        x: ``[B, H, S, D]``, floating point.
        positions: ``[S]`` integers, the same for every batch row and head.
        freq_factors: ``[n_dims / 2]`` or longer; each divides its pair's frequency.
        n_dims: how many of the D elements are rotated; even.
        mode: ``"neox"`` pairs element i with i + n_dims/2, ``"normal"`` 2i with 2i + 1.
        freq_base: base of the frequencies.
        freq_scale: factor of the angle (1 / the scaling factor).
        ext_factor: weight of YaRN's mix, 0 for none.
        attn_factor: factor of the result.
        beta_fast: YaRN: turns over the original context above which nothing is scaled.
        beta_slow: YaRN: turns below which all is scaled.
        original_context: YaRN: positions the model was first trained on.

    Returns:
        ``[B, H, S, D]`` in the dtype of ``x``.
    """
    cos, sin = _cos_sin(
        positions,
        freq_factors,
        n_dims,
        freq_base,
        freq_scale,
        ext_factor,
        attn_factor,
        beta_fast,
        beta_slow,
        original_context,
    )
    rotated, rest = x[..., :n_dims].float(), x[..., n_dims:]
    if mode == "neox":
        a, b = rotated.chunk(2, dim=-1)
        out = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    elif mode == "normal":
        a, b = rotated[..., 0::2], rotated[..., 1::2]
        out = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    else:
        raise ValueError(f"ggml::rope: mode '{mode}', expected one of {MODES}")
    return torch.cat((out.to(x.dtype), rest), dim=-1).contiguous()


@fake("rope")
def _fake(
    x: torch.Tensor,
    positions: torch.Tensor,
    freq_factors: torch.Tensor | None,
    n_dims: int,
    mode: str,
    freq_base: float,
    freq_scale: float,
    ext_factor: float,
    attn_factor: float,
    beta_fast: float,
    beta_slow: float,
    original_context: int,
) -> torch.Tensor:
    check(x.dim() == 4, lambda: f"ggml::rope: x {list(x.shape)}, expected [B, H, S, D]")
    check(
        positions.dim() == 1 and not positions.is_floating_point(),
        lambda: (
            f"ggml::rope: positions {positions.dtype}{list(positions.shape)}, expected ints [S]"
        ),
    )
    check(
        positions.shape[0] == x.shape[2],
        lambda: f"ggml::rope: {positions.shape[0]} positions for {x.shape[2]} tokens",
    )
    check(mode in MODES, lambda: f"ggml::rope: mode '{mode}', expected one of {MODES}")
    check(
        n_dims % 2 == 0 and 0 < n_dims <= x.shape[3],
        lambda: f"ggml::rope: n_dims {n_dims} must be even and at most {x.shape[3]}",
    )
    if freq_factors is not None:
        check(
            freq_factors.dim() == 1 and freq_factors.shape[0] >= n_dims // 2,
            lambda: (
                f"ggml::rope: freq_factors {list(freq_factors.shape)}, expected [{n_dims // 2}]"
            ),
        )
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


#: ``rope(x, positions, freq_factors, n_dims, mode, freq_base, freq_scale, ext_factor,
#: attn_factor, beta_fast, beta_slow, original_context)``
rope: Final[Callable[..., torch.Tensor]] = torch.ops.ggml.rope.default
