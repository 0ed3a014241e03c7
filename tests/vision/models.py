"""Vision models at true size, with random weights that make their results say something.

Activations keep a size near 1 at any depth, batch norms have the statistics of images, and
which class comes first depends on the image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from tests.export.model_families import Outputs, randomized
from tests.vision.mobilenets import MobileNetV3Large


def pictures(count: int, height: int = 224, width: int = 224) -> Tensor:
    """Images of waves, each of other directions, lengths and colours: [count, 3, height, width]."""
    generator = torch.Generator().manual_seed(count)
    y, x = torch.meshgrid(torch.arange(height) / 224, torch.arange(width) / 224, indexing="ij")
    # Image, colour, wave; from one period across the image to 64.
    random = torch.rand(3, count, 3, 6, 1, 1, generator=generator)
    angle, phase = random[0] * torch.pi, random[1] * 2 * torch.pi
    frequency = 2 * torch.pi * 2 ** (6 * random[2])
    amplitude = torch.randn(count, 3, 6, 1, 1, generator=generator)
    waves = torch.sin(frequency * (angle.cos() * x + angle.sin() * y) + phase)
    image = (amplitude * waves).sum(2)
    return image / image.std()


def calibrated(model: nn.Module, images: Tensor) -> nn.Module:
    """With the statistics of images in its batch norms."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all calls
        norm.train()
    if norms:
        with torch.no_grad():
            model(images)
    return model.eval()


def centred(model: nn.Module, images: Tensor) -> nn.Module:
    """With such a bias in its last layer that an image's mean scores are 0."""
    *_, classifier = (module for module in model.modules() if isinstance(module, nn.Linear))
    with torch.no_grad():
        found = model(images)
        scores = found[0] if isinstance(found, tuple) else found
        classifier.bias -= scores.mean(0)
    return model


@dataclass(frozen=True)
class Model:
    """A model of images [N, 3, 224, 224].

    ``n_folded``: batch norms that follow a convolution.
    ``scores``: the shape of an image's scores, classes last.
    """

    name: str
    make: Callable[[], nn.Module]
    n_folded: int = 0
    scores: tuple[int, ...] = (1000,)

    def module(self) -> nn.Module:
        images = pictures(6)
        model = calibrated(randomized(self.make()), images)
        # Behind batch norms, scores differ from image to image as they are.
        differ = self.n_folded > 0 or len(self.scores) > 1
        return model if differ else centred(model, images)


def _transformer(
    model: str, config: Callable[..., Any], results: str = "logits", **options: Any
) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        found = getattr(transformers, model)(config(**{"num_labels": 1000, **options}))
        return Outputs(found, "pixel_values", results)

    return make


#: 192 wide, 12 deep.
_TINY = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}

MODELS = (
    Model("mobilenet_v3_large", MobileNetV3Large, n_folded=46),
    Model(
        "resnet_18",
        _transformer(
            "ResNetForImageClassification",
            transformers.ResNetConfig,
            layer_type="basic",
            hidden_sizes=[64, 128, 256, 512],
            depths=[2, 2, 2, 2],
        ),
        n_folded=20,
    ),
    Model(
        "resnet_50",
        _transformer("ResNetForImageClassification", transformers.ResNetConfig),
        n_folded=53,
    ),
    Model("vit_base", _transformer("ViTForImageClassification", transformers.ViTConfig)),
    Model(
        "deit_tiny", _transformer("DeiTForImageClassification", transformers.DeiTConfig, **_TINY)
    ),
    Model(
        "convnext_tiny", _transformer("ConvNextForImageClassification", transformers.ConvNextConfig)
    ),
    Model("swin_tiny", _transformer("SwinForImageClassification", transformers.SwinConfig)),
    Model(
        "yolos_tiny",
        _transformer(
            "YolosForObjectDetection",
            transformers.YolosConfig,
            "logits pred_boxes",
            image_size=[224, 224],
            num_labels=91,
            **_TINY,
        ),
        scores=(100, 92),
    ),
)
