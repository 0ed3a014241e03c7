"""Extents as flat expression records, and back.

A record refers to earlier records by index, so that one forward sweep over a table
evaluates it. Equal records are stored once. Division and modulo round down.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

import sympy

from executorch_ggml.ir.canonical import FloorDiv, Max, Min, Mod, UnsupportedExpressionError, basic
from executorch_ggml.ir.types import Dim, IRError, simplify_dim

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


class ExprOp(IntEnum):
    """The values are those of ``ExprOp`` in ``schema.fbs``."""

    CONST = 0
    SYMBOL = 1
    ADD = 2
    SUB = 3
    MUL = 4
    FLOOR_DIV = 5
    MOD = 6
    MIN = 7
    MAX = 8


class Expr(NamedTuple):
    """CONST: ``imm``. SYMBOL: symbol number ``a``. Otherwise earlier records ``a`` and ``b``."""

    op: ExprOp
    imm: int = 0
    a: int = 0
    b: int = 0


class ExprTable:
    """Collects records for the expressions of one graph."""

    def __init__(self, symbols: Iterable[sympy.Symbol]) -> None:
        self.exprs: list[Expr] = []
        self._symbols = {symbol: i for i, symbol in enumerate(symbols)}
        self._known: dict[Expr, int] = {}
        self._done: dict[Dim, int] = {}

    def add(self, dim: Dim) -> int:
        """The index of the record that computes ``dim``.

        Raises:
            IRError: an undeclared symbol, a function that has no record (it is named), a
                fraction, or a constant that does not fit 64 bits.
        """
        if isinstance(dim, int):
            return self._constant(int(dim))
        found = self._done.get(dim)
        if found is None:
            try:
                found = self._add(basic(dim))
            except UnsupportedExpressionError as error:
                raise IRError(f"size '{dim}' cannot be computed at run time: {error}") from None
            self._done[dim] = found
        return found

    def _constant(self, value: int) -> int:
        if not INT64_MIN <= value <= INT64_MAX:
            raise IRError(f"constant {value} does not fit 64 bits")
        return self._intern(Expr(ExprOp.CONST, imm=value))

    def _intern(self, expr: Expr) -> int:
        index = self._known.get(expr)
        if index is None:
            index = len(self.exprs)
            self.exprs.append(expr)
            self._known[expr] = index
        return index

    def _chain(self, op: ExprOp, operands: Sequence[int]) -> int:
        result = operands[0]
        for operand in operands[1:]:
            result = self._intern(Expr(op, a=result, b=operand))
        return result

    def _add(self, e: sympy.Expr) -> int:
        if e.is_Integer:
            return self._constant(int(e))
        if e.is_Symbol:
            if e not in self._symbols:
                raise IRError(f"symbol '{e}' is not declared by the graph")
            return self._intern(Expr(ExprOp.SYMBOL, a=self._symbols[e]))
        if e.is_Rational:
            raise IRError(f"{e} is no integer")
        args = sorted(e.args, key=sympy.default_sort_key)
        if e.func is sympy.Add:
            return self._sum(args)
        if e.func is sympy.Mul:
            return self._chain(ExprOp.MUL, [self._add(a) for a in args])
        if e.func is sympy.Pow:
            base, exponent = e.args
            if not exponent.is_Integer or int(exponent) < 1:
                raise IRError(f"power '{e}': the exponent must be a positive integer")
            return self._chain(ExprOp.MUL, [self._add(base)] * int(exponent))
        if e.func in (Max, Min):
            op = ExprOp.MAX if e.func is Max else ExprOp.MIN
            return self._chain(op, [self._add(a) for a in args])
        if e.func in (FloorDiv, Mod):
            op = ExprOp.FLOOR_DIV if e.func is FloorDiv else ExprOp.MOD
            return self._intern(Expr(op, a=self._add(e.args[0]), b=self._add(e.args[1])))
        raise IRError(f"{e.func.__name__} in '{e}' has no record")

    def _sum(self, args: Sequence[sympy.Expr]) -> int:
        """Terms with a negative coefficient are subtracted, after all others are added."""
        positive = [a for a in args if not a.could_extract_minus_sign()]
        negative = [-a for a in args if a.could_extract_minus_sign()]
        if not positive:
            total = self._constant(0)
        else:
            total = self._chain(ExprOp.ADD, [self._add(a) for a in positive])
        return self._chain(ExprOp.SUB, [total, *(self._add(a) for a in negative)])


_Binary: TypeAlias = "Callable[[Any, Any], Any]"

_FROM_RECORD: Final[dict[ExprOp, _Binary]] = {
    ExprOp.ADD: operator.add,
    ExprOp.SUB: operator.sub,
    ExprOp.MUL: operator.mul,
    ExprOp.FLOOR_DIV: FloorDiv,
    ExprOp.MOD: Mod,
    ExprOp.MIN: Min,
    ExprOp.MAX: Max,
}

_EVALUATE: Final[dict[ExprOp, _Binary]] = {
    **_FROM_RECORD,
    ExprOp.FLOOR_DIV: operator.floordiv,
    ExprOp.MOD: operator.mod,
    ExprOp.MIN: min,
    ExprOp.MAX: max,
}


def dims_of(exprs: Sequence[Expr], symbols: Sequence[sympy.Symbol]) -> list[Dim]:
    """The extent that each record stands for.

    Raises:
        IRError: a record refers to itself, to a later one, or to no symbol.
    """
    dims: list[Dim] = []
    for i, expr in enumerate(exprs):
        if expr.op is ExprOp.CONST:
            dims.append(expr.imm)
        elif expr.op is ExprOp.SYMBOL:
            if expr.a >= len(symbols):
                raise IRError(f"expression {i} refers to symbol {expr.a} of {len(symbols)}")
            dims.append(symbols[expr.a])
        else:
            if max(expr.a, expr.b) >= i:
                raise IRError(f"expression {i} refers to {expr.a} and {expr.b}: not earlier ones")
            a, b = sympy.sympify(dims[expr.a]), sympy.sympify(dims[expr.b])
            if expr.op in (ExprOp.FLOOR_DIV, ExprOp.MOD) and b == 0:
                raise IRError(f"expression {i} divides by zero")
            dims.append(simplify_dim(_FROM_RECORD[expr.op](a, b)))
    return dims


class Evaluator:
    """Computes extents for given values of the symbols."""

    def __init__(self, values: Mapping[sympy.Symbol, int]) -> None:
        self._table = ExprTable(values)
        self._symbol_values = list(values.values())
        self._computed: dict[int, int] = {}

    def __call__(self, dim: Dim) -> int:
        """
        Raises:
            IRError: as :meth:`ExprTable.add`, a division by zero, or a result outside 64 bits.
        """
        if isinstance(dim, int):
            return int(dim)
        return self._value(self._table.add(dim))

    def _value(self, index: int) -> int:
        found = self._computed.get(index)
        if found is None:
            found = self._computed[index] = self._compute(self._table.exprs[index])
        return found

    def _compute(self, expr: Expr) -> int:
        if expr.op is ExprOp.CONST:
            return expr.imm
        if expr.op is ExprOp.SYMBOL:
            return self._symbol_values[expr.a]
        a, b = self._value(expr.a), self._value(expr.b)
        if expr.op in (ExprOp.FLOOR_DIV, ExprOp.MOD) and b == 0:
            raise IRError(f"{expr.op.name} of {a} by zero")
        result = int(_EVALUATE[expr.op](a, b))
        if not INT64_MIN <= result <= INT64_MAX:
            raise IRError(f"{expr.op.name} of {a} and {b} does not fit 64 bits")
        return result
