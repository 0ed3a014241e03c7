"""benchmark_llm: its figures hold together, and it says what is wrong."""

from __future__ import annotations

import json
import re
import statistics

import pytest

from tests.programs import Program
from tests.tools.conftest import SPEC, Model


def test_json(benchmark_llm: Program, tiny: Model) -> None:
    result = benchmark_llm(
        *(tiny.pte, "--gguf", tiny.gguf, "--prompt-len", 100, "--n-decode", 20),
        *("--repeat", 4, "--threads", 1, "--cache-type", "f32", "--json"),
    )
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["program"] == str(tiny.pte)
    assert report["gguf"] == str(tiny.gguf)
    assert report["threads"] == 1
    assert report["context"] == 256
    assert report["cache_type"] == "f32"
    assert report["flash_attention"] is True
    assert report["mmap"] is True
    assert report["vocab_size"] == SPEC.vocab
    assert report["tokens_per_call"] == 64
    assert report["warmed_up"] is True
    for name, tokens in (("prefill", 100), ("decode", 20)):
        phase = report[name]
        assert phase["tokens"] == tokens
        assert len(phase["seconds"]) == report["repeat"] == 4
        rates = [tokens / s for s in phase["seconds"]]
        rate = phase["tokens_per_second"]
        assert rate["mean"] == pytest.approx(statistics.mean(rates))
        assert rate["stddev"] == pytest.approx(statistics.stdev(rates))
        assert rate["min"] == pytest.approx(min(rates))
        assert rate["max"] == pytest.approx(max(rates))
    step = report["decode"]["step_ms"]
    assert 0 < step["min"] <= step["median"] <= step["p95"] <= step["max"]
    # The steps are all that a run does.
    total = statistics.mean(report["decode"]["seconds"]) * 1e3
    assert step["mean"] * 20 == pytest.approx(total, rel=0.01)
    assert report["time_to_first_token_seconds"] == pytest.approx(
        statistics.mean(report["prefill"]["seconds"])
    )
    assert report["time_to_first_token_from_start_seconds"] > report["load_seconds"] > 0
    # Of this program alone: the interpreter that started it holds far more.
    assert tiny.gguf.stat().st_size < report["peak_memory_bytes"] < 100 << 20


def test_table(benchmark_llm: Program, tiny: Model) -> None:
    result = benchmark_llm(tiny.pte, "--gguf", tiny.gguf, "--n-decode", 8, "--prompt-len", 5)
    assert result.code == 0, result.err
    for line in ("load", "prefill", "decode", "decode step", "first token", "peak memory"):
        assert re.search(rf"^{line} +[0-9]", result.out, re.MULTILINE), result.out


@pytest.mark.parametrize(
    ("prompt", "decode"), [(0, 8), (8, 0)], ids=["decode alone", "prefill alone"]
)
def test_one_phase_alone(benchmark_llm: Program, tiny: Model, prompt: int, decode: int) -> None:
    result = benchmark_llm(
        *(tiny.pte, "--gguf", tiny.gguf, "--prompt-len", prompt, "--n-decode", decode),
        *("--repeat", 2, "--no-warmup", "--json"),
    )
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert len(report["prefill"]["seconds"]) == (2 if prompt else 0)
    assert len(report["decode"]["seconds"]) == (2 if decode else 0)
    assert report["time_to_first_token_seconds"] > 0
    assert report["time_to_first_token_from_start_seconds"] > report["load_seconds"]


def test_depth_fills_the_cache_once_before_the_runs(benchmark_llm: Program, tiny: Model) -> None:
    arguments = (tiny.pte, "--gguf", tiny.gguf, "--prompt-len", 0, "--n-decode", 2)
    arguments += ("--repeat", 2, "--no-warmup", "--depth", 150)
    result = benchmark_llm(*arguments, "--json", env={"GGML_PERF_LOG": "1"})
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert report["depth"] == 150
    assert report["prefill"]["seconds"] == []
    assert len(report["decode"]["seconds"]) == 2
    assert len(re.findall(r"^filling 150 positions", result.err, re.MULTILINE)) == 1
    # 150 tokens in calls of 64, then two runs of two steps.
    quiet = benchmark_llm(*arguments, "--json")
    assert len(result.err.splitlines()) - len(quiet.err.splitlines()) >= 3 + 2 * 2
    assert "after 150 positions" in benchmark_llm(*arguments).out


def test_weights_in_memory(benchmark_llm: Program, tiny: Model) -> None:
    arguments = (tiny.pte, "--gguf", tiny.gguf, "--n-decode", 4, "--repeat", 1)
    result = benchmark_llm(*arguments, "--no-mmap", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["mmap"] is False
    assert "weights in memory" in benchmark_llm(*arguments, env={"GGML_NO_MMAP": "1"}).out


def test_perf_log_breaks_each_call_down(benchmark_llm: Program, tiny: Model) -> None:
    arguments = (tiny.pte, "--gguf", tiny.gguf, "--n-decode", 4, "--prompt-len", 5)
    quiet = benchmark_llm(*arguments)
    logged = benchmark_llm(*arguments, env={"GGML_PERF_LOG": "1"})
    assert logged.code == 0
    # Warm-up: a prompt and two steps; three runs: a prompt and four steps each.
    assert len(logged.err.splitlines()) - len(quiet.err.splitlines()) >= 3 + 3 * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--n-decode", "-1"), "--n-decode is '-1', expected a whole number from 0"),
        (("--prompt-len", "5.5"), "--prompt-len is '5.5'"),
        (("--repeat", "0"), "--repeat is '0'"),
        (("--prompt-len", "0", "--n-decode", "0"), "nothing to measure"),
    ],
)
def test_command_lines(
    benchmark_llm: Program, tiny: Model, arguments: tuple[str, ...], message: str
) -> None:
    result = benchmark_llm(tiny.pte, "--gguf", tiny.gguf, *arguments)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_more_than_the_context_holds(benchmark_llm: Program, tiny: Model) -> None:
    arguments = (tiny.pte, "--gguf", tiny.gguf, "--prompt-len", 200, "--n-decode", 57)
    result = benchmark_llm(*arguments)
    assert result.code == 1
    assert "need 257 positions and the context holds 256; set --ctx 257" in result.err
    assert benchmark_llm(*arguments, "--ctx", 257, "--repeat", 1).code == 0
    deep = benchmark_llm(*arguments, "--depth", 100)
    assert "--depth 100, --prompt-len 200 and --n-decode 57 need 357" in deep.err


def test_missing_weights_are_an_error(benchmark_llm: Program, tiny: Model) -> None:
    result = benchmark_llm(tiny.pte)
    assert result.code == 1
    assert "benchmark_llm: error:" in result.err
    assert "token_embd.weight" in result.err


def test_a_program_that_is_no_language_model(
    benchmark_llm: Program, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import torch

    from executorch_ggml import GgmlPartitioner, to_edge_rewrite_and_lower

    exported = torch.export.export(torch.nn.Linear(4, 8).eval(), (torch.ones(2, 4),))
    edge = to_edge_rewrite_and_lower(exported, partitioner=[GgmlPartitioner()])
    path = tmp_path_factory.mktemp("linear") / "linear.pte"
    path.write_bytes(edge.to_executorch().buffer)
    result = benchmark_llm(path)
    assert result.code == 1
    assert "is no language model that this program can run" in result.err
    assert "Float [2, 4]" in result.err
