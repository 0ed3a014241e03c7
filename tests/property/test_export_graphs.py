"""Random modules, exported and lowered: the C++ runtime equals eager.

A failure prints the module in a form that makes a row of ``tests/lowering/cases``.
"""

from __future__ import annotations

import os

import torch
from hypothesis import HealthCheck, assume, event, given, settings

from tests.harness import lower, run_runtime
from tests.property.export_graphs import Drawn, modules

#: As for the IR graphs: a few calls with a slope up to 10.
TOLERANCE = 1e-3

EXAMPLES = int(os.environ.get("EXECUTORCH_GGML_EXPORT_GRAPHS", "40"))


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="EXECUTORCH_GGML_SEED" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(modules())
def test_random_modules_equal_eager(drawn: Drawn) -> None:
    assume(drawn.module.steps)
    lowered = lower(drawn.module, drawn.inputs)
    (report,) = lowered.partitioner.reports
    event("whole" if report.is_whole else "in part")
    for rejection in report.rejections:
        event(f"left: {rejection.op}: {rejection.reason}")
    for step in drawn.module.steps:
        event(step.name)
    expected = drawn.module(*drawn.inputs)
    actual = run_runtime(lowered, [x.contiguous() for x in drawn.inputs])
    for found, wanted, exact in zip(actual, expected, drawn.exact, strict=True):
        tolerance = 0.0 if exact else TOLERANCE
        largest = float(wanted.abs().max()) if wanted.is_floating_point() else 1.0
        torch.testing.assert_close(
            found,
            wanted,
            rtol=tolerance,
            atol=tolerance * max(1.0, largest),
            equal_nan=True,
            check_stride=False,
        )
