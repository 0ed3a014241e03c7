"""Types of IR values: a ggml element type, four extents and four strides.

Extents (``ne``) are in ggml order: ``ne[0]`` varies fastest, so a torch shape
``[B, H, S, D]`` is ``ne = (D, S, H, B)``. Extents and strides are ``int`` or,
where they depend on a symbol, ``sympy`` expressions. Strides count elements;
they are known only ahead of time and are not serialized, because the runtime
recomputes them as it builds the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import sympy

from executorch_ggml.ir.canonical import UnsupportedExpressionError, canonical

Dim: TypeAlias = "int | sympy.Expr"
Extents: TypeAlias = "tuple[Dim, Dim, Dim, Dim]"

MAX_DIMS = 4


class IRError(ValueError):
    """The IR is malformed: a call's operands or parameters do not fit its op."""


class DType(IntEnum):
    """Element types; the values are those of ``enum ggml_type``."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42
    #: A weight whose type is read from the file that provides it.
    FROM_FILE = 255

    @property
    def block_size(self) -> int:
        """Elements per block along ``ne[0]`` (1 for plain types)."""
        return _BLOCKS[self][0] if self in _BLOCKS else 1

    @property
    def type_size(self) -> int:
        """Bytes per block."""
        if self in _BLOCKS:
            return _BLOCKS[self][1]
        if self in _PLAIN_SIZES:
            return _PLAIN_SIZES[self]
        raise IRError(f"{self.name} has no size ahead of time")

    @property
    def is_quantized(self) -> bool:
        return self in _BLOCKS

    @property
    def is_plain_float(self) -> bool:
        return self in (DType.F32, DType.F16, DType.BF16)


# ggml's block formats: (elements per block, bytes per block), from ggml-common.h.
_BLOCKS: dict[DType, tuple[int, int]] = {
    DType.Q4_0: (32, 18),
    DType.Q4_1: (32, 20),
    DType.Q5_0: (32, 22),
    DType.Q5_1: (32, 24),
    DType.Q8_0: (32, 34),
    DType.Q8_1: (32, 36),
    DType.Q2_K: (256, 84),
    DType.Q3_K: (256, 110),
    DType.Q4_K: (256, 144),
    DType.Q5_K: (256, 176),
    DType.Q6_K: (256, 210),
    DType.Q8_K: (256, 292),
    DType.IQ2_XXS: (256, 66),
    DType.IQ2_XS: (256, 74),
    DType.IQ3_XXS: (256, 98),
    DType.IQ1_S: (256, 50),
    DType.IQ4_NL: (32, 18),
    DType.IQ3_S: (256, 110),
    DType.IQ2_S: (256, 82),
    DType.IQ4_XS: (256, 136),
    DType.IQ1_M: (256, 56),
    DType.TQ1_0: (256, 54),
    DType.TQ2_0: (256, 66),
    DType.MXFP4: (32, 17),
    DType.NVFP4: (64, 36),
    DType.Q1_0: (128, 18),
    DType.Q2_0: (64, 18),
}
_PLAIN_SIZES: dict[DType, int] = {
    DType.F32: 4,
    DType.F16: 2,
    DType.BF16: 2,
    DType.I8: 1,
    DType.I16: 2,
    DType.I32: 4,
    DType.I64: 8,
    DType.F64: 8,
}


def dims_equal(a: Dim, b: Dim) -> bool:
    """Whether two extents are equal for every value of their symbols.

    False where equality does not follow from linear arithmetic and integer division.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if bool(a == b):
        return True
    try:
        return bool(canonical(sympy.sympify(a) - sympy.sympify(b)) == 0)
    except UnsupportedExpressionError:
        return False


def extents_equal(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether there are as many of both, and each is equal as in :func:`dims_equal`."""
    return len(a) == len(b) and all(map(dims_equal, a, b))


def product(dims: Iterable[Dim]) -> Dim:
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return simplify_dim(result)


def simplify_dim(dim: Dim) -> Dim:
    """Fold constants, so that a static extent is always a plain ``int``."""
    if isinstance(dim, int):
        return int(dim)
    if dim.is_Integer:
        return int(dim)
    return dim


def as_extents(dims: Sequence[Dim]) -> Extents:
    """Pad to four extents with 1."""
    if len(dims) > MAX_DIMS:
        raise IRError(f"{len(dims)} dims: ggml tensors have at most {MAX_DIMS}")
    ne = [simplify_dim(dim) for dim in dims] + [1] * (MAX_DIMS - len(dims))
    return (ne[0], ne[1], ne[2], ne[3])


def contiguous_strides(ne: Extents) -> Extents:
    strides: list[Dim] = []
    stride: Dim = 1
    for extent in ne:
        strides.append(stride)
        stride = simplify_dim(stride * extent)
    return tuple(strides)  # type: ignore[return-value]


@dataclass(frozen=True)
class TensorType:
    """Element type, extents in ggml order, and strides in elements."""

    dtype: DType
    ne: Extents
    strides: Extents

    @staticmethod
    def contiguous(dtype: DType, ne: Sequence[Dim]) -> TensorType:
        extents = as_extents(ne)
        return TensorType(dtype, extents, contiguous_strides(extents))

    @property
    def is_contiguous(self) -> bool:
        """As ``ggml_is_contiguous``: strides of dims of extent 1 do not count."""
        expected: Dim = 1
        for extent, stride in zip(self.ne, self.strides, strict=True):
            if dims_equal(extent, 1):
                continue
            if not dims_equal(stride, expected):
                return False
            expected = expected * extent
        return True

    @property
    def has_contiguous_rows(self) -> bool:
        """Whether elements along ``ne[0]`` are adjacent (``nb[0]`` is one element)."""
        return dims_equal(self.strides[0], 1) or dims_equal(self.ne[0], 1)

    @property
    def n_elements(self) -> Dim:
        return product(self.ne)

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same extents, contiguous, in another element type."""
        return TensorType.contiguous(dtype, self.ne)
