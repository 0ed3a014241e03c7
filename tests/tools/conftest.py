"""The built programs, and the models that they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import pytest
import torch

from examples.fetch_model import FetchError, fetch_smollm2
from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte
from tests import gguf_models
from tests.export.reference import transformers_logits, transformers_model
from tests.programs import Program, program

#: Every token of this model's vocabulary but the last two is a byte of text. With this
#: seed it does not fall into one letter.
SPEC = dataclasses.replace(gguf_models.SMALL["qwen3"], vocab=258, seed=34)
EOS = 257
PROMPT = "The prompt."


@dataclass(frozen=True)
class Model:
    """A program and the file of its weights."""

    pte: Path
    gguf: Path


@pytest.fixture(scope="session")
def run_llm() -> Program:
    return program("bin/run_llm")


@pytest.fixture(scope="session")
def benchmark_llm() -> Program:
    return program("benchmark/benchmark_llm")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A seeded random qwen3 that writes bytes; calls of up to 64 tokens, a cache of 256."""
    folder = tmp_path_factory.mktemp("tiny")
    model = Model(folder / "tiny.pte", folder / "tiny.gguf")
    gguf_models.write_gguf(model.gguf, SPEC)
    export_gguf_to_pte(model.gguf, model.pte, GGUFExportConfig(max_seq_len=64, forward_all=False))
    return model


@pytest.fixture(scope="session")
def greedy() -> list[int]:
    """The 24 tokens by which transformers continues PROMPT, each clearly the likeliest."""
    reference = transformers_model(SPEC)
    ids = list(PROMPT.encode())
    for _ in range(24):
        logits = transformers_logits(reference, torch.tensor([ids]))[-1]
        first, second = logits.topk(2).values.tolist()
        assert first - second > 0.1
        ids.append(int(logits.argmax()))
    answer = ids[len(PROMPT) :]
    assert EOS not in answer
    assert len(set(answer)) == 10
    return answer


def text_of(tokens: Sequence[int]) -> str:
    """The text that the tiny model's tokens stand for."""
    return bytes(t for t in tokens if t < 256).decode(errors="replace")


def with_eos(model: Model, token: int, folder: Path) -> Path:
    """A copy of the model's file in which ``token`` ends a text."""
    path = folder / f"eos-{token}.gguf"
    path.write_bytes(model.gguf.read_bytes())
    field = gguf.GGUFReader(path, "r+").fields["tokenizer.ggml.eos_token_id"]
    assert field.parts[-1][0] == EOS
    field.parts[-1][0] = token
    return path


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """SmolLM2-135M-Instruct, exported with a context of 512."""
    try:
        path = fetch_smollm2()
    except FetchError as error:
        pytest.skip(str(error))
    pte = tmp_path_factory.mktemp("smollm2") / "smollm2.pte"
    export_gguf_to_pte(path, pte, GGUFExportConfig(max_seq_len=512, forward_all=False))
    return Model(pte, path)
