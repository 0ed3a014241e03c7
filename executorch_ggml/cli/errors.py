"""How the command says that something went wrong, and with which exit code."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """Exit codes of the command."""

    OK = 0
    MISMATCH = 1  # `verify` ran and found a difference
    USER_ERROR = 2  # a file, an argument or an input is wrong
    INTERNAL_ERROR = 70  # a bug of ours
    INTERRUPTED = 130


class CliError(Exception):
    """Something the user can put right; the text says what, where and how."""


#: Errors of the library that are the user's to put right. Their modules take seconds to
#: import, so they are looked up among the modules that are loaded when an error arrives.
_USER_ERRORS: Final = (
    ("executorch_ggml._capi", "RuntimeApiError"),
    ("executorch_ggml._library", "LibraryError"),
    ("executorch_ggml.cli.pte_file", "PteError"),
    ("executorch_ggml.gguf.config", "GGUFExportError"),
    ("executorch_ggml.ir.types", "IRError"),
    ("executorch_ggml.partitioner", "NotDelegatedError"),
    ("executorch_ggml.weights.gguf", "GGUFError"),
)


def is_user_error(error: BaseException) -> bool:
    """Whether the message of ``error`` is all that the user needs to see."""
    if isinstance(error, CliError | OSError):
        return True
    kinds = (
        getattr(sys.modules[module], name) for module, name in _USER_ERRORS if module in sys.modules
    )
    return any(isinstance(error, kind) for kind in kinds)
