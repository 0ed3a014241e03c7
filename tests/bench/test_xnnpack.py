"""The file that ExecuTorch's own exporter makes, and the driver that runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import xnnpack
from bench.peers import Lengths
from tests import gguf_models


@pytest.mark.slow
def test_a_small_model_is_exported_and_measured(tmp_path: Path) -> None:
    program = tmp_path / "tiny.pte"
    xnnpack.export(program, gguf_models.SMALL["qwen3"])
    assert b"XnnpackBackend" in program.read_bytes()
    for lengths in (Lengths(prompt=700), Lengths(decode=5), Lengths(decode=5, depth=600)):
        assert xnnpack.measure(program, lengths, threads=1) > 0
