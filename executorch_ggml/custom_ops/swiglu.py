"""``ggml::swiglu``: the gated unit ``silu(gate) * up`` of a feed-forward block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from executorch_ggml.custom_ops._registration import check, define, eager, fake

define("swiglu", "(Tensor gate, Tensor up) -> Tensor")


@eager("swiglu")
def _eager(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """``silu(gate) * up``; both of one shape and dtype, which is the result's too."""
    return torch.nn.functional.silu(gate) * up


@fake("swiglu")
def _fake(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    def difference() -> str:
        return (
            f"ggml::swiglu: gate {gate.dtype}{list(gate.shape)} and up "
            f"{up.dtype}{list(up.shape)} differ"
        )

    check(gate.dtype == up.dtype, difference)
    check(gate.dim() == up.dim(), difference)
    for a, b in zip(gate.shape, up.shape, strict=True):
        check(a == b, difference)
    return torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)


#: ``swiglu(gate, up)``
swiglu: Final[Callable[..., torch.Tensor]] = torch.ops.ggml.swiglu.default
