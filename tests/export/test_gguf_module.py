"""``.pte`` + ``.gguf`` through the C++ runtime equal transformers' models."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from executorch_ggml._library import LibraryError, library_path
from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte
from executorch_ggml.gguf_module import GGUFModule, RuntimeApiError
from tests import gguf_models
from tests.export.reference import (
    SCHEDULE,
    SPECS,
    run_steps,
    transformers_logits,
    transformers_model,
)
from tests.gguf_models import SMALL, ModelSpec

try:
    library_path()
except LibraryError as error:
    pytest.skip(f"the runtime library is not built: {error}", allow_module_level=True)

_CONFIG = GGUFExportConfig(max_seq_len=128, preserve_dynamic_shapes=True, enable_quantization=True)


def _export(folder: Path, spec: ModelSpec, config: GGUFExportConfig = _CONFIG) -> tuple[Path, Path]:
    gguf = gguf_models.write_gguf(folder / "model.gguf", spec)
    return export_gguf_to_pte(gguf, folder / "model.pte", config).path, gguf


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return _export(tmp_path_factory.mktemp("qwen3"), SMALL["qwen3"])


@pytest.fixture
def module(qwen3: tuple[Path, Path]) -> Iterator[GGUFModule]:
    with GGUFModule(*qwen3, n_threads=2, cache_type="f32") as loaded:
        yield loaded


def _ids(count: int, vocab: int = 512) -> torch.Tensor:
    return torch.randint(0, vocab, (1, count), generator=torch.Generator().manual_seed(3))


def _step(module: GGUFModule, ids: torch.Tensor, start: int) -> torch.Tensor:
    return module.forward(ids, torch.arange(start, start + ids.shape[1]))[0]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_equals_transformers(spec: ModelSpec, tmp_path: Path) -> None:
    pte, gguf = _export(tmp_path, spec)
    ids = _ids(sum(SCHEDULE), spec.vocab)
    expected = transformers_logits(transformers_model(spec), ids)
    spread = expected.std()
    assert spread >= 1.0
    with GGUFModule(pte, gguf, n_threads=2, cache_type="f32") as module:
        for method, keep_all in ((module.forward, False), (module.forward_all, True)):
            module.reset()
            end = 0
            outputs = run_steps(lambda i, p, m=method: m(i, p)[0], ids, SCHEDULE)
            for n, rows in zip(SCHEDULE, outputs, strict=True):
                end += n
                first = end - n if keep_all else end - 1
                assert rows.shape == (end - first, spec.vocab)
                error = (rows - expected[first:end]).abs().max()
                assert error <= 1e-3 * spread, f"{method.__name__}, positions up to {end}"


def test_spec_loop_goes_past_the_exported_length(module: GGUFModule) -> None:
    """Export at 128; 5 tokens and 127 decodes reach position 131."""
    logits = module.forward(torch.tensor([[1, 2, 3, 4, 5]]), torch.arange(5, dtype=torch.long))
    next_token = logits[0][:, -1, :].argmax(dim=-1).item()
    for i in range(127):
        logits = module.forward(torch.tensor([[next_token]]), torch.tensor([5 + i]))
        next_token = logits[0][0, 0, :].argmax(dim=-1).item()
    assert module.used_positions == 132
    assert module.position_capacity == 256


def test_outputs_belong_to_the_caller(module: GGUFModule) -> None:
    first = _step(module, _ids(4), 0)
    kept = first.clone()
    _step(module, _ids(4), 4)
    torch.testing.assert_close(first, kept, rtol=0, atol=0)


def test_reset_and_rewind(module: GGUFModule) -> None:
    ids = _ids(12)
    whole = _step(module, ids, 0)
    module.reset()
    assert module.used_positions == 0
    again = _step(module, ids, 0)
    torch.testing.assert_close(again, whole, rtol=0, atol=0)
    module.rewind(7)
    assert module.used_positions == 7
    tail = _step(module, ids[:, 7:], 7)
    torch.testing.assert_close(tail, whole, rtol=0, atol=1e-4)


def test_two_modules_do_not_disturb_each_other(
    module: GGUFModule, qwen3: tuple[Path, Path]
) -> None:
    ids = _ids(9)
    alone = _step(module, ids, 0)
    module.reset()
    with GGUFModule(*qwen3, n_threads=2, cache_type="f32") as other:
        _step(module, ids[:, :5], 0)
        _step(other, _ids(30), 0)
        torch.testing.assert_close(_step(module, ids[:, 5:], 5), alone, rtol=0, atol=1e-4)


def test_sessions_fork_and_come_back_from_a_file(
    module: GGUFModule, qwen3: tuple[Path, Path], tmp_path: Path
) -> None:
    ids = _ids(9)
    whole = _step(module, ids, 0)
    module.reset()
    _step(module, ids[:, :5], 0)
    module.save_session(tmp_path / "session")
    with GGUFModule(*qwen3, n_threads=2, cache_type="f32") as other:
        module.fork_into(other)
        assert other.used_positions == 5
        torch.testing.assert_close(_step(other, ids[:, 5:], 5), whole, rtol=0, atol=1e-4)
        assert module.used_positions == 5
        other.reset()
        other.restore_session(tmp_path / "session")
        torch.testing.assert_close(_step(other, ids[:, 5:], 5), whole, rtol=0, atol=1e-4)


def test_unknown_option_is_refused(qwen3: tuple[Path, Path]) -> None:
    with pytest.raises(RuntimeApiError, match="n_thread"):
        GGUFModule(*qwen3, n_thread=2)


def test_wrong_inputs_name_the_problem_and_lose_nothing(module: GGUFModule) -> None:
    ids = _ids(6)
    whole = _step(module, ids, 0)
    module.reset()
    _step(module, ids[:, :4], 0)
    bad = {
        "token id": (torch.tensor([[512]]), torch.tensor([4])),
        "dtype": (torch.tensor([[1]], dtype=torch.int32), torch.tensor([4])),
        "too many tokens": (_ids(129), torch.arange(4, 133)),
        "sizes differ": (torch.tensor([[1, 2]]), torch.tensor([4])),
        "past the capacity": (torch.tensor([[1]]), torch.tensor([256])),
        "negative": (torch.tensor([[1]]), torch.tensor([-1])),
    }
    for name, inputs in bad.items():
        with pytest.raises(RuntimeApiError) as caught:
            module.forward(*inputs)
        assert len(str(caught.value)) > 20, name
        assert module.used_positions == 4, name
    torch.testing.assert_close(_step(module, ids[:, 4:], 4), whole, rtol=0, atol=1e-4)


def test_another_models_file_is_refused_with_what_does_not_fit(
    qwen3: tuple[Path, Path], tmp_path: Path
) -> None:
    other = gguf_models.write_gguf(tmp_path / "llama.gguf", SMALL["llama"])
    with pytest.raises(RuntimeApiError, match=r"blk\.0\.attn_q_norm\.weight"):
        GGUFModule(qwen3[0], other)


def test_missing_file_is_named(qwen3: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(RuntimeApiError, match=r"absent\.gguf"):
        GGUFModule(qwen3[0], tmp_path / "absent.gguf")
    with pytest.raises(RuntimeApiError, match=r"absent\.pte"):
        GGUFModule(tmp_path / "absent.pte", qwen3[1])


def test_closed_module_says_so(qwen3: tuple[Path, Path]) -> None:
    module = GGUFModule(*qwen3)
    module.close()
    module.close()
    with pytest.raises(RuntimeError, match="closed"):
        _step(module, _ids(1), 0)


def test_info_tells_model_files_and_methods(module: GGUFModule) -> None:
    text = io.StringIO()
    module.print_info(text)
    for part in ("random-qwen3 (qwen3)", "model.pte", "model.gguf", "forward(", "get_vocab_size"):
        assert part in text.getvalue()
    assert module.metadata["get_eos_ids"] == [257]
    assert module.metadata["get_max_context_len"] == 256


def test_threads_take_turns(qwen3: tuple[Path, Path]) -> None:
    """Four threads on four modules at once, and a close while another thread runs."""
    ids = _ids(20)
    results: dict[int, torch.Tensor] = {}

    def work(index: int) -> None:
        with GGUFModule(*qwen3, n_threads=1, cache_type="f32") as own:
            run_steps(lambda i, p: own.forward(i, p)[0], ids, [5] * 4)
            results[index] = _step(own, ids[:, :1], 20)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results.values():
        torch.testing.assert_close(result, results[0], rtol=0, atol=0)


@pytest.mark.parametrize("type_name", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_one_program_runs_every_quantization(
    type_name: str, qwen3: tuple[Path, Path], tmp_path: Path
) -> None:
    """The ``.pte`` comes from the F32 file; each other type stays close to its own weights."""
    spec = SMALL["qwen3"]
    path = gguf_models.write_gguf(tmp_path / f"{type_name}.gguf", spec, type_name)
    ids = _ids(24)
    expected = transformers_logits(transformers_model(spec, path), ids)
    with GGUFModule(qwen3[0], path, n_threads=2, cache_type="f32") as module:
        rows = module.forward_all(ids, torch.arange(24))[0][0]
    error = (rows - expected).pow(2).mean().sqrt() / expected.std()
    # ggml rounds activations to 8 bits for these products (to 16 for F16 and BF16).
    assert error <= (1e-2 if type_name in ("F16", "BF16") else 5e-2)
