"""Models of many families: lowered, run in C++, equal to eager, and delegated whole."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from tests.export.model_families import FAMILIES, Family
from tests.harness import lower, run_runtime


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_family(family: Family) -> None:
    module = family.make()
    lowered = lower(module, family.inputs)
    (report,) = lowered.partitioner.reports
    assert Counter(rejection.op for rejection in report.rejections) == dict(family.left), str(
        report
    )
    assert family.left or report.n_partitions == 1, str(report)
    with torch.no_grad():
        expected = module(*family.inputs)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for actual, value in zip(run_runtime(lowered, family.inputs), wanted, strict=True):
        assert value.std() > 1e-3, "the comparison says nothing"
        scale = float(value.abs().max())
        torch.testing.assert_close(actual, value, rtol=1e-4, atol=1e-4 * scale)
