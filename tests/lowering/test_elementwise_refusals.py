"""What element-wise lowerings leave to ExecuTorch, and the reason they give."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.harness import lower
from tests.lowering.cases.base import Fn, ids, r

HALF = r(3, 5).half()
I64 = ids(9, 3, 5)

REFUSED: tuple[tuple[str, Callable[..., Any], tuple[Any, ...], str], ...] = (
    ("f64", lambda x: x + 1.0, (r(3).double(),), "float64"),
    ("f64_comparison", torch.gt, (r(3).double(), r(3)), "float64"),
    ("cast_to_f64", lambda x: x.double() * 2, (r(3),), "float64"),
    ("large_integer", lambda x: x + 2**40, (I64,), "does not fit 32 bits"),
    ("half_floor_division", lambda x, y: x // y, (HALF, HALF.abs() + 1), "floor division"),
    ("nan_limit", lambda x: x.clamp(max=math.nan), (r(4),), "a limit that is NaN"),
)


@pytest.mark.parametrize(
    ("function", "inputs", "reason"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_is_left_with_its_reason(
    function: Callable[..., Any], inputs: tuple[Any, ...], reason: str
) -> None:
    lowered = lower(Fn(function), inputs)
    (report,) = lowered.partitioner.reports
    assert not report.is_whole
    assert reason in str(report)
