"""Programs with inputs and expected outputs as files, for ``tests/cpp/run_corpus.cpp``.

A lowering takes far longer than a run. What the Python tests have lowered is therefore
run once more, without lowering it again, in the sanitizer build.

``<name>.pte`` is the program; ``<name>.case`` holds, little endian::

    float64 rtol, float64 atol, uint32 calls
    of each call: uint32 inputs, uint32 outputs, then the tensors, inputs first
    of each tensor: int32 scalar type, int32 rank, int32 sizes[rank], int64 bytes, data
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.exir.tensor import scalar_type_enum

#: The folder to write to; nothing is written without it.
VARIABLE = "EXECUTORCH_GGML_CORPUS"


def folder() -> Path | None:
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def write(
    target: Path,
    name: str,
    program: bytes,
    calls: Iterable[tuple[Sequence[Any], Sequence[torch.Tensor]]],
    rtol: float,
    atol: float,
) -> None:
    """Write a case. The C++ runner speaks contiguous tensors only: others are left out."""
    recorded = [(list(inputs), list(outputs)) for inputs, outputs in calls]
    tensors = [t for inputs, outputs in recorded for t in (*inputs, *outputs)]
    if not all(isinstance(t, torch.Tensor) and t.is_contiguous() for t in tensors):
        return
    target.mkdir(parents=True, exist_ok=True)
    parts = [struct.pack("<ddI", rtol, atol, len(recorded))]
    for inputs, outputs in recorded:
        parts.append(struct.pack("<II", len(inputs), len(outputs)))
        parts += [_tensor(t) for t in (*inputs, *outputs)]
    (target / f"{name}.pte").write_bytes(program)
    (target / f"{name}.case").write_bytes(b"".join(parts))


def _tensor(tensor: torch.Tensor) -> bytes:
    # Joined, so that a single element of any stride becomes a dense row.
    row = torch.cat([tensor.detach().reshape(-1)])
    data = row.view(torch.uint8).numpy().tobytes()
    sizes = [int(s) for s in tensor.shape]
    kind = int(scalar_type_enum(tensor.dtype))
    head = struct.pack(f"<ii{len(sizes)}iq", kind, len(sizes), *sizes, len(data))
    return head + data
