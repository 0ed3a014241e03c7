"""Keep images channels-last between convolutions.

A lowering speaks torch's order of dims, ``ne = (w, h, c, n)``. In that order ggml writes
out every window of a convolution; with the channels innermost a convolution is a product
with the image where it lies. So convolutions that feed each other, through whatever works
on elements alone, keep their values as ``(c, w, h, n)``, and only where something else
reads or makes such a value is it turned.

A value that is kept so has a *twin*: a contiguous value and the axes to which a permute
would take it. Views and copies of it have twins too, if their order allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch

from executorch_ggml.ir.enums import Pool
from executorch_ggml.ir.graph import Call, Graph, Value, ValueKind
from executorch_ggml.ir.reference_images import packed_kernel
from executorch_ggml.ir.types import Dim, DType, dims_equal, extents_equal, product, simplify_dim
from executorch_ggml.ir.verify import storage_root

#: A weight that holds a function of another's contents; None if those are not known.
Rearrange: TypeAlias = "Callable[[Value, Callable[[torch.Tensor], torch.Tensor]], Value | None]"

#: Where the axes of (c, w, h, n) lie in (w, h, c, n).
_NHWC: Final = (2, 0, 1, 3)
_CONVOLUTIONS: Final = ("conv_2d", "conv_2d_dw")
_UNARY: Final = frozenset(
    [
        "scale",
        "clamp",
        "sqr",
        "sqrt",
        "log",
        "sin",
        "cos",
        "unary",
        "leaky_relu",
        "host_unary",
        "host_round",
    ]
)
_BINARY: Final = frozenset(["add", "sub", "mul", "div", "host_binary"])
_COPIES: Final = frozenset(("cont", "permute", "reshape"))
_THROUGH: Final = _UNARY | _BINARY | {"cont", "reshape", "pad", "pool_2d", "concat"}


@dataclass(frozen=True)
class Twin:
    """``permute(value, axes)`` is the value it stands for; ``value`` is contiguous."""

    value: Value
    axes: tuple[int, ...]


def keep_channels_last(graph: Graph, rearranged: Rearrange, as_products: bool = False) -> int:
    """Rewrite, in place, the convolutions whose kernels are known; returns how many.

    ``as_products``: 1x1 convolutions become ``mul_mat``, whose weights may be quantized.
    """
    if not any(call.op.name in _CONVOLUTIONS for call in graph.calls):
        return 0
    rewriter = _Rewriter(graph, rearranged, as_products)
    rewriter.run()
    graph.eliminate_dead_code()
    return rewriter.n_convolutions


class _Rewriter:
    def __init__(self, graph: Graph, rearranged: Rearrange, as_products: bool) -> None:
        self._graph = graph
        self._as_products = as_products
        self._rearranged = rearranged
        self._wanted = _read_by_convolutions(graph)
        self._twins: dict[Value, Twin] = {}
        self._plains: dict[Value, Value] = {}
        # Calls with a twin that are made only if something reads their own result.
        self._pending: dict[Value, Call] = {}
        self._handle = 0
        self.n_convolutions = 0

    def run(self) -> None:
        calls, self._graph.calls = self._graph.calls, []
        for call in calls:
            self._handle = call.debug_handle
            twin = self._twin_of(call)
            if twin is None:
                self._keep(call)
                continue
            self._twins[call.outputs[0]] = twin
            if call.op.name in _COPIES:
                self._pending[call.outputs[0]] = call
        self._graph.outputs = [
            type(a)(self._plain(a.value), a.scalar_type, a.sizes, a.dim_order)
            for a in self._graph.outputs
        ]

    # --- values -------------------------------------------------------------------------

    def _call(self, op: str, *inputs: Value | None, **params: object) -> Value:
        return self._graph.call(op, *inputs, debug_handle=self._handle, **params)

    def _keep(self, call: Call) -> None:
        call.inputs = tuple(None if v is None else self._plain(v) for v in call.inputs)
        self._graph.calls.append(call)

    def _plain(self, value: Value) -> Value:
        """The value in its own order."""
        if value not in self._twins:
            return value
        if value not in self._plains:
            pending = self._pending.pop(value, None)
            if pending is not None:
                self._keep(pending)
                self._plains[value] = value
            else:
                self._plains[value] = self._turned_back(self._twins[value], value)
        return self._plains[value]

    def _turned_back(self, twin: Twin, value: Value) -> Value:
        if _same_order(value.ne, twin.axes):
            return self._reshape(twin.value, value.ne)
        return self._call("cont", self._permute(twin.value, twin.axes))

    def _reshape(self, value: Value, ne: Sequence[Dim]) -> Value:
        return self._call("reshape", value, **{f"ne{i}": n for i, n in enumerate(ne)})

    def _permute(self, value: Value, axes: Sequence[int]) -> Value:
        return self._call("permute", value, **{f"axis{i}": a for i, a in enumerate(axes)})

    def _turned(self, value: Value, axes: tuple[int, ...]) -> Value:
        """A value, or one that broadcasts, in the order of a twin with these axes."""
        twin = self._twins.get(value)
        if twin is not None and twin.axes == axes:
            return twin.value
        plain = self._plain(value)
        if _same_order(plain.ne, axes):
            if not plain.type.is_contiguous:
                plain = self._call("cont", plain)
            return self._reshape(plain, [plain.ne[a] for a in axes])
        return self._call("cont", self._permute(plain, [axes.index(i) for i in range(4)]))

    # --- calls --------------------------------------------------------------------------

    def _twin_of(self, call: Call) -> Twin | None:
        """The twin of a call's result, computed from twins; None to leave the call as it is."""
        name = call.op.name
        if name in _CONVOLUTIONS:
            return self._convolution(call)
        if name in _BINARY or name == "concat":
            return self._two_operands(call)
        source = call.inputs[0] if call.inputs else None
        if name == "permute" and source is not None:
            return self._permuted(call, source)
        twin = None if source is None else self._twins.get(source)
        if twin is None or source is None:
            return None
        if name in _UNARY:
            return Twin(self._call(name, twin.value, **call.params), twin.axes)
        if name == "cont":
            return self._copied(call, twin)
        if name == "reshape":
            return self._reshaped(source.ne, call.outputs[0].ne, twin)
        if name == "pad":
            return self._padded(call, twin)
        if name == "pool_2d" and twin.axes == _NHWC:
            return Twin(self._call("pool_2d_nhwc", twin.value, **call.params), twin.axes)
        if name == "mean_rows":
            return self._mean(twin)
        return None

    def _convolution(self, call: Call) -> Twin | None:
        kernel, x = call.inputs
        result = call.outputs[0]
        assert kernel is not None
        assert x is not None
        if x not in self._twins and result not in self._wanted:
            return None
        if self._as_products and _is_product(call, kernel):
            return self._product(kernel, x)
        depthwise = call.op.name == "conv_2d_dw"
        weight = self._arranged(kernel, _channels_innermost if depthwise else _in_panels)
        if weight is None:
            return None
        params = dict(call.params)
        x, zeros = _without_pad(x)
        for i in (0, 1):
            before, after = zeros[i]
            params[f"kernel{i}"] = kernel.ne[i]
            params[f"after{i}"] = params[f"padding{i}"] + after
            params[f"padding{i}"] += before
        if not depthwise:
            params["channels"] = kernel.ne[3]
        self.n_convolutions += 1
        image = self._turned(x, _NHWC)
        return Twin(self._call(f"{call.op.name}_nhwc", weight, image, **params), _NHWC)

    def _arranged(
        self, kernel: Value, arrange: Callable[[torch.Tensor], torch.Tensor]
    ) -> Value | None:
        """A known kernel's contents in another order, in F32; None if they are computed."""
        weight: Value | None = kernel
        while weight is not None and weight.producer is not None:
            # A kernel in half precision is cast, that of a signal gets a height.
            if weight.producer.op.name not in ("cast", "reshape"):
                return None
            weight = weight.producer.inputs[0]
        if weight is None or weight.kind is not ValueKind.WEIGHT:
            return None
        shape = [int(n) for n in reversed(kernel.ne)]
        found = self._rearranged(weight, lambda contents: arrange(contents.reshape(shape)))
        return found if found is not None and found.type.dtype is DType.F32 else None

    def _product(self, kernel: Value, x: Value) -> Twin | None:
        """A 1x1 convolution: each position's channels times a matrix."""
        matrix = self._arranged(kernel, _as_matrix)
        if matrix is None:
            return None
        self.n_convolutions += 1
        image = self._turned(x, _NHWC)
        channels, *positions = image.ne
        columns = self._reshape(image, (channels, simplify_dim(product(positions)), 1, 1))
        result = self._call("mul_mat", matrix, columns)
        return Twin(self._reshape(result, (kernel.ne[3], *positions)), _NHWC)

    def _two_operands(self, call: Call) -> Twin | None:
        a, b = call.inputs
        assert a is not None
        assert b is not None
        twin = self._twins.get(a)
        if twin is None and (call.outputs[0] in self._wanted or call.op.name == "concat"):
            twin = self._twins.get(b)
        if twin is None or DType.FROM_FILE in (a.type.dtype, b.type.dtype):
            return None
        if call.op.name == "host_binary" and not extents_equal(a.ne, call.outputs[0].ne):
            return None  # its first operand broadcasts as well
        params = dict(call.params)
        if call.op.name == "concat":
            params["axis"] = twin.axes.index(params["axis"])
        operands = (self._turned(a, twin.axes), self._turned(b, twin.axes))
        return Twin(self._call(call.op.name, *operands, **params), twin.axes)

    def _permuted(self, call: Call, source: Value) -> Twin | None:
        axes = tuple(call.params[f"axis{i}"] for i in range(4))
        twin = self._twins.get(source)
        if twin is not None:
            return Twin(twin.value, tuple(axes[a] for a in twin.axes))
        # What a program is given channels-last is seen through a permute. A state's memory
        # may change before its twin is read.
        plain = self._plain(source)
        if plain.type.is_contiguous and storage_root(plain).kind is not ValueKind.STATE:
            return Twin(plain, axes)
        return None

    def _copied(self, call: Call, twin: Twin) -> Twin:
        if twin.axes == (0, 1, 2, 3) and storage_root(twin.value).kind is ValueKind.RESULT:
            self._plains[call.outputs[0]] = twin.value
        return twin

    def _reshaped(self, before: Sequence[Dim], after: Sequence[Dim], twin: Twin) -> Twin | None:
        """A reshape that merges neighbours which are neighbours in the twin as well."""
        groups = _merged(before, after)
        if groups is None:
            return None
        group_of = {axis: g for g, group in enumerate(groups) for axis in group}
        walked = [axis for axis in twin.axes if axis in group_of]
        order = list(dict.fromkeys(group_of[axis] for axis in walked))
        if walked != [axis for g in order for axis in groups[g]]:
            return None
        axes = (*order, *(g for g in range(4) if g not in order))
        return Twin(self._reshape(twin.value, [after[a] for a in axes]), axes)

    def _padded(self, call: Call, twin: Twin) -> Twin:
        params = {
            f"{side}{i}": call.params[f"{side}{axis}"]
            for i, axis in enumerate(twin.axes)
            for side in ("before", "after")
        }
        return Twin(self._call("pad", twin.value, **params), twin.axes)

    def _mean(self, twin: Twin) -> Twin | None:
        """The mean over all positions: one window."""
        size = twin.value.ne[1]
        if twin.axes[1] != 0 or not isinstance(size, int):
            return None
        params = {"kernel0": size, "kernel1": 1, "stride0": 1, "stride1": 1}
        mean = self._call("pool_2d_nhwc", twin.value, kind=int(Pool.AVG), **params)
        return Twin(mean, twin.axes)


def _read_by_convolutions(graph: Graph) -> set[Value]:
    """Values that reach a convolution, or a reader of channels, by calls that keep a twin."""
    wanted: set[Value] = set()
    for call in reversed(graph.calls):
        name = call.op.name
        inputs = [v for v in call.inputs if v is not None]
        if name in _CONVOLUTIONS:
            wanted.add(inputs[1])
        elif name == "permute" and 0 in (call.params["axis1"], call.params["axis2"]):
            wanted.add(inputs[0])
        elif call.outputs[0] in wanted and name in _THROUGH:
            wanted.update(inputs)
    return wanted


def _without_pad(x: Value) -> tuple[Value, list[tuple[int, int]]]:
    """What a ``pad`` of width and height reads, and its zeros (before, after) each of them."""
    call = x.producer
    if call is None or call.op.name != "pad" or call.inputs[0] is None:
        return x, [(0, 0), (0, 0)]
    zeros = [(call.params[f"before{i}"], call.params[f"after{i}"]) for i in range(4)]
    # A state may be written between the two.
    is_state = storage_root(call.inputs[0]).kind is ValueKind.STATE
    if is_state or any(zeros[2]) or any(zeros[3]):
        return x, [(0, 0), (0, 0)]
    return call.inputs[0], zeros[:2]


def _is_product(call: Call, kernel: Value) -> bool:
    row = kernel.ne[2]
    return (
        call.op.name == "conv_2d"
        and kernel.ne[:2] == (1, 1)
        and all(call.params[f"stride{i}"] == 1 and not call.params[f"padding{i}"] for i in (0, 1))
        and isinstance(row, int)
        and row % DType.Q8_0.block_size == 0
    )


def _as_matrix(kernel: torch.Tensor) -> torch.Tensor:
    return kernel.float().flatten(1)


def _channels_innermost(kernel: torch.Tensor) -> torch.Tensor:
    """``[c, 1, kh, kw]`` as ``[kh, kw, c]``."""
    return kernel.float()[:, 0].permute(1, 2, 0).contiguous()


def _in_panels(kernel: torch.Tensor) -> torch.Tensor:
    return packed_kernel(kernel.float())


def _same_order(ne: Sequence[Dim], axes: Sequence[int]) -> bool:
    """Whether elements keep their order in memory: axes of more than one element do."""
    spanned = [axis for axis in axes if not dims_equal(ne[axis], 1)]
    return spanned == sorted(spanned)


def _merged(before: Sequence[Dim], after: Sequence[Dim]) -> list[list[int]] | None:
    """For each extent after a reshape the axes it is made of; None if one was split."""
    axes = [i for i, n in enumerate(before) if not dims_equal(n, 1)]
    groups: list[list[int]] = []
    for extent in after:
        group: list[int] = []
        found: Dim = 1
        while not dims_equal(found, extent):
            if not axes:
                return None
            group.append(axes.pop(0))
            found = simplify_dim(found * before[group[-1]])
        groups.append(group)
    return None if axes else groups
