"""The text form is stable: a change of it is a change that a reviewer sees.

After a wanted change, write the goldens anew:
``EXECUTORCH_GGML_UPDATE_GOLDENS=1 pytest tests/ir/test_ir_text.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import sympy
import torch.utils._sympy.functions as ts
from ir_graphs import FLOAT, PROGRAMS, float_input, sequence_symbol

from executorch_ggml.ir.graph import Graph, Program
from executorch_ggml.ir.text import graph_text, program_text, type_text
from executorch_ggml.ir.types import DType, TensorType

_GOLDENS = Path(__file__).parent / "goldens"


@pytest.mark.parametrize("name", PROGRAMS)
def test_goldens(name: str) -> None:
    build: Callable[[], Program] = PROGRAMS[name]
    path = _GOLDENS / f"{name}.txt"
    text = program_text(build())
    if os.environ.get("EXECUTORCH_GGML_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_sizes_read_the_same_however_they_are_spelled() -> None:
    s = sympy.Symbol("s0", integer=True, positive=True)
    for size in (sympy.floor(s / 2), ts.FloorDiv(s, 2), s // 2, ts.FloorToInt(ts.IntTrueDiv(s, 2))):
        assert type_text(TensorType.contiguous(DType.F32, [size])) == "f32[s0 // 2, 1, 1, 1]"


def test_strides_show_only_where_they_matter() -> None:
    t = TensorType(DType.F16, (2, 3, 1, 1), (3, 1, 6, 6))
    assert type_text(t) == "f16[2, 3, 1, 1] strides [3, 1, 6, 6]"


def test_parameters_absent_operands_and_enums() -> None:
    graph = Graph()
    s = sequence_symbol(graph, 0, 0)
    x = float_input(graph, s, 8)
    x = graph.call("soft_max", x, None, scale=0.125)
    x = graph.call("unary", x, kind=16)
    x = graph.call("cast", x, dtype=DType.F16)
    x = graph.call("clamp", graph.call("cast", x, dtype=0), min=float("-inf"), max=6.0)
    graph.output(x, FLOAT, (s, 8))
    text = graph_text(graph)
    assert "= soft_max(%in0, scale=0.125)" in text
    assert "= unary(%0, kind=gelu_erf)" in text
    assert "%2: f16[8, s0, 1, 1] = cast(%1, dtype=f16)" in text
    assert "= clamp(%3, min=-inf, max=6)" in text
