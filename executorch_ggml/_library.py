"""Finds and loads ``libexecutorch_ggml_runtime``, the C++ half of this package.

Loading it registers the backend with ExecuTorch's runtime, so that a ``.pte``
made by this package runs through ``executorch.runtime`` like any other.
Exporting needs none of this: nothing here runs at ``import executorch_ggml``.

Where the library is looked for:

1. ``EXECUTORCH_GGML_LIBRARY``, a path to the file: it alone counts when set.
2. The package's own ``lib`` folder, in the source tree or in site-packages (an
   editable install keeps it there).
3. In a source checkout, ``build/lib`` and ``build_native/lib``.

Of those in 2 and 3 the newest is taken, so a rebuilt library is the one that
runs.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import logging
import os
import sys
import sysconfig
import threading
from pathlib import Path

logger = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE = "EXECUTORCH_GGML_LIBRARY"

_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
LIBRARY_NAME = f"libexecutorch_ggml_runtime{_SUFFIX}"

# Kernels for the ops that are not delegated, and the backend that others delegate to.
_EXECUTORCH_LIBRARIES = ("executorch_kernels_optimized", "executorch_backend_xnnpack")

_lock = threading.Lock()
_loaded: tuple[Path, ctypes.CDLL] | None = None


class LibraryError(ImportError):
    """The runtime library is missing or does not load; the text says what to do."""


def candidates() -> list[Path]:
    """The places where the library may be, whether or not it is there."""
    package = Path(__file__).resolve().parent
    places = [package / "lib"]
    for key in ("platlib", "purelib"):
        places.append(Path(sysconfig.get_path(key)) / package.name / "lib")
    checkout = package.parent
    if (checkout / "CMakeLists.txt").is_file():
        places += [checkout / "build" / "lib", checkout / "build_native" / "lib"]
    return list(dict.fromkeys(place / LIBRARY_NAME for place in places))


def library_path() -> Path:
    """The library that ``load_library`` loads.

    Raises:
        LibraryError: there is none.
    """
    override = os.environ.get(ENVIRONMENT_VARIABLE)
    if override:
        path = Path(override)
        if not path.is_file():
            raise LibraryError(
                f"{ENVIRONMENT_VARIABLE} is set to {override}, which is not a file. "
                f"Set it to a built {LIBRARY_NAME}, or unset it."
            )
        return path
    found = [path for path in candidates() if path.is_file()]
    if not found:
        places = "\n".join(f"    {path.parent}" for path in candidates())
        raise LibraryError(
            f"{LIBRARY_NAME} was not found; it is needed to run programs (not to export them). "
            f"Looked in:\n{places}\n"
            "Build it with `pip install .` or `make build` in a checkout of executorch-ggml, or "
            f"set {ENVIRONMENT_VARIABLE} to its path."
        )
    return max(found, key=lambda path: path.stat().st_mtime_ns)


def _load_executorch() -> None:
    """Load the libraries of ExecuTorch's Python runtime, so that ours joins their registry.

    They are the files that ``executorch.runtime`` itself loads, whether before or after this,
    so there is one registry in the process. Importing it would do too, but takes ten seconds.
    """
    spec = importlib.util.find_spec("executorch")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        paths = [Path(folder) / "lib" / f"lib{name}{_SUFFIX}" for name in _EXECUTORCH_LIBRARIES]
        if all(path.is_file() for path in paths):
            try:
                for path in paths:
                    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                raise LibraryError(f"ExecuTorch's runtime does not load: {error}") from error
            return
    try:
        importlib.import_module("executorch.extension.pybindings.portable_lib")
    except ImportError as error:
        raise LibraryError(
            f"ExecuTorch's Python runtime does not load ({error}). "
            "Install it with `pip install torch==2.13.0 executorch==1.5.1`."
        ) from error


def load_library() -> ctypes.CDLL:
    """Loads the library, once per process, and so registers the backend.

    Later calls return the same handle. Safe to call from several threads.

    Raises:
        LibraryError: the library is missing, or the loader refuses it.
    """
    global _loaded
    with _lock:
        if _loaded is not None:
            return _loaded[1]
        path = library_path().resolve()
        _load_executorch()
        try:
            handle = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise LibraryError(
                f"{path} does not load: {error}. It was probably built against another ExecuTorch "
                "than the installed one; rebuild it with `pip install .` or `make build`."
            ) from error
        logger.debug("loaded %s", path)
        _loaded = (path, handle)
        return handle
