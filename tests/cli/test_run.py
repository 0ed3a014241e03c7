"""``run``, ``verify``, ``bench`` and ``export`` on small programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli.conftest import Command, Model, make_linear, make_mixed

HERE = "tests.cli.conftest"


# --- run ---------------------------------------------------------------------------------


def test_run_saves_what_pytorch_computes(
    command: Command, linear: Path, ones: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.npz"
    result = command("run", linear, "--input", ones, "--save", saved)
    assert result.code == 0
    assert "[3, 8]" in result.out
    assert "float32" in result.out
    with np.load(saved) as archive:
        assert sorted(archive.files) == ["input0", "output0"]
        actual = torch.from_numpy(archive["output0"])
    with torch.no_grad():
        torch.testing.assert_close(actual, make_linear()(torch.ones(3, 4)), rtol=1e-5, atol=1e-6)


def test_run_with_kernels_of_executorch(command: Command, mixed: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.npz"
    assert command("run", mixed, "--random", "--save", saved).code == 0
    with np.load(saved) as archive:
        inputs, actual = (torch.from_numpy(archive[n]) for n in ("input0", "output0"))
    with torch.no_grad():
        torch.testing.assert_close(actual, make_mixed()(inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["npz", "pt", "pt-list"])
def test_kinds_of_input_files(command: Command, linear: Path, tmp_path: Path, kind: str) -> None:
    value = torch.full((2, 4), 0.5)
    path = tmp_path / f"x.{kind.split('-')[0]}"
    if kind == "npz":
        np.savez(path, x=value.numpy())
    else:
        torch.save([value] if kind == "pt-list" else value, path)
    result = command("run", linear, "--input", path)
    assert result.code == 0
    assert "[2, 8]" in result.out


def test_random_inputs_are_the_same_for_a_seed(command: Command, linear: Path) -> None:
    sized = ("run", linear, "--random", "--size", "0=5x4")
    first = command(*sized, "--seed", "7")
    assert "[5, 8]" in first.out
    assert command(*sized, "--seed", "7").out == first.out
    assert command(*sized, "--seed", "8").out != first.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the method takes float32[64, 4]".replace("the", "The")),
        (["--random", "--size", "0=5x3"], "input 0"),
        (["--random", "--size", "0=65x4"], "input 0 has sizes [65, 4], expected [64, 4] at most"),
        (["--random", "--size", "1=5x4"], "--size names input 1"),
        (["--random", "--size", "five"], "expected INPUT=SIZES"),
        (["--random", "--option", "threads"], "expected KEY=VALUE"),
        (["--random", "--option", "n_threads=none"], "n_threads"),
        (["--random", "--method", "backward"], "has no method 'backward'; it has forward"),
        (["--random", "--save", "out.txt"], "must end in .npz"),
        (["--ids", "1,2"], "no language model"),
    ],
)  # fmt: skip
def test_run_refuses(command: Command, linear: Path, arguments: list[str], message: str) -> None:
    result = command("run", linear, *arguments)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_element_types(command: Command, linear: Path, tmp_path: Path) -> None:
    path = tmp_path / "double.npy"
    np.save(path, np.ones((3, 4)))
    result = command("run", linear, "--input", path)
    assert result.code == 2
    assert "input 0 is float64, expected float32; --cast converts it" in result.err
    assert command("run", linear, "--input", path, "--cast").code == 0


def test_integers_are_cast_only_without_loss(
    command: Command, model: Model, tmp_path: Path
) -> None:
    files = []
    for name, value in (("ids", np.full((1, 1), 1.5)), ("positions", np.zeros(1, np.int64))):
        files += ["--input", tmp_path / f"{name}.npy"]
        np.save(files[-1], value)
    result = command("run", model.pte, "--gguf", model.gguf, *files, "--cast")
    assert result.code == 2
    assert "input 0: its values do not fit int64" in result.err


def test_damaged_inputs(command: Command, linear: Path, tmp_path: Path) -> None:
    for name in ("x.npy", "x.npz", "x.pt", "x.txt"):
        path = tmp_path / name
        path.write_bytes(b"no tensor at all")
        result = command("run", linear, "--input", path)
        assert result.code == 2
        assert name in result.err
        assert "Traceback" not in result.err


def test_tokens_in_and_greedy_tokens_out(command: Command, model: Model) -> None:
    from executorch_ggml.gguf_module import GGUFModule

    ids = [5, 6, 7]
    result = command(
        "run", model.pte, "--gguf", model.gguf, "--ids", "5,6,7", "--n-predict", "4",
        "--option", "cache_type=f32",
    )  # fmt: skip
    assert result.code == 0
    expected: list[int] = []
    with GGUFModule(model.pte, model.gguf, cache_type="f32") as module:
        (logits,) = module.forward(torch.tensor([ids]), torch.arange(3))
        for position in range(3, 7):
            expected.append(int(logits[0, -1].argmax()))
            (logits,) = module.forward(torch.tensor([expected[-1:]]), torch.tensor([position]))
    assert f"greedy continuation: {','.join(map(str, expected))}\n" in result.out


def test_a_prompt_needs_the_cpp_program(command: Command, model: Model) -> None:
    result = command("run", model.pte, "--gguf", model.gguf, "--prompt", "hello")
    assert result.code == 2
    assert "run_llm" in result.err


def test_a_token_out_of_range(command: Command, model: Model) -> None:
    result = command("run", model.pte, "--gguf", model.gguf, "--ids", "5,512")
    assert result.code == 2
    assert "512" in result.err
    assert "Traceback" not in result.err


# --- verify ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["make_linear", "linear_function"])
def test_verify_against_pytorch(command: Command, linear: Path, name: str) -> None:
    result = command("verify", linear, "--random", "--against", f"{HERE}:{name}")
    assert result.code == 0
    assert "OK: 1 output equal" in result.out


def test_verify_finds_other_weights(command: Command, linear: Path) -> None:
    result = command("verify", linear, "--random", "--against", f"{HERE}:make_other")
    assert result.code == 1
    assert "MISMATCH" in result.out
    assert "worst at [" in result.out


def test_verify_against_a_file(command: Command, linear: Path, ones: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.npz"
    command("run", linear, "--input", ones, "--save", saved)
    assert command("verify", linear, "--reference", saved).code == 0
    with np.load(saved) as archive:
        entries = {name: archive[name].copy() for name in archive.files}

    def changed(**outputs: np.ndarray) -> Path:
        path = tmp_path / "changed.npz"
        np.savez(path, **(entries | outputs))
        return path

    output = entries["output0"]
    # The tolerance counts: an error of 0.01 is within 0.1 and not within the default.
    near = changed(output0=output + np.float32(0.01))
    result = command("verify", linear, "--reference", near)
    assert result.code == 1
    assert "24 of 24" in result.out
    assert "0.01" in result.out
    assert command("verify", linear, "--reference", near, "--atol", "0.1").code == 0
    broken = output.copy()
    broken[1, 2] = np.nan
    result = command("verify", linear, "--reference", changed(output0=broken), "--atol", "1e9")
    assert result.code == 1
    assert "worst at [1, 2]" in result.out
    result = command("verify", linear, "--reference", changed(output0=output[:2]))
    assert result.code == 1
    assert "sizes [3, 8], the reference has [2, 8]" in result.out
    result = command("verify", linear, "--reference", changed(output1=output))
    assert result.code == 1
    assert "1 outputs, the reference has 2" in result.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "expected MODULE:NAME"),
        ("no_such_module:f", "No module named"),
        (f"{HERE}:nothing", "has no 'nothing'"),
        (f"{HERE}:not_a_module", "cannot be called"),
    ],
)
def test_verify_refuses(command: Command, linear: Path, text: str, message: str) -> None:
    result = command("verify", linear, "--random", "--against", text)
    assert result.code == 2
    assert message in result.err


def test_verify_needs_outputs(command: Command, linear: Path, tmp_path: Path) -> None:
    path = tmp_path / "empty.npz"
    np.savez(path, x=np.ones(3))
    result = command("verify", linear, "--reference", path)
    assert result.code == 2
    assert "no entry output0" in result.err


# --- bench -------------------------------------------------------------------------------


def test_bench_of_calls(command: Command, linear: Path) -> None:
    result = command("bench", linear, "--iterations", "7", "--threads", "1", "--json")
    assert result.code == 0
    load, calls = json.loads(result.out)
    assert load["name"] == "load"
    assert (calls["name"], calls["unit"], len(calls["samples"])) == ("forward", "ms", 7)
    assert 0 < calls["min"] <= calls["median"] <= calls["max"]
    assert "forward" in command("bench", linear, "--iterations", "1").out


def test_bench_of_a_language_model(command: Command, model: Model) -> None:
    arguments = ("bench", model.pte, "--gguf", model.gguf, "--threads", "1")
    result = command(
        *arguments, "--prompt-len", "150", "--n-decode", "3", "--iterations", "2", "--json"
    )
    assert result.code == 0
    _, prefill, first, decode = json.loads(result.out)
    assert (prefill["unit"], first["unit"], decode["unit"]) == ("tok/s", "ms", "tok/s")
    assert len(decode["samples"]) == 2
    rate, milliseconds = prefill["samples"][0], first["samples"][0]
    assert rate * milliseconds == pytest.approx(150e3)
    result = command(*arguments, "--prompt-len", "250", "--n-decode", "7")
    assert result.code == 2
    assert "--option context=N" in result.err
    more = ("--prompt-len", "250", "--n-decode", "7", "--iterations", "1")
    assert command(*arguments, *more, "--option", "context=512").code == 0


# --- export ------------------------------------------------------------------------------


def test_export(command: Command, model: Model, tmp_path: Path) -> None:
    path = tmp_path / "out.pte"
    result = command(
        "export", model.gguf, "-o", path, "--max-seq-len", "64", "--max-tokens-per-call", "8",
        "--no-forward-all",
    )  # fmt: skip
    assert result.code == 0
    assert "lowering to ggml" in result.err
    assert f"{path}: " in result.out.replace("\n", "")
    assert "1 to 8 tokens, cache of 256 positions" in result.out
    assert "ops delegated to ggml in 1 partition" in result.out
    shown = command("inspect", path).out
    assert "method forward(long[up to 1, 8], long[up to 8])" in shown
    assert "forward_all" not in shown


def test_export_refuses(command: Command, linear: Path, model: Model, tmp_path: Path) -> None:
    result = command("export", linear)
    assert result.code == 2
    assert "is no GGUF file" in result.err
    result = command("export", model.gguf, "-o", tmp_path / "nowhere" / "x.pte")
    assert result.code == 2
    assert "folder" in result.err
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(model.gguf.read_bytes()[:500])
    result = command("export", cut, "-o", tmp_path / "x.pte")
    assert result.code == 2
    assert "cut.gguf" in result.err
    assert not (tmp_path / "x.pte").exists()
