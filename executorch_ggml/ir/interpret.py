"""Runs a graph in torch, by the reference of each op.

For tests: that a pass changes nothing, and that a lowering is right, without C++.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Final, TypeAlias

import sympy
import torch
from torch import Tensor

from executorch_ggml.ir.graph import (
    Argument,
    Call,
    Graph,
    State,
    StateKind,
    SymbolSource,
    Value,
    Weight,
)
from executorch_ggml.ir.opset import ParamKind
from executorch_ggml.ir.reference import Context, torch_dtype
from executorch_ggml.ir.reference_attention import KvCacheTensor
from executorch_ggml.ir.symexpr import Evaluator
from executorch_ggml.ir.types import IRError

#: State name -> its content. The caller keeps it from call to call.
StateStore: TypeAlias = "MutableMapping[str, Tensor | KvCacheTensor]"
#: Sees each call and its result.
Observer: TypeAlias = "Callable[[Call, Tensor], None]"

SCALAR_DTYPES: Final[Mapping[int, torch.dtype]] = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}


def interpret(
    graph: Graph,
    inputs: Sequence[Tensor | int],
    weights: Mapping[str, Tensor] | None = None,
    states: StateStore | None = None,
    observer: Observer | None = None,
) -> list[Tensor]:
    """The graph's outputs, in torch shapes.

    Args:
        graph: a verified graph.
        inputs: as the delegate gets them, of the declared torch sizes and types.
        weights: named data in any shape that has the right number of elements in the right
            order; quantized weights dequantized.
        states: buffers and caches by name. Missing ones are made (buffers from their first
            content, or zeros), and all are updated in place.
        observer: called after each call.

    Raises:
        IRError: an input, a weight or an index that does not fit; a symbol out of bounds.
    """
    run = _Run(graph, weights or {}, {} if states is None else states)
    return run(inputs, observer)


class _Run:
    def __init__(self, graph: Graph, weights: Mapping[str, Tensor], states: StateStore) -> None:
        self._graph = graph
        self._weights = weights
        self._states = states
        self._tensors: dict[Value, Tensor] = {}
        self._evaluate = Evaluator({})

    def __call__(self, inputs: Sequence[Tensor | int], observer: Observer | None) -> list[Tensor]:
        graph = self._graph
        if len(inputs) != len(graph.inputs):
            raise IRError(f"{len(inputs)} inputs, expected {len(graph.inputs)}")
        given = [torch.as_tensor(x) for x in inputs]
        self._evaluate = Evaluator(_symbol_values(graph, given))
        for i, (argument, x) in enumerate(zip(graph.inputs, given, strict=True)):
            self._tensors[argument.value] = self._input(i, argument, x)
        for weight in graph.weights:
            self._tensors[weight.value] = self._weight(weight)
        caches = self._bind_states()
        for index, call in enumerate(graph.calls):
            try:
                result = self._call(call, Context(caches))
            except (IRError, RuntimeError) as error:
                raise IRError(f"call {index} ({call.op.name}): {error}") from error
            if observer is not None:
                observer(call, result)
        return [self._output(argument) for argument in graph.outputs]

    def _shape(self, value: Value) -> list[int]:
        return [self._evaluate(d) for d in reversed(value.ne)]

    def _sizes(self, argument: Argument) -> list[int]:
        return [self._evaluate(d) for d in argument.sizes]

    def _input(self, index: int, argument: Argument, x: Tensor) -> Tensor:
        sizes = self._sizes(argument)
        if list(x.shape) != sizes:
            raise IRError(f"input {index} is {list(x.shape)}, expected {sizes}")
        if x.dtype != SCALAR_DTYPES[argument.scalar_type]:
            raise IRError(
                f"input {index} is {x.dtype}, expected {SCALAR_DTYPES[argument.scalar_type]}"
            )
        if argument.dim_order:
            x = x.permute(argument.dim_order)
        target = torch_dtype(argument.value.type.dtype)
        # A copy: a graph that writes through a view must not change the caller's tensor.
        converted = x.to(target, copy=True).contiguous()
        if not target.is_floating_point and not torch.equal(converted.to(x.dtype), x):
            raise IRError(f"input {index} holds values that do not fit {target}")
        return converted.view(self._shape(argument.value))

    def _weight(self, weight: Weight) -> Tensor:
        for key in weight.keys:
            if key in self._weights:
                break
        else:
            raise IRError(f"no weight has a name of {list(weight.keys)}")
        data = self._weights[key].detach()
        shape = self._shape(weight.value)
        if data.numel() != torch.Size(shape).numel():
            raise IRError(f"weight '{key}' is {list(data.shape)}, expected {shape}")
        return data.to(torch_dtype(weight.value.type.dtype)).contiguous().view(shape)

    def _bind_states(self) -> dict[int, KvCacheTensor]:
        caches: dict[int, KvCacheTensor] = {}
        for index, state in enumerate(self._graph.states):
            if state.name not in self._states:
                self._states[state.name] = self._new_state(state)
            found = self._states[state.name]
            if isinstance(found, KvCacheTensor) != (state.kind is StateKind.KV_CACHE):
                raise IRError(f"state '{state.name}' is of another kind")
            if isinstance(found, KvCacheTensor):
                caches[index] = found
            else:
                assert state.value is not None
                self._tensors[state.value] = found
        return caches

    def _new_state(self, state: State) -> Tensor | KvCacheTensor:
        if state.kind is StateKind.KV_CACHE:
            return KvCacheTensor(
                state.k_head_dim,
                state.v_head_dim,
                state.n_kv_heads,
                state.n_batch,
                state.max_capacity,
                state.window,
            )
        assert state.value is not None
        if state.init_key is not None:
            return self._weight(Weight(state.value, (state.init_key,))).clone()
        return torch.zeros(self._shape(state.value), dtype=torch_dtype(state.value.type.dtype))

    def _call(self, call: Call, context: Context) -> Tensor:
        params = dict(call.params)
        for param in call.op.params:
            if param.kind is ParamKind.DIM:
                params[param.name] = self._evaluate(params[param.name])
        inputs = [None if v is None else self._tensors[v] for v in call.inputs]
        result = call.op.reference(inputs, params, context)
        (value,) = call.outputs
        shape = self._shape(value)
        if list(result.shape) != shape:
            raise IRError(f"the reference gives {list(result.shape)}, the shape rule {shape}")
        if not call.op.is_view:
            result = result.contiguous()
        if result.dtype != torch_dtype(value.type.dtype):
            raise IRError(f"the reference gives {result.dtype}, expected {value.type.dtype.name}")
        self._tensors[value] = result
        return result

    def _output(self, argument: Argument) -> Tensor:
        result = self._tensors[argument.value].to(SCALAR_DTYPES[argument.scalar_type], copy=True)
        sizes = self._sizes(argument)
        if not argument.dim_order:
            return result.reshape(sizes)
        stored = result.reshape([sizes[d] for d in argument.dim_order])
        back = [argument.dim_order.index(d) for d in range(len(sizes))]
        return stored.permute(back)


def _symbol_values(graph: Graph, inputs: Sequence[Tensor]) -> dict[sympy.Symbol, int]:
    values: dict[sympy.Symbol, int] = {}
    for s in graph.symbols:
        x = inputs[s.input]
        if s.source is SymbolSource.INPUT_DIM:
            raw = x.shape[s.index]
        else:
            raw = int(x.reshape(-1)[s.index])
        value, remainder = divmod(raw - s.offset, s.divisor)
        if remainder or not s.min <= value <= s.max:
            raise IRError(
                f"symbol '{s.name}' = ({raw} - {s.offset}) / {s.divisor} of input {s.input}: "
                f"expected a whole number from {s.min} to {s.max}"
            )
        values[s.symbol] = value
    return values
