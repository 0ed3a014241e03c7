"""What a lowering works with: IR values for FX nodes, and torch's conventions on top.

This is the one place where torch's order of dims (outermost first) meets ggml's
(innermost first): a torch shape ``[B, H, S, D]`` is ``ne = (D, S, H, B)``, and
torch dim ``d`` of ``r`` is ggml axis ``r - 1 - d``. Lowerings speak torch shapes
and dims; the helpers here translate.

Values inside a delegate have one of two element types: F32 for every floating
torch dtype (half-precision inputs are widened at the boundary and results are
rounded there, so sums accumulate in F32), and I32 for integers and booleans
(int64 arguments are range-checked at the boundary). Weights keep their own type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import sympy
import torch
from executorch.exir.tensor import dim_order_from_stride
from torch import fx

from executorch_ggml.ir.graph import Graph, State, Value, ValueKind
from executorch_ggml.ir.types import (
    Dim,
    DType,
    TensorType,
    contiguous_strides,
    dims_equal,
    extents_equal,
    product,
    simplify_dim,
)
from executorch_ggml.lowering.registry import Unsupported, op_name
from executorch_ggml.options import GgmlOptions

MAX_RANK = 4

_COPIES = (
    "aten._to_copy.default",
    "dim_order_ops._to_dim_order_copy.default",
    "aten.clone.default",
    "aten.alias.default",
    "aten.alias_copy.default",
    "aten.lift_fresh_copy.default",
    "dim_order_ops._clone_dim_order.default",
)

#: Half-precision dtypes, and as what they are stored.
HALVES = {torch.float16: DType.F16, torch.bfloat16: DType.BF16}
#: Every floating-point dtype whose values a delegate holds, as F32.
FLOATS = (torch.float32, *HALVES)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


@dataclass(frozen=True)
class Tensor:
    """An IR value with its torch shape (outermost dim first) and torch dtype."""

    value: Value
    shape: tuple[Dim, ...]
    dtype: torch.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


Lowered: TypeAlias = "Tensor | tuple[Tensor, ...] | Dim"


class Sources(Protocol):
    """Where a lowered region gets what it reads but does not compute."""

    def materialize(self, graph: Graph, node: fx.Node) -> Lowered:
        """The IR value of a node from outside the region."""

    def constant(self, graph: Graph, tensor: torch.Tensor) -> Value:
        """A weight with these contents."""

    def scalar(self, node: fx.Node) -> float | None:
        """The value of a lifted constant of one element; None for any other node."""

    def contents(self, node: fx.Node) -> torch.Tensor | None:
        """The contents of a lifted constant; None for any other node."""

    def precomputed(
        self, graph: Graph, nodes: Sequence[fx.Node], function: Callable[..., torch.Tensor]
    ) -> Value | None:
        """A weight that holds a function of constants; None if one of the nodes is computed."""

    def reinterpret(self, graph: Graph, weight: Value, type: TensorType) -> Value:
        """The bytes of a weight of U8 elements as another type."""


def to_dim(size: Any) -> Dim:
    """A torch size (int or SymInt) as an extent.

    Raises:
        Unsupported: a size without an expression (data dependent and unbacked by an input).
    """
    if isinstance(size, torch.SymInt):
        return simplify_dim(size.node.expr)
    if isinstance(size, sympy.Expr):
        return simplify_dim(size)
    return int(size)


def ir_dtype(dtype: torch.dtype) -> DType:
    """The element type of a torch dtype inside a delegate."""
    if dtype in FLOATS:
        return DType.F32
    if dtype in _INTEGERS:
        return DType.I32
    raise Unsupported(f"dtype {dtype}")


class LoweringContext:
    """Builds IR for a set of FX nodes.

    Args:
        graph: receives the calls.
        sources: makes the values of nodes from outside the set, and constants.
        options: how the program is lowered.
    """

    def __init__(self, graph: Graph, sources: Sources, options: GgmlOptions) -> None:
        self.graph = graph
        self.options = options
        self._sources = sources
        self._env: dict[fx.Node, Lowered] = {}
        self.debug_handle = 0

    # --- nodes ---------------------------------------------------------------------

    def bind(self, node: fx.Node, lowered: Lowered) -> None:
        self._env[node] = lowered

    def bind_input(self, node: fx.Node) -> None:
        """Declare an input. One laid out in another order of dims is seen through a permute."""
        found = self._sources.materialize(self.graph, node)
        order = dim_order_of(node.meta["val"]) if isinstance(found, Tensor) else ()
        if order and isinstance(found, Tensor):
            stored = Tensor(found.value, tuple(found.shape[d] for d in order), found.dtype)
            found = self.permuted(stored, [order.index(d) for d in range(found.rank)])
        self.bind(node, found)

    def lowered(self, node: fx.Node) -> Lowered:
        if node not in self._env:
            self._env[node] = self._sources.materialize(self.graph, node)
        return self._env[node]

    def scalar(self, arg: Any) -> float | None:
        """The value of a number, or of a constant of one element behind conversions.

        Edge programs hold the numbers of a model's code as lifted constants.
        """
        if isinstance(arg, (int, float)) and not isinstance(arg, bool):
            return float(arg)
        conversions: list[torch.dtype] = []
        while isinstance(arg, fx.Node) and op_name(arg.target) in _COPIES:
            conversions.append(arg.meta["val"].dtype)
            arg = arg.args[0]
        if not isinstance(arg, fx.Node) or arg.op not in ("placeholder", "get_attr"):
            return None
        number = self._sources.scalar(arg)
        if number is None:
            return None
        # Half precision is rounded to where it is converted on, as every value is.
        if conversions and conversions[0] in HALVES:
            conversions.pop(0)
        for dtype in reversed(conversions):
            number = float(torch.tensor(number, dtype=torch.float64).to(dtype))
        return number

    def known_integers(self, arg: Any) -> torch.Tensor | None:
        """The int64 contents of an integer constant behind copies; None if they are computed."""
        while isinstance(arg, fx.Node) and op_name(arg.target) in _COPIES:
            if arg.meta["val"].dtype not in (torch.int64, torch.int32):
                return None
            arg = arg.args[0]
        if not isinstance(arg, fx.Node) or arg.op not in ("placeholder", "get_attr"):
            return None
        found = self._sources.contents(arg)
        if found is None or found.dtype not in _INTEGERS or found.dtype == torch.bool:
            return None
        return found.to(torch.int64)

    def constant(self, tensor: torch.Tensor) -> Value:
        """A constant known now, such as a scalar operand."""
        return self._sources.constant(self.graph, tensor)

    def precomputed(
        self, nodes: Sequence[fx.Node], function: Callable[..., torch.Tensor]
    ) -> Value | None:
        """A function of constants, of parameters too, computed ahead of time.

        None if one of the nodes is computed, or read from a file at load.
        """
        return self._sources.precomputed(self.graph, nodes, function)

    def reinterpret_weight(self, blob: Tensor, dtype: DType, shape: Sequence[Dim]) -> Value:
        """A weight of raw bytes as a tensor of a block type.

        Raises:
            Unsupported: the bytes are computed, or do not make up the shape.
        """
        type = contiguous_type(dtype, shape)
        elements = type.n_elements
        if not is_weight(blob.value) or blob.dtype != torch.uint8:
            raise Unsupported("quantized blocks that are not a constant of bytes")
        if not isinstance(elements, int) or not all(isinstance(d, int) for d in blob.shape):
            raise Unsupported("quantized blocks of symbolic size")
        expected = elements // dtype.block_size * dtype.type_size
        found = math.prod(int(d) for d in blob.shape)
        if found != expected:
            raise Unsupported(f"{found} bytes of {dtype.name} blocks, expected {expected}")
        return self._sources.reinterpret(self.graph, blob.value, type)

    def state_index(self, state: State) -> int:
        """The index of a session state, declared once per name."""
        for index, known in enumerate(self.graph.states):
            if known.name == state.name:
                if known != state:
                    raise Unsupported(f"state {state.name} is used with two shapes")
                return index
        self.graph.states.append(state)
        return len(self.graph.states) - 1

    def tensor(self, arg: Any, name: str = "input") -> Tensor:
        """The operand ``arg``, which must be a single tensor node."""
        if not isinstance(arg, fx.Node):
            raise Unsupported(f"{name} is {type(arg).__name__}, not a tensor")
        found = self.lowered(arg)
        if not isinstance(found, Tensor):
            raise Unsupported(f"{name} is not a tensor")
        return found

    def float_tensor(self, arg: Any, name: str = "input") -> Tensor:
        """A floating-point operand as F32."""
        found = self.tensor(arg, name)
        if not found.is_float:
            raise Unsupported(f"{name} is {found.dtype}, not floating point")
        return self.as_f32(found)

    def optional_tensor(self, arg: Any, name: str) -> Tensor | None:
        return None if arg is None else self.tensor(arg, name)

    def dim(self, arg: Any) -> Dim:
        """A size argument: an int, a SymInt, or a node that computes one."""
        if isinstance(arg, fx.Node):
            return to_dim(arg.meta["val"])
        return to_dim(arg)

    def static(self, arg: Any, name: str) -> int:
        """An argument that must be a plain integer."""
        if isinstance(arg, bool) or not isinstance(arg, int):
            raise Unsupported(f"{name} is not constant")
        return arg

    def number(self, arg: Any, name: str) -> float:
        """A scalar argument that must be a plain number."""
        if isinstance(arg, (bool, int, float)):
            return float(arg)
        raise Unsupported(f"{name} is not a constant number")

    @staticmethod
    def argument(node: fx.Node, index: int, name: str, default: Any = None) -> Any:
        """Positional or keyword argument of a node."""
        if index < len(node.args):
            return node.args[index]
        return node.kwargs.get(name, default)

    @staticmethod
    def output_shape(node: fx.Node) -> tuple[Dim, ...]:
        return tuple(to_dim(s) for s in node.meta["val"].shape)

    @staticmethod
    def output_dtype(node: fx.Node) -> torch.dtype:
        dtype = node.meta["val"].dtype
        assert isinstance(dtype, torch.dtype)
        return dtype

    # --- building ------------------------------------------------------------------

    def call(self, op_name: str, *inputs: Value | None, **params: Any) -> Value:
        return self.graph.call(op_name, *inputs, debug_handle=self.debug_handle, **params)

    def result(self, node: fx.Node, value: Value) -> Tensor:
        """Wrap a value as the result of ``node``; its extents must be the node's shape."""
        shape = self.output_shape(node)
        expected = extents_of(shape)
        if not extents_equal(expected, value.ne):
            raise AssertionError(
                f"{node.name}: lowered to ne {value.ne}, but its shape {shape} is ne {expected}"
            )
        return Tensor(value, shape, self.output_dtype(node))

    # --- layout --------------------------------------------------------------------

    def contiguous(self, value: Value) -> Value:
        return value if value.type.is_contiguous else self.call("cont", value)

    def rows(self, value: Value) -> Value:
        """The value with adjacent elements along ``ne[0]``."""
        return value if value.type.has_contiguous_rows else self.call("cont", value)

    def as_f32(self, tensor: Tensor) -> Tensor:
        """A floating-point tensor as F32. A half-precision weight is widened by a cast."""
        dtype = tensor.value.type.dtype
        if dtype in (DType.F32, DType.FROM_FILE):
            return tensor
        return Tensor(
            self.call("cast", tensor.value, dtype=int(DType.F32)), tensor.shape, torch.float32
        )

    def widened(self, tensor: Tensor) -> Tensor:
        """As :meth:`as_f32` if it is floating point: calls on several values take one type."""
        return self.as_f32(tensor) if tensor.is_float else tensor

    def reshape(self, value: Value, shape: Sequence[Dim]) -> Value:
        """Row-major reshape to a torch shape."""
        ne = extents_of(shape)
        if extents_equal(ne, value.ne):
            return value
        kept = self._reshape_view(value, ne)
        if kept is not None:
            return kept
        return self.call("reshape", self.contiguous(value), **_named("ne", ne))

    def _reshape_view(self, value: Value, ne: Sequence[Dim]) -> Value | None:
        """A reshape of a strided value that only adds or drops extents of 1, as a permute."""
        if value.type.is_contiguous:
            return None
        kept_source = [i for i in range(4) if not dims_equal(value.ne[i], 1)]
        kept_target = [i for i in range(4) if not dims_equal(ne[i], 1)]
        if len(kept_source) != len(kept_target):
            return None
        if not all(
            dims_equal(value.ne[s], ne[t]) for s, t in zip(kept_source, kept_target, strict=True)
        ):
            return None
        axes = dict(zip(kept_source, kept_target, strict=True))
        free = iter(t for t in range(4) if t not in kept_target)
        for i in range(4):
            if i not in axes:
                axes[i] = next(free)
        return self._permute_axes(value, [axes[i] for i in range(4)])

    def permute(self, value: Value, dims: Sequence[int]) -> Value:
        """Torch permutation of up to four dims: result dim ``i`` is dim ``dims[i]``."""
        rank = len(dims)
        axes = list(range(4))
        for target, source in enumerate(dims):
            axes[rank - 1 - source] = rank - 1 - target
        return self._permute_axes(value, axes)

    def permuted(self, tensor: Tensor, dims: Sequence[int]) -> Tensor:
        """Torch permutation of any rank."""
        shape = tuple(tensor.shape[d] for d in dims)
        if tensor.rank <= MAX_RANK:
            return Tensor(self.permute(tensor.value, dims), shape, tensor.dtype)
        # Dims that stay neighbours move as one; those of size 1 need not move.
        blocks: list[list[int]] = []
        for d in (d for d in dims if not dims_equal(tensor.shape[d], 1)):
            between = range(blocks[-1][-1] + 1, d) if blocks and blocks[-1][-1] < d else None
            if between is not None and all(dims_equal(tensor.shape[b], 1) for b in between):
                blocks[-1].append(d)
            else:
                blocks.append([d])
        sizes = [product(tensor.shape[d] for d in block) for block in blocks]
        order = sorted(range(len(blocks)), key=lambda i: blocks[i][0])  # as they lie now
        value = tensor.value
        if len(blocks) <= MAX_RANK:
            value = self.reshape(value, [sizes[i] for i in order])
            value = self.permute(value, [order.index(i) for i in range(len(blocks))])
        else:
            value = self._move_blocks(value, sizes, order)
        return Tensor(self.reshape(value, shape), shape, tensor.dtype)

    def _move_blocks(self, value: Value, sizes: Sequence[Dim], order: list[int]) -> Value:
        """Bring one block after the other to its place, each as a swap of two of four dims."""
        for target in range(len(order)):
            found = order.index(target)
            if found == target:
                continue
            before, between = order[:target], order[target:found]
            after = order[found + 1 :]
            four = [product(sizes[i] for i in part) for part in (before, between, [target], after)]
            value = self.contiguous(self.permute(self.reshape(value, four), (0, 2, 1, 3)))
            order = [*before, target, *between, *after]
        return value

    def _permute_axes(self, value: Value, axes: Sequence[int]) -> Value:
        """``ggml_permute``, composed with the permutation that made ``value``."""
        producer = value.producer
        if producer is not None and producer.op.name == "permute":
            first = [producer.params[f"axis{i}"] for i in range(4)]
            source = producer.inputs[0]
            assert source is not None
            return self._permute_axes(source, [axes[first[i]] for i in range(4)])
        if list(axes) == [0, 1, 2, 3]:
            return value
        return self.call("permute", value, **_named("axis", axes))

    def transpose(self, tensor: Tensor, dim0: int, dim1: int) -> Tensor:
        dims = list(range(tensor.rank))
        dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
        return self.permuted(tensor, dims)

    def slice(self, tensor: Tensor, dim: int, start: Dim, length: Dim, step: int = 1) -> Value:
        """``length`` elements of ``dim`` from ``start``, ``step`` apart, as a view."""
        axis = axis_of(tensor.shape, dim)
        result = (*tensor.shape[:dim], length, *tensor.shape[dim + 1 :])
        if axis is None or axis_of(result, dim) != axis:
            # Which dims share an axis differs before and after.
            three = self.around(tensor, dim)
            return self.reshape(self.slice(three, 1, start, length, step), result)
        value = self._viewable(tensor.value, keep_rows=(axis != 0 or step == 1))
        if axis == 0 and step != 1:
            return self._strided_rows(value, start, length, step)
        strides = list(value.type.strides)
        ne: list[Dim] = list(value.ne)
        offset = simplify_dim(start * strides[axis])
        ne[axis] = length
        strides[axis] = simplify_dim(strides[axis] * step)
        if value.producer is not None and value.producer.op.name == "view":
            source = value.producer.inputs[0]
            assert source is not None
            offset = simplify_dim(offset + value.producer.params["offset"])
            value = source
        for i in range(1, 4):
            if dims_equal(ne[i], 1):  # as ggml would set it: some ops look at it all the same
                strides[i] = simplify_dim(strides[i - 1] * ne[i - 1])
        return self.call(
            "view",
            value,
            **_named("ne", ne),
            stride1=strides[1],
            stride2=strides[2],
            stride3=strides[3],
            offset=offset,
        )

    def _viewable(self, value: Value, keep_rows: bool) -> Value:
        """``ggml_view`` sets the row stride to one element: strided rows are copied first."""
        if value.type.dtype.is_quantized or value.type.dtype == DType.FROM_FILE:
            raise Unsupported("a slice of a quantized weight")
        return self.rows(value) if keep_rows else self.contiguous(value)

    def _strided_rows(self, value: Value, start: Dim, length: Dim, step: int) -> Value:
        """Every ``step``-th element of ``ne[0]``: a view with rows of one element, copied."""
        if not dims_equal(value.ne[3], 1):
            rows = [value.ne[0], simplify_dim(value.ne[1] * value.ne[2] * value.ne[3]), 1, 1]
            flat = self.call("reshape", self.contiguous(value), **_named("ne", rows))
            picked = self._strided_rows(flat, start, length, step)
            return self.call("reshape", picked, **_named("ne", [length, *value.ne[1:]]))
        strides = value.type.strides
        view = self.call(
            "view",
            value,
            ne0=1,
            ne1=length,
            ne2=value.ne[1],
            ne3=value.ne[2],
            stride1=step,
            stride2=strides[1],
            stride3=strides[2],
            offset=simplify_dim(start * strides[0]),
        )
        return self.call(
            "reshape", self.call("cont", view), ne0=length, ne1=value.ne[1], ne2=value.ne[2], ne3=1
        )

    def around(self, tensor: Tensor, dim: int) -> Tensor:
        """The tensor as three dims ``[outer, shape[dim], inner]``, for calls along one dim."""
        shape = tensor.shape
        three = (product(shape[:dim]), shape[dim], product(shape[dim + 1 :]))
        return Tensor(self.reshape(tensor.value, three), three, tensor.dtype)

    def aligned(self, tensor: Tensor, shape: Sequence[Dim]) -> Value:
        """The tensor with the axes of a shape that it broadcasts to."""
        if len(shape) <= MAX_RANK:
            return tensor.value
        full = (1,) * (len(shape) - tensor.rank) + tensor.shape
        extents: list[Dim] = []
        for group in folded_dims(shape):
            if not all(dims_equal(full[d], shape[d]) for d in group) and not all(
                dims_equal(full[d], 1) for d in group
            ):
                return self.broadcast_to(tensor, shape)
            extents.append(product(full[d] for d in group))
        return self.reshape(tensor.value, extents)

    def broadcast_to(self, tensor: Tensor, shape: Sequence[Dim]) -> Value:
        """Repeat the tensor to a torch shape (missing leading dims are 1)."""
        ne = extents_of(shape)
        if len(shape) > MAX_RANK:
            return self._broadcast_dim_by_dim(tensor, shape)
        value = tensor.value
        if extents_equal(ne, value.ne):
            return value
        return self.call("repeat", self.rows(value), **_named("ne", ne))

    def _broadcast_dim_by_dim(self, tensor: Tensor, shape: Sequence[Dim]) -> Value:
        full: list[Dim] = [*((1,) * (len(shape) - tensor.rank)), *tensor.shape]
        value = tensor.value
        for d in reversed(range(len(shape))):
            if dims_equal(full[d], shape[d]):
                continue
            if not dims_equal(full[d], 1):
                raise Unsupported(f"{tensor.shape} does not broadcast to {tuple(shape)}")
            full[d] = shape[d]
            outer, inner = product(full[:d]), product(full[d + 1 :])
            value = self.reshape(value, (outer, 1, inner))
            value = self.call("repeat", self.rows(value), ne0=inner, ne1=shape[d], ne2=outer, ne3=1)
        return self.reshape(value, shape)


def broadcast_shape(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The common shape of shapes that torch broadcasts.

    Raises:
        Unsupported: extents that are not known to broadcast.
    """
    rank = max(len(s) for s in shapes)
    result: list[Dim] = []
    for extents in zip(*((*((1,) * (rank - len(s))), *s) for s in shapes), strict=True):
        wide = [d for d in extents if not dims_equal(d, 1)] or [1]
        if not all(dims_equal(d, wide[0]) for d in wide):
            raise Unsupported(f"{' and '.join(map(str, extents))} are not known to broadcast")
        result.append(wide[0])
    return tuple(result)


def folded_dims(shape: Sequence[Dim]) -> list[list[int]]:
    """Which torch dims share a ggml axis, outermost axis first.

    Up to four dims have an axis each. Beyond that the outermost dims of size 1 are
    dropped, and if that is not enough the outermost dims are merged into one axis:
    elements stay in the same order, so element-wise calls need not know.
    """
    kept = list(range(len(shape)))
    while len(kept) > MAX_RANK:
        ones = [d for d in kept if dims_equal(shape[d], 1)]
        if not ones:
            break
        kept.remove(ones[0])
    extra = max(len(kept) - MAX_RANK, 0)
    merged = [kept[: extra + 1]] if kept else []
    return [*merged, *([d] for d in kept[extra + 1 :])]


def extents_of(shape: Sequence[Dim]) -> tuple[Dim, Dim, Dim, Dim]:
    """A torch shape as ggml extents."""
    groups = reversed(folded_dims(shape))
    reverse: list[Dim] = [simplify_dim(product(shape[d] for d in group)) for group in groups]
    reverse += [1] * (MAX_RANK - len(reverse))
    return (reverse[0], reverse[1], reverse[2], reverse[3])


def axis_of(shape: Sequence[Dim], dim: int) -> int | None:
    """The ggml axis of a torch dim; None if it shares one or was dropped."""
    groups = folded_dims(shape)
    return len(groups) - 1 - groups.index([dim]) if [dim] in groups else None


def normalize_dim(dim: Any, rank: int) -> int:
    """A torch dim in 0..rank-1."""
    if not isinstance(dim, int):
        raise Unsupported("a dim that is not constant")
    return dim + rank if dim < 0 else dim


def getitem_index(user: fx.Node) -> int | None:
    """Which element of a tuple a user of the tuple takes; None if it is no ``getitem``."""
    return user.args[1] if len(user.args) == 2 and isinstance(user.args[1], int) else None


def contiguous_type(dtype: DType, shape: Sequence[Dim]) -> TensorType:
    """The type of a contiguous value with a torch shape."""
    ne = extents_of(shape)
    return TensorType(dtype, ne, contiguous_strides(ne))


def dim_order_of(fake: torch.Tensor) -> tuple[int, ...]:
    """The dims of an argument from the outermost in memory to the innermost; () in order.

    A program's argument is dense in the order that ExecuTorch reads from its strides.

    Raises:
        Unsupported: an expanded tensor, which ExecuTorch refuses too.
    """
    if any(isinstance(s, int) and s == 0 for s in fake.stride()):
        raise Unsupported("an expanded argument (a stride of 0)")
    order = tuple(int(d) for d in dim_order_from_stride(fake.stride()))
    return () if order == tuple(range(fake.dim())) else order


def is_weight(value: Value) -> bool:
    return value.kind is ValueKind.WEIGHT


def _named(prefix: str, dims: Sequence[Any]) -> dict[str, Any]:
    return {f"{prefix}{i}": d for i, d in enumerate(dims)}


__all__ = [
    "FLOATS",
    "HALVES",
    "Lowered",
    "LoweringContext",
    "Tensor",
    "axis_of",
    "broadcast_shape",
    "contiguous_type",
    "dim_order_of",
    "extents_of",
    "getitem_index",
    "ir_dtype",
    "is_weight",
    "normalize_dim",
    "product",
    "to_dim",
]
