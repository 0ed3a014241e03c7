"""Pooling in one to three dims.

``pool_2d`` takes windows of which none is cut off, and an average that counts its padding.
A volume is pooled by two of them: over its inner two dims, then over the outermost. All
else is ``host_pool``: sizes rounded up, averages over what a window covers, dilation,
indices, and windows of unequal share.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.enums import HostPool, Pool, Scatter
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, dims_equal, product
from executorch_ggml.lowering.context import LoweringContext, Tensor, to_dim
from executorch_ggml.lowering.elementwise import scale_value
from executorch_ggml.lowering.registry import lowering
from executorch_ggml.lowering.spatial import Windows, batched, per_dim


def _result_sizes(node: fx.Node, rank: int) -> tuple[Dim, ...]:
    fake = node.meta["val"]
    first = fake[0] if isinstance(fake, (tuple, list)) else fake
    return tuple(to_dim(size) for size in first.shape[-rank:])


def _whole_windows(windows: Windows, sizes: tuple[Dim, ...], result: tuple[Dim, ...]) -> bool:
    """Whether the results are those of ``pool_2d``: none of a window cut off, or dilated."""
    extents = windows.extents(sizes)
    return set(windows.dilation) == {1} and all(
        dims_equal(a, b) for a, b in zip(extents, result, strict=True)
    )


def _pool_2d(ctx: LoweringContext, kind: Pool, x: Value, windows: Windows) -> Value:
    params = windows.params("kernel", "stride", "padding")
    return ctx.call("pool_2d", ctx.contiguous(x), kind=int(kind), **params)


def _pool_whole(
    ctx: LoweringContext, kind: Pool, x: Value, shape: tuple[Dim, ...], w: Windows
) -> Value:
    """An image, ``[n, c, *sizes]``, pooled by ``pool_2d``."""
    lead, sizes = shape[:2], shape[2:]
    if len(sizes) < 3:
        return _pool_2d(ctx, kind, ctx.reshape(x, (*lead, *((1, *sizes)[-2:]))), w.over(2))
    planes = product(lead)
    inner = w.inner()
    flat = _pool_2d(ctx, kind, ctx.reshape(x, (planes, *sizes)), inner)
    pixels = product(inner.extents(sizes[1:]))
    return _pool_2d(ctx, kind, ctx.reshape(flat, (planes, sizes[0], pixels)), w.outer())


def _pool_host(
    ctx: LoweringContext,
    kind: HostPool,
    x: Value,
    shape: tuple[Dim, ...],
    result: tuple[Dim, ...],
    **params: Any,
) -> Value:
    """An image, ``[n, c, *sizes]``, pooled by our own kernel."""
    volume = ctx.reshape(x, (product(shape[:2]), *((1, 1, *shape[2:])[-3:])))
    extents = {f"ne{i}": n for i, n in enumerate(((1, 1, *result)[-3:])[::-1])}
    return ctx.call("host_pool", volume, kind=int(kind), **extents, **params)


def _pool_windows(ctx: LoweringContext, node: fx.Node, rank: int, dilation: Any) -> Windows:
    kernel = per_dim(ctx, node.args[1], rank, "kernel_size")
    stride = ctx.argument(node, 2, "stride")
    return Windows(
        kernel,
        per_dim(ctx, stride, rank, "stride") if stride else kernel,
        per_dim(ctx, ctx.argument(node, 3, "padding", 0), rank, "padding"),
        per_dim(ctx, dilation, rank, "dilation"),
    )


def _used(node: fx.Node, index: int) -> bool:
    """Whether an element of a node's tuple is read."""
    return any(len(user.args) < 2 or user.args[1] == index for user in node.users)


def _maxima(
    ctx: LoweringContext, node: fx.Node, x: Tensor, values: Value, indices: Value | None
) -> Tensor | tuple[Tensor, ...]:
    """The result of a maximum: its values, or a tuple with the indices if they are read."""
    fake = node.meta["val"]
    if not isinstance(fake, (tuple, list)):
        return ctx.result(node, ctx.reshape(values, ctx.output_shape(node)))
    shape = tuple(to_dim(size) for size in fake[0].shape)
    result = (Tensor(ctx.reshape(values, shape), shape, x.dtype),)
    if indices is None:
        return result
    return (*result, Tensor(ctx.reshape(indices, shape), shape, torch.int64))


def _max_pool(ctx: LoweringContext, node: fx.Node, rank: int) -> Tensor | tuple[Tensor, ...]:
    """The maximum; a NaN in the window wins. Indices count within a plane."""
    x = ctx.float_tensor(node.args[0], "input")
    shape = batched(x, rank)
    sizes, result = shape[2:], _result_sizes(node, rank)
    windows = _pool_windows(ctx, node, rank, ctx.argument(node, 4, "dilation", 1))
    params = windows.over(3).params()
    if _whole_windows(windows, sizes, result):
        values = _pool_whole(ctx, Pool.MAX, x.value, shape, windows)
    else:
        values = _pool_host(ctx, HostPool.MAX, x.value, shape, result, **params)
    indices = None
    if isinstance(node.meta["val"], (tuple, list)) and _used(node, 1):
        indices = _pool_host(ctx, HostPool.MAX_INDEX, x.value, shape, result, **params)
    return _maxima(ctx, node, x, values, indices)


@lowering("aten.max_pool2d.default", whole=True)
@lowering("aten.max_pool2d_with_indices.default")
def max_pool2d(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    return _max_pool(ctx, node, 2)


@lowering("aten.max_pool3d.default", "aten.max_pool3d_with_indices.default", whole=True)
def max_pool3d(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    return _max_pool(ctx, node, 3)


def _avg_pool(ctx: LoweringContext, node: fx.Node, rank: int) -> Tensor:
    x = ctx.float_tensor(node.args[0], "input")
    shape = batched(x, rank)
    sizes, result = shape[2:], _result_sizes(node, rank)
    windows = _pool_windows(ctx, node, rank, 1)
    counts_padding = bool(ctx.argument(node, 5, "count_include_pad", True))
    override = ctx.argument(node, 6, "divisor_override")
    divisor = 0 if override is None else ctx.static(override, "divisor_override")
    counts_all = divisor != 0 or counts_padding or not any(windows.padding)
    if counts_all and _whole_windows(windows, sizes, result):
        y = _pool_whole(ctx, Pool.AVG, x.value, shape, windows)
        if divisor:
            y = scale_value(ctx, y, product(windows.kernel) / divisor)
    else:
        y = _pool_host(
            ctx,
            HostPool.AVG,
            x.value,
            shape,
            result,
            count_include_pad=int(counts_padding),
            divisor=divisor,
            **windows.over(3).params(),
        )
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


@lowering("aten.avg_pool1d.default", whole=True)
def avg_pool1d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _avg_pool(ctx, node, 1)


@lowering("aten.avg_pool2d.default", whole=True)
def avg_pool2d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _avg_pool(ctx, node, 2)


@lowering("aten.avg_pool3d.default", whole=True)
def avg_pool3d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _avg_pool(ctx, node, 3)


# --- adaptive ------------------------------------------------------------------------------


def _equal_shares(sizes: tuple[Dim, ...], result: tuple[Dim, ...]) -> Windows | None:
    """The windows of an adaptive pool where each is as large as the others and none overlap."""
    kernel: list[int] = []
    for size, count in zip(sizes, result, strict=True):
        if not isinstance(size, int) or not isinstance(count, int) or size % count:
            return None
        kernel.append(size // count)
    zeros, ones = (0,) * len(kernel), (1,) * len(kernel)
    return Windows(tuple(kernel), tuple(kernel), zeros, ones)


def _adaptive(
    ctx: LoweringContext, kind: Pool, x: Tensor, shape: tuple[Dim, ...], result: tuple[Dim, ...]
) -> Value:
    shares = _equal_shares(shape[2:], result)
    if shares is not None:
        return _pool_whole(ctx, kind, x.value, shape, shares)
    host = HostPool.AVG if kind is Pool.AVG else HostPool.MAX
    return _pool_host(ctx, host, x.value, shape, result, adaptive=1)


def _adaptive_avg_pool(ctx: LoweringContext, node: fx.Node, rank: int) -> Tensor:
    x = ctx.float_tensor(node.args[0], "input")
    shape, result = batched(x, rank), _result_sizes(node, rank)
    if all(dims_equal(size, 1) for size in result):
        rows = ctx.reshape(x.value, (*shape[:2], product(shape[2:])))
        y = ctx.call("mean_rows", ctx.rows(rows))
    else:
        y = _adaptive(ctx, Pool.AVG, x, shape, result)
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


@lowering("aten.adaptive_avg_pool1d.default", whole=True)
def adaptive_avg_pool1d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _adaptive_avg_pool(ctx, node, 1)


@lowering("aten.adaptive_avg_pool2d.default", whole=True)
@lowering("aten._adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _adaptive_avg_pool(ctx, node, 2)


@lowering("aten.adaptive_avg_pool3d.default", whole=True)
@lowering("aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool3d(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _adaptive_avg_pool(ctx, node, 3)


def _adaptive_max_pool(
    ctx: LoweringContext, node: fx.Node, rank: int
) -> Tensor | tuple[Tensor, ...]:
    x = ctx.float_tensor(node.args[0], "input")
    shape, result = batched(x, rank), _result_sizes(node, rank)
    values = _adaptive(ctx, Pool.MAX, x, shape, result)
    indices = None
    if _used(node, 1):
        kind = HostPool.MAX_INDEX
        indices = _pool_host(ctx, kind, x.value, shape, result, adaptive=1)
    return _maxima(ctx, node, x, values, indices)


@lowering("aten.adaptive_max_pool1d.default", whole=True)
def adaptive_max_pool1d(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    return _adaptive_max_pool(ctx, node, 1)


@lowering("aten.adaptive_max_pool2d.default", whole=True)
def adaptive_max_pool2d(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    return _adaptive_max_pool(ctx, node, 2)


@lowering("aten.adaptive_max_pool3d.default", whole=True)
def adaptive_max_pool3d(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
    return _adaptive_max_pool(ctx, node, 3)


# --- the way back --------------------------------------------------------------------------


@lowering("aten.max_unpool2d.default", "aten.max_unpool3d.default", whole=True)
def max_unpool(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Zeros, with each value at its index in the plane."""
    x = ctx.float_tensor(node.args[0], "input")
    indices = ctx.tensor(node.args[1], "indices")
    shape = ctx.output_shape(node)
    rank = 2 if "2d" in str(node.target) else 3
    planes = product(x.shape[:-rank])
    zero = ctx.constant(torch.zeros(1))
    zeros = ctx.broadcast_to(Tensor(zero, (1,), torch.float32), (planes, product(shape[-rank:])))
    flat = (planes, product(x.shape[-rank:]))
    y = ctx.call(
        "host_scatter",
        zeros,
        ctx.reshape(indices.value, flat),
        ctx.reshape(x.value, flat),
        mode=int(Scatter.SET),
    )
    return ctx.result(node, ctx.reshape(y, shape))
