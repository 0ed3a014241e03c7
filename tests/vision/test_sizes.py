"""Other batches and image sizes than exported: run where they are allowed, else refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import transformers
from torch import Tensor, nn
from torch.export import Dim

from tests.export.model_families import Outputs, randomized
from tests.vision.lowering import Program, assert_close, assert_one_delegate, outputs
from tests.vision.mobilenets import MobileNetV2
from tests.vision.models import MODELS, calibrated, pictures


def _assert_refused(
    program: Program, image: Tensor, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The call fails, and the log says why."""
    capfd.readouterr()
    with pytest.raises(RuntimeError, match="failed with error"):
        program(image)
    assert message in capfd.readouterr().err


def _assert_runs(program: Program, module: nn.Module, images: Tensor) -> None:
    expected = outputs(module, images)
    assert_close(program(images), expected)


def _deit() -> nn.Module:
    (model,) = (model for model in MODELS if model.name == "deit_tiny")
    return model.make()


@pytest.mark.slow
@pytest.mark.parametrize("make", [MobileNetV2, _deit])
def test_a_classifier_takes_batches_within_bounds(
    make: Callable[[], nn.Module], capfd: pytest.CaptureFixture[str]
) -> None:
    images = pictures(6)
    module = calibrated(randomized(make()), images)
    batch = {0: Dim("batch", min=1, max=4)}
    program = Program(module, (images[:2],), ((batch,),) if make is _deit else (batch,))
    assert_one_delegate(program)
    for n in (1, 4, 3):
        _assert_runs(program, module, images[-n:])
    _assert_refused(program, images[:5], "resize a bounded tensor", capfd)
    _assert_refused(program, pictures(1, 224, 192), "expected [1, 3, 224, 224]", capfd)
    _assert_runs(program, module, images[:2])


def _mobilenet() -> nn.Module:
    return MobileNetV2().features


def _resnet() -> nn.Module:
    config = transformers.ResNetConfig(
        layer_type="basic", hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2]
    )
    return Outputs(
        transformers.ResNetModel(config), "pixel_values", "last_hidden_state pooler_output"
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [_mobilenet, _resnet])
def test_features_of_images_of_any_size(
    make: Callable[[], nn.Module], capfd: pytest.CaptureFixture[str]
) -> None:
    module = calibrated(randomized(make()), pictures(2))
    height, width = Dim("height", min=1, max=8), Dim("width", min=1, max=8)
    sizes = {2: 32 * height, 3: 32 * width}
    inputs = (pictures(1, 128, 160),)
    program = Program(module, inputs, ((sizes,),) if make is _resnet else (sizes,))
    assert_one_delegate(program)
    for size in ((64, 256), (224, 224), (128, 160), (256, 64)):
        _assert_runs(program, module, pictures(1, *size))
    for pixels, allowed in (
        (320, "allowed are 32 to 256"),
        (100, "expected 0 plus a multiple of 32"),
    ):
        message = f"dimension 2 is {pixels}, {allowed}"
        _assert_refused(program, pictures(1, pixels, 64), message, capfd)
    _assert_runs(program, module, pictures(1, 96, 96))


def test_another_size_than_exported_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    module = randomized(nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU6()))
    program = Program(module, (pictures(1, 32, 32),))
    for size in ((32, 33), (64, 32), (16, 16)):
        _assert_refused(program, pictures(1, *size), "Attempted to resize a static tensor", capfd)
    _assert_runs(program, module, pictures(1, 32, 32))
