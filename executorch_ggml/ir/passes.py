"""Simplifications of a graph that change no result.

Each pass edits the graph in place and returns how many calls (or weights) it removed or
shortened; :func:`simplify` runs them in order. A verified graph stays one.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from executorch_ggml.ir.graph import Call, Graph, Value, ValueKind
from executorch_ggml.ir.opset import OPSET
from executorch_ggml.ir.verify import same_type, storage_root

GraphPass: TypeAlias = "Callable[[Graph], int]"


def simplify(graph: Graph) -> dict[str, int]:
    """Run every pass in order; gives each pass's count by its name."""
    counts: Counter[str] = Counter()
    for run in PASSES:
        counts[run.__name__] += run(graph)
    return dict(counts)


def merge_equal_weights(graph: Graph) -> int:
    """One value for weights of the same type bound to the same keys (tied embeddings)."""
    first: dict[Any, Value] = {}
    replaced: dict[Value, Value] = {}
    kept = []
    for weight in graph.weights:
        known = first.setdefault((weight.keys, weight.value.type), weight.value)
        if known is weight.value:
            kept.append(weight)
        else:
            replaced[weight.value] = known
    graph.weights = kept
    _replace_everywhere(graph, replaced)
    return len(replaced)


def collapse_views(graph: Graph) -> int:
    """Fold reshape of reshape and permute of permute; drop those that change nothing."""
    folded = 0

    def visit(call: Call) -> Value | None:
        nonlocal folded
        if call.op.name in ("reshape", "permute") and _fold_into_producer(call):
            folded += 1
        source = call.inputs[0] if call.inputs else None
        if source is None:
            return None
        if call.op.name == "reshape" and same_type(call.outputs[0].type, source.type):
            return source
        if call.op.name == "permute" and _axes(call) == [0, 1, 2, 3]:
            return source
        return None

    # Producers that lost their last use are left for dead-code elimination.
    return _replace_results(graph, visit) + folded


def remove_redundant_copies(graph: Graph) -> int:
    """Drop ``cont`` of what is contiguous, and ``cast`` to the same type.

    A copy of a state stays: it keeps the content from before a later write. So does a
    copy that is an output of an argument or a weight as it is: outputs have memory of
    their own.
    """
    outputs = {a.value for a in graph.outputs}

    def visit(call: Call) -> Value | None:
        if call.op.name not in ("cont", "cast"):
            return None
        source, result = call.inputs[0], call.outputs[0]
        if source is None or not source.type.is_contiguous:
            return None
        if not same_type(source.type, result.type):
            return None
        root = storage_root(source)
        if root.kind is ValueKind.STATE or (
            result in outputs and root.kind is not ValueKind.RESULT
        ):
            return None
        return source

    return _replace_results(graph, visit)


def eliminate_common_subexpressions(graph: Graph) -> int:
    """One call for calls of the same op on the same operands and parameters.

    Calls that write state stay. Calls that read a state are the same only if nothing was
    written to it in between.
    """
    first: dict[Any, Value] = {}
    writes: dict[Value, int] = {}

    def visit(call: Call) -> Value | None:
        if call.op.has_side_effect:
            if call.op.is_view and call.inputs[0] is not None:
                root = storage_root(call.inputs[0])
                writes[root] = writes.get(root, 0) + 1
            return None
        roots = [storage_root(v) for v in call.inputs if v is not None]
        key = (
            call.op.code,
            call.inputs,
            # By type and text too: True, 1 and 1.0 are equal, 0.0 and -0.0 are not the same.
            tuple((name, repr(value)) for name, value in sorted(call.params.items())),
            tuple(writes.get(r, 0) for r in roots if r.kind is ValueKind.STATE),
        )
        known = first.setdefault(key, call.outputs[0])
        return None if known is call.outputs[0] else known

    return _replace_results(graph, visit)


def eliminate_dead_code(graph: Graph) -> int:
    """Drop calls whose results nothing uses, and unused weights; counts the calls."""
    return graph.eliminate_dead_code()


PASSES: Final[tuple[GraphPass, ...]] = (
    # Equal operands first, so that equal calls show.
    merge_equal_weights,
    # Before the copies: permutes that cancel leave a copy of what is contiguous.
    collapse_views,
    remove_redundant_copies,
    # Without a copy between them, two reshapes are neighbours.
    collapse_views,
    eliminate_common_subexpressions,
    # Last: all of the above leave unused calls behind.
    eliminate_dead_code,
)


def _axes(call: Call) -> list[int]:
    return [call.params[f"axis{i}"] for i in range(4)]


def _fold_into_producer(call: Call) -> bool:
    """Let a view read what its producer of the same op reads. Whether it could."""
    source = call.inputs[0]
    if source is None or source.producer is None or source.producer.op is not call.op:
        return False
    producer = source.producer
    if call.op is OPSET["permute"]:
        inner, outer = _axes(producer), _axes(call)
        call.params = {f"axis{i}": outer[inner[i]] for i in range(4)}
    call.inputs = producer.inputs
    return True


def _replace_results(graph: Graph, visit: Callable[[Call], Value | None]) -> int:
    """Ask ``visit`` about each call in order; drop it if a value to use instead comes back."""
    replaced: dict[Value, Value] = {}
    kept: list[Call] = []
    for call in graph.calls:
        call.inputs = tuple(None if v is None else replaced.get(v, v) for v in call.inputs)
        instead = visit(call)
        if instead is None:
            kept.append(call)
        else:
            replaced[call.outputs[0]] = instead
    graph.calls = kept
    _replace_outputs(graph, replaced)
    return len(replaced)


def _replace_everywhere(graph: Graph, replaced: dict[Value, Value]) -> None:
    for call in graph.calls:
        call.inputs = tuple(None if v is None else replaced.get(v, v) for v in call.inputs)
    _replace_outputs(graph, replaced)


def _replace_outputs(graph: Graph, replaced: dict[Value, Value]) -> None:
    graph.outputs = [
        dataclasses.replace(a, value=replaced.get(a.value, a.value)) for a in graph.outputs
    ]
