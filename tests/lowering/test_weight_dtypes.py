"""Weights of products stored in fewer bits: which ones, and how close the results stay."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

import tests.quick_lowering  # noqa: F401
from executorch_ggml import GgmlOptions
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.types import DType
from executorch_ggml.lowering.program import lower_program
from tests.vision.lowering import Program

#: A rounding of the weight, and for matrices of the other operand: of half precision, or of
#: a block's largest over 254.
_TOLERANCE = {"f16": 2e-3, "bf16": 2e-2, "q8_0": 3e-2}


def _lowered(module: nn.Module, inputs: tuple[Tensor, ...], weight_dtype: str) -> Graph:
    options = GgmlOptions(weight_dtype=weight_dtype)
    program = export(module.eval(), inputs).run_decompositions({})
    return lower_program(program, options, "forward").program.graphs[0]


def _stored(graph: Graph) -> Counter[str]:
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


@pytest.mark.parametrize("weight_dtype", _TOLERANCE)
@pytest.mark.parametrize(("rows", "columns", "n"), [(32, 64, 33), (96, 40, 5), (24, 7, 3)])
def test_linears(weight_dtype: str, rows: int, columns: int, n: int) -> None:
    """Rows of a single block too, which ggml's AMX product gets wrong."""
    torch.manual_seed(0)
    module = nn.Linear(rows, columns)
    x = torch.randn(2, n, rows)
    program = Program(module, (x,), weight_dtype=weight_dtype)
    expected = module(x).detach()
    bound = _TOLERANCE[weight_dtype] * float(expected.abs().max())
    torch.testing.assert_close(program(x)[0], expected, rtol=0.0, atol=bound)


@pytest.mark.parametrize("weight_dtype", _TOLERANCE)
@pytest.mark.parametrize("channels", [20, 32])
def test_convolutions(weight_dtype: str, channels: int) -> None:
    module = _images(channels, 2).eval()
    x = torch.randn(2, 3, 12, 12)
    program = Program(module, (x,), weight_dtype=weight_dtype)
    expected = module(x).detach()
    bound = _TOLERANCE[weight_dtype] * float(expected.abs().max())
    torch.testing.assert_close(program(x)[0], expected, rtol=0.0, atol=bound)


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

    graph = _lowered(Tied(), (torch.randn(6, 6),), "f16")
    assert {weight.value.type.dtype for weight in graph.weights} == {DType.F32}


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="weight_dtype 'int4' must be one of f32, f16, bf16, q8_0"):
        GgmlOptions(weight_dtype="int4")


def test_the_option_travels() -> None:
    options = GgmlOptions(weight_dtype="bf16", channels_last=False)
    read = GgmlOptions.from_compile_specs(options.to_compile_specs(), {})
    assert read == options
