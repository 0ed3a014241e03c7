"""Sizes as records: what torch.export writes evaluates, round trips and compares."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
import torch
import torch.utils._sympy.functions as ts
from hypothesis import given, settings
from hypothesis import strategies as st

from executorch_ggml.ir.canonical import floor_div
from executorch_ggml.ir.symexpr import Evaluator, Expr, ExprOp, ExprTable, dims_of
from executorch_ggml.ir.types import IRError, dims_equal

S = sympy.Symbol("s0", integer=True, positive=True)
T = sympy.Symbol("s1", integer=True, positive=True)
SYMBOLS = [S, T]

SAMPLES: list[tuple[Any, Any]] = [
    (S, lambda s, t: s),
    (7, lambda s, t: 7),
    (2 * S + 3 * T - 5, lambda s, t: 2 * s + 3 * t - 5),
    (-S, lambda s, t: -s),
    (S * T * 4, lambda s, t: 4 * s * t),
    (S**3, lambda s, t: s**3),
    (S // 2, lambda s, t: s // 2),
    ((S - 3) // 2 + 1, lambda s, t: (s - 3) // 2 + 1),
    (S % 3, lambda s, t: s % 3),
    (sympy.floor((S + T) / 3), lambda s, t: (s + t) // 3),
    (sympy.ceiling(S / 4), lambda s, t: -(-s // 4)),
    (ts.FloorDiv(S + 1, 2), lambda s, t: (s + 1) // 2),
    (ts.FloorDiv(S, T), lambda s, t: s // t),
    (ts.CleanDiv(S, 2), lambda s, t: s // 2),
    (ts.CeilDiv(S, 3), lambda s, t: -(-s // 3)),
    (ts.Mod(S, 5), lambda s, t: s % 5),
    (ts.PythonMod(S - 9, 5), lambda s, t: (s - 9) % 5),
    (ts.Max(S, T, 4), lambda s, t: max(s, t, 4)),
    (ts.Min(S, 9), lambda s, t: min(s, 9)),
    (sympy.Max(S - 2, 0), lambda s, t: max(s - 2, 0)),
    (ts.CeilToInt(ts.IntTrueDiv(S, 2)), lambda s, t: -(-s // 2)),
    (ts.FloorToInt(ts.IntTrueDiv(S, 3)), lambda s, t: s // 3),
    (ts.TruncToInt(2.0 * S), lambda s, t: 2 * s),
    (ts.TruncToInt(0.5 * S), lambda s, t: s // 2),
    (ts.PowByNatural(S, sympy.Integer(2)), lambda s, t: s * s),
    (ts.ModularIndexing(S, 2, 3), lambda s, t: s // 2 % 3),
]


@pytest.mark.parametrize(("dim", "expected"), SAMPLES, ids=[str(d) for d, _ in SAMPLES])
def test_known_functions_evaluate_and_round_trip(dim: Any, expected: Any) -> None:
    table = ExprTable(SYMBOLS)
    index = table.add(dim)
    back = dims_of(table.exprs, SYMBOLS)[index]
    assert dims_equal(back, dim)
    again = ExprTable(SYMBOLS)
    again.add(back)
    for s in (1, 2, 3, 7, 10):
        for t in (1, 4, 5):
            evaluate = Evaluator({S: s, T: t})
            assert evaluate(dim) == evaluate(back) == expected(s, t)


@pytest.mark.parametrize(
    ("dim", "message"),
    [
        (sympy.sqrt(S), "exponent"),
        (S / 2, "no integer"),
        (sympy.sin(S), "sin"),
        (ts.TruncToInt(ts.IntTrueDiv(S - 3, 2)), "may be negative"),
        (ts.RoundToInt(ts.IntTrueDiv(S, 2)), "RoundToInt"),
        (sympy.Symbol("unknown", integer=True), "'unknown' is not declared"),
        (2**63, "64 bits"),
        (sympy.Integer(2) ** 70 * S, "64 bits"),
    ],
    ids=str,
)
def test_others_are_refused_by_name(dim: Any, message: str) -> None:
    with pytest.raises(IRError, match=message):
        ExprTable(SYMBOLS).add(dim)


def test_equal_records_are_stored_once() -> None:
    table = ExprTable(SYMBOLS)
    assert table.add(S * 64) == table.add(sympy.Integer(64) * S)
    before = len(table.exprs)
    table.add(S * 64 + 64)
    assert len(table.exprs) == before + 1


def test_evaluation_reports_overflow_and_division_by_zero() -> None:
    evaluate = Evaluator({S: 2**40, T: 0})
    with pytest.raises(IRError, match="64 bits"):
        evaluate(S * S)
    with pytest.raises(IRError, match="zero"):
        evaluate(ts.FloorDiv(S, T))


@pytest.mark.parametrize(
    "exprs",
    [
        [Expr(ExprOp.ADD, a=0, b=0)],
        [Expr(ExprOp.CONST, imm=1), Expr(ExprOp.ADD, a=0, b=2)],
        [Expr(ExprOp.SYMBOL, a=2)],
        [Expr(ExprOp.CONST), Expr(ExprOp.FLOOR_DIV, a=0, b=0)],
    ],
    ids=["itself", "later", "no symbol", "by zero"],
)
def test_forged_records_are_refused(exprs: list[Expr]) -> None:
    with pytest.raises(IRError):
        dims_of(exprs, SYMBOLS)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((S - 3) // 2 + 1, ts.FloorDiv(S - 1, 2)),
        (sympy.ceiling(S / 2), ts.FloorDiv(S + 1, 2)),
        (ts.FloorDiv(2 * S + 2, 4), ts.FloorDiv(S + 1, 2)),
        (2 * ts.Mod(S, 2) + 4 * ts.FloorDiv(S, 2), 2 * S),
        (sympy.Max(S, 1), ts.Max(1, S)),
        (S * (T + 1), S * T + S),
        (floor_div(S - 3, 2) + 1, floor_div(S - 1, 2)),
    ],
    ids=str,
)
def test_the_same_size_written_differently_is_equal(a: Any, b: Any) -> None:
    assert dims_equal(a, b)


@pytest.mark.parametrize(
    ("a", "b"), [(S, S + 1), (S, T), (ts.FloorDiv(S, 2), ts.FloorDiv(S + 1, 2)), (S, 3)], ids=str
)
def test_different_sizes_are_not_equal(a: Any, b: Any) -> None:
    assert not dims_equal(a, b)


def _expressions() -> st.SearchStrategy[Any]:
    leaves = st.one_of(st.sampled_from(SYMBOLS), st.integers(-20, 20).map(sympy.Integer))

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        divisor = st.integers(1, 9).map(sympy.Integer)
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: p[0] + p[1]),
            pair.map(lambda p: p[0] - p[1]),
            pair.map(lambda p: p[0] * p[1]),
            pair.map(lambda p: ts.Max(*p)),
            pair.map(lambda p: ts.Min(*p)),
            st.tuples(inner, divisor).map(lambda p: ts.FloorDiv(*p)),
            st.tuples(inner, divisor).map(lambda p: ts.PythonMod(*p)),
        )

    return st.recursive(leaves, grow, max_leaves=6)


@settings(max_examples=60, deadline=None)
@given(_expressions(), st.integers(1, 50), st.integers(1, 50))
def test_records_mean_what_sympy_means(e: Any, s: int, t: int) -> None:
    table = ExprTable(SYMBOLS)
    index = table.add(e)
    back = dims_of(table.exprs, SYMBOLS)[index]
    expected = int(sympy.sympify(e).subs({S: s, T: t}))
    evaluate = Evaluator({S: s, T: t})
    assert evaluate(e) == evaluate(back) == expected
    assert dims_equal(e, back)


def test_sizes_of_an_exported_convolution_are_understood() -> None:
    """The size that torch.export infers equals the shape rule's."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 5, 3, stride=2, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x)
            return torch.nn.functional.interpolate(y, scale_factor=2.0)

    from executorch_ggml.ir.graph import Graph
    from executorch_ggml.ir.types import DType, TensorType

    with torch.backends.mkldnn.flags(enabled=False):
        width = torch.export.Dim("width", min=8, max=64)
        program = torch.export.export(
            Net(), (torch.randn(1, 3, 8, 16),), dynamic_shapes={"x": {3: width}}
        )
    shapes = {n.name: n.meta["val"].shape for n in program.graph.nodes if "val" in n.meta}
    (symbol,) = {d.node.expr for d in shapes["x"] if isinstance(d, torch.SymInt)}
    graph = Graph()
    x = graph.input(TensorType.contiguous(DType.F32, [symbol, 8, 3, 1]), 6, (1, 3, 8, symbol))
    kernel = graph.weight(TensorType.contiguous(DType.F32, [3, 3, 3, 5]), "kernel")
    y = graph.call("conv_2d", kernel, x, stride0=2, stride1=2, padding0=1, padding1=1)
    exported = shapes["conv2d"][3].node.expr
    assert dims_equal(y.ne[0], exported)
    output = next(n for n in program.graph.nodes if n.op == "output").args[0][0].meta["val"]
    assert Evaluator({symbol: 17})(output.shape[3].node.expr) == 18
