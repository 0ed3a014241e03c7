"""``inspect``: what it says of programs and of GGUF files."""

from __future__ import annotations

from pathlib import Path

import pytest

from executorch_ggml.cli.pte_file import PteFile
from tests.cli.conftest import Command, Model
from tests.gguf_models import SMALL, write_gguf


def test_a_program_with_weights(command: Command, linear: Path) -> None:
    result = command("inspect", linear)
    assert result.code == 0
    assert "method forward(float[up to 64, 4]) -> float[up to 64, 8]" in result.out
    assert "1 delegate call, 0 kernel calls" in result.out
    assert "GgmlBackend" in result.out
    assert "size of input 0 in dim 0, 1 to 64" in result.out
    # 8 x 4 and 8 floats
    assert "2 in the .pte, 160 B" in result.out
    assert "mul_mat 1" in result.out


def test_what_is_not_delegated_shows(command: Command, mixed: Path) -> None:
    result = command("inspect", mixed)
    assert "2 delegate calls, 3 kernel calls" in result.out
    assert "aten::atan.out 1" in result.out
    assert "delegate 1: GgmlBackend" in result.out


def test_a_language_model(command: Command, model: Model) -> None:
    result = command("inspect", model.pte)
    assert result.code == 0
    assert "method forward(long[up to 1, 128], long[up to 128]) -> float[1, 1, 512]" in result.out
    assert "method forward_all(" in result.out
    assert (
        "3 x cache of 2 heads, keys 32, values 32, 256 positions by default, at most 4096"
        in result.out
    )
    assert "by name, from a .gguf or .ptd at load" in result.out
    assert "get_vocab_size          512" in result.out
    only = command("inspect", model.pte, "--method", "forward_all")
    assert "method forward(" not in only.out
    assert "update_and_attend 3" in only.out
    wrong = command("inspect", model.pte, "--method", "backward")
    assert wrong.code == 2
    assert "forward, forward_all" in wrong.err


def test_weights_of_a_file(command: Command, model: Model, tmp_path: Path) -> None:
    result = command("inspect", model.pte, "--gguf", model.gguf, "--weights", "--method", "forward")
    assert "in qwen3.gguf" in result.out
    assert "missing" not in result.out
    assert "output.weight or token_embd.weight" in result.out
    (row,) = (line for line in result.out.splitlines() if line.startswith("blk.0.attn_q.weight "))
    assert "F32" in row
    assert "[96, 128, 1, 1]" in row
    assert "49.2 KB" in row

    llama = write_gguf(tmp_path / "llama.gguf", SMALL["llama"])
    result = command("inspect", model.pte, "--gguf", llama)
    assert "missing from llama.gguf" in result.out  # the q/k norms
    assert "in llama.gguf, but of another shape" in result.out


def test_the_ir_as_text(command: Command, linear: Path) -> None:
    result = command("inspect", linear, "--ir")
    assert "graph 'forward' {" in result.out
    assert "mul_mat(%w0, %in0)" in result.out


def test_a_gguf_file(command: Command, model: Model) -> None:
    result = command("inspect", model.gguf, "--weights")
    assert result.code == 0
    assert "35 tensors" in result.out
    assert "32.00 bits per weight" in result.out
    assert "'qwen3'" in result.out
    assert "512 x string" in result.out
    assert "blk.2.ffn_down.weight" in result.out
    assert command("inspect", model.gguf, "--ir").code == 2


def test_markup_in_a_file_stays_text(command: Command, tmp_path: Path, model: Model) -> None:
    """Names come from files: brackets in them are not the console's."""
    path = tmp_path / "[bold]model[red].gguf"
    path.write_bytes(model.gguf.read_bytes())
    assert "[bold]model[red].gguf" in command("inspect", path).out


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_a_cut_program(command: Command, model: Model, tmp_path: Path, part: float) -> None:
    path = tmp_path / "cut.pte"
    whole = model.pte.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    result = command("inspect", path)
    assert result.code == 2
    assert "cut.pte" in result.err
    assert "Traceback" not in result.err


def test_a_damaged_delegate(command: Command, linear: Path, tmp_path: Path) -> None:
    (method,) = PteFile.open(linear).methods
    blob = method.delegates[0].blob
    path = tmp_path / "damaged.pte"
    path.write_bytes(linear.read_bytes().replace(blob, b"\xff" * len(blob)))
    result = command("inspect", path)
    assert result.code == 2
    assert "not a ggml program" in result.err


def test_other_files(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello, world")
    result = command("inspect", path)
    assert result.code == 2
    assert "neither an ExecuTorch program nor a GGUF file" in result.err
