"""Control flow stays with ExecuTorch, beside delegates, and the program stays right."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import map as map_rows
from torch._higher_order_ops.scan import scan

from tests.harness import lower, run_runtime
from tests.lowering.cases.base import r, seeded


class _Between(nn.Module):
    """A linear layer before and after a step that is control flow."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = (seeded(lambda: nn.Linear(8, 8)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.after(self.step(self.before(x)))
        return found

    def step(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class _Cond(_Between):
    def step(self, x: Tensor) -> Tensor:
        return torch.cond(  # type: ignore[no-any-return]
            x.sum() > 0, lambda y: y.sin() + 1, lambda y: y.cos() - 1, (x,)
        )


class _Map(_Between):
    def step(self, x: Tensor) -> Tensor:
        return map_rows(lambda row, total: row.sin() + total, x, x.sum(0))  # type: ignore[no-any-return, arg-type]


class _Scan(_Between):
    def step(self, x: Tensor) -> Tensor:
        def add(total: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            return total + row, (total * 2).clone()

        return scan(add, x.sum(0) * 0, x)[1]  # type: ignore[no-any-return]


@pytest.mark.parametrize("module", [_Cond(), _Map(), _Scan()], ids=["cond", "map", "scan"])
def test_runs_between_delegates(module: _Between) -> None:
    x = r(3, 8)
    lowered = lower(module, (x,))
    (report,) = lowered.partitioner.reports
    (rejection,) = report.rejections
    assert rejection.reason == "control flow, which ExecuTorch runs between delegates"
    assert report.n_partitions == 2
    expected = {bool(module.before(y).sum() > 0): (y, module(y)) for y in (x, -x, x * 2 - 1, 1 - x)}
    assert not isinstance(module, _Cond) or len(expected) == 2, "one branch is not taken"
    for y, wanted in expected.values():
        torch.testing.assert_close(run_runtime(lowered, (y,))[0], wanted, rtol=1e-4, atol=1e-4)
