"""What backends of vision models have been found to get wrong, beside the op table's rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.export.model_families import randomized
from tests.harness import lower, run_runtime
from tests.vision.lowering import Program, outputs
from tests.vision.models import pictures

# --- results do not depend on what ran before ---------------------------------------------


class _Normalised(nn.Module):
    """Batch norms that are not folded, before and after much larger intermediate results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.widen, self.narrow = nn.Conv2d(3, 48, 3, padding=1), nn.Conv2d(48, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.last(y + self.narrow(F.relu(self.widen(y))).relu())


def test_batch_norm_gives_the_same_before_and_after_large_results() -> None:
    module = randomized(_Normalised())
    large, small = pictures(1, 256, 256), pictures(1, 16, 16)
    sizes = {2: Dim("height", min=4, max=256), 3: Dim("width", min=4, max=256)}
    program = Program(module, (large,), (sizes,))
    (first,) = (x.clone() for x in program(small))
    torch.testing.assert_close(first, outputs(module, small)[0], rtol=1e-4, atol=1e-4)
    for _ in range(2):
        (found,) = (x.clone() for x in program(large))
        torch.testing.assert_close(found, outputs(module, large)[0], rtol=1e-4, atol=1e-4)
        (again,) = program(small)
        torch.testing.assert_close(again, first, rtol=0, atol=0)


# --- GELU beside its exact value ----------------------------------------------------------

_RANGE = torch.linspace(-10, 10, 200_001)


def _exact_erf(x: Tensor) -> Tensor:
    """In float64, with no difference of near numbers: erfc(-t) is 1 + erf(t)."""
    wide = x.double()
    return 0.5 * wide * torch.special.erfc(-wide / math.sqrt(2))


def _exact_tanh(x: Tensor) -> Tensor:
    """In float64: (1 + tanh(t)) / 2 is sigmoid(2 t)."""
    wide = x.double()
    return wide * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))


@pytest.mark.parametrize(("approximate", "exact"), [("none", _exact_erf), ("tanh", _exact_tanh)])
def test_gelu_is_exact_to_float32(approximate: str, exact: Callable[[Tensor], Tensor]) -> None:
    lowered = lower(nn.GELU(approximate), (_RANGE,))
    assert lowered.partitioner.reports[0].is_whole
    error = run_runtime(lowered, (_RANGE,))[0].double() - exact(_RANGE)
    # Relative to x: the factor 1 + erf(x) loses its digits where it is near 0, in eager too.
    unit = torch.finfo(torch.float32).eps * _RANGE.abs().double().clamp(min=1e-30)
    assert float((error.abs() / unit).max()) < 2.0
