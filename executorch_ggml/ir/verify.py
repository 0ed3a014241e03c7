"""Checks a whole program before it is written: structure, types, symbols, state.

:meth:`Graph.call` already refuses ill-typed calls as a graph is built. This says that
nothing broke since, by a pass or by hand, and checks what no single call can see. The
runtime does the same checks on what it reads, and those on concrete sizes besides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import sympy

from executorch_ggml.ir.canonical import UnsupportedExpressionError
from executorch_ggml.ir.graph import (
    Argument,
    Call,
    Graph,
    Program,
    State,
    StateKind,
    SymbolSource,
    Value,
    ValueKind,
)
from executorch_ggml.ir.opset import OPSET, Param, ParamKind
from executorch_ggml.ir.symexpr import Evaluator, ExprTable
from executorch_ggml.ir.types import Dim, DType, IRError, TensorType, dims_equal, product

#: Extents, offsets and capacities stay below this, so that byte counts fit 64 bits.
MAX_EXTENT: Final = 2**40

_INTEGER_SCALARS: Final = {0: "Byte", 1: "Char", 2: "Short", 3: "Int", 4: "Long", 11: "Bool"}
_FLOAT_SCALARS: Final = {5: "Half", 6: "Float", 7: "Double", 15: "BFloat16"}
SCALAR_TYPE_NAMES: Final = {**_INTEGER_SCALARS, **_FLOAT_SCALARS}

_INTEGER_DTYPES: Final = frozenset({DType.I8, DType.I16, DType.I32, DType.I64})


class IRVerifyError(IRError):
    """The program breaks a rule of the IR: a bug in a lowering or a pass."""


def verify_program(program: Program) -> None:
    """
    Raises:
        IRVerifyError: a rule is broken; the text names graph, call and op.
    """
    if not program.graphs:
        raise IRVerifyError("the program has no graph")
    for graph in program.graphs:
        verify_graph(graph)


def verify_graph(graph: Graph) -> None:
    """As :func:`verify_program`, for one graph."""
    _GraphVerifier(graph).verify()


def storage_root(value: Value) -> Value:
    """The value whose memory this one lies in: through views and writes into a state."""
    while value.producer is not None and value.producer.op.is_view:
        source = value.producer.inputs[0]
        if source is None:
            break
        value = source
    return value


def reshaped_input(value: Value) -> Value | None:
    """The program argument that this value is, possibly reshaped; None if it is another."""
    while value.producer is not None and value.producer.op.name == "reshape":
        source = value.producer.inputs[0]
        if source is None:
            return None
        value = source
    return value if value.kind is ValueKind.INPUT else None


def same_type(a: TensorType, b: TensorType) -> bool:
    """Equal element type, extents, and strides where more than one element is spanned."""
    if a.dtype != b.dtype:
        return False
    return all(
        dims_equal(m, n) and (dims_equal(m, 1) or dims_equal(s, t))
        for m, n, s, t in zip(a.ne, b.ne, a.strides, b.strides, strict=True)
    )


class _GraphVerifier:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._where = f"graph '{graph.name}'"
        self._table = ExprTable(s.symbol for s in graph.symbols)
        self._defined: set[Value] = set()
        self._ends: list[Evaluator] = []

    def _fail(self, message: str) -> IRVerifyError:
        return IRVerifyError(f"{self._where}: {message}")

    def _require(self, condition: bool, message: str) -> None:
        if not condition:
            raise self._fail(message)

    def verify(self) -> None:
        try:
            self._symbols()
            for i, argument in enumerate(self._graph.inputs):
                self._input(i, argument)
            self._symbol_sources()
            self._weights()
            self._states()
            for i, call in enumerate(self._graph.calls):
                self._where = f"graph '{self._graph.name}', call {i} ({call.op.name})"
                self._call(call)
            self._where = f"graph '{self._graph.name}'"
            for i, argument in enumerate(self._graph.outputs):
                self._output(i, argument)
        except IRVerifyError:
            raise
        except (IRError, UnsupportedExpressionError) as error:
            raise self._fail(str(error)) from error

    # --- symbols and sizes --------------------------------------------------------------

    def _symbols(self) -> None:
        symbols = self._graph.symbols
        for name, count in Counter(s.name for s in symbols).items():
            self._require(count == 1, f"symbol '{name}' is declared {count} times")
        for s in symbols:
            self._require(bool(s.name), "a symbol has no name")
            self._require(s.min <= s.max, f"symbol '{s.name}': bounds [{s.min}, {s.max}]")
            self._require(s.divisor >= 1, f"symbol '{s.name}': divisor {s.divisor}")
            self._require(
                s.min > -MAX_EXTENT and s.max < MAX_EXTENT,
                f"symbol '{s.name}': bounds [{s.min}, {s.max}] are beyond 2^40",
            )
            if s.source is SymbolSource.INPUT_DIM:
                self._require(s.min >= 0, f"symbol '{s.name}': a size of at least {s.min}")
        self._ends = [
            Evaluator({s.symbol: s.min for s in symbols}),
            Evaluator({s.symbol: s.max for s in symbols}),
        ]

    def _symbol_sources(self) -> None:
        for s in self._graph.symbols:
            what = f"symbol '{s.name}'"
            count = len(self._graph.inputs)
            self._require(0 <= s.input < count, f"{what}: input {s.input} of {count}")
            argument = self._graph.inputs[s.input]
            if s.source is SymbolSource.INPUT_DIM:
                rank = len(argument.sizes)
                self._require(0 <= s.index < rank, f"{what}: dimension {s.index} of {rank}")
                expected = s.offset + s.divisor * s.symbol
                self._require(
                    dims_equal(argument.sizes[s.index], expected),
                    f"{what}: size {argument.sizes[s.index]} of input {s.input} in dimension "
                    f"{s.index} is not {expected}",
                )
            else:
                self._require(
                    argument.scalar_type in _INTEGER_SCALARS,
                    f"{what}: input {s.input} does not hold integers",
                )
                n = product(argument.sizes)
                inside = s.index >= 0 and (not isinstance(n, int) or s.index < n)
                self._require(inside, f"{what}: element {s.index} of {n}")

    def _dim(self, dim: Any, what: str, at_least: int | None = None) -> None:
        """A constant or an expression over declared symbols, within bounds at their ends."""
        self._require(
            (isinstance(dim, int) and not isinstance(dim, bool)) or isinstance(dim, sympy.Expr),
            f"{what} is {dim!r} of type {type(dim).__name__}, expected int or a sympy expression",
        )
        self._table.add(dim)
        if isinstance(dim, int):
            self._require(abs(dim) < MAX_EXTENT, f"{what} is {dim}: beyond 2^40")
            self._require(at_least is None or dim >= at_least, f"{what} is {dim}")

    def _type(self, t: TensorType, what: str) -> None:
        self._require(isinstance(t.dtype, DType), f"{what}: element type {t.dtype!r}")
        self._require(len(t.ne) == 4 and len(t.strides) == 4, f"{what}: expected four extents")
        for i, extent in enumerate(t.ne):
            self._dim(extent, f"{what}: ne[{i}]", at_least=1)
        if t.dtype.is_quantized:
            self._require(
                isinstance(t.ne[0], int) and t.ne[0] % t.dtype.block_size == 0,
                f"{what}: ne[0] = {t.ne[0]} is no multiple of {t.dtype.name}'s block size "
                f"{t.dtype.block_size}",
            )

    def _leaf(self, value: Value, kind: ValueKind, what: str, static: bool = False) -> None:
        self._require(value.kind is kind, f"{what} is a {value.kind.value}, not a {kind.value}")
        self._require(value.producer is None, f"{what} is computed by a call")
        self._require(value not in self._defined, f"{what} is defined twice")
        self._type(value.type, what)
        self._require(value.type.is_contiguous, f"{what} is not contiguous")
        if static:
            self._require(
                all(isinstance(d, int) for d in value.ne), f"{what}: its extents must be constant"
            )
        self._defined.add(value)

    # --- arguments, weights, states ------------------------------------------------------

    def _argument(self, argument: Argument, what: str) -> None:
        for i, size in enumerate(argument.sizes):
            self._dim(size, f"{what}: size {i}", at_least=1)
        elements = product(argument.sizes)
        self._require(
            dims_equal(elements, argument.value.type.n_elements),
            f"{what}: sizes {list(argument.sizes)} hold {elements} elements, its value "
            f"{list(argument.value.ne)} holds {argument.value.type.n_elements}",
        )
        rank = len(argument.sizes)
        self._require(
            not argument.dim_order or sorted(argument.dim_order) == list(range(rank)),
            f"{what}: dim order {list(argument.dim_order)} is no permutation of {rank} dims",
        )
        self._require(
            argument.scalar_type in SCALAR_TYPE_NAMES,
            f"{what}: scalar type {argument.scalar_type} is not supported",
        )
        if argument.value.type.dtype in _INTEGER_DTYPES:
            self._require(
                argument.scalar_type in _INTEGER_SCALARS,
                f"{what}: {SCALAR_TYPE_NAMES[argument.scalar_type]} for a value of "
                f"{argument.value.type.dtype.name} loses values",
            )

    def _input(self, index: int, argument: Argument) -> None:
        what = f"input {index}"
        self._leaf(argument.value, ValueKind.INPUT, what)
        self._require(
            argument.value.type.dtype is not DType.FROM_FILE, f"{what}: element type unknown"
        )
        self._argument(argument, what)

    def _output(self, index: int, argument: Argument) -> None:
        what = f"output {index}"
        value = argument.value
        self._require(value in self._defined, f"{what} is a value that nothing defines")
        self._require(value.type.is_contiguous, f"{what} is not contiguous: end with 'cont'")
        self._argument(argument, what)
        self._require(
            value.type.dtype not in (DType.F32, DType.F16, DType.BF16)
            or argument.scalar_type in _FLOAT_SCALARS,
            f"{what}: {SCALAR_TYPE_NAMES[argument.scalar_type]} from a value of "
            f"{value.type.dtype.name} loses values",
        )

    def _weights(self) -> None:
        for i, weight in enumerate(self._graph.weights):
            what = f"weight {i} ('{weight.keys[0] if weight.keys else ''}')"
            self._require(bool(weight.keys) and all(weight.keys), f"{what} has an empty key")
            self._leaf(weight.value, ValueKind.WEIGHT, what, static=True)

    def _states(self) -> None:
        names = Counter(s.name for s in self._graph.states)
        for i, state in enumerate(self._graph.states):
            what = f"state {i} ('{state.name}')"
            self._require(bool(state.name), f"{what} has no name")
            self._require(names[state.name] == 1, f"{what}: its name is used twice")
            if state.kind is StateKind.BUFFER:
                self._require(state.value is not None, f"{what}: a buffer needs a value")
                assert state.value is not None
                self._leaf(state.value, ValueKind.STATE, what, static=True)
                self._require(
                    state.value.type.dtype is not DType.FROM_FILE, f"{what}: element type unknown"
                )
            else:
                self._kv_state(state, what)

    def _kv_state(self, state: State, what: str) -> None:
        self._require(state.value is None, f"{what}: a cache has no value of its own")
        for name in ("k_head_dim", "v_head_dim", "n_kv_heads", "n_batch", "default_capacity"):
            size = getattr(state, name)
            self._require(0 < size < 2**31, f"{what}: {name} is {size}")
        self._require(0 <= state.window < 2**31, f"{what}: window is {state.window}")
        self._require(
            state.default_capacity <= state.max_capacity < 2**31,
            f"{what}: capacity {state.default_capacity} exceeds the most, {state.max_capacity}",
        )

    # --- calls ------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        op = call.op
        self._require(OPSET.get(op.name) is op, "the op is not in the opset")
        self._require(
            len(call.inputs) == len(op.operands),
            f"{len(call.inputs)} operands, expected {len(op.operands)}",
        )
        for operand, value in zip(op.operands, call.inputs, strict=True):
            if value is None:
                self._require(operand.optional, f"operand '{operand.name}' is missing")
            else:
                self._require(
                    value in self._defined, f"operand '{operand.name}' is used before it is defined"
                )
        self._params(call)
        expected = op.infer([v.type if v is not None else None for v in call.inputs], call.params)
        self._require(
            len(call.outputs) == len(expected),
            f"{len(call.outputs)} results, expected {len(expected)}",
        )
        for i, (value, inferred) in enumerate(zip(call.outputs, expected, strict=True)):
            self._require(
                value.kind is ValueKind.RESULT and value.producer is call,
                f"result {i} belongs to another call",
            )
            self._require(value not in self._defined, f"result {i} is defined twice")
            self._type(value.type, f"result {i}")
            self._require(
                same_type(value.type, inferred),
                f"result {i} is declared {_describe(value.type)}, the op gives "
                f"{_describe(inferred)}",
            )
            self._defined.add(value)
        check = _SPECIAL.get(op.name)
        if check is not None:
            check(self, call)

    def _params(self, call: Call) -> None:
        declared = {p.name for p in call.op.params}
        given = set(call.params)
        self._require(given == declared, f"parameters {sorted(given ^ declared)} do not fit")
        for param in call.op.params:
            self._param(param, call.params[param.name])

    def _param(self, param: Param, value: Any) -> None:
        what = f"parameter '{param.name}'"
        if param.kind is ParamKind.DIM:
            self._dim(value, what)
        elif param.kind is ParamKind.FLOAT:
            number = isinstance(value, (int, float)) and not math.isnan(value)
            self._require(number, f"{what} is {value!r}, expected a number")
        else:
            self._require(isinstance(value, int), f"{what} is {value!r}, expected a constant")
            self._require(abs(value) < MAX_EXTENT, f"{what} is {value}: beyond 2^40")
            if param.kind is ParamKind.BOOL:
                self._require(value in (0, 1), f"{what} is {value}, expected 0 or 1")
            if param.enum is not None:
                allowed = [int(member) for member in param.enum]
                self._require(value in allowed, f"{what} is {value}, expected one of {allowed}")

    def check_view(self, call: Call) -> None:
        """The elements seen lie in the viewed memory, for the least and the greatest sizes."""
        value = call.outputs[0]
        root = storage_root(value)
        offset = _offset_in_root(value)
        for evaluate in self._ends:
            ne = [evaluate(d) for d in value.ne]
            strides = [evaluate(s) for s in value.type.strides]
            first = evaluate(offset)
            last = first + sum((n - 1) * s for n, s in zip(ne, strides, strict=True))
            size = evaluate(root.type.n_elements)
            self._require(
                first >= 0 and min(strides) >= 0 and last < size,
                f"elements {first}..{last} (extents {ne}, strides {strides}) of {size}",
            )

    def check_write(self, call: Call) -> None:
        state = call.inputs[0]
        self._require(
            state is not None and storage_root(state).kind is ValueKind.STATE,
            "operand 'state' is no state of the graph: only states can be written",
        )

    def check_update_and_attend(self, call: Call) -> None:
        index = call.params["state"]
        states = self._graph.states
        self._require(0 <= index < len(states), f"state {index} of {len(states)}")
        state = states[index]
        self._require(state.kind is StateKind.KV_CACHE, f"state '{state.name}' is no cache")
        k, v = call.inputs[1], call.inputs[2]
        assert k is not None
        assert v is not None
        for name, actual, expected in (
            ("key head size", k.ne[0], state.k_head_dim),
            ("value head size", v.ne[0], state.v_head_dim),
            ("heads", k.ne[1], state.n_kv_heads),
        ):
            self._require(
                dims_equal(actual, expected),
                f"{name} {actual} differs from state '{state.name}', which has {expected}",
            )
        for name, value in (("positions", call.inputs[3]), ("sequences", call.inputs[6])):
            self._require(
                value is None or reshaped_input(value) is not None,
                f"operand '{name}' must be a program argument, possibly reshaped: the runtime "
                "reads it before it builds the graph",
            )


def _offset_in_root(value: Value) -> Dim:
    offset: Dim = 0
    while value.producer is not None and value.producer.op.is_view:
        source = value.producer.inputs[0]
        assert source is not None
        if value.producer.op.name == "view":
            offset = offset + value.producer.params["offset"]
        value = source
    return offset


def _describe(t: TensorType) -> str:
    def listed(dims: Sequence[Dim]) -> str:
        return ", ".join(str(d) for d in dims)

    return f"{t.dtype.name}[{listed(t.ne)}] with strides [{listed(t.strides)}]"


_SPECIAL: Final = {
    "view": _GraphVerifier.check_view,
    "set_rows": _GraphVerifier.check_write,
    "assign": _GraphVerifier.check_write,
    "update_and_attend": _GraphVerifier.check_update_and_attend,
}
