"""How many random graphs are drawn, and when two results are equal."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from hypothesis import HealthCheck, settings

#: Errors grow through a few calls of slope up to 10; what is exact must be equal.
_TOLERANCE = 1e-3


def examples(variable: str, default: int) -> settings:
    """As many examples as an environment variable says, always the same ones without a seed."""
    return settings(
        max_examples=int(os.environ.get(variable, default)),
        deadline=None,
        database=None,
        derandomize="EXECUTORCH_GGML_SEED" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )


def assert_same(
    found: torch.Tensor,
    wanted: torch.Tensor,
    exact: bool,
    message: Callable[[str], str] | None = None,
) -> None:
    """Equal to the bit, or up to a fraction of the largest element; NaN equals NaN.

    ``message`` extends what the error says.
    """
    tolerance = 0.0 if exact else _TOLERANCE
    largest = float(wanted.to(torch.float64).abs().max())
    torch.testing.assert_close(
        found,
        wanted,
        rtol=tolerance,
        atol=tolerance * max(1.0, largest),
        equal_nan=True,
        check_stride=False,
        msg=message,
    )
