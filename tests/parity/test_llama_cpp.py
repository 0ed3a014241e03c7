"""The same file through llama.cpp and through us: distributions, top token, greedy text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from examples.fetch_model import FetchError, fetch_smollm2
from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte
from executorch_ggml.gguf_module import GGUFModule
from tests.gguf_models import WIDE, write_gguf
from tests.parity.llama_cpp import FILE_TYPES, Reference, divergence, evaluate, quantize

N_POSITIONS, N_GREEDY, PROMPT = 256, 64, 8

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def smollm2() -> Path:
    try:
        return fetch_smollm2()
    except FetchError as error:
        pytest.skip(f"SmolLM2 cannot be fetched: {error}")


@pytest.fixture(scope="module")
def reference(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return evaluate(smollm2, tmp_path_factory.mktemp("reference"), N_POSITIONS, N_GREEDY)


@pytest.fixture(scope="module")
def module(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> GGUFModule:
    pte = tmp_path_factory.mktemp("pte") / "smollm2.pte"
    export_gguf_to_pte(smollm2, pte, GGUFExportConfig(max_seq_len=512))
    return GGUFModule(pte, smollm2)


def _logits(module: GGUFModule, tokens: torch.Tensor) -> torch.Tensor:
    module.reset()
    return module.forward_all(tokens[None], torch.arange(len(tokens)))[0][0]


@pytest.mark.network
def test_distributions_agree(reference: Reference, module: GGUFModule) -> None:
    """Teacher-forced over English text: top-1 >= 99 %, mean KL divergence <= 1e-3."""
    ours = _logits(module, torch.from_numpy(reference.tokens.astype("int64")))
    kl, agreement = divergence(ours.numpy(), reference.logits)
    print(f"top-1 agreement {agreement:.4f}, mean KL {kl:.2e}")
    assert agreement >= 0.99
    assert kl <= 1e-3


@pytest.mark.network
def test_greedy_text_agrees(reference: Reference, module: GGUFModule) -> None:
    """64 greedy tokens are llama.cpp's, or first differ where two logits are within 0.1."""
    module.reset()
    prompt = torch.from_numpy(reference.tokens[:PROMPT].astype("int64"))[None]
    logits = module.forward(prompt, torch.arange(PROMPT))[0][0, -1]
    for step, expected in enumerate(reference.greedy.tolist()):
        token = int(logits.argmax())
        if token != expected:
            row = reference.greedy_logits[step]
            gap = float(row[expected] - row[token])
            print(f"token {step}: {token}, not {expected}; llama.cpp's logits differ by {gap:.4f}")
            assert gap <= 0.1
            return
        position = torch.tensor([PROMPT + step])
        logits = module.forward(torch.tensor([[token]]), position)[0][0, -1]


@pytest.mark.parametrize("architecture", sorted(WIDE))
def test_one_program_runs_every_file_type(architecture: str, tmp_path: Path) -> None:
    """Exported from the F32 file, run with each file that llama.cpp makes of it.

    Random weights spread the logits over several units, so that equal distributions mean
    equal arithmetic: both sides quantize the same activations to the same blocks.
    """
    source = write_gguf(tmp_path / "f32.gguf", WIDE[architecture])
    pte = tmp_path / "model.pte"
    export_gguf_to_pte(source, pte, GGUFExportConfig(max_seq_len=128))
    for file_type in FILE_TYPES:
        model = quantize(source, tmp_path / f"{file_type}.gguf", file_type)
        reference = evaluate(model, tmp_path, 64, 1)
        assert reference.logits.std() >= 1.0
        with GGUFModule(pte, model) as module:
            ours = _logits(module, torch.from_numpy(reference.tokens.astype("int64")))
        kl, agreement = divergence(ours.numpy(), reference.logits)
        print(f"{architecture} {file_type}: mean KL {kl:.2e}, top-1 {agreement:.3f}")
        assert kl <= 1e-3, file_type
