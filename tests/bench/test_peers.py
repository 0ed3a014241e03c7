"""What the programs print, and the sizes that they are given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.machine import ChildError, Finished
from bench.models import Model
from bench.peers import (
    DEEP_REPEATS,
    REPEATS,
    Lengths,
    benchmark_llm,
    llama_bench_rate,
    our_first_token,
    report_of,
)
from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte
from tests import gguf_models
from tests.programs import program


def row(prompt: int, decode: int, depth: int, rate: float) -> dict[str, float]:
    return {"n_prompt": prompt, "n_gen": decode, "n_depth": depth, "avg_ts": rate, "stddev_ts": 0.5}


def test_the_row_of_the_lengths_is_read() -> None:
    rows = [row(512, 0, 0, 270.5), row(0, 128, 0, 43.25), row(0, 128, 4096, 21.5)]
    assert llama_bench_rate(rows, Lengths(prompt=512)) == 270.5
    assert llama_bench_rate(rows, Lengths(decode=128)) == 43.25
    assert llama_bench_rate(rows, Lengths(decode=128, depth=4096)) == 21.5
    with pytest.raises(ChildError, match=r"reports nothing of .*'n_gen': 64"):
        llama_bench_rate(rows, Lengths(decode=64))


def test_what_is_no_json_is_shown() -> None:
    with pytest.raises(ChildError, match=r"llama-bench printed no JSON: 'usage: …'"):
        report_of("llama-bench", Finished("usage: …", 1.0, None))


@pytest.mark.parametrize(
    ("lengths", "context", "repeats", "phase"),
    [
        (Lengths(prompt=512), 512, REPEATS, "prefill"),
        (Lengths(decode=128), 256, REPEATS, "decode"),
        (Lengths(decode=32, depth=4096), 4352, DEEP_REPEATS, "decode"),
    ],
)
def test_sizes(lengths: Lengths, context: int, repeats: int, phase: str) -> None:
    assert (lengths.context, lengths.repeats, lengths.phase) == (context, repeats, phase)


def test_our_programs_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_N_THREADS", "1")
    spec = gguf_models.SMALL["qwen3"]
    gguf = gguf_models.write_gguf(tmp_path / "tiny.gguf", spec)
    export_gguf_to_pte(gguf, tmp_path / "tiny.pte", GGUFExportConfig(max_seq_len=64))
    model = Model("tiny", "F32", gguf, tmp_path / "tiny.pte", "Hello")
    benchmark = program("benchmark/benchmark_llm").path
    for lengths in (Lengths(prompt=70), Lengths(decode=3), Lengths(decode=3, depth=100)):
        for mmap in (True, False):
            speed = benchmark_llm(benchmark, model, lengths, 1, mmap)
            assert speed.tokens_per_second > 0
    for mmap in (True, False):
        assert 0 < our_first_token(program("bin/run_llm").path, model, 1, mmap) < 60


def test_a_program_of_ours_that_fails_is_named(tmp_path: Path) -> None:
    model = Model("none", "F32", tmp_path / "no.gguf", tmp_path / "no.pte", "Hello")
    with pytest.raises(ChildError, match=r"benchmark_llm ended with 1: .*no\.pte"):
        benchmark_llm(program("benchmark/benchmark_llm").path, model, Lengths(decode=1), 1)


def test_reports_hold_what_json_holds() -> None:
    assert report_of("ours", Finished(json.dumps({"decode": 1}), 1.0, None)) == {"decode": 1}
