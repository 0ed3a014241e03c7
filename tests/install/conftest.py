"""What the packaging tests share: an installed prefix, a model, and how to run things."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | os.PathLike[str], cwd: Path | None = None, timeout: int = 900) -> str:
    """Runs a command and returns its standard output; shows all of it if it fails.

    The variables by which Python and our loader find things are taken out, so
    that an installed copy is what gets tested.
    """
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "EXECUTORCH_GGML_LIBRARY", "LD_LIBRARY_PATH")
    done = subprocess.run(
        [os.fspath(part) for part in command],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode != 0:
        text = " ".join(os.fspath(part) for part in command)
        pytest.fail(f"{text}\nexit {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")
    return done.stdout


def cmake(*arguments: str | os.PathLike[str]) -> str:
    """Runs CMake, the one of this environment where there is one."""
    own = Path(sys.executable).parent / "cmake"
    return run(own if own.exists() else "cmake", *arguments)


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """The release build, or the one that EXECUTORCH_GGML_BUILD_DIR names."""
    folder = Path(os.environ.get("EXECUTORCH_GGML_BUILD_DIR", ROOT / "build"))
    if not (folder / "CMakeCache.txt").is_file():
        pytest.skip(f"no build at {folder}; run `make build`")
    return folder


@pytest.fixture(scope="session")
def prefix(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build, installed."""
    folder = tmp_path_factory.mktemp("prefix")
    cmake("--install", build_dir, "--component", "runtime", "--prefix", folder)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.Tensor]:
    """A ``.pte`` of Linear and LeakyReLU, and its output [2, 8] for ones [2, 4]."""
    from executorch_ggml import GgmlPartitioner, to_edge_rewrite_and_lower

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LeakyReLU(0.1)).eval()
    ones = torch.ones(2, 4)
    edge = to_edge_rewrite_and_lower(
        torch.export.export(module, (ones,)), partitioner=[GgmlPartitioner()]
    )
    path = tmp_path_factory.mktemp("model") / "model.pte"
    path.write_bytes(edge.to_executorch().buffer)
    with torch.no_grad():
        return path, module(ones)
