"""The op table: one row per (operator, semantics), a file per family."""

from __future__ import annotations

from tests.lowering.cases import (
    attention,
    conv,
    elementwise,
    images,
    index,
    norms,
    products,
    reduce,
    softmax,
    sort,
    views,
)
from tests.lowering.cases.base import Case

FAMILIES = (
    elementwise,
    views,
    products,
    reduce,
    softmax,
    sort,
    norms,
    attention,
    index,
    conv,
    images,
)

CASES: list[Case] = [case for family in FAMILIES for case in family.CASES]
