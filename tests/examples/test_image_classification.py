"""The example of image classification, in Python and in C++: they agree, and so does its page."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import sklearn
import torch
from executorch.exir import to_edge_transform_and_lower
from PIL import Image
from torch import nn
from torch.export import export

from examples.fetch_model import FetchError, fetch
from examples.image_classification import classify
from examples.image_classification.export import NAMES, WEIGHTS
from executorch_ggml import GgmlPartitioner
from tests.docs.blocks import ROOT, blocks
from tests.programs import Program, Result, build_folder, program

IMAGES = ROOT / "examples" / "image_classification"
PAGE = ROOT / "docs" / "vision.md"
N_CLASSES = 10
SIZE = 24


@pytest.fixture(scope="session")
def classify_image() -> Program:
    return program("bin/classify_image")


@dataclass(frozen=True)
class Files:
    """A model and its labels."""

    model: Path
    labels: Path

    def arguments(self, image: Path, top: int = N_CLASSES) -> list[str]:
        named = {"--model": self.model, "--labels": self.labels, "--image": image, "--top": top}
        return [str(part) for pair in named.items() for part in pair]


def save(module: nn.Module, path: Path, *shape: int) -> None:
    exported = export(module.eval(), (torch.randn(*shape),))
    edge = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner()])
    path.write_bytes(edge.to_executorch().buffer)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Ten weighted sums of all pixels of an image of 24x24.

    A level of 255 in one pixel changes a probability of a half by 0.01 %.
    """
    folder = tmp_path_factory.mktemp("small")
    torch.manual_seed(3)
    sums = nn.Linear(3 * SIZE * SIZE, N_CLASSES)
    nn.init.normal_(sums.weight, std=0.03)
    files = Files(folder / "small.pte", folder / "labels.txt")
    save(nn.Sequential(nn.Flatten(), sums), files.model, 1, 3, SIZE, SIZE)
    files.labels.write_text("".join(f"class {i}, größer\n" for i in range(N_CLASSES)))
    return files


def guesses(lines: str) -> dict[str, float]:
    """Percent of each label, in the order printed."""
    pairs = [line.split(" %  ", 1) for line in lines.splitlines()]
    return {label: float(percent) for percent, label in pairs}


def in_python(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Result:
    code = classify.main(arguments)
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, dtype=np.uint8)


def _palette() -> Image.Image:
    return Image.fromarray(noise(40, 60, 3)).quantize(32)


def _photo(name: str) -> Image.Image:
    with Image.open(Path(sklearn.__file__).parent / "datasets" / "images" / name) as photo:
        return photo.convert("RGB")


#: Shrunk, enlarged, both, of every shape and kind of pixel.
PNG: dict[str, Callable[[], Image.Image]] = {
    "shrunk": lambda: Image.fromarray(noise(61, 80, 3)),
    "much_shrunk": lambda: Image.fromarray(noise(301, 200, 3)),
    "enlarged": lambda: Image.fromarray(noise(5, 7, 3)),
    "as_it_is": lambda: Image.fromarray(noise(SIZE * 8 // 7, SIZE * 8 // 7, 3)),
    "wide": lambda: Image.fromarray(noise(3, 500, 3)),
    "high": lambda: Image.fromarray(noise(500, 30, 3)),
    "one_pixel": lambda: Image.fromarray(noise(1, 1, 3)),
    "grey": lambda: Image.fromarray(noise(40, 60)),
    "transparent": lambda: Image.fromarray(noise(40, 60, 4)),
    "grey_transparent": lambda: Image.fromarray(noise(40, 60, 2), mode="LA"),
    "palette": _palette,
    "black_and_white": lambda: Image.fromarray(noise(40, 60)).convert("1"),
    "photo": lambda: _photo("china.jpg"),
}


@pytest.mark.parametrize("name", PNG)
def test_the_same_numbers_from_png(
    name: str,
    classify_image: Program,
    small: Files,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    image = PNG[name]()
    image.save(tmp_path / "image.png")
    arguments = small.arguments(tmp_path / "image.png")
    found, expected = classify_image(*arguments), in_python(arguments, capsys)
    assert (found.code, expected.code) == (0, 0), found.err + expected.err
    assert len(guesses(expected.out)) == N_CLASSES
    assert guesses(found.out) == pytest.approx(guesses(expected.out), abs=0.015)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("name", ["china.jpg", "flower.jpg"])
def test_nearly_the_same_numbers_from_jpeg(
    name: str,
    progressive: bool,
    classify_image: Program,
    small: Files,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two decoders may round differently. What follows a JPEG's end does not matter."""
    path = tmp_path / name
    _photo(name).save(path, quality=90, progressive=progressive)
    path.write_bytes(path.read_bytes() + b"what a camera adds")
    arguments = small.arguments(path)
    found, expected = classify_image(*arguments), in_python(arguments, capsys)
    assert (found.code, expected.code) == (0, 0), found.err + expected.err
    assert guesses(found.out) == pytest.approx(guesses(expected.out), abs=1)
    assert list(guesses(found.out))[:3] == list(guesses(expected.out))[:3]


def test_the_input_is_as_torchvision_makes_it() -> None:
    """``Resize(256)``, ``CenterCrop(224)`` and ``Normalize``, here in torch's own operators."""
    photo = _photo("flower.jpg").resize((600, 400))
    found = classify.prepare(photo, 224)
    assert found.shape == (1, 3, 224, 224)
    assert found.is_contiguous()
    pixels = torch.from_numpy(np.array(photo)).permute(2, 0, 1)[None].float()
    resized = nn.functional.interpolate(pixels, (256, 384), mode="bilinear", antialias=True)
    middle = resized[..., 16:240, 80:304]
    mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in (classify.MEAN, classify.DEVIATION))
    difference = (found * deviation + mean) * 255 - middle
    assert float(difference.abs().max()) < 1.01  # two roundings to bytes


def test_fewer_labels(
    classify_image: Program, small: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--top cuts the list; more than there are is all of them. Windows' line ends do no harm."""
    PNG["grey"]().save(tmp_path / "image.png")
    text = small.labels.read_bytes()
    windows = Files(small.model, tmp_path / "windows.txt")
    windows.labels.write_bytes(text.replace(b"\n", b"\r\n"))
    everything = classify_image(*small.arguments(tmp_path / "image.png")).out.splitlines()
    assert len(everything) == N_CLASSES
    for top in (1, 3, 99):
        arguments = windows.arguments(tmp_path / "image.png", top)
        for result in (classify_image(*arguments), in_python(arguments, capsys)):
            assert result.out.splitlines() == everything[:top]


def test_damage_is_explained(
    classify_image: Program, small: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(files: Files, image: Path, *needed: str) -> None:
        arguments = files.arguments(image)
        for result in (classify_image(*arguments), in_python(arguments, capsys)):
            assert (result.code, result.out) == (1, ""), arguments
            assert "error: " in result.err
            for text in needed:
                assert text in result.err

    good = tmp_path / "good.png"
    PNG["shrunk"]().save(good)

    # Images.
    refuse(small, tmp_path / "nothing.png", "nothing.png' cannot be")
    refuse(small, tmp_path, f"{tmp_path}' cannot be read")
    photo = tmp_path / "good.jpg"
    _photo("flower.jpg").resize((320, 240)).save(photo)
    for whole in (photo, good):
        content = whole.read_bytes()
        for kept in (0, 100, len(content) // 2, len(content) - 40):
            torn = tmp_path / f"torn-{kept}{whole.suffix}"
            torn.write_bytes(content[:kept])
            refuse(small, torn, torn.name)
    text = tmp_path / "text.png"
    text.write_text("No picture, but much more text than a program looks at to know. " * 9)
    refuse(small, text, "text.png' cannot be read")

    # Labels.
    short = Files(small.model, tmp_path / "short.txt")
    refuse(short, good, "short.txt' cannot be")
    for n in (0, N_CLASSES - 1, N_CLASSES + 1):
        short.labels.write_text("one\n" * n)
        refuse(short, good, f"short.txt' has {n} lines", str(N_CLASSES), "a line for each class")

    # Models.
    for path in (tmp_path / "nothing.pte", text):
        refuse(Files(path, small.labels), good, path.name)
    other = Files(tmp_path / "other.pte", small.labels)
    for shape in ((1, 1, SIZE, SIZE), (1, 3, SIZE, 2 * SIZE), (2, 3, SIZE, SIZE), (3, SIZE, SIZE)):
        save(nn.Flatten(), other.model, *shape)
        refuse(other, good, "other.pte", ", ".join(map(str, shape)), "a single RGB image")
    save(nn.Identity(), other.model, 1, 3, SIZE, SIZE)
    refuse(other, good, "other.pte", f"1, 3, {SIZE}, {SIZE}", "each class")


def test_arguments(classify_image: Program) -> None:
    result = classify_image()
    assert result.code == 2
    assert "--image is missing" in result.err
    result = classify_image("--image", "x.png", "--top", 0)
    assert result.code == 2
    assert "--top is '0', expected a whole number of at least 1" in result.err
    with pytest.raises(SystemExit):
        classify.main(["--image", "x.png", "--top", "0"])


def test_the_picture(small: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The photo, and bars as long as the labels are likely."""
    red = Image.new("RGB", (400, 300), (200, 0, 0))
    label = classify.Guess("a name that is quite a bit longer than most of them are", 0.5)
    picture = np.asarray(classify.draw(red, [classify.Guess("first", 1.0), label]))
    assert (picture == (200, 0, 0)).all(-1).sum() == 320 * 240
    filled = (picture == (0x2F, 0x6F, 0xB7)).all(-1).sum(1)
    full, half = sorted(set(filled.tolist()) - {0}, reverse=True)
    assert abs(full - 2 * half) <= 2
    assert 320 + full + 3 * 16 == pytest.approx(picture.shape[1], abs=2)

    red.save(tmp_path / "red.png")
    for name, code in (("result.png", 0), ("result.nonsense", 1), ("nowhere/result.png", 1)):
        arguments = [*small.arguments(tmp_path / "red.png"), "--picture", str(tmp_path / name)]
        result = in_python(arguments, capsys)
        assert result.code == code
        assert (name in result.err) == bool(code)
    with Image.open(tmp_path / "result.png") as saved:
        assert saved.height > 10 * 40


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to run the page's commands in, with what they find in a checkout."""
    try:
        for file in (WEIGHTS, NAMES):
            fetch(file)
    except FetchError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "build").symlink_to(build_folder())
    return folder


@pytest.mark.slow
@pytest.mark.network
def test_the_page(
    checkout: Path, classify_image: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its commands give what it says; other photos get the same labels in both languages."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "GGML_N_THREADS": "1"}
    shown = blocks(PAGE)
    commands = [i for i, block in enumerate(shown) if block.language == "bash"]
    assert len(commands) == 3
    for i in commands:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", shown[i].text],
            check=False,
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{shown[i].place}\n{done.stdout}\n{done.stderr}"
        if "%" in shown[i + 1].text:
            expected, found = guesses(shown[i + 1].text), guesses(done.stdout)
            assert list(found) == list(expected)
            assert found == pytest.approx(expected, abs=0.03)
        else:
            assert done.stdout == shown[i + 1].text
    with (
        Image.open(checkout / "result.png") as drawn,
        Image.open(PAGE.parent / "images/coffee.png") as kept,
    ):
        difference = np.asarray(drawn.convert("L"), float) - np.asarray(kept.convert("L"), float)
    assert np.abs(difference).mean() < 5  # the one in the page has few colours

    files = Files(checkout / "mobilenet_v2.pte", checkout / "labels.txt")
    for name in ("china.jpg", "flower.jpg"):
        _photo(name).save(checkout / "photo.png")
        arguments = files.arguments(checkout / "photo.png", 5)
        found, expected = classify_image(*arguments).out, in_python(arguments, capsys).out
        assert list(guesses(found)) == list(guesses(expected))
        assert guesses(found) == pytest.approx(guesses(expected), abs=0.015)
        if name == "china.jpg":
            assert next(iter(guesses(found))) == "palace"
