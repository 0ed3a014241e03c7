"""Seeded random decoders, written as GGUF files that llama.cpp loads too.

A :class:`ModelSpec` says what to make. :func:`weights` yields its matrices as
``transformers`` orders them; :func:`write_gguf` stores them as llama.cpp's
converter does (llama's Q and K rows permuted), with a byte-level dummy
tokenizer. Matrices have a standard deviation of 1/sqrt(columns), and the
embedding twice that, so logits spread over several units.

As a program it writes one file; the default is the full Qwen3-0.6B shape::

    python tests/gguf_models.py qwen3-0.6b-q8_0.gguf --type Q8_0
    python tests/gguf_models.py tiny.gguf --model llama --type F32
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

Array = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class ModelSpec:
    """Shape of a decoder. ``rope_scaling`` is in transformers' form (``rope_type`` and so on)."""

    architecture: str
    n_layers: int
    hidden: int
    ffn: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab: int
    context: int
    rope_base: float = 10000.0
    rms_eps: float = 1e-6
    tied: bool = True
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_scaling: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0


SMALL: Final = {
    "llama": ModelSpec("llama", 3, 96, 160, 6, 2, 16, 512, 4096, tied=False, rms_eps=1e-5),
    "qwen2": ModelSpec("qwen2", 3, 96, 160, 4, 2, 24, 512, 4096, 1e6, qkv_bias=True),
    "qwen3": ModelSpec("qwen3", 3, 96, 160, 4, 2, 32, 512, 4096, 1e6, qk_norm=True),
}
#: Small models whose rows are a multiple of 256, as the K-quants need.
WIDE: Final = {
    name: dataclasses.replace(
        spec, hidden=256, ffn=512, n_heads=8, n_kv_heads=4, head_dim=64 if spec.qk_norm else 32
    )
    for name, spec in SMALL.items()
}
QWEN3_0_6B: Final = ModelSpec("qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1e6, qk_norm=True)


def _matrices(spec: ModelSpec) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """``(transformers name, GGUF name, shape)`` of every tensor."""
    d, q, kv = spec.hidden, spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    yield "model.embed_tokens.weight", "token_embd.weight", (spec.vocab, d)
    for i in range(spec.n_layers):
        hf, gg = f"model.layers.{i}.", f"blk.{i}."
        yield hf + "input_layernorm.weight", gg + "attn_norm.weight", (d,)
        for p, rows in (("q", q), ("k", kv), ("v", kv)):
            yield f"{hf}self_attn.{p}_proj.weight", f"{gg}attn_{p}.weight", (rows, d)
            if spec.qkv_bias:
                yield f"{hf}self_attn.{p}_proj.bias", f"{gg}attn_{p}.bias", (rows,)
        if spec.qk_norm:
            for p in "qk":
                name = f"{hf}self_attn.{p}_norm.weight"
                yield name, f"{gg}attn_{p}_norm.weight", (spec.head_dim,)
        yield hf + "self_attn.o_proj.weight", gg + "attn_output.weight", (d, q)
        yield hf + "post_attention_layernorm.weight", gg + "ffn_norm.weight", (d,)
        yield hf + "mlp.gate_proj.weight", gg + "ffn_gate.weight", (spec.ffn, d)
        yield hf + "mlp.up_proj.weight", gg + "ffn_up.weight", (spec.ffn, d)
        yield hf + "mlp.down_proj.weight", gg + "ffn_down.weight", (d, spec.ffn)
    yield "model.norm.weight", "output_norm.weight", (d,)
    if not spec.tied:
        yield "lm_head.weight", "output.weight", (spec.vocab, d)


def _random(spec: ModelSpec, index: int, name: str, shape: tuple[int, ...]) -> Array:
    noise = np.random.default_rng((spec.seed, index)).standard_normal(shape, dtype=np.float32)
    if name.endswith("norm.weight"):
        return 1.0 + np.float32(0.1) * noise
    if len(shape) == 1:
        return np.float32(0.5) * noise
    gain = 2.0 if name in ("model.embed_tokens.weight", "lm_head.weight") else 1.0
    return noise * np.float32(gain / math.sqrt(shape[1]))


def weights(spec: ModelSpec, path: Path | None = None) -> Iterator[tuple[str, Array]]:
    """``(transformers name, float32 values)``, one tensor at a time; the same for each run.

    With the ``path`` of a file made from ``spec``: the values that it holds, dequantized.
    """
    stored = {t.name: t for t in gguf.GGUFReader(os.fspath(path)).tensors} if path else {}
    for index, (name, gguf_name, shape) in enumerate(_matrices(spec)):
        if path is None:
            yield name, _random(spec, index, name, shape)
        else:
            tensor = stored[gguf_name]
            values = dequantize(np.asarray(tensor.data), tensor.tensor_type)
            yield name, _from_stored(spec, name, np.array(values, np.float32))


def _as_stored(spec: ModelSpec, name: str, values: Array) -> Array:
    """Reorder llama's Q and K rows from rotated halves to adjacent pairs, per head."""
    if spec.architecture != "llama" or not ("q_proj" in name or "k_proj" in name):
        return values
    halves = values.reshape(-1, 2, spec.head_dim // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def _from_stored(spec: ModelSpec, name: str, values: Array) -> Array:
    """The inverse of :func:`_as_stored`."""
    if spec.architecture != "llama" or not ("q_proj" in name or "k_proj" in name):
        return values
    pairs = values.reshape(-1, spec.head_dim // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)


def llama3_factors(spec: ModelSpec) -> Array:
    """Per-pair divisors of the frequencies, from the parameters of Llama 3.1's scaling."""
    p = spec.rope_scaling
    pairs = np.arange(0, spec.head_dim, 2, dtype=np.float64)
    wavelength = 2 * math.pi * spec.rope_base ** (pairs / spec.head_dim)
    turns = p["original_max_position_embeddings"] / wavelength
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - smooth) / p["factor"] + smooth)).astype(np.float32)


def _byte_symbols() -> list[str]:
    """GPT-2's printable character for each byte: itself where printable, else 256 and up."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(spare)) for b in range(256)]


def _add_tokenizer(writer: gguf.GGUFWriter, vocab: int) -> None:
    """256 bytes, beginning and end of text, then tokens that no text produces."""
    tokens = [*_byte_symbols(), "<|begin|>", "<|end|>"]
    types = [gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * 2
    if vocab < len(tokens):
        raise ValueError(f"vocabulary of {vocab}, expected at least {len(tokens)}")
    tokens += [f"<|unused{i}|>" for i in range(vocab - len(tokens))]
    types += [gguf.TokenType.UNUSED] * (vocab - len(types))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([f"{tokens[104]} {tokens[105]}"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_add_bos_token(False)


def _add_metadata(writer: gguf.GGUFWriter, spec: ModelSpec, file_type: str) -> None:
    writer.add_name(f"random-{spec.architecture}")
    writer.add_vocab_size(spec.vocab)
    writer.add_context_length(spec.context)
    writer.add_embedding_length(spec.hidden)
    writer.add_block_count(spec.n_layers)
    writer.add_feed_forward_length(spec.ffn)
    writer.add_head_count(spec.n_heads)
    writer.add_head_count_kv(spec.n_kv_heads)
    writer.add_rope_freq_base(spec.rope_base)
    writer.add_rope_dimension_count(spec.head_dim)
    writer.add_layer_norm_rms_eps(spec.rms_eps)
    if spec.head_dim * spec.n_heads != spec.hidden:
        writer.add_key_length(spec.head_dim)
        writer.add_value_length(spec.head_dim)
    known = gguf.LlamaFileType.__members__
    label = next((m for m in ("ALL_" + file_type, "MOSTLY_" + file_type) if m in known), None)
    if label is not None:
        writer.add_file_type(int(known[label]))
    scaling = spec.rope_scaling
    kind = scaling.get("rope_type", "default")
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


def write_gguf(path: str | os.PathLike[str], spec: ModelSpec, type_name: str = "F32") -> Path:
    """Write ``spec`` with matrices of one ggml type (norms and biases stay F32).

    Holds one tensor at a time, so the full-size model needs about 1 GB. Types are those
    that the ``gguf`` package can write; for the others run ``llama-quantize`` on an F16 file.
    """
    matrix_type = gguf.GGMLQuantizationType[type_name]
    tensors = list(_matrices(spec))
    writer = gguf.GGUFWriter(os.fspath(path), spec.architecture)
    _add_metadata(writer, spec, type_name)
    _add_tokenizer(writer, spec.vocab)
    factors = llama3_factors(spec) if spec.rope_scaling.get("rope_type") == "llama3" else None
    if factors is not None:
        writer.add_tensor_info("rope_freqs.weight", factors.shape, factors.dtype, factors.nbytes)
    block, size = gguf.GGML_QUANT_SIZES[matrix_type]
    f32 = np.dtype(np.float32)
    for _, name, shape in tensors:
        if len(shape) == 1:
            writer.add_tensor_info(name, shape, f32, 4 * shape[0])
        else:
            n_bytes = shape[0] * shape[1] // block * size
            writer.add_tensor_info(name, shape, f32, n_bytes, raw_dtype=matrix_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    if factors is not None:
        writer.write_tensor_data(factors)
    for name, values in weights(spec):
        stored = _as_stored(spec, name, values)
        writer.write_tensor_data(stored if stored.ndim == 1 else quantize(stored, matrix_type))
    writer.close()
    return Path(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a seeded random model as a GGUF file.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--model", default="qwen3-0.6b", choices=["qwen3-0.6b", *SMALL])
    parser.add_argument("--type", default="F16", help="ggml type of the matrices (F16, Q8_0, ...)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    spec = SMALL.get(args.model, QWEN3_0_6B)
    write_gguf(args.path, dataclasses.replace(spec, seed=args.seed), args.type)


if __name__ == "__main__":
    main()
