"""Chains of convolutions, whose images are kept channels-last, and batch norm over images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.lowering.cases.base import PRODUCT, Case, r, seeded


def _case(
    name: str, make: Callable[[], nn.Module], inputs: tuple[Tensor, ...], *ops: str, **more: Any
) -> Case:
    return Case(name, seeded(make), inputs, ops, PRODUCT, **more)


def _chain(*layers: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*(layer() for layer in layers))


def _conv(*arguments: Any, **more: Any) -> Callable[[], nn.Module]:
    return lambda: nn.Conv2d(*arguments, **more)


def _norm(channels: int) -> Callable[[], nn.Module]:
    """Batch norm that has seen images."""

    def make() -> nn.Module:
        norm = nn.BatchNorm2d(channels)
        norm(3 * r(2, channels, 5, 5) + 1)
        return norm

    return make


class _Block(nn.Module):
    """An inverted residual block with squeeze and excitation."""

    def __init__(self, channels: int, wide: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.expand = nn.Conv2d(channels, wide, 1)
        self.depthwise = nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False)
        self.squeeze = nn.Conv2d(wide, 4, 1)
        self.excite = nn.Conv2d(4, wide, 1)
        self.project = nn.Conv2d(wide, channels, 1, bias=False)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(self.depthwise(self.activation(self.expand(x))))
        scale = self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1))))
        return x + self.project(y * torch.sigmoid(scale))


class _Downsampling(nn.Module):
    """A residual block whose shortcut is a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(5, 17, 3, stride=2, padding=1)
        self.second = nn.Conv2d(17, 17, 3, padding=1)
        self.shortcut = nn.Conv2d(5, 17, 1, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class _Branches(nn.Module):
    """Branches that are joined over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3)
        self.row = nn.Conv2d(16, 5, (1, 7), padding=(0, 3))
        self.column = nn.Conv2d(16, 7, (7, 1), padding=(3, 0))
        self.last = nn.Conv2d(28, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        pooled = F.avg_pool2d(x, 3, stride=1, padding=1)
        return self.last(torch.cat([self.row(x), pooled, self.column(x)], dim=1))


class _Tokens(nn.Module):
    """Patches as tokens, normalized, and images again."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, stride=4)
        self.norm = nn.LayerNorm(16)
        self.last = nn.Conv2d(16, 5, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(x)
        tokens = x.flatten(2).transpose(1, 2)
        y = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return tokens * 2, self.last(y)


class _Several(nn.Module):
    """An image that convolutions read, and others as well."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3)
        self.second = nn.Conv2d(6, 6, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x)
        shuffled = y.unflatten(1, (2, 3)).transpose(1, 2).flatten(1, 2)
        both = self.second(y) + self.second(shuffled)
        return both, y.softmax(dim=-1), y.sum(dim=(2, 3)), y[:, ::2].flatten(1)


def _not_finite(*shape: int) -> Tensor:
    x = r(*shape)
    x[0, 0, 1, 1] = torch.nan
    x[0, 1, 4, 4] = torch.inf
    x[-1, 0, 5, 2] = -torch.inf
    return x


_TWO = ("permute", "cont", "conv_2d_nhwc", "conv_2d_nhwc", "permute", "cont")

#: Input and output channels around the sixteen of a panel, and windows of all forms.
CHAINS = [
    _case(
        "images_two_convolutions",
        _chain(_conv(3, 16, 3), _conv(16, 5, 3, padding=1)),
        (r(2, 3, 9, 10),),
        *_TWO,
    ),
    _case(
        "images_of_one_channel",
        _chain(_conv(1, 1, 3, padding=1), nn.ReLU, _conv(1, 1, 5, bias=False)),
        (r(3, 1, 9, 10),),
    ),
    _case(
        "images_wide_and_long_kernels",
        _chain(_conv(5, 17, (1, 7), padding=(0, 3)), _conv(17, 40, (7, 1), stride=(3, 2))),
        (r(3, 5, 16, 11),),
    ),
    _case(
        "images_strides_and_dilations",
        _chain(
            _conv(17, 32, 3, stride=(2, 1), dilation=(1, 3), padding=(2, 1)),
            _conv(32, 3, (3, 2), stride=(1, 2), dilation=2, padding=1),
        ),
        (r(2, 17, 19, 16),),
    ),
    _case(
        "images_pointwise_chain",
        _chain(_conv(40, 16, 1), nn.ReLU6, _conv(16, 32, 1), nn.ReLU6, _conv(32, 1, 1, stride=2)),
        (10 * r(1, 40, 7, 7),),
    ),
    _case(
        "images_kernel_of_the_image",
        _chain(_conv(3, 32, 3), nn.ReLU, _conv(32, 10, 7)),
        (r(2, 3, 9, 9),),
    ),
    _case(
        "images_depthwise_chain",
        _chain(
            _conv(40, 40, 3, groups=40, padding=1),
            _conv(40, 17, 1),
            _conv(17, 17, 5, groups=17, stride=2, padding=2, bias=False),
            _conv(17, 17, (2, 3), groups=17, dilation=(2, 1)),
        ),
        (r(2, 40, 13, 9),),
        *("permute", "cont"),
        *("conv_2d_dw_nhwc", "conv_2d_nhwc", "conv_2d_dw_nhwc", "conv_2d_dw_nhwc"),
        *("permute", "cont"),
    ),
    _case(
        "images_groups_between_convolutions",
        _chain(
            _conv(3, 8, 3),
            _conv(8, 16, 3, groups=8),  # two results of each channel
            _conv(16, 12, 3, groups=2, padding=1),
            _conv(12, 5, 1),
            _conv(5, 4, 1),
        ),
        (r(2, 3, 12, 11),),
    ),
    _case(
        "images_zeros_on_one_side",
        _chain(
            lambda: nn.ZeroPad2d((0, 1, 0, 1)),
            _conv(3, 16, 3, stride=2),
            nn.Hardswish,
            lambda: nn.ZeroPad2d((1, 2, 2, 0)),
            _conv(16, 16, 5, groups=16, stride=2),
            _conv(16, 5, 1),
        ),
        (r(2, 3, 16, 15),),
    ),
    _case(
        "images_other_pads_and_crops",
        _chain(
            _conv(3, 8, 3),
            lambda: nn.ReflectionPad2d(1),
            _conv(8, 8, 3),
            lambda: nn.ZeroPad2d((-1, 2, 1, -2)),
            _conv(8, 5, 3),
        ),
        (r(2, 3, 12, 12),),
    ),
    _case(
        "images_max_and_average_pools",
        _chain(
            _conv(3, 17, 3, padding=1),
            lambda: nn.MaxPool2d(3, stride=2, padding=1),
            _conv(17, 6, 3, padding=1),
            lambda: nn.AvgPool2d((2, 3), stride=1),
            _conv(6, 5, 1),
            lambda: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
            _conv(5, 5, 1),
            _conv(5, 4, 1),
        ),
        (r(2, 3, 14, 15),),
        host=True,
    ),
    _case(
        "images_not_finite",
        _chain(
            _conv(3, 17, 3, padding=1),
            nn.ReLU6,
            lambda: nn.MaxPool2d(2),
            _conv(17, 17, 3, groups=17, padding=1),
            nn.ReLU,
            _conv(17, 3, 1),
        ),
        (_not_finite(2, 3, 12, 12),),
    ),
    _case(
        "images_activations",
        _chain(
            *(_conv(3, 8, 3), nn.SiLU, _conv(8, 8, 1), nn.Hardswish, _conv(8, 8, 1)),
            *(nn.GELU, _conv(8, 8, 1), lambda: nn.LeakyReLU(0.2), _conv(8, 8, 1)),
            *(nn.Hardsigmoid, _conv(8, 8, 1), nn.Tanh, _conv(8, 3, 1)),
        ),
        (r(1, 3, 8, 9),),
    ),
    _case(
        "images_affine",
        _chain(_conv(3, 8, 3), _norm(8), nn.PReLU, _conv(8, 3, 3)),
        (r(2, 3, 8, 9),),
    ),
]

BLOCKS = [
    _case(
        "images_inverted_residual",
        _chain(_conv(3, 16, 3), lambda: _Block(16, 40, F.hardswish), _conv(16, 3, 1)),
        (r(2, 3, 9, 9),),
    ),
    _case(
        "images_downsampling_residual",
        _chain(_conv(3, 5, 3), _Downsampling, _conv(17, 1, 1)),
        (r(3, 3, 14, 17),),
    ),
    _case("images_branches", _Branches, (r(2, 3, 11, 12),)),
    _case("images_tokens", _Tokens, (r(2, 3, 16, 12),)),
    _case("images_read_otherwise_too", _Several, (r(2, 3, 9, 8),)),
    _case(
        "images_channels_last_arguments",
        _chain(_conv(3, 16, 3), nn.ReLU, _conv(16, 5, 3)),
        (r(2, 3, 9, 8).contiguous(memory_format=torch.channels_last),),
        "conv_2d_nhwc",
        "conv_2d_nhwc",
    ),
    _case(
        "images_in_half_precision",
        lambda: _chain(_conv(3, 16, 3), nn.ReLU, _conv(16, 5, 3))().half(),
        (r(2, 3, 9, 8).half(),),
        atol=2e-3,
    ),
    _case(
        "images_of_one_row",
        _chain(
            lambda: nn.Conv1d(5, 17, 3, padding=1),
            nn.ReLU,
            lambda: nn.Conv1d(17, 17, 5, groups=17),
            lambda: nn.Conv1d(17, 3, 1),
        ),
        (r(3, 5, 20),),
    ),
]


def _sizes(*inputs: tuple[int, ...]) -> Sequence[tuple[Tensor]]:
    return [(r(*shape),) for shape in inputs]


DYNAMIC = [
    _case(
        "images_dynamic_batch",
        _chain(_conv(3, 16, 3, stride=2), lambda: _Block(16, 17, F.silu), _conv(16, 5, 1)),
        (r(4, 3, 11, 10),),
        dynamic_shapes=({0: Dim("n", min=1, max=8)},),
        others=_sizes((1, 3, 11, 10), (7, 3, 11, 10)),
    ),
    _case(
        "images_dynamic_sizes",
        _chain(
            _conv(3, 5, 3, stride=2, padding=1),
            lambda: nn.MaxPool2d(3, stride=2, padding=1),
            _Downsampling,
            lambda: nn.ZeroPad2d((0, 1, 1, 0)),
            _conv(17, 17, 3, groups=17),
        ),
        (r(2, 3, 40, 32),),
        dynamic_shapes=({2: Dim("h", min=24, max=64), 3: Dim("w", min=24, max=64)},),
        others=_sizes((2, 3, 24, 61), (2, 3, 63, 25)),
    ),
]

CASES = [
    Case("batch_norm", seeded(lambda: nn.BatchNorm2d(3)), (r(2, 3, 6, 8),), (), PRODUCT),
    *CHAINS,
    *BLOCKS,
    *DYNAMIC,
]
