"""Small decoders run through the C API: numbers, sessions and errors."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte
from tests import gguf_models
from tests.export.reference import transformers_logits, transformers_model
from tests.gguf_models import SMALL
from tests.runtime.c_api import CApiError, CProgram, library

_F32 = {"cache_type": "f32"}
_STEPS = (17, *[1] * 10, 5)


@dataclass(frozen=True)
class Model:
    """A model's files, token ids [1, n] and transformers' logits [n, vocab] for them."""

    pte: str
    gguf: str
    ids: torch.Tensor
    logits: torch.Tensor

    def open(self, **options: str) -> CProgram:
        return CProgram(self.pte, [self.gguf], _F32 | options)

    def step(self, program: CProgram, first: int, count: int, method: str = "forward_all") -> float:
        """Runs positions [first, first + count); returns the error per standard deviation."""
        ids = self.ids[:, first : first + count]
        (logits,) = program.run(method, ids, torch.arange(first, first + count))
        end = first + count
        start = first if method == "forward_all" else end - 1
        expected = self.logits[start:end]
        return float((logits[0] - expected).abs().max() / self.logits.std())


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder: Path = tmp_path_factory.mktemp(request.param)
    spec = SMALL[request.param]
    gguf = str(gguf_models.write_gguf(folder / "model.gguf", spec))
    pte = str(folder / "model.pte")
    export_gguf_to_pte(gguf, pte, GGUFExportConfig(max_seq_len=64))
    torch.manual_seed(3)
    ids = torch.randint(0, spec.vocab, (1, 64))
    logits = transformers_logits(transformers_model(spec), ids)
    return Model(pte, gguf, ids, logits.reshape(64, -1))


@pytest.fixture
def program(model: Model) -> Iterator[CProgram]:
    with model.open() as opened:
        yield opened


def test_logits_equal_transformers_over_prefill_decode_and_chunk(
    model: Model, program: CProgram
) -> None:
    first = 0
    for count in _STEPS:
        assert model.step(program, first, count) <= 1e-3
        first += count
        assert program.used == first


def test_methods_share_one_session(model: Model, program: CProgram) -> None:
    assert model.step(program, 0, 17, "forward_all") <= 1e-3
    assert model.step(program, 17, 1, "forward") <= 1e-3
    assert model.step(program, 18, 4, "forward") <= 1e-3
    assert model.step(program, 22, 4, "forward_all") <= 1e-3


def test_methods_are_described(program: CProgram) -> None:
    assert {"forward", "forward_all"} <= set(program.methods)
    info = program.describe("forward")
    assert [dtype for dtype, _ in info["inputs"]] == [torch.int64, torch.int64]
    assert info["outputs"] == [(torch.float32, [1, 1, 512])]
    assert info["backends"] == ["GgmlBackend"]


def test_two_programs_keep_two_sessions(model: Model, program: CProgram) -> None:
    with model.open() as other:
        assert model.step(program, 0, 10) <= 1e-3
        assert model.step(other, 0, 3) <= 1e-3
        assert model.step(program, 10, 2) <= 1e-3
        assert model.step(other, 3, 1) <= 1e-3
        assert (program.used, other.used) == (12, 4)


def test_reset_rewind_fork_save_and_restore(
    model: Model, program: CProgram, tmp_path: Path
) -> None:
    model.step(program, 0, 20)
    program.rewind(12)
    assert model.step(program, 12, 1) <= 1e-3
    path = str(tmp_path / "session.bin")
    program.save(path)
    with model.open() as other:
        with pytest.raises(CApiError, match="no state"):
            program.fork_to(other)
        other.load_method("forward_all")
        program.fork_to(other)
        assert other.used == 13
        assert model.step(other, 13, 3) <= 1e-3
    program.reset()
    assert program.used == 0
    assert model.step(program, 0, 2) <= 1e-3
    program.restore(path)
    assert program.used == 13
    assert model.step(program, 13, 3) <= 1e-3


def test_overflow_and_gaps_name_the_positions_and_lose_nothing(model: Model) -> None:
    with model.open(context="20") as program:
        assert model.step(program, 0, 18) <= 1e-3
        assert program.capacity == 20
        with pytest.raises(CApiError, match=r"position 20 is past the capacity 20.*context"):
            model.step(program, 18, 3)
        with pytest.raises(CApiError, match=r"starts at 19.*start at 18"):
            model.step(program, 19, 1)
        assert model.step(program, 18, 2) <= 1e-3


def test_inputs_that_do_not_fit_are_named(model: Model, program: CProgram) -> None:
    ids, positions = model.ids[:, :4], torch.arange(4)
    model.step(program, 0, 4)
    with pytest.raises(CApiError, match="takes 2 inputs, got 1"):
        program.run("forward", ids)
    with pytest.raises(CApiError, match=r"input 0 is Int.*expected Long"):
        program.run("forward", ids.int(), positions)
    with pytest.raises(CApiError, match=r"input 0 is Long\[4\]"):
        program.run("forward", ids[0], positions)
    with pytest.raises(CApiError, match=r"input 0 is Long.*at most"):
        program.run("forward", model.ids.repeat(1, 20), torch.arange(1280))
    with pytest.raises(CApiError):
        program.run("forward", ids, positions[:3])
    with pytest.raises(CApiError, match="512"):
        program.run("forward", torch.tensor([[512]]), torch.tensor([4]))
    with pytest.raises(CApiError):
        program.run("forward", torch.tensor([[-1]]), torch.tensor([4]))
    with pytest.raises(CApiError, match=r"no method 'backward'.*forward"):
        program.run("backward", ids, positions)
    assert program.used == 4
    assert model.step(program, 4, 2) <= 1e-3


def test_a_failed_call_that_would_have_overwritten_keeps_what_it_would_have_replaced(
    model: Model, program: CProgram
) -> None:
    model.step(program, 0, 10)
    with pytest.raises(CApiError):
        program.run("forward", torch.tensor([[512]]), torch.tensor([5]))
    assert program.used == 10
    assert model.step(program, 10, 2) <= 1e-3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_thread": "2"}, "unknown load option 'n_thread'.*n_threads"),
        ({"cache_type": "q4_0"}, "cache_type.*q4_0.*f32, f16 or q8_0"),
        ({"context": "5000"}, "5000 positions.*4096"),
        ({"device": "no-such-device"}, "no-such-device"),
        ({"session": "x" * 300}, "too long"),
    ],
)
def test_options_that_are_not_accepted_are_explained(
    model: Model, options: dict[str, str], text: str
) -> None:
    with pytest.raises(CApiError, match=text):
        CProgram(model.pte, [model.gguf], options).load_method("forward")


def test_files_that_do_not_fit_are_named(model: Model, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pte")
    with pytest.raises(CApiError, match=r"missing\.pte"):
        CProgram(missing)
    torn = tmp_path / "torn.pte"
    torn.write_bytes(Path(model.pte).read_bytes()[:1000])
    with pytest.raises(CApiError, match=r"torn\.pte"):
        CProgram(str(torn))
    with pytest.raises(CApiError, match=r"neither a \.gguf nor a \.ptd"):
        CProgram(model.pte, [model.pte])
    with CProgram(model.pte) as program, pytest.raises(CApiError, match="token_embd"):
        program.load_method("forward")


def test_cache_types_and_flash_attention_stay_close(model: Model) -> None:
    # Relative to the logits' spread: F16 rounds keys and values to 11 bits, Q8_0 to 8.
    for options, limit in (
        ({"cache_type": "f16"}, 0.02),
        ({"cache_type": "f32", "flash_attention": "1"}, 0.02),
        ({"cache_type": "f16", "flash_attention": "1"}, 0.03),
    ):
        with CProgram(model.pte, [model.gguf], options) as program:
            assert model.step(program, 0, 17) <= limit, options
            assert model.step(program, 17, 1) <= limit, options


def test_a_quantized_cache_runs_where_heads_are_whole_blocks(model: Model) -> None:
    with CProgram(model.pte, [model.gguf], {"cache_type": "q8_0"}) as program:
        if "llama" in model.pte:  # heads of 16
            with pytest.raises(CApiError, match=r"heads of 16.*q8_0.*multiples of 32.*f16"):
                program.load_method("forward")
        else:
            assert model.step(program, 0, 17) <= 0.2
            assert model.step(program, 17, 1) <= 0.2


def test_sessions_run_side_by_side_on_threads(model: Model) -> None:
    errors: list[float] = []

    def converse() -> None:
        with model.open(n_threads="1") as program:
            for first in range(0, 20, 4):
                errors.append(model.step(program, first, 4))

    threads = [threading.Thread(target=converse) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 15
    assert max(errors) <= 1e-3


def test_null_pointers_are_errors() -> None:
    lib = library()
    handle = ctypes.c_void_p()
    assert lib.eg_load(None, None, 0, None, 0, ctypes.byref(handle)) != 0
    assert b"null" in lib.eg_last_error()
    assert lib.eg_run(None, b"forward", None, 0, None, None) != 0
    assert lib.eg_reset(None) != 0
    assert lib.eg_rewind(None, 0) != 0
    assert lib.eg_save_session(None, None) != 0
    assert lib.eg_fork(None, None) != 0
    assert lib.eg_method_count(None) == 0
    assert lib.eg_method_name(None, 0) is None
    lib.eg_close(None)
    assert lib.eg_api_version() == 1
    assert lib.eg_version().decode().count(".") == 2
