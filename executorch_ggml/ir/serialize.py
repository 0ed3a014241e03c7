"""Programs as bytes (``schema.fbs``) and back.

Written once each: equal expressions, equal number vectors, equal strings. Optional
inputs that are absent at the end of a call are dropped. Strides are not stored: the
shape rules give them again, and the stored extents must agree with what they give.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import flatbuffers
import sympy

from executorch_ggml.ir._schema import schema_generated
from executorch_ggml.ir.graph import (
    Argument,
    Call,
    Graph,
    Program,
    State,
    StateKind,
    Symbol,
    SymbolSource,
    Value,
    ValueKind,
    Weight,
)
from executorch_ggml.ir.opset import OPS_BY_CODE, OPSET_VERSION, OpDef, Param, ParamKind
from executorch_ggml.ir.symexpr import Expr, ExprOp, ExprTable, dims_of
from executorch_ggml.ir.types import Dim, DType, IRError, TensorType, extents_equal

__all__ = ["ABSENT", "FILE_IDENTIFIER", "KNOWN_FEATURES", "from_bytes", "to_bytes"]

FILE_IDENTIFIER: Final = b"EGGM"
#: Bits of ``required_features`` that this reader understands: none are assigned yet.
KNOWN_FEATURES: Final = 0
#: An absent optional input, or a state without a value.
ABSENT: Final = 2**32 - 1

_T = TypeVar("_T")
# Generated code without annotations.
_fb: Any = schema_generated
_Offset = Any

# --- writing -----------------------------------------------------------------------------


class _Writer:
    def __init__(self) -> None:
        self.builder: Any = flatbuffers.Builder(4096)
        self._vectors: dict[tuple[Any, ...], _Offset] = {}

    def string(self, text: str) -> _Offset:
        return self.builder.CreateSharedString(text)

    def numbers(self, kind: str, size: int, values: Sequence[int | float]) -> _Offset | None:
        """A shared vector of ``Uint32``, ``Uint8`` or ``Float64``; None if empty."""
        if not values:
            return None
        # By bytes, so that 0.0 and -0.0 stay apart.
        packed = tuple(struct.pack("<d", v) if kind == "Float64" else v for v in values)
        key = (kind, *packed)
        if key not in self._vectors:
            prepend = getattr(self.builder, f"Prepend{kind}")
            self.builder.StartVector(size, len(values), size)
            for value in reversed(values):
                prepend(value)
            self._vectors[key] = self.builder.EndVector()
        return self._vectors[key]

    def u32(self, values: Sequence[int]) -> _Offset | None:
        return self.numbers("Uint32", 4, values)

    def offsets(self, offsets: Sequence[_Offset]) -> _Offset | None:
        if not offsets:
            return None
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return self.builder.EndVector()

    def structs(
        self, items: Sequence[_T], size: int, alignment: int, write: Callable[[_T], object]
    ) -> _Offset | None:
        if not items:
            return None
        self.builder.StartVector(size, len(items), alignment)
        for item in reversed(items):
            write(item)
        return self.builder.EndVector()

    def table(self, name: str, **fields: Any) -> _Offset:
        """Fields that are None are left out."""
        getattr(_fb, f"{name}Start")(self.builder)
        for field, value in fields.items():
            if value is not None:
                getattr(_fb, f"{name}Add{field}")(self.builder, value)
        return getattr(_fb, f"{name}End")(self.builder)


class _GraphWriter:
    def __init__(self, writer: _Writer, graph: Graph) -> None:
        self._w = writer
        self._graph = graph
        self._table = ExprTable(s.symbol for s in graph.symbols)
        self._values = list(graph.values())
        self._ids = {value: i for i, value in enumerate(self._values)}

    def _id(self, value: Value) -> int:
        found = self._ids.get(value)
        if found is None:
            raise IRError(f"graph '{self._graph.name}': a value is used but not defined")
        return found

    def _argument(self, argument: Argument) -> _Offset:
        sizes = self._w.u32([self._table.add(d) for d in argument.sizes])
        dim_order = self._w.numbers("Uint8", 1, argument.dim_order)
        return self._w.table(
            "Argument",
            Value=self._id(argument.value),
            ScalarType=argument.scalar_type,
            Sizes=sizes,
            DimOrder=dim_order,
        )

    def _symbol(self, symbol: Symbol) -> _Offset:
        return self._w.table(
            "Symbol",
            Name=self._w.string(symbol.name),
            Min=symbol.min,
            Max=symbol.max,
            Source=int(symbol.source),
            Input=symbol.input,
            Index=symbol.index,
            Offset=symbol.offset,
            Divisor=symbol.divisor,
        )

    def _weight(self, weight: Weight) -> _Offset:
        keys = self._w.offsets([self._w.string(key) for key in weight.keys])
        return self._w.table("Weight", Value=self._id(weight.value), Keys=keys)

    def _state(self, state: State) -> _Offset:
        name = self._w.string(state.name)
        init_key = self._w.string(state.init_key) if state.init_key is not None else None
        return self._w.table(
            "State",
            Kind=int(state.kind),
            Name=name,
            Value=self._id(state.value) if state.value is not None else ABSENT,
            InitKey=init_key,
            KHeadDim=state.k_head_dim,
            VHeadDim=state.v_head_dim,
            NKvHeads=state.n_kv_heads,
            NBatch=state.n_batch,
            Window=state.window,
            DefaultCapacity=state.default_capacity,
            MaxCapacity=state.max_capacity,
        )

    def _call(self, call: Call) -> _Offset:
        inputs = [ABSENT if v is None else self._id(v) for v in call.inputs]
        while inputs and inputs[-1] == ABSENT:
            inputs.pop()
        ints = [self._table.add(_as_dim(call.params[p.name])) for p in call.op.int_params]
        floats = [float(call.params[p.name]) for p in call.op.float_params]
        return self._w.table(
            "Call",
            Inputs=self._w.u32(inputs),
            Ints=self._w.u32(ints),
            Floats=self._w.numbers("Float64", 8, floats),
            Outputs=self._w.u32([self._id(v) for v in call.outputs]),
            Op=call.op.code,
            DebugHandle=call.debug_handle,
        )

    def write(self) -> _Offset:
        w, graph = self._w, self._graph
        symbols = w.offsets([self._symbol(s) for s in graph.symbols])
        inputs = w.offsets([self._argument(a) for a in graph.inputs])
        outputs = w.offsets([self._argument(a) for a in graph.outputs])
        weights = w.offsets([self._weight(x) for x in graph.weights])
        states = w.offsets([self._state(s) for s in graph.states])
        calls = w.offsets([self._call(c) for c in graph.calls])
        extents = [[self._table.add(d) for d in v.ne] for v in self._values]
        values = w.structs(
            list(zip(extents, self._values, strict=True)),
            20,
            4,
            lambda pair: _fb.CreateValue(w.builder, *pair[0], int(pair[1].type.dtype), 0),
        )
        exprs = w.structs(
            self._table.exprs,
            24,
            8,
            lambda e: _fb.CreateExpr(w.builder, e.imm, e.a, e.b, int(e.op)),
        )
        return w.table(
            "Graph",
            Name=w.string(graph.name),
            Symbols=symbols,
            Exprs=exprs,
            Values=values,
            Inputs=inputs,
            Outputs=outputs,
            Weights=weights,
            States=states,
            Calls=calls,
        )


def _as_dim(value: Any) -> Dim:
    if isinstance(value, sympy.Expr):
        return value
    return int(value)


def to_bytes(program: Program) -> bytes:
    """The program as a delegate blob.

    Raises:
        IRError: a size that the runtime cannot compute, or a value used but not defined.
            Other faults are :func:`executorch_ggml.ir.verify.verify_program`'s to find.
    """
    if not program.graphs:
        raise IRError("a program needs at least one graph")
    writer = _Writer()
    graphs = writer.offsets([_GraphWriter(writer, graph).write() for graph in program.graphs])
    root = writer.table(
        "Program",
        Producer=writer.string(program.producer),
        ProgramId=writer.string(program.program_id),
        Graphs=graphs,
        OpsetVersion=_needed_opset(program),
        RequiredFeatures=KNOWN_FEATURES,
    )
    writer.builder.Finish(root, file_identifier=FILE_IDENTIFIER)
    return bytes(writer.builder.Output())


def _needed_opset(program: Program) -> int:
    """The oldest opset that has every op used, so that older runtimes take what they can."""
    return max((call.op.since for graph in program.graphs for call in graph.calls), default=1)


# --- reading -----------------------------------------------------------------------------


class _GraphReader:
    def __init__(self, packed: Any) -> None:
        self._packed = packed
        self.graph = Graph(name=packed.name or "")
        self._values: dict[int, Value] = {}
        self._dims: list[Dim] = []

    def _dim(self, index: int) -> Dim:
        if index >= len(self._dims):
            raise IRError(f"expression {index} of {len(self._dims)}")
        return self._dims[index]

    def _declared(self, index: int) -> TensorType:
        values = self._packed.values if self._packed.values is not None else []
        if index >= len(values):
            raise IRError(f"value {index} of {len(values)}")
        v = values[index]
        ne = [self._dim(i) for i in (v.ne0, v.ne1, v.ne2, v.ne3)]
        return TensorType.contiguous(DType(v.dtype), ne)

    def _define(self, index: int, value: Value) -> Value:
        if index in self._values:
            raise IRError(f"value {index} is defined twice")
        self._values[index] = value
        return value

    def _use(self, index: int) -> Value:
        found = self._values.get(index)
        if found is None:
            raise IRError(f"value {index} is used before it is defined")
        return found

    def _leaf(self, index: int, kind: ValueKind) -> Value:
        return self._define(index, Value(self._declared(index), kind))

    def _argument(self, packed: Any, value: Value) -> Argument:
        return Argument(
            value,
            int(packed.scalarType),
            tuple(self._dim(int(i)) for i in _items(packed.sizes)),
            tuple(int(i) for i in _items(packed.dimOrder)),
        )

    def _state(self, packed: Any) -> State:
        kind = StateKind(packed.kind)
        value = None if packed.value == ABSENT else self._leaf(packed.value, ValueKind.STATE)
        return State(
            kind,
            packed.name or "",
            value,
            packed.initKey or None,
            packed.kHeadDim,
            packed.vHeadDim,
            packed.nKvHeads,
            packed.nBatch,
            packed.window,
            packed.defaultCapacity,
            packed.maxCapacity,
        )

    def _call(self, packed: Any) -> Call:
        op = OPS_BY_CODE.get(packed.op)
        if op is None:
            raise IRError(f"op code {packed.op} is unknown")
        if len(_items(packed.subgraphs)):
            raise IRError(f"{op.name}: subgraphs are not supported")
        given = [None if i == ABSENT else self._use(int(i)) for i in _items(packed.inputs)]
        if len(given) > len(op.operands):
            raise IRError(f"{op.name}: {len(given)} operands, at most {len(op.operands)}")
        inputs = tuple(given) + (None,) * (len(op.operands) - len(given))
        ints = [self._dim(int(i)) for i in _items(packed.ints)]
        params = _read_params(op, ints, [float(x) for x in _items(packed.floats)])
        call = Call(op, inputs, params, debug_handle=packed.debugHandle)
        types = op.infer([v.type if v is not None else None for v in inputs], params)
        outputs = [int(i) for i in _items(packed.outputs)]
        if len(outputs) != len(types):
            raise IRError(f"{op.name}: {len(outputs)} outputs, expected {len(types)}")
        for index, inferred in zip(outputs, types, strict=True):
            declared = self._declared(index)
            same = extents_equal(declared.ne, inferred.ne)
            if declared.dtype != inferred.dtype or not same:
                raise IRError(f"{op.name}: the file says {declared}, the op gives {inferred}")
            self._define(index, Value(inferred, ValueKind.RESULT, call))
        call.outputs = tuple(self._values[i] for i in outputs)
        return call

    def read(self) -> Graph:
        packed, graph = self._packed, self.graph
        for s in _items(packed.symbols):
            # What torch.export assumes of its symbols, as far as the bounds tell.
            sign = {"positive" if s.min > 0 else "nonnegative": True} if s.min >= 0 else {}
            symbol = sympy.Symbol(s.name, integer=True, **sign)
            source = SymbolSource(s.source)
            graph.symbols.append(
                Symbol(symbol, s.min, s.max, source, s.input, s.index, s.offset, s.divisor)
            )
        records = [Expr(ExprOp(e.op), e.imm, e.a, e.b) for e in _items(packed.exprs)]
        self._dims = dims_of(records, [s.symbol for s in graph.symbols])
        for a in _items(packed.inputs):
            graph.inputs.append(self._argument(a, self._leaf(a.value, ValueKind.INPUT)))
        for w in _items(packed.weights):
            value = self._leaf(w.value, ValueKind.WEIGHT)
            # flatc's object API decodes strings, but not vectors of them.
            graph.weights.append(Weight(value, tuple(k.decode() for k in _items(w.keys))))
        for s in _items(packed.states):
            graph.states.append(self._state(s))
        for index, c in enumerate(_items(packed.calls)):
            try:
                graph.calls.append(self._call(c))
            except IRError as error:
                raise IRError(f"call {index}: {error}") from None
        for a in _items(packed.outputs):
            graph.outputs.append(self._argument(a, self._use(a.value)))
        return graph


def _items(vector: Any) -> Any:
    """A vector field, which is None when it is absent."""
    return [] if vector is None else vector


def _read_params(op: OpDef, ints: Sequence[Dim], floats: Sequence[float]) -> dict[str, Any]:
    for kind, given, declared in (
        ("integer", ints, op.int_params),
        ("float", floats, op.float_params),
    ):
        if len(given) != len(declared):
            raise IRError(f"{op.name}: {len(given)} {kind} parameters, expected {len(declared)}")
    read: dict[str, Any] = {
        p.name: _read_int(op, p, value) for p, value in zip(op.int_params, ints, strict=True)
    }
    read.update({p.name: v for p, v in zip(op.float_params, floats, strict=True)})
    return {p.name: read[p.name] for p in op.params}


def _read_int(op: OpDef, param: Param, value: Dim) -> Any:
    if param.kind is ParamKind.DIM:
        return value
    if not isinstance(value, int):
        raise IRError(f"{op.name}: parameter '{param.name}' must be a constant, not {value}")
    if param.kind is ParamKind.BOOL:
        return bool(value)
    return param.enum(value) if param.enum is not None else value


def from_bytes(blob: bytes) -> Program:
    """The program in a delegate blob.

    Raises:
        IRError: not such a blob, damaged, or made for a newer opset; the text says which.
    """
    if len(blob) < 8 or blob[4:8] != FILE_IDENTIFIER:
        raise IRError(f"not a ggml program: expected '{FILE_IDENTIFIER.decode()}' at byte 4")
    try:
        packed = _fb.ProgramT.InitFromPackedBuf(blob)
        if packed.opsetVersion > OPSET_VERSION:
            raise IRError(
                f"made for opset {packed.opsetVersion}, but this version reads up to "
                f"{OPSET_VERSION}: update executorch_ggml"
            )
        if packed.requiredFeatures & ~KNOWN_FEATURES:
            raise IRError(f"needs features {packed.requiredFeatures:#x}: update executorch_ggml")
        graphs = [_GraphReader(g).read() for g in _items(packed.graphs)]
    except IRError:
        raise
    except (struct.error, ValueError, TypeError, IndexError, OverflowError) as error:
        raise IRError(f"damaged ggml program: {error}") from error
    if not graphs:
        raise IRError("a program needs at least one graph")
    return Program(graphs, packed.programId or "", packed.producer or "")
