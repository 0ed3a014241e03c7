"""The registry of lowerings: one function per ATen, edge or ``ggml::`` op.

A lowering is found by the op's qualified name (``aten.add.Tensor``), the same in
ATen and edge dialect. It is the only statement of what is supported: the
partitioner claims a node if, and only if, its lowering works on the node's
metadata. A lowering that cannot express a node raises :class:`Unsupported` with
the reason; any other exception is a bug and propagates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch import fx

if TYPE_CHECKING:
    from executorch_ggml.lowering.context import Lowered, LoweringContext

Lowering: TypeAlias = "Callable[[LoweringContext, fx.Node], Lowered]"

_REGISTRY: dict[str, Lowering] = {}
_WHOLE: set[str] = set()


class Unsupported(Exception):
    """This node cannot be expressed; it stays with ExecuTorch. ``str()`` is the reason."""


def lowering(*op_names: str, whole: bool = False) -> Callable[[Lowering], Lowering]:
    """Register a function as the lowering of the named ops.

    Args:
        op_names: qualified names.
        whole: these ops would be decomposed, or refused as no part of the edge dialect,
            before the partitioner sees them: keep them where every use can be delegated.

    Raises:
        ValueError: an op is registered twice.
    """

    def register(function: Lowering) -> Lowering:
        for name in op_names:
            if name in _REGISTRY:
                raise ValueError(f"{name} already has a lowering")
            _REGISTRY[name] = function
            if whole:
                _WHOLE.add(name)
        return function

    return register


def find_lowering(node: fx.Node) -> Lowering | None:
    return _REGISTRY.get(op_name(node.target))


def is_kept_whole(name: str) -> bool:
    return name in _WHOLE


def registered_ops() -> dict[str, str]:
    """Every op that has a lowering, with the module that holds it."""
    return {name: _REGISTRY[name].__module__ for name in sorted(_REGISTRY)}


def op_name(target: Any) -> str:
    """``aten.add.Tensor`` for an ATen or edge overload, ``operator.getitem`` for a builtin."""
    overload = target
    if isinstance(target, EdgeOpOverload):
        overload = target._op  # the ATen overload it wraps
    if isinstance(overload, torch._ops.OpOverload):
        namespace, _, name = overload._schema.name.partition("::")
        namespace = namespace.removeprefix("ggml_")  # twins: see passes/keep_whole.py
        overload_name = overload._schema.overload_name or "default"
        return f"{namespace}.{name}.{overload_name}"
    module = getattr(overload, "__module__", "")
    name = getattr(overload, "__name__", str(overload))
    return f"{'operator' if module == '_operator' else module}.{name}"
