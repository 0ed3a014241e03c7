"""A GGUF file's header as exported PyTorch programs without weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from executorch_ggml.gguf.config import DecoderConfig, GGUFExportError, read_config
from executorch_ggml.gguf.decoder import Decoder
from executorch_ggml.gguf.names import weight_keys
from executorch_ggml.weights.gguf import GGUFFile

if TYPE_CHECKING:
    from executorch_ggml.export_gguf import GGUFExportConfig

logger = logging.getLogger(__name__)

#: The method that returns every token's logits.
ALL_ROWS_METHOD = "forward_all"
#: The runtime reads the cache in blocks of this many positions.
CACHE_BLOCK = 256
#: Tokens of one call, unless the user asks for more: worst-case memory is reserved for it.
DEFAULT_TOKENS_PER_CALL = 512


@dataclass(frozen=True)
class CacheInfo:
    """The key/value cache of every layer; capacities in positions."""

    n_layers: int
    n_kv_heads: int
    head_dim: int
    default_capacity: int
    max_capacity: int


@dataclass(frozen=True)
class GGUFPrograms:
    """All that lowering needs.

    ``methods`` hold parameters on the meta device; ``weight_keys`` names, for each
    parameter's qualified name, the GGUF tensors to look for in order.
    """

    config: DecoderConfig
    methods: Mapping[str, ExportedProgram]
    weight_keys: Mapping[str, tuple[str, ...]]
    constant_methods: Mapping[str, int | bool | list[int]]
    cache: CacheInfo
    max_tokens_per_call: int


def build_programs(header: GGUFFile, export: GGUFExportConfig) -> GGUFPrograms:
    """Export the decoder that a GGUF file describes; no weight is read.

    Raises:
        GGUFExportError: a model that is not supported, or a file that contradicts itself.
    """
    config = read_config(header)
    if not export.enable_quantization:
        quantized = [
            f"tensor '{n}' is {t.type.name}"
            for n, t in header.tensors.items()
            if t.type.is_quantized
        ]
        if quantized:
            raise GGUFExportError(
                header.path, ["enable_quantization is False, expected plain floats", *quantized]
            )
    capacity = min(-(-export.max_seq_len // CACHE_BLOCK) * CACHE_BLOCK, config.context_length)
    tokens = export.max_tokens_per_call or min(DEFAULT_TOKENS_PER_CALL, export.max_seq_len)
    tokens = min(tokens, capacity) if export.preserve_dynamic_shapes else 1
    all_rows = {"forward": False}
    if export.forward_all and tokens > 1:
        all_rows[ALL_ROWS_METHOD] = True
    methods = {name: _trace_decoder(config, rows, tokens) for name, rows in all_rows.items()}
    parameters = dict.fromkeys(p for ep in methods.values() for p in ep.state_dict)
    return GGUFPrograms(
        config=config,
        methods=methods,
        weight_keys=weight_keys(parameters, config),
        constant_methods=_constant_methods(config, tokens, capacity),
        cache=CacheInfo(
            config.n_layers, config.n_kv_heads, config.head_dim, capacity, config.context_length
        ),
        max_tokens_per_call=tokens,
    )


def trace_step(module: nn.Module, max_tokens: int, device: str) -> ExportedProgram:
    """Trace ``module(input_ids [1, S], cache_pos [S])`` for S from 1 to ``max_tokens``."""
    example = min(max_tokens, 3)
    input_ids = torch.zeros(1, example, dtype=torch.int64, device=device)
    cache_pos = torch.zeros(example, dtype=torch.int64, device=device)
    shapes = None
    if max_tokens > 1:
        tokens = Dim("tokens", min=1, max=max_tokens)
        shapes = {"input_ids": {1: tokens}, "cache_pos": {0: tokens}}
    return torch.export.export(
        module.eval(), (input_ids, cache_pos), dynamic_shapes=shapes, strict=False
    )


def _trace_decoder(config: DecoderConfig, all_rows: bool, max_tokens: int) -> ExportedProgram:
    # Meta tensors have shapes and no storage: a model of any size costs nothing.
    with torch.device("meta"):
        model = Decoder(config, all_rows).requires_grad_(False)
    return trace_step(model, max_tokens, "meta")


def _constant_methods(
    config: DecoderConfig, tokens: int, capacity: int
) -> dict[str, int | bool | list[int]]:
    """What ExecuTorch's LLM runners ask a program for."""
    methods: dict[str, int | bool | list[int]] = {
        "get_max_seq_len": tokens,
        "get_max_context_len": capacity,
        "get_vocab_size": config.vocab_size,
        "get_n_layers": config.n_layers,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": tokens > 1,
    }
    if config.bos_id is not None:
        methods["get_bos_id"] = config.bos_id
    if config.eos_ids:
        methods["get_eos_ids"] = list(config.eos_ids)
    return methods
