"""The programs in ``examples/`` and ``runner/`` run, on small models."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

from tests.docs.blocks import ROOT
from tests.gguf_models import SMALL, write_gguf


def run(script: str, *arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs a script as ``python SCRIPT ARGUMENTS`` would, in this process."""
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    try:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    except SystemExit as left:
        return int(left.code or 0)
    return 0


@pytest.mark.parametrize(
    ("script", "delegated"),
    [("examples/linear.py", "2 of 2 ops"), ("examples/mixed_backends.py", "2 of 5 ops")],
)
def test_examples(
    script: str, delegated: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    assert run(script, monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr().out
    assert delegated in printed
    differences = re.findall(r"differs from eager by (\S+) at most", printed)
    assert differences
    assert max(map(float, differences)) < 1e-5


def test_qwen3_from_gguf_to_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scripts' default paths, and tokens that equal those of GGUFModule's own loop."""
    from executorch_ggml.gguf_module import GGUFModule

    monkeypatch.chdir(tmp_path)
    assert run("runner/export_qwen3_q8.py", monkeypatch=monkeypatch) == 2
    assert "qwen3/Qwen3-0.6B-Q8_0.gguf is not there" in capsys.readouterr().err
    Path("qwen3").mkdir()
    gguf = write_gguf("qwen3/Qwen3-0.6B-Q8_0.gguf", SMALL["qwen3"], "Q8_0")
    assert run("runner/export_qwen3_q8.py", "--max-seq-len", 128, monkeypatch=monkeypatch) == 0
    pte = Path("qwen3/qwen3_q8_0.pte")
    assert pte.is_file()

    ids = [7, 8, 9]
    expected: list[int] = []
    with GGUFModule(pte, gguf) as module:
        (logits,) = module.forward(torch.tensor([ids]), torch.arange(3))
        for position in range(3, 9):
            expected.append(int(logits[0, -1].argmax()))
            (logits,) = module.forward(torch.tensor([expected[-1:]]), torch.tensor([position]))
    assert 257 not in expected  # the end token

    capsys.readouterr()
    arguments = ("--model", pte, "--ids", "7,8,9", "--n-predict", 6)
    assert run("runner/run_qwen3.py", *arguments, monkeypatch=monkeypatch) == 0
    captured = capsys.readouterr()
    assert [int(token) for token in captured.out.split()] == expected
    assert "3 tokens in, 6 out" in captured.err

    write_gguf("qwen3/other.gguf", SMALL["qwen2"])
    assert run("runner/run_qwen3.py", *arguments, monkeypatch=monkeypatch) == 2
    assert "name one with --gguf" in capsys.readouterr().err
    wrong = (*arguments, "--gguf", "qwen3/other.gguf")
    assert run("runner/run_qwen3.py", *wrong, monkeypatch=monkeypatch) == 2
    assert "missing or do not fit" in capsys.readouterr().err
