"""Exported programs, run eagerly on a file's weights, equal transformers' models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from executorch_ggml.export_gguf import GGUFExportConfig
from executorch_ggml.gguf.program import build_programs
from executorch_ggml.weights.gguf import GGUFFile
from tests import gguf_models
from tests.export.reference import (
    SCHEDULE,
    SPECS,
    load_weights,
    reference_cache,
    run_steps,
    transformers_logits,
    transformers_model,
)
from tests.gguf_models import ModelSpec


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
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
