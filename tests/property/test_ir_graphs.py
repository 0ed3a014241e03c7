"""The C++ runtime on random IR graphs against the torch references of their calls."""

from __future__ import annotations

import os

import torch
from hypothesis import HealthCheck, event, given, settings

from executorch_ggml.ir.graph import Program
from executorch_ggml.ir.serialize import to_bytes
from executorch_ggml.ir.text import graph_text
from executorch_ggml.ir.verify import verify_program
from tests.property.ir_graphs import RandomGraph, finish, graphs
from tests.property.runner import run_ir

#: Errors grow through a few calls of slope up to 10; what is exact must be equal.
TOLERANCE = 1e-3

EXAMPLES = int(os.environ.get("EXECUTORCH_GGML_IR_GRAPHS", "300"))


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="EXECUTORCH_GGML_SEED" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(graphs())
def test_random_graphs_equal_their_references(g: RandomGraph) -> None:
    expected = finish(g)
    if not expected:
        event("no call fitted")
        return
    for call in g.graph.calls:
        event(call.op.name)
    exact = [n.exact for n in g.nodes]
    by_value = {n.value: n.exact for n in g.nodes}
    assert len(exact) >= len(expected)
    program = Program([g.graph], "property")
    verify_program(program)
    actual = run_ir(to_bytes(program), g.inputs, expected)
    for output, found, wanted in zip(g.graph.outputs, actual, expected, strict=True):
        tolerance = 0.0 if by_value[output.value] else TOLERANCE
        scale = max(1.0, float(wanted.abs().max()))
        torch.testing.assert_close(
            found,
            wanted,
            rtol=tolerance,
            atol=tolerance * scale,
            equal_nan=True,
            msg=lambda text: f"{text}\n{graph_text(g.graph)}",
        )
