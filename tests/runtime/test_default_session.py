"""State through ExecuTorch's own Python runtime, which names no session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.llm.cache import update_and_attend as _registers_the_op  # noqa: F401
from executorch.runtime import Runtime
from torch.export import Dim, export

from executorch_ggml import GgmlOptions, GgmlPartitioner
from executorch_ggml._library import load_library
from executorch_ggml.options import KVCacheOptions

_HEADS, _SIZE = 2, 8


class Attend(torch.nn.Module):
    """A projection with stored weights, then attention over a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = torch.nn.Linear(_SIZE, _SIZE)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        q = self.proj(x)
        y: torch.Tensor = torch.ops.kvcache.update_and_attend.default(
            q, x, x, positions[:, None], 0, _SIZE**-0.5, q.dtype
        )
        return y

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            self.proj(x), x, x, is_causal=True
        ).detach()


@pytest.fixture(scope="module")
def module() -> Attend:
    torch.manual_seed(0)
    return Attend().eval()


@pytest.fixture(scope="module")
def pte(module: Attend, tmp_path_factory: pytest.TempPathFactory) -> Path:
    n = Dim("n", min=1, max=16)
    many = export(
        module,
        (torch.randn(1, _HEADS, 4, _SIZE), torch.arange(4)),
        dynamic_shapes=({2: n}, {0: n}),
    )
    one = export(module, (torch.randn(1, _HEADS, 1, _SIZE), torch.arange(1)))
    options = GgmlOptions(strict=True, kv_cache=KVCacheOptions(32, 32), program_id="toy")
    edge = to_edge_transform_and_lower(
        {"prefill": many, "decode": one}, partitioner=[GgmlPartitioner(options)]
    )
    path: Path = tmp_path_factory.mktemp("toy") / "toy.pte"
    path.write_bytes(edge.to_executorch().buffer)
    return path


def _run(method: Any, x: torch.Tensor, first: int, count: int) -> torch.Tensor:
    part = x[:, :, first : first + count].contiguous()
    result: torch.Tensor = method.execute([part, torch.arange(first, first + count)])[0]
    return result.clone()


def test_methods_of_one_program_continue_each_other_and_loads_do_not(
    module: Attend, pte: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGML_CACHE_TYPE", "f32")
    load_library()
    runtime = Runtime.get()
    x = torch.randn(1, _HEADS, 20, _SIZE)
    y = torch.randn(1, _HEADS, 20, _SIZE)
    expected_x, expected_y = module.reference(x), module.reference(y)
    first = runtime.load_program(pte)
    second = runtime.load_program(pte)
    prefill, decode = first.load_method("prefill"), first.load_method("decode")
    other = second.load_method("prefill")

    torch.testing.assert_close(_run(prefill, x, 0, 9), expected_x[:, :, :9])
    torch.testing.assert_close(_run(other, y, 0, 4), expected_y[:, :, :4])
    for i in range(9, 12):
        torch.testing.assert_close(_run(decode, x, i, 1), expected_x[:, :, i : i + 1])
    torch.testing.assert_close(_run(other, y, 4, 5), expected_y[:, :, 4:9])
    torch.testing.assert_close(_run(prefill, x, 12, 8), expected_x[:, :, 12:20])


def test_a_call_past_the_capacity_fails_and_the_next_one_works(
    module: Attend, pte: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGML_CACHE_TYPE", "f32")
    monkeypatch.setenv("GGML_CONTEXT", "10")
    load_library()
    program = Runtime.get().load_program(pte)
    prefill = program.load_method("prefill")
    x = torch.randn(1, _HEADS, 12, _SIZE)
    _run(prefill, x, 0, 8)
    with pytest.raises(RuntimeError):
        _run(prefill, x, 8, 3)
    torch.testing.assert_close(_run(prefill, x, 8, 2), module.reference(x)[:, :, 8:10])
