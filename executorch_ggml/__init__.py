"""ExecuTorch backend that delegates computation to ggml.

Names are imported on first use: the exporter takes seconds to import, which the
tools that only read files should not pay.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from executorch_ggml._library import load_library
    from executorch_ggml.backend import GgmlBackend
    from executorch_ggml.export import to_edge_rewrite_and_lower
    from executorch_ggml.options import GgmlOptions, KVCacheOptions
    from executorch_ggml.partitioner import GgmlPartitioner, NotDelegatedError
    from executorch_ggml.report import DelegationReport, Rejection

__version__ = "0.1.0"

_HOMES = {
    "DelegationReport": "report",
    "GgmlBackend": "backend",
    "GgmlOptions": "options",
    "GgmlPartitioner": "partitioner",
    "KVCacheOptions": "options",
    "NotDelegatedError": "partitioner",
    "Rejection": "report",
    "load_library": "_library",
    "to_edge_rewrite_and_lower": "export",
}

__all__ = [
    "DelegationReport",
    "GgmlBackend",
    "GgmlOptions",
    "GgmlPartitioner",
    "KVCacheOptions",
    "NotDelegatedError",
    "Rejection",
    "load_library",
    "to_edge_rewrite_and_lower",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'executorch_ggml' has no attribute '{name}'")
    return getattr(importlib.import_module(f"executorch_ggml.{home}"), name)
