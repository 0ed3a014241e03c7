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
    lowered = lower(module, family.inputs, family.dynamic_shapes)
    (report,) = lowered.partitioner.reports
    assert Counter(rejection.op for rejection in report.rejections) == dict(family.left), str(
        report
    )
    assert family.left or report.n_partitions == 1, str(report)
    for inputs in (family.inputs, *family.others):
        with torch.no_grad():
            expected = module(*inputs)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        for actual, value in zip(run_runtime(lowered, inputs), wanted, strict=True):
            assert value.float().std() > 1e-3, "the comparison says nothing"
            atol = family.rtol * float(value.abs().max())
            torch.testing.assert_close(actual, value, rtol=family.rtol, atol=atol)
