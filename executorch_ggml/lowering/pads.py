"""Padding in every mode, of dims of any size and of values of any dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import fx

from executorch_ggml.ir.types import Dim, simplify_dim
from executorch_ggml.lowering.constructors import filled
from executorch_ggml.lowering.context import LoweringContext, Tensor, axis_of
from executorch_ggml.lowering.host import integer, iota, where
from executorch_ggml.lowering.index import static_sizes, take, take_fixed
from executorch_ggml.lowering.registry import Unsupported, lowering
from executorch_ggml.lowering.slices import joined, within

#: Amounts before and after, by torch dim.
_Amounts: TypeAlias = "dict[int, tuple[int, int]]"


def _pairs(pads: Any, rank: int) -> dict[int, tuple[Any, Any]]:
    """The arguments by dim; pairs come innermost dim first."""
    assert isinstance(pads, (list, tuple))
    pairs = zip(pads[::2], pads[1::2], strict=True)
    return {rank - 1 - i: pair for i, pair in enumerate(pairs) if pair != (0, 0)}


def _amounts(ctx: LoweringContext, pads: Any, rank: int) -> _Amounts:
    """
    Raises:
        Unsupported: an amount that depends on sizes.
    """
    return {
        dim: (ctx.static(before, "padding"), ctx.static(after, "padding"))
        for dim, (before, after) in _pairs(pads, rank).items()
    }


def _dynamic(
    ctx: LoweringContext, x: Tensor, dim: int, pair: tuple[Any, Any], fill: float
) -> Tensor:
    """Amounts that depend on sizes, of either sign: each element or the fill, by its number."""
    before, after = (ctx.dim(p) for p in pair)
    size = x.shape[dim]
    total = simplify_dim(before + size + after)
    ids = iota(ctx, total, simplify_dim(-before))
    inside = within(ctx, ids, 0, size)
    both = joined(ctx, [x, *_filled_part(ctx, x, dim, 1, fill)], dim)
    taken = take(ctx, both, dim, where(ctx, inside, ids, integer(ctx, size)))
    shape = _resized(x, dim, total)
    return Tensor(ctx.reshape(taken.value, shape), shape, x.dtype)


def _resized(x: Tensor, dim: int, size: Dim) -> tuple[Dim, ...]:
    return (*x.shape[:dim], size, *x.shape[dim + 1 :])


def _constant(ctx: LoweringContext, x: Tensor, amounts: _Amounts, number: float) -> Tensor:
    """Negative amounts cut. Zeros around floats are one call."""
    for dim, (before, after) in amounts.items():
        cut = min(before, 0) + min(after, 0)
        if cut:
            shape = _resized(x, dim, simplify_dim(x.shape[dim] + cut))
            x = Tensor(ctx.slice(x, dim, max(-before, 0), shape[dim]), shape, x.dtype)
    amounts = {d: (max(b, 0), max(a, 0)) for d, (b, a) in amounts.items() if max(b, a) > 0}
    x = ctx.widened(x)
    axes = {dim: axis_of(x.shape, dim) for dim in amounts}
    plus_zero = number == 0 and math.copysign(1, number) > 0
    if amounts and x.is_float and plus_zero and None not in axes.values():
        params: dict[str, int] = {}
        sizes = list(x.shape)
        for dim, (before, after) in amounts.items():
            params |= {f"before{axes[dim]}": before, f"after{axes[dim]}": after}
            sizes[dim] = simplify_dim(x.shape[dim] + before + after)
        return Tensor(ctx.call("pad", ctx.rows(x.value), **params), tuple(sizes), x.dtype)
    for dim, (before, after) in amounts.items():
        left = _filled_part(ctx, x, dim, before, number)
        right = _filled_part(ctx, x, dim, after, number)
        x = joined(ctx, [*left, x, *right], dim)
    return x


def _filled_part(
    ctx: LoweringContext, x: Tensor, dim: int, size: int, number: float
) -> list[Tensor]:
    if size == 0:
        return []
    shape = _resized(x, dim, size)
    return [Tensor(filled(ctx, number, x.dtype, shape), shape, x.dtype)]


_Reader: TypeAlias = "Callable[[int, int, int], list[int]]"


def _reflected(size: int, before: int, after: int) -> list[int]:
    """The edge is a mirror and does not repeat."""
    period = max(2 * (size - 1), 1)
    return [min(i % period, -i % period) for i in range(-before, size + after)]


def _replicated(size: int, before: int, after: int) -> list[int]:
    return [min(max(i, 0), size - 1) for i in range(-before, size + after)]


def _around(size: int, before: int, after: int) -> list[int]:
    return [i % size for i in range(-before, size + after)]


_READERS: dict[str, _Reader] = {
    "reflect": _reflected,
    "replicate": _replicated,
    "circular": _around,
}


def _read(ctx: LoweringContext, x: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    """A dim with elements of itself around it."""
    size = x.shape[dim]
    if before < 0 or after < 0:
        (extent,) = static_sizes(x, [dim])
        ids = torch.tensor(_READERS[mode](extent, before, after))
        taken = take_fixed(ctx, x, dim, ids)
        shape = _resized(x, dim, ids.numel())
        return Tensor(ctx.reshape(taken.value, shape), shape, x.dtype)
    if mode == "replicate":
        left, right = _edge(ctx, x, dim, 0, before), _edge(ctx, x, dim, size - 1, after)
    elif mode == "reflect":
        left = _mirrored(ctx, x, dim, 1, before)
        right = _mirrored(ctx, x, dim, size - 1 - after, after)
    else:
        left = _cut(ctx, x, dim, size - before, before)
        right = _cut(ctx, x, dim, 0, after)
    return joined(ctx, [*left, x, *right], dim)


def _cut(ctx: LoweringContext, x: Tensor, dim: int, start: Dim, length: int) -> list[Tensor]:
    if length == 0:
        return []
    shape = _resized(x, dim, length)
    return [Tensor(ctx.slice(x, dim, simplify_dim(start), length), shape, x.dtype)]


def _mirrored(ctx: LoweringContext, x: Tensor, dim: int, start: Dim, length: int) -> list[Tensor]:
    parts = _cut(ctx, x, dim, start, length)
    backwards = torch.arange(length - 1, -1, -1)
    return [
        Tensor(ctx.reshape(take_fixed(ctx, p, dim, backwards).value, p.shape), p.shape, p.dtype)
        for p in parts
    ]


def _edge(ctx: LoweringContext, x: Tensor, dim: int, start: Dim, count: int) -> list[Tensor]:
    parts = _cut(ctx, x, dim, start, 1) if count else []
    shape = _resized(x, dim, count)
    return [Tensor(ctx.broadcast_to(p, shape), shape, p.dtype) for p in parts]


@lowering("aten.constant_pad_nd.default")
def constant_pad(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _padded(ctx, node, "constant", ctx.argument(node, 2, "value", 0))


@lowering("aten.pad.default", whole=True)
def pad(ctx: LoweringContext, node: fx.Node) -> Tensor:
    value = ctx.argument(node, 3, "value")
    return _padded(ctx, node, ctx.argument(node, 2, "mode", "constant"), value or 0)


@lowering(
    "aten.reflection_pad1d.default",
    "aten.reflection_pad2d.default",
    "aten.reflection_pad3d.default",
    whole=True,
)
def reflection_pad(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _padded(ctx, node, "reflect", 0)


@lowering(
    "aten.replication_pad1d.default",
    "aten.replication_pad2d.default",
    "aten.replication_pad3d.default",
    whole=True,
)
def replication_pad(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _padded(ctx, node, "replicate", 0)


def _padded(ctx: LoweringContext, node: fx.Node, mode: str, value: Any) -> Tensor:
    x = ctx.tensor(node.args[0])
    if mode == "constant":
        fill = ctx.number(value, "value")
        pairs = _pairs(node.args[1], x.rank)
        fixed = {d: p for d, p in pairs.items() if all(isinstance(n, int) for n in p)}
        y = _constant(ctx, x, fixed, fill)
        for dim in (d for d in pairs if d not in fixed):
            y = _dynamic(ctx, y, dim, pairs[dim], fill)
    elif mode in _READERS:
        y = ctx.widened(x)
        for dim, (before, after) in _amounts(ctx, node.args[1], x.rank).items():
            y = _read(ctx, y, dim, before, after, mode)
    else:
        raise Unsupported(f"padding mode {mode!r}")
    return ctx.result(node, ctx.reshape(y.value, ctx.output_shape(node)))
