"""``ggml::rms_norm``: division by the root of the mean square over the last dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from executorch_ggml.custom_ops._registration import check, define, eager, fake

define("rms_norm", "(Tensor x, Tensor? weight, float eps) -> Tensor")


@eager("rms_norm")
def _eager(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """``x / sqrt(mean(x^2, -1) + eps) * weight``, the mean in float32 or wider.

    Args:
        x: ``[..., D]``, floating point.
        weight: ``[D]``, or None for no scaling.
        eps: added to the mean square.

    Returns:
        ``[..., D]`` in the dtype of ``x``.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    if weight is not None:
        wide = wide * weight.to(wide.dtype)
    return wide.to(x.dtype)


@fake("rms_norm")
def _fake(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    check(x.is_floating_point(), lambda: f"ggml::rms_norm: x is {x.dtype}, expected a float")
    if weight is not None:
        check(
            weight.dim() == 1 and weight.shape[0] == x.shape[-1],
            lambda: f"ggml::rms_norm: weight {list(weight.shape)} does not fit x {list(x.shape)}",
        )
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


#: ``rms_norm(x, weight, eps)``
rms_norm: Final[Callable[..., torch.Tensor]] = torch.ops.ggml.rms_norm.default
