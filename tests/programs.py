"""The built C++ programs, and how tests run them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: Tests run side by side, and threads that wait for one another then wait for long.
ONE_THREAD = {"GGML_N_THREADS": "1"}


@dataclass(frozen=True)
class Result:
    """How a program ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Program:
    """One of the C++ programs."""

    path: Path

    def command(self, *arguments: object) -> list[str]:
        return [os.fspath(self.path), *map(str, arguments)]

    def __call__(
        self, *arguments: object, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> Result:
        # Bytes, so that text which is no UTF-8 fails here and not in a reader's guess.
        done = subprocess.run(
            self.command(*arguments),
            input=stdin.encode(),
            env={**os.environ, **ONE_THREAD, **(env or {})},
            check=False,
            capture_output=True,
            timeout=300,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def build_folder() -> Path:
    """The release build, or the one that EXECUTORCH_GGML_BUILD_DIR names."""
    return Path(os.environ.get("EXECUTORCH_GGML_BUILD_DIR", ROOT / "build"))


def program(name: str) -> Program:
    """The program at ``name`` in the build folder; the test fails where it is not built."""
    path = build_folder() / name
    if not path.is_file():
        pytest.fail(f"{path} is not built; run `make build`", pytrace=False)
    return Program(path)
