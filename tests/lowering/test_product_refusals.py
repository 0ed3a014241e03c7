"""Products and attention that stay with ExecuTorch: named, and the program stays right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.harness import lower, run_runtime
from tests.lowering.cases.base import Fn, ids, r


def _reasons(function: Callable[..., Any], *inputs: Tensor) -> tuple[Any, dict[str, str]]:
    lowered = lower(Fn(function), inputs)
    (report,) = lowered.partitioner.reports
    return lowered, {rejection.op: rejection.reason for rejection in report.rejections}


@pytest.mark.parametrize(
    ("function", "op", "shapes"),
    [
        (torch.mm, "aten.mm.default", ((3, 8), (8, 5))),
        (torch.bmm, "aten.bmm.default", ((2, 3, 8), (2, 8, 5))),
        (torch.addmm, "aten.addmm.default", ((3, 5), (3, 8), (8, 5))),
    ],
    ids=["mm", "bmm", "addmm"],
)
def test_integers(
    function: Callable[..., Tensor], op: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    inputs = tuple(ids(9, *shape) for shape in shapes)
    lowered, reasons = _reasons(lambda *args: function(*args) + 1, *inputs)
    assert reasons[op] == "an integer matrix product"
    assert torch.equal(run_runtime(lowered, inputs)[0], function(*inputs) + 1)


def test_double_precision() -> None:
    inputs = (r(3, 8).double(), r(8, 5).double())
    lowered, reasons = _reasons(torch.mm, *inputs)
    assert "float64" in reasons["aten.mm.default"]
    torch.testing.assert_close(run_runtime(lowered, inputs)[0], torch.mm(*inputs))


@pytest.mark.parametrize(
    ("arguments", "shapes"),
    [
        ({"dropout_p": 0.5}, ((2, 4, 6, 8),) * 3),
        ({"enable_gqa": True}, ((2, 4, 6, 8), (2, 2, 6, 8), (2, 4, 6, 8))),
    ],
    ids=["dropout", "keys_and_values_of_different_heads"],
)
def test_attention_is_taken_apart(
    arguments: dict[str, Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    """What the whole op cannot express is left to torch's decomposition, node by node."""
    lowered, _ = _reasons(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, **arguments),
        *(r(*shape) for shape in shapes),
    )
    assert "attention" not in lowered.ops
    assert "mul_mat" in lowered.ops
