"""Random modules, exported and lowered: the C++ runtime equals eager.

A failure prints the module in a form that makes a row of ``tests/lowering/cases``.
"""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import HealthCheck, assume, event, given, settings
from torch.export import Dim, export

from tests.harness import lower, run_runtime
from tests.property.export_graphs import Drawn, modules

#: As for the IR graphs: a few calls with a slope up to 10.
TOLERANCE = 1e-3

EXAMPLES = int(os.environ.get("EXECUTORCH_GGML_EXPORT_GRAPHS", "40"))


#: The bounds of a dynamic size.
_LOW, _HIGH = 1, 9


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
    shapes = None
    calls = [drawn.inputs]
    if drawn.dynamic:
        dim = Dim("n", min=_LOW, max=_HIGH)
        sizes = range(len(drawn.inputs))
        shapes = {"inputs": tuple({0: dim} if i in drawn.dynamic else None for i in sizes)}
        try:
            export(drawn.module, drawn.inputs, dynamic_shapes=shapes)
        except Exception:  # this module fixes the size: torch says so in many ways
            shapes = None
        else:
            event("dynamic")
            calls += [drawn.resized(n) for n in (_LOW, _HIGH, 4)]
    lowered = lower(drawn.module, drawn.inputs, shapes)
    (report,) = lowered.partitioner.reports
    event("whole" if report.is_whole else "in part")
    for rejection in report.rejections:
        event(f"left: {rejection.op}: {rejection.reason}")
    for step in drawn.module.steps:
        event(step.name)
    for inputs in calls:
        _compare(drawn, run_runtime(lowered, [x.contiguous() for x in inputs]), inputs)
    if shapes is not None and report.is_whole:
        with pytest.raises(RuntimeError):
            run_runtime(lowered, drawn.resized(_HIGH + 1))


def _compare(drawn: Drawn, actual: list[torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> None:
    expected = drawn.module(*inputs)
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
