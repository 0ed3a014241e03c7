"""A delegate beside others: XNNPACK before and after, several partitions, shared tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch import Tensor, nn
from torch.export import export

from executorch_ggml import GgmlPartitioner
from executorch_ggml._library import load_library
from tests.harness import delegates, lower, run_runtime
from tests.lowering.cases.base import Fn, seeded


class _Block(nn.Module):
    """What both delegates take, and what XNNPACK leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.conv(x))
        y = self.norm(y.mean(2)).cumsum(-1)
        return self.out(y).softmax(-1)


def _run(edge: Any, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    load_library()
    program = Runtime.get().load_program(bytes(edge.to_executorch().buffer))
    return list(program.load_method("forward").execute(list(inputs)))


@pytest.mark.parametrize("pool", ["own", "executorch"])
@pytest.mark.parametrize("first", ["ggml", "xnnpack"])
def test_beside_xnnpack(first: str, pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_THREAD_POOL", pool)
    module = seeded(_Block).eval()
    # Large enough for several threads.
    inputs = (torch.randn(64, 3, 48, 8),)
    partitioners = [GgmlPartitioner(), XnnpackPartitioner()]
    if first == "xnnpack":
        partitioners.reverse()
    edge = to_edge_transform_and_lower(export(module, inputs), partitioner=partitioners)
    backends = {d.backend_id for d in delegates(edge.exported_program().graph_module)}
    if first == "ggml":
        assert backends == {"GgmlBackend"}
    else:
        assert backends == {"GgmlBackend", "XnnpackBackend"}
    (actual,) = _run(edge, inputs)
    torch.testing.assert_close(actual, module(*inputs), rtol=1e-4, atol=1e-4)


def test_partitions_around_an_op_that_stays() -> None:
    """float64 stays with ExecuTorch: a delegate before it and one after."""

    def function(x: Tensor) -> Tensor:
        return ((x * 2).exp().double() + 1).float().tanh() * 3

    inputs = (torch.randn(3, 4),)
    lowered = lower(Fn(function), inputs)
    assert len(lowered.graphs) == 2
    (actual,) = run_runtime(lowered, inputs)
    torch.testing.assert_close(actual, function(*inputs))


class _Odd(nn.Module):
    """Returns a tensor twice, an input, a constant, and a view of a result."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("constant", torch.arange(6.0).reshape(2, 3))

    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        return y, y, x, self.constant, y.t(), i, i + 1, (i > 2)


def test_outputs_that_are_one_tensor_an_input_or_a_constant() -> None:
    inputs = (torch.randn(2, 3), torch.arange(5))
    lowered = lower(_Odd(), inputs)
    for _ in range(2):
        expected = _Odd()(*inputs)
        actual = run_runtime(lowered, inputs)
        for found, wanted in zip(actual, expected, strict=True):
            torch.testing.assert_close(found, wanted)


def test_the_same_tensor_for_two_inputs() -> None:
    x = torch.randn(4, 4)
    lowered = lower(Fn(lambda a, b: (a @ b, a - b)), (x, x.clone()))
    product, difference = run_runtime(lowered, (x, x))
    torch.testing.assert_close(product, x @ x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(difference, torch.zeros(4, 4))


class _Counter(nn.Module):
    """Integer, boolean and float state, written in place in several ways."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(8, dtype=torch.bool))
        self.register_buffer("sums", torch.full((8,), 0.5))

    def forward(self, x: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.steps.add_(1)
        self.seen[ids] = True
        self.sums.mul_(0.5).add_(x)
        return self.steps + 0, self.seen.logical_not(), self.sums * 2


def test_state_of_every_type_is_kept() -> None:
    module, eager = _Counter(), _Counter()
    inputs = (torch.randn(8), torch.tensor([1, 3]))
    lowered = lower(module, inputs)
    for step in range(3):
        inputs = (torch.randn(8), torch.tensor([step, step + 2]))
        expected = eager(*inputs)
        for found, wanted in zip(run_runtime(lowered, inputs), expected, strict=True):
            torch.testing.assert_close(found, wanted)


def test_methods_keep_to_themselves() -> None:
    """Two methods of other shapes in one program, called in turn."""
    modules = {"long": Fn(lambda x: x.softmax(-1)), "short": Fn(lambda x: (x > 0).sum(-1))}
    inputs = {"long": (torch.randn(3, 9),), "short": (torch.randn(2, 4),)}
    programs = {name: export(m, inputs[name]) for name, m in modules.items()}
    edge = to_edge_transform_and_lower(programs, partitioner=[GgmlPartitioner()])
    load_library()
    program = Runtime.get().load_program(bytes(edge.to_executorch().buffer))
    methods = {name: program.load_method(name) for name in modules}
    for _ in range(2):
        for name, module in modules.items():
            (actual,) = methods[name].execute(list(inputs[name]))
            torch.testing.assert_close(actual, module(*inputs[name]))
