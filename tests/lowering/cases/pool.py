"""Pooling in one to three dims."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.lowering.cases.base import EXACT, F16, PRODUCT, Case, each, fn, host, r, together


def special(*shape: int) -> Tensor:
    """NaN, infinities and equal maxima among ordinary values."""
    x = r(*shape)
    flat = x.view(-1)
    flat[3] = torch.nan
    flat[4] = torch.nan
    flat[9] = torch.inf
    flat[14] = -torch.inf
    flat[20:22] = 7.0
    return x


_LOWEST = torch.full((1, 2, 5, 6), -torch.inf)

MAX = [
    fn("max_pool1d", lambda x: F.max_pool1d(x, 2), (r(2, 3, 8),), rtol=EXACT),
    fn("max_pool1d_padding", lambda x: F.max_pool1d(x, 3, 2, 1), (r(2, 3, 8),), rtol=EXACT),
    fn("max_pool1d_unbatched", lambda x: F.max_pool1d(x, 2), (r(3, 8),), rtol=EXACT),
    host(
        "max_pool1d_ceil_dilation",
        each(
            lambda x: F.max_pool1d(x, 3, ceil_mode=True),
            lambda x: F.max_pool1d(x, 3, 1, dilation=2),
        ),
        (r(2, 3, 8),),
        rtol=EXACT,
    ),
    host(
        "max_pool1d_indices",
        lambda x: F.max_pool1d(x, 2, return_indices=True),
        (r(2, 3, 8),),
        rtol=EXACT,
    ),
    Case("max_pool2d", nn.MaxPool2d(2), (r(2, 3, 6, 8),), ("pool_2d",), EXACT),
    Case("max_pool2d_padding", nn.MaxPool2d(3, 2, 1), (r(2, 3, 7, 8),), ("pool_2d",), EXACT),
    fn(
        "max_pool2d_stride",
        lambda x: F.max_pool2d(x, (3, 2), (1, 3), (1, 0)),
        (r(2, 3, 7, 8),),
        "pool_2d",
        rtol=EXACT,
    ),
    fn("max_pool2d_remainder", lambda x: F.max_pool2d(x, 3), (r(2, 3, 7, 8),), rtol=EXACT),
    fn("max_pool2d_unbatched", lambda x: F.max_pool2d(x, 2), (r(3, 6, 8),), rtol=EXACT),
    fn("max_pool2d_nan", lambda x: F.max_pool2d(x, 2), (special(1, 2, 6, 6),), rtol=EXACT),
    fn("max_pool2d_lowest", lambda x: F.max_pool2d(x, 3, 2, 1), (_LOWEST,), rtol=EXACT),
    fn(
        "max_pool2d_transposed",
        lambda x: F.max_pool2d(x.transpose(2, 3), 2),
        (r(2, 3, 6, 8),),
        rtol=EXACT,
    ),
    fn("max_pool2d_f16", lambda x: F.max_pool2d(x, 2), (r(2, 3, 6, 8).half(),), rtol=EXACT),
    host(
        "max_pool2d_ceil",
        lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
        (r(2, 3, 6, 8),),
        *("reshape", "host_pool", "reshape"),
        rtol=EXACT,
    ),
    fn(
        "max_pool2d_ceil_of_whole_windows",
        lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True),
        (r(2, 3, 6, 8),),
        "pool_2d",
        rtol=EXACT,
    ),
    # The window that the rounding adds would begin in the padding: it is dropped.
    fn(
        "max_pool2d_ceil_padding",
        lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True),
        (r(2, 3, 7, 8),),
        "pool_2d",
        rtol=EXACT,
    ),
    host(
        "max_pool2d_dilation",
        each(
            lambda x: F.max_pool2d(x, (2, 3), 1, dilation=(3, 2)),
            lambda x: F.max_pool2d(x, 3, 2, 1, dilation=2),
        ),
        (r(2, 3, 7, 8),),
        rtol=EXACT,
    ),
    together(
        "max_pool2d_indices",
        *(
            # NaN and ties among them.
            host("both", lambda x: F.max_pool2d(x, 2, return_indices=True), (x,), rtol=EXACT)
            for x in (r(2, 3, 6, 8), special(1, 2, 6, 6))
        ),
        host(
            "only",
            lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
            (r(2, 3, 6, 8),),
            rtol=EXACT,
        ),
    ),
    host(
        "max_pool2d_indices_all",
        lambda x: F.max_pool2d(x, 3, 2, 1, dilation=2, ceil_mode=True, return_indices=True),
        (r(2, 3, 8, 9),),
        rtol=EXACT,
    ),
    host(
        "max_pool2d_indices_of_lowest",
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
        (_LOWEST,),
        rtol=EXACT,
    ),
    fn("max_pool3d", lambda x: F.max_pool3d(x, 2), (r(2, 3, 4, 5, 6),), rtol=EXACT),
    fn(
        "max_pool3d_padding",
        lambda x: F.max_pool3d(x, (3, 2, 3), (2, 1, 2), (1, 0, 1)),
        (r(2, 3, 4, 5, 6),),
        rtol=EXACT,
    ),
    fn("max_pool3d_nan", lambda x: F.max_pool3d(x, 2), (special(1, 2, 4, 4, 4),), rtol=EXACT),
    fn("max_pool3d_unbatched", lambda x: F.max_pool3d(x, 2), (r(3, 4, 5, 6),), rtol=EXACT),
    host(
        "max_pool3d_ceil_dilation",
        each(
            lambda x: F.max_pool3d(x, 3, 2, ceil_mode=True),
            lambda x: F.max_pool3d(x, 2, 1, dilation=(1, 2, 3)),
        ),
        (r(2, 3, 4, 5, 6),),
        rtol=EXACT,
    ),
    host(
        "max_pool3d_indices",
        lambda x: F.max_pool3d(x, 2, return_indices=True),
        (r(2, 3, 4, 5, 6),),
        rtol=EXACT,
    ),
]

AVG = [
    fn("avg_pool1d", lambda x: F.avg_pool1d(x, 2), (r(2, 3, 8),), rtol=PRODUCT),
    fn("avg_pool1d_padding", lambda x: F.avg_pool1d(x, 3, 2, 1), (r(2, 3, 8),), rtol=PRODUCT),
    fn("avg_pool1d_unbatched", lambda x: F.avg_pool1d(x, 2), (r(3, 8),), rtol=PRODUCT),
    host(
        "avg_pool1d_not_counting_ceil",
        each(
            lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
            lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True),
        ),
        (r(2, 3, 8),),
        rtol=PRODUCT,
    ),
    Case("avg_pool2d", nn.AvgPool2d(2), (r(2, 3, 6, 8),), ("pool_2d",), PRODUCT),
    fn(
        "avg_pool2d_padding",
        lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 0)),
        (r(2, 3, 7, 8),),
        "pool_2d",
        rtol=PRODUCT,
    ),
    fn("avg_pool2d_unbatched", lambda x: F.avg_pool2d(x, 2), (r(3, 6, 8),), rtol=PRODUCT),
    fn("avg_pool2d_nan", lambda x: F.avg_pool2d(x, 2), (special(1, 2, 6, 6),), rtol=PRODUCT),
    fn("avg_pool2d_large", lambda x: F.avg_pool2d(x * 1e5, 3, 1), (r(1, 2, 6, 6),), rtol=PRODUCT),
    fn("avg_pool2d_f16", lambda x: F.avg_pool2d(x, 2), (r(2, 3, 6, 8).half(),), rtol=F16),
    host(
        "avg_pool2d_not_counting",
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        (r(2, 3, 7, 8),),
        *("reshape", "host_pool", "reshape"),
        rtol=PRODUCT,
    ),
    fn(
        "avg_pool2d_not_counting_no_padding",
        lambda x: F.avg_pool2d(x, 3, 2, count_include_pad=False),
        (r(2, 3, 7, 8),),
        "pool_2d",
        rtol=PRODUCT,
    ),
    host(
        "avg_pool2d_ceil",
        each(
            lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True),
            lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        ),
        (r(2, 3, 6, 8),),
        rtol=PRODUCT,
    ),
    fn(
        "avg_pool2d_divisor",
        lambda x: F.avg_pool2d(x, 2, divisor_override=3),
        (r(2, 3, 6, 8),),
        *("pool_2d", "scale"),
        rtol=PRODUCT,
    ),
    fn(
        "avg_pool2d_divisor_not_counting",
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False, divisor_override=5),
        (r(2, 3, 7, 7),),
        rtol=PRODUCT,
    ),
    fn("avg_pool3d", lambda x: F.avg_pool3d(x, 2), (r(2, 3, 4, 5, 6),), rtol=PRODUCT),
    fn(
        "avg_pool3d_padding",
        lambda x: F.avg_pool3d(x, (3, 2, 3), (2, 1, 2), (1, 0, 1)),
        (r(2, 3, 4, 5, 6),),
        rtol=PRODUCT,
    ),
    fn("avg_pool3d_unbatched", lambda x: F.avg_pool3d(x, 2), (r(3, 4, 5, 6),), rtol=PRODUCT),
    host(
        "avg_pool3d_not_counting_ceil",
        each(
            lambda x: F.avg_pool3d(x, 3, 2, 1, ceil_mode=True),
            lambda x: F.avg_pool3d(x, 3, 2, 1, count_include_pad=False),
        ),
        (r(2, 3, 4, 5, 6),),
        rtol=PRODUCT,
    ),
    fn(
        "avg_pool3d_divisor",
        lambda x: F.avg_pool3d(x, 2, divisor_override=3),
        (r(2, 3, 4, 5, 6),),
        rtol=PRODUCT,
    ),
]

ADAPTIVE = [
    Case("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d(1), (r(2, 3, 6, 8),), (), PRODUCT),
    fn(
        "adaptive_avg_pool2d_shares",
        lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
        (r(2, 3, 6, 8),),
        "pool_2d",
        rtol=PRODUCT,
    ),
    host(
        "adaptive_avg_pool2d_overlapping",
        lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
        (r(2, 3, 6, 8),),
        *("reshape", "host_pool", "reshape"),
        rtol=PRODUCT,
    ),
    host(
        "adaptive_avg_pool2d_larger",
        each(
            lambda x: F.adaptive_avg_pool2d(x, (9, 16)),
            lambda x: F.adaptive_avg_pool2d(x, (None, 3)),
        ),
        (r(2, 3, 6, 8),),
        rtol=PRODUCT,
    ),
    host(
        "adaptive_avg_pool2d_nan",
        lambda x: F.adaptive_avg_pool2d(x, 4),
        (special(1, 2, 6, 6),),
        rtol=PRODUCT,
    ),
    fn(
        "adaptive_avg_pool2d_unbatched",
        lambda x: F.adaptive_avg_pool2d(x, (2, 1)),
        (r(3, 6, 8),),
        rtol=PRODUCT,
    ),
    fn("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 4), (r(2, 3, 8),), rtol=PRODUCT),
    fn(
        "adaptive_avg_pool1d_to_1",
        lambda x: F.adaptive_avg_pool1d(x, 1),
        (r(2, 3, 8),),
        rtol=PRODUCT,
    ),
    host(
        "adaptive_avg_pool1d_overlapping",
        lambda x: F.adaptive_avg_pool1d(x, 3),
        (r(2, 3, 8),),
        rtol=PRODUCT,
    ),
    fn(
        "adaptive_avg_pool3d",
        lambda x: F.adaptive_avg_pool3d(x, (2, 1, 3)),
        (r(2, 3, 4, 5, 6),),
        rtol=PRODUCT,
    ),
    fn(
        "adaptive_avg_pool3d_to_1",
        lambda x: F.adaptive_avg_pool3d(x, 1),
        (r(2, 3, 4, 5, 6),),
        rtol=PRODUCT,
    ),
    host(
        "adaptive_avg_pool3d_overlapping",
        lambda x: F.adaptive_avg_pool3d(x, (3, 2, 4)),
        (r(2, 3, 4, 5, 6),),
        rtol=PRODUCT,
    ),
    fn("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 4), (r(2, 3, 8),), rtol=EXACT),
    host(
        "adaptive_max_pool1d_overlapping",
        each(
            lambda x: F.adaptive_max_pool1d(x, 3),
            lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True),
        ),
        (r(2, 3, 8),),
        rtol=EXACT,
    ),
    fn(
        "adaptive_max_pool2d",
        lambda x: F.adaptive_max_pool2d(x, (3, 2)),
        (r(2, 3, 6, 8),),
        rtol=EXACT,
    ),
    host(
        "adaptive_max_pool2d_overlapping",
        lambda x: F.adaptive_max_pool2d(x, (4, 5)),
        (r(2, 3, 6, 8),),
        rtol=EXACT,
    ),
    together(
        "adaptive_max_pool2d_indices",
        *(
            host(
                "both",
                lambda x, size=size: F.adaptive_max_pool2d(x, size, return_indices=True),
                (x,),
                rtol=EXACT,
            )
            for x, size in ((r(2, 3, 6, 8), (4, 5)), (special(1, 2, 6, 6), 2))
        ),
    ),
    fn(
        "adaptive_max_pool2d_unbatched",
        lambda x: F.adaptive_max_pool2d(x, 2),
        (r(3, 6, 8),),
        rtol=EXACT,
    ),
    fn(
        "adaptive_max_pool3d",
        lambda x: F.adaptive_max_pool3d(x, (2, 1, 3)),
        (r(2, 3, 4, 5, 6),),
        rtol=EXACT,
    ),
    host(
        "adaptive_max_pool3d_overlapping",
        each(
            lambda x: F.adaptive_max_pool3d(x, (3, 2, 4)),
            lambda x: F.adaptive_max_pool3d(x, (3, 2, 4), return_indices=True),
        ),
        (r(2, 3, 4, 5, 6),),
        rtol=EXACT,
    ),
]

_PAIRS = torch.tensor([[[[0, 3], [9, 10]], [[5, 2], [12, 15]]]])

OTHERS = [
    host(
        "max_unpool2d",
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        (r(2, 3, 6, 8),),
        rtol=EXACT,
    ),
    host(
        "max_unpool2d_given_indices",
        lambda x, i: F.max_unpool2d(x, i, 2),
        (r(1, 2, 2, 2), _PAIRS),
        "repeat",
        *("reshape", "reshape", "host_scatter", "reshape"),
        rtol=EXACT,
    ),
    host(
        "max_unpool2d_larger",
        lambda x: F.max_unpool2d(
            *F.max_pool2d(x, 2, return_indices=True), 2, output_size=(2, 3, 7, 9)
        ),
        (r(2, 3, 7, 9),),
        rtol=EXACT,
    ),
    together(
        "max_unpool_1d_3d",
        host(
            "1d",
            lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
            (r(2, 3, 8),),
            rtol=EXACT,
        ),
        host(
            "3d",
            lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2),
            (r(2, 3, 4, 6, 2),),
            rtol=EXACT,
        ),
    ),
    fn("lp_pool1d", lambda x: F.lp_pool1d(x, 2.0, 3), (r(2, 3, 9),), rtol=PRODUCT),
    fn("lp_pool2d", lambda x: F.lp_pool2d(x, 2.0, (3, 2)), (r(2, 3, 6, 8),), rtol=PRODUCT),
    fn("lp_pool2d_norm_1", lambda x: F.lp_pool2d(x, 1.0, 2, 1), (r(2, 3, 6, 8),), rtol=PRODUCT),
    host(
        "lp_pool2d_norm_3_ceil",
        lambda x: F.lp_pool2d(x.abs(), 3.0, 3, 2, ceil_mode=True),
        (r(2, 3, 6, 8),),
        rtol=PRODUCT,
    ),
    fn("lp_pool3d", lambda x: F.lp_pool3d(x, 2.0, 2), (r(2, 3, 4, 5, 6),), rtol=PRODUCT),
]

_N = Dim("n", min=1, max=8)
_H = Dim("h", min=4, max=64)

DYNAMIC = [
    Case(
        "max_pool2d_dynamic",
        nn.MaxPool2d(3, 2, 1),
        (r(2, 3, 7, 8),),
        ("pool_2d",),
        EXACT,
        ({0: _N, 2: _H},),
        [(r(1, 3, 4, 8),), (r(3, 3, 20, 8),)],
    ),
    Case(
        "avg_pool2d_dynamic",
        nn.AvgPool2d(2, 2, 1),
        (r(2, 3, 7, 8),),
        ("pool_2d",),
        PRODUCT,
        ({0: _N, 2: _H},),
        [(r(1, 3, 4, 8),), (r(3, 3, 20, 8),)],
    ),
    Case(
        "avg_pool2d_dynamic_not_counting",
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        (r(2, 3, 7, 8),),
        (),
        PRODUCT,
        ({2: _H},),
        [(r(2, 3, 4, 8),), (r(2, 3, 20, 8),)],
        host=True,
    ),
    Case(
        "adaptive_avg_pool2d_dynamic",
        nn.AdaptiveAvgPool2d((2, 3)),
        (r(2, 3, 7, 8),),
        (),
        PRODUCT,
        ({0: _N, 2: _H},),
        [(r(1, 3, 4, 8),), (r(3, 3, 20, 8),)],
        host=True,
    ),
    Case(
        "adaptive_avg_pool2d_dynamic_to_1",
        nn.AdaptiveAvgPool2d(1),
        (r(2, 3, 7, 8),),
        (),
        PRODUCT,
        ({0: _N, 2: _H},),
        [(r(1, 3, 4, 8),), (r(3, 3, 20, 8),)],
    ),
    Case(
        "avg_pool1d_dynamic",
        nn.AvgPool1d(2),
        (r(2, 3, 9),),
        (),
        PRODUCT,
        ({2: _H},),
        [(r(2, 3, 4),), (r(2, 3, 64),)],
    ),
    Case(
        "max_pool3d_dynamic",
        nn.MaxPool3d(2),
        (r(2, 3, 4, 5, 6),),
        (),
        EXACT,
        ({0: _N, 3: _H},),
        [(r(1, 3, 4, 4, 6),), (r(3, 3, 4, 20, 6),)],
    ),
]

CASES = [*MAX, *AVG, *ADAPTIVE, *OTHERS, *DYNAMIC]
