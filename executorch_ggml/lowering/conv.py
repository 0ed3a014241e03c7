"""Convolution in one to three dims, in F32 throughout.

A plain 2-D one is ``conv_2d``, a depthwise one ``conv_2d_dw``. All others are the product
they are made of: windows as rows (``im2col``) times the kernel, group by group. A 1-D
signal is an image of height 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, dims_equal, product
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.conv_transpose import conv_transpose
from executorch_ggml.lowering.registry import Unsupported, lowering
from executorch_ggml.lowering.spatial import Windows, batched, per_dim, with_bias


def _windows(
    ctx: LoweringContext, kernel: Tensor, stride: Any, padding: Any, dilation: Any
) -> Windows:
    rank = kernel.rank - 2
    return Windows(
        tuple(ctx.static(size, "kernel size") for size in kernel.shape[2:]),
        per_dim(ctx, stride, rank, "stride"),
        per_dim(ctx, padding, rank, "padding"),
        per_dim(ctx, dilation, rank, "dilation"),
    )


def _padded(ctx: LoweringContext, x: Value, after: tuple[int, ...]) -> Value:
    """Zeros after the innermost dims, ``after`` given outermost first."""
    if not any(after):
        return x
    amounts = {f"after{i}": n for i, n in enumerate(reversed(after))}
    return ctx.call("pad", ctx.rows(x), **amounts)


def _convolve(
    ctx: LoweringContext,
    node: fx.Node,
    windows: Windows,
    groups: int,
    extra: tuple[int, ...] = (),
) -> Tensor:
    """Convolve the node's input; ``extra``: zeros beyond the padding, at the end of each dim."""
    x = ctx.float_tensor(node.args[0], "input")
    kernel = ctx.as_f32(ctx.tensor(node.args[1], "weight"))
    rank = max(kernel.rank - 2, 2)
    shape = batched(x, kernel.rank - 2)
    windows = windows.over(rank)
    sizes = (*((1,) * (rank - len(shape) + 2)), *shape[2:])
    extra = (0,) * (rank - len(extra)) + extra
    c_out = ctx.static(kernel.shape[0], "output channels")
    c_in = ctx.static(kernel.shape[1], "input channels")
    image = _padded(ctx, ctx.reshape(x.value, _image(shape[:2], sizes)), extra)
    sizes = tuple(size + more for size, more in zip(sizes, extra, strict=True))
    if rank == 2 and (groups == 1 or (c_in == 1 and c_out == groups)):
        y = ctx.call(
            "conv_2d" if groups == 1 else "conv_2d_dw",
            ctx.contiguous(ctx.reshape(kernel.value, (c_out, c_in, *windows.kernel))),
            ctx.contiguous(image),
            **windows.params("stride", "padding", "dilation"),
        )
        return with_bias(ctx, node, y, c_out, 2)
    y = _grouped(ctx, image, shape[0], sizes, kernel, windows, groups)
    return with_bias(ctx, node, y, c_out, 1)


def _image(lead: tuple[Dim, ...], sizes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape in which ggml takes images or, with three sizes, volumes."""
    return (*lead, *sizes) if len(sizes) == 2 else (product(lead), *sizes)


def _grouped(
    ctx: LoweringContext,
    x: Value,
    n: Dim,
    sizes: tuple[Dim, ...],
    kernel: Tensor,
    windows: Windows,
    groups: int,
) -> Value:
    """Each group is an image of its own: its windows times its part of the kernel.

    Returns ``[n, c_out, positions]``.
    """
    c_out, c_in = (int(size) for size in kernel.shape[:2])
    images = product((n, groups))
    x = ctx.contiguous(ctx.reshape(x, _image((images, c_in), sizes)))
    if len(sizes) == 2:
        columns = ctx.call("im2col", x, **windows.params())
    else:
        columns = ctx.call("im2col_3d", x, channels=c_in, images=images, **windows.params())
    positions = product(windows.extents(sizes))
    elements = c_in * product(windows.kernel)
    rows = ctx.reshape(columns, (n, groups, positions, elements))
    matrix = ctx.reshape(kernel.value, (groups, c_out // groups, elements))
    if dims_equal(n, 1):  # the kernel's rows times the windows: channels are outermost already
        y = ctx.call("mul_mat", rows, matrix)
    else:
        y = ctx.call("mul_mat", matrix, rows)
        y = ctx.permute(y, (0, 1, 3, 2))
    return ctx.reshape(y, (n, c_out, positions))


@lowering("aten.convolution.default")
def convolution(ctx: LoweringContext, node: fx.Node) -> Tensor:
    _, _, _, stride, padding, dilation, transposed, _, groups = node.args
    kernel = ctx.tensor(node.args[1], "weight")
    windows = _windows(ctx, kernel, stride, padding, dilation)
    if transposed:
        return conv_transpose(ctx, node, windows, ctx.static(groups, "groups"))
    return _convolve(ctx, node, windows, ctx.static(groups, "groups"))


def _given_windows(ctx: LoweringContext, node: fx.Node, padding: Any, dilation: int = 5) -> Windows:
    """The windows of a node that is kept whole; ``dilation``: which argument that is."""
    return _windows(
        ctx,
        ctx.tensor(node.args[1], "weight"),
        ctx.argument(node, 3, "stride", 1),
        padding,
        ctx.argument(node, dilation, "dilation", 1),
    )


def _given_groups(ctx: LoweringContext, node: fx.Node) -> int:
    return ctx.static(ctx.argument(node, 6, "groups", 1), "groups")


@lowering("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default", whole=True)
def conv(ctx: LoweringContext, node: fx.Node) -> Tensor:
    windows = _given_windows(ctx, node, ctx.argument(node, 4, "padding", 0))
    return _convolve(ctx, node, windows, _given_groups(ctx, node))


@lowering("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding", whole=True)
def conv_padding(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Padding ``"valid"``, or ``"same"``: as many results as elements, the odd zero at the end."""
    padding = ctx.argument(node, 4, "padding", "valid")
    windows = _given_windows(ctx, node, 0)
    extra: tuple[int, ...] = ()
    if padding == "same":
        spans = [d * (k - 1) for k, d in zip(windows.kernel, windows.dilation, strict=True)]
        windows = replace(windows, padding=tuple(span // 2 for span in spans))
        extra = tuple(span % 2 for span in spans)
    elif padding != "valid":
        raise Unsupported(f"padding {padding!r}")
    return _convolve(ctx, node, windows, _given_groups(ctx, node), extra)


@lowering(
    "aten.conv_transpose1d.default",
    "aten.conv_transpose2d.input",
    "aten.conv_transpose3d.input",
    whole=True,
)
def conv_transposed(ctx: LoweringContext, node: fx.Node) -> Tensor:
    windows = _given_windows(ctx, node, ctx.argument(node, 4, "padding", 0), dilation=7)
    return conv_transpose(ctx, node, windows, _given_groups(ctx, node))
