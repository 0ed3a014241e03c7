"""Interpolation in one to three dims, and sampling on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim

from tests.lowering.cases.base import (
    ELEMENTWISE,
    EXACT,
    F16,
    PRODUCT,
    Case,
    each,
    fn,
    host,
    r,
    together,
)
from tests.lowering.cases.pool import special

_SIGNAL, _IMAGE, _VOLUME = r(2, 3, 7), r(2, 3, 5, 6), r(2, 3, 4, 5, 6)
_WIDE = r(2, 3, 9, 12)


def resize(name: str, x: Tensor, *ops: str, own: bool = False, **arguments: Any) -> Case:
    """A call of ``F.interpolate``; ``own``: by our kernel."""
    rtol = arguments.pop("rtol", EXACT if "nearest" in arguments["mode"] else ELEMENTWISE)
    more = {k: arguments.pop(k) for k in ("dynamic_shapes", "others") if k in arguments}
    row = host if own else fn
    return row(name, lambda v: F.interpolate(v, **arguments), (x,), *ops, rtol=rtol, **more)


def _nearest(name: str, x: Tensor, *ops: str, own: bool = False, **arguments: Any) -> Case:
    return resize(f"upsample_nearest{name}", x, *ops, own=own, mode="nearest", **arguments)


def _exact(name: str, x: Tensor, **arguments: Any) -> Case:
    return resize(f"upsample_nearest_exact{name}", x, own=True, mode="nearest-exact", **arguments)


NEAREST = [
    _nearest("1d", _SIGNAL, scale_factor=2),
    _nearest("1d_size", _SIGNAL, size=11),
    _nearest("1d_smaller", _SIGNAL, size=3),
    _nearest("1d_factor_1_7", _SIGNAL, scale_factor=1.7, own=True),
    _nearest("2d", _IMAGE, "upscale", scale_factor=2),
    _nearest("2d_of_its_own", _IMAGE, scale_factor=(3, 2)),
    _nearest("2d_size", _IMAGE, size=(7, 13)),
    _nearest("2d_smaller", _IMAGE, size=(2, 4)),
    _nearest("2d_same_size", _IMAGE, size=(5, 6)),
    together(
        "upsample_nearest2d_factors",
        _nearest("2d_factor_1_7", _IMAGE, scale_factor=1.7, own=True),
        _nearest("2d_factor_0_6", _IMAGE, scale_factor=0.6, own=True),
    ),
    _nearest("2d_factor_recomputed", _IMAGE, scale_factor=1.7, recompute_scale_factor=True),
    # Torch's rate is rounded: at element 41 it falls short of 1.
    _nearest("2d_factor_41", r(1, 1, 2, 41), scale_factor=41, own=True),
    _nearest("2d_nan", special(1, 2, 6, 6), scale_factor=2),
    _nearest("2d_f16", _IMAGE.half(), scale_factor=2),
    _nearest("3d", _VOLUME, scale_factor=2),
    _nearest("3d_size", _VOLUME, size=(5, 3, 8)),
    _exact("1d", _SIGNAL, scale_factor=1.7),
    together(
        "upsample_nearest_exact2d",
        _exact("2d_size", _IMAGE, size=(7, 4)),
        _exact("2d_factors", _IMAGE, scale_factor=(2, 0.7)),
    ),
    _exact("3d", _VOLUME, size=(5, 3, 8)),
    fn(
        "upsample_nearest2d_transposed",
        lambda x: F.interpolate(x.transpose(2, 3), scale_factor=2),
        (_IMAGE,),
        rtol=EXACT,
    ),
    fn(
        "upsample_nearest2d_scales",
        lambda x: torch.ops.aten.upsample_nearest2d(x, [10, 12], 2.0, 2.0),
        (_IMAGE,),
        rtol=EXACT,
    ),
]

LINEAR = [
    together(
        "upsample_linear1d",
        resize("factor", _SIGNAL, own=True, mode="linear", scale_factor=2),
        resize("size", _SIGNAL, own=True, mode="linear", size=4),
        resize("corners", _SIGNAL, own=True, mode="linear", size=12, align_corners=True),
    ),
    resize("upsample_linear1d_inf", special(1, 1, 24), own=True, mode="linear", scale_factor=2),
    resize("upsample_bilinear2d", _IMAGE, "upscale", mode="bilinear", scale_factor=2),
    resize("upsample_bilinear2d_size", _IMAGE, mode="bilinear", size=(7, 13)),
    resize("upsample_bilinear2d_smaller", _IMAGE, mode="bilinear", size=(2, 3)),
    resize("upsample_bilinear2d_same_size", _IMAGE, mode="bilinear", size=(5, 6)),
    resize("upsample_bilinear2d_one", _IMAGE, mode="bilinear", size=(1, 1)),
    resize(
        "upsample_bilinear2d_corners",
        _IMAGE,
        "upscale",
        mode="bilinear",
        size=(9, 11),
        align_corners=True,
    ),
    resize(
        "upsample_bilinear2d_corners_one",
        _IMAGE,
        mode="bilinear",
        size=(1, 4),
        align_corners=True,
    ),
    resize(
        "upsample_bilinear2d_corners_of_one",
        r(2, 3, 1, 6),
        mode="bilinear",
        size=(4, 9),
        align_corners=True,
    ),
    resize("upsample_bilinear2d_factor_1_7", _IMAGE, own=True, mode="bilinear", scale_factor=1.7),
    resize(
        "upsample_bilinear2d_factor_recomputed",
        _IMAGE,
        mode="bilinear",
        scale_factor=1.7,
        recompute_scale_factor=True,
    ),
    resize("upsample_bilinear2d_f16", _IMAGE.half(), mode="bilinear", scale_factor=2, rtol=F16),
    resize(
        "upsample_trilinear3d", _VOLUME, own=True, mode="trilinear", scale_factor=2, rtol=PRODUCT
    ),
    together(
        "upsample_trilinear3d_size",
        *(
            resize(
                "corners" if corners else "centers",
                _VOLUME,
                own=True,
                mode="trilinear",
                size=(5, 3, 8),
                align_corners=corners,
            )
            for corners in (False, True)
        ),
    ),
    resize("upsample_bicubic2d", _IMAGE, "upscale", mode="bicubic", scale_factor=2),
    resize("upsample_bicubic2d_smaller", _IMAGE, mode="bicubic", size=(3, 4)),
    resize("upsample_bicubic2d_corners", _IMAGE, mode="bicubic", size=(9, 11), align_corners=True),
    resize("upsample_bicubic2d_factor_1_7", _IMAGE, own=True, mode="bicubic", scale_factor=1.7),
    together(
        "upsample_antialias",
        *(
            resize(name, x, own=True, size=size, antialias=True, **more)
            for name, x, size, more in (
                ("smaller", _WIDE, (4, 5), {"mode": "bilinear"}),
                ("larger", _IMAGE, (8, 5), {"mode": "bilinear"}),
                ("corners", _WIDE, (4, 5), {"mode": "bilinear", "align_corners": True}),
                ("bicubic", _WIDE, (4, 5), {"mode": "bicubic"}),
            )
        ),
    ),
    resize("interpolate_area", r(2, 3, 6, 8), mode="area", size=(3, 2)),
]

_N = Dim("n", min=1, max=8)
_H = Dim("h", min=4, max=64)
_W = Dim("w", min=4, max=64)
_SIZES = ({0: _N, 2: _H, 3: _W},)
_OTHERS = [(r(1, 3, 4, 4),), (r(3, 3, 9, 20),)]

DYNAMIC = [
    resize(
        "upsample_nearest2d_dynamic",
        _IMAGE,
        "upscale",
        mode="nearest",
        scale_factor=3,
        dynamic_shapes=(_SIZES,),
        others=_OTHERS,
    ),
    resize(
        "upsample_nearest2d_dynamic_batch",
        _IMAGE,
        "upscale",
        mode="nearest",
        size=(8, 9),
        dynamic_shapes=(({0: _N},),),
        others=[(r(1, 3, 5, 6),), (r(8, 3, 5, 6),)],
    ),
    resize(
        "upsample_nearest2d_dynamic_to_a_size",
        _IMAGE,
        own=True,
        mode="nearest",
        size=(8, 9),
        dynamic_shapes=(_SIZES,),
        others=_OTHERS,
    ),
    resize(
        "upsample_bilinear2d_dynamic",
        _IMAGE,
        own=True,
        mode="bilinear",
        scale_factor=2,
        dynamic_shapes=(_SIZES,),
        others=_OTHERS,
    ),
    resize(
        "upsample_bilinear2d_dynamic_corners",
        _IMAGE,
        own=True,
        mode="bilinear",
        scale_factor=2,
        align_corners=True,
        dynamic_shapes=(_SIZES,),
        others=_OTHERS,
    ),
    resize(
        "upsample_bicubic2d_dynamic_to_a_size",
        _IMAGE,
        own=True,
        mode="bicubic",
        size=(7, 8),
        dynamic_shapes=(_SIZES,),
        others=_OTHERS,
    ),
    resize(
        "upsample_linear1d_dynamic",
        _SIGNAL,
        own=True,
        mode="linear",
        scale_factor=2,
        dynamic_shapes=(({2: _W},),),
        others=[(r(2, 3, 4),), (r(2, 3, 64),)],
    ),
]


def _grid(scale: float = 1.3) -> Tensor:
    """Points in and around an image."""
    return r(2, 4, 5, 2).tanh() * scale


def _sampled(**arguments: Any) -> Callable[..., Tensor]:
    return lambda x, grid: F.grid_sample(x, grid, **arguments)


GRID = [
    host(
        f"grid_sample_{mode}",
        each(
            *(
                _sampled(mode=mode, padding_mode=padding, align_corners=corners)
                for padding, corners in ways
            )
        ),
        (_IMAGE, _grid()),
        rtol=PRODUCT,
    )
    for mode, ways in (
        (
            "bilinear",
            (
                ("zeros", False),
                ("zeros", True),
                ("border", False),
                ("reflection", False),
                ("reflection", True),
            ),
        ),
        ("nearest", (("zeros", False), ("border", True), ("reflection", False))),
        ("bicubic", (("zeros", False), ("border", True), ("reflection", False))),
    )
] + [
    host(
        "grid_sample_not_finite",
        _sampled(padding_mode="border", align_corners=False),
        (_IMAGE, special(2, 4, 5, 2)),
        rtol=PRODUCT,
    ),
    host(
        "grid_sample_far",
        _sampled(padding_mode="reflection", align_corners=False),
        (_IMAGE, _grid(9.0)),
        rtol=PRODUCT,
    ),
]

CASES = [*NEAREST, *LINEAR, *DYNAMIC, *GRID]
