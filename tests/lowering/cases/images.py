"""Batch norm over images."""

from __future__ import annotations

from torch import nn

from tests.lowering.cases.base import PRODUCT, Case, r, seeded

CASES = [
    Case("batch_norm", seeded(lambda: nn.BatchNorm2d(3)), (r(2, 3, 6, 8),), (), PRODUCT),
]
