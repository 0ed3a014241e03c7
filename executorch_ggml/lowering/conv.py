"""Convolution and pooling. Images are ``[n, c, h, w]`` in torch, ``(w, h, c, n)`` in ggml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.opset import Pool
from executorch_ggml.lowering.context import LoweringContext, Tensor, getitem_index
from executorch_ggml.lowering.elementwise import add_values
from executorch_ggml.lowering.registry import Unsupported, lowering


def _pair(ctx: LoweringContext, arg: Any, rank: int, name: str) -> list[int]:
    """A per-dim argument (int or list, a single element counts for every dim)."""
    values = [arg] if isinstance(arg, int) else list(arg)
    if len(values) == 1:
        values = values * rank
    return [ctx.static(v, name) for v in values]


def _image(ctx: LoweringContext, x: Tensor, rank: int) -> Value:
    """The input as a batch of 2-D images; a 1-D signal gets a height of 1."""
    if x.rank != rank + 2:
        raise Unsupported(f"an input of rank {x.rank} to a {rank}-D convolution or pool")
    if rank == 1:
        return ctx.reshape(x.value, (x.shape[0], x.shape[1], 1, x.shape[2]))
    return x.value


def _convolve(
    ctx: LoweringContext,
    node: fx.Node,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    rank: int,
) -> Tensor:
    x = ctx.float_tensor(node.args[0], "input")
    weight = ctx.tensor(node.args[1], "weight")
    bias = ctx.optional_tensor(ctx.argument(node, 2, "bias"), "bias")
    if rank not in (1, 2):
        raise Unsupported(f"{rank}-D convolution")
    strides, paddings, dilations = (
        _pair(ctx, arg, rank, name)
        for arg, name in ((stride, "stride"), (padding, "padding"), (dilation, "dilation"))
    )
    kernel = ctx.as_f32(weight)
    c_out, c_in_group = kernel.shape[0], kernel.shape[1]
    kernel_shape = kernel.shape if rank == 2 else (c_out, c_in_group, 1, kernel.shape[2])
    params = _spatial(strides, paddings, dilations)
    depthwise = groups > 1 and c_in_group == 1 and c_out == groups
    if groups != 1 and not depthwise:
        raise Unsupported(f"grouped convolution ({groups} groups)")
    y = ctx.call(
        "conv_2d_dw" if depthwise else "conv_2d",
        ctx.contiguous(ctx.reshape(kernel.value, kernel_shape)),
        ctx.contiguous(_image(ctx, x, rank)),
        **params,
    )
    if bias is not None:
        y = add_values(ctx, y, ctx.reshape(ctx.as_f32(bias).value, (c_out, 1, 1)))
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


def _spatial(
    strides: Sequence[int], paddings: Sequence[int], dilations: Sequence[int]
) -> dict[str, int]:
    """Per-dim arguments (outermost first) as the op's parameters (innermost first)."""
    result: dict[str, int] = {}
    neutral = {"stride": 1, "padding": 0, "dilation": 1}
    given = {"stride": strides, "padding": paddings, "dilation": dilations}
    for name, values in given.items():
        inner_first = list(values)[::-1]
        inner_first += [neutral[name]] * (2 - len(inner_first))
        result.update({f"{name}{i}": v for i, v in enumerate(inner_first)})
    return result


@lowering("aten.convolution.default")
def convolution(ctx: LoweringContext, node: fx.Node) -> Tensor:
    _, _, _, stride, padding, dilation, transposed, _, groups = node.args
    if transposed:
        raise Unsupported("transposed convolution")
    rank = len(node.meta["val"].shape) - 2
    return _convolve(
        ctx,
        node,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=ctx.static(groups, "groups"),
        rank=rank,
    )


def _conv_nd(ctx: LoweringContext, node: fx.Node, rank: int) -> Tensor:
    return _convolve(
        ctx,
        node,
        stride=ctx.argument(node, 3, "stride", 1),
        padding=ctx.argument(node, 4, "padding", 0),
        dilation=ctx.argument(node, 5, "dilation", 1),
        groups=ctx.static(ctx.argument(node, 6, "groups", 1), "groups"),
        rank=rank,
    )


@lowering("aten.conv1d.default", whole=True)
def conv1d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _conv_nd(ctx, node, 1)


@lowering("aten.conv2d.default", whole=True)
def conv2d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _conv_nd(ctx, node, 2)


def _pool(ctx: LoweringContext, node: fx.Node, kind: Pool, x: Tensor) -> Value:
    kernel = _pair(ctx, node.args[1], 2, "kernel_size")
    stride_arg = ctx.argument(node, 2, "stride")
    stride = _pair(ctx, stride_arg, 2, "stride") if stride_arg else kernel
    padding = _pair(ctx, ctx.argument(node, 3, "padding", 0), 2, "padding")
    if kind is Pool.AVG and any(padding):
        raise Unsupported("average pooling with padding")
    return ctx.call(
        "pool_2d",
        ctx.contiguous(_image(ctx, x, 2)),
        kind=int(kind),
        kernel0=kernel[1],
        kernel1=kernel[0],
        stride0=stride[1],
        stride1=stride[0],
        padding0=padding[1],
        padding1=padding[0],
    )


@lowering("aten.max_pool2d.default", whole=True)
@lowering("aten.max_pool2d_with_indices.default")
def max_pool2d(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    x = ctx.float_tensor(node.args[0], "input")
    if _pair(ctx, ctx.argument(node, 4, "dilation", 1), 2, "dilation") != [1, 1]:
        raise Unsupported("dilated pooling")
    if ctx.argument(node, 5, "ceil_mode", False):
        raise Unsupported("ceil_mode")
    y = _pool(ctx, node, Pool.MAX, x)
    fake = node.meta["val"]
    if isinstance(fake, (tuple, list)):
        if any(getitem_index(user) != 0 for user in node.users):
            raise Unsupported("pooling indices are used")
        return (Tensor(y, tuple(ctx.dim(s) for s in fake[0].shape), x.dtype),)
    return ctx.result(node, y)


@lowering("aten.avg_pool2d.default", whole=True)
def avg_pool2d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.float_tensor(node.args[0], "input")
    if ctx.argument(node, 4, "ceil_mode", False):
        raise Unsupported("ceil_mode")
    if ctx.argument(node, 6, "divisor_override") is not None:
        raise Unsupported("divisor_override")
    return ctx.result(node, _pool(ctx, node, Pool.AVG, x))


@lowering("aten.adaptive_avg_pool2d.default", whole=True)
@lowering("aten._adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.float_tensor(node.args[0], "input")
    if _pair(ctx, node.args[1], 2, "output_size") != [1, 1]:
        raise Unsupported("adaptive pooling to other than one element")
    lead = x.shape[:-2]
    rows = ctx.reshape(ctx.contiguous(x.value), (*lead, x.shape[-2] * x.shape[-1]))
    return ctx.result(node, ctx.reshape(ctx.call("mean_rows", rows), ctx.output_shape(node)))
