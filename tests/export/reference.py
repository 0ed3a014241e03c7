"""What the exported programs are compared with: transformers' own models, in eager mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from executorch.extension.llm.cache.reference_cache import CacheConfig, ContiguousReferenceCache
from executorch.extension.llm.cache.update_and_attend import REGISTRY
from torch.export import ExportedProgram

from executorch_ggml.gguf.program import CacheInfo
from tests.gguf_models import SMALL, ModelSpec, weights

#: Tokens per call: a prefill, single tokens, a chunk, single tokens; 64 in all.
SCHEDULE = (17, *[1] * 20, 5, *[1] * 22)


_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
_LINEAR = {"rope_type": "linear", "factor": 4.0}

#: The three architectures, and what else a file may ask of them.
SPECS = {
    **SMALL,
    "llama-llama3-rope": dataclasses.replace(SMALL["llama"], rope_scaling=_LLAMA3),
    "llama-linear-rope": dataclasses.replace(SMALL["llama"], rope_scaling=_LINEAR),
    "qwen3-yarn-rope": dataclasses.replace(SMALL["qwen3"], rope_scaling=_YARN, rope_base=1e4),
    "qwen3-untied": dataclasses.replace(SMALL["qwen3"], tied=False),
    "llama-biases": dataclasses.replace(SMALL["llama"], qkv_bias=True),
    "llama-wide-heads": dataclasses.replace(SMALL["llama"], head_dim=32),
}


def transformers_config(spec: ModelSpec) -> transformers.PreTrainedConfig:
    common: dict[str, Any] = {
        "vocab_size": spec.vocab,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.ffn,
        "num_hidden_layers": spec.n_layers,
        "num_attention_heads": spec.n_heads,
        "num_key_value_heads": spec.n_kv_heads,
        "head_dim": spec.head_dim,
        "max_position_embeddings": spec.context,
        "rms_norm_eps": spec.rms_eps,
        "tie_word_embeddings": spec.tied,
        "rope_parameters": {
            "rope_theta": spec.rope_base,
            "rope_type": "default",
            **spec.rope_scaling,
        },
    }
    if spec.architecture == "llama":
        common["attention_bias"] = spec.qkv_bias
    kinds = {
        "llama": transformers.LlamaConfig,
        "qwen2": transformers.Qwen2Config,
        "qwen3": transformers.Qwen3Config,
    }
    return kinds[spec.architecture](**common)


def transformers_model(spec: ModelSpec, gguf_path: Path | None = None) -> torch.nn.Module:
    """The model of ``spec`` as transformers runs it: float32, eager attention.

    Its weights are those of ``spec``, or the dequantized ones of a file made from it.
    """
    model = transformers.AutoModelForCausalLM.from_config(
        transformers_config(spec), attn_implementation="eager"
    ).eval()
    state = {name: torch.from_numpy(values) for name, values in weights(spec, gguf_path)}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    # A bias that the file lacks is zero in both; a head may share the embedding's matrix.
    assert all(name == "lm_head.weight" or name.endswith("o_proj.bias") for name in missing)
    model.tie_weights()
    return model


def transformers_logits(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """``[1, S]`` ids to ``[S, vocab]`` logits, in one call without a cache."""
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits
    return logits[0]


def load_weights(
    program: ExportedProgram, keys: Mapping[str, Sequence[str]], path: str
) -> ExportedProgram:
    """Give ``program`` the tensors of a GGUF file, dequantized, by its weight keys."""
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
    for parameter, names in keys.items():
        tensor = next(tensors[name] for name in names if name in tensors)
        values = gguf.quants.dequantize(np.asarray(tensor.data), tensor.tensor_type)
        expected = program.state_dict[parameter].shape
        assert values.shape == expected, (parameter, values.shape, expected)
        program.state_dict[parameter] = torch.nn.Parameter(
            torch.from_numpy(np.array(values, np.float32)), requires_grad=False
        )
    return program


@contextmanager
def reference_cache(info: CacheInfo, capacity: int) -> Iterator[None]:
    """Run ``kvcache::update_and_attend`` over ExecuTorch's reference cache, new and empty."""
    cache = ContiguousReferenceCache(
        CacheConfig(info.n_layers, info.n_kv_heads, info.head_dim, capacity)
    )
    REGISTRY.install("test", cache)
    try:
        with REGISTRY.active("test"):
            yield
    finally:
        REGISTRY.uninstall("test")


def run_steps(
    step: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ids: torch.Tensor,
    schedule: Sequence[int],
) -> list[torch.Tensor]:
    """Feed ``ids`` [1, S] in chunks; each call's logits, ``[rows, vocab]``."""
    outputs, start = [], 0
    with torch.no_grad():
        for n in schedule:
            positions = torch.arange(start, start + n)
            outputs.append(step(ids[:, start : start + n], positions)[0])
            start += n
    return outputs
