"""Runs llama.cpp on a file, for comparison."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = Path(__file__).with_name("text.txt")

Floats = npt.NDArray[np.float32]

#: llama.cpp's file types, by name: enum llama_ftype.
FILE_TYPES = {
    "F32": 0,
    "F16": 1,
    "BF16": 32,
    "Q8_0": 7,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q4_K_M": 15,
    "Q6_K": 18,
}


def _program(name: str) -> Path:
    build = Path(os.environ.get("EXECUTORCH_GGML_BUILD_DIR", ROOT / "build"))
    path = build / "tests" / "parity" / name
    if not path.is_file():
        pytest.skip(f"{path} is not built (EXECUTORCH_GGML_BUILD_LLAMA_RUNNER)")
    return path


@dataclass(frozen=True)
class Reference:
    """llama.cpp's tokens [n] and logits [n, vocab] on a text, and a greedy continuation."""

    tokens: npt.NDArray[np.int32]
    logits: Floats
    greedy: npt.NDArray[np.int32]
    greedy_logits: Floats


def evaluate(model: Path, folder: Path, n_positions: int, n_greedy: int) -> Reference:
    out = folder / "reference.bin"
    counts = [str(n_positions), str(n_greedy)]
    subprocess.run([_program("llama_reference"), model, TEXT, out, *counts], check=True)
    raw = out.read_bytes()
    positions, vocab, greedy = (int(n) for n in np.frombuffer(raw, np.int32, 3))
    offset = 12
    parts = []
    for dtype, shape in (
        (np.int32, (positions,)),
        (np.float32, (positions, vocab)),
        (np.int32, (greedy,)),
        (np.float32, (greedy, vocab)),
    ):
        part = np.frombuffer(raw, dtype, int(np.prod(shape)), offset).reshape(shape)
        offset += part.nbytes
        parts.append(part)
    return Reference(*parts)


def quantize(source: Path, target: Path, file_type: str) -> Path:
    """Rewrite a file in one of :data:`FILE_TYPES`."""
    subprocess.run([_program("quantize"), source, target, str(FILE_TYPES[file_type])], check=True)
    return target


def divergence(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """Mean KL divergence from theirs to ours, and the share of rows with the same top token."""
    a, b = _log_softmax(ours), _log_softmax(theirs)
    kl = (np.exp(b) * (b - a)).sum(-1)
    return float(kl.mean()), float((a.argmax(-1) == b.argmax(-1)).mean())


def _log_softmax(logits: Floats) -> npt.NDArray[np.float64]:
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(-1, keepdims=True))
