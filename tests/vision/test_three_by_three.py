"""Convolutions of 3 by 3 taps through fewer products: every way in which they are shared out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from executorch_ggml import GgmlOptions
from tests.harness import lower, run_runtime

#: Images, channels in and out, height and width, padding. Odd extents leave tiles at the edge.
_CASES = {
    "by tiles": (1, 32, 48, (17, 18), (1, 1)),
    "by tiles of several images, in blocks": (2, 64, 32, (22, 29), (1, 0)),
    "by tiles, a kernel made anew for each block": (1, 160, 128, (20, 19), (1, 1)),
    "by panels": (1, 48, 112, (11, 9), (2, 1)),
    "by panels, several images": (2, 32, 64, (9, 8), (0, 1)),
    "too few tiles": (1, 32, 32, (7, 7), (1, 1)),
    "channels that fill no panel": (1, 40, 40, (17, 18), (1, 1)),
}


class _Residual(nn.Module):
    """A convolution with a bias, a residual and a limit, and one after it."""

    def __init__(self, c_in: int, c_out: int, padding: tuple[int, int]) -> None:
        super().__init__()
        rows, columns = padding
        self.conv = nn.Conv2d(c_in, c_out, 3, padding=padding)
        # Other windows over the same image, which are direct sums.
        self.shortcut = nn.Sequential(
            nn.Conv2d(c_in, c_out, (1, 3), padding=(0, columns)),
            nn.Conv2d(c_out, c_out, (3, 1), padding=(rows, 0)),
        )
        self.last = nn.Conv2d(c_out, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        last: Tensor = self.last((self.conv(x) + self.shortcut(x)).clamp(-0.4, 0.6))
        return last


def _differences(module: nn.Module, images: list[Tensor], weight_dtype: str) -> list[float]:
    """From float64, of each image's result, which is about 0.2."""
    lowered = lower(module, (images[0],), options=GgmlOptions(weight_dtype=weight_dtype))
    found = [run_runtime(lowered, (x,))[0] for x in images]
    module.double()
    expected = [module(x.double()).detach() for x in images]
    module.float()
    return [float((f - e).abs().max()) for f, e in zip(found, expected, strict=True)]


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
@pytest.mark.parametrize("threads", [1, 3])
def test_equals_float64(
    case: tuple[int, int, int, tuple[int, int], tuple[int, int]],
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GGML_N_THREADS", str(threads))
    n, c_in, c_out, size, padding = case
    torch.manual_seed(0)
    module = _Residual(c_in, c_out, padding).eval()
    # Several images, one after another: nothing of the one before is to stay.
    images = [torch.randn(n, c_in, *size) for _ in range(3)]
    # Sums of up to 1,440 products in F32; torch's own are as far off.
    assert max(_differences(module, images, "f32")) < 2e-6


@pytest.mark.parametrize(("weight_dtype", "bound"), [("f16", 3e-4), ("bf16", 3e-3)])
def test_of_kernels_in_half_precision(weight_dtype: str, bound: float) -> None:
    """The kernel's rounding, at most, as of direct sums."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(32, 48, 3), nn.ReLU(), nn.Conv2d(48, 32, 3)).eval()
    (difference,) = _differences(module, [torch.randn(1, 32, 20, 20)], weight_dtype)
    assert bound / 100 < difference < bound
