"""Random modules, exported and lowered: the C++ runtime equals eager.

A failure prints the module in a form that makes a row of ``tests/lowering/cases``.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, event, given
from torch.export import Dim, export

from tests.harness import lower, run_runtime
from tests.property.checks import assert_same, examples
from tests.property.export_graphs import Drawn, modules

#: The bounds of a dynamic size.
_LOW, _HIGH = 1, 9


@examples("EXECUTORCH_GGML_EXPORT_GRAPHS", 40)
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
        expected = _eager(drawn, inputs)
        if expected is None:
            event("a size that eager refuses")
            continue
        actual = run_runtime(lowered, [x.contiguous() for x in inputs])
        for found, wanted, exact in zip(actual, expected, drawn.exact, strict=True):
            assert_same(found, wanted, exact)
    if shapes is not None and report.is_whole:
        with pytest.raises(RuntimeError):
            run_runtime(lowered, drawn.resized(_HIGH + 1))


def _eager(drawn: Drawn, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
    """None where the module takes more rows than there are, which export does not notice."""
    try:
        return drawn.module(*inputs)  # type: ignore[no-any-return]
    except (RuntimeError, IndexError):
        assert inputs is not drawn.inputs
        return None
