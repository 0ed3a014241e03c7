"""Typed wrappers around torch's registration functions, which carry no annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


def define(name: str, schema: str) -> None:
    """Declare ``ggml::<name>`` with the signature ``schema``."""
    torch.library.define(f"ggml::{name}", schema)


def eager(name: str) -> Callable[[F], F]:
    """Register the decorated function as the op's computation on every device."""

    def register(function: F) -> F:
        # CompositeExplicitAutograd: one body for all devices that no tracer looks into.
        torch.library.impl(f"ggml::{name}", "CompositeExplicitAutograd", function)
        return function

    return register


def fake(name: str) -> Callable[[F], F]:
    """Register the decorated function as the op's shape rule for tracing."""

    def register(function: F) -> F:
        torch.library.register_fake(f"ggml::{name}", function)
        return function

    return register


def check(holds: Any, message: Callable[[], str]) -> None:
    """Require a condition that may be symbolic.

    Raises:
        RuntimeError: with ``message()``, where the condition is known to be false.
    """
    torch._check(holds, message)  # type: ignore[no-untyped-call]
