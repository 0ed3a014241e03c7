"""One form for integer expressions over symbols.

``torch.export`` and sympy spell the same size in many ways: ``floor(s0/2 - 3/2) + 1``,
``FloorDiv(s0 - 1, 2)``, ``ceiling(s0/2 - 1)``. :func:`basic` reduces them to a small set
of functions that a runtime can evaluate; :func:`canonical` goes on until equal sizes are
equal expressions, as far as linear arithmetic and integer division reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any, Final, TypeAlias

import sympy
import torch.utils._sympy.functions as torch_sympy

#: What :func:`basic` leaves, besides ``Integer``, ``Symbol``, ``Add``, ``Mul`` and ``Pow``.
FloorDiv: Any = torch_sympy.FloorDiv
Mod: Any = torch_sympy.PythonMod
Max: Any = torch_sympy.Max
Min: Any = torch_sympy.Min

_Dim: TypeAlias = "int | sympy.Expr"

_MAX_FLOAT_DENOMINATOR: Final = 1024
_MODS: Final = (torch_sympy.Mod, torch_sympy.PythonMod, sympy.Mod)
_TRUE_DIVS: Final = (torch_sympy.IntTrueDiv, torch_sympy.FloatTrueDiv)
_FLOORS: Final = (sympy.floor, torch_sympy.FloorToInt)
_CEILINGS: Final = (sympy.ceiling, torch_sympy.CeilToInt)
_TRANSPARENT: Final = (torch_sympy.ToFloat, torch_sympy.Identity)


class UnsupportedExpressionError(ValueError):
    """A function that integer arithmetic cannot express."""


def floor_div(a: _Dim, b: int) -> _Dim:
    """``a // b`` rounded down, in the form that ``torch.export`` uses.

    Plain ``//`` on a sympy expression gives ``floor`` of a rational, which never equals
    the ``FloorDiv`` in an exported shape.
    """
    if isinstance(a, int):
        return a // b
    return FloorDiv(a, sympy.Integer(b))


def _fraction_floor(x: sympy.Expr) -> sympy.Expr:
    numerator, denominator = sympy.fraction(sympy.together(x))
    if denominator == 1:
        return numerator
    return FloorDiv(numerator, denominator)


def _ceil_div(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    if b.is_Integer and b > 0:
        return FloorDiv(a + b - 1, b)
    return -FloorDiv(-a, b)


def _fraction_ceil(x: sympy.Expr) -> sympy.Expr:
    numerator, denominator = sympy.fraction(sympy.together(x))
    return numerator if denominator == 1 else _ceil_div(numerator, denominator)


def _truncate(x: sympy.Expr) -> sympy.Expr:
    if not x.is_nonnegative:
        raise UnsupportedExpressionError(f"TruncToInt({x}) of a value that may be negative")
    return _fraction_floor(x)


def _rebuild(e: sympy.Expr, args: Sequence[sympy.Expr]) -> sympy.Expr:
    if e.func in (sympy.Add, sympy.Mul, sympy.Pow):
        return e.func(*args)
    if e.func in (Max, sympy.Max):
        return Max(*args)
    if e.func in (Min, sympy.Min):
        return Min(*args)
    if e.func in (FloorDiv, torch_sympy.CleanDiv):
        return FloorDiv(*args)
    if e.func is torch_sympy.CeilDiv:
        return _ceil_div(args[0], args[1])
    if e.func in _MODS:
        return Mod(*args)
    if e.func is torch_sympy.ModularIndexing:
        return Mod(FloorDiv(args[0], args[1]), args[2])
    if e.func is torch_sympy.PowByNatural:
        return args[0] ** args[1]
    if e.func in _TRUE_DIVS:
        return args[0] / args[1]
    if e.func in _FLOORS:
        return _fraction_floor(args[0])
    if e.func in _CEILINGS:
        return _fraction_ceil(args[0])
    if e.func is torch_sympy.TruncToInt:
        return _truncate(args[0])
    if e.func in _TRANSPARENT:
        return args[0]
    raise UnsupportedExpressionError(f"{e.func.__name__} in '{e}'")


@lru_cache(maxsize=65536)
def basic(e: sympy.Expr) -> sympy.Expr:
    """``e`` by ``Integer``, ``Symbol``, ``Add``, ``Mul``, ``Pow``, ``FloorDiv``, ``Mod``,
    ``Max`` and ``Min`` only (and rationals where a true division is not yet rounded).

    Raises:
        UnsupportedExpressionError: another function occurs; the text names it.
    """
    if e.is_Symbol or e.is_Rational:
        return e
    if e.is_Float:
        # A scale factor such as 2.0 or 0.5: exact in binary, so exact as a fraction.
        exact = sympy.Rational(float(e))
        if exact.q <= _MAX_FLOAT_DENOMINATOR:
            return exact
    if not e.args:
        raise UnsupportedExpressionError(f"{type(e).__name__} '{e}'")
    return _rebuild(e, [basic(a) for a in e.args])


def _split_floor_div(numerator: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr:
    """Move whole multiples of a constant divisor out: (s0 - 3) // 2 = (s0 + 1) // 2 - 2."""
    if not divisor.is_Integer or int(divisor) <= 0:
        return FloorDiv(numerator, divisor)
    n = int(divisor)
    whole: sympy.Expr = sympy.Integer(0)
    rest: list[tuple[int, sympy.Expr]] = []
    for term in sympy.Add.make_args(sympy.expand(numerator)):
        coefficient, factor = term.as_coeff_Mul()
        if not coefficient.is_Integer:
            return FloorDiv(numerator, divisor)
        quotient, remainder = divmod(int(coefficient), n)
        whole += quotient * factor
        if remainder:
            rest.append((remainder, factor))
    if not rest or all(factor == 1 for _, factor in rest):
        return whole
    # floor((g*x + c) / (g*n)) = floor((x + c // g) / n) for integer x.
    common = reduce(sympy.igcd, (r for r, factor in rest if factor != 1), n)
    inner = sum((r // int(common)) * factor for r, factor in rest)
    return whole + FloorDiv(inner, sympy.Integer(n // int(common)))


@lru_cache(maxsize=65536)
def _canonical(e: sympy.Expr) -> sympy.Expr:
    if not e.args:
        return e
    args = [_canonical(a) for a in e.args]
    if e.func is FloorDiv:
        return sympy.expand(_split_floor_div(args[0], args[1]))
    if e.func is Mod:
        return sympy.expand(args[0] - args[1] * _split_floor_div(args[0], args[1]))
    return sympy.expand(e.func(*args))


def canonical(e: sympy.Expr) -> sympy.Expr:
    """The form in which equal sizes compare equal.

    Raises:
        UnsupportedExpressionError: as :func:`basic`.
    """
    return _canonical(basic(e))
