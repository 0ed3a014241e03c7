"""Transposed convolution, fold and unfold.

A transposed convolution spreads each input element over a window of the result: the
product of kernel and input gives the windows as rows, ``col2im`` adds them up. Over
three dims they are added up over the inner two first, then over the outermost.
"""

from __future__ import annotations

from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, product
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.registry import Unsupported, lowering
from executorch_ggml.lowering.spatial import Windows, batched, per_dim, with_bias


def conv_transpose(ctx: LoweringContext, node: fx.Node, windows: Windows, groups: int) -> Tensor:
    """The transposed form of ``aten.convolution``: weight ``[c_in, c_out / groups, *kernel]``."""
    x = ctx.float_tensor(node.args[0], "input")
    kernel = ctx.as_f32(ctx.tensor(node.args[1], "weight"))
    shape = batched(x, kernel.rank - 2)
    n, sizes = shape[0], shape[2:]
    c_in = ctx.static(kernel.shape[0], "input channels")
    c_out = ctx.static(kernel.shape[1], "output channels")
    positions, per_group = product(sizes), c_in // groups
    elements = c_out * product(windows.kernel)
    rows = ctx.permute(ctx.reshape(x.value, (n, groups, per_group, positions)), (0, 1, 3, 2))
    matrix = ctx.permute(ctx.reshape(kernel.value, (groups, per_group, elements)), (0, 2, 1))
    columns = ctx.call("mul_mat", ctx.contiguous(matrix), ctx.contiguous(rows))
    result = ctx.output_shape(node)[-len(sizes) :]
    y = _added_up(ctx, columns, product((n, groups)), c_out, sizes, result, windows)
    y = ctx.reshape(y, (n, groups * c_out, product(result)))
    return with_bias(ctx, node, y, groups * c_out, 1)


def _added_up(
    ctx: LoweringContext,
    columns: Value,
    images: Dim,
    channels: int,
    sizes: tuple[Dim, ...],
    result: tuple[Dim, ...],
    windows: Windows,
) -> Value:
    """Rows ``[channels * window]`` for each of ``sizes``, as ``[images, channels, *result]``."""
    if len(sizes) < 3:
        windows = windows.over(2)
        height, width = (1, *sizes)[-2:]
        rows = ctx.reshape(columns, (images, height, width, channels * product(windows.kernel)))
        return _col2im(ctx, rows, (1, *result)[-2:], windows)
    depth, height, width = sizes
    inner, outer = windows.inner(), windows.outer()
    planes = channels * outer.kernel[0]
    window = product(inner.kernel)
    rows = ctx.reshape(columns, (product((images, depth)), height, width, planes * window))
    pixels = product(result[1:])
    flat = ctx.reshape(_col2im(ctx, rows, result[1:], inner), (images, depth, planes, pixels))
    moved = ctx.contiguous(ctx.permute(flat, (0, 1, 3, 2)))
    return _col2im(ctx, moved, (result[0], pixels), outer)


def _col2im(ctx: LoweringContext, rows: Value, size: tuple[Dim, ...], windows: Windows) -> Value:
    return ctx.call("col2im", rows, ne0=size[1], ne1=size[0], **windows.params())


@lowering("aten.im2col.default", whole=True)
def unfold(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Windows as columns: ``[n, c * window, positions]``."""
    x = ctx.float_tensor(node.args[0], "input")
    shape = batched(x, 2)
    windows = _fold_windows(ctx, node, 1)
    rows = ctx.call("im2col", ctx.contiguous(x.value), **windows.params())
    positions = product(windows.extents(shape[2:]))
    flat = ctx.reshape(rows, (shape[0], positions, product((shape[1], *windows.kernel))))
    y = ctx.permute(flat, (0, 2, 1))
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


@lowering("aten.col2im.default", whole=True)
def fold(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Columns ``[n, c * window, positions]`` added up to an image."""
    x = ctx.float_tensor(node.args[0], "input")
    shape = (1, *x.shape) if x.rank == 2 else x.shape
    if len(shape) != 3:
        raise Unsupported(f"columns of rank {x.rank}")
    windows = _fold_windows(ctx, node, 2)
    size = ctx.output_shape(node)[-2:]
    height, width = windows.extents(size)
    rows = ctx.contiguous(ctx.permute(ctx.reshape(x.value, shape), (0, 2, 1)))
    rows = ctx.reshape(rows, (shape[0], height, width, shape[1]))
    return ctx.result(node, ctx.reshape(_col2im(ctx, rows, size, windows), ctx.output_shape(node)))


def _fold_windows(ctx: LoweringContext, node: fx.Node, first: int) -> Windows:
    """From the arguments kernel_size, dilation, padding, stride."""
    names = ("kernel_size", "dilation", "padding", "stride")
    kernel, dilation, padding, stride = (
        per_dim(ctx, ctx.argument(node, first + i, name), 2, name) for i, name in enumerate(names)
    )
    return Windows(kernel, stride, padding, dilation)
