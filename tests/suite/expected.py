"""What is expected of each flow in ExecuTorch's suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: A reason, and the subtests that it holds for.
Named = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Expected:
    """No test may fail, at least ``passed`` pass, ``delegated_share`` of the subtests is ours.

    ``undelegated`` and ``skipped`` name every other subtest with the reason, exactly; None
    asks nothing. Tests that the suite skips itself are not listed.
    """

    passed: int
    delegated_share: float
    undelegated: Named | None = None
    skipped: Named | None = None


EXPECTED = {
    "ggml": Expected(passed=420, delegated_share=0.90, undelegated={}, skipped={}),
    "ggml_xnnpack": Expected(passed=420, delegated_share=0.90),
}
