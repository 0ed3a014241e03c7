"""Normalizations over the last dims, softmax, and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, dims_equal, product
from executorch_ggml.lowering.context import LoweringContext, Tensor, getitem_index, normalize_dim
from executorch_ggml.lowering.elementwise import add_values, binary_values, scale_value
from executorch_ggml.lowering.registry import Unsupported, lowering


def _affine(ctx: LoweringContext, y: Value, weight: Tensor | None, bias: Tensor | None) -> Value:
    """``y * weight + bias``; adjacent to the norm, so that ggml fuses them."""
    if weight is not None:
        y = binary_values(ctx, "mul", y, ctx.as_f32(weight).value)
    if bias is not None:
        y = add_values(ctx, y, ctx.as_f32(bias).value)
    return y


def _flatten_last(
    ctx: LoweringContext, x: Tensor, normalized_shape: Sequence[Any]
) -> tuple[Value, bool]:
    """x with its normalized dims as one ``ne[0]``; and whether it had to be reshaped."""
    count = len(normalized_shape)
    if count == 1:
        return ctx.rows(x.value), False
    flat = (*x.shape[: x.rank - count], product(x.shape[x.rank - count :]))
    return ctx.reshape(x.value, flat), True


@lowering("aten.layer_norm.default", whole=True)
@lowering("aten.native_layer_norm.default")
def layer_norm(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over ``normalized_shape``."""
    x = ctx.float_tensor(node.args[0], "input")
    normalized_shape = node.args[1]
    assert isinstance(normalized_shape, (list, tuple))
    weight = ctx.optional_tensor(ctx.argument(node, 2, "weight"), "weight")
    bias = ctx.optional_tensor(ctx.argument(node, 3, "bias"), "bias")
    eps = ctx.number(ctx.argument(node, 4, "eps", 1e-5), "eps")
    flat, reshaped = _flatten_last(ctx, x, normalized_shape)
    y = ctx.call("norm", flat, eps=eps)
    if reshaped:
        y = ctx.reshape(y, x.shape)
    y = _affine(ctx, y, weight, bias)
    if isinstance(node.meta["val"], (tuple, list)):
        # native_layer_norm also returns mean and rstd, which inference does not read.
        if any(getitem_index(user) != 0 for user in node.users):
            raise Unsupported("mean or rstd of native_layer_norm is used")
        return (Tensor(y, x.shape, x.dtype),)
    return ctx.result(node, y)


@lowering("ggml.rms_norm.default")
def ggml_rms_norm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last dim."""
    x = ctx.float_tensor(node.args[0], "x")
    weight = ctx.optional_tensor(ctx.argument(node, 1, "weight"), "weight")
    eps = ctx.number(ctx.argument(node, 2, "eps"), "eps")
    return ctx.result(
        node, _affine(ctx, ctx.call("rms_norm", ctx.rows(x.value), eps=eps), weight, None)
    )


@lowering("aten.rms_norm.default", whole=True)
def rms_norm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.float_tensor(node.args[0], "input")
    normalized_shape = node.args[1]
    assert isinstance(normalized_shape, (list, tuple))
    if len(normalized_shape) != 1:
        raise Unsupported("rms_norm over several dims")
    weight = ctx.optional_tensor(ctx.argument(node, 2, "weight"), "weight")
    eps = ctx.argument(node, 3, "eps")
    value = torch.finfo(x.dtype).eps if eps is None else ctx.number(eps, "eps")
    return ctx.result(
        node, _affine(ctx, ctx.call("rms_norm", ctx.rows(x.value), eps=value), weight, None)
    )


@lowering("aten.softmax.int", whole=True)
@lowering("aten._softmax.default")
def softmax(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.float_tensor(node.args[0], "input")
    if x.rank == 0:
        raise Unsupported("softmax of a scalar")
    dim = normalize_dim(node.args[1], x.rank)
    last = x.rank - 1
    moved = ctx.transpose(x, dim, last)
    y = ctx.call("soft_max", ctx.contiguous(moved.value))
    return ctx.result(node, ctx.transpose(Tensor(y, moved.shape, x.dtype), dim, last).value)


# --- reductions ----------------------------------------------------------------------


def _reduced_dims(node: fx.Node, rank: int) -> list[int]:
    dims = node.args[1] if len(node.args) > 1 else None
    if dims is None or dims == []:
        return list(range(rank))
    if isinstance(dims, int):
        dims = [dims]
    assert isinstance(dims, (list, tuple))
    return sorted({normalize_dim(d, rank) for d in dims})


def _reduce(ctx: LoweringContext, node: fx.Node, mean: bool) -> Tensor:
    """Move the reduced dims last, flatten them into rows, reduce each row."""
    x = ctx.float_tensor(node.args[0], "input")
    if ctx.output_dtype(node) not in (torch.float32, torch.float16, torch.bfloat16):
        raise Unsupported(f"result dtype {ctx.output_dtype(node)}")
    if x.rank == 0:
        return ctx.result(node, x.value)
    dims = _reduced_dims(node, x.rank)
    kept = [d for d in range(x.rank) if d not in dims]
    order = kept + dims
    moved = ctx.permuted(x, order).value
    shape: list[Dim] = [x.shape[d] for d in kept]
    count = product(x.shape[d] for d in dims)
    if dims_equal(count, 0):
        raise Unsupported("a reduction over no elements")
    rows = ctx.reshape(moved, [*shape, count])
    y = ctx.call("mean_rows" if mean else "sum_rows", ctx.rows(rows))
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


@lowering("aten.mean.dim", "aten.mean.default")
def mean(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _reduce(ctx, node, mean=True)


@lowering("aten.sum.dim_IntList", "aten.sum.default")
def sum_(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _reduce(ctx, node, mean=False)


@lowering("aten._native_batch_norm_legit_no_training.default")
def batch_norm(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with running statistics, over dim 1."""
    x = ctx.float_tensor(node.args[0], "input")
    weight = ctx.optional_tensor(node.args[1], "weight")
    bias = ctx.optional_tensor(node.args[2], "bias")
    running_mean = ctx.float_tensor(node.args[3], "running_mean")
    running_var = ctx.float_tensor(node.args[4], "running_var")
    eps = ctx.number(node.args[6], "eps")
    if any(getitem_index(user) != 0 for user in node.users):
        raise Unsupported("saved statistics of batch_norm are used")
    per_channel = (running_mean.shape[0], *([1] * (x.rank - 2)))

    def channel(tensor: Tensor) -> Value:
        return ctx.reshape(ctx.as_f32(tensor).value, per_channel)

    deviation = ctx.call("sqrt", scale_value(ctx, channel(running_var), 1.0, eps))
    y = binary_values(ctx, "sub", x.value, channel(running_mean))
    y = binary_values(ctx, "div", y, deviation)
    if weight is not None:
        y = binary_values(ctx, "mul", y, channel(weight))
    if bias is not None:
        y = add_values(ctx, y, channel(bias))
    return (Tensor(y, x.shape, x.dtype),)
