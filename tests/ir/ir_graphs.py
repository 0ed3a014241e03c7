"""Small graphs that the IR's tests share."""

from __future__ import annotations

import sympy
import torch

from executorch_ggml.ir.graph import (
    Graph,
    Program,
    State,
    StateKind,
    Symbol,
    SymbolSource,
    Value,
)
from executorch_ggml.ir.types import Dim, DType, TensorType

# ExecuTorch's ScalarType codes.
INT, LONG, HALF, FLOAT, BOOL = 3, 4, 5, 6, 11

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, WINDOW = 64, 4, 2, 16, 0


def f32(*ne: Dim) -> TensorType:
    """A contiguous F32 type; extents in ggml order."""
    return TensorType.contiguous(DType.F32, ne)


def i32(*ne: Dim) -> TensorType:
    return TensorType.contiguous(DType.I32, ne)


def float_input(graph: Graph, *sizes: Dim) -> Value:
    """An F32 argument of these torch sizes."""
    return graph.input(f32(*reversed(sizes)), FLOAT, sizes)


def reshape(graph: Graph, value: Value, *sizes: Dim) -> Value:
    """To torch sizes."""
    ne = list(reversed(sizes)) + [1] * (4 - len(sizes))
    return graph.call("reshape", value, **{f"ne{i}": n for i, n in enumerate(ne)})


def sequence_symbol(graph: Graph, input: int, index: int, longest: int = 512) -> sympy.Symbol:
    symbol = sympy.Symbol("s0", integer=True, positive=True)
    graph.symbols.append(Symbol(symbol, 1, longest, SymbolSource.INPUT_DIM, input, index))
    return symbol


def decoder_layer(window: int = 0) -> Program:
    """x + wo(attention(rope(wq(norm(x))), ...)) over a KV cache, any sequence length."""
    graph = Graph()
    s = sequence_symbol(graph, input=0, index=1)
    x = float_input(graph, 1, s, HIDDEN)
    positions = graph.input(i32(s), LONG, (s,))
    graph.states.append(
        State(
            StateKind.KV_CACHE,
            "kv.0",
            k_head_dim=HEAD_DIM,
            v_head_dim=HEAD_DIM,
            n_kv_heads=KV_HEADS,
            window=window,
            default_capacity=256,
            max_capacity=1024,
        )
    )

    def linear(key: str, h: Value, n: int) -> Value:
        weight = graph.weight(TensorType.contiguous(DType.FROM_FILE, [HIDDEN, n]), key)
        return graph.call("mul_mat", weight, h)

    norm = graph.weight(TensorType.contiguous(DType.FROM_FILE, [HIDDEN]), "norm.weight")
    h = graph.call("mul", graph.call("rms_norm", x, eps=1e-5), norm)
    q = reshape(graph, linear("q.weight", h, HEADS * HEAD_DIM), 1, s, HEADS, HEAD_DIM)
    k = reshape(graph, linear("k.weight", h, KV_HEADS * HEAD_DIM), 1, s, KV_HEADS, HEAD_DIM)
    v = reshape(graph, linear("v.weight", h, KV_HEADS * HEAD_DIM), 1, s, KV_HEADS, HEAD_DIM)
    q, k = (graph.call("rope", t, positions, n_dims=HEAD_DIM, mode=2) for t in (q, k))
    attended = graph.call("update_and_attend", q, k, v, positions, state=0, scale=HEAD_DIM**-0.5)
    flat = reshape(graph, attended, 1, s, HIDDEN)
    graph.output(graph.call("add", x, linear("o.weight", flat, HIDDEN)), FLOAT, (1, s, HIDDEN))
    return Program([graph], program_id="layer", producer="test")


def decoder_weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    kv = KV_HEADS * HEAD_DIM
    shapes = {"norm": (HIDDEN,), "q": (HIDDEN, HIDDEN), "k": (kv, HIDDEN), "v": (kv, HIDDEN)}
    shapes["o"] = (HIDDEN, HIDDEN)
    return {
        f"{name}.weight": torch.randn(*shape, generator=generator) * HIDDEN**-0.5
        for name, shape in shapes.items()
    }


def running_rows() -> Program:
    """Writes rows of x into a buffer, and returns the sum of buffer and its old first rows."""
    graph = Graph(name="rows")
    x = float_input(graph, 2, 8)
    ids = graph.input(i32(2), INT, (2,))
    buffer = graph.buffer_state(f32(8, 4), "rows", init_key="rows.init")
    before = graph.call("cont", buffer)
    after = graph.call("set_rows", buffer, x, ids)
    graph.output(graph.call("add", after, before), FLOAT, (4, 8))
    return Program([graph], program_id="rows", producer="test")


def downsampled() -> Program:
    """A strided convolution over a dynamic width: sizes with a division."""
    graph = Graph(name="conv")
    s = sequence_symbol(graph, input=0, index=3)
    x = float_input(graph, 1, 3, 8, s)
    kernel = graph.weight(f32(3, 3, 3, 5), "kernel", "old.kernel")
    y = graph.call("conv_2d", kernel, x, stride0=2, stride1=2, padding0=1, padding1=1)
    y = graph.call("unary", y, kind=6)
    graph.output(y, FLOAT, (1, 5, 4, (s - 1) // 2 + 1))
    return Program([graph], program_id="conv", producer="test")


PROGRAMS = {
    "decoder_layer": decoder_layer,
    "running_rows": running_rows,
    "downsampled": downsampled,
}
