"""Carry ops that are no part of the edge dialect through to the partitioner.

ExecuTorch refuses an ATen op outside Core ATen for which torch has no decomposition
(``aten.cumprod``, ``aten.median.dim``), before any partitioner is asked. An op of
another namespace passes. So a node that a delegate will take is given a twin of its op
in the namespace ``ggml_aten``, with the same schema and meaning.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import torch
from executorch.exir.tracer import _default_decomposition_table
from torch import fx
from torch._ops import OpOverload

NAMESPACE = "ggml_aten"

_library = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call]


@functools.cache
def twin(op: OpOverload) -> OpOverload:
    """The op of the same schema in the namespace ``ggml_aten``; it runs ``op``."""
    schema = op._schema
    _library.define(str(schema).partition("::")[2])  # type: ignore[no-untyped-call]
    name = schema.name.partition("::")[2]
    overload = schema.overload_name
    qualified = f"{name}.{overload}" if overload else name
    _library.impl(qualified, op, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    found = getattr(getattr(getattr(torch.ops, NAMESPACE), name), overload or "default")
    assert isinstance(found, OpOverload)
    return found


@functools.cache
def _is_refused(op: OpOverload) -> bool:
    """Whether the edge dialect has no place for an op."""
    schema = op._schema
    return (
        op.namespace == "aten"
        and torch.Tag.core not in op.tags
        and torch.Tag.view_copy not in op.tags
        and not schema.is_mutable
        and not op.is_view
        and op not in _default_decomposition_table()
    )


def keep_whole(nodes: Iterable[fx.Node]) -> int:
    """Replace, in place, the op of each node that would be refused by its twin.

    Returns the number of nodes changed.
    """
    refused = [
        node for node in nodes if isinstance(node.target, OpOverload) and _is_refused(node.target)
    ]
    for node in refused:
        assert isinstance(node.target, OpOverload)
        node.target = twin(node.target)
    return len(refused)
