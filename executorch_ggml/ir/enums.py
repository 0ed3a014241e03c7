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


class Upscale(IntEnum):
    """The values are those of ``enum ggml_scale_mode`` by name."""

    NEAREST = 0
    BILINEAR = 1
    BICUBIC = 2


# --- host-side ops ---------------------------------------------------------------------


class IntType(IntEnum):
    """The torch type whose arithmetic an I32 value follows: how a result wraps.

    I64 does not wrap: a result outside 32 bits is an error of the call.
    """

    I64 = 0
    I32 = 1
    I16 = 2
    I8 = 3
    U8 = 4
    BOOL = 5


class HostUnary(IntEnum):
    """Functions of one value that ggml lacks, or has less exactly. ``p``, ``q``, ``r``: params."""

    RELU = 0
    SIGN = 1
    ROUND_EVEN = 2
    FRAC = 3
    RSQRT = 4
    RECIPROCAL = 5
    LOG2 = 6
    LOG10 = 7
    LOG1P = 8
    EXP2 = 9
    EXPM1 = 10
    TAN = 11
    ASIN = 12
    ACOS = 13
    ATAN = 14
    SINH = 15
    COSH = 16
    ASINH = 17
    ACOSH = 18
    ATANH = 19
    ERF = 20
    ERFC = 21
    LGAMMA = 22
    ELU = 23  # x > 0 ? q x : p q (exp(r x) - 1)
    SOFTPLUS = 24  # p x > q ? x : log1p(exp(p x)) / p
    THRESHOLD = 25  # x <= p ? q : x
    HARDSHRINK = 26  # |x| <= p ? 0 : x
    SOFTSHRINK = 27  # x > p ? x - p : x < -p ? x + p : 0
    CLAMP = 28  # to [p, q]; NaN stays
    NAN_TO_NUM = 29  # NaN, +inf, -inf become p, q, r
    LOG_SIGMOID = 30
    LEAKY_RELU = 31  # x > 0 ? x : p x
    ABS = 32
    NEG = 33
    BITWISE_NOT = 34
    HARDSIGMOID = 35
    #: These give 0 or 1 as I32.
    LOGICAL_NOT = 40
    IS_NAN = 41
    IS_INF = 42
    SIGN_BIT = 43


class HostBinary(IntEnum):
    """Functions of two values of one element type."""

    ADD = 0
    SUB = 1
    MUL = 2
    DIV_TRUNC = 3
    DIV_FLOOR = 4
    REMAINDER = 5  # the sign of the divisor
    FMOD = 6  # the sign of the dividend
    POW = 7
    MAXIMUM = 8  # NaN wins
    MINIMUM = 9
    FMAX = 10  # NaN loses
    FMIN = 11
    ATAN2 = 12
    HYPOT = 13
    COPYSIGN = 14
    XLOGY = 15
    BITWISE_AND = 16
    BITWISE_OR = 17
    BITWISE_XOR = 18
    SHIFT_LEFT = 19
    SHIFT_RIGHT = 20
    #: These give 0 or 1 as I32.
    EQ = 30
    NE = 31
    LT = 32
    LE = 33
    GT = 34
    GE = 35
    LOGICAL_AND = 36
    LOGICAL_OR = 37
    LOGICAL_XOR = 38


class HostReduce(IntEnum):
    """Reductions of a row."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    ARGMAX = 4
    ARGMIN = 5
    ANY = 6
    ALL = 7
    VAR = 8  # squared deviations over (n - correction)
    LOGSUMEXP = 9
    NORM = 10  # (sum |x|^correction)^(1/correction); inf and -inf: largest and smallest |x|


class HostScan(IntEnum):
    """Running functions along a row; the ARG forms give the index of the value."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    ARGMAX = 4
    ARGMIN = 5
    LOGSUMEXP = 6


class Scatter(IntEnum):
    SET = 0
    ADD = 1
    MUL = 2
    MAX = 3
    MIN = 4


class Recurrence(IntEnum):
    """How a step of a recurrent layer makes its next state; gates in torch's order."""

    LSTM = 0  # gates i, f, g, o
    GRU = 1  # gates r, z, n
    RNN_TANH = 2
    RNN_RELU = 3

    @property
    def n_gates(self) -> int:
        return {Recurrence.LSTM: 4, Recurrence.GRU: 3}.get(self, 1)

    @property
    def n_states(self) -> int:
        """Of a step: the output, and an LSTM's cell after it."""
        return 2 if self is Recurrence.LSTM else 1


class HostPool(IntEnum):
    MAX = 0
    AVG = 1
    MAX_INDEX = 2  # where the maximum lies: a flat index into the plane


class HostResize(IntEnum):
    """Interpolation, with torch's rules for coordinates. AA widens the window to shrink."""

    NEAREST = 0
    NEAREST_EXACT = 1
    LINEAR = 2
    CUBIC = 3
    LINEAR_AA = 4
    CUBIC_AA = 5


class GridMode(IntEnum):
    """Interpolation at given coordinates, numbered as torch does."""

    BILINEAR = 0
    NEAREST = 1
    BICUBIC = 2


class GridPadding(IntEnum):
    """What lies outside of the image, numbered as torch does."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2
