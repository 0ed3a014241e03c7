"""The verifier takes good graphs and refuses each kind of bad one, saying where."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import sympy
from ir_graphs import FLOAT, HALF, INT, LONG, PROGRAMS, decoder_layer, f32, float_input, i32
from ir_graphs import reshape as to_sizes

from executorch_ggml.ir.graph import (
    Call,
    Graph,
    Program,
    State,
    StateKind,
    Symbol,
    SymbolSource,
    Value,
    ValueKind,
)
from executorch_ggml.ir.opset import OPSET
from executorch_ggml.ir.types import DType, TensorType
from executorch_ggml.ir.verify import IRVerifyError, storage_root, verify_graph, verify_program


@pytest.mark.parametrize("build", PROGRAMS.values(), ids=PROGRAMS)
def test_good_programs_pass(build: Callable[[], Program]) -> None:
    verify_program(build())


def _swap_first_calls(g: Graph) -> None:
    g.calls[0], g.calls[1] = g.calls[1], g.calls[0]


def _repeat_call(g: Graph) -> None:
    g.calls.insert(1, g.calls[0])


def _replace_state(**changes: Any) -> Callable[[Graph], None]:
    def edit(g: Graph) -> None:
        g.states[0] = dataclasses.replace(g.states[0], **changes)

    return edit


def _replace_symbol(**changes: Any) -> Callable[[Graph], None]:
    def edit(g: Graph) -> None:
        g.symbols[0] = dataclasses.replace(g.symbols[0], **changes)

    return edit


def _replace_output(**changes: Any) -> Callable[[Graph], None]:
    def edit(g: Graph) -> None:
        g.outputs[0] = dataclasses.replace(g.outputs[0], **changes)

    return edit


def _replace_input(index: int, **changes: Any) -> Callable[[Graph], None]:
    def edit(g: Graph) -> None:
        g.inputs[index] = dataclasses.replace(g.inputs[index], **changes)

    return edit


def _find(g: Graph, op: str) -> Call:
    return next(c for c in g.calls if c.op.name == op)


def _param(op: str, **changes: Any) -> Callable[[Graph], None]:
    def edit(g: Graph) -> None:
        _find(g, op).params.update(changes)

    return edit


def _drop_param(g: Graph) -> None:
    del _find(g, "rope").params["mode"]


def _declare_other_extent(g: Graph) -> None:
    g.calls[0].outputs[0].type = f32(32, 2)


def _declare_other_dtype(g: Graph) -> None:
    result = g.calls[0].outputs[0]
    result.type = result.type.with_dtype(DType.F16)


def _declare_other_strides(g: Graph) -> None:
    result = g.calls[0].outputs[0]
    result.type = dataclasses.replace(result.type, strides=(1, 128, 128, 128))


def _foreign_operand(g: Graph) -> None:
    other = Value(g.inputs[0].value.type, ValueKind.INPUT)
    g.calls[0].inputs = (other,)


def _missing_operand(g: Graph) -> None:
    call = _find(g, "mul_mat")
    call.inputs = (call.inputs[0], None)


def _extra_operand(g: Graph) -> None:
    g.calls[0].inputs = (*g.calls[0].inputs, None)


def _no_result(g: Graph) -> None:
    g.calls[0].outputs = ()


def _stolen_result(g: Graph) -> None:
    g.calls[0].outputs[0].producer = g.calls[1]


def _other_op_object(g: Graph) -> None:
    g.calls[0].op = dataclasses.replace(OPSET["rms_norm"], code=9999)


def _computed_positions(g: Graph) -> None:
    call = _find(g, "update_and_attend")
    q, k, v, positions, *rest = call.inputs
    assert positions is not None
    copied = Call(OPSET["cont"], (positions,), {})
    copied.outputs = (Value(positions.type, ValueKind.RESULT, copied),)
    g.calls.insert(0, copied)
    call.inputs = (q, k, v, copied.outputs[0], *rest)


def _weight_without_key(g: Graph) -> None:
    g.weights[0] = dataclasses.replace(g.weights[0], keys=())


def _weight_of_symbolic_size(g: Graph) -> None:
    g.weight(f32(g.symbols[0].symbol), "extra")


def _quantized_rows_of_odd_length(g: Graph) -> None:
    g.weight(TensorType.contiguous(DType.Q8_0, [33, 2]), "odd")


def _undeclared_symbol(g: Graph) -> None:
    g.symbols.clear()


def _symbol_twice(g: Graph) -> None:
    g.symbols.append(g.symbols[0])


def _weight_twice(g: Graph) -> None:
    g.weights.append(g.weights[0])


def _state_name_twice(g: Graph) -> None:
    g.states.append(g.states[0])


def _buffer_for_cache(g: Graph) -> None:
    g.states[0] = State(StateKind.BUFFER, "b", Value(f32(4), ValueKind.STATE))


def _zero_extent(g: Graph) -> None:
    g.weight(f32(4, 0), "empty")


def _huge_extent(g: Graph) -> None:
    g.weight(f32(2**41), "huge")


MALFORMED: dict[str, tuple[Callable[[Graph], None], str]] = {
    "use before definition": (_swap_first_calls, r"call 0 \(mul\).*'a' is used before"),
    "call twice": (_repeat_call, r"call 1 \(rms_norm\).*defined twice"),
    "operand of another graph": (_foreign_operand, r"call 0.*used before it is defined"),
    "operand missing": (_missing_operand, r"mul_mat.*'x' is missing"),
    "operand too many": (_extra_operand, r"2 operands, expected 1"),
    "no result": (_no_result, r"0 results, expected 1"),
    "result of another call": (_stolen_result, r"belongs to another call"),
    "unknown op": (_other_op_object, r"not in the opset"),
    "wrong extent": (_declare_other_extent, r"call 0.*declared F32\[32, 2"),
    "wrong dtype": (_declare_other_dtype, r"call 0.*declared F16"),
    "wrong strides": (_declare_other_strides, r"call 0.*strides"),
    "parameter missing": (_drop_param, r"rope.*parameters \['mode'\]"),
    "parameter unknown": (_param("rope", extra=1), r"parameters \['extra'\]"),
    "enum value": (_param("rope", mode=7), r"'mode' is 7, expected one of"),
    "not a number": (_param("rms_norm", eps=math.nan), r"'eps' is nan"),
    "symbol for a constant": (_param("rope", n_dims=sympy.Symbol("s0")), r"expected a constant"),
    "bool value": (_param("update_and_attend", causal=3), r"'causal' is 3"),
    "text for an extent": (_param("reshape", ne0="64"), r"'ne0' is '64' of type str"),
    "reshape of other size": (_param("reshape", ne0=17), r"cannot reshape"),
    "rope over too many dims": (_param("rope", n_dims=18), r"exceeds the head size"),
    "no such state": (_param("update_and_attend", state=1), r"state 1 of 1"),
    "state is no cache": (_buffer_for_cache, r"'b' is no cache"),
    "cache of other heads": (_replace_state(n_kv_heads=4), r"heads 2 differs.*has 4"),
    "cache of other head size": (_replace_state(v_head_dim=8), r"value head size"),
    "cache without rows": (_replace_state(default_capacity=0), r"default_capacity is 0"),
    "cache beyond its most": (_replace_state(default_capacity=4096), r"exceeds the most"),
    "state without name": (_replace_state(name=""), r"has no name"),
    "state name twice": (_state_name_twice, r"used twice"),
    "computed positions": (_computed_positions, r"'positions' must be a program argument"),
    "bounds reversed": (_replace_symbol(min=9, max=3), r"bounds \[9, 3\]"),
    "negative size": (_replace_symbol(min=-1), r"a size of at least -1"),
    "divisor zero": (_replace_symbol(divisor=0), r"divisor 0"),
    "symbol of no input": (_replace_symbol(input=7), r"input 7 of 2"),
    "symbol of no dim": (_replace_symbol(index=3), r"dimension 3 of 3"),
    "symbol of another dim": (_replace_symbol(index=2), r"size 64 of input 0.*is not s0"),
    "symbol of a float element": (
        _replace_symbol(source=SymbolSource.INPUT_ELEMENT),
        r"does not hold integers",
    ),
    "symbol undeclared": (_undeclared_symbol, r"'s0' is not declared"),
    "symbol twice": (_symbol_twice, r"declared 2 times"),
    "output sizes": (_replace_output(sizes=(1, 2, 3)), r"output 0: sizes \[1, 2, 3\]"),
    "output dim order": (_replace_output(dim_order=(0, 0, 1)), r"no permutation"),
    "output as integers": (_replace_output(scalar_type=LONG), r"Long from a value of F32"),
    "output undefined": (
        _replace_output(value=Value(f32(4), ValueKind.RESULT)),
        r"value that nothing defines",
    ),
    "input sizes": (_replace_input(1, sizes=(4,)), r"input 1: sizes"),
    "input type": (_replace_input(1, scalar_type=HALF), r"Half for a value of I32"),
    "input scalar type": (_replace_input(0, scalar_type=99), r"scalar type 99"),
    "weight without key": (_weight_without_key, r"empty key"),
    "weight twice": (_weight_twice, r"defined twice"),
    "weight of unknown size": (_weight_of_symbolic_size, r"must be constant"),
    "weight of torn blocks": (_quantized_rows_of_odd_length, r"block size 32"),
    "extent zero": (_zero_extent, r"ne\[1\] is 0"),
    "extent huge": (_huge_extent, r"beyond 2\^40"),
}


@pytest.mark.parametrize(("edit", "message"), MALFORMED.values(), ids=MALFORMED)
def test_bad_graphs_are_refused(edit: Callable[[Graph], None], message: str) -> None:
    program = decoder_layer()
    edit(program.graphs[0])
    with pytest.raises(IRVerifyError, match=rf"graph 'forward'.*{message}"):
        verify_program(program)


def test_an_empty_program_is_refused() -> None:
    with pytest.raises(IRVerifyError, match="no graph"):
        verify_program(Program([]))


def _viewed(**changes: Any) -> Graph:
    graph = Graph()
    s = sympy.Symbol("s0", integer=True, positive=True)
    graph.symbols.append(Symbol(s, 2, 8, SymbolSource.INPUT_DIM, 0, 0))
    x = float_input(graph, s, 4)
    params: dict[str, Any] = {"ne0": 2, "ne1": s, "ne2": 1, "ne3": 1, "offset": 2}
    params |= {"stride1": 4, "stride2": 4 * s, "stride3": 4 * s} | changes
    y = graph.call("view", x, **params)
    graph.output(graph.call("cont", y), FLOAT, (s, 2))
    return graph


def test_views_stay_in_their_tensor() -> None:
    verify_graph(_viewed())
    for change in ({"offset": 3}, {"offset": -1}, {"stride1": 5}, {"ne1": 9}):
        graph = _viewed(**change)
        with pytest.raises(IRVerifyError, match=r"call 0 \(view\)"):
            verify_graph(graph)


def test_a_view_of_a_view_counts_from_the_first() -> None:
    def build(offset: int) -> Graph:
        graph = Graph()
        x = float_input(graph, 10)
        rest = {"ne1": 1, "ne2": 1, "ne3": 1, "stride1": 10, "stride2": 10, "stride3": 10}
        y = graph.call("view", x, ne0=4, offset=6, **rest)
        z = graph.call("view", y, ne0=2, offset=offset, **rest)
        graph.output(graph.call("cont", z), FLOAT, (2,))
        return graph

    verify_graph(build(2))
    with pytest.raises(IRVerifyError, match=r"9\.\.10"):
        verify_graph(build(3))


def test_only_states_can_be_written() -> None:
    graph = Graph()
    x = float_input(graph, 4)
    graph.output(graph.call("assign", x, x), FLOAT, (4,))
    with pytest.raises(IRVerifyError, match=r"call 0 \(assign\).*no state of the graph"):
        verify_graph(graph)
    graph = Graph()
    x = float_input(graph, 4)
    state = graph.buffer_state(f32(2, 2), "b")
    graph.call("assign", to_sizes(graph, state, 4), x)
    verify_graph(graph)


def test_outputs_are_contiguous() -> None:
    graph = Graph()
    x = float_input(graph, 2, 3)
    y = graph.call("permute", x, axis0=1, axis1=0, axis2=2, axis3=3)
    graph.output(y, FLOAT, (3, 2))
    with pytest.raises(IRVerifyError, match="end with 'cont'"):
        verify_graph(graph)


def test_element_symbols_are_inside_their_input() -> None:
    def build(index: int) -> Graph:
        graph = Graph()
        p = sympy.Symbol("u0", integer=True)
        graph.symbols.append(Symbol(p, 0, 9, SymbolSource.INPUT_ELEMENT, 0, index))
        ids = graph.input(i32(3), INT, (3,))
        graph.output(ids, INT, (3,))
        return graph

    verify_graph(build(2))
    with pytest.raises(IRVerifyError, match="element 3 of 3"):
        verify_graph(build(3))


def test_storage_root_looks_through_views_and_writes() -> None:
    graph = Graph()
    x = float_input(graph, 4)
    state = graph.buffer_state(f32(4), "b")
    written = graph.call("assign", state, x)
    assert storage_root(to_sizes(graph, written, 2, 2)) is state
    copied = graph.call("cont", written)
    assert storage_root(copied) is copied
