"""Says what an image shows: its likeliest labels, and a picture of them.

usage: python -m examples.image_classification.classify --image FILE [--picture FILE.png]

For any classifier of ImageNet's kind: one input, a normalised image ``[1, 3, size, size]``, and
one output, a score for each class. ``classify_image`` is the same program in C++.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from executorch_ggml import load_library

#: Of each channel, over the images of ImageNet.
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


class ClassifyError(RuntimeError):
    """A file that cannot be used; the text says which and why."""


@dataclass(frozen=True)
class Guess:
    """A class, and how sure the model is of it."""

    label: str
    probability: float

    def __str__(self) -> str:
        return f"{100 * self.probability:6.2f} %  {self.label}"


class Classifier:
    """A .pte whose ``forward`` takes an image, and its labels, one a line.

    Raises:
        ClassifyError: a file cannot be read, or is of another kind.
    """

    def __init__(self, model: Path, labels: Path) -> None:
        load_library()  # registers the backend with ExecuTorch's runtime
        from executorch.runtime import Runtime

        if not model.is_file():
            raise ClassifyError(f"model '{model}' is no file")
        try:
            program = Runtime.get().load_program(model)
            self._method: Any = program.load_method("forward")
        except (RuntimeError, KeyError) as error:
            raise ClassifyError(f"model '{model}' cannot be loaded: {error}") from error
        meta = self._method.metadata
        shapes = [tuple(meta.input_tensor_meta(i).sizes()) for i in range(meta.num_inputs())]
        self.size = shapes[0][-1] if shapes and shapes[0] else 0
        if shapes != [(1, 3, self.size, self.size)]:
            raise ClassifyError(
                f"model '{model}' takes inputs of the shapes {shapes}, expected one "
                "(1, 3, size, size): a single RGB image"
            )
        self._labels = self._read_labels(model, labels, meta.output_tensor_meta(0).sizes())

    def classify(self, image: Image.Image, top: int) -> list[Guess]:
        """The ``top`` likeliest labels, best first."""
        (scores,) = self._method.execute((prepare(image, self.size),))
        probabilities, classes = scores[0].softmax(0).topk(min(top, len(self._labels)))
        return [
            Guess(self._labels[c], p)
            for c, p in zip(classes.tolist(), probabilities.tolist(), strict=True)
        ]

    @staticmethod
    def _read_labels(model: Path, path: Path, output: Sequence[int]) -> list[str]:
        try:
            with path.open(encoding="utf-8") as lines:
                labels = [line.rstrip("\n") for line in lines]
        except (OSError, UnicodeDecodeError) as error:
            raise ClassifyError(f"labels '{path}' cannot be read: {error}") from error
        if tuple(output) != (1, len(labels)):
            raise ClassifyError(
                f"labels '{path}' has {len(labels)} lines, and model '{model}' gives scores of "
                f"the shape {tuple(output)}: it needs a line for each class"
            )
        return labels


def read_image(path: Path) -> Image.Image:
    """The image in RGB, without its transparency.

    Raises:
        ClassifyError: the file is missing, damaged, or no image.
    """
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, Image.DecompressionBombError) as error:
        raise ClassifyError(f"image '{path}' cannot be read: {error}") from error


def prepare(image: Image.Image, size: int) -> torch.Tensor:
    """An RGB image as a model's input, ``[1, 3, size, size]``.

    The middle of the image, a square of 224/256 of its shorter side, is resized with Pillow's
    bilinear filter, which averages where it shrinks, and normalised. ``image.cpp`` does the same
    in C++, to the same pixels.
    """
    side = min(image.size) * 224 / 256
    left, top = ((extent - side) / 2 for extent in image.size)
    # One direction at a time: Pillow chooses the order by the shape, and each rounds to bytes.
    across = (left, 0, left + side, image.height)
    down = (0, top, size, top + side)
    narrow = image.resize((size, image.height), Image.Resampling.BILINEAR, across)
    square = narrow.resize((size, size), Image.Resampling.BILINEAR, down)
    pixels = torch.from_numpy(np.array(square, dtype=np.float32)) / 255
    normalised = (pixels - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
    # ExecuTorch reads the memory as it lies, whatever the strides.
    return normalised.permute(2, 0, 1)[None].contiguous()


def draw(image: Image.Image, guesses: Sequence[Guess]) -> Image.Image:
    """The image, and beside it each label with a bar as long as it is likely."""
    margin, row, font = 16, 44, ImageFont.load_default(16)
    height = max(240, row * len(guesses)) + 2 * margin
    photo = image.resize((max(1, image.width * 240 // image.height), 240), Image.Resampling.LANCZOS)
    left = photo.width + 2 * margin
    bar = max(200, 80 + max(int(font.getlength(guess.label)) for guess in guesses))
    picture = Image.new("RGB", (left + bar + margin, height), "white")
    picture.paste(photo, (margin, (height - photo.height) // 2))
    pen = ImageDraw.Draw(picture)
    y = (height - row * len(guesses)) // 2
    for guess in guesses:
        percent = f"{100 * guess.probability:.1f} %"
        pen.text((left, y), guess.label, "black", font)
        pen.text((left + bar, y), percent, "black", font, anchor="ra")
        pen.rectangle((left, y + 24, left + bar, y + 32), "#e4e8ee")
        pen.rectangle((left, y + 24, left + bar * guess.probability, y + 32), "#2f6fb7")
        y += row
    return picture


def save(picture: Image.Image, path: Path) -> None:
    """Write a picture in the format of the file's name.

    Raises:
        ClassifyError: no such format, or the file cannot be written.
    """
    try:
        picture.save(path)
    except (OSError, ValueError) as error:
        raise ClassifyError(f"picture '{path}' cannot be written: {error}") from error


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="say what an image shows")
    parser.add_argument("--model", type=Path, default=Path("mobilenet_v2.pte"))
    parser.add_argument("--image", type=Path, required=True)
    parser.add_argument("--labels", type=Path, default=Path("labels.txt"))
    parser.add_argument("--top", type=int, default=5, help="how many labels")
    parser.add_argument("--picture", type=Path, help="draw the result into this file")
    args = parser.parse_args(arguments)
    if args.top < 1:
        parser.error(f"argument --top: is {args.top}, expected 1 or more")
    try:
        image = read_image(args.image)
        guesses = Classifier(args.model, args.labels).classify(image, args.top)
        print(*guesses, sep="\n")
        if args.picture:
            save(draw(image, guesses), args.picture)
    except ClassifyError as error:
        print(f"classify: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
