"""The IR: a straight-line program of calls over values in single assignment.

A :class:`Graph` is built by :meth:`Graph.call`, which infers result types from
the op's shape rule, so a graph that was built is well typed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

import sympy

from executorch_ggml.ir.opset import OPSET, OpDef
from executorch_ggml.ir.types import Dim, IRError, TensorType


class ValueKind(Enum):
    INPUT = "input"
    WEIGHT = "weight"
    STATE = "state"
    RESULT = "result"


class SymbolSource(IntEnum):
    INPUT_DIM = 0
    INPUT_ELEMENT = 1


class StateKind(IntEnum):
    BUFFER = 0
    KV_CACHE = 1


@dataclass(eq=False)
class Value:
    """One tensor. ``producer`` is the call that computes it (``RESULT`` only)."""

    type: TensorType
    kind: ValueKind
    producer: Call | None = None

    @property
    def ne(self) -> tuple[Dim, Dim, Dim, Dim]:
        return self.type.ne


@dataclass(eq=False)
class Call:
    op: OpDef
    inputs: tuple[Value | None, ...]
    params: dict[str, Any]
    outputs: tuple[Value, ...] = ()
    debug_handle: int = 0


@dataclass(frozen=True)
class Symbol:
    """A run-time integer: ``(raw - offset) / divisor`` of an input's size or element.

    ``index`` is the torch dimension (INPUT_DIM) or the flat element (INPUT_ELEMENT).
    """

    symbol: sympy.Symbol
    min: int
    max: int
    source: SymbolSource
    input: int
    index: int
    offset: int = 0
    divisor: int = 1

    @property
    def name(self) -> str:
        return str(self.symbol)


@dataclass(frozen=True)
class Argument:
    """A delegate input or output: sizes in torch order, ExecuTorch's scalar type code."""

    value: Value
    scalar_type: int
    sizes: tuple[Dim, ...]
    dim_order: tuple[int, ...] = ()


@dataclass(frozen=True)
class Weight:
    value: Value
    keys: tuple[str, ...]


@dataclass(frozen=True)
class State:
    """Session memory. BUFFER: ``value`` reads it; KV_CACHE: one layer's keys and values."""

    kind: StateKind
    name: str
    value: Value | None = None
    init_key: str | None = None
    k_head_dim: int = 0
    v_head_dim: int = 0
    n_kv_heads: int = 0
    n_batch: int = 1
    window: int = 0
    default_capacity: int = 0
    max_capacity: int = 0


@dataclass(eq=False)
class Graph:
    """A program for one delegate. Calls run in order."""

    name: str = "forward"
    symbols: list[Symbol] = field(default_factory=list)
    inputs: list[Argument] = field(default_factory=list)
    outputs: list[Argument] = field(default_factory=list)
    weights: list[Weight] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def input(
        self,
        type: TensorType,
        scalar_type: int,
        sizes: Sequence[Dim],
        dim_order: Sequence[int] = (),
    ) -> Value:
        value = Value(type, ValueKind.INPUT)
        self.inputs.append(Argument(value, scalar_type, tuple(sizes), tuple(dim_order)))
        return value

    def output(
        self, value: Value, scalar_type: int, sizes: Sequence[Dim], dim_order: Sequence[int] = ()
    ) -> None:
        self.outputs.append(Argument(value, scalar_type, tuple(sizes), tuple(dim_order)))

    def weight(self, type: TensorType, *keys: str) -> Value:
        if not keys:
            raise IRError("a weight needs a key")
        value = Value(type, ValueKind.WEIGHT)
        self.weights.append(Weight(value, keys))
        return value

    def buffer_state(self, type: TensorType, name: str, init_key: str | None = None) -> Value:
        value = Value(type, ValueKind.STATE)
        self.states.append(State(StateKind.BUFFER, name, value, init_key))
        return value

    def call(
        self, op_name: str, *inputs: Value | None, debug_handle: int = 0, **params: Any
    ) -> Value:
        """Append a call and return its result.

        Raises:
            IRError: unknown op, wrong operands or parameters.
        """
        op = OPSET.get(op_name)
        if op is None:
            raise IRError(f"unknown op '{op_name}'")
        known = {p.name for p in op.params}
        unknown = set(params) - known
        if unknown:
            raise IRError(f"{op_name}: unknown parameters {sorted(unknown)}")
        complete: dict[str, Any] = {}
        for param in op.params:
            if param.name in params:
                complete[param.name] = params[param.name]
            elif param.default is not None:
                complete[param.name] = param.default
            else:
                raise IRError(f"{op_name}: parameter '{param.name}' is missing")
        if len(inputs) > len(op.operands):
            raise IRError(f"{op_name}: {len(inputs)} operands, expected {len(op.operands)}")
        padded = tuple(inputs) + (None,) * (len(op.operands) - len(inputs))
        for declared, given in zip(op.operands, padded, strict=True):
            if given is None and not declared.optional:
                raise IRError(f"{op_name}: operand '{declared.name}' is missing")
        try:
            types = op.infer([v.type if v else None for v in padded], complete)
        except IRError as error:
            raise IRError(f"{op_name}: {error}") from None
        call = Call(op, padded, complete, debug_handle=debug_handle)
        call.outputs = tuple(Value(t, ValueKind.RESULT, call) for t in types)
        self.calls.append(call)
        return call.outputs[0]

    def values(self) -> Iterator[Value]:
        """Every value, definitions in order: inputs, weights, states, then results."""
        for argument in self.inputs:
            yield argument.value
        for weight in self.weights:
            yield weight.value
        for state in self.states:
            if state.value is not None:
                yield state.value
        for call in self.calls:
            yield from call.outputs

    def eliminate_dead_code(self) -> int:
        """Drop calls whose results are unused, and unused weights. Returns calls dropped."""
        live = {a.value for a in self.outputs}
        kept: list[Call] = []
        for call in reversed(self.calls):
            if call.op.has_side_effect or any(v in live for v in call.outputs):
                kept.append(call)
                live.update(v for v in call.inputs if v is not None)
        dropped = len(self.calls) - len(kept)
        self.calls = kept[::-1]
        self.weights = [w for w in self.weights if w.value in live]
        return dropped


@dataclass(eq=False)
class Program:
    """What one delegate blob holds. ``program_id`` is the same for all methods of an export."""

    graphs: list[Graph]
    program_id: str = ""
    producer: str = ""
