"""What a GGUF file says of itself: metadata and tensor shapes, without any tensor data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gguf import GGUFReader


@dataclass(frozen=True)
class TensorHeader:
    """Shape in torch order (rows first) and the ggml type's name, such as ``Q8_0``."""

    shape: tuple[int, ...]
    type_name: str

    @property
    def is_quantized(self) -> bool:
        return self.type_name not in ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class GGUFHeader:
    """``metadata``: scalars, strings and lists by key; ``tensors``: by GGUF name."""

    path: str
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorHeader]


def read_header(path: str | os.PathLike[str]) -> GGUFHeader:
    """Read the header of the GGUF file at ``path``.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a well-formed GGUF file.
    """
    reader = GGUFReader(os.fspath(path))
    metadata = {key: field.contents() for key, field in reader.fields.items()}
    tensors = {
        t.name: TensorHeader(tuple(int(n) for n in reversed(t.shape)), t.tensor_type.name)
        for t in reader.tensors
    }
    return GGUFHeader(os.fspath(path), metadata, tensors)
