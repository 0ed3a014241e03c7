"""Hyperparameters from GGUF headers, and every way in which a file may not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from executorch_ggml.export_gguf import GGUFExportConfig, GGUFExportError
from executorch_ggml.gguf.config import DecoderConfig, read_config
from executorch_ggml.gguf.program import build_programs
from executorch_ggml.ir.types import DType
from executorch_ggml.weights.gguf import GGUFFile, TensorInfo
from tests import gguf_models
from tests.gguf_models import SMALL, ModelSpec


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GGUFFile]:
    folder = tmp_path_factory.mktemp("gguf")
    return {
        name: GGUFFile.open(gguf_models.write_gguf(folder / f"{name}.gguf", spec))
        for name, spec in SMALL.items()
    }


def _with(
    header: GGUFFile, metadata: Mapping[str, Any] = {}, tensors: Mapping[str, Any] = {}
) -> GGUFFile:
    """``header`` with some entries replaced, or dropped where the value is None."""

    def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in {**old, **new}.items() if v is not None}

    return dataclasses.replace(
        header,
        metadata=merged(header.metadata, metadata),
        tensors=merged(header.tensors, tensors),
    )


def _problems(header: GGUFFile) -> tuple[str, ...]:
    with pytest.raises(GGUFExportError) as caught:
        read_config(header)
    for problem in caught.value.problems:
        assert problem in str(caught.value)
    return caught.value.problems


def _tensor(name: str, *shape: int) -> TensorInfo:
    return TensorInfo(name, DType.F32, shape[::-1], 0, 0)


@pytest.mark.parametrize("name", SMALL)
def test_fields(name: str, headers: dict[str, GGUFFile]) -> None:
    config, spec = read_config(headers[name]), SMALL[name]
    assert config == DecoderConfig(
        architecture=spec.architecture,
        name=f"random-{name}",
        vocab_size=spec.vocab,
        hidden_size=spec.hidden,
        intermediate_size=spec.ffn,
        n_layers=spec.n_layers,
        n_heads=spec.n_heads,
        n_kv_heads=spec.n_kv_heads,
        head_dim=spec.head_dim,
        context_length=spec.context,
        rms_eps=pytest.approx(spec.rms_eps),
        rope=config.rope,
        qk_norm=name == "qwen3",
        biases=frozenset({"attn_q", "attn_k", "attn_v"} if name == "qwen2" else ()),
        tied_embeddings=spec.tied,
        bos_id=256,
        eos_ids=(257,),
    )
    assert config.rope.mode == ("normal" if name == "llama" else "neox")
    assert config.rope.freq_base == spec.rope_base
    assert config.rope.n_dims == spec.head_dim
    assert (config.rope.freq_scale, config.rope.ext_factor) == (1.0, 0.0)


def test_other_architectures_are_refused(headers: dict[str, GGUFFile]) -> None:
    (problem,) = _problems(_with(headers["llama"], {"general.architecture": "gemma3"}))
    assert "'gemma3'" in problem
    assert "llama, qwen2, qwen3" in problem
    (problem,) = _problems(_with(headers["llama"], {"general.architecture": None}))
    assert "None" in problem


def test_everything_that_does_not_fit_is_listed(headers: dict[str, GGUFFile]) -> None:
    header = _with(
        headers["qwen3"],
        tensors={
            "blk.1.attn_q.weight": _tensor("blk.1.attn_q.weight", 64, 96),
            "blk.2.ffn_up.weight": None,
            "blk.0.attn_q_norm.weight": None,
            "blk.0.ffn_gate_inp.weight": _tensor("blk.0.ffn_gate_inp.weight", 4, 96),
        },
    )
    problems = _problems(header)
    assert problems == (
        "tensor 'blk.0.attn_q_norm.weight' is missing, expected shape [32]",
        "tensor 'blk.1.attn_q.weight' has shape [64, 96], expected [128, 96] from the metadata",
        "tensor 'blk.2.ffn_up.weight' is missing, expected shape [160, 96]",
        "tensor 'blk.0.ffn_gate_inp.weight' is not part of a qwen3 decoder",
    )


def test_every_missing_key_is_listed(headers: dict[str, GGUFFile]) -> None:
    keys = ("block_count", "embedding_length", "attention.layer_norm_rms_epsilon")
    problems = _problems(_with(headers["llama"], {f"llama.{k}": None for k in keys}))
    for key in keys:
        assert any(f"'llama.{key}' is missing" in p for p in problems)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("llama.block_count", -1, "expected a positive integer"),
        ("llama.block_count", "3", "expected a positive integer"),
        ("llama.block_count", 2**40, "expected a positive integer"),
        ("llama.attention.layer_norm_rms_epsilon", float("nan"), "finite"),
        ("llama.attention.head_count_kv", 4, "not a multiple"),
        ("llama.attention.key_length", 17, "odd"),
        ("llama.rope.dimension_count", 8, "partly rotated"),
        ("llama.rope.scaling.type", "longrope", "expected none, linear or yarn"),
        ("llama.expert_count", 8, "not supported"),
        ("llama.logit_scale", 0.5, "not supported"),
        ("llama.attention.causal", False, "only decoders"),
        ("llama.attention.value_length", 32, "differ"),
        ("tokenizer.ggml.eos_token_id", 512, "expected a token id below 512"),
    ],
)
def test_wrong_metadata_is_named(
    key: str, value: Any, expected: str, headers: dict[str, GGUFFile]
) -> None:
    assert any(expected in p for p in _problems(_with(headers["llama"], {key: value})))


def test_head_size_comes_from_the_file(headers: dict[str, GGUFFile]) -> None:
    """transformers' own mapping takes 128 for qwen3 whatever the file says."""
    assert read_config(headers["qwen3"]).head_dim == 32
    keys = ("attention.key_length", "attention.value_length", "rope.dimension_count")
    without = _with(headers["qwen3"], {f"qwen3.{key}": None for key in keys})
    assert any(
        "'blk.0.attn_q.weight' has shape [128, 96], expected [96, 96]" in p
        for p in _problems(without)
    )


def test_a_bias_where_the_architecture_has_none_is_refused(headers: dict[str, GGUFFile]) -> None:
    name = "blk.0.ffn_up.bias"
    assert _problems(_with(headers["qwen2"], tensors={name: _tensor(name, 160)})) == (
        f"tensor '{name}' is not part of a qwen2 decoder",
    )
    # llama may have it, but then in every layer.
    problems = _problems(_with(headers["llama"], tensors={name: _tensor(name, 160)}))
    assert [p.split("'")[1] for p in problems] == ["blk.1.ffn_up.bias", "blk.2.ffn_up.bias"]


def test_a_missing_required_bias_is_named(headers: dict[str, GGUFFile]) -> None:
    problems = _problems(_with(headers["qwen2"], tensors={"blk.1.attn_k.bias": None}))
    assert problems == ("tensor 'blk.1.attn_k.bias' is missing, expected shape [48]",)


@pytest.mark.parametrize(
    ("metadata", "scale", "ext", "attn"),
    [
        ({}, 1.0, 0.0, 1.0),
        ({"scaling.type": "linear", "scaling.factor": 4.0}, 0.25, 0.0, 1.0),
        ({"scale_linear": 2.0}, 0.5, 0.0, 1.0),
        ({"scaling.type": "none", "scaling.factor": 4.0}, 1.0, 0.0, 1.0),
        ({"scaling.type": "yarn", "scaling.factor": 4.0}, 0.25, 1.0, 1.0),
        (
            {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.yarn_attn_factor": 1.0},
            0.25,
            1.0,
            1 / 1.1386294,
        ),
    ],
)
def test_rope_scaling(
    metadata: dict[str, Any],
    scale: float,
    ext: float,
    attn: float,
    headers: dict[str, GGUFFile],
) -> None:
    full = {f"llama.rope.{k}": v for k, v in metadata.items()}
    rope = read_config(_with(headers["llama"], full)).rope
    assert (rope.freq_scale, rope.ext_factor) == (scale, ext)
    assert rope.attn_factor == pytest.approx(attn)


def test_tokens_that_end_generation(headers: dict[str, GGUFFile]) -> None:
    extra = {"tokenizer.ggml.eot_token_id": 300, "tokenizer.ggml.eom_token_id": 257}
    assert read_config(_with(headers["llama"], extra)).eos_ids == (257, 300)
    none = {"tokenizer.ggml.eos_token_id": None, "tokenizer.ggml.bos_token_id": None}
    config = read_config(_with(headers["llama"], none))
    assert (config.bos_id, config.eos_ids) == (None, ())


def test_quantized_files_can_be_refused(tmp_path: Path) -> None:
    path = gguf_models.write_gguf(tmp_path / "q.gguf", SMALL["llama"], "Q8_0")
    with pytest.raises(GGUFExportError, match=r"tensor 'token_embd.weight' is Q8_0"):
        build_programs(GGUFFile.open(path), GGUFExportConfig(enable_quantization=False))


@pytest.mark.parametrize(
    ("config", "tokens", "capacity", "methods"),
    [
        (GGUFExportConfig(max_seq_len=128), 128, 256, ["forward", "forward_all"]),
        (GGUFExportConfig(max_seq_len=300), 300, 512, ["forward", "forward_all"]),
        (GGUFExportConfig(max_seq_len=2048), 512, 2048, ["forward", "forward_all"]),
        (GGUFExportConfig(max_seq_len=9000), 512, 4096, ["forward", "forward_all"]),
        (GGUFExportConfig(max_seq_len=64, max_tokens_per_call=200), 200, 256, None),
        (GGUFExportConfig(max_seq_len=64, forward_all=False), 64, 256, ["forward"]),
        (GGUFExportConfig(preserve_dynamic_shapes=False), 1, 2048, ["forward"]),
    ],
)
def test_bounds(
    config: GGUFExportConfig,
    tokens: int,
    capacity: int,
    methods: list[str] | None,
    tmp_path: Path,
) -> None:
    spec = dataclasses.replace(SMALL["llama"], n_layers=1)
    header = GGUFFile.open(gguf_models.write_gguf(tmp_path / "m.gguf", spec))
    programs = build_programs(header, config)
    assert programs.max_tokens_per_call == tokens
    assert programs.cache.default_capacity == capacity
    assert programs.cache.max_capacity == 4096
    assert methods is None or list(programs.methods) == methods
    assert programs.constant_methods["get_max_seq_len"] == tokens
    assert programs.constant_methods["get_max_context_len"] == capacity
    (bounds,) = programs.methods["forward"].range_constraints.values() or [None]
    assert (bounds is None) == (tokens == 1)
    assert bounds is None or (bounds.lower, bounds.upper) == (1, tokens)


@pytest.mark.parametrize("bad", [{"max_seq_len": 0}, {"max_tokens_per_call": 0}])
def test_bad_bounds_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected at least 1"):
        GGUFExportConfig(**bad)


def test_every_tensor_is_bound_to_a_parameter(headers: dict[str, GGUFFile]) -> None:
    for name, header in headers.items():
        keys = build_programs(header, GGUFExportConfig()).weight_keys
        bound = {next(k for k in names if k in header.tensors) for names in keys.values()}
        assert bound == set(header.tensors), name


def test_rope_factors_are_a_weight(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    spec: ModelSpec = dataclasses.replace(SMALL["llama"], rope_scaling=scaling)
    header = GGUFFile.open(gguf_models.write_gguf(tmp_path / "m.gguf", spec))
    keys = build_programs(header, GGUFExportConfig()).weight_keys
    assert keys["model.rope_freqs"] == ("rope_freqs.weight",)
