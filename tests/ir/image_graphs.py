"""Graphs of convolutions for the passes over images, with the weights that they name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import sympy
import torch
from ir_graphs import FLOAT, float_input

from executorch_ggml.ir.graph import Graph, Symbol, SymbolSource, Value
from executorch_ggml.ir.interpret import interpret
from executorch_ggml.ir.types import Dim, DType, TensorType
from executorch_ggml.ir.verify import verify_graph

RELU, SIGMOID, SILU = 6, 7, 10


class Net:
    """A graph that grows call by call, over images in torch's order of dims."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.weights: dict[str, torch.Tensor] = {}
        self.inputs: list[torch.Tensor] = []
        self._generator = torch.Generator().manual_seed(0)

    # --- values ---------------------------------------------------------------------------

    def random(self, *sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=self._generator)

    def input(self, *sizes: int) -> Value:
        self.inputs.append(self.random(*sizes))
        return float_input(self.graph, *sizes)

    def symbol(self, name: str, index: int, largest: int = 64) -> sympy.Symbol:
        """The size of dim ``index`` of the input that is declared next."""
        symbol = sympy.Symbol(name, integer=True, positive=True)
        n = len(self.graph.inputs)
        self.graph.symbols.append(Symbol(symbol, 2, largest, SymbolSource.INPUT_DIM, n, index))
        return symbol

    def weight(self, *sizes: int, dtype: DType = DType.F32) -> Value:
        contents = self.random(*sizes) / math.sqrt(math.prod(sizes[1:]))
        return self.stored(contents.half() if dtype is DType.F16 else contents)

    def stored(self, contents: torch.Tensor) -> Value:
        key = f"w{len(self.weights)}"
        self.weights[key] = contents
        dtype = DType.F16 if contents.dtype == torch.float16 else DType.F32
        ne = [*reversed(contents.shape), 1, 1, 1][:4]
        return self.graph.weight(TensorType.contiguous(dtype, ne), key)

    def rearranged(
        self, weight: Value, function: Callable[[torch.Tensor], torch.Tensor]
    ) -> Value | None:
        (key,) = next(w.keys for w in self.graph.weights if w.value is weight)
        return self.stored(function(self.weights[key]))

    # --- calls ----------------------------------------------------------------------------

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: tuple[int, int] = (3, 3),
        stride: int = 1,
        padding: Sequence[int] = (0, 0),
        dilation: int = 1,
    ) -> Value:
        """``kernel`` and ``padding`` as (width, height)."""
        w = self.weight(channels, int(x.ne[2]), kernel[1], kernel[0])
        return self._conv("conv_2d", w, x, stride, padding, dilation)

    def depthwise(
        self,
        x: Value,
        kernel: tuple[int, int] = (3, 3),
        stride: int = 1,
        padding: Sequence[int] = (0, 0),
        dilation: int = 1,
    ) -> Value:
        w = self.weight(int(x.ne[2]), 1, kernel[1], kernel[0])
        return self._conv("conv_2d_dw", w, x, stride, padding, dilation)

    def _conv(
        self, op: str, w: Value, x: Value, stride: int, padding: Sequence[int], dilation: int
    ) -> Value:
        params = {"stride0": stride, "stride1": stride, "dilation0": dilation}
        params |= {"dilation1": dilation, "padding0": padding[0], "padding1": padding[1]}
        return self.graph.call(op, w, x, **params)

    def bias(self, x: Value) -> Value:
        return self.graph.call("add", x, self.weight(int(x.ne[2]), 1, 1))

    def relu(self, x: Value) -> Value:
        return self.graph.call("unary", x, kind=RELU)

    def add(self, a: Value, b: Value) -> Value:
        return self.graph.call("add", a, b)

    def permute(self, x: Value, *axes: int) -> Value:
        return self.graph.call("permute", x, **{f"axis{i}": a for i, a in enumerate(axes)})

    def reshape(self, x: Value, *ne: Dim) -> Value:
        return self.graph.call("reshape", x, **{f"ne{i}": n for i, n in enumerate(ne)})

    def pad(self, x: Value, **sides: int) -> Value:
        return self.graph.call("pad", x, **sides)

    def pool(self, x: Value, kind: int, kernel: int, stride: int, padding: int = 0) -> Value:
        params = {
            f"{name}{i}": n
            for name, n in (("kernel", kernel), ("stride", stride), ("padding", padding))
            for i in (0, 1)
        }
        return self.graph.call("pool_2d", x, kind=kind, **params)

    def finish(self, *values: Value) -> Net:
        for value in values:
            self.graph.output(value, FLOAT, tuple(reversed(value.ne)))
        verify_graph(self.graph)
        return self

    # --- results --------------------------------------------------------------------------

    @property
    def ops(self) -> list[str]:
        return [call.op.name for call in self.graph.calls]

    def count(self, *names: str) -> int:
        return sum(op in names for op in self.ops)

    def run(self, states: dict[str, torch.Tensor] | None = None) -> list[torch.Tensor]:
        contents = {name: state.clone() for name, state in (states or {}).items()}
        return interpret(self.graph, self.inputs, self.weights, states=contents)  # type: ignore[arg-type]
