"""The same file through llama.cpp and through us: distributions, top token, greedy text."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from examples.fetch_model import FetchError, fetch_smollm2
from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte
from executorch_ggml.gguf_module import GGUFModule

ROOT = Path(__file__).resolve().parents[2]
TEXT = Path(__file__).with_name("text.txt")
N_POSITIONS, N_GREEDY, PROMPT = 256, 64, 8

Logits = npt.NDArray[np.float32]


def _binary() -> Path:
    build = Path(os.environ.get("EXECUTORCH_GGML_BUILD_DIR", ROOT / "build"))
    path = build / "tests" / "parity" / "llama_reference"
    if not path.is_file():
        pytest.skip(f"{path} is not built (EXECUTORCH_GGML_BUILD_LLAMA_RUNNER)")
    return path


@pytest.fixture(scope="module")
def smollm2() -> Path:
    try:
        return fetch_smollm2()
    except FetchError as error:
        pytest.skip(f"SmolLM2 cannot be fetched: {error}")


@pytest.fixture(scope="module")
def reference(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Logits]:
    """llama.cpp's tokens and logits on the text, and its greedy continuation."""
    out = tmp_path_factory.mktemp("reference") / "out.bin"
    counts = [str(N_POSITIONS), str(N_GREEDY)]
    subprocess.run([_binary(), smollm2, TEXT, out, *counts], check=True)
    raw = out.read_bytes()
    n_positions, n_vocab, n_greedy = np.frombuffer(raw, np.int32, 3)
    offset = 12

    def take(dtype: type, *shape: int) -> Logits:
        nonlocal offset
        count = int(np.prod(shape))
        found = np.frombuffer(raw, dtype, count, offset).reshape(shape)
        offset += found.nbytes
        return found

    return {
        "tokens": take(np.int32, n_positions),
        "logits": take(np.float32, n_positions, n_vocab),
        "greedy": take(np.int32, n_greedy),
        "greedy_logits": take(np.float32, n_greedy, n_vocab),
    }


@pytest.fixture(scope="module")
def module(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> GGUFModule:
    pte = tmp_path_factory.mktemp("pte") / "smollm2.pte"
    export_gguf_to_pte(smollm2, pte, GGUFExportConfig(max_seq_len=512))
    return GGUFModule(pte, smollm2)


def _log_softmax(logits: Logits) -> npt.NDArray[np.float64]:
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(-1, keepdims=True))


@pytest.mark.slow
def test_distributions_agree(reference: dict[str, Logits], module: GGUFModule) -> None:
    """Teacher-forced over English text: top-1 >= 99 %, mean KL divergence <= 1e-3."""
    module.reset()
    tokens = torch.from_numpy(reference["tokens"].astype(np.int64))[None]
    (logits,) = module.forward_all(tokens, torch.arange(N_POSITIONS))
    ours, theirs = _log_softmax(logits[0].numpy()), _log_softmax(reference["logits"])
    divergence = (np.exp(theirs) * (theirs - ours)).sum(-1)
    agreement = (ours.argmax(-1) == theirs.argmax(-1)).mean()
    print(f"top-1 agreement {agreement:.4f}, mean KL {divergence.mean():.2e}")
    assert agreement >= 0.99
    assert divergence.mean() <= 1e-3


@pytest.mark.slow
def test_greedy_text_agrees(reference: dict[str, Logits], module: GGUFModule) -> None:
    """64 greedy tokens are llama.cpp's, or first differ where two logits are within 0.1."""
    module.reset()
    prompt = torch.from_numpy(reference["tokens"][:PROMPT].astype(np.int64))[None]
    logits = module.forward(prompt, torch.arange(PROMPT))[0][0, -1]
    for step, expected in enumerate(reference["greedy"].tolist()):
        token = int(logits.argmax())
        if token != expected:
            row = reference["greedy_logits"][step]
            gap = float(row[expected] - row[token])
            print(f"token {step}: {token}, not {expected}; llama.cpp's logits differ by {gap:.4f}")
            assert gap <= 0.1
            return
        position = torch.tensor([PROMPT + step])
        logits = module.forward(torch.tensor([[token]]), position)[0][0, -1]
