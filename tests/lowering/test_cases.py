"""Every row of the op table: lowered whole, its IR and the C++ runtime equal to eager."""

from __future__ import annotations

import pytest
import torch

from tests import corpus
from tests.harness import lower, run_reference, run_runtime
from tests.lowering.cases import CASES, Case


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_most_rows_need_no_kernel_of_our_own() -> None:
    """A host-side op holds a graph on the CPU: they are for what ggml cannot do."""
    host = sum(case.host for case in CASES)
    assert host <= len(CASES) // 4


#: The everyday loop takes a sample of every family.
_SAMPLE = 6

_ROWS = [
    pytest.param(case, id=case.name, marks=[pytest.mark.slow] if index % _SAMPLE else [])
    for index, case in enumerate(CASES)
]


@pytest.mark.parametrize("case", _ROWS)
def test_equals_eager(case: Case) -> None:
    lowered = lower(case.module, case.inputs, case.dynamic_shapes)
    (report,) = lowered.partitioner.reports
    assert report.is_whole, str(report)
    atol = case.rtol if case.atol is None else case.atol
    if case.ops:
        assert tuple(lowered.ops) == case.ops
    host = {call.op.name for graph in lowered.graphs for call in graph.calls if call.op.is_host}
    assert bool(host) == case.host, f"host-side ops: {sorted(host) or 'none'}"
    calls = []
    for inputs in (case.inputs, *case.others):
        expected = case.module(*inputs)
        outputs = expected if isinstance(expected, (tuple, list)) else (expected,)
        calls.append((inputs, outputs))
        for run in (run_reference, run_runtime):
            for actual, wanted in zip(run(lowered, inputs), outputs, strict=True):
                torch.testing.assert_close(
                    actual, wanted, rtol=case.rtol, atol=atol, equal_nan=True
                )
    if (target := corpus.folder()) is not None:
        corpus.write(target, case.name, lowered.buffer(), calls, case.rtol, atol)
