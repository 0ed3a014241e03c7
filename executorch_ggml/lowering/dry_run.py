"""Whether a node can be delegated: run its lowering on metadata alone.

Each node is lowered by itself, into a throw-away graph whose inputs are
contiguous tensors of the operands' shapes. Nothing of the program is touched and
no weight is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind

from executorch_ggml.ir.graph import Graph, Value
from executorch_ggml.ir.types import DType, TensorType
from executorch_ggml.lowering import load_lowerings
from executorch_ggml.lowering.constants import constant_scalar, constant_tensor
from executorch_ggml.lowering.context import (
    Lowered,
    LoweringContext,
    Tensor,
    contiguous_type,
    dim_order_of,
    ir_dtype,
    to_dim,
)
from executorch_ggml.lowering.program import lower_node
from executorch_ggml.lowering.registry import Unsupported, op_name
from executorch_ggml.options import GgmlOptions
from executorch_ggml.weights.pack import stored_dtype, tensor_bytes


@dataclass(frozen=True)
class Verdicts:
    """The outcome for each ``call_function`` node of a program."""

    supported: set[fx.Node]
    reasons: dict[fx.Node, str] = field(default_factory=dict)
    #: Of the supported ones, those that take a host-side kernel.
    host: set[fx.Node] = field(default_factory=set)


class _MetadataSources:
    """Stands in for a program's placeholders, from their metadata."""

    def __init__(
        self, program: ExportedProgram, options: GgmlOptions, wide: frozenset[str]
    ) -> None:
        signature = program.graph_signature
        self._program = program
        self._options = options
        self._wide = wide
        self._constants: dict[str, str] = {
            spec.arg.name: str(spec.target)
            for spec in signature.input_specs
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
            and hasattr(spec.arg, "name")
        }
        self._mutated = set(signature.buffers_to_mutate.values())

    def materialize(self, graph: Graph, node: fx.Node) -> Lowered:
        fake = node.meta.get("val")
        if isinstance(fake, (tuple, list)):
            return tuple(self._tensor(graph, node, element) for element in fake)
        if isinstance(fake, (torch.SymInt, int)):
            return to_dim(fake)
        if not isinstance(fake, torch.Tensor):
            raise Unsupported(f"'{node.name}' is a {type(fake).__name__}, not a tensor")
        return self._tensor(graph, node, fake)

    def _tensor(self, graph: Graph, node: fx.Node, fake: torch.Tensor) -> Tensor:
        shape = tuple(to_dim(s) for s in fake.shape)
        target = self._constants.get(node.name)
        if node.op == "get_attr":
            target = str(node.target)
        if target in self._wide:
            raise Unsupported(f"'{target}' holds integers that do not fit 32 bits")
        if target is None:
            if node.op == "placeholder":
                dim_order_of(fake)  # what is computed is dense where a delegate takes it
            value = graph.input(contiguous_type(ir_dtype(fake.dtype), shape), 0, shape)
        elif target in self._mutated:
            value = graph.buffer_state(contiguous_type(ir_dtype(fake.dtype), shape), target)
        elif target in self._options.weight_keys:
            value = graph.weight(contiguous_type(DType.FROM_FILE, shape), target)
        else:
            if fake.dtype == torch.int64 and (found := self.contents(node)) is not None:
                _check_stored(found)
            value = graph.weight(contiguous_type(stored_dtype(fake.dtype), shape), target)
        return Tensor(value, shape, fake.dtype)

    def constant(self, graph: Graph, tensor: torch.Tensor) -> Value:
        _check_stored(tensor)
        shape = tuple(int(s) for s in tensor.shape)
        return graph.weight(contiguous_type(stored_dtype(tensor.dtype), shape), "const")

    def scalar(self, node: fx.Node) -> float | None:
        return constant_scalar(self._program, node)

    def contents(self, node: fx.Node) -> torch.Tensor | None:
        return constant_tensor(self._program, node)

    def precomputed(
        self, graph: Graph, nodes: Sequence[fx.Node], function: Callable[..., torch.Tensor]
    ) -> Value | None:
        if not all(self._is_stored(node) for node in nodes):
            return None
        return self.constant(graph, function(*(node.meta["val"] for node in nodes)))

    def _is_stored(self, node: fx.Node) -> bool:
        """Whether the program itself holds a node's contents."""
        target = self._constants.get(node.name)
        if target is None:
            return node.op == "get_attr"
        return target not in self._mutated and target not in self._options.weight_keys

    def reinterpret(self, graph: Graph, weight: Value, type: TensorType) -> Value:
        return graph.weight(type, "blocks")


def _check_stored(tensor: torch.Tensor) -> None:
    """
    Raises:
        Unsupported: an integer that the stored form does not hold.
    """
    is_known = not isinstance(tensor, torch._subclasses.FakeTensor)
    if tensor.dtype == torch.int64 and is_known:
        tensor_bytes(tensor)


def wide_constants(program: ExportedProgram) -> frozenset[str]:
    """The int64 constants and buffers whose values int32 does not hold.

    Their contents are known before ExecuTorch's own passes; a partitioner that sees the
    program later finds fakes in their place.
    """
    wide: set[str] = set()
    for name, tensor in (*program.state_dict.items(), *program.constants.items()):
        if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
            try:
                _check_stored(tensor)
            except Unsupported:
                wide.add(name)
    return frozenset(wide)


def dry_run(
    program: ExportedProgram, options: GgmlOptions, wide: frozenset[str] = frozenset()
) -> Verdicts:
    """Decide for every ``call_function`` node; ``Unsupported`` means no, others propagate.

    Args:
        program: where the nodes are.
        options: how the program is lowered.
        wide: what :func:`wide_constants` found while it could.
    """
    load_lowerings()
    sources = _MetadataSources(program, options, wide)
    verdicts = Verdicts(set())
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        graph = Graph()
        reason = _try_lowering(node, graph, sources, options)
        if reason is None:
            verdicts.supported.add(node)
            if any(call.op.is_host for call in graph.calls):
                verdicts.host.add(node)
        else:
            verdicts.reasons[node] = reason
    # A tuple's element is only as good as the tuple.
    for node in list(verdicts.supported):
        if op_name(node.target) == "operator.getitem" and node.args[0] not in verdicts.supported:
            verdicts.supported.discard(node)
            verdicts.reasons[node] = "its tuple is not delegated"
    return verdicts


def _try_lowering(
    node: fx.Node, graph: Graph, sources: _MetadataSources, options: GgmlOptions
) -> str | None:
    """Lower one node by itself into ``graph``. Returns the reason if that is not possible."""
    context = LoweringContext(graph, sources, options)
    try:
        lowered = lower_node(context, node)
        for value in lowered if isinstance(lowered, tuple) else (lowered,):
            if isinstance(value, Tensor):
                ir_dtype(value.dtype)
    except Unsupported as unsupported:
        return str(unsupported)
    return None
