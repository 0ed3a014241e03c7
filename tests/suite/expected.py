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


#: The suite's own mistakes: eager PyTorch refuses these inputs.
_INVALID = {
    "a padding of more than half the kernel": (
        "test_avgpool1d_padding 1",
        "test_avgpool2d_padding 1",
        "test_maxpool1d_padding 1",
        "test_maxpool2d_padding 1",
    ),
    "an input whose size is not the layer's": (
        "test_linear_batch_sizes 0",
        "test_linear_dtype[float32] 0",
        "test_linear_leading_batch 0",
        "test_linear_no_bias 0",
        "test_linear_no_bias_dtype[float32] 0",
    ),
}

#: 467 tests, of which the suite skips 33 whatever the backend, and 9 are invalid: 425 can pass.
EXPECTED = {
    "ggml": Expected(
        passed=420,
        delegated_share=0.90,
        undelegated={
            "64-bit floats stay with ExecuTorch": (
                "test_mean_output_dtype 1",
                "test_mean_output_dtype 2",
            ),
        },
        skipped=_INVALID,
    ),
    "ggml_xnnpack": Expected(passed=420, delegated_share=0.90, skipped=_INVALID),
}
