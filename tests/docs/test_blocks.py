"""What the documents show works: their Python, shell and C++ blocks are run or compiled.

Models are replaced by small random ones under the names that the documents use.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import DOCUMENTS, ROOT, blocks, runnable
from tests.gguf_models import SMALL, write_gguf

WITH_PYTHON = [d for d in DOCUMENTS if runnable(d, "python")]
WITH_SHELL = [d for d in DOCUMENTS if runnable(d, "bash")]
WITH_CPP = [b for d in DOCUMENTS for b in runnable(d, "cpp")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the documents' blocks expect to find."""
    from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte

    folder = tmp_path_factory.mktemp("models")
    write_gguf(folder / "model.gguf", SMALL["llama"], "F16")
    qwen3 = write_gguf(folder / "Qwen3-0.6B-Q8_0.gguf", SMALL["qwen3"], "Q8_0")
    place = folder / "models" / "qwen3"
    place.mkdir(parents=True)
    shutil.copy(qwen3, place)
    config = GGUFExportConfig(max_seq_len=128)
    export_gguf_to_pte(qwen3, place / "qwen3_q8_0.pte", config)
    return folder


@pytest.fixture
def folder(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the models to work in, as the current folder."""
    place = tmp_path / "work"
    shutil.copytree(models, place)
    monkeypatch.chdir(place)
    return place


def test_the_readme_shows_what_it_must() -> None:
    """A reader of the README alone gets this far; without these the tests below test little."""
    python = [b.text for b in runnable(ROOT / "README.md", "python")]
    for needed in ("GgmlPartitioner()", "GGUFModule(", "export_gguf_to_pte(", "load_program("):
        assert any(needed in text for text in python), needed
    assert WITH_SHELL
    assert WITH_CPP


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_blocks_have_a_language(document: Path) -> None:
    for block in blocks(document):
        assert block.language in ("python", "bash", "cpp", "cmake", "text"), block.place


@pytest.mark.parametrize("document", WITH_PYTHON, ids=lambda d: d.name)
def test_python_blocks(document: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In order and in one folder, each on its own: a block imports what it uses."""
    for block in runnable(document, "python"):
        code = compile("\n" * (block.line - 1) + block.text, block.place, "exec")
        exec(code, {"__name__": "__main__"})
    if document.name == "README.md":
        printed = capsys.readouterr().out
        assert "torch.Size([2, 8])" in printed
        assert "1 of 3 ops delegated" in printed
        assert "tok/s" in printed
        assert (folder / "model.pte").stat().st_size > 1000
        assert (folder / "qwen3_q8_0.pte").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("document", WITH_SHELL, ids=lambda d: d.name)
def test_shell_blocks(document: Path, folder: Path, tmp_path: Path) -> None:
    """With the command of this checkout, and Linear and LeakyReLU as ``linear.pte``."""
    import torch
    from executorch.exir import to_edge_transform_and_lower

    from executorch_ggml import GgmlPartitioner

    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LeakyReLU(0.1)).eval()
    exported = torch.export.export(module, (torch.randn(2, 4),))
    edge = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner()])
    (folder / "linear.pte").write_bytes(edge.to_executorch().buffer)

    tools = tmp_path / "bin"
    tools.mkdir()
    command = tools / "executorch-ggml"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m executorch_ggml.cli.main "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    for block in runnable(document, "bash"):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            check=False,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, f"{block.place}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("block", WITH_CPP, ids=lambda b: b.place)
def test_cpp_blocks_compile(block: object, tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    spec = importlib.util.find_spec("executorch")
    assert spec is not None
    (executorch,) = list(spec.submodule_search_locations or [])[:1]
    include = Path(executorch) / "include"
    folders = [include, include / "executorch" / "runtime" / "core" / "portable_type" / "c10"]
    source = tmp_path / "block.cpp"
    source.write_text(block.text)  # type: ignore[attr-defined]
    done = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
        + [f"-isystem{folder}" for folder in folders]
        + ["-DC10_USING_CUSTOM_GENERATED_MACROS"]
        + [f"-I{ROOT / 'runtime' / 'include'}", str(source)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
