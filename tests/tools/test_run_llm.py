"""run_llm: the text it writes, when it stops, and what it says of what is wrong."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte
from tests import gguf_models
from tests.programs import ONE_THREAD, Program
from tests.tools.conftest import PROMPT, SPEC, Model, text_of, with_eos

#: Continue PROMPT as it is, with an exact cache.
RAW = ("--no-chat-template", "--cache-type", "f32", "-p", PROMPT)


def figures(stderr: str) -> dict[str, str]:
    """``name: value`` pairs of the closing lines in brackets."""
    lines = re.findall(r"^\[(.*)\]$", stderr, re.MULTILINE)
    parts = [part.split(": ", 1) for line in lines for part in line.split(" | ")]
    return {part[0]: part[1] if len(part) == 2 else "" for part in parts}


class TestText:
    def test_greedy_text_is_that_of_transformers(
        self, run_llm: Program, tiny: Model, greedy: list[int]
    ) -> None:
        result = run_llm(tiny.pte, "--gguf", tiny.gguf, *RAW, "-n", len(greedy))
        assert result.code == 0, result.err
        assert result.out.rstrip("\n") == text_of(greedy).rstrip("\n")
        assert result.out.endswith("\n")
        assert "token limit" in figures(result.err)
        assert figures(result.err)["prompt"].startswith(f"{len(PROMPT)} tokens")
        assert figures(result.err)["answer"].startswith(f"{len(greedy)} tokens")

    def test_weights_in_memory_give_the_same_text(
        self, run_llm: Program, tiny: Model, greedy: list[int]
    ) -> None:
        result = run_llm(tiny.pte, "--gguf", tiny.gguf, *RAW, "-n", len(greedy), "--no-mmap")
        assert result.code == 0, result.err
        assert result.out.rstrip("\n") == text_of(greedy).rstrip("\n")

    @pytest.mark.parametrize("bound", [1, 4])
    def test_a_prompt_in_several_calls_gives_the_same_text(
        self, run_llm: Program, tiny: Model, greedy: list[int], bound: int
    ) -> None:
        result = run_llm(
            *(tiny.pte, "--gguf", tiny.gguf, *RAW, "-n", len(greedy)),
            env={"GGML_MAX_TOKENS_PER_CALL": str(bound)},
        )
        assert result.out.rstrip("\n") == text_of(greedy).rstrip("\n"), result.err

    @pytest.mark.network
    def test_smollm2_counts_on(self, run_llm: Program, smollm2: Model) -> None:
        result = run_llm(
            *(smollm2.pte, "--gguf", smollm2.gguf, "--no-chat-template", "-n", 20),
            *("-p", "1, 2, 3, 4, 5, 6,"),
        )
        assert result.out == " 7, 8, 9, 10, 11, 12\n", result.err

    @pytest.mark.network
    def test_smollm2_answers_and_ends(self, run_llm: Program, smollm2: Model) -> None:
        result = run_llm(
            *(smollm2.pte, "--gguf", smollm2.gguf, "-n", 64),
            *("--prompt", "What is the capital of France?"),
        )
        assert result.code == 0
        assert "Paris" in result.out
        assert "<|im_" not in result.out
        assert "end of text" in figures(result.err)


class TestSampling:
    def run(self, run_llm: Program, tiny: Model, *arguments: object) -> str:
        result = run_llm(tiny.pte, "--gguf", tiny.gguf, *RAW, "-n", 24, *arguments)
        assert result.code == 0, result.err
        return result.out

    def test_a_seed_makes_it_repeatable(self, run_llm: Program, tiny: Model) -> None:
        hot = ("--temp", 2, "--top-k", 0, "--top-p", 1, "--min-p", 0)
        first = self.run(run_llm, tiny, *hot, "--seed", 1)
        assert first == self.run(run_llm, tiny, *hot, "--seed", 1)
        assert first != self.run(run_llm, tiny, *hot, "--seed", 2)

    @pytest.mark.parametrize("narrow", [("--top-k", 1), ("--top-p", 0), ("--min-p", 1)])
    def test_one_candidate_is_greedy(
        self, run_llm: Program, tiny: Model, greedy: list[int], narrow: tuple[object, ...]
    ) -> None:
        text = self.run(run_llm, tiny, "--temp", 2, *narrow)
        assert text.rstrip("\n") == text_of(greedy).rstrip("\n")

    def test_repeat_penalty_avoids_what_was_said(
        self, run_llm: Program, tiny: Model, greedy: list[int]
    ) -> None:
        said = set(PROMPT.encode())
        penalised = self.run(run_llm, tiny, "--repeat-penalty", 100)
        plain = text_of(greedy)
        assert penalised.rstrip("\n") != plain.rstrip("\n")
        # With this penalty no token of positive logit is repeated.
        letters = [c for c in penalised.rstrip("\n") if ord(c) < 128]
        assert len(letters) == len(set(letters))
        assert said.isdisjoint(map(ord, letters))


class TestStop:
    def test_at_the_files_end_of_text(
        self, run_llm: Program, tiny: Model, greedy: list[int], tmp_path: Path
    ) -> None:
        end = greedy[-1]
        before = greedy[: greedy.index(end)]
        path = with_eos(tiny, end, tmp_path)
        result = run_llm(tiny.pte, "--gguf", path, *RAW)
        assert result.code == 0, result.err
        assert result.out.rstrip("\n") == text_of(before).rstrip("\n")
        assert "end of text" in figures(result.err)

    def test_at_the_programs_end_of_text(
        self, run_llm: Program, tiny: Model, greedy: list[int], tmp_path: Path
    ) -> None:
        end = greedy[-1]
        before = greedy[: greedy.index(end)]
        pte = tmp_path / "eos.pte"
        config = GGUFExportConfig(max_seq_len=64, forward_all=False)
        export_gguf_to_pte(with_eos(tiny, end, tmp_path), pte, config)
        result = run_llm(pte, "--gguf", tiny.gguf, *RAW)
        assert result.out.rstrip("\n") == text_of(before).rstrip("\n"), result.err
        assert "end of text" in figures(result.err)

    def test_at_the_contexts_end(self, run_llm: Program, tiny: Model, greedy: list[int]) -> None:
        context = len(PROMPT) + 8
        result = run_llm(tiny.pte, "--gguf", tiny.gguf, *RAW, "--ctx", context)
        assert result.code == 0, result.err
        # The last position's logits still give a token.
        assert result.out.rstrip("\n") == text_of(greedy[:9]).rstrip("\n")
        assert "context full" in figures(result.err)
        assert f"all {context} positions of the context are used" in result.err

    def test_a_prompt_that_just_fits_gives_a_token(
        self, run_llm: Program, tiny: Model, greedy: list[int]
    ) -> None:
        result = run_llm(tiny.pte, "--gguf", tiny.gguf, *RAW, "--ctx", len(PROMPT))
        assert result.out.rstrip("\n") == text_of(greedy[:1]).rstrip("\n"), result.err

    @pytest.mark.network
    def test_at_ctrl_c(self, run_llm: Program, smollm2: Model) -> None:
        command = run_llm.command(
            *(smollm2.pte, "--gguf", smollm2.gguf, "--no-chat-template", "--ctx", 8192),
            *("-p", "1, 2, 3, 4, 5, 6,"),
        )
        with subprocess.Popen(
            command,
            env={**os.environ, **ONE_THREAD},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            first = process.stdout.read(6)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        assert process.returncode == 130
        assert (first + out).startswith(b" 7, 8,")
        assert (first + out).endswith(b"\n")
        assert "interrupted" in figures(err.decode())


class TestConversation:
    def test_without_a_template_both_write_one_text(self, run_llm: Program, tiny: Model) -> None:
        arguments = (tiny.pte, "--gguf", tiny.gguf, "--cache-type", "f32", "-n", 6)
        talk = run_llm(*arguments, "--stats", stdin="Hello\n\n again\n")
        assert talk.code == 0, talk.err
        assert "has no chat template" in talk.err
        first = run_llm(*arguments, "--no-chat-template", "-p", "Hello")
        assert talk.out.startswith(first.out)

    def test_reset_forgets(self, run_llm: Program, tiny: Model) -> None:
        arguments = (tiny.pte, "--gguf", tiny.gguf, "--cache-type", "f32", "-n", 6)
        talk = run_llm(
            *arguments, "--no-chat-template", stdin="Hello\n/reset\nHello\n/exit\nHello\n"
        )
        assert talk.code == 0, talk.err
        half = len(talk.out) // 2
        assert talk.out[:half] == talk.out[half:]

    def test_a_turn_that_does_not_fit_is_no_end(self, run_llm: Program, tiny: Model) -> None:
        arguments = (tiny.pte, "--gguf", tiny.gguf, "--cache-type", "f32", "-n", 6, "--ctx", 32)
        talk = run_llm(*arguments, "--no-chat-template", stdin=f"{'x' * 40}\nHello\n/what\n/help\n")
        assert talk.code == 0
        assert "the prompt has 40 tokens and the context holds 32" in talk.err
        assert "unknown command '/what'" in talk.err
        assert "/reset" in talk.err
        alone = run_llm(*arguments, "--no-chat-template", "-p", "Hello")
        assert talk.out == alone.out

    def test_a_prompt_can_begin_it(self, run_llm: Program, tiny: Model) -> None:
        arguments = (tiny.pte, "--gguf", tiny.gguf, "--cache-type", "f32", "-n", 6)
        talk = run_llm(*arguments, "--no-chat-template", "-i", "-p", "Hello", stdin="/exit\n")
        assert talk.out == run_llm(*arguments, "--no-chat-template", "-p", "Hello").out

    @pytest.mark.network
    def test_smollm2_remembers_and_reuses_its_cache(self, run_llm: Program, smollm2: Model) -> None:
        questions = ("What is the capital of France?", "And what is the capital of Italy?")
        arguments = (smollm2.pte, "--gguf", smollm2.gguf, "-n", 32, "--stats")
        talk = run_llm(*arguments, stdin="\n".join(questions) + "\n")
        assert talk.code == 0, talk.err
        first, second = talk.out.splitlines()
        # The same answer as to the whole conversation in one piece.
        turns = (("user", questions[0]), ("assistant", first), ("user", questions[1]))
        whole = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns)
        prompt = whole + "<|im_start|>assistant\n"
        alone = run_llm(*arguments, "--no-chat-template", "-p", prompt)
        assert second == alone.out.rstrip("\n")
        assert "Paris" in first
        assert "Rome" in second
        reused = [int(n) for n in re.findall(r"reused: (\d+) tokens", talk.err)]
        prompts = [int(n) for n in re.findall(r"\[prompt: (\d+) tokens", talk.err)]
        assert len(reused) == len(prompts) == 2
        assert reused[0] == 0
        # The second prompt holds the first, and its answer, from the cache.
        assert reused[1] >= prompts[0]

    @pytest.mark.network
    def test_system_text_and_template_by_name(self, run_llm: Program, smollm2: Model) -> None:
        arguments = (smollm2.pte, "--gguf", smollm2.gguf, "-n", 8, "-p", "Hi")
        plain = figures(run_llm(*arguments).err)["prompt"]
        told = figures(run_llm(*arguments, "--system", "You are a pirate.").err)["prompt"]
        assert int(told.split()[0]) > int(plain.split()[0])
        named = figures(run_llm(*arguments, "--chat-template", "llama2").err)["prompt"]
        assert named.split()[0] != plain.split()[0]


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "missing argument: MODEL.pte"),
            (("m.pte",), "--gguf is missing"),
            (("m.pte", "--gguf", "m.gguf", "-n", "0"), "-n is '0', expected a whole number"),
            (("m.pte", "--gguf", "m.gguf", "-n", "-3"), "-n is '-3', expected a whole number"),
            (("m.pte", "--gguf", "m.gguf", "--ctx", "0"), "--ctx is '0'"),
            (("m.pte", "--gguf", "m.gguf", "--threads", "none"), "--threads is 'none'"),
            (("m.pte", "--gguf", "m.gguf", "--temp", "-1"), "--temp is '-1'"),
            (("m.pte", "--gguf", "m.gguf", "--cache-type", "f8"), "one of f32|f16|q8_0"),
            (("m.pte", "--gguf", "m.gguf", "--what"), "unknown option '--what'"),
            (("m.pte", "--gguf", "m.gguf", "-p", ""), "the prompt is empty"),
            (
                ("m.pte", "--gguf", "m.gguf", "--no-chat-template", "--system", "x"),
                "--system needs a chat template",
            ),
        ],
    )
    def test_command_lines(
        self, run_llm: Program, arguments: tuple[str, ...], message: str
    ) -> None:
        result = run_llm(*arguments)
        assert result.code == 2
        assert message in result.err
        assert "--help" in result.err
        assert result.out == ""

    def test_help(self, run_llm: Program) -> None:
        result = run_llm("--help")
        assert result.code == 0
        for option in ("--gguf", "--top-k", "--repeat-penalty", "--no-chat-template", "--ctx"):
            assert option in result.out

    def test_missing_files_are_named(self, run_llm: Program, tiny: Model) -> None:
        result = run_llm("no.pte", "--gguf", tiny.gguf, "-p", "x")
        assert result.code == 1
        assert "run_llm: error: cannot open program 'no.pte'" in result.err
        result = run_llm(tiny.pte, "--gguf", "no.gguf", "-p", "x")
        assert result.code == 1
        assert "no.gguf" in result.err

    def test_files_that_are_something_else(
        self, run_llm: Program, tiny: Model, tmp_path: Path
    ) -> None:
        result = run_llm(tiny.gguf, "--gguf", tiny.gguf, "-p", "x")
        assert result.code == 1
        assert "is no ExecuTorch program" in result.err
        other = tmp_path / "other.gguf"
        other.write_bytes(tiny.pte.read_bytes())
        result = run_llm(tiny.pte, "--gguf", other, "-p", "x")
        assert result.code == 1
        assert "other.gguf" in result.err

    def test_weights_of_another_model_are_listed(
        self, run_llm: Program, tiny: Model, tmp_path: Path
    ) -> None:
        other = gguf_models.write_gguf(tmp_path / "llama.gguf", gguf_models.SMALL["llama"])
        result = run_llm(tiny.pte, "--gguf", other, "-p", "x")
        assert result.code == 1
        assert "run_llm: error:" in result.err
        assert "'token_embd.weight' is f32[96, 512" in result.err
        assert "more" in result.err

    def test_same_vocabulary_but_other_weights(
        self, run_llm: Program, tiny: Model, tmp_path: Path
    ) -> None:
        other = dataclasses.replace(SPEC, ffn=192)
        path = gguf_models.write_gguf(tmp_path / "wide.gguf", other)
        result = run_llm(tiny.pte, "--gguf", path, "-p", "x")
        assert result.code == 1
        for name in ("blk.0.ffn_gate.weight", "blk.2.ffn_down.weight", "160", "192"):
            assert name in result.err

    def test_a_prompt_longer_than_the_context(self, run_llm: Program, tiny: Model) -> None:
        result = run_llm(tiny.pte, "--gguf", tiny.gguf, *RAW, "--ctx", len(PROMPT) - 1)
        assert result.code == 1
        assert f"{len(PROMPT)} tokens and the context holds {len(PROMPT) - 1}" in result.err
        assert "--ctx" in result.err

    def test_a_context_that_the_model_has_not(self, run_llm: Program, tiny: Model) -> None:
        result = run_llm(tiny.pte, "--gguf", tiny.gguf, *RAW, "--ctx", 4097)
        assert result.code == 1
        assert "4096" in result.err

    def test_unknown_template(self, run_llm: Program, tiny: Model) -> None:
        result = run_llm(tiny.pte, "--gguf", tiny.gguf, "-p", "x", "--chat-template", "klingon")
        assert result.code == 1
        assert "chatml" in result.err
