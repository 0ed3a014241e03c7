"""Options of the ahead-of-time half, and how they travel in a ``CompileSpec``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from executorch.exir.backend.backend_details import CompileSpec

from executorch_ggml.ir.types import DType

#: What ``weight_dtype`` may be.
WEIGHT_DTYPES: Final = {
    "f32": DType.F32,
    "f16": DType.F16,
    "bf16": DType.BF16,
    "q8_0": DType.Q8_0,
}

COMPILE_SPEC_KEY: Final = "executorch_ggml.options"


@dataclass(frozen=True)
class KVCacheOptions:
    """The caches behind ``kvcache::update_and_attend``, all in positions.

    ``default_capacity`` rows are allocated at load unless the ``context`` option
    says otherwise; ``max_capacity`` is the model's context length. ``windows``
    gives each layer's sliding window (0 or absent: every earlier position is seen).
    """

    default_capacity: int = 2048
    max_capacity: int = 2**31 - 1
    windows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.default_capacity <= self.max_capacity:
            raise ValueError(
                f"default_capacity {self.default_capacity} must be in 1..{self.max_capacity}"
            )

    def window_of(self, layer: int) -> int:
        return self.windows[layer] if layer < len(self.windows) else 0


@dataclass(frozen=True)
class GgmlOptions:
    """How a program is lowered.

    Attributes:
        strict: raise :class:`~executorch_ggml.partitioner.NotDelegatedError` when an op is
            left to ExecuTorch, instead of reporting it.
        expect_fusions: names of fusions (:mod:`executorch_ggml.fusion`) that must match.
        weight_keys: parameters, by qualified name, that are not stored in the ``.pte`` but
            bound at load to named data; the first key that exists is taken. Their
            element type is read from the file.
        kv_cache: geometry of the caches behind ``kvcache::update_and_attend``.
        channels_last: keep images channels-last between convolutions, which kernels of our
            own then run on the CPU. Turn it off for a program that a GPU is to run.
        weight_dtype: how the weights of products are stored: ``"f32"``, ``"f16"``, ``"bf16"``,
            or ``"q8_0"`` (linears and 1x1 convolutions; other convolutions in F16). A
            convolution computes in F32 whatever its kernel is stored in; for matrices ggml
            rounds the other operand to the weight's precision as well.
        program_id: the same for all methods of an export, so that they share state.
    """

    strict: bool = False
    expect_fusions: tuple[str, ...] = ()
    weight_keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    kv_cache: KVCacheOptions = field(default_factory=KVCacheOptions)
    channels_last: bool = True
    weight_dtype: str = "f32"
    program_id: str = ""

    def __post_init__(self) -> None:
        if self.weight_dtype not in WEIGHT_DTYPES:
            names = ", ".join(WEIGHT_DTYPES)
            raise ValueError(f"weight_dtype {self.weight_dtype!r} must be one of {names}")

    def to_compile_specs(self) -> list[CompileSpec]:
        """One spec, without ``weight_keys``: the program itself names its weights."""
        fields = asdict(self)
        del fields["weight_keys"]
        return [CompileSpec(COMPILE_SPEC_KEY, json.dumps(fields, sort_keys=True).encode())]

    @staticmethod
    def from_compile_specs(
        specs: Sequence[CompileSpec], weight_keys: Mapping[str, Sequence[str]]
    ) -> GgmlOptions:
        """Raises ``ValueError`` for a spec with unknown fields."""
        for spec in specs:
            if spec.key != COMPILE_SPEC_KEY:
                continue
            fields = json.loads(spec.value.decode())
            cache = fields.pop("kv_cache", {})
            known = {f.name for f in dataclasses.fields(GgmlOptions)} - {"weight_keys"}
            unknown = set(fields) - known
            if unknown:
                raise ValueError(f"unknown options in the compile spec: {sorted(unknown)}")
            cache["windows"] = tuple(cache.get("windows", ()))
            fields["expect_fusions"] = tuple(fields.get("expect_fusions", ()))
            return GgmlOptions(weight_keys=weight_keys, kv_cache=KVCacheOptions(**cache), **fields)
        return GgmlOptions(weight_keys=weight_keys)
