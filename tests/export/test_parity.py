"""Exported programs, run eagerly on a file's weights, equal transformers' models."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from executorch_ggml.export_gguf import GGUFExportConfig
from executorch_ggml.gguf.program import build_programs
from executorch_ggml.weights.gguf import GGUFFile
from tests import gguf_models
from tests.export.reference import (
    SCHEDULE,
    load_weights,
    reference_cache,
    run_steps,
    transformers_logits,
    transformers_model,
)
from tests.gguf_models import SMALL, ModelSpec

_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
_LINEAR = {"rope_type": "linear", "factor": 4.0}

_SPECS = {
    **SMALL,
    "llama-llama3-rope": dataclasses.replace(SMALL["llama"], rope_scaling=_LLAMA3),
    "llama-linear-rope": dataclasses.replace(SMALL["llama"], rope_scaling=_LINEAR),
    "qwen3-yarn-rope": dataclasses.replace(SMALL["qwen3"], rope_scaling=_YARN, rope_base=1e4),
    "qwen3-untied": dataclasses.replace(SMALL["qwen3"], tied=False),
    "llama-wide-heads": dataclasses.replace(SMALL["llama"], head_dim=32),
}


@pytest.mark.parametrize("spec", _SPECS.values(), ids=_SPECS.keys())
def test_equals_transformers(spec: ModelSpec, tmp_path: Path) -> None:
    path = str(gguf_models.write_gguf(tmp_path / "model.gguf", spec))
    torch.manual_seed(1)
    ids = torch.randint(0, spec.vocab, (1, sum(SCHEDULE)))
    expected = transformers_logits(transformers_model(spec), ids)
    spread = expected.std()
    assert spread >= 1.0

    programs = build_programs(GGUFFile.open(path), GGUFExportConfig(max_seq_len=128))
    assert sorted(programs.methods) == ["forward", "forward_all"]
    for name, program in programs.methods.items():
        module = load_weights(program, programs.weight_keys, path).module()
        with reference_cache(programs.cache, 64):
            outputs = run_steps(module, ids, SCHEDULE)
        end = 0
        for n, rows in zip(SCHEDULE, outputs, strict=True):
            end += n
            first = end - n if name == "forward_all" else end - 1
            assert rows.shape == (end - first, spec.vocab)
            error = (rows - expected[first:end]).abs().max()
            assert error <= 1e-4 * spread, f"{name}, positions up to {end}"
