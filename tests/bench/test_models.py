"""What a token reads of a file, counted by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.models import counted_matrices, position_elements, random_gguf, reads
from tests import gguf_models

SPEC = gguf_models.WIDE["qwen3"]


@pytest.mark.parametrize("tied", [True, False])
def test_bytes_of_a_token(tmp_path: Path, tied: bool) -> None:
    spec = dataclasses.replace(SPEC, tied=tied)
    path = gguf_models.write_gguf(tmp_path / "model.gguf", spec, "Q8_0")
    q, kv = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    layer = spec.hidden * (2 * q + 2 * kv + 3 * spec.ffn)
    # The output's matrix is read whole; the embedding is the same one or only looked up.
    n_weights = spec.n_layers * layer + spec.vocab * spec.hidden
    found = reads(path)
    assert found.n_weights == n_weights
    assert found.weight_bytes == n_weights // 32 * 34
    assert found.position_elements == spec.n_layers * 2 * kv


def test_an_embedding_that_is_only_looked_up_is_not_read() -> None:
    shapes = {"token_embd.weight": (8, 4), "blk.0.ffn_up.weight": (4, 8), "norm.weight": (4,)}
    assert counted_matrices(shapes) == {"token_embd.weight", "blk.0.ffn_up.weight"}
    assert counted_matrices({**shapes, "output.weight": (8, 4)}) == {
        "output.weight",
        "blk.0.ffn_up.weight",
    }


def test_heads_of_the_default_length() -> None:
    metadata = {"block_count": 3, "embedding_length": 96, "attention.head_count": 6}
    assert position_elements(metadata) == 3 * 6 * 2 * 16
    assert position_elements({**metadata, "attention.head_count_kv": 2}) == 3 * 2 * 2 * 16
    lengths = {"attention.key_length": 32, "attention.value_length": 8}
    assert position_elements({**metadata, **lengths}) == 3 * 6 * 40


def test_a_file_that_is_there_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.models.CACHE", tmp_path)
    path = tmp_path / "qwen3-0.6b-q4_0.gguf"
    path.write_bytes(b"there")
    assert random_gguf("Q4_0", tmp_path / "no-quantizer") == path
    assert path.read_bytes() == b"there"
