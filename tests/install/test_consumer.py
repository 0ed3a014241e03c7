"""The installed CMake package: found, linked and run by a user's own project."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .conftest import ROOT, cmake, run

pytestmark = pytest.mark.slow


def executorch_folder() -> Path:
    spec = importlib.util.find_spec("executorch")
    assert spec is not None
    (folder,) = list(spec.submodule_search_locations or [])[:1]
    return Path(folder)


@pytest.fixture(scope="session")
def consumer(build_dir: Path, prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/consumer, built against the installed prefix."""
    cache = (build_dir / "CMakeCache.txt").read_text()
    named = re.search(r"^LLAMA_CPP_DIR:PATH=(.+)$", cache, re.MULTILINE)
    llama_cpp = Path(named[1]) if named else ROOT / "third-party" / "llama.cpp"
    ccache = re.search(r"^EXECUTORCH_GGML_CCACHE:FILEPATH=(/.+)$", cache, re.MULTILINE)
    launchers = (
        [f"-DCMAKE_{lang}_COMPILER_LAUNCHER={ccache[1]}" for lang in ("C", "CXX")] if ccache else []
    )
    folder = tmp_path_factory.mktemp("consumer")
    cmake(
        "-S",
        ROOT / "tests" / "consumer",
        "-B",
        folder,
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={prefix};{executorch_folder()}",
        f"-DOTHER_GGML_DIR={llama_cpp / 'ggml'}",
        *launchers,
    )
    cmake("--build", folder, "--parallel", "2")
    return folder


def outputs(text: str) -> torch.Tensor:
    return torch.tensor([float(line) for line in text.split()])


def test_linking_the_target_is_enough(consumer: Path, model: tuple[Path, torch.Tensor]) -> None:
    path, expected = model
    actual = outputs(run(consumer / "run_pte", path))
    torch.testing.assert_close(actual, expected.flatten(), rtol=1e-5, atol=1e-6)


def test_lives_beside_another_ggml(consumer: Path, model: tuple[Path, torch.Tensor]) -> None:
    path, expected = model
    actual = outputs(run(consumer / "beside_ggml", path))
    torch.testing.assert_close(actual, expected.flatten(), rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF symbols with nm")
def test_only_our_own_names_leave_the_library(prefix: Path) -> None:
    library = prefix / "lib" / "libexecutorch_ggml_runtime.so"
    lines = subprocess.run(
        ["nm", "-D", "-C", "--defined-only", "--format=posix", library],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    ours = re.compile(r"^(eg_|(vtable for |typeinfo (name )?for )?executorch_ggml(::|_))")
    assert [line for line in lines if not ours.match(line)] == []
