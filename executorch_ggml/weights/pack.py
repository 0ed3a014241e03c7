"""Constants as named data: bytes in ggml's layout under a content-derived key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore

from executorch_ggml.ir.types import DType
from executorch_ggml.lowering.registry import Unsupported

#: ggml asserts the alignment of tensor data; named data is unaligned by default.
ALIGNMENT = 64

_STORED: dict[torch.dtype, DType] = {
    torch.float32: DType.F32,
    torch.float16: DType.F16,
    torch.bfloat16: DType.BF16,
    torch.int64: DType.I32,
    torch.int32: DType.I32,
    torch.int16: DType.I32,
    torch.int8: DType.I32,
    torch.uint8: DType.I32,
    torch.bool: DType.I32,
}


def stored_dtype(dtype: torch.dtype) -> DType:
    """The element type in which a constant of a torch dtype is stored."""
    if dtype not in _STORED:
        raise Unsupported(f"a constant of dtype {dtype}")
    return _STORED[dtype]


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The stored form of a constant: row-major, integers as int32.

    Raises:
        Unsupported: an integer that int32 does not hold.
    """
    tensor = tensor.detach().cpu().contiguous()
    if stored_dtype(tensor.dtype) is DType.I32:
        wide = tensor.to(torch.int64)
        narrow = wide.to(torch.int32)
        if not torch.equal(narrow.to(torch.int64), wide):
            raise Unsupported("an integer constant that does not fit int32")
        tensor = narrow
    flat = tensor.reshape(-1)
    if flat.stride(0) != 1:  # one element out of a larger tensor passes for contiguous
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().tobytes()


def content_key(prefix: str, data: bytes) -> str:
    """A key that two methods share exactly when the bytes are equal."""
    return f"{prefix}.{hashlib.sha256(data).hexdigest()[:16]}"


def pack(weights: Iterable[tuple[str, bytes]]) -> NamedDataStore:
    """A data store with these keys and bytes."""
    store = NamedDataStore()
    for key, data in weights:
        store.add_named_data(key, data, alignment=ALIGNMENT)
    return store
