"""The C++ runtime as a function of an IR program and tensors (tests/cpp/ir_runner.cpp)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

_ROOT = Path(__file__).resolve().parents[2]


class IrTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("rank", ctypes.c_int32),
        ("is_float", ctypes.c_int32),
    ]


@cache
def _library() -> ctypes.CDLL:
    build = Path(os.environ.get("EXECUTORCH_GGML_BUILD", _ROOT / "build"))
    library = ctypes.CDLL(str(build / "lib" / "libir_runner.so"))
    library.run_ir.restype = ctypes.c_char_p
    return library


def _describe(tensor: torch.Tensor) -> IrTensor:
    sizes = (ctypes.c_int32 * tensor.dim())(*tensor.shape)
    return IrTensor(
        tensor.data_ptr(),
        ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int32)),
        tensor.dim(),
        int(tensor.is_floating_point()),
    )


def run_ir(
    blob: bytes, inputs: Sequence[torch.Tensor], like: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The program's outputs, each of the shape and type of its counterpart in ``like``.

    All tensors are contiguous, float32 or int32.

    Raises:
        RuntimeError: the program is refused, or fails.
    """
    outputs = [torch.empty_like(t) for t in like]
    given = [_describe(t) for t in inputs]
    wanted = [_describe(t) for t in outputs]
    error = _library().run_ir(
        blob,
        ctypes.c_size_t(len(blob)),
        (IrTensor * len(given))(*given),
        ctypes.c_size_t(len(given)),
        (IrTensor * len(wanted))(*wanted),
        ctypes.c_size_t(len(wanted)),
    )
    if error is not None:
        raise RuntimeError(error.decode())
    return outputs
