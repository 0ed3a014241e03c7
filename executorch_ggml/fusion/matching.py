"""Helpers to match subgraphs of an exported program and to replace them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram

from executorch_ggml.lowering.constants import constant_scalar
from executorch_ggml.lowering.registry import op_name

#: Ops that pass their first argument's elements on unchanged, apart from float rounding.
_CASTS = (
    "aten._to_copy.default",
    "dim_order_ops._to_dim_order_copy.default",
    "aten.to.dtype",
    "aten.to.device",
    "aten.clone.default",
    "aten.alias_copy.default",
    "dim_order_ops._clone_dim_order.default",
)
_VIEWS = (
    "aten.view_copy.default",
    "aten.view.default",
    "aten.unsqueeze_copy.default",
    "aten.unsqueeze.default",
    "aten.squeeze_copy.dims",
    "aten.expand_copy.default",
)


def is_op(arg: Any, *names: str) -> bool:
    """Whether ``arg`` is a call of one of the named ops."""
    return isinstance(arg, fx.Node) and arg.op == "call_function" and op_name(arg.target) in names


def has_one_user(node: fx.Node) -> bool:
    return len(node.users) == 1


def skip_casts(arg: Any) -> Any:
    """The source of a chain of float conversions."""
    while is_op(arg, *_CASTS) and _is_float(arg) and _is_float(arg.args[0]):
        arg = arg.args[0]
    return arg


def skip_views(arg: Any) -> Any:
    """The source of a chain of views and float conversions."""
    while True:
        arg = skip_casts(arg)
        if not is_op(arg, *_VIEWS):
            return arg
        arg = arg.args[0]


def _is_float(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def scalar_value(program: ExportedProgram, arg: Any) -> float | None:
    """A number, or the value of a constant with one element."""
    if isinstance(arg, (int, float)) and not isinstance(arg, bool):
        return float(arg)
    source = skip_casts(arg)
    return constant_scalar(program, source) if isinstance(source, fx.Node) else None


def operands(node: fx.Node, first: Callable[[Any], bool]) -> tuple[Any, Any] | None:
    """The two operands of a commutative op, the one that satisfies ``first`` in front."""
    a, b = node.args[0], node.args[1]
    if first(a):
        return a, b
    if first(b):
        return b, a
    return None


def replace(node: fx.Node, target: Any, *args: Any) -> fx.Node:
    """Put a call of ``target`` in place of ``node``, with its value and debug handle."""
    graph = node.graph
    with graph.inserting_before(node):
        fused = graph.call_function(target, args)
    fused.meta = dict(node.meta)
    node.replace_all_uses_with(fused)
    graph.erase_node(node)
    return fused
