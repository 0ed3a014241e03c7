"""``pip install``: the wheel builds the library, finds it, and runs a model.

The environments made here see the packages of the one that runs the tests (a
``.pth`` file names its site-packages), so that only this project is installed.
``--ignore-installed`` because that environment may hold this project already.
"""

from __future__ import annotations

import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import torch

from .conftest import ROOT, run

pytestmark = [pytest.mark.slow, pytest.mark.network]

# The checkout must not be what Python finds: these run outside it.
RUN_MODEL = """
import sys
from pathlib import Path

import torch
from executorch_ggml._library import library_path, load_library

load_library()
load_library()
from executorch.runtime import Runtime

runtime = Runtime.get()
assert "GgmlBackend" in runtime.backend_registry.registered_backend_names
(output,) = runtime.load_program(Path(sys.argv[1])).load_method("forward").execute(
    [torch.ones(2, 4)]
)
print(library_path())
print(*output.flatten().tolist())
"""


def environment(folder: Path) -> Path:
    """A new virtual environment that sees this one's packages; its Python."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "zz_outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def check(python: Path, folder: Path, model: tuple[Path, torch.Tensor]) -> Path:
    """Runs the model in an environment; returns the library that ran it."""
    path, expected = model
    library, values = run(python, "-c", RUN_MODEL, path, cwd=folder).strip().splitlines()[-2:]
    actual = torch.tensor([float(value) for value in values.split()])
    torch.testing.assert_close(actual, expected.flatten(), rtol=1e-5, atol=1e-6)
    assert "executorch-ggml" in run(python.parent / "executorch-ggml", "--help", cwd=folder)
    return Path(library)


def test_installed_wheel_runs_a_model(tmp_path: Path, model: tuple[Path, torch.Tensor]) -> None:
    python = environment(tmp_path / "env")
    run(python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("executorch_ggml-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "lib/libexecutorch_ggml_runtime.so",
        "include/executorch_ggml/options.h",
        "share/cmake/executorch_ggml/executorch_ggml-config.cmake",
        "share/licenses/executorch_ggml/LICENSE.llama.cpp",
        "ir/schema.fbs",
    ):
        assert f"executorch_ggml/{name}" in names

    run(python, "-m", "pip", "install", "--no-deps", "--ignore-installed", wheel)
    library = check(python, tmp_path, model)
    assert library.is_relative_to(tmp_path / "env")


def test_editable_install_runs_a_model(tmp_path: Path, model: tuple[Path, torch.Tensor]) -> None:
    python = environment(tmp_path / "env")
    run(python, "-m", "pip", "install", "--no-deps", "--ignore-installed", "-e", ROOT)
    check(python, tmp_path, model)
    # A library built anew in the checkout is newer than the installed one, and wins.
    where = run(
        python,
        "-c",
        "import os\n"
        "from executorch_ggml import _library\n"
        "found = [p for p in _library.candidates() if p.is_file()]\n"
        "newest = max(p.stat().st_mtime_ns for p in found)\n"
        "installed = next(p for p in found if 'site-packages' in p.parts)\n"
        "os.utime(installed, ns=(newest + 10**9, newest + 10**9))\n"
        "assert _library.library_path() == installed\n"
        "print(len(found))",
        cwd=tmp_path,
    )
    assert int(where) >= 1
