"""The C++ runtime on random IR graphs against the torch references of their calls."""

from __future__ import annotations

from hypothesis import event, given

from executorch_ggml.ir.graph import Program
from executorch_ggml.ir.serialize import to_bytes
from executorch_ggml.ir.text import graph_text
from executorch_ggml.ir.verify import verify_program
from tests.property.checks import assert_same, examples
from tests.property.ir_graphs import RandomGraph, finish, graphs
from tests.property.runner import run_ir


@examples("EXECUTORCH_GGML_IR_GRAPHS", 300)
@given(graphs())
def test_random_graphs_equal_their_references(g: RandomGraph) -> None:
    expected = finish(g)
    if not expected:
        event("no call fitted")
        return
    for call in g.graph.calls:
        event(call.op.name)
    exact = {n.value: n.exact for n in g.nodes}
    program = Program([g.graph], "property")
    verify_program(program)
    actual = run_ir(to_bytes(program), g.inputs, expected)
    for output, found, wanted in zip(g.graph.outputs, actual, expected, strict=True):
        assert_same(
            found, wanted, exact[output.value], lambda text: f"{text}\n{graph_text(g.graph)}"
        )
