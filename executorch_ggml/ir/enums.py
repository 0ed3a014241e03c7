"""Enumerations that are parameters of ops. The values are part of the file format."""

from __future__ import annotations

from enum import IntEnum


class Unary(IntEnum):
    """Element-wise functions; the values are those of ``enum ggml_unary_op`` by name."""

    ABS = 0
    SGN = 1
    NEG = 2
    STEP = 3
    TANH = 4
    ELU = 5
    RELU = 6
    SIGMOID = 7
    GELU = 8
    GELU_QUICK = 9
    SILU = 10
    HARDSWISH = 11
    HARDSIGMOID = 12
    EXP = 13
    EXPM1 = 14
    SOFTPLUS = 15
    GELU_ERF = 16
    FLOOR = 17
    CEIL = 18
    ROUND = 19
    TRUNC = 20


class Glu(IntEnum):
    """Gated units ``act(a) * b``."""

    REGLU = 0
    GEGLU = 1
    SWIGLU = 2
    GEGLU_ERF = 3
    GEGLU_QUICK = 4


class RopeMode(IntEnum):
    """NORMAL rotates adjacent pairs (2i, 2i+1); NEOX rotates halves (i, i + n/2)."""

    NORMAL = 0
    NEOX = 2


class Pool(IntEnum):
    MAX = 0
    AVG = 1
