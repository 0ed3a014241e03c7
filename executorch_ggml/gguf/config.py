"""Hyperparameters of a decoder, read from a GGUF file's header and checked against its tensors."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from executorch_ggml.weights.gguf import GGUFArray, GGUFError, GGUFFile

logger = logging.getLogger(__name__)


class GGUFExportError(GGUFError):
    """The file cannot be exported; the message lists everything that does not fit."""

    def __init__(self, path: object, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        listed = "\n".join(f"  - {p}" for p in self.problems)
        super().__init__(f"{path} cannot be exported:\n{listed}")


@dataclass(frozen=True)
class Architecture:
    """What distinguishes one supported ``general.architecture`` from the next."""

    #: How the file's Q and K rows pair up; llama's converter makes pairs adjacent.
    rope_mode: Literal["neox", "normal"]
    qk_norm: bool = False
    required_biases: frozenset[str] = frozenset()
    optional_biases: frozenset[str] = frozenset()


_QKV: Final = frozenset({"attn_q", "attn_k", "attn_v"})
_ALL_BIASES: Final = _QKV | {"attn_output", "ffn_gate", "ffn_up", "ffn_down"}

ARCHITECTURES: Final[dict[str, Architecture]] = {
    "llama": Architecture("normal", optional_biases=_ALL_BIASES),
    "qwen2": Architecture("neox", required_biases=_QKV, optional_biases=frozenset({"output"})),
    "qwen3": Architecture("neox", qk_norm=True, optional_biases=_QKV | {"attn_output"}),
}

#: Metadata that changes the arithmetic in a way the decoder does not have; neutral at 0.
_UNSUPPORTED_KEYS: Final = (
    "expert_count",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.scale",
    "attn_logit_softcapping",
    "embedding_scale",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
)


@dataclass(frozen=True)
class RopeConfig:
    """Parameters of ``ggml::rope``; ``has_freq_factors``: the file holds ``rope_freqs.weight``."""

    n_dims: int
    mode: Literal["neox", "normal"]
    freq_base: float
    freq_scale: float = 1.0
    ext_factor: float = 0.0
    attn_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    original_context: int = 0
    has_freq_factors: bool = False


@dataclass(frozen=True)
class DecoderConfig:
    """A llama-like decoder. ``biases`` holds GGUF stems (``attn_q``, ``output``, …)."""

    architecture: str
    name: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    context_length: int
    rms_eps: float
    rope: RopeConfig
    qk_norm: bool
    biases: frozenset[str]
    tied_embeddings: bool
    bos_id: int | None
    eos_ids: tuple[int, ...]


class _Reader:
    """Typed access to the metadata of one architecture; collects what is wrong."""

    def __init__(self, metadata: Mapping[str, Any], architecture: str) -> None:
        self._metadata = metadata
        self._architecture = architecture
        self.problems: list[str] = []

    def _get(self, key: str) -> Any:
        value = self._metadata.get(key)
        if isinstance(value, GGUFArray):
            # Some writers give one value per layer.
            per_layer = value.read()
            return per_layer[0] if len(set(per_layer)) == 1 else per_layer
        return value

    def integer(self, suffix: str, default: int | None = None) -> int:
        key = f"{self._architecture}.{suffix}"
        value = self._get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
            what = "is missing" if value is None else f"is {_shorten(value)}"
            self.problems.append(f"metadata '{key}' {what}, expected a positive integer")
            return 0
        return int(value)

    def number(self, suffix: str, default: float | None = None) -> float:
        key = f"{self._architecture}.{suffix}"
        value = self._get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            what = "is missing" if value is None else f"is {_shorten(value)}"
            self.problems.append(f"metadata '{key}' {what}, expected a number")
            return 0.0
        if not math.isfinite(value) or value < 0:
            self.problems.append(f"metadata '{key}' is {value}, expected a finite number >= 0")
            return 0.0
        return float(value)

    def text(self, suffix: str, default: str) -> str:
        key = f"{self._architecture}.{suffix}"
        value = self._metadata.get(key, default)
        if not isinstance(value, str):
            self.problems.append(f"metadata '{key}' is {_shorten(value)}, expected a string")
            return default
        return value

    def token(self, key: str, vocab_size: int) -> int | None:
        value = self._metadata.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < vocab_size:
            self.problems.append(
                f"metadata '{key}' is {_shorten(value)}, expected a token id below {vocab_size}"
            )
            return None
        return int(value)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _read_rope(
    reader: _Reader, mode: Literal["neox", "normal"], head_dim: int, context: int, factors: bool
) -> RopeConfig:
    n_dims = reader.integer("rope.dimension_count", head_dim)
    if n_dims != head_dim:
        reader.problems.append(
            f"rope.dimension_count is {n_dims}, expected the head size {head_dim}: "
            "partly rotated heads are not supported"
        )
    base = reader.number("rope.freq_base", 10000.0)
    kind = reader.text("rope.scaling.type", "linear")
    factor = reader.number("rope.scaling.factor", reader.number("rope.scale_linear", 0.0)) or 1.0
    original = reader.integer("rope.scaling.original_context_length", context)
    extra_attn = reader.number("rope.scaling.attn_factor", 1.0)
    if kind == "none":
        factor = 1.0
    elif kind == "yarn":
        ext = reader.number("rope.scaling.yarn_ext_factor", 1.0)
        if factor < 1.0 or base <= 1.0:
            reader.problems.append(
                f"rope scaling 'yarn' with factor {factor} and freq_base {base}: expected a factor "
                ">= 1 and a base > 1"
            )
            return RopeConfig(n_dims, mode, base)
        # The magnitude that the paper asks for, 1 + ln(factor) / 10, unless the file gives one.
        # ggml::rope multiplies by that value itself, so only the rest remains.
        paper = 1.0 + 0.1 * math.log(factor)
        log_multiplier = reader.number("rope.scaling.yarn_log_multiplier", 0.0)
        magnitude = paper / (1.0 + 0.1 * log_multiplier * math.log(factor))
        magnitude = reader.number("rope.scaling.yarn_attn_factor", magnitude)
        return RopeConfig(
            n_dims,
            mode,
            base,
            1.0 / factor,
            ext,
            (magnitude / paper if ext else magnitude) * extra_attn,
            reader.number("rope.scaling.yarn_beta_fast", 32.0),
            reader.number("rope.scaling.yarn_beta_slow", 1.0),
            original,
            factors,
        )
    elif kind != "linear":
        reader.problems.append(
            f"rope scaling type '{kind}' is not supported, expected none, linear or yarn"
        )
    return RopeConfig(
        n_dims,
        mode,
        base,
        1.0 / factor,
        attn_factor=extra_attn,
        original_context=original,
        has_freq_factors=factors,
    )


def _find_biases(header: GGUFFile) -> frozenset[str]:
    found = set()
    for name in header.tensors:
        stem, _, kind = name.rpartition(".")
        if kind == "bias":
            found.add(stem.split(".")[-1])
    return frozenset(found)


def tensor_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Name and torch shape of every tensor the model needs."""
    d, ffn = config.hidden_size, config.intermediate_size
    q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (config.vocab_size, d),
        "output_norm.weight": (d,),
    }
    if not config.tied_embeddings:
        shapes["output.weight"] = (config.vocab_size, d)
    if config.rope.has_freq_factors:
        shapes["rope_freqs.weight"] = (config.rope.n_dims // 2,)
    matrices = {
        "attn_q": (q, d),
        "attn_k": (kv, d),
        "attn_v": (kv, d),
        "attn_output": (d, q),
        "ffn_gate": (ffn, d),
        "ffn_up": (ffn, d),
        "ffn_down": (d, ffn),
    }
    norms = {"attn_norm": d, "ffn_norm": d}
    if config.qk_norm:
        norms |= {"attn_q_norm": config.head_dim, "attn_k_norm": config.head_dim}
    for layer in range(config.n_layers):
        shapes |= {f"blk.{layer}.{stem}.weight": shape for stem, shape in matrices.items()}
        shapes |= {f"blk.{layer}.{stem}.weight": (size,) for stem, size in norms.items()}
        shapes |= {
            f"blk.{layer}.{stem}.bias": (shape[0],)
            for stem, shape in matrices.items()
            if stem in config.biases
        }
    if "output" in config.biases:
        shapes["output.bias"] = (config.vocab_size,)
    return shapes


def _check_tensors(header: GGUFFile, config: DecoderConfig) -> list[str]:
    expected = tensor_shapes(config)
    problems = []
    for name, shape in expected.items():
        tensor = header.tensors.get(name)
        if tensor is None:
            problems.append(f"tensor '{name}' is missing, expected shape {list(shape)}")
        elif tensor.torch_shape != shape:
            problems.append(
                f"tensor '{name}' has shape {list(tensor.torch_shape)}, expected {list(shape)} "
                "from the metadata"
            )
    for name in header.tensors:
        if name not in expected:
            problems.append(f"tensor '{name}' is not part of a {config.architecture} decoder")
    return problems


def read_config(header: GGUFFile) -> DecoderConfig:
    """The decoder that ``header`` describes.

    Raises:
        GGUFExportError: an unsupported architecture or feature, missing or wrong metadata, or
            tensors that are missing, of another shape than the metadata says, or unknown.
    """
    name = header.metadata.get("general.architecture")
    architecture = ARCHITECTURES.get(name) if isinstance(name, str) else None
    if architecture is None or not isinstance(name, str):
        supported = ", ".join(ARCHITECTURES)
        raise GGUFExportError(
            header.path, [f"architecture {_shorten(name)}, expected one of: {supported}"]
        )
    reader = _Reader(header.metadata, name)
    problems = reader.problems
    hidden, layers = reader.integer("embedding_length"), reader.integer("block_count")
    heads = reader.integer("attention.head_count")
    kv_heads = reader.integer("attention.head_count_kv", heads or 1)
    ffn, context = reader.integer("feed_forward_length"), reader.integer("context_length")
    head_dim = reader.integer("attention.key_length", hidden // heads if heads else 0)
    value_dim = reader.integer("attention.value_length", head_dim)
    rms_eps = reader.number("attention.layer_norm_rms_epsilon")
    for key in _UNSUPPORTED_KEYS:
        value = header.metadata.get(f"{name}.{key}")
        if value:
            problems.append(f"metadata '{name}.{key}' = {_shorten(value)} is not supported")
    if header.metadata.get(f"{name}.attention.causal") is False:
        problems.append(f"metadata '{name}.attention.causal' is false: only decoders are supported")
    if header.metadata.get(f"{name}.attention.sliding_window"):
        logger.warning("%s: the sliding window is ignored, as llama.cpp does", header.path)
    if head_dim != value_dim:
        problems.append(f"key length {head_dim} and value length {value_dim} differ")
    if head_dim % 2:
        problems.append(f"head size {head_dim} is odd")
    if kv_heads and heads % kv_heads:
        problems.append(f"{heads} attention heads are not a multiple of {kv_heads} key heads")
    rope = _read_rope(
        reader, architecture.rope_mode, head_dim, context, "rope_freqs.weight" in header.tensors
    )
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        problems.append("tensor 'token_embd.weight' is missing or not a matrix")
    if problems:
        raise GGUFExportError(header.path, problems)
    assert embedding is not None
    vocab_size = embedding.torch_shape[0]
    biases = _find_biases(header)
    wrong = biases - architecture.required_biases - architecture.optional_biases
    config = DecoderConfig(
        architecture=name,
        name=str(header.metadata.get("general.name", "")),
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=ffn,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=kv_heads,
        head_dim=head_dim,
        context_length=context,
        rms_eps=rms_eps,
        rope=rope,
        qk_norm=architecture.qk_norm,
        biases=(biases - wrong) | architecture.required_biases,
        tied_embeddings="output.weight" not in header.tensors,
        bos_id=reader.token("tokenizer.ggml.bos_token_id", vocab_size),
        eos_ids=_end_tokens(reader, vocab_size),
    )
    problems += _check_tensors(header, config)
    if problems:
        raise GGUFExportError(header.path, problems)
    return config


def _end_tokens(reader: _Reader, vocab_size: int) -> tuple[int, ...]:
    """Ids at which generation stops: end of sequence, of turn, of message."""
    ids = [reader.token(f"tokenizer.ggml.{k}_token_id", vocab_size) for k in ("eos", "eot", "eom")]
    return tuple(dict.fromkeys(i for i in ids if i is not None))
