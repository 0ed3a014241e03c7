"""The file that an export writes: its methods, its size, what is in its delegates."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from executorch.exir._serialize._program import deserialize_pte_binary

from executorch_ggml import export_gguf
from executorch_ggml.export_gguf import GGUFExportConfig, GGUFExportResult, export_gguf_to_pte
from executorch_ggml.ir.graph import Graph, StateKind
from executorch_ggml.ir.serialize import from_bytes
from executorch_ggml.ir.types import DType
from executorch_ggml.partitioner import NotDelegatedError
from executorch_ggml.weights.gguf import GGUFError, GGUFFile
from tests import gguf_models
from tests.gguf_models import QWEN3_0_6B, SMALL


@dataclasses.dataclass(frozen=True)
class Exported:
    name: str
    gguf: Path
    result: GGUFExportResult
    stages: list[str]


@pytest.fixture(scope="module", params=SMALL)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("export")
    gguf = gguf_models.write_gguf(folder / "model.gguf", SMALL[request.param])
    stages: list[str] = []
    config = GGUFExportConfig(max_seq_len=128)
    result = export_gguf_to_pte(gguf, folder / "model.pte", config, progress=stages.append)
    return Exported(request.param, gguf, result, stages)


def _program(path: Path) -> Any:
    return deserialize_pte_binary(path.read_bytes())


def _graphs(path: Path) -> dict[str, Graph]:
    """The IR of each method's only delegate."""
    file = _program(path)
    graphs = {}
    for plan in file.program.execution_plan:
        if not plan.delegates:
            continue
        (delegate,) = plan.delegates
        assert delegate.id == "GgmlBackend"
        blob = file.program.backend_delegate_data[delegate.processed.index].data
        (graphs[plan.name],) = from_bytes(bytes(blob)).graphs
    return graphs


def test_methods_and_metadata(exported: Exported) -> None:
    plans = {plan.name: plan for plan in _program(exported.result.path).program.execution_plan}
    values = {
        name: [plan.values[i].val for i in plan.outputs]
        for name, plan in plans.items()
        if not plan.inputs
    }
    assert {name: [v.int_val if hasattr(v, "int_val") else v.bool_val for v in vs]
            for name, vs in values.items()} == {
        "get_max_seq_len": [128],
        "get_max_context_len": [256],
        "get_vocab_size": [512],
        "get_n_layers": [3],
        "use_kv_cache": [True],
        "use_sdpa_with_kv_cache": [False],
        "enable_dynamic_shape": [True],
        "get_bos_id": [256],
        "get_eos_ids": [257],
    }  # fmt: skip
    assert set(plans) - set(values) == {"forward", "forward_all"}


def test_a_step_is_one_delegate_call(exported: Exported) -> None:
    for plan in _program(exported.result.path).program.execution_plan:
        if plan.inputs:
            (chain,) = plan.chains
            kinds = [type(i.instr_args).__name__ for i in chain.instructions]
            assert kinds == ["DelegateCall"]
            assert plan.operators == []


def test_graph_holds_what_the_model_needs_and_no_more(exported: Exported) -> None:
    spec = SMALL[exported.name]
    n = spec.n_layers
    for name, graph in _graphs(exported.result.path).items():
        ops = Counter(call.op.name for call in graph.calls)
        assert ops["update_and_attend"] == n
        assert ops["rope"] == 2 * n
        assert ops["rms_norm"] == 2 * n + 1 + (2 * n if spec.qk_norm else 0)
        assert ops["glu"] == n
        assert ops["mul_mat"] == 7 * n + 1
        assert ops["get_rows"] == 1
        assert ops["add"] == 2 * n + (3 * n if spec.qkv_bias else 0)
        assert {"repeat", "concat", "soft_max", "attention", "unary"}.isdisjoint(ops), name


def test_weights_are_the_files_tensors(exported: Exported) -> None:
    tensors = GGUFFile.open(exported.gguf).tensors
    for graph in _graphs(exported.result.path).values():
        bound = {next(k for k in w.keys if k in tensors) for w in graph.weights}
        assert bound == set(tensors)
        assert {w.value.type.dtype for w in graph.weights} == {DType.FROM_FILE}
    assert not _program(exported.result.path).named_data
    assert exported.result.n_bytes == exported.result.path.stat().st_size < 40_000


def test_caches_are_shared_by_name(exported: Exported) -> None:
    spec = SMALL[exported.name]
    graphs = _graphs(exported.result.path)
    states = [graph.states for graph in graphs.values()]
    assert states[0] == states[1]
    assert len(states[0]) == spec.n_layers
    for state in states[0]:
        assert state.kind is StateKind.KV_CACHE
        assert (state.k_head_dim, state.v_head_dim) == (spec.head_dim, spec.head_dim)
        assert state.n_kv_heads == spec.n_kv_heads
        assert (state.default_capacity, state.max_capacity) == (256, spec.context)


def test_result_tells_what_happened(exported: Exported) -> None:
    result = exported.result
    assert exported.stages == ["import", "read", "trace", "lower", "write"]
    assert list(result.seconds) == exported.stages
    assert all(seconds >= 0 for seconds in result.seconds.values())
    assert [r.method for r in result.reports] == ["forward", "forward_all"]
    assert all(r.is_whole and r.n_ops > 60 and r.n_partitions == 1 for r in result.reports)
    assert (result.max_tokens_per_call, result.cache_capacity) == (128, 256)
    assert result.model.architecture == exported.name


def test_static_export_takes_one_token(tmp_path: Path) -> None:
    gguf = gguf_models.write_gguf(tmp_path / "m.gguf", SMALL["qwen2"])
    config = GGUFExportConfig(max_seq_len=128, preserve_dynamic_shapes=False)
    result = export_gguf_to_pte(gguf, tmp_path / "m.pte", config)
    graphs = _graphs(result.path)
    assert list(graphs) == ["forward"]
    assert graphs["forward"].symbols == []
    assert [a.sizes for a in graphs["forward"].inputs] == [(1, 1), (1,)]


def test_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf = gguf_models.write_gguf(tmp_path / "m.gguf", SMALL["llama"])
    pte = tmp_path / "m.pte"
    pte.write_bytes(b"old")

    def fail(source: str, target: str) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(export_gguf.os, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            export_gguf_to_pte(gguf, pte)
    assert pte.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.gguf", "m.pte"]
    mask = os.umask(0o022)
    try:
        export_gguf_to_pte(gguf, pte)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(pte.stat().st_mode) == 0o644


def test_missing_and_torn_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.gguf"):
        export_gguf_to_pte(tmp_path / "absent.gguf", tmp_path / "m.pte")
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(b"GGUF\x03")
    with pytest.raises(GGUFError, match=r"torn\.gguf"):
        export_gguf_to_pte(torn, tmp_path / "m.pte")
    assert not (tmp_path / "m.pte").exists()


def test_an_op_without_lowering_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from executorch_ggml.gguf import decoder

    monkeypatch.setattr(decoder, "swiglu", lambda gate, up: (gate * up).erfinv())
    gguf = gguf_models.write_gguf(tmp_path / "m.gguf", SMALL["llama"])
    with pytest.raises(NotDelegatedError, match=r"3 x aten\.erfinv"):
        export_gguf_to_pte(gguf, tmp_path / "m.pte")


@pytest.mark.slow
def test_full_size_export_is_small(tmp_path: Path) -> None:
    """Qwen3-0.6B, 28 layers, both methods: at most 213 KB, names and bounds included."""
    gguf = gguf_models.write_gguf(tmp_path / "m.gguf", QWEN3_0_6B, "Q4_0")
    result = export_gguf_to_pte(gguf, tmp_path / "m.pte", GGUFExportConfig(max_seq_len=128))
    assert result.n_bytes <= 213_000
