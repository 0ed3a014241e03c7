"""Carry ops whole through to the partitioner.

ExecuTorch refuses an ATen op outside Core ATen for which torch has no decomposition
(``aten.cumprod``, ``aten.median.dim``), before any partitioner is asked; and it decomposes
what one partitioner wants kept as soon as it asks the next one. An op of another namespace
passes both. So a node that a delegate will take is given a twin of its op in the
namespace ``ggml_aten``, with the same schema and meaning.

Ops that other delegates take too, whole or decomposed, keep their name: which partitioner
comes first is not known here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import torch
from torch import fx
from torch._C import DispatchKey
from torch._ops import OpOverload

NAMESPACE = "ggml_aten"

#: What XNNPACK takes, in some form.
_SHARED = frozenset(
    f"aten::{name}"
    for name in (
        "adaptive_avg_pool2d",
        "avg_pool1d",
        "avg_pool2d",
        "conv1d",
        "conv2d",
        "conv_transpose1d",
        "conv_transpose2d",
        "elu",
        "gelu",
        "hardsigmoid",
        "hardswish",
        "layer_norm",
        "leaky_relu",
        "linear",
        "matmul",
        "max_pool2d",
        "pad",
        "prelu",
        "scaled_dot_product_attention",
        "silu",
        "softmax",
        "upsample_bilinear2d",
    )
)

_library = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call]


@functools.cache
def twin(op: OpOverload) -> OpOverload:
    """The op of the same schema in the namespace ``ggml_aten``; it runs ``op``."""
    schema = op._schema
    _library.define(str(schema).partition("::")[2])  # type: ignore[no-untyped-call]
    name = schema.name.partition("::")[2]
    overload = schema.overload_name
    qualified = f"{name}.{overload}" if overload else name
    # torch's reference of a composite op may have another signature (``std_mean.dim``).
    composite = op.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)
    run = op.decompose if composite else op
    _library.impl(qualified, run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    found = getattr(getattr(getattr(torch.ops, NAMESPACE), name), overload or "default")
    assert isinstance(found, OpOverload)
    return found


@functools.cache
def _needs_twin(op: OpOverload) -> bool:
    """Whether the edge dialect would decompose or refuse an op, to nobody's use."""
    schema = op._schema
    return (
        op.namespace == "aten"
        and torch.Tag.core not in op.tags
        and torch.Tag.view_copy not in op.tags
        and not schema.is_mutable
        and not op.is_view
        and schema.name not in _SHARED
    )


def keep_whole(nodes: Iterable[fx.Node]) -> int:
    """Replace, in place, the op of each node that would not stay whole by its twin.

    Returns the number of nodes changed.
    """
    changed = [
        node for node in nodes if isinstance(node.target, OpOverload) and _needs_twin(node.target)
    ]
    for node in changed:
        assert isinstance(node.target, OpOverload)
        node.target = twin(node.target)
    return len(changed)
