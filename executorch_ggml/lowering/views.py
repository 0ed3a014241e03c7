"""Shape ops: mostly views, copies only where ggml needs adjacent elements."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, dims_equal, simplify_dim
from executorch_ggml.lowering.context import (
    Lowered,
    LoweringContext,
    Tensor,
    axis_of,
    normalize_dim,
)
from executorch_ggml.lowering.registry import Unsupported, lowering

_INT64_MAX = 2**63 - 1


@lowering("operator.getitem")
def getitem(ctx: LoweringContext, node: fx.Node) -> Lowered:
    source = node.args[0]
    assert isinstance(source, fx.Node)
    values = ctx.lowered(source)
    index = node.args[1]
    if not isinstance(values, tuple) or not isinstance(index, int) or index >= len(values):
        raise Unsupported("an element of something that is not lowered as a tuple")
    return values[index]


@lowering(
    "aten.view.default",
    "aten.view_copy.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten.unsqueeze.default",
    "aten.unsqueeze_copy.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.squeeze_copy.default",
    "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
)
def reshape(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Every op whose result is the input's elements in the same order."""
    x = ctx.tensor(node.args[0])
    return ctx.result(node, ctx.reshape(x.value, ctx.output_shape(node)))


@lowering(
    "aten.clone.default",
    "aten.alias.default",
    "aten.alias_copy.default",
    "aten.detach.default",
    "aten.detach_copy.default",
    "aten.lift_fresh_copy.default",
    "aten.contiguous.default",
    "aten.dropout.default",
    "dim_order_ops._clone_dim_order.default",
)
def identity(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Copies have no meaning inside a functional graph."""
    if op_trains(node):
        raise Unsupported("dropout in training mode")
    return ctx.result(node, ctx.tensor(node.args[0]).value)


def op_trains(node: fx.Node) -> bool:
    return "dropout" in str(node.target) and len(node.args) > 2 and node.args[2] is True


@lowering("aten.permute.default", "aten.permute_copy.default")
def permute(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    dims = node.args[1]
    assert isinstance(dims, (list, tuple))
    return ctx.result(node, ctx.permuted(x, [normalize_dim(d, x.rank) for d in dims]).value)


@lowering("aten.transpose.int", "aten.transpose_copy.int")
def transpose(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    if x.rank == 0:
        return ctx.result(node, x.value)
    dim0, dim1 = (normalize_dim(d, x.rank) for d in node.args[1:3])
    return ctx.result(node, ctx.transpose(x, dim0, dim1).value)


@lowering("aten.t.default", "aten.t_copy.default", "aten.numpy_T.default")
def t(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    return ctx.result(node, ctx.permuted(x, list(reversed(range(x.rank)))).value)


@lowering("aten.expand.default", "aten.expand_copy.default")
def expand(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    return ctx.result(node, ctx.broadcast_to(x, ctx.output_shape(node)))


@lowering("aten.repeat.default")
def repeat(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    counts = node.args[1]
    assert isinstance(counts, (list, tuple))
    if any(not isinstance(c, int) for c in counts):
        raise Unsupported("a symbolic repeat count")
    return ctx.result(node, ctx.broadcast_to(x, ctx.output_shape(node)))


def _bound(ctx: LoweringContext, arg: Any, extent: Dim, default: Dim) -> Dim:
    """A slice bound, clipped to the extent as torch clips it."""
    if arg is None:
        return default
    bound = ctx.dim(arg)
    if isinstance(bound, int):
        if bound >= _INT64_MAX:
            return extent
        if bound < 0:
            bound = simplify_dim(bound + extent)
            if isinstance(bound, int):
                return max(bound, 0)
            return bound
        if isinstance(extent, int):
            return min(bound, extent)
    return bound


@lowering("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    dim = normalize_dim(ctx.argument(node, 1, "dim", 0), x.rank)
    start = _bound(ctx, ctx.argument(node, 2, "start"), x.shape[dim], 0)
    step = ctx.static(ctx.argument(node, 4, "step", 1), "step")
    shape = ctx.output_shape(node)
    if dims_equal(shape[dim], x.shape[dim]) and step == 1:
        return ctx.result(node, x.value)
    if any(dims_equal(d, 0) for d in shape):
        raise Unsupported("an empty slice")
    return ctx.result(node, ctx.slice(x, dim, start, shape[dim], step))


@lowering("aten.select.int", "aten.select_copy.int")
def select(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    dim = normalize_dim(node.args[1], x.rank)
    index = ctx.dim(node.args[2])
    if isinstance(index, int) and index < 0:
        index = simplify_dim(index + x.shape[dim])
    if not isinstance(index, int) and index.free_symbols and not _is_in_bounds(index, x.shape[dim]):
        raise Unsupported(f"index {index} is not known to be in range")
    picked = ctx.slice(x, dim, index, 1)
    return ctx.result(node, ctx.reshape(picked, ctx.output_shape(node)))


def _is_in_bounds(index: Dim, extent: Dim) -> bool:
    """Whether the index is the extent less a constant (``x[:, -1]``)."""
    difference = simplify_dim(extent - index)
    return isinstance(difference, int) and difference > 0


@lowering(
    "aten.split_with_sizes.default",
    "aten.split_with_sizes_copy.default",
    "aten.split.Tensor",
    "aten.split_copy.Tensor",
    "aten.chunk.default",
)
def split(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    x = ctx.tensor(node.args[0])
    dim = normalize_dim(ctx.argument(node, 2, "dim", 0), x.rank)
    parts: list[Tensor] = []
    start: Dim = 0
    for fake in node.meta["val"]:
        shape = tuple(ctx.dim(s) for s in fake.shape)
        parts.append(Tensor(ctx.slice(x, dim, start, shape[dim]), shape, x.dtype))
        start = simplify_dim(start + shape[dim])
    return tuple(parts)


@lowering("aten.unbind.int", "aten.unbind_copy.int")
def unbind(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    x = ctx.tensor(node.args[0])
    dim = normalize_dim(ctx.argument(node, 1, "dim", 0), x.rank)
    parts: list[Tensor] = []
    for index, fake in enumerate(node.meta["val"]):
        shape = tuple(ctx.dim(s) for s in fake.shape)
        parts.append(Tensor(ctx.reshape(ctx.slice(x, dim, index, 1), shape), shape, x.dtype))
    return tuple(parts)


def concatenate(ctx: LoweringContext, parts: list[Tensor], dim: int) -> Value:
    """Tensors of one rank and dtype after each other along ``dim``."""
    axis = axis_of(parts[0].shape, dim)
    if axis is None or any(axis_of(p.shape, dim) != axis for p in parts):
        parts = [ctx.around(p, dim) for p in parts]
        axis = 1
    result = parts[0].value
    for part in parts[1:]:
        result = ctx.call("concat", result, part.value, axis=axis)
    return result


@lowering("aten.cat.default")
def cat(ctx: LoweringContext, node: fx.Node) -> Tensor:
    tensors = node.args[0]
    assert isinstance(tensors, (list, tuple))
    parts = [ctx.tensor(t) for t in tensors]
    # torch ignores empty 1-D tensors in a concatenation.
    parts = [p for p in parts if not (p.rank == 1 and dims_equal(p.shape[0], 0))]
    shape = ctx.output_shape(node)
    dim = normalize_dim(ctx.argument(node, 1, "dim", 0), len(shape))
    parts = [ctx.as_f32(p) if p.is_float else p for p in parts]
    if len({p.value.type.dtype for p in parts}) > 1:
        raise Unsupported("a concatenation of mixed dtypes")
    return ctx.result(node, ctx.reshape(concatenate(ctx, parts, dim), shape))


@lowering("aten.stack.default")
def stack(ctx: LoweringContext, node: fx.Node) -> Tensor:
    tensors = node.args[0]
    assert isinstance(tensors, (list, tuple))
    shape = ctx.output_shape(node)
    dim = normalize_dim(ctx.argument(node, 1, "dim", 0), len(shape))
    part_shape = (*shape[:dim], 1, *shape[dim + 1 :])
    parts = [ctx.tensor(t) for t in tensors]
    parts = [Tensor(ctx.reshape(p.value, part_shape), part_shape, p.dtype) for p in parts]
    return ctx.result(node, ctx.reshape(concatenate(ctx, parts, dim), shape))


@lowering("aten.pad.default", whole=True)
@lowering("aten.constant_pad_nd.default")
def constant_pad(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Zero padding; pairs come innermost dim first."""
    x = ctx.float_tensor(node.args[0])
    pads = node.args[1]
    mode = "constant"
    value_index = 2
    if "aten.pad" in str(node.target):
        mode = ctx.argument(node, 2, "mode", "constant")
        value_index = 3
    value = ctx.argument(node, value_index, "value", 0.0)
    assert isinstance(pads, (list, tuple))
    if mode != "constant":
        raise Unsupported(f"padding mode {mode!r}")
    if value is not None and ctx.number(value, "value") != 0.0:
        raise Unsupported("padding with a value other than 0")
    amounts = [ctx.static(p, "padding") for p in pads]
    if any(p < 0 for p in amounts):
        raise Unsupported("negative padding")
    params = {
        f"{'after' if i % 2 else 'before'}{i // 2}": amount for i, amount in enumerate(amounts)
    }
    return ctx.result(node, ctx.call("pad", ctx.rows(x.value), **params))


#: Size arithmetic is part of the shape expressions: it needs no calls of its own.
SIZE_OPS = (
    "aten.sym_size.int",
    "operator.add",
    "operator.sub",
    "operator.mul",
    "operator.floordiv",
    "operator.mod",
    "operator.neg",
)


@lowering(*SIZE_OPS)
def size(ctx: LoweringContext, node: fx.Node) -> Dim:
    return ctx.dim(node)


assert operator.getitem.__module__ == "_operator"  # what registry.op_name relies on
