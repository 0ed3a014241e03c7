"""Random IR graphs: calls whose operands fit, with the values they give.

A graph is grown call by call, and each call's value is computed by its reference at
once. So a call is only kept where its result is well conditioned: no division by almost
nothing, no huge values, and functions with steps (floor, comparisons, maxima) only of
values that are exact on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from executorch_ggml.ir import enums
from executorch_ggml.ir.enums import (
    HostBinary,
    HostPool,
    HostReduce,
    HostScan,
    HostUnary,
    Scatter,
    Unary,
)
from executorch_ggml.ir.graph import Graph, Value
from executorch_ggml.ir.reference import Context
from executorch_ggml.ir.types import DType, IRError, TensorType

Draw = Callable[[st.SearchStrategy[Any]], Any]

_LARGEST = 1e3
_MAX_ELEMENTS = 4096
_INT, _FLOAT = 3, 6  # ExecuTorch's codes


@dataclass
class Node:
    """A value of the graph, what it holds, and whether both sides hold exactly that."""

    value: Value
    tensor: Tensor
    exact: bool

    @property
    def ne(self) -> list[int]:
        return [int(n) for n in self.value.ne]

    @property
    def is_float(self) -> bool:
        return self.value.type.dtype == DType.F32


@dataclass
class RandomGraph:
    graph: Graph = field(default_factory=Graph)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)

    def input(self, tensor: Tensor) -> Node:
        """An argument; a tensor of four dims in torch order."""
        is_float = tensor.is_floating_point()
        dtype = DType.F32 if is_float else DType.I32
        type = TensorType.contiguous(dtype, list(reversed(tensor.shape)))
        value = self.graph.input(type, _FLOAT if is_float else _INT, tuple(tensor.shape))
        self.inputs.append(tensor)
        self.nodes.append(Node(value, tensor, exact=True))
        return self.nodes[-1]

    def call(self, op: str, *operands: Node | None, exact: bool, **params: Any) -> Node | None:
        """The call, or None if its operands do not fit or its result is unfit to compare."""
        calls = len(self.graph.calls)
        try:
            value = self.graph.call(op, *(n and n.value for n in operands), **params)
            call = self.graph.calls[-1]
            tensor = call.op.reference([n and n.tensor for n in operands], call.params, Context())
        except (IRError, RuntimeError, IndexError):
            del self.graph.calls[calls:]
            return None
        fits = tensor.numel() <= _MAX_ELEMENTS and tensor.numel() > 0
        if fits and tensor.is_floating_point():
            fits = bool(tensor.isfinite().all()) and float(tensor.abs().max()) <= _LARGEST
        if not fits:
            del self.graph.calls[calls:]
            return None
        node = Node(value, tensor, exact and all(n.exact for n in operands if n is not None))
        self.nodes.append(node)
        return node

    def contiguous(self, node: Node) -> Node:
        if node.value.type.is_contiguous:
            return node
        copied = self.call("cont", node, exact=True)
        assert copied is not None
        return copied


def _pick(
    draw: Draw, g: RandomGraph, *, floats: bool | None = None, exact: bool = False
) -> Node | None:
    found = [
        n for n in g.nodes if (floats is None or n.is_float == floats) and (n.exact or not exact)
    ]
    return draw(st.sampled_from(found)) if found else None


def _rows(g: RandomGraph, node: Node) -> Node:
    return node if node.value.type.has_contiguous_rows else g.contiguous(node)


def _extents(ne: list[int]) -> dict[str, int]:
    return {f"ne{i}": n for i, n in enumerate(ne)}


Maker = Callable[[Draw, RandomGraph], object]


# --- views and copies --------------------------------------------------------------------


def _reshape(draw: Draw, g: RandomGraph) -> object:
    x = g.contiguous(draw(st.sampled_from(g.nodes)))
    ne = draw(st.permutations(x.ne))
    if draw(st.booleans()):
        ne = [ne[0] * ne[1], 1, ne[2], ne[3]]
    return g.call("reshape", x, exact=True, **_extents(ne))


def _permute(draw: Draw, g: RandomGraph) -> object:
    x = draw(st.sampled_from(g.nodes))
    axes = draw(st.permutations(range(4)))
    return g.call("permute", x, exact=True, **{f"axis{i}": a for i, a in enumerate(axes)})


def _view(draw: Draw, g: RandomGraph) -> object:
    x = draw(st.sampled_from(g.nodes))
    producer = x.value.producer
    if not x.value.type.has_contiguous_rows or (producer is not None and producer.op.is_view):
        return None
    strides = [int(s) for s in x.value.type.strides]
    starts = [draw(st.integers(0, n - 1)) for n in x.ne]
    ne = [draw(st.integers(1, n - s)) for n, s in zip(x.ne, starts, strict=True)]
    offset = sum(s * n for s, n in zip(starts, strides, strict=True))
    named = {f"stride{i}": strides[i] for i in (1, 2, 3)}
    return g.call("view", x, exact=True, offset=offset, **_extents(ne), **named)


def _cont(draw: Draw, g: RandomGraph) -> object:
    return g.call("cont", draw(st.sampled_from(g.nodes)), exact=True)


def _cast(draw: Draw, g: RandomGraph) -> object:
    x = _pick(draw, g, floats=False)
    return None if x is None else g.call("cast", g.contiguous(x), exact=True, dtype=int(DType.F32))


def _repeat(draw: Draw, g: RandomGraph) -> object:
    x = _rows(g, draw(st.sampled_from(g.nodes)))
    ne = [n * draw(st.integers(1, 3)) if n < 4 else n for n in x.ne]
    return g.call("repeat", x, exact=True, **_extents(ne))


def _concat(draw: Draw, g: RandomGraph) -> object:
    a = draw(st.sampled_from(g.nodes))
    b = _pick(draw, g, floats=a.is_float)
    axis = draw(st.integers(0, 3))
    return None if b is None else g.call("concat", a, b, exact=True, axis=axis)


def _pad(draw: Draw, g: RandomGraph) -> object:
    x = _pick(draw, g, floats=True)
    if x is None:
        return None
    sides = {
        f"{side}{i}": draw(st.integers(0, 2)) for i in range(4) for side in ("before", "after")
    }
    return g.call("pad", _rows(g, x), exact=True, **sides)


# --- arithmetic ------------------------------------------------------------------------------


def _positive(g: RandomGraph, x: Node) -> Node | None:
    """Of functions that are steep near 0, or undefined below."""
    return g.call("clamp", g.contiguous(x), exact=True, min=0.125, max=8.0)


def _two(draw: Draw, g: RandomGraph, floats: bool) -> tuple[Node, Node] | None:
    """Two values, the second of which often is made to broadcast to the first."""
    a, b = _pick(draw, g, floats=floats), _pick(draw, g, floats=floats)
    if a is None or b is None:
        return None
    return a, b


def _binary(draw: Draw, g: RandomGraph) -> object:
    pair = _two(draw, g, floats=True)
    if pair is None:
        return None
    op = draw(st.sampled_from(["add", "sub", "mul", "div"]))
    a, b = (_rows(g, n) for n in pair)
    divisor = _positive(g, b) if op == "div" else b
    return None if divisor is None else g.call(op, a, divisor, exact=False)


def _unary(draw: Draw, g: RandomGraph) -> object:
    stepped = (Unary.SGN, Unary.STEP, Unary.FLOOR, Unary.CEIL, Unary.ROUND, Unary.TRUNC)
    kind = draw(st.sampled_from(Unary))
    # The table of GELU and GELU_QUICK is in F16.
    if kind in (Unary.GELU, Unary.GELU_QUICK):
        return None
    exact = kind in stepped or kind in (Unary.ABS, Unary.NEG, Unary.RELU)
    x = _pick(draw, g, floats=True, exact=kind in stepped)
    return None if x is None else g.call("unary", _rows(g, x), exact=exact, kind=int(kind))


def _math(draw: Draw, g: RandomGraph) -> object:
    op = draw(st.sampled_from(["sqr", "sqrt", "log", "sin", "cos"]))
    x = _pick(draw, g, floats=True)
    if x is not None and op in ("sqrt", "log"):
        x = _positive(g, x)
    return None if x is None else g.call(op, _rows(g, x), exact=False)


def _scaled(draw: Draw, g: RandomGraph) -> object:
    x = _pick(draw, g, floats=True)
    if x is None:
        return None
    x = g.contiguous(x)
    p, q = (draw(st.floats(-2, 2, width=32)) for _ in range(2))
    choice = draw(st.integers(0, 2))
    if choice == 0:
        return g.call("scale", x, exact=False, scale=p, bias=q)
    if choice == 1:
        return g.call("clamp", x, exact=True, min=min(p, q), max=max(p, q))
    return g.call("leaky_relu", x, exact=False, negative_slope=p)


def _glu(draw: Draw, g: RandomGraph) -> object:
    pair = _two(draw, g, floats=True)
    kind = draw(st.sampled_from([enums.Glu.REGLU, enums.Glu.SWIGLU, enums.Glu.GEGLU_ERF]))
    if pair is None:
        return None
    return g.call("glu", _rows(g, pair[0]), _rows(g, pair[1]), exact=False, kind=int(kind))


# --- rows ------------------------------------------------------------------------------------


def _reduce(draw: Draw, g: RandomGraph) -> object:
    op = draw(st.sampled_from(["sum_rows", "mean_rows", "sum", "argmax", "cumsum", "soft_max"]))
    x = _pick(draw, g, floats=True, exact=op == "argmax")
    return None if x is None else g.call(op, g.contiguous(x), exact=op == "argmax")


def _norm(draw: Draw, g: RandomGraph) -> object:
    op = draw(st.sampled_from(["norm", "rms_norm", "l2_norm"]))
    x = _pick(draw, g, floats=True)
    if x is None or float(x.tensor.std(dim=-1, correction=0).min()) < 0.1:
        return None
    return g.call(op, _rows(g, x), exact=False, eps=1e-3)


def _mul_mat(draw: Draw, g: RandomGraph) -> object:
    pair = _two(draw, g, floats=True)
    if pair is None:
        return None
    return g.call("mul_mat", *(_rows(g, n) for n in pair), exact=False)


def _conv(draw: Draw, g: RandomGraph) -> object:
    pair = _two(draw, g, floats=True)
    if pair is None:
        return None
    kernel, x = (g.contiguous(n) for n in pair)
    op = draw(st.sampled_from(["conv_2d", "conv_2d_dw"]))
    params = {f"stride{i}": draw(st.integers(1, 2)) for i in range(2)}
    params |= {f"padding{i}": draw(st.integers(0, 2)) for i in range(2)}
    params |= {f"dilation{i}": draw(st.integers(1, 2)) for i in range(2)}
    return g.call(op, kernel, x, exact=False, **params)


def _pool(draw: Draw, g: RandomGraph) -> object:
    kind = draw(st.sampled_from(enums.Pool))
    x = _pick(draw, g, floats=True)
    if x is None:
        return None
    params = {f"kernel{i}": draw(st.integers(1, 3)) for i in range(2)}
    params |= {f"stride{i}": draw(st.integers(1, 3)) for i in range(2)}
    return g.call(
        "pool_2d", g.contiguous(x), exact=kind is enums.Pool.MAX, kind=int(kind), **params
    )


# --- channels-last images ----------------------------------------------------------------------


def _image(draw: Draw, g: RandomGraph) -> Node | None:
    """A value as an image; at times one with several panels of channels."""
    x = _pick(draw, g, floats=True)
    if x is None:
        return None
    x = g.contiguous(x)
    if draw(st.booleans()):
        return x
    wide = g.call(
        "repeat", x, exact=True, **_extents([x.ne[0] * draw(st.integers(1, 8)), *x.ne[1:]])
    )
    return wide or x


def _image_window(draw: Draw) -> dict[str, int]:
    params: dict[str, int] = {}
    for i in range(2):
        params[f"kernel{i}"] = draw(st.integers(1, 3))
        params[f"stride{i}"] = draw(st.integers(1, 3))
        params[f"dilation{i}"] = draw(st.integers(1, 2))
        for side in ("padding", "after"):
            params[f"{side}{i}"] = draw(st.integers(0, 3))
    return params


def _conv_2d_nhwc(draw: Draw, g: RandomGraph) -> object:
    x = _image(draw, g)
    if x is None:
        return None
    window = _image_window(draw)
    channels = draw(st.sampled_from([x.ne[0], 1, 5, 16, 17, 33]))
    depth = window["kernel0"] * window["kernel1"] * x.ne[0]
    kernel = _weights(draw, g, [16, depth, -(-channels // 16), 1], depth)
    return _image_conv(draw, g, "conv_2d_nhwc", kernel, x, {**window, "channels": channels})


def _conv_2d_dw_nhwc(draw: Draw, g: RandomGraph) -> object:
    x = _image(draw, g)
    if x is None:
        return None
    window = _image_window(draw)
    taps = [window["kernel0"], window["kernel1"]]
    kernel = _weights(draw, g, [x.ne[0], *taps, 1], taps[0] * taps[1])
    return _image_conv(draw, g, "conv_2d_dw_nhwc", kernel, x, window)


def _image_conv(
    draw: Draw, g: RandomGraph, op: str, kernel: Node, x: Node, params: dict[str, Any]
) -> object:
    """With any of bias, residual and limits."""
    plain = g.call(op, kernel, x, exact=False, **params)
    if plain is None:
        return None
    bias = _weights(draw, g, [plain.ne[0], 1, 1, 1], 1) if draw(st.booleans()) else None
    residual = None
    if draw(st.booleans()):
        fitting = [n for n in g.nodes if n.is_float and n.ne == plain.ne]
        residual = g.contiguous(draw(st.sampled_from(fitting)))
    limits: dict[str, float] = {}
    if draw(st.booleans()):
        limits["min"] = draw(st.floats(-2, 0, width=32))
    if draw(st.booleans()):
        limits["max"] = draw(st.floats(0, 2, width=32))
    return g.call(op, kernel, x, bias, residual, exact=False, **params, **limits)


def _weights(draw: Draw, g: RandomGraph, ne: list[int], terms: int) -> Node:
    """Factors whose products' sums stay small."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    return g.input(torch.randn(list(reversed(ne)), generator=generator) / terms**0.5)


def _pool_2d_nhwc(draw: Draw, g: RandomGraph) -> object:
    x = _image(draw, g)
    if x is None:
        return None
    kind = draw(st.sampled_from(enums.Pool))
    params: dict[str, int] = {}
    for i in range(2):
        kernel = draw(st.integers(1, 3))
        params |= {f"kernel{i}": kernel, f"stride{i}": draw(st.integers(1, 3))}
        params[f"padding{i}"] = draw(st.integers(0, kernel // 2))
    return g.call("pool_2d_nhwc", x, exact=kind is enums.Pool.MAX, kind=int(kind), **params)


# --- host-side ops -----------------------------------------------------------------------------

_STEPPED_UNARY = frozenset(
    {HostUnary.SIGN, HostUnary.ROUND_EVEN, HostUnary.FRAC, HostUnary.THRESHOLD}
    | {HostUnary.HARDSHRINK, HostUnary.LOGICAL_NOT, HostUnary.IS_NAN, HostUnary.IS_INF}
    | {HostUnary.SIGN_BIT}
)
_EXACT_UNARY = _STEPPED_UNARY | {HostUnary.RELU, HostUnary.CLAMP, HostUnary.ABS, HostUnary.NEG}
#: Their slope has no bound near the ends of their range.
_STEEP_UNARY = {
    HostUnary.ASIN: 0.9,
    HostUnary.ACOS: 0.9,
    HostUnary.ATANH: 0.9,
    HostUnary.TAN: 1.2,
}
_OF_POSITIVES = {
    HostUnary.RSQRT,
    HostUnary.RECIPROCAL,
    HostUnary.LOG2,
    HostUnary.LOG10,
    HostUnary.LOG1P,
    HostUnary.LGAMMA,
}


def _host_unary(draw: Draw, g: RandomGraph) -> object:
    kind = draw(st.sampled_from(HostUnary))
    x = _pick(draw, g, exact=kind in _STEPPED_UNARY)
    if x is None:
        return None
    if x.is_float:
        if kind in _OF_POSITIVES:
            x = _positive(g, x)
            if x is None:
                return None
        if kind in _STEEP_UNARY and float(x.tensor.abs().max()) > _STEEP_UNARY[kind]:
            return None
        if kind is HostUnary.ACOSH and float(x.tensor.min()) < 1.1:
            return None
    low, high = sorted(draw(st.floats(0.125, 2, width=32)) for _ in range(2))
    type = draw(st.sampled_from(enums.IntType))
    exact = not x.is_float or kind in _EXACT_UNARY
    return g.call(
        "host_unary", x, exact=exact, kind=int(kind), type=int(type), p=low, q=high, r=1.0
    )


#: Their results are roundings; all others are exact for exact operands.
_STEEP_BINARY = (HostBinary.ATAN2, HostBinary.HYPOT, HostBinary.XLOGY, HostBinary.POW)
_ROUNDED_BINARY = (*_STEEP_BINARY, HostBinary.REMAINDER, HostBinary.FMOD)
_CONTINUOUS_BINARY = (
    *_STEEP_BINARY,
    HostBinary.MAXIMUM,
    HostBinary.MINIMUM,
    HostBinary.FMAX,
    HostBinary.FMIN,
)


def _host_binary(draw: Draw, g: RandomGraph) -> object:
    kind = draw(st.sampled_from(HostBinary))
    stepped = kind not in _CONTINUOUS_BINARY
    a = _pick(draw, g, exact=stepped)
    b = a and _pick(draw, g, floats=a.is_float, exact=stepped)
    if a is None or b is None:
        return None
    if a.is_float and kind in _STEEP_BINARY:
        smallest = min(float(a.tensor.abs().min()), float(b.tensor.abs().min()))
        if smallest < 0.1 or (kind is not HostBinary.HYPOT and float(a.tensor.min()) < 0):
            return None
    is_shift = kind in (HostBinary.SHIFT_LEFT, HostBinary.SHIFT_RIGHT)
    if is_shift and (int(b.tensor.min()) < 0 or int(b.tensor.max()) > 7):
        return None  # torch leaves those to the processor
    exact = not a.is_float or kind not in _ROUNDED_BINARY
    type = draw(st.sampled_from(enums.IntType))
    return g.call("host_binary", a, b, exact=exact, kind=int(kind), type=int(type))


def _host_where(draw: Draw, g: RandomGraph) -> object:
    condition = _pick(draw, g, floats=False)
    a = draw(st.sampled_from(g.nodes))
    b = _pick(draw, g, floats=a.is_float)
    if condition is None or b is None:
        return None
    return g.call("host_where", condition, a, b, exact=True)


def _host_convert(draw: Draw, g: RandomGraph) -> object:
    x = _pick(draw, g, exact=True)
    to = draw(st.sampled_from(enums.IntType))
    return None if x is None else g.call("host_convert", x, exact=True, to=int(to))


def _host_round(draw: Draw, g: RandomGraph) -> object:
    x = _pick(draw, g, floats=True, exact=True)
    dtype = draw(st.sampled_from([DType.F16, DType.BF16]))
    return None if x is None else g.call("host_round", x, exact=True, dtype=int(dtype))


def _host_reduce(draw: Draw, g: RandomGraph) -> object:
    kind = draw(st.sampled_from(HostReduce))
    stepped = kind in (HostReduce.ARGMAX, HostReduce.ARGMIN, HostReduce.ANY, HostReduce.ALL)
    x = _pick(draw, g, exact=stepped)
    if x is None:
        return None
    correction = float(draw(st.integers(0, 3)))
    if kind is HostReduce.VAR and x.ne[0] - correction < 1:
        return None
    if kind is HostReduce.NORM and float(x.tensor.abs().min()) < 0.1:
        return None
    type = draw(st.sampled_from(enums.IntType))
    exact = stepped or not x.is_float or kind in (HostReduce.MAX, HostReduce.MIN)
    return g.call(
        "host_reduce", x, exact=exact, kind=int(kind), type=int(type), correction=correction
    )


def _host_scan(draw: Draw, g: RandomGraph) -> object:
    kind = draw(st.sampled_from(HostScan))
    stepped = kind in (HostScan.ARGMAX, HostScan.ARGMIN)
    x = _pick(draw, g, exact=stepped)
    type = draw(st.sampled_from(enums.IntType))
    if x is None:
        return None
    exact = stepped or not x.is_float or kind in (HostScan.MAX, HostScan.MIN)
    return g.call("host_scan", x, exact=exact, kind=int(kind), type=int(type))


def _host_argsort(draw: Draw, g: RandomGraph) -> object:
    x = _pick(draw, g, exact=True)
    descending = int(draw(st.booleans()))
    return None if x is None else g.call("host_argsort", x, exact=True, descending=descending)


def _indices(draw: Draw, g: RandomGraph, limit: int, ne: list[int]) -> Node:
    seed = draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)
    shape = list(reversed(ne))
    return g.input(torch.randint(0, limit, shape, generator=generator, dtype=torch.int32))


def _host_gather(draw: Draw, g: RandomGraph) -> object:
    x = draw(st.sampled_from(g.nodes))
    ne = [draw(st.integers(1, 5)), *(draw(st.sampled_from([1, n])) for n in x.ne[1:])]
    return g.call("host_gather", x, _indices(draw, g, x.ne[0], ne), exact=True)


def _host_scatter(draw: Draw, g: RandomGraph) -> object:
    x = draw(st.sampled_from(g.nodes))
    src = _pick(draw, g, floats=x.is_float)
    mode = draw(st.sampled_from(Scatter))
    if src is None:
        return None
    ne = [src.ne[0], *(draw(st.sampled_from([1, n])) for n in src.ne[1:])]
    index = _indices(draw, g, x.ne[0], ne)
    exact = mode in (Scatter.SET, Scatter.MAX, Scatter.MIN) or not x.is_float
    return g.call("host_scatter", x, index, src, exact=exact, mode=int(mode))


def _get_rows(draw: Draw, g: RandomGraph) -> object:
    x = _rows(g, draw(st.sampled_from(g.nodes)))
    ids = _indices(draw, g, x.ne[1], [draw(st.integers(1, 5)), x.ne[2], x.ne[3], 1])
    return g.call("get_rows", x, ids, exact=True)


def _host_wrap_ids(draw: Draw, g: RandomGraph) -> object:
    x = _pick(draw, g, floats=False)
    limit = draw(st.integers(1, 200))
    return None if x is None else g.call("host_wrap_ids", x, exact=True, limit=limit)


def _host_iota(draw: Draw, g: RandomGraph) -> object:
    ne = [draw(st.integers(1, 4)) for _ in range(4)]
    start, step = (draw(st.integers(-9, 9)) for _ in range(2))
    return g.call("host_iota", exact=True, start=start, step=step, **_extents(ne))


def _host_pool(draw: Draw, g: RandomGraph) -> object:
    kind = draw(st.sampled_from(HostPool))
    x = _pick(draw, g, floats=True, exact=kind is HostPool.MAX_INDEX)
    if x is None:
        return None
    params: dict[str, int] = {"kind": int(kind)}
    adaptive = draw(st.booleans())
    for i in range(3):
        if adaptive:
            params[f"ne{i}"] = draw(st.integers(1, 4))
            continue
        kernel = draw(st.integers(1, 3))
        stride = draw(st.integers(1, 3))
        padding = draw(st.integers(0, kernel // 2))
        dilation = 1 if kind is HostPool.AVG else draw(st.integers(1, 2))
        room = x.ne[i] + 2 * padding - dilation * (kernel - 1) - 1
        if room < 0:
            return None
        names = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        params |= {f"{name}{i}": number for name, number in names.items()}
        params[f"ne{i}"] = room // stride + 1
    params |= {"adaptive": int(adaptive), "count_include_pad": int(draw(st.booleans()))}
    params["divisor"] = draw(st.sampled_from([0, 3]))
    return g.call("host_pool", x, exact=kind is not HostPool.AVG, **params)


def _attention(draw: Draw, g: RandomGraph) -> object:
    trio = [_pick(draw, g, floats=True) for _ in range(3)]
    if any(n is None for n in trio):
        return None
    q, k, v = (g.contiguous(n) for n in trio if n is not None)
    causal = int(draw(st.booleans()))
    return g.call("attention", q, k, v, exact=False, scale=0.5, causal=causal)


MAKERS: dict[str, Maker] = {
    name[1:]: maker
    for name, maker in list(globals().items())
    if name.startswith("_")
    and getattr(maker, "__annotations__", {}).get("g") == "RandomGraph"
    and set(maker.__annotations__) == {"draw", "g", "return"}
}

#: Makers with many functions in one are drawn more often.
_DRAWN = (*MAKERS, *4 * ("binary", "unary", "host_unary", "host_binary"), *2 * ("math", "reduce"))


@st.composite
def graphs(draw: Draw, makers: tuple[str, ...] = _DRAWN, calls: int = 8) -> RandomGraph:
    """A graph of up to ``calls`` calls; its outputs are what nothing reads."""
    g = RandomGraph()
    base = [draw(st.integers(1, 5)) for _ in range(4)]
    for _ in range(draw(st.integers(2, 4))):
        ne = [draw(st.sampled_from([n, n, n, 1])) for n in base]
        if draw(st.booleans()):
            ne = draw(st.permutations(ne))
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
        shape = list(reversed(ne))
        if draw(st.integers(0, 3)):
            g.input(torch.randn(shape, generator=generator))
        else:
            low, high = draw(st.sampled_from([(0, 2), (-9, 10), (0, 5), (-300, 300)]))
            g.input(torch.randint(low, high, shape, generator=generator, dtype=torch.int32))
    for _ in range(draw(st.integers(1, calls))):
        MAKERS[draw(st.sampled_from(makers))](draw, g)
    return g


def finish(g: RandomGraph) -> list[Tensor]:
    """Declare the outputs: every result that no call reads. Returns what they hold."""
    read = {v for call in g.graph.calls for v in call.inputs}
    expected: list[Tensor] = []
    for node in list(g.nodes):
        if node.value.producer is None or node.value in read:
            continue
        node = g.contiguous(node)
        shape = tuple(node.tensor.shape)
        g.graph.output(node.value, _FLOAT if node.is_float else _INT, shape)
        expected.append(node.tensor.contiguous())
    return expected
