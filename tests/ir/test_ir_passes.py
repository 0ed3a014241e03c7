"""Passes remove what they should, keep what they must, and change no result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_graphs import (
    FLOAT,
    HIDDEN,
    INT,
    PROGRAMS,
    decoder_layer,
    decoder_weights,
    f32,
    float_input,
    i32,
    reshape,
)

from executorch_ggml.ir import passes
from executorch_ggml.ir.graph import Graph, State, StateKind, Value
from executorch_ggml.ir.interpret import interpret
from executorch_ggml.ir.types import DType, TensorType
from executorch_ggml.ir.verify import verify_graph


def ops(graph: Graph) -> list[str]:
    return [call.op.name for call in graph.calls]


def permute(graph: Graph, x: Value, *axes: int) -> Value:
    return graph.call("permute", x, **{f"axis{i}": a for i, a in enumerate(axes)})


def finish(graph: Graph, *values: Value) -> Graph:
    for value in values:
        sizes = [int(d) for d in reversed(value.ne)]
        graph.output(value, FLOAT, sizes)
    verify_graph(graph)
    return graph


def test_equal_calls_become_one() -> None:
    graph = Graph()
    x = float_input(graph, 4, 8)
    a, b = graph.call("rms_norm", x, eps=1e-5), graph.call("rms_norm", x, eps=1e-5)
    c = graph.call("rms_norm", x, eps=1e-6)
    finish(graph, graph.call("add", graph.call("mul", a, b), c))
    assert passes.eliminate_common_subexpressions(graph) == 1
    assert ops(graph) == ["rms_norm", "rms_norm", "mul", "add"]
    verify_graph(graph)


def test_chains_of_equal_calls_become_one() -> None:
    graph = Graph()
    x = float_input(graph, 4, 8)
    sides = [graph.call("unary", graph.call("scale", x, scale=2.0), kind=6) for _ in range(3)]
    finish(graph, graph.call("add", graph.call("add", sides[0], sides[1]), sides[2]))
    assert passes.eliminate_common_subexpressions(graph) == 4
    assert ops(graph) == ["scale", "unary", "add", "add"]


def test_operand_order_and_absent_operands_count() -> None:
    graph = Graph()
    x, y = float_input(graph, 4, 4), float_input(graph, 4, 4)
    a, b = graph.call("sub", x, y), graph.call("sub", y, x)
    c, d = graph.call("soft_max", x), graph.call("soft_max", x, y)
    finish(graph, a, b, c, d)
    assert passes.eliminate_common_subexpressions(graph) == 0


def test_writes_are_never_merged() -> None:
    graph = Graph()
    graph.states.append(
        State(StateKind.KV_CACHE, "kv", None, None, 4, 4, 1, default_capacity=8, max_capacity=8)
    )
    q, k, v = (float_input(graph, 1, 2, 1, 4) for _ in range(3))
    positions = graph.input(i32(2), INT, (2,))
    a, b = (
        graph.call("update_and_attend", q, k, v, positions, state=0, scale=0.5) for _ in range(2)
    )
    finish(graph, graph.call("add", a, b))
    assert passes.eliminate_common_subexpressions(graph) == 0
    assert ops(graph).count("update_and_attend") == 2


def _read_write_read() -> Graph:
    graph = Graph()
    x = float_input(graph, 8)
    state = graph.buffer_state(f32(8), "b")
    before = graph.call("scale", state, scale=2.0)
    again = graph.call("scale", state, scale=2.0)
    graph.call("assign", state, x)
    after = graph.call("scale", state, scale=2.0)
    return finish(graph, graph.call("add", before, again), after)


def test_reads_of_a_state_are_not_merged_across_a_write() -> None:
    graph = _read_write_read()
    assert passes.eliminate_common_subexpressions(graph) == 1
    assert ops(graph) == ["scale", "assign", "scale", "add"]
    states = {"b": torch.ones(1, 1, 1, 8)}
    first, second = interpret(graph, [torch.full((8,), 3.0)], states=states)
    assert torch.equal(first.flatten(), torch.full((8,), 4.0))
    assert torch.equal(second.flatten(), torch.full((8,), 6.0))


def test_reads_through_a_view_of_a_state_are_not_merged_across_a_write() -> None:
    graph = Graph()
    x = float_input(graph, 8)
    state = graph.buffer_state(f32(8), "b")
    seen = reshape(graph, state, 2, 4)
    before = graph.call("scale", seen, scale=2.0)
    graph.call("assign", state, x)
    after = graph.call("scale", seen, scale=2.0)
    finish(graph, before, after)
    assert passes.eliminate_common_subexpressions(graph) == 0


def test_writes_stay_though_unused_and_dead_calls_and_weights_go() -> None:
    graph = Graph()
    x = float_input(graph, 8)
    state = graph.buffer_state(f32(8), "b")
    unused = graph.weight(f32(8), "unused")
    used = graph.weight(f32(8), "used")
    graph.call("mul", x, unused)
    graph.call("assign", state, graph.call("mul", x, used))
    finish(graph, x)
    assert passes.eliminate_dead_code(graph) == 1
    assert ops(graph) == ["mul", "assign"]
    assert [w.keys for w in graph.weights] == [("used",)]
    verify_graph(graph)


def test_reshape_chains_and_no_ops_collapse() -> None:
    graph = Graph()
    x = float_input(graph, 4, 6)
    y = reshape(graph, reshape(graph, reshape(graph, x, 24), 2, 12), 3, 8)
    z = reshape(graph, reshape(graph, x, 8, 3), 4, 6)
    finish(graph, graph.call("unary", y, kind=6), graph.call("unary", z, kind=6))
    assert passes.collapse_views(graph) > 0
    passes.eliminate_dead_code(graph)
    assert ops(graph) == ["reshape", "unary", "unary"]
    assert graph.calls[2].inputs == (x,)
    verify_graph(graph)


def test_permutes_compose_and_cancel() -> None:
    graph = Graph()
    x = float_input(graph, 2, 3, 4, 5)
    turned = permute(graph, permute(graph, x, 1, 2, 0, 3), 0, 3, 1, 2)
    same = permute(graph, permute(graph, x, 1, 2, 0, 3), 2, 0, 1, 3)
    expected = turned.type
    finish(graph, graph.call("cont", turned), graph.call("cont", same))
    before = interpret(graph, [torch.arange(120.0).reshape(2, 3, 4, 5)])
    passes.simplify(graph)
    verify_graph(graph)
    assert ops(graph) == ["permute", "cont", "cont"]
    assert graph.calls[0].outputs[0].type == expected
    after = interpret(graph, [torch.arange(120.0).reshape(2, 3, 4, 5)])
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_copies_of_contiguous_tensors_go_and_needed_copies_stay() -> None:
    graph = Graph()
    x = float_input(graph, 4, 6)
    y = graph.call("cont", graph.call("cast", graph.call("unary", x, kind=6), dtype=DType.F32))
    transposed = graph.call("cont", permute(graph, x, 1, 0, 2, 3))
    half = graph.call("cast", graph.call("cast", x, dtype=DType.F16), dtype=DType.F32)
    finish(graph, graph.call("scale", y), transposed, half)
    assert passes.remove_redundant_copies(graph) == 2
    assert ops(graph) == ["unary", "permute", "cont", "cast", "cast", "scale"]
    verify_graph(graph)


def test_a_copy_of_a_state_and_an_output_of_its_own_stay() -> None:
    graph = Graph()
    x = float_input(graph, 8)
    state = graph.buffer_state(f32(8), "b")
    before = graph.call("cont", state)
    graph.call("assign", state, x)
    finish(graph, graph.call("scale", before), graph.call("cont", x))
    assert passes.remove_redundant_copies(graph) == 0


def test_tied_weights_become_one() -> None:
    graph = Graph()
    x = float_input(graph, 2, 8)
    tied = [graph.weight(TensorType.contiguous(DType.FROM_FILE, [8, 8]), "w") for _ in range(2)]
    other = graph.weight(TensorType.contiguous(DType.FROM_FILE, [8, 8]), "w", "w.old")
    products = [graph.call("mul_mat", w, x) for w in (*tied, other)]
    finish(graph, *products)
    assert passes.merge_equal_weights(graph) == 1
    assert len(graph.weights) == 2
    assert graph.calls[1].inputs[0] is graph.weights[0].value
    verify_graph(graph)


@pytest.mark.parametrize("build", PROGRAMS.values(), ids=PROGRAMS)
def test_simplify_keeps_graphs_legal_and_is_done_at_once(
    build: Callable[..., object],
) -> None:
    graph = build().graphs[0]  # type: ignore[attr-defined]
    passes.simplify(graph)
    verify_graph(graph)
    assert not any(passes.simplify(graph).values())


def test_simplify_keeps_a_decoder_layers_results() -> None:
    weights = decoder_weights()
    x = torch.randn(1, 5, HIDDEN, generator=torch.Generator().manual_seed(1))
    expected = interpret(decoder_layer().graphs[0], [x, torch.arange(5)], weights)
    graph = decoder_layer().graphs[0]
    # What a careless lowering would add: copies, repeated norms, shapes there and back.
    call = next(c for c in graph.calls if c.op.name == "mul")
    index = graph.calls.index(call)
    extra = Graph(calls=[])
    copied = extra.call("cont", call.outputs[0])
    back = reshape(extra, reshape(extra, copied, 1, *copied.ne[1::-1]), *copied.ne[1::-1])
    for later in graph.calls[index + 1 :]:
        later.inputs = tuple(back if v is call.outputs[0] else v for v in later.inputs)
    graph.calls[index + 1 : index + 1] = extra.calls
    verify_graph(graph)
    counts = passes.simplify(graph)
    assert counts["remove_redundant_copies"] == 1
    assert counts["collapse_views"] >= 2
    verify_graph(graph)
    assert ops(graph) == ops(decoder_layer().graphs[0])
    actual = interpret(graph, [x, torch.arange(5)], weights)
    assert torch.equal(actual[0], expected[0])


_STEPS = st.lists(st.sampled_from(["reshape", "permute", "cont", "relu", "add"]), max_size=12)


@settings(max_examples=60, deadline=None)
@given(_STEPS, st.randoms(use_true_random=False))
def test_simplify_changes_no_result(steps: list[str], source: object) -> None:
    graph = Graph()
    values = [float_input(graph, 2, 3, 4)]
    for step in steps:
        x = source.choice(values)  # type: ignore[attr-defined]
        if step == "permute":
            axes = [0, 1, 2, 3]
            source.shuffle(axes)  # type: ignore[attr-defined]
            x = permute(graph, x, *axes)
        elif step == "reshape" and x.type.is_contiguous:
            x = reshape(graph, x, *source.choice([(24,), (2, 12), (2, 3, 4), (4, 3, 2, 1)]))  # type: ignore[attr-defined]
        elif step == "cont":
            x = graph.call("cont", x)
        elif step == "relu" and x.type.has_contiguous_rows:
            x = graph.call("unary", x, kind=6)
        elif step == "add" and x.type.has_contiguous_rows:
            x = graph.call("add", x, x)
        values.append(x)
    finish(graph, *(graph.call("cont", v) for v in values[-3:]))
    inputs = [torch.arange(-12.0, 12.0).reshape(2, 3, 4)]
    before = interpret(graph, inputs)
    n_calls = len(graph.calls)
    passes.simplify(graph)
    verify_graph(graph)
    after = interpret(graph, inputs)
    assert len(graph.calls) <= n_calls
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
