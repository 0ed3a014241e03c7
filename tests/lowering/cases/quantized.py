"""Affine quantization, as torchao and PT2E leave it in a program. All of it is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import torchao.quantization as ao
from torch import Tensor, nn
from torch.export import Dim
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.utils import unwrap_tensor_subclass

from tests.lowering.cases.base import EXACT, PRODUCT, Case, fn, host, host_over, ids, r

_pt2e = torch.ops.quantized_decomposed
_torchao = torch.ops.torchao

_I8 = torch.int8
#: Integers of 8 bits, and a scale and zero point for each row.
_INTEGERS = (ids(256, 4, 64) - 128).to(_I8)
_SCALES = r(4).abs() + 0.01
_POINTS = torch.tensor([0, -7, 100, 3])


def _model(config: Any, make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    model = make()
    ao.quantize_(model, config, None)
    unwrap_tensor_subclass(model)
    return model.eval()


def _linear() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5))


def _weights(bits: str, granularity: Any) -> nn.Module:
    return _model(
        ao.IntxWeightOnlyConfig(weight_dtype=getattr(torch, bits), granularity=granularity), _linear
    )


class _Stored(nn.Module):
    """Weights that a pass has quantized: integers with scales as buffers."""

    def __init__(self, dequantize: Callable[..., Tensor]) -> None:
        super().__init__()
        self.dequantize = dequantize
        self.register_buffer("integers", _INTEGERS.clone())
        self.register_buffer("scales", _SCALES.clone())
        self.register_buffer("points", _POINTS.clone())

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.dequantize(self.integers, self.scales, self.points).t()


def _per_channel(x: Tensor, scales: Tensor, points: Tensor) -> Tensor:
    return _pt2e.dequantize_per_channel(x, scales, points, 0, -128, 127, _I8)  # type: ignore[no-any-return]


def _per_group(x: Tensor, scales: Tensor, points: Tensor) -> Tensor:
    return _pt2e.dequantize_per_channel_group(  # type: ignore[no-any-return]
        x, scales, points, -128, 127, _I8, 32, torch.float32
    )


def _blocks_of(size: int) -> Callable[..., Tensor]:
    def dequantize(x: Tensor, scales: Tensor, points: Tensor) -> Tensor:
        return _torchao.dequantize_affine(x, [1, size], scales, points, _I8, -128, 127)  # type: ignore[no-any-return]

    return dequantize


#: Constants alone: computed ahead of time, so that a product of floats is left.
WEIGHTS = [
    Case("linear_int4_groups", _weights("int4", PerGroup(32)), (r(3, 64),), (), PRODUCT),
    Case("linear_int8_rows", _weights("int8", PerAxis(0)), (r(3, 64),), (), PRODUCT),
    Case("linear_int2_groups", _weights("int2", PerGroup(16)), (r(2, 3, 64),), (), PRODUCT),
    Case("weights_per_channel", _Stored(_per_channel), (r(3, 64),), ("mul_mat",), PRODUCT),
]


def _choose(mapping: str, block: list[int], low: int, high: int) -> Callable[[Tensor], Any]:
    def choose(x: Tensor) -> Any:
        return _torchao.choose_qparams_affine(x, mapping, block, _I8, low, high, None, None, _I8)

    return choose


def _and_back(x: Tensor) -> Tensor:
    """Activations as 8da4w quantizes them, a row at a time."""
    block = [1, x.shape[-1]]
    scale, point = _choose("ASYMMETRIC", block, -128, 127)(x)
    whole = _torchao.quantize_affine(x, block, scale, point, _I8, -128, 127)
    return _torchao.dequantize_affine(whole, block, scale, point, _I8, -128, 127)  # type: ignore[no-any-return]


_TOKENS = Dim("tokens", min=1, max=16)
_ROWS = torch.cat([r(5, 64) * 3, torch.zeros(1, 64), r(1, 64).abs() + 1, -r(1, 64).abs() - 1])

ACTIVATIONS = [
    host("choose_asymmetric_rows", _choose("ASYMMETRIC", [1, 64], -128, 127), (_ROWS,), rtol=EXACT),
    host("choose_symmetric_rows", _choose("SYMMETRIC", [1, 64], -127, 127), (_ROWS,), rtol=EXACT),
    host("choose_asymmetric_groups", _choose("ASYMMETRIC", [1, 16], -8, 7), (_ROWS,), rtol=EXACT),
    host(
        "choose_asymmetric_tensor", _choose("ASYMMETRIC", [8, 64], -128, 127), (_ROWS,), rtol=EXACT
    ),
    host("quantize_rows_and_back", _and_back, (_ROWS,), rtol=EXACT),
    host(
        "quantize_rows_and_back_dynamic",
        _and_back,
        (_ROWS,),
        rtol=EXACT,
        dynamic_shapes={"args": ({0: _TOKENS},)},
        others=[(r(1, 64),), (r(16, 64),)],
    ),
    fn("dequantize_groups", _blocks_of(32), (_INTEGERS, r(4, 2), ids(9, 4, 2).to(_I8)), rtol=EXACT),
    fn("dequantize_rows", _blocks_of(64), (_INTEGERS, r(4, 1), _POINTS.reshape(4, 1)), rtol=EXACT),
    fn(
        "dequantize_without_points",
        lambda x, s: _torchao.dequantize_affine(x, [1, 64], s, None, _I8, -128, 127),
        (_INTEGERS, r(4, 1)),
        rtol=EXACT,
    ),
]


def _to_8_bits(x: Tensor) -> Tensor:
    return _pt2e.quantize_per_tensor(x, 0.037, -3, -128, 127, _I8)  # type: ignore[no-any-return]


PT2E = [
    host_over(
        "quantize_per_tensor",
        _to_8_bits,
        [(_ROWS,), (torch.tensor([float("inf"), -float("inf"), 1e30, -1e30, 0.0]),)],
        rtol=EXACT,
    ),
    host(
        "quantize_per_tensor_unsigned",
        lambda x: _pt2e.quantize_per_tensor(x, 0.05, 128, 0, 255, torch.uint8),
        (_ROWS,),
        rtol=EXACT,
    ),
    # Halves go to the even neighbour.
    host(
        "quantize_halves",
        lambda x: _pt2e.quantize_per_tensor(x, 0.5, 0, -128, 127, _I8),
        (torch.arange(-9, 10) / 4.0,),
        rtol=EXACT,
    ),
    fn(
        "dequantize_per_tensor",
        lambda x: _pt2e.dequantize_per_tensor(x, 0.037, -3, -128, 127, _I8),
        (_INTEGERS,),
        rtol=EXACT,
    ),
    host(
        "quantize_per_channel",
        lambda x, s, p: _pt2e.quantize_per_channel(x, s, p, 0, -128, 127, _I8),
        (r(4, 3, 5) * 2, _SCALES, _POINTS),
        rtol=EXACT,
    ),
    fn(
        "dequantize_per_channel_middle",
        lambda x, s, p: _pt2e.dequantize_per_channel(x, s, p, 1, -128, 127, _I8),
        (_INTEGERS.reshape(4, 4, 16), _SCALES, _POINTS),
        rtol=EXACT,
    ),
    fn(
        "dequantize_per_channel_group",
        _per_group,
        (_INTEGERS, r(4, 2), ids(9, 4, 2)),
        rtol=EXACT,
    ),
]

CASES = [*WEIGHTS, *ACTIVATIONS, *PT2E]
