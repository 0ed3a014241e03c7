"""The runtime's C API (``executorch_ggml/capi.h``) through ctypes: load, run, session."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any, Final

import torch

from executorch_ggml._library import load_library

_API_VERSION: Final = 1

#: ExecuTorch's ScalarType codes.
_DTYPES: Final[dict[int, torch.dtype]] = {
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
_CODES: Final = {dtype: code for code, dtype in _DTYPES.items()}


class RuntimeApiError(RuntimeError):
    """A call of the runtime failed; ``code`` is ExecuTorch's error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Option(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("sizes", POINTER(c_int32)),
        ("ndim", c_int32),
        ("dtype", c_int32),
    )


class _Argument(ctypes.Structure):
    _fields_ = (
        ("sizes", POINTER(c_int32)),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("is_tensor", c_int32),
    )


class _MethodInfo(ctypes.Structure):
    _fields_ = (
        ("inputs", POINTER(_Argument)),
        ("outputs", POINTER(_Argument)),
        ("backends", POINTER(c_char_p)),
        ("n_inputs", c_size_t),
        ("n_outputs", c_size_t),
        ("n_backends", c_size_t),
        ("planned_bytes", c_size_t),
    )


_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "eg_api_version": (c_int32, ()),
    "eg_version": (c_char_p, ()),
    "eg_last_error": (c_char_p, ()),
    "eg_load": (
        c_int32,
        (
            c_char_p,
            POINTER(c_char_p),
            c_size_t,
            POINTER(_Option),
            c_size_t,
            POINTER(c_void_p),
        ),
    ),
    "eg_close": (None, (c_void_p,)),
    "eg_method_count": (c_size_t, (c_void_p,)),
    "eg_method_name": (c_char_p, (c_void_p, c_size_t)),
    "eg_method_describe": (c_int32, (c_void_p, c_char_p, POINTER(_MethodInfo))),
    "eg_load_method": (c_int32, (c_void_p, c_char_p)),
    "eg_run": (
        c_int32,
        (
            c_void_p,
            c_char_p,
            POINTER(_Tensor),
            c_size_t,
            POINTER(POINTER(_Tensor)),
            POINTER(c_size_t),
        ),
    ),
    "eg_session_name": (c_char_p, (c_void_p,)),
    "eg_reset": (c_int32, (c_void_p,)),
    "eg_rewind": (c_int32, (c_void_p, c_int64)),
    "eg_save_session": (c_int32, (c_void_p, c_char_p)),
    "eg_restore_session": (c_int32, (c_void_p, c_char_p)),
    "eg_fork": (c_int32, (c_void_p, c_void_p)),
    "eg_used_positions": (c_int64, (c_void_p,)),
    "eg_position_capacity": (c_int64, (c_void_p,)),
}

_declare_lock = threading.Lock()
_declared: ctypes.CDLL | None = None


def _api() -> ctypes.CDLL:
    """The library with its signatures declared."""
    global _declared
    with _declare_lock:
        if _declared is None:
            library = load_library()
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
            version = library.eg_api_version()
            if version < _API_VERSION:
                raise RuntimeApiError(
                    0,
                    f"the runtime library speaks version {version} of the C API, this package "
                    f"needs {_API_VERSION}: rebuild it with `make build` or `pip install .`",
                )
            _declared = library
        return _declared


def _check(code: int) -> None:
    if code != 0:
        raise RuntimeApiError(code, _api().eg_last_error().decode("utf-8", "replace"))


@dataclass(frozen=True)
class ArgumentInfo:
    """What a method takes or gives. ``dtype`` is None for a number; sizes are upper bounds."""

    sizes: tuple[int, ...]
    dtype: torch.dtype | None


@dataclass(frozen=True)
class MethodInfo:
    inputs: tuple[ArgumentInfo, ...]
    outputs: tuple[ArgumentInfo, ...]
    backends: tuple[str, ...]
    planned_bytes: int


class LoadedProgram:
    """A ``.pte``, the files that hold its weights, and a session of its own.

    Safe to use from several threads: calls wait for one another.

    Args:
        pte_path: the program.
        data_paths: ``.gguf`` or ``.ptd`` files.
        options: load options by name, as in ``executorch_ggml/options.h``.

    Raises:
        LibraryError: the runtime library is missing.
        RuntimeApiError: a file is missing, damaged or does not fit; the text says which.
    """

    def __init__(
        self,
        pte_path: str | os.PathLike[str],
        data_paths: Sequence[str | os.PathLike[str]] = (),
        options: Mapping[str, object] | None = None,
    ) -> None:
        self._api = _api()
        # Closing waits for a running call, and a call never meets a closed program.
        self._lock = threading.Lock()
        paths = (c_char_p * len(data_paths))(*(os.fsencode(p) for p in data_paths))
        given = options or {}
        pairs = (_Option * len(given))(
            *(_Option(key.encode(), _as_text(value).encode()) for key, value in given.items())
        )
        handle = c_void_p()
        _check(
            self._api.eg_load(
                os.fsencode(pte_path), paths, len(data_paths), pairs, len(given), byref(handle)
            )
        )
        self._handle: c_void_p | None = handle
        self._finalizer = weakref.finalize(self, self._api.eg_close, handle)

    def close(self) -> None:
        """Free the program and its session. Later calls fail; closing twice does nothing."""
        with self._lock:
            self._handle = None
            self._finalizer()

    def _open(self) -> c_void_p:
        if self._handle is None:
            raise RuntimeError("the program is closed")
        return self._handle

    @property
    def methods(self) -> tuple[str, ...]:
        with self._lock:
            handle = self._open()
            count = self._api.eg_method_count(handle)
            return tuple(self._api.eg_method_name(handle, i).decode() for i in range(count))

    def describe(self, method: str) -> MethodInfo:
        """The signature of ``method``, read from the file."""
        info = _MethodInfo()
        with self._lock:
            _check(self._api.eg_method_describe(self._open(), method.encode(), byref(info)))
            return MethodInfo(
                tuple(_argument(info.inputs[i]) for i in range(info.n_inputs)),
                tuple(_argument(info.outputs[i]) for i in range(info.n_outputs)),
                tuple(info.backends[i].decode() for i in range(info.n_backends)),
                int(info.planned_bytes),
            )

    def load_method(self, method: str) -> None:
        """Load ``method`` now rather than at its first run."""
        with self._lock:
            _check(self._api.eg_load_method(self._open(), method.encode()))

    def run(self, method: str, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run a method; the results are copies that the caller owns.

        Raises:
            RuntimeApiError: wrong inputs (named in the text; the session is as it was), or
                a failure while running.
        """
        # Kept until the call is over: the structures point into them.
        held = [tensor.detach().cpu().contiguous() for tensor in inputs]
        arguments = (_Tensor * len(held))(*(_as_argument(tensor) for tensor in held))
        outputs, n_outputs = POINTER(_Tensor)(), c_size_t()
        with self._lock:
            _check(
                self._api.eg_run(
                    self._open(),
                    method.encode(),
                    arguments,
                    len(held),
                    byref(outputs),
                    byref(n_outputs),
                )
            )
            return tuple(_copy(outputs[i]) for i in range(n_outputs.value))

    def reset(self) -> None:
        """Empty every cache and give every buffer its first content."""
        with self._lock:
            _check(self._api.eg_reset(self._open()))

    def rewind(self, position: int) -> None:
        """Keep positions 0 to ``position - 1`` of every cache."""
        with self._lock:
            _check(self._api.eg_rewind(self._open(), position))

    def save_session(self, path: str | os.PathLike[str]) -> None:
        with self._lock:
            _check(self._api.eg_save_session(self._open(), os.fsencode(path)))

    def restore_session(self, path: str | os.PathLike[str]) -> None:
        with self._lock:
            _check(self._api.eg_restore_session(self._open(), os.fsencode(path)))

    def fork_into(self, other: LoadedProgram) -> None:
        """Copy this session's state over that of ``other``, a load of the same program.

        Both must have loaded the same methods.
        """
        if other is self:
            return
        # One order for all threads, so that two forks in opposite directions cannot wait
        # for each other.
        first, second = sorted((self, other), key=id)
        with first._lock, second._lock:
            _check(self._api.eg_fork(self._open(), other._open()))

    @property
    def session_name(self) -> str:
        with self._lock:
            return str(self._api.eg_session_name(self._open()).decode())

    @property
    def used_positions(self) -> int:
        """Positions that the caches hold."""
        with self._lock:
            return int(self._api.eg_used_positions(self._open()))

    @property
    def position_capacity(self) -> int:
        """Positions that the caches can hold; 0 before a method with a cache is loaded."""
        with self._lock:
            return int(self._api.eg_position_capacity(self._open()))


def runtime_version() -> str:
    """Version of the loaded runtime library."""
    return str(_api().eg_version().decode())


def _as_text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _argument(argument: Any) -> ArgumentInfo:
    sizes = tuple(argument.sizes[: argument.ndim]) if argument.ndim else ()
    return ArgumentInfo(sizes, _DTYPES.get(argument.dtype) if argument.is_tensor else None)


def _as_argument(tensor: torch.Tensor) -> _Tensor:
    code = _CODES.get(tensor.dtype)
    if code is None:
        raise TypeError(f"a tensor of {tensor.dtype} cannot be passed to the runtime")
    sizes = (c_int32 * tensor.dim())(*tensor.shape)
    return _Tensor(tensor.data_ptr(), sizes, tensor.dim(), code)


def _copy(view: Any) -> torch.Tensor:
    dtype = _DTYPES[view.dtype]
    sizes = tuple(view.sizes[: view.ndim]) if view.ndim else ()
    result = torch.empty(sizes, dtype=dtype)
    if result.numel():
        ctypes.memmove(result.data_ptr(), view.data, result.numel() * result.element_size())
    return result
