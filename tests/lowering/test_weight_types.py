"""Weights of products stored in fewer bits: which ones, and how close the results stay."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from executorch_ggml import GgmlOptions
from tests.harness import Lowered, lower, run_runtime

#: A rounding of the weight, and for matrices of the other operand: of half precision, or of
#: a block's largest over 254.
_TOLERANCE = {"f16": 2e-3, "bf16": 2e-2, "q8_0": 3e-2}


def _lowered(module: nn.Module, inputs: tuple[Tensor, ...], weight_dtype: str) -> Lowered:
    return lower(module, inputs, options=GgmlOptions(strict=True, weight_dtype=weight_dtype))


def _stored(lowered: Lowered) -> Counter[str]:
    (graph,) = lowered.graphs
    return Counter(weight.value.type.dtype.name for weight in graph.weights)


def _images(channels: int, size: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
        nn.Conv2d(channels, 48, 1),
        nn.ReLU6(),
        nn.AdaptiveAvgPool2d(size),
        nn.Flatten(),
        nn.Linear(48 * size * size, 10),
    )


def _assert_close(module: nn.Module, x: Tensor, weight_dtype: str) -> None:
    expected = module(x).detach()
    (found,) = run_runtime(_lowered(module, (x,), weight_dtype), (x,))
    bound = _TOLERANCE[weight_dtype] * float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=0.0, atol=bound)


@pytest.mark.parametrize("weight_dtype", _TOLERANCE)
@pytest.mark.parametrize(("rows", "columns", "n"), [(32, 64, 33), (96, 40, 5), (24, 7, 3)])
def test_linears(weight_dtype: str, rows: int, columns: int, n: int) -> None:
    """Rows of a single block too, which ggml's AMX product gets wrong."""
    torch.manual_seed(0)
    module = nn.Linear(rows, columns)
    x = torch.randn(2, n, rows)
    _assert_close(module, x, weight_dtype)


@pytest.mark.parametrize("weight_dtype", _TOLERANCE)
@pytest.mark.parametrize("channels", [20, 32])
def test_convolutions(weight_dtype: str, channels: int) -> None:
    module = _images(channels, 2).eval()
    x = torch.randn(2, 3, 12, 12)
    _assert_close(module, x, weight_dtype)


def test_which_weights_are_narrowed() -> None:
    x = (torch.randn(1, 3, 12, 12),)
    # Biases and the depthwise kernel stay.
    assert _stored(_lowered(_images(32, 2), x, "f32")) == {"F32": 8}
    assert _stored(_lowered(_images(32, 2), x, "f16")) == {"F32": 5, "F16": 3}
    assert _stored(_lowered(_images(32, 2), x, "bf16")) == {"F32": 5, "BF16": 3}
    # The 1x1 convolution and the linear have rows of whole blocks; the 3x3 one is no matrix.
    assert _stored(_lowered(_images(32, 2), x, "q8_0")) == {"F32": 5, "F16": 1, "Q8_0": 2}


def test_a_weight_that_half_precision_cannot_hold_stays() -> None:
    module = nn.Linear(8, 4)
    with torch.no_grad():
        module.weight[0, 0] = 1e5
    x = (torch.randn(3, 8),)
    assert _stored(_lowered(module, x, "f16")) == {"F32": 2}
    assert _stored(_lowered(module, x, "bf16")) == {"F32": 1, "BF16": 1}


def test_a_weight_with_another_reader_stays() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 6))

        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.linear(x, self.weight) + self.weight

    assert set(_stored(_lowered(Tied(), (torch.randn(6, 6),), "f16"))) == {"F32"}


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="weight_dtype 'int4' must be one of f32, f16, bf16, q8_0"):
        GgmlOptions(weight_dtype="int4")


def test_the_option_travels() -> None:
    options = GgmlOptions(weight_dtype="bf16", channels_last=False)
    read = GgmlOptions.from_compile_specs(options.to_compile_specs(), {})
    assert read == options


_HALVES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def _module() -> nn.Module:
    """Products of every form, with rows of one quantized block and of several."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2),
        nn.SiLU(),
        nn.Conv2d(32, 64, 1),
        nn.Conv2d(64, 64, 3, padding=1, groups=64),
        nn.Conv2d(64, 48, 1),
        nn.Conv2d(48, 17, 1),
        nn.Flatten(2),
        nn.Linear(42, 64),
        nn.Linear(64, 5),
    ).eval()


def _chain(weight_dtype: str) -> tuple[nn.Module, Tensor, Lowered]:
    module = _module()
    x = torch.randn(2, 3, 15, 13, generator=torch.Generator().manual_seed(1))
    return module, x, lower(module, (x,), options=GgmlOptions(weight_dtype=weight_dtype))


def _products(lowered: Lowered) -> list[tuple[str, str]]:
    (graph,) = lowered.graphs
    products = ("conv_2d_nhwc", "conv_2d_dw_nhwc", "mul_mat")
    return [
        (call.op.name, call.inputs[0].type.dtype.name)  # type: ignore[union-attr]
        for call in graph.calls
        if call.op.name in products
    ]


@pytest.mark.parametrize("weight_dtype", _HALVES)
def test_halves_are_the_rounded_weights(weight_dtype: str) -> None:
    module, x, lowered = _chain(weight_dtype)
    name = weight_dtype.upper()
    dense, depthwise, matrix = ("conv_2d_nhwc", name), ("conv_2d_dw_nhwc", "F32"), ("mul_mat", name)
    assert _products(lowered) == [dense, dense, depthwise, dense, dense, matrix, matrix]
    rounded = copy.deepcopy(module)
    for part in rounded.modules():
        if isinstance(part, nn.Linear) or (isinstance(part, nn.Conv2d) and part.groups == 1):
            part.weight.data = part.weight.data.to(_HALVES[weight_dtype]).float()
    # ggml rounds the other operand of a matrix product as well.
    tolerance = {"f32": 1e-5, "f16": 1e-3, "bf16": 1e-2}[weight_dtype]
    torch.testing.assert_close(
        run_runtime(lowered, (x,))[0], rounded(x), rtol=tolerance, atol=tolerance
    )


def test_blocks_are_for_matrices_of_whole_blocks() -> None:
    module, x, lowered = _chain("q8_0")
    assert _products(lowered) == [
        ("conv_2d_nhwc", "F16"),
        ("mul_mat", "Q8_0"),  # rows of a single block
        ("conv_2d_dw_nhwc", "F32"),
        ("mul_mat", "Q8_0"),
        ("conv_2d_nhwc", "F16"),  # rows of 48
        ("mul_mat", "F16"),  # rows of 42
        ("mul_mat", "Q8_0"),
    ]
    torch.testing.assert_close(run_runtime(lowered, (x,))[0], module(x), rtol=0.02, atol=0.02)
