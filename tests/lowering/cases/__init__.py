"""The op table: one row per (operator, semantics), a file per family."""

from __future__ import annotations

from tests.lowering.cases import (
    activations,
    attention,
    casts,
    compare,
    constructors,
    conv,
    elementwise,
    images,
    index,
    integers,
    layouts,
    norms,
    numerics,
    pads,
    pool,
    products,
    quantized,
    ranks,
    recurrent,
    reduce,
    scatter,
    softmax,
    sort,
    upsample,
    views,
)
from tests.lowering.cases.base import Case

FAMILIES = (
    elementwise,
    activations,
    compare,
    integers,
    casts,
    numerics,
    views,
    products,
    quantized,
    recurrent,
    reduce,
    softmax,
    sort,
    norms,
    attention,
    index,
    scatter,
    pads,
    constructors,
    layouts,
    ranks,
    conv,
    pool,
    upsample,
    images,
)

CASES: list[Case] = [case for family in FAMILIES for case in family.CASES]
