"""Interpolation of signals, images and volumes, and sampling on a grid.

ggml's interpolation computes positions otherwise than torch, so its call is used where
both come out the same for every element; else ``host_resize`` follows torch's rules.
(Torch also multiplies neighbours by a weight of 0. Where such a neighbour, beyond the
border, is infinite, torch gives NaN and ggml the element itself.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import sympy
import torch
from torch import fx

from executorch_ggml.ir.enums import GridMode, GridPadding, HostResize, Upscale
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, product, simplify_dim
from executorch_ggml.lowering.context import LoweringContext, Tensor, to_dim
from executorch_ggml.lowering.registry import Lowering, Unsupported, lowering

_GGML_MODES: Final = {
    HostResize.NEAREST: Upscale.NEAREST,
    HostResize.LINEAR: Upscale.BILINEAR,
    HostResize.CUBIC: Upscale.BICUBIC,
}

#: By how much positions may differ: as much as weights then do.
_SAME_POSITION: Final = 1e-6

_Floats: TypeAlias = "npt.NDArray[np.float32]"
_HALF: Final = np.float32(0.5)

#: Integers up to here are exact in F32, so that positions below can all be compared.
_EXACT: Final = 1 << 24


def _torch_step(scale: float | None) -> float:
    """Input positions per result as torch computes them from a scale factor; 0 without one."""
    return float(np.float32(1.0 / scale)) if scale is not None and scale > 0 else 0.0


def _torch_positions(kind: HostResize, size: int, result: int, step: float, align: bool) -> _Floats:
    i = np.arange(result, dtype=np.float32)
    if align:
        rate = np.float32(size - 1) / np.float32(result - 1) if result > 1 else np.float32(0)
    else:
        rate = np.float32(step) if step else np.float32(size) / np.float32(result)
    if kind is HostResize.NEAREST:
        return np.asarray(np.minimum(np.floor(i * rate), size - 1), np.float32)
    if kind is HostResize.LINEAR and size == result:
        return i
    return i * rate if align else (i + _HALF) * rate - _HALF


def _ggml_positions(kind: HostResize, size: int, result: int, align: bool) -> _Floats:
    i = np.arange(result, dtype=np.float32)
    rate = np.float32(result) / np.float32(size)
    if align and result > 1 and size > 1:
        rate = np.float32(result - 1) / np.float32(size - 1)
    if kind is HostResize.NEAREST:
        return np.asarray(np.floor(i / rate), np.float32)
    return i / rate if align else (i + _HALF) / rate - _HALF


@cache
def _agrees(kind: HostResize, size: int, result: int, step: float, align: bool) -> bool:
    """Whether ggml reads the same elements with the same weights along a dim."""
    if max(size, result) > _EXACT:
        return False
    ours = _torch_positions(kind, size, result, step, align)
    theirs = _ggml_positions(kind, size, result, align)
    if kind is HostResize.NEAREST:
        return bool(np.array_equal(ours, theirs))
    if kind is HostResize.LINEAR:
        ours, theirs = np.clip(ours, 0, size - 1), np.clip(theirs, 0, size - 1)
    return bool(np.max(np.abs(ours - theirs)) <= _SAME_POSITION)


@cache
def _repeats(factor: int, step: float, largest: int) -> bool:
    """Whether torch's nearest element is ``i // factor``, as ggml's, up to a size."""
    i = np.arange(largest, dtype=np.float32)
    rate = np.float32(step) if step else np.float32(1) / np.float32(factor)
    whole = np.arange(largest, dtype=np.int32) // factor
    return bool(np.array_equal(np.floor(i * rate), whole.astype(np.float32)))


def _largest(size: Any) -> int:
    """The upper bound of a result's size, or where F32 ends to be exact."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    bound = size.node.shape_env.bound_sympy(size.node.expr).upper
    return min(int(bound), _EXACT) if bound.is_Integer else _EXACT


def _same_for_every_size(
    kind: HostResize, size: Dim, result: Any, step: float, align: bool
) -> bool:
    n = to_dim(result)
    if isinstance(size, int) and isinstance(n, int):
        return _agrees(kind, size, n, step, align)
    factor = simplify_dim(sympy.sympify(n) / sympy.sympify(size))
    return (
        kind is HostResize.NEAREST
        and isinstance(factor, int)
        and _repeats(factor, step, _largest(result))
    )


def _upscale(
    ctx: LoweringContext, mode: Upscale, x: Value, size: tuple[Dim, ...], align: bool
) -> Value:
    return ctx.call(
        "upscale",
        ctx.contiguous(x),
        mode=int(mode),
        ne0=size[1],
        ne1=size[0],
        align_corners=int(align and mode is not Upscale.NEAREST),
    )


def _resize_by_ggml(
    ctx: LoweringContext,
    kind: HostResize,
    x: Value,
    lead: tuple[Dim, ...],
    sizes: tuple[Dim, ...],
    result: tuple[Dim, ...],
    align: bool,
) -> Value:
    mode = _GGML_MODES[kind]
    if len(sizes) < 3:
        image = ctx.reshape(x, (*lead, *(1, *sizes)[-2:]))
        return _upscale(ctx, mode, image, (1, *result)[-2:], align)
    planes, pixels = product(lead), product(result[1:])
    flat = _upscale(ctx, mode, ctx.reshape(x, (planes, *sizes)), result[1:], align)
    flat = ctx.reshape(flat, (planes, sizes[0], pixels))
    return _upscale(ctx, mode, flat, (result[0], pixels), align)


def _resize(
    ctx: LoweringContext, node: fx.Node, kind: HostResize, align: bool, scales: list[float | None]
) -> Tensor:
    rank = len(scales)
    x = ctx.float_tensor(node.args[0], "input")
    if x.rank != rank + 2:
        raise Unsupported(f"an input of rank {x.rank} to interpolation over {rank} dims")
    lead, sizes = x.shape[:2], x.shape[2:]
    result = ctx.output_shape(node)[2:]
    steps = [_torch_step(scale) for scale in scales]
    # Nearest takes elements as they are; else a dim that is none of x's would weigh them.
    fits = kind is HostResize.NEAREST or (kind in _GGML_MODES and rank == 2)
    if fits and all(
        _same_for_every_size(kind, *along, align)
        for along in zip(sizes, node.meta["val"].shape[2:], steps, strict=True)
    ):
        y = _resize_by_ggml(ctx, kind, x.value, lead, sizes, result, align)
        return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))
    for size, n, step in zip(sizes, result, steps, strict=True):
        if isinstance(size, int) and isinstance(n, int) and step * (n - 1) > size:
            raise Unsupported(f"a scale factor of {1 / step:g} that leaves the {size} elements")
    volume = ctx.reshape(x.value, (product(lead), *(1, 1, *sizes)[-3:]))
    y = ctx.call(
        "host_resize",
        volume,
        kind=int(kind),
        rank=rank,
        align_corners=int(align),
        **{f"ne{i}": n for i, n in enumerate(((1, 1, *result)[-3:])[::-1])},
        **{f"step{i}": step for i, step in enumerate(reversed(steps))},
    )
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


def _register(op: str, kind: HostResize, rank: int) -> None:
    """The two forms of an op: with a list of scale factors, and with one for each dim."""
    aligns = kind not in (HostResize.NEAREST, HostResize.NEAREST_EXACT)
    after = 3 if aligns else 2

    def align_corners(ctx: LoweringContext, node: fx.Node) -> bool:
        return aligns and bool(ctx.argument(node, 2, "align_corners", False))

    def vector(ctx: LoweringContext, node: fx.Node) -> Tensor:
        given = ctx.argument(node, after, "scale_factors")
        scales = [None if s is None else ctx.number(s, "scale") for s in given or [None] * rank]
        return _resize(ctx, node, kind, align_corners(ctx, node), scales)

    def separate(ctx: LoweringContext, node: fx.Node) -> Tensor:
        names = ["scales_d", "scales_h", "scales_w"][-rank:] if rank > 1 else ["scales"]
        given = [ctx.argument(node, after + i, name) for i, name in enumerate(names)]
        scales = [None if s is None else ctx.number(s, "scale") for s in given]
        return _resize(ctx, node, kind, align_corners(ctx, node), scales)

    forms: dict[str, Callable[..., Tensor]] = {"vec": vector, "default": separate}
    for overload, function in forms.items():
        body: Lowering = function
        lowering(f"aten.{op}.{overload}", whole=True)(body)


for _rank in (1, 2, 3):
    _register(f"upsample_nearest{_rank}d", HostResize.NEAREST, _rank)
    _register(f"_upsample_nearest_exact{_rank}d", HostResize.NEAREST_EXACT, _rank)
for _op, _kind, _rank in (
    ("upsample_linear1d", HostResize.LINEAR, 1),
    ("upsample_bilinear2d", HostResize.LINEAR, 2),
    ("upsample_trilinear3d", HostResize.LINEAR, 3),
    ("upsample_bicubic2d", HostResize.CUBIC, 2),
    ("_upsample_bilinear2d_aa", HostResize.LINEAR_AA, 2),
    ("_upsample_bicubic2d_aa", HostResize.CUBIC_AA, 2),
):
    _register(_op, _kind, _rank)


@lowering("aten.grid_sampler.default", "aten.grid_sampler_2d.default", whole=True)
def grid_sampler(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x`` at coordinates from -1 to 1: ``grid`` is ``[n, height, width, 2]``."""
    x = ctx.float_tensor(node.args[0], "input")
    grid = ctx.float_tensor(node.args[1], "grid")
    if x.rank != 4:
        raise Unsupported(f"sampling from an input of rank {x.rank}")
    mode, padding = (ctx.static(node.args[i], "mode") for i in (2, 3))
    y = ctx.call(
        "host_grid_sample",
        x.value,
        grid.value,
        mode=int(GridMode(mode)),
        padding=int(GridPadding(padding)),
        align_corners=int(bool(node.args[4])),
    )
    return ctx.result(node, y)
