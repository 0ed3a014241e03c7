"""Lowers a vision model as the README does, runs it, and compares it with eager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from executorch.runtime import Runtime
from torch import Tensor, nn
from torch.export import export

import tests.quick_lowering  # noqa: F401
from executorch_ggml import GgmlOptions, GgmlPartitioner, to_edge_rewrite_and_lower
from executorch_ggml._library import load_library
from executorch_ggml.passes import BatchNormFoldingRewritePass
from executorch_ggml.report import DelegationReport

#: Of the largest result.
TOLERANCE = 1e-4


class Program:
    """A model that was exported, lowered strictly with its batch norms folded, and loaded.

    ``outside``: what the method does besides its delegate calls.
    """

    def __init__(
        self,
        module: nn.Module,
        inputs: Sequence[Tensor],
        dynamic_shapes: Any = None,
        weight_dtype: str = "f32",
    ) -> None:
        exported = export(module, tuple(inputs), dynamic_shapes=dynamic_shapes)
        partitioner = GgmlPartitioner(GgmlOptions(strict=True, weight_dtype=weight_dtype))
        fold = BatchNormFoldingRewritePass()
        edge = to_edge_rewrite_and_lower(exported, ep_passes=[fold], partitioner=[partitioner])
        self.n_folded = fold.n_folded
        self.report: DelegationReport = partitioner.reports[0]
        calls = Counter(
            getattr(node.target, "__name__", str(node.target))
            for node in edge.exported_program().graph.nodes
            if node.op == "call_function"
        )
        self.n_delegates = calls.pop("executorch_call_delegate", 0)
        del calls["getitem"]  # a delegate returns a tuple
        self.outside = dict(calls)
        load_library()
        # The program reads its weights where they lie: the buffer has to stay.
        self._buffer = bytes(edge.to_executorch().buffer)
        self.n_bytes = len(self._buffer)
        self._program = Runtime.get().load_program(self._buffer)
        self._method: Any = self._program.load_method("forward")

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The method's outputs; they are overwritten by the next call."""
        return tuple(self._method.execute(inputs))


def outputs(module: nn.Module, *inputs: Tensor) -> tuple[Tensor, ...]:
    """What eager PyTorch gives."""
    with torch.no_grad():
        found = module(*inputs)
    return found if isinstance(found, tuple) else (found,)


def assert_one_delegate(program: Program) -> None:
    """Nothing but one delegate call, in which no op of our own takes part."""
    assert program.report.is_whole, str(program.report)
    assert program.n_delegates == 1, str(program.report)
    assert program.outside == {}
    assert program.report.n_host == 0, str(program.report)


def assert_close(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Each within :data:`TOLERANCE` of its largest value."""
    for found, wanted in zip(actual, expected, strict=True):
        assert found.shape == wanted.shape
        largest = float(wanted.abs().max())
        assert largest > 1e-3, "the comparison says nothing"
        torch.testing.assert_close(found, wanted, rtol=0.0, atol=TOLERANCE * largest)
