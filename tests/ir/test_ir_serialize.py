"""Bytes and back: nothing lost, nothing wasted, nothing damaged taken."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_graphs import FLOAT, HIDDEN, PROGRAMS, decoder_layer, f32, float_input, reshape

from executorch_ggml.ir import serialize
from executorch_ggml.ir.graph import Graph, Program
from executorch_ggml.ir.opset import OPSET_VERSION
from executorch_ggml.ir.serialize import from_bytes, to_bytes
from executorch_ggml.ir.text import program_text
from executorch_ggml.ir.types import DType, IRError, TensorType
from executorch_ggml.ir.verify import verify_program


@pytest.mark.parametrize("build", PROGRAMS.values(), ids=PROGRAMS)
def test_round_trip_is_exact(build: Callable[[], Program]) -> None:
    program = build()
    blob = to_bytes(program)
    back = from_bytes(blob)
    verify_program(back)
    assert program_text(back) == program_text(program)
    assert to_bytes(back) == blob
    for before, after in zip(program.graphs[0].values(), back.graphs[0].values(), strict=True):
        assert str(before.type.strides) == str(after.type.strides)


def test_several_graphs_and_names_survive() -> None:
    program = Program([decoder_layer().graphs[0], decoder_layer().graphs[0]], "both", "maker")
    program.graphs[1].name = "second"
    back = from_bytes(to_bytes(program))
    assert [g.name for g in back.graphs] == ["forward", "second"]
    assert (back.program_id, back.producer) == ("both", "maker")


def test_debug_handles_enums_and_optional_operands_survive() -> None:
    graph = Graph()
    x = float_input(graph, 4, 8)
    y = graph.call("soft_max", x, None, debug_handle=77)
    y = graph.call("unary", y, kind=10)
    graph.output(y, FLOAT, (4, 8), dim_order=(1, 0))
    back = from_bytes(to_bytes(Program([graph]))).graphs[0]
    assert back.calls[0].debug_handle == 77
    assert back.calls[0].inputs[1] is None
    assert back.calls[1].params["kind"] == 10
    assert back.outputs[0].dim_order == (1, 0)


def _layers(n: int) -> Program:
    graph = Graph()
    x = float_input(graph, 1, HIDDEN)
    for i in range(n):
        w = graph.weight(TensorType.contiguous(DType.FROM_FILE, [HIDDEN, HIDDEN]), f"w{i}")
        y = graph.call("unary", graph.call("mul_mat", w, x), kind=10)
        y = reshape(graph, y, HIDDEN, 1)
        y = reshape(graph, y, 1, HIDDEN)
        x = graph.call("add", x, graph.call("scale", y, scale=0.5, bias=0.0))
    graph.output(x, FLOAT, (1, HIDDEN))
    return Program([graph])


def test_a_call_takes_at_most_100_bytes() -> None:
    """Weight names included: 28 layers of a language model must fit into 213 KB."""
    few, many = _layers(10), _layers(110)
    calls = len(many.graphs[0].calls) - len(few.graphs[0].calls)
    assert (len(to_bytes(many)) - len(to_bytes(few))) / calls <= 100


def test_a_newer_opset_is_refused_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialize, "_needed_opset", lambda program: 99)
    with pytest.raises(IRError, match=rf"opset 99.*up to {OPSET_VERSION}"):
        from_bytes(to_bytes(decoder_layer()))


def test_unknown_features_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(serialize, "KNOWN_FEATURES", 2)
        blob = to_bytes(decoder_layer())
    with pytest.raises(IRError, match="0x2"):
        from_bytes(blob)


@pytest.mark.parametrize("blob", [b"", b"EGGM", b"\0" * 64, b"\x10\0\0\0GGUF" + b"\0" * 64])
def test_other_files_are_refused(blob: bytes) -> None:
    with pytest.raises(IRError, match="not a ggml program"):
        from_bytes(blob)


def test_damaged_programs_give_an_ir_error_and_nothing_else() -> None:
    blob = to_bytes(decoder_layer())
    source = random.Random(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(blob)
        for _ in range(source.randint(1, 4)):
            damaged[source.randrange(8, len(damaged))] = source.randrange(256)
        if source.random() < 0.2:
            del damaged[source.randrange(8, len(damaged)) :]
        try:
            verify_program(from_bytes(bytes(damaged)))
        except IRError:
            refused += 1
    assert refused > 100


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=4, max_size=4),
    st.permutations(range(4)),
    st.text(min_size=1, max_size=12).filter(lambda s: s.isprintable()),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_view_chain_round_trips(
    ne: list[int], axes: list[int], key: str, factor: float
) -> None:
    graph = Graph()
    w = graph.weight(f32(*ne), key)
    y = graph.call("permute", w, **{f"axis{i}": a for i, a in enumerate(axes)})
    y = graph.call("scale", graph.call("cont", y), scale=factor)
    graph.output(y, FLOAT, tuple(reversed([int(d) for d in y.ne])))
    program = Program([graph])
    back = from_bytes(to_bytes(program))
    assert program_text(back) == program_text(program)
    assert [v.type for v in back.graphs[0].values()] == [v.type for v in graph.values()]
    assert back.graphs[0].calls[-1].params["scale"] == factor
