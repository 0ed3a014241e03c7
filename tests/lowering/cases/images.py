"""Convolution and pooling."""

from __future__ import annotations

from torch import nn

from tests.lowering.cases.base import (
    PRODUCT,
    Case,
    r,
    seeded,
)

IMAGES = [
    Case(
        "conv2d",
        seeded(lambda: nn.Conv2d(3, 4, 3, padding=1)),
        (r(2, 3, 7, 6),),
        ("conv_2d", "reshape", "add"),
        PRODUCT,
    ),
    Case(
        "conv2d_stride",
        seeded(lambda: nn.Conv2d(3, 4, (3, 2), stride=(2, 1), dilation=(1, 2), bias=False)),
        (r(2, 3, 9, 8),),
        ("conv_2d",),
        PRODUCT,
    ),
    Case(
        "conv2d_depthwise",
        seeded(lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1)),
        (r(2, 4, 7, 6),),
        ("conv_2d_dw", "reshape", "add"),
        PRODUCT,
    ),
    Case(
        "conv1d",
        seeded(lambda: nn.Conv1d(3, 4, 3, padding=1, stride=2)),
        (r(2, 3, 9),),
        (),
        PRODUCT,
    ),
    Case("max_pool2d", nn.MaxPool2d(2), (r(2, 3, 6, 8),), ("pool_2d",)),
    Case("max_pool2d_padding", nn.MaxPool2d(3, 2, 1), (r(2, 3, 7, 8),), ("pool_2d",)),
    Case("avg_pool2d", nn.AvgPool2d(2), (r(2, 3, 6, 8),), ("pool_2d",), PRODUCT),
    Case("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d(1), (r(2, 3, 6, 8),), (), PRODUCT),
    Case("batch_norm", seeded(lambda: nn.BatchNorm2d(3)), (r(2, 3, 6, 8),), (), PRODUCT),
]


CASES = [*IMAGES]
