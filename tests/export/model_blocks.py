"""Models that transformers lacks, written here, small."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Tagger(nn.Module):
    """Words to tags: embedding, two layers both ways, a product for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(99, 16)
        self.layers = nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(24, 5)

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.tags(self.layers(self.words(ids))[0]).log_softmax(-1)
        return found


class _Scaled(nn.Module):
    """The channels weighted by what the whole image holds, as in MobileNetV3."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, channels // 4, 1)
        self.up = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        mean = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.up(F.relu(self.down(mean))))


class _Bottleneck(nn.Module):
    """MobileNetV3's block: widen, filter each channel, weight the channels, narrow."""

    def __init__(self, channels: int, wide: int, kernel: int, stride: int, out: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(),
            _Scaled(wide),
            nn.Conv2d(wide, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.adds else y


def mobilenet_v3() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.Hardswish(),
        _Bottleneck(16, 32, 3, 1, 16),
        _Bottleneck(16, 48, 5, 2, 24),
        _Bottleneck(24, 64, 5, 1, 24),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 32),
        nn.Hardswish(),
        nn.Dropout(0.2),
        nn.Linear(32, 10),
    )


class ConformerBlock(nn.Module):
    """Gulati et al. 2020: half a feed-forward, attention, convolution, half a feed-forward."""

    def __init__(self, size: int = 32, heads: int = 4, kernel: int = 7) -> None:
        super().__init__()
        self.first, self.second = self._feed_forward(size), self._feed_forward(size)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3))
        self.attention = nn.MultiheadAttention(size, heads, batch_first=True)
        self.widen = nn.Conv1d(size, 2 * size, 1)
        self.depthwise = nn.Conv1d(size, size, kernel, padding=kernel // 2, groups=size)
        self.batch_norm = nn.BatchNorm1d(size)
        self.narrow = nn.Conv1d(size, size, 1)

    @staticmethod
    def _feed_forward(size: int) -> nn.Sequential:
        return nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.SiLU(), nn.Linear(4 * size, size)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.first(x)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.widen(self.norms[1](x).transpose(1, 2)), dim=1)
        x = x + self.narrow(F.silu(self.batch_norm(self.depthwise(y)))).transpose(1, 2)
        return self.norms[2](x + 0.5 * self.second(x))  # type: ignore[no-any-return]


class _TimeBlock(nn.Module):
    """A residual block that adds the time's embedding to every pixel."""

    def __init__(self, channels: int, out: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, channels), nn.GroupNorm(4, out)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.skip = nn.Conv2d(channels, out, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))  # type: ignore[no-any-return]


class _CrossAttention(nn.Module):
    """Pixels attend to a text's states."""

    def __init__(self, channels: int, text: int, heads: int = 4) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.heads = heads
        self.q = nn.Linear(channels, channels, bias=False)
        self.kv = nn.Linear(text, 2 * channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        b, c, h, w = x.shape
        rows = self.norm(x).flatten(2).transpose(1, 2)
        k, v = self.kv(text).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(rows), k, v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(y).transpose(1, 2).reshape(b, c, h, w)  # type: ignore[no-any-return]


class UNet(nn.Module):
    """A denoiser of one level: down, attend to the text, up, with a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first = nn.Conv2d(4, 16, 3, padding=1)
        self.down = _TimeBlock(16, 16, 32)
        self.halve = nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.middle = _TimeBlock(16, 32, 32)
        self.attention = _CrossAttention(32, 24)
        self.conv = nn.Conv2d(32, 16, 3, padding=1)
        self.up = _TimeBlock(32, 16, 32)
        self.last = nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 4, 3, padding=1))

    def forward(self, x: Tensor, step: Tensor, text: Tensor) -> Tensor:
        frequencies = torch.exp(-torch.arange(8, dtype=torch.float32) * 1.15)
        angles = step[:, None].float() * frequencies
        time = self.time(torch.cat([angles.cos(), angles.sin()], dim=-1))
        kept = self.down(self.first(x), time)
        y = self.attention(self.middle(self.halve(kept), time), text)
        y = self.conv(F.interpolate(y, scale_factor=2.0, mode="nearest"))
        found: Tensor = self.last(self.up(torch.cat([y, kept], dim=1), time))
        return found


# --- the families of ExecuTorch's model suite that transformers lacks --------------------


def vgg() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        nn.Linear(16 * 49, 32),
        nn.ReLU(),
        nn.Dropout(),
        nn.Linear(32, 10),
    )


class _Fire(nn.Module):
    """SqueezeNet's: narrow, then widen with two kernels."""

    def __init__(self, channels: int, narrow: int, wide: int) -> None:
        super().__init__()
        self.narrow = nn.Conv2d(channels, narrow, 1)
        self.one, self.three = nn.Conv2d(narrow, wide, 1), nn.Conv2d(narrow, wide, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.narrow(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)


def squeezenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        _Fire(16, 4, 8),
        _Fire(16, 6, 12),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(24, 10, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


class _Dense(nn.Module):
    """DenseNet's: every layer sees all layers before it."""

    def __init__(self, channels: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(channels + growth * i),
                nn.ReLU(),
                nn.Conv2d(channels + growth * i, growth, 3, padding=1, bias=False),
            )
            for i in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        _Dense(8, 4, 3),
        nn.BatchNorm2d(20),
        nn.ReLU(),
        nn.Conv2d(20, 12, 1),
        nn.AvgPool2d(2),
        _Dense(12, 4, 2),
        nn.BatchNorm2d(20),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(20, 10),
    )


class _Shuffled(nn.Module):
    """ShuffleNet V2's: half of the channels pass, then the halves are interleaved."""

    def __init__(self, half: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        passed, used = x.chunk(2, dim=1)
        joined = torch.cat([passed, self.branch(used)], 1)
        b, c, h, w = joined.shape
        return joined.reshape(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)


def shufflenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        _Shuffled(8),
        _Shuffled(8),
        nn.Conv2d(16, 24, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    )


class _Inception(nn.Module):
    """Kernels of several sizes beside each other, one of them as a row and a column."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, 6, 1)
        self.row = nn.Conv2d(channels, 4, (1, 7), padding=(0, 3))
        self.column = nn.Conv2d(4, 6, (7, 1), padding=(3, 0))
        self.pooled = nn.Conv2d(channels, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.avg_pool2d(x, 3, stride=1, padding=1)
        branches = [self.one(x), self.column(F.relu(self.row(x))), self.pooled(pooled)]
        return torch.cat([F.relu(b) for b in branches], 1)


def inception() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2),
        nn.BatchNorm2d(8, eps=1e-3),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        _Inception(8),
        _Inception(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


class _GridAttention(nn.Module):
    """MaxViT's: pixels attend within windows, then within the grid that skips over windows."""

    def __init__(self, size: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.local, self.spread = (
            nn.MultiheadAttention(size, 2, batch_first=True) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attend(self.local, x, inner=True)
        return x + self._attend(self.spread, x, inner=False)

    def _attend(self, attention: nn.Module, x: Tensor, inner: bool) -> Tensor:
        b, c, h, w = x.shape
        p = self.window
        tiles = x.reshape(b, c, h // p, p, w // p, p)
        order = (0, 2, 4, 3, 5, 1) if inner else (0, 3, 5, 2, 4, 1)
        moved = tiles.permute(order)
        rows = moved.reshape(-1, moved.shape[3] * moved.shape[4], c)
        found = attention(rows, rows, rows, need_weights=False)[0].reshape(moved.shape)
        back = [order.index(d) for d in range(6)]
        return found.permute(back).reshape(x.shape)  # type: ignore[no-any-return]


def maxvit() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.BatchNorm2d(8),
        nn.GELU(approximate="tanh"),
        _Bottleneck(8, 16, 3, 1, 8),
        _GridAttention(8, 4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.LayerNorm(8),
        nn.Linear(8, 10),
    )


def wav2letter() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(1, 12, 25, stride=8, padding=12),
        nn.ReLU(),
        nn.Conv1d(12, 12, 9, stride=2, padding=4),
        nn.ReLU(),
        nn.Conv1d(12, 16, 5, padding=2),
        nn.ReLU(),
        nn.Conv1d(16, 9, 1),
        nn.LogSoftmax(dim=1),
    )


class WaveRNN(nn.Module):
    """Samples from a spectrogram: features stretched in time, and a GRU over the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv1d(8, 6, 3, padding=1)
        self.stretch = nn.ConvTranspose1d(6, 6, 8, stride=4, padding=2)
        self.inner = nn.Linear(7, 12)
        self.rnn = nn.GRU(12, 12, batch_first=True)
        self.outer = nn.Linear(12 + 6, 10)

    def forward(self, wave: Tensor, spectrogram: Tensor) -> Tensor:
        features = self.stretch(torch.relu(self.features(spectrogram))).transpose(1, 2)
        x = self.inner(torch.cat([wave.unsqueeze(-1), features], -1))
        x = x + self.rnn(x)[0]
        found: Tensor = self.outer(torch.cat([x, features], -1))
        return found
