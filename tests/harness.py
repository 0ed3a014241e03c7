"""Lower a module and run it: by the IR's torch references, and by the C++ runtime."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.lowered_backend_module import LoweredBackendModule
from executorch.runtime import Runtime
from torch import fx
from torch.export import export

import tests.quick_lowering  # noqa: F401
from executorch_ggml import GgmlOptions, GgmlPartitioner
from executorch_ggml._library import load_library
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.interpret import interpret
from executorch_ggml.ir.serialize import from_bytes


@dataclass
class Lowered:
    """One method, lowered: its edge program, the delegates' IR and constants."""

    edge: Any
    partitioner: GgmlPartitioner
    exported: Any
    graphs: list[Graph] = field(default_factory=list)
    data: list[dict[str, torch.Tensor]] = field(default_factory=list)
    program: Any = None
    method: Any = None

    @property
    def ops(self) -> list[str]:
        """The IR ops of every delegate, in order."""
        return [call.op.name for graph in self.graphs for call in graph.calls]

    def buffer(self) -> bytes:
        return bytes(self.edge.to_executorch().buffer)


def lower(
    module: torch.nn.Module,
    inputs: Sequence[Any],
    dynamic_shapes: Any = None,
    options: GgmlOptions | None = None,
) -> Lowered:
    """Export and lower a module with the ggml partitioner alone."""
    exported = export(module.eval(), tuple(inputs), dynamic_shapes=dynamic_shapes)
    partitioner = GgmlPartitioner(options)
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    lowered = Lowered(edge, partitioner, exported)
    for delegate in delegates(edge.exported_program().graph_module):
        (graph,) = from_bytes(bytes(delegate.processed_bytes)).graphs
        lowered.graphs.append(graph)
        lowered.data.append(_constants(graph, delegate))
    return lowered


def delegates(module: fx.GraphModule) -> list[LoweredBackendModule]:
    """The delegates of a lowered graph module, in call order."""
    return [
        getattr(module, str(node.target))
        for node in module.graph.nodes
        if node.op == "get_attr" and "lowered_module" in str(node.target)
    ]


_DTYPES = {"F32": np.float32, "F16": np.float16, "I32": np.int32}


def _constants(graph: Graph, delegate: LoweredBackendModule) -> dict[str, torch.Tensor]:
    """Named data as tensors of the element types that the IR declares."""
    output = delegate.named_data_store_output
    types = {weight.keys[0]: weight.value.type.dtype for weight in graph.weights}
    types |= {
        s.init_key: s.value.type.dtype
        for s in graph.states
        if s.init_key is not None and s.value is not None
    }
    tensors: dict[str, torch.Tensor] = {}
    for key, entry in output.pte_data.items():
        raw = bytes(output.buffers[entry.buffer_index])
        name = types[key].name
        if name == "BF16":
            tensors[key] = torch.frombuffer(bytearray(raw), dtype=torch.bfloat16)
        elif name in _DTYPES:
            tensors[key] = torch.from_numpy(np.frombuffer(raw, _DTYPES[name]).copy())
        else:
            import gguf

            blocks = np.frombuffer(raw, np.uint8).reshape(1, -1)
            kind = gguf.GGMLQuantizationType[name]
            tensors[key] = torch.from_numpy(gguf.dequantize(blocks, kind).copy())
    return tensors


def run_reference(lowered: Lowered, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Interpret the IR of a program that is one delegate."""
    assert len(lowered.graphs) == 1, "the program is not one delegate"
    order = _argument_order(lowered, inputs)
    results = interpret(lowered.graphs[0], order, lowered.data[0], {})
    (output,) = lowered.edge.exported_program().graph.find_nodes(op="output")
    picked = [n.args[1] for n in output.args[0] if getattr(n, "target", None) is operator.getitem]
    return [results[i] for i in picked] or results  # a delegate has an order of its own


def _argument_order(lowered: Lowered, inputs: Sequence[Any]) -> list[Any]:
    """The delegate's arguments, from the program's user inputs."""
    program = lowered.edge.exported_program()
    by_name = dict(zip(program.graph_signature.user_inputs, inputs, strict=True))
    (call,) = (n for n in program.graph.nodes if "executorch_call_delegate" in str(n.target))
    return [by_name[arg.name] for arg in call.args[1:]]


def run_runtime(lowered: Lowered, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Run the program through ExecuTorch and the C++ runtime."""
    if lowered.method is None:
        load_library()
        runtime = Runtime.get()
        lowered.program = runtime.load_program(lowered.buffer())
        lowered.method = lowered.program.load_method("forward")
    return list(lowered.method.execute(list(inputs)))
