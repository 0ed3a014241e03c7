"""Let a channels-last convolution finish its own sums: bias, residual, clamp.

Each of these alone would read and write the whole image once more.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

from executorch_ggml.ir.enums import Unary
from executorch_ggml.ir.graph import Call, Graph, Value, ValueKind
from executorch_ggml.ir.types import DType, extents_equal
from executorch_ggml.ir.verify import storage_root

_CONVOLUTIONS: Final = ("conv_2d_nhwc", "conv_2d_dw_nhwc")
_BIAS, _RESIDUAL = 2, 3


def fold_epilogues(graph: Graph) -> int:
    """Fold, in place, what follows a convolution alone; returns how many calls went."""
    uses = Counter(v for call in graph.calls for v in call.inputs if v is not None)
    uses.update(argument.value for argument in graph.outputs)
    calls, graph.calls = graph.calls, []
    replaced: dict[Value, Value] = {}
    n_folded = 0
    for call in calls:
        call.inputs = tuple(None if v is None else replaced.get(v, v) for v in call.inputs)
        graph.calls.append(call)
        for conv in _convolutions_of(call, uses):
            change = _change(conv, call)
            if change is None:
                continue
            inputs, limits = change
            # Here, where every operand is known, in place of both.
            graph.calls.remove(conv)
            graph.calls.pop()
            result = graph.call(
                conv.op.name,
                *inputs,
                debug_handle=conv.debug_handle,
                **{**conv.params, **limits},
            )
            uses[result] = uses[call.outputs[0]]
            replaced[call.outputs[0]] = result
            n_folded += 1
            break
    graph.outputs = [
        type(a)(replaced.get(a.value, a.value), a.scalar_type, a.sizes, a.dim_order)
        for a in graph.outputs
    ]
    return n_folded


def _convolutions_of(call: Call, uses: Counter[Value]) -> list[Call]:
    """Producers of operands that nothing else reads, the latest first.

    Not one that reads a state: that may be written before ``call``.
    """
    return [
        v.producer
        for v in reversed(call.inputs)
        if v is not None
        and v.producer is not None
        and v.producer.op.name in _CONVOLUTIONS
        and uses[v] == 1
        and not any(_is_state(operand) for operand in v.producer.inputs)
    ]


def _is_state(value: Value | None) -> bool:
    return value is not None and storage_root(value).kind is ValueKind.STATE


def _change(conv: Call, call: Call) -> tuple[list[Value | None], dict[str, Any]] | None:
    """The convolution's operands and limits with ``call`` in it; None if it does not fit."""
    (result,) = conv.outputs
    inputs = list(conv.inputs)
    if conv.params["min"] != -math.inf or conv.params["max"] != math.inf:
        return None
    if call.op.name == "clamp":
        return inputs, {"min": call.params["min"], "max": call.params["max"]}
    if call.op.name == "unary" and call.params["kind"] == Unary.RELU:
        return inputs, {"min": 0.0}
    if call.op.name != "add":
        return None
    a, b = call.inputs
    other = b if a is result else a
    if other is None or other is result or other.type.dtype is not DType.F32:
        return None
    if not other.type.is_contiguous or inputs[_RESIDUAL] is not None:
        return None
    if extents_equal(other.ne, (result.ne[0], 1, 1, 1)) and a is result and inputs[_BIAS] is None:
        inputs[_BIAS] = other
        return inputs, {}
    if extents_equal(other.ne, result.ne):
        inputs[_RESIDUAL] = other
        return inputs, {}
    return None
