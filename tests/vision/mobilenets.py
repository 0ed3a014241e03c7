"""MobileNetV2 and MobileNetV3-Large at true size; torchvision is no dependency of the tests.

MobileNetV2's parameters have the names that torchvision gives them, so that published
weights load as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

_Activation = Callable[[], nn.Module]


def _convolution(
    channels: int,
    out: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    activation: _Activation | None = None,
    eps: float = 1e-5,
) -> list[nn.Module]:
    """Convolution and batch norm, and the activation if there is one."""
    conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(out, eps=eps), *([activation()] if activation else [])]


# --- MobileNetV2 -------------------------------------------------------------------------


class _Inverted(nn.Module):
    """Widen, filter each channel, narrow without an activation."""

    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers.append(nn.Sequential(*_convolution(channels, wide, activation=nn.ReLU6)))
        layers.append(
            nn.Sequential(*_convolution(wide, wide, 3, stride, wide, activation=nn.ReLU6))
        )
        self.conv = nn.Sequential(*layers, *_convolution(wide, out))
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return x + y if self.adds else y


#: Expansion, channels, blocks, stride of the first block.
_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class MobileNetV2(nn.Module):
    """Width 1.0: images [N, 3, H, W] to logits [N, 1000]."""

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [nn.Sequential(*_convolution(3, 32, 3, 2, activation=nn.ReLU6))]
        channels = 32
        for expansion, out, count, stride in _V2:
            for index in range(count):
                blocks.append(_Inverted(channels, out, 1 if index else stride, expansion))
                channels = out
        blocks.append(nn.Sequential(*_convolution(channels, 1280, activation=nn.ReLU6)))
        self.features = nn.Sequential(*blocks)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(pooled.flatten(1))  # type: ignore[no-any-return]


# --- MobileNetV3 -------------------------------------------------------------------------

_EPS = 1e-3  # of its batch norms


class _Weighted(nn.Module):
    """Squeeze and excitation: each channel weighted by what the whole image holds."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = _divisible(channels // 4)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(self.avgpool(x)))))


def _divisible(channels: int) -> int:
    """The multiple of 8 nearest to a number of channels, no more than a tenth below it."""
    found = max(8, (channels + 4) // 8 * 8)
    return found + 8 if found < 0.9 * channels else found


class _InvertedV3(nn.Module):
    """``row``: as in :data:`_V3_LARGE`."""

    def __init__(self, channels: int, row: tuple[int, int, int, bool, bool, int]) -> None:
        super().__init__()
        kernel, wide, out, weighted, hard, stride = row
        activation: _Activation = nn.Hardswish if hard else nn.ReLU
        parts = [_convolution(wide, wide, kernel, stride, wide, activation, _EPS)]
        if wide != channels:
            parts.insert(0, _convolution(channels, wide, activation=activation, eps=_EPS))
        layers: list[nn.Module] = [nn.Sequential(*part) for part in parts]
        if weighted:
            layers.append(_Weighted(wide))
        layers.append(nn.Sequential(*_convolution(wide, out, eps=_EPS)))
        self.block = nn.Sequential(*layers)
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.block(x)
        return x + y if self.adds else y


#: Kernel, wide channels, channels, squeeze and excitation, hardswish, stride.
_V3_LARGE = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


class MobileNetV3Large(nn.Module):
    """Width 1.0: images [N, 3, H, W] to logits [N, 1000]."""

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [
            nn.Sequential(*_convolution(3, 16, 3, 2, activation=nn.Hardswish, eps=_EPS))
        ]
        channels = 16
        for row in _V3_LARGE:
            blocks.append(_InvertedV3(channels, row))
            channels = row[2]
        blocks.append(
            nn.Sequential(*_convolution(channels, 960, activation=nn.Hardswish, eps=_EPS))
        )
        self.features = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(960, 1280), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1280, 1000)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))  # type: ignore[no-any-return]
