"""A kernel in half precision gives what its rounded weights give; which products take blocks."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from executorch_ggml import GgmlOptions
from tests.harness import Lowered, lower, run_runtime

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


def _lowered(weight_dtype: str) -> tuple[nn.Module, Tensor, Lowered]:
    module = _module()
    x = torch.randn(2, 3, 15, 13, generator=torch.Generator().manual_seed(1))
    return module, x, lower(module, (x,), options=GgmlOptions(weight_dtype=weight_dtype))


def _stored(lowered: Lowered) -> list[tuple[str, str]]:
    (graph,) = lowered.graphs
    products = ("conv_2d_nhwc", "conv_2d_dw_nhwc", "mul_mat")
    return [
        (call.op.name, call.inputs[0].type.dtype.name)  # type: ignore[union-attr]
        for call in graph.calls
        if call.op.name in products
    ]


@pytest.mark.parametrize("weight_dtype", _HALVES)
def test_halves_are_the_rounded_weights(weight_dtype: str) -> None:
    module, x, lowered = _lowered(weight_dtype)
    name = weight_dtype.upper()
    dense, depthwise, matrix = ("conv_2d_nhwc", name), ("conv_2d_dw_nhwc", "F32"), ("mul_mat", name)
    assert _stored(lowered) == [dense, dense, depthwise, dense, dense, matrix, matrix]
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
    module, x, lowered = _lowered("q8_0")
    assert _stored(lowered) == [
        ("conv_2d_nhwc", "F16"),
        ("mul_mat", "Q8_0"),  # rows of a single block
        ("conv_2d_dw_nhwc", "F32"),
        ("mul_mat", "Q8_0"),
        ("conv_2d_nhwc", "F16"),  # rows of 48
        ("mul_mat", "F16"),  # rows of 42
        ("mul_mat", "Q8_0"),
    ]
    torch.testing.assert_close(run_runtime(lowered, (x,))[0], module(x), rtol=0.02, atol=0.02)
