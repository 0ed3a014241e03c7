"""Store the weights of products in fewer bits than they were trained in."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, Protocol

import gguf
import numpy as np
import torch

from executorch_ggml.ir.graph import Call, Graph, Value, ValueKind
from executorch_ggml.ir.reference import torch_dtype
from executorch_ggml.ir.types import DType

_PRODUCTS: Final = ("mul_mat", "conv_2d_nhwc")


class WeightContents(Protocol):
    """Where weights are kept until a program is complete."""

    def stored(self, weight: Value) -> torch.Tensor | None:
        """A weight's contents; None if they are not in the program, or bytes of blocks."""

    def replaced(self, graph: Graph, weight: Value, contents: torch.Tensor, dtype: DType) -> Value:
        """A weight of the same extents, with these contents: values, or bytes of blocks."""


def store_weights(graph: Graph, dtype: DType, contents: WeightContents) -> int:
    """Narrow, in place, F32 weights that only products read; returns how many.

    ``Q8_0`` is for matrices with rows of whole blocks; other weights become F16. One that
    does not fit F16 stays as it is.
    """
    if dtype is DType.F32:
        return 0
    readers: dict[Value, list[Call]] = defaultdict(list)
    kept = {argument.value for argument in graph.outputs}
    for call in graph.calls:
        for i, value in enumerate(call.inputs):
            if value is None or value.type.dtype is not DType.F32:
                continue
            if i == 0 and value.kind is ValueKind.WEIGHT and call.op.name in _PRODUCTS:
                readers[value].append(call)
            else:
                kept.add(value)
    n_narrowed = 0
    for weight, calls in readers.items():
        if weight in kept:
            continue
        is_matrix = all(call.op.name == "mul_mat" for call in calls)
        narrowed = _narrowed(graph, weight, dtype, is_matrix, contents)
        if narrowed is None:
            continue
        n_narrowed += 1
        for call in calls:
            call.inputs = (narrowed, *call.inputs[1:])
    graph.eliminate_dead_code()
    return n_narrowed


def _narrowed(
    graph: Graph, weight: Value, dtype: DType, is_matrix: bool, contents: WeightContents
) -> Value | None:
    tensor = contents.stored(weight)
    if tensor is None:
        return None
    if dtype is DType.Q8_0 and is_matrix and _has_whole_blocks(weight):
        blocks = gguf.quants.quantize(
            tensor.detach().float().numpy(), gguf.GGMLQuantizationType.Q8_0
        )
        return contents.replaced(
            graph, weight, torch.from_numpy(np.ascontiguousarray(blocks)), dtype
        )
    half = DType.BF16 if dtype is DType.BF16 else DType.F16
    values = tensor.to(torch_dtype(half))
    if not bool(torch.isfinite(values).all()):
        return None
    return contents.replaced(graph, weight, values, half)


def _has_whole_blocks(weight: Value) -> bool:
    row = weight.ne[0]
    return isinstance(row, int) and row % DType.Q8_0.block_size == 0
