"""Affine quantization as torchao and PT2E write it, with their arithmetic exactly.

What is known ahead of time is computed then: a quantized weight is stored as the floats
that it stands for, because ggml's own block types hold other scales and round the
activations too. For weights that stay small, quantize to a GGUF type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary, HostReduce, HostUnary, Unary
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, dims_equal
from executorch_ggml.lowering.context import HALVES, LoweringContext, Tensor, normalize_dim
from executorch_ggml.lowering.elementwise import (
    binary_values,
    clamp_value,
    divided_by,
    scale_value,
    unary_value,
)
from executorch_ggml.lowering.host import held, host_binary, host_unary, int_type
from executorch_ggml.lowering.reduce import host_reduce
from executorch_ggml.lowering.registry import Lowering, Unsupported, lowering
from executorch_ggml.lowering.rows import rows_over

# --- constants ---------------------------------------------------------------------------


def _folded(function: Lowering) -> Lowering:
    """Compute ahead of time what depends on constants alone."""

    def lower(ctx: LoweringContext, node: fx.Node) -> Any:
        nodes = node.all_input_nodes

        def run(*tensors: torch.Tensor) -> torch.Tensor:
            known = dict(zip(nodes, tensors, strict=True))
            assert isinstance(node.target, Callable)  # type: ignore[arg-type]
            args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
            return node.target(*args, **kwargs)  # type: ignore[no-any-return, operator]

        value = ctx.precomputed(nodes, run)
        return function(ctx, node) if value is None else ctx.result(node, value)

    return lower


# --- blocks ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Blocks:
    """A tensor's shape with each block in dims of its own.

    Elements that share a scale differ in the ``shared`` dims alone.
    """

    shape: tuple[Dim, ...]
    shared: tuple[int, ...]

    @property
    def scales(self) -> tuple[Dim, ...]:
        """The shape of scales that broadcasts over the blocks."""
        return tuple(1 if d in self.shared else size for d, size in enumerate(self.shape))


def _blocks(shape: Sequence[Dim], sizes: Any) -> _Blocks:
    if not isinstance(sizes, (list, tuple)) or len(sizes) != len(shape):
        raise Unsupported("blocks of another rank than the input")
    result: list[Dim] = []
    shared: list[int] = []
    for extent, size in zip(shape, sizes, strict=True):
        if size == 1 or dims_equal(extent, size):
            if size != 1:
                shared.append(len(result))
            result.append(extent)
        elif isinstance(extent, int) and isinstance(size, int) and extent % size == 0:
            shared.append(len(result) + 1)
            result += [extent // size, size]
        else:
            raise Unsupported(f"blocks of {size} in a dim of {extent}")
    return _Blocks(tuple(result), tuple(shared))


def _along(shape: Sequence[Dim], axis: int) -> _Blocks:
    """One scale for each index of a dim."""
    return _Blocks(tuple(shape), tuple(d for d in range(len(shape)) if d != axis))


def _scales(ctx: LoweringContext, arg: Any, blocks: _Blocks) -> Value:
    """Scales or zero points, as F32 values that broadcast to the blocks."""
    x = ctx.tensor(arg, "scale")
    if x.dtype in HALVES:
        raise Unsupported(f"scales of {x.dtype}")
    value = ctx.reshape(held(ctx, x, torch.float32), blocks.scales)
    return ctx.aligned(Tensor(value, blocks.scales, torch.float32), blocks.shape)


def _in_blocks(ctx: LoweringContext, x: Tensor, blocks: _Blocks) -> Value:
    return ctx.reshape(held(ctx, x, torch.float32), blocks.shape)


# --- both ways ---------------------------------------------------------------------------

_WIDE = (torch.int16, torch.int32, torch.int64)


def _dequantized(
    ctx: LoweringContext, node: fx.Node, blocks: _Blocks, scale: Any, zero_point: Any
) -> Tensor:
    """``(input - zero_point) * scale`` of integers."""
    _require_f32(ctx.output_dtype(node))
    x = _in_blocks(ctx, ctx.tensor(node.args[0]), blocks)
    if zero_point is not None:
        x = binary_values(ctx, "sub", x, _scales(ctx, zero_point, blocks))
    y = binary_values(ctx, "mul", x, _scales(ctx, scale, blocks))
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


def _quantized(ctx: LoweringContext, node: fx.Node, y: Value, low: Any, high: Any) -> Tensor:
    """``y``, already shifted, cut to the range of an integer type."""
    dtype = ctx.output_dtype(node)
    limits = torch.iinfo(dtype)
    cut = clamp_value(
        ctx,
        y,
        ctx.number(limits.min if low is None else low, "quant_min"),
        ctx.number(limits.max if high is None else high, "quant_max"),
    )
    whole = ctx.call("host_convert", cut, to=int(int_type(dtype)))
    return ctx.result(node, ctx.reshape(whole, ctx.output_shape(node)))


def _rounded(ctx: LoweringContext, x: Value) -> Value:
    """To the nearest, halves to even."""
    return host_unary(ctx, HostUnary.ROUND_EVEN, x)


def _require_f32(dtype: torch.dtype) -> None:
    if dtype != torch.float32:
        raise Unsupported(f"quantization of {dtype}, whose arithmetic rounds after each step")


def _blockwise(
    ctx: LoweringContext, node: fx.Node, blocks: _Blocks, scale: Any, zero_point: Any
) -> Value:
    """``round(input * (1 / scale)) + zero_point``, not yet cut."""
    x = ctx.float_tensor(node.args[0])
    _require_f32(x.dtype)
    inverse = host_unary(ctx, HostUnary.RECIPROCAL, _scales(ctx, scale, blocks))
    y = _rounded(ctx, binary_values(ctx, "mul", _in_blocks(ctx, x, blocks), inverse))
    return binary_values(ctx, "add", y, _scales(ctx, zero_point, blocks))


_NE = ("ne0", "ne1", "ne2", "ne3")

# --- torchao -------------------------------------------------------------------------------


@lowering("torchao.dequantize_affine.default", whole=True)
@_folded
def dequantize_affine(ctx: LoweringContext, node: fx.Node) -> Tensor:
    blocks = _blocks(ctx.tensor(node.args[0]).shape, node.args[1])
    return _dequantized(ctx, node, blocks, node.args[2], node.args[3])


@lowering("torchao.quantize_affine.default", whole=True)
@_folded
def quantize_affine(ctx: LoweringContext, node: fx.Node) -> Tensor:
    if node.args[3] is None:
        raise Unsupported("quantization without zero points")
    blocks = _blocks(ctx.tensor(node.args[0]).shape, node.args[1])
    y = _blockwise(ctx, node, blocks, node.args[2], node.args[3])
    low, high = ctx.argument(node, 5, "quant_min"), ctx.argument(node, 6, "quant_max")
    return _quantized(ctx, node, y, low, high)


@lowering("torchao.choose_qparams_affine.default", whole=True)
def choose_qparams_affine(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    """Scales and zero points from the extremes of each block; 0 is always representable."""
    x = ctx.float_tensor(node.args[0])
    scale_fake, zero_fake = node.meta["val"]
    _require_f32(x.dtype)
    _require_f32(scale_fake.dtype)
    mapping = node.args[1]
    low, high = ctx.argument(node, 4, "quant_min"), ctx.argument(node, 5, "quant_max")
    eps = ctx.argument(node, 6, "eps")
    if low is None or high is None:
        raise Unsupported("a range that is not given")
    blocks = _blocks(x.shape, node.args[2])
    shaped = Tensor(ctx.reshape(x.value, blocks.shape), blocks.shape, x.dtype)
    rows = rows_over(ctx, shaped, blocks.shared)
    zero = ctx.constant(torch.tensor(0.0))
    lowest = host_binary(ctx, HostBinary.MINIMUM, host_reduce(ctx, HostReduce.MIN, rows), zero)
    highest = host_binary(ctx, HostBinary.MAXIMUM, host_reduce(ctx, HostReduce.MAX, rows), zero)
    smallest = torch.finfo(torch.float32).smallest_normal if eps is None else float(eps)
    if mapping == "ASYMMETRIC":
        span, steps = binary_values(ctx, "sub", highest, lowest), float(high - low)
    elif mapping == "SYMMETRIC":
        opposite = unary_value(ctx, Unary.NEG, lowest)
        span = host_binary(ctx, HostBinary.MAXIMUM, opposite, highest)
        steps = float(high - low) / 2
    else:
        raise Unsupported(f"the mapping {mapping}")
    scale = clamp_value(ctx, divided_by(ctx, span, steps), smallest, float("inf"))
    if mapping == "ASYMMETRIC":
        shift = _rounded(ctx, binary_values(ctx, "div", lowest, scale))
        point = clamp_value(ctx, scale_value(ctx, shift, -1.0, low), low, high)
        points = ctx.call("host_convert", point, to=int(int_type(zero_fake.dtype)))
    else:
        middle = torch.tensor(int((high + low + 1) / 2), dtype=torch.int32)
        points = ctx.call("repeat", ctx.constant(middle), **dict(zip(_NE, scale.ne, strict=True)))
    return tuple(
        Tensor(ctx.reshape(value, shape), shape, fake.dtype)
        for value, fake in ((scale, scale_fake), (points, zero_fake))
        for shape in (tuple(ctx.dim(s) for s in fake.shape),)
    )


# --- quantized_decomposed ------------------------------------------------------------------


@lowering("quantized_decomposed.quantize_per_tensor.default")
@_folded
def quantize_per_tensor(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.float_tensor(node.args[0])
    _require_f32(x.dtype)
    scale, point = (ctx.number(node.args[i], n) for i, n in ((1, "scale"), (2, "zero_point")))
    rounded = _rounded(ctx, scale_value(ctx, x.value, 1.0 / scale))
    return _quantized(ctx, node, scale_value(ctx, rounded, 1.0, point), *node.args[3:5])


@lowering("quantized_decomposed.dequantize_per_tensor.default")
@_folded
def dequantize_per_tensor(ctx: LoweringContext, node: fx.Node) -> Tensor:
    _require_f32(ctx.output_dtype(node))
    scale, point = (ctx.number(node.args[i], n) for i, n in ((1, "scale"), (2, "zero_point")))
    x = held(ctx, ctx.tensor(node.args[0]), torch.float32)
    return ctx.result(node, scale_value(ctx, scale_value(ctx, x, 1.0, -point), scale))


@lowering("quantized_decomposed.quantize_per_channel.default")
@_folded
def quantize_per_channel(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    blocks = _along(x.shape, normalize_dim(node.args[3], x.rank))
    y = _blockwise(ctx, node, blocks, node.args[1], node.args[2])
    return _quantized(ctx, node, y, *node.args[4:6])


@lowering("quantized_decomposed.dequantize_per_channel.default")
@_folded
def dequantize_per_channel(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.tensor(node.args[0])
    _require_wide(ctx, node.args[2])
    blocks = _along(x.shape, normalize_dim(node.args[3], x.rank))
    return _dequantized(ctx, node, blocks, node.args[1], node.args[2])


@lowering("quantized_decomposed.dequantize_per_channel_group.default")
@_folded
def dequantize_per_channel_group(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Scales ``[n, k / group]`` for an input ``[n, k]``."""
    _require_wide(ctx, node.args[2])
    group = min(ctx.argument(node, 6, "group_size", 128), ctx.tensor(node.args[0]).shape[-1])
    blocks = _blocks(ctx.tensor(node.args[0]).shape, (1, group))
    return _dequantized(ctx, node, blocks, node.args[1], node.args[2])


def _require_wide(ctx: LoweringContext, zero_points: Any) -> None:
    """torch subtracts zero points of 8 bits from an input of 8 bits in 8 bits."""
    if zero_points is not None and ctx.tensor(zero_points).dtype not in _WIDE:
        raise Unsupported("zero points of 8 bits")
