"""Normalizations: over the last dims, over groups of channels, by running statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, simplify_dim
from executorch_ggml.lowering.context import (
    MAX_RANK,
    LoweringContext,
    Tensor,
    getitem_index,
    product,
)
from executorch_ggml.lowering.elementwise import (
    add_values,
    binary_values,
    reciprocal_value,
    scale_value,
)
from executorch_ggml.lowering.reduce import variance_rows
from executorch_ggml.lowering.registry import Unsupported, lowering
from executorch_ggml.lowering.rows import rows_over, shaped


def _affine(ctx: LoweringContext, y: Value, weight: Value | None, bias: Value | None) -> Value:
    """``y * weight + bias``; adjacent to the norm, so that ggml fuses them."""
    if weight is not None:
        y = binary_values(ctx, "mul", y, weight)
    if bias is not None:
        y = add_values(ctx, y, bias)
    return y


def _optional(ctx: LoweringContext, arg: Any, name: str) -> Tensor | None:
    found = ctx.optional_tensor(arg, name)
    return None if found is None else ctx.as_f32(found)


def _aligned(ctx: LoweringContext, tensor: Tensor | None, shape: Sequence[Dim]) -> Value | None:
    return None if tensor is None else ctx.aligned(tensor, shape)


def _results(
    ctx: LoweringContext, node: fx.Node, y: Value, rows: Value, count: Dim, eps: float
) -> Tensor | tuple[Tensor, ...]:
    """The normalized values; of a node that also gives each row's mean and 1/deviation, those.

    They are computed if something reads them, which inference does not.
    """
    fakes = node.meta["val"]
    if isinstance(fakes, torch.Tensor):
        return shaped(ctx, fakes, y)
    result = (shaped(ctx, fakes[0], y),)
    if all(getitem_index(user) == 0 for user in node.users):
        return result
    mean, variance = variance_rows(ctx, rows, count)
    deviation = ctx.call("sqrt", scale_value(ctx, variance, bias=eps))
    spread = reciprocal_value(ctx, deviation)
    return (*result, shaped(ctx, fakes[1], mean), shaped(ctx, fakes[2], spread))


def _last_dims(x: Tensor, normalized_shape: object) -> list[int]:
    assert isinstance(normalized_shape, Sequence)
    return list(range(x.rank - len(normalized_shape), x.rank))


@lowering("aten.layer_norm.default", whole=True)
@lowering("aten.native_layer_norm.default")
def layer_norm(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over ``normalized_shape``."""
    x = ctx.float_tensor(node.args[0], "input")
    dims = _last_dims(x, node.args[1])
    weight = _optional(ctx, ctx.argument(node, 2, "weight"), "weight")
    bias = _optional(ctx, ctx.argument(node, 3, "bias"), "bias")
    eps = ctx.number(ctx.argument(node, 4, "eps", 1e-5), "eps")
    rows = ctx.rows(rows_over(ctx, x, dims))
    y = ctx.reshape(ctx.call("norm", rows, eps=eps), x.shape)
    y = _affine(ctx, y, _aligned(ctx, weight, x.shape), _aligned(ctx, bias, x.shape))
    return _results(ctx, node, y, rows, product(x.shape[d] for d in dims), eps)


def _rms_norm(
    ctx: LoweringContext, x: Tensor, dims: list[int], weight: Tensor | None, eps: float
) -> Value:
    rows = ctx.rows(rows_over(ctx, x, dims))
    y = ctx.reshape(ctx.call("rms_norm", rows, eps=eps), x.shape)
    return _affine(ctx, y, _aligned(ctx, weight, x.shape), None)


@lowering("ggml.rms_norm.default")
def ggml_rms_norm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last dim."""
    x = ctx.float_tensor(node.args[0], "x")
    weight = _optional(ctx, ctx.argument(node, 1, "weight"), "weight")
    eps = ctx.number(ctx.argument(node, 2, "eps"), "eps")
    return ctx.result(node, _rms_norm(ctx, x, [x.rank - 1], weight, eps))


@lowering("aten.rms_norm.default", whole=True)
def rms_norm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` over ``normalized_shape``."""
    x = ctx.float_tensor(node.args[0], "input")
    weight = _optional(ctx, ctx.argument(node, 2, "weight"), "weight")
    eps = ctx.argument(node, 3, "eps")
    # Half precision is normalized in float32, by its epsilon.
    value = torch.finfo(torch.float32).eps if eps is None else ctx.number(eps, "eps")
    return ctx.result(node, _rms_norm(ctx, x, _last_dims(x, node.args[1]), weight, value))


# --- over channels -----------------------------------------------------------------------


def _per_channel(ctx: LoweringContext, tensor: Tensor | None) -> Value | None:
    """One value per channel, as ``[channels, 1]`` beside ``[batch, channels, positions]``."""
    if tensor is None:
        return None
    return ctx.reshape(tensor.value, (product(tensor.shape), 1))


def _normalized_groups(
    ctx: LoweringContext,
    node: fx.Node,
    x: Tensor,
    groups: Dim,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor | tuple[Tensor, ...]:
    """Normalize each group of the channels in dim 1 with all their positions."""
    batch, channels, positions = x.shape[0], x.shape[1], product(x.shape[2:])
    share = simplify_dim(channels // groups * positions)
    rows = ctx.reshape(x.value, (batch, groups, share))
    y = ctx.reshape(ctx.call("norm", ctx.rows(rows), eps=eps), (batch, channels, positions))
    y = _affine(ctx, y, _per_channel(ctx, weight), _per_channel(ctx, bias))
    return _results(ctx, node, y, rows, share, eps)


@lowering("aten.group_norm.default", whole=True)
def group_norm(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    x = ctx.float_tensor(node.args[0], "input")
    weight = _optional(ctx, ctx.argument(node, 2, "weight"), "weight")
    bias = _optional(ctx, ctx.argument(node, 3, "bias"), "bias")
    eps = ctx.number(ctx.argument(node, 4, "eps", 1e-5), "eps")
    groups = ctx.static(node.args[1], "num_groups")
    return _normalized_groups(ctx, node, x, groups, weight, bias, eps)


@lowering("aten.native_group_norm.default")
def native_group_norm(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    """As ``group_norm``; also gives mean and 1/deviation of each group."""
    x = ctx.float_tensor(node.args[0], "input")
    weight = _optional(ctx, node.args[1], "weight")
    bias = _optional(ctx, node.args[2], "bias")
    groups = ctx.static(node.args[6], "group")
    eps = ctx.number(node.args[7], "eps")
    return _normalized_groups(ctx, node, x, groups, weight, bias, eps)


@lowering("aten.instance_norm.default", whole=True)
def instance_norm(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    """Normalize the positions of each channel; by running statistics if there are some."""
    x = ctx.float_tensor(node.args[0], "input")
    weight, bias, mean, variance = (
        _optional(ctx, arg, name)
        for arg, name in zip(
            node.args[1:5], ("weight", "bias", "running_mean", "running_var"), strict=True
        )
    )
    eps = ctx.number(node.args[7], "eps")
    if not node.args[5]:
        assert mean is not None
        assert variance is not None
        return ctx.result(node, _by_running(ctx, x, weight, bias, mean, variance, eps))
    if mean is not None:
        raise Unsupported("instance_norm that updates running statistics")
    return _normalized_groups(ctx, node, x, x.shape[1], weight, bias, eps)


def _by_running(
    ctx: LoweringContext,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
) -> Value:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, folded to a factor and a summand."""
    channels = mean.shape[0]
    ones = [1] * (x.rank - 2 if x.rank <= MAX_RANK else 1)

    def channel(value: Value) -> Value:
        return ctx.reshape(value, (channels, *ones))

    deviation = ctx.call("sqrt", scale_value(ctx, variance.value, bias=eps))
    if weight is None:
        factor = reciprocal_value(ctx, deviation)
    else:
        factor = binary_values(ctx, "div", weight.value, deviation)
    shift = binary_values(ctx, "mul", mean.value, factor)
    shift = scale_value(ctx, shift, -1.0) if bias is None else ctx.call("sub", bias.value, shift)
    flat = x.value
    if x.rank > MAX_RANK:
        flat = ctx.reshape(flat, (x.shape[0], channels, product(x.shape[2:])))
    y = _affine(ctx, flat, channel(factor), channel(shift))
    return ctx.reshape(y, x.shape)


@lowering("aten._native_batch_norm_legit_no_training.default")
def batch_norm(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with running statistics, over dim 1."""
    x = ctx.float_tensor(node.args[0], "input")
    weight, bias = _optional(ctx, node.args[1], "weight"), _optional(ctx, node.args[2], "bias")
    mean = ctx.float_tensor(node.args[3], "running_mean")
    variance = ctx.float_tensor(node.args[4], "running_var")
    eps = ctx.number(node.args[6], "eps")
    if any(getitem_index(user) != 0 for user in node.users):
        raise Unsupported("saved statistics of batch_norm are used")
    y = _by_running(ctx, x, weight, bias, mean, variance, eps)
    return (shaped(ctx, node.meta["val"][0], y),)


@lowering("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    """Normalize each channel by its own statistics over batch and positions."""
    x = ctx.float_tensor(node.args[0], "input")
    weight, bias = _optional(ctx, node.args[1], "weight"), _optional(ctx, node.args[2], "bias")
    eps = ctx.number(node.args[5], "eps")
    batch, channels = x.shape[0], x.shape[1]
    positions = product(x.shape[2:])
    three = Tensor(
        ctx.reshape(x.value, (batch, channels, positions)), (batch, channels, positions), x.dtype
    )
    rows = ctx.reshape(ctx.transpose(three, 0, 1).value, (channels, product((batch, positions))))
    y = ctx.call("norm", ctx.rows(rows), eps=eps)
    by_channel = (channels, batch, positions)
    back = ctx.transpose(Tensor(ctx.reshape(y, by_channel), by_channel, x.dtype), 0, 1).value
    y = _affine(ctx, back, _per_channel(ctx, weight), _per_channel(ctx, bias))
    return _results(ctx, node, y, rows, product((batch, positions)), eps)
