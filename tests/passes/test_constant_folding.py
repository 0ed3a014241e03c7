"""Constant folding: what becomes a constant, what is left alone, and the same outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram, export

from executorch_ggml import GgmlPartitioner, to_edge_rewrite_and_lower
from executorch_ggml.passes.constant_folding import MAX_ELEMENTS, fold_constants
from tests.harness import lower, run_runtime
from tests.lowering.cases.base import Fn, r

X = r(4, 6)


def causal(x: Tensor) -> Tensor:
    """A mask from comparisons of positions, an op of our own."""
    i = torch.arange(x.shape[1])
    return x.masked_fill(i[None] > i[: x.shape[0], None], -1.0)


def in_doubles(x: Tensor) -> Tensor:
    """Positions in a dtype that no delegate holds."""
    i = torch.arange(6, dtype=torch.float64) / 7
    return x * torch.sin(i).float()


def written_in_place(x: Tensor) -> Tensor:
    table = torch.zeros(6)
    table[2:4] = 3.0
    return x + torch.erf(table)


def read_before_written(x: Tensor) -> Tensor:
    table = torch.arange(6.0)
    before = torch.erf(table)
    table[1] = x[0, 0]
    return x + before + torch.erf(table)


def of_sizes(x: Tensor) -> Tensor:
    return x + torch.erf(torch.arange(x.shape[0]) / 9.0)[:, None]


def repeated(x: Tensor) -> Tensor:
    """Six numbers are stored, not the many copies of them."""
    return x + torch.erf(torch.arange(6) / 9.0).expand(4, 6)


def random(x: Tensor) -> Tensor:
    return x + torch.rand(6) * 0


class Buffers(nn.Module):
    """A table that is only read, and a counter that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", r(6))
        self.register_buffer("count", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1.0)
        return x + torch.erf(self.table) + torch.erf(self.count)


class Weight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(r(6))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.erf(self.weight)


_MOVES = ("arange", "expand", "unsqueeze", "slice", "lift_fresh", "detach")


def _computes(node: fx.Node) -> bool:
    return not any(n in str(node.target) for n in _MOVES)


def fold(module: nn.Module, inputs: tuple[Tensor, ...], sizes: Any = None) -> ExportedProgram:
    """The exported module, folded; the count is that of the constants which were made."""
    program = export(module, inputs, dynamic_shapes=sizes)
    count = fold_constants(program, _computes)
    assert count == len(folded(program))
    program.graph.lint()
    return program


def folded(program: ExportedProgram) -> list[list[int]]:
    """The shapes of the constants that the pass made."""
    names = program.graph_signature.inputs_to_lifted_tensor_constants.values()
    return [list(program.constants[name].shape) for name in names if "folded" in name]


#: The function, what is stored for it, and how many ops are host-side after that.
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], list[list[int]], int]] = {
    "mask": (causal, [[4, 6]], 1),
    "doubles": (in_doubles, [[6]], 0),
    "expanded": (repeated, [[6]], 0),
    # ExecuTorch makes these functional before it asks: then their constant parts are known.
    "written-in-place": (written_in_place, [], 0),
    "read-before-written": (read_before_written, [], 1),
    "moved": (lambda x: x + torch.arange(6.0)[None].expand(4, 6), [], 0),
    "large": (lambda x: x + torch.erf(torch.ones(MAX_ELEMENTS + 1)).sum(), [], 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function, shapes, n_host = FUNCTIONS[name]
    program = fold(Fn(function), (X,))
    assert folded(program) == shapes
    torch.testing.assert_close(program.module()(X), function(X), rtol=0, atol=0)
    lowered = lower(Fn(function), (X,))
    (report,) = lowered.partitioner.reports
    assert report.is_whole, str(report)
    assert report.n_host == n_host, str(report)
    torch.testing.assert_close(run_runtime(lowered, (X,))[0], function(X))


def test_sizes_that_vary_are_no_constants() -> None:
    sizes = (({0: Dim("n", min=1, max=8)},),)
    assert folded(fold(Fn(of_sizes), (X,), sizes)) == []
    lowered = lower(Fn(of_sizes), (X,), sizes)
    for n in (1, 4, 8):
        torch.testing.assert_close(run_runtime(lowered, (r(n, 6),))[0], of_sizes(r(n, 6)))


def test_buffers_that_are_only_read_are_constants() -> None:
    module = Buffers()
    program = fold(module, (X,))
    assert folded(program) == [[6]]
    assert list(program.graph_signature.inputs_to_buffers.values()) == ["count"]
    table = module.table
    assert isinstance(table, Tensor)
    lowered = lower(module, (X,))
    for count in (1.0, 2.0):
        expected = X + torch.erf(table) + torch.erf(torch.full((6,), count))
        torch.testing.assert_close(run_runtime(lowered, (X,))[0], expected)


def test_parameters_and_excluded_buffers_are_no_constants() -> None:
    assert folded(fold(Weight(), (X,))) == []
    program = export(Buffers(), (X,))
    assert fold_constants(program, _computes, excluded={"table"}) == 0


def test_random_numbers_are_drawn_in_each_call() -> None:
    assert folded(fold(Fn(random), (X,))) == []


def test_the_program_that_is_lowered_stays_as_it_was() -> None:
    program = export(Fn(causal), (X,))
    before = str(program.graph)
    to_edge_rewrite_and_lower(program, partitioner=[GgmlPartitioner()])
    assert str(program.graph) == before
