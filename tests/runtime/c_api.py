"""The C API of ``executorch_ggml/capi.h``, called as another language would call it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from executorch_ggml._library import load_library

_DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


class _Option(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]


class _Argument(ctypes.Structure):
    _fields_ = [
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("is_tensor", ctypes.c_int32),
    ]


class _MethodInfo(ctypes.Structure):
    _fields_ = [
        ("inputs", ctypes.POINTER(_Argument)),
        ("outputs", ctypes.POINTER(_Argument)),
        ("backends", ctypes.POINTER(ctypes.c_char_p)),
        ("n_inputs", ctypes.c_size_t),
        ("n_outputs", ctypes.c_size_t),
        ("n_backends", ctypes.c_size_t),
        ("planned_bytes", ctypes.c_size_t),
    ]


_POINTER = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_PROTOTYPES: Mapping[str, tuple[Any, list[Any]]] = {
    "eg_api_version": (ctypes.c_int32, []),
    "eg_version": (_TEXT, []),
    "eg_last_error": (_TEXT, []),
    "eg_load": (
        ctypes.c_int32,
        [
            _TEXT,
            ctypes.POINTER(_TEXT),
            ctypes.c_size_t,
            ctypes.POINTER(_Option),
            ctypes.c_size_t,
            ctypes.POINTER(_POINTER),
        ],
    ),
    "eg_close": (None, [_POINTER]),
    "eg_method_count": (ctypes.c_size_t, [_POINTER]),
    "eg_method_name": (_TEXT, [_POINTER, ctypes.c_size_t]),
    "eg_method_describe": (ctypes.c_int32, [_POINTER, _TEXT, ctypes.POINTER(_MethodInfo)]),
    "eg_load_method": (ctypes.c_int32, [_POINTER, _TEXT]),
    "eg_run": (
        ctypes.c_int32,
        [
            _POINTER,
            _TEXT,
            ctypes.POINTER(_Tensor),
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.POINTER(_Tensor)),
            ctypes.POINTER(ctypes.c_size_t),
        ],
    ),
    "eg_session_name": (_TEXT, [_POINTER]),
    "eg_reset": (ctypes.c_int32, [_POINTER]),
    "eg_rewind": (ctypes.c_int32, [_POINTER, ctypes.c_int64]),
    "eg_save_session": (ctypes.c_int32, [_POINTER, _TEXT]),
    "eg_restore_session": (ctypes.c_int32, [_POINTER, _TEXT]),
    "eg_fork": (ctypes.c_int32, [_POINTER, _POINTER]),
    "eg_used_positions": (ctypes.c_int64, [_POINTER]),
    "eg_position_capacity": (ctypes.c_int64, [_POINTER]),
}


class CApiError(RuntimeError):
    """A failed call: ``code`` is ExecuTorch's, the text that of ``eg_last_error()``."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def library() -> ctypes.CDLL:
    """The library with the prototypes of ``capi.h``."""
    lib = load_library()
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


def _check(lib: ctypes.CDLL, code: int) -> None:
    if code != 0:
        raise CApiError(code, lib.eg_last_error().decode())


class CProgram:
    """An ``eg_program``; closed by ``close()`` or as a context manager."""

    def __init__(
        self,
        pte: str,
        data: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.lib = library()
        self.handle = _POINTER()
        paths = (_TEXT * len(data))(*[path.encode() for path in data])
        given = [_Option(k.encode(), v.encode()) for k, v in (options or {}).items()]
        array = (_Option * len(given))(*given)
        code = self.lib.eg_load(
            pte.encode(), paths, len(data), array, len(given), ctypes.byref(self.handle)
        )
        _check(self.lib, code)

    def close(self) -> None:
        self.lib.eg_close(self.handle)
        self.handle = _POINTER()

    def __enter__(self) -> CProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def methods(self) -> list[str]:
        count = self.lib.eg_method_count(self.handle)
        return [self.lib.eg_method_name(self.handle, i).decode() for i in range(count)]

    def describe(self, method: str) -> dict[str, Any]:
        info = _MethodInfo()
        _check(
            self.lib,
            self.lib.eg_method_describe(self.handle, method.encode(), ctypes.byref(info)),
        )

        def arguments(array: Any, count: int) -> list[tuple[torch.dtype, list[int]]]:
            return [
                (_DTYPES[array[i].dtype], [array[i].sizes[d] for d in range(array[i].ndim)])
                for i in range(count)
            ]

        return {
            "inputs": arguments(info.inputs, info.n_inputs),
            "outputs": arguments(info.outputs, info.n_outputs),
            "backends": [info.backends[i].decode() for i in range(info.n_backends)],
        }

    def load_method(self, method: str) -> None:
        _check(self.lib, self.lib.eg_load_method(self.handle, method.encode()))

    def run(self, method: str, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Runs a method; outputs are copies."""
        kept = [tensor.contiguous() for tensor in inputs]
        sizes = [(ctypes.c_int32 * t.dim())(*t.shape) for t in kept]
        array = (_Tensor * len(kept))(
            *[
                _Tensor(
                    t.data_ptr(),
                    ctypes.cast(s, ctypes.POINTER(ctypes.c_int32)),
                    t.dim(),
                    _CODES[t.dtype],
                )
                for t, s in zip(kept, sizes, strict=True)
            ]
        )
        outputs = ctypes.POINTER(_Tensor)()
        count = ctypes.c_size_t()
        code = self.lib.eg_run(
            self.handle,
            method.encode(),
            array,
            len(kept),
            ctypes.byref(outputs),
            ctypes.byref(count),
        )
        _check(self.lib, code)
        return [_copy(outputs[i]) for i in range(count.value)]

    @property
    def used(self) -> int:
        return int(self.lib.eg_used_positions(self.handle))

    @property
    def capacity(self) -> int:
        return int(self.lib.eg_position_capacity(self.handle))

    def reset(self) -> None:
        _check(self.lib, self.lib.eg_reset(self.handle))

    def rewind(self, position: int) -> None:
        _check(self.lib, self.lib.eg_rewind(self.handle, position))

    def save(self, path: str) -> None:
        _check(self.lib, self.lib.eg_save_session(self.handle, path.encode()))

    def restore(self, path: str) -> None:
        _check(self.lib, self.lib.eg_restore_session(self.handle, path.encode()))

    def fork_to(self, other: CProgram) -> None:
        _check(self.lib, self.lib.eg_fork(self.handle, other.handle))


def _copy(tensor: _Tensor) -> torch.Tensor:
    shape = [tensor.sizes[d] for d in range(tensor.ndim)]
    result = torch.empty(shape, dtype=_DTYPES[tensor.dtype])
    ctypes.memmove(result.data_ptr(), tensor.data, result.numel() * result.element_size())
    return result
