"""Grouped-query attention: keys and values that are repeated per group before attention.

``attention(q, repeat(k), repeat(v))`` is ``attention(q, k, v)`` with fewer key heads,
which ggml broadcasts without a copy.
"""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.export.exported_program import ExportedProgram

from executorch_ggml.fusion.matching import is_op, skip_casts

_SDPA = "aten.scaled_dot_product_attention.default"
_RESHAPE = ("aten.view_copy.default", "aten.view.default", "aten.reshape.default")
_EXPAND = ("aten.expand_copy.default", "aten.expand.default")
_UNSQUEEZE = ("aten.unsqueeze_copy.default", "aten.unsqueeze.default")


def strip_gqa_expand(program: ExportedProgram) -> int:
    """Returns the number of attentions whose operands were stripped."""
    matches = 0
    for node in program.graph.nodes:
        if not is_op(node, _SDPA):
            continue
        key, value = _repeated_heads(node.args[1]), _repeated_heads(node.args[2])
        if key is None or value is None:
            continue
        node.args = (node.args[0], key, value, *node.args[3:])
        node.kwargs = {**node.kwargs, "enable_gqa": True}
        matches += 1
    return matches


def _repeated_heads(arg: Any) -> fx.Node | None:
    """``x [B, H, S, D]`` of ``reshape(expand(unsqueeze(x, 2)), [B, H * n, S, D])``."""
    arg = skip_casts(arg)
    if not is_op(arg, *_RESHAPE):
        return None
    expanded = skip_casts(arg.args[0])
    if not is_op(expanded, *_EXPAND):
        return None
    grouped = skip_casts(expanded.args[0])
    if not is_op(grouped, *_UNSQUEEZE) or grouped.args[1] != 2:
        return None
    source = grouped.args[0]
    if not isinstance(source, fx.Node):
        return None
    shape = source.meta["val"].shape
    expanded_shape, result = expanded.meta["val"].shape, arg.meta["val"].shape
    if len(shape) != 4 or len(expanded_shape) != 5 or len(result) != 4:
        return None
    unchanged = all(
        a == b
        for a, b in zip(
            (*shape[:2], *shape[2:]), (*expanded_shape[:2], *expanded_shape[3:]), strict=True
        )
    )
    return source if unchanged and result[1] == shape[1] * expanded_shape[2] else None
