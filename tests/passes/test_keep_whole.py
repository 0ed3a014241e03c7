"""Ops that would be decomposed or refused come to the partitioner whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor
from torch.export import export

from executorch_ggml import GgmlPartitioner
from executorch_ggml.passes.keep_whole import keep_whole, twin
from tests.harness import delegates
from tests.lowering.cases.base import Fn


def test_a_twin_computes_what_its_op_computes() -> None:
    x = torch.randn(3, 4)
    op = twin(torch.ops.aten.cumprod.default)
    assert op.namespace == "ggml_aten"
    torch.testing.assert_close(op(x, 1), x.cumprod(1))
    assert twin(torch.ops.aten.cumprod.default) is op


def test_what_others_take_keeps_its_name() -> None:
    program = export(Fn(lambda x: F.silu(x).cumprod(-1)), (torch.randn(3, 4),))
    nodes = [n for n in program.graph.nodes if n.op == "call_function"]
    assert keep_whole(nodes) == 1
    assert [n.target.namespace for n in nodes] == ["aten", "ggml_aten"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.adaptive_max_pool3d(x, 2),
        lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"),
        lambda x: x.median(-1).values,
    ],
    ids=["adaptive_max_pool3d", "trilinear", "median"],
)
def test_whole_with_another_partitioner_behind(function: Any) -> None:
    """ExecuTorch decomposes once more for each partitioner."""
    x: Tensor = torch.randn(1, 2, 4, 4, 4)
    first = GgmlPartitioner()
    edge = to_edge_transform_and_lower(
        export(Fn(function), (x,)), partitioner=[first, XnnpackPartitioner()]
    )
    assert first.reports[0].is_whole, str(first.reports[0])
    (delegate,) = delegates(edge.exported_program().graph_module)
    assert delegate.backend_id == "GgmlBackend"
