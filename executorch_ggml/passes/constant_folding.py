"""Compute what depends on no input once, before a program is lowered.

Models make masks and position tables anew in each call: from ``arange`` and comparisons,
by ops that ggml has no kernel for, or in 64-bit floats. Where no size is dynamic the result
is always the same, and is stored instead.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Container, Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from executorch_ggml.lowering.constants import constant_tensor

#: Results of more elements are computed in each call: they would make the file larger.
MAX_ELEMENTS = 2**20


def fold_constants(
    program: ExportedProgram,
    computes: Callable[[fx.Node], bool],
    excluded: Container[str] = (),
) -> int:
    """Replace, in place, nodes that depend on constants alone by constants.

    Parameters are no constants here: a layer's weights stay what the file or a delegate
    knows them by. What only makes or moves elements is left as it is.

    Args:
        program: as exported, with the contents of its constants.
        computes: whether a node does more than make or move elements.
        excluded: qualified names of constants whose contents are not those of the program.

    Returns:
        The number of nodes replaced.
    """
    written = _written(program.graph)
    values: dict[fx.Node, Any] = {}
    worthwhile: set[fx.Node] = set()
    for node in program.graph.nodes:
        if written and written & _aliases(node):
            continue
        if node.op in ("placeholder", "get_attr"):
            found = _contents(program, node, excluded)
        else:
            found = _result(node, values)
        if found is not None:
            values[node] = found
            operands = node.all_input_nodes
            if operands and (computes(node) or not worthwhile.isdisjoint(operands)):
                worthwhile.add(node)
    folded = _replaced(values, worthwhile)
    for node in folded:
        _store(program, node, values[node].contiguous())
    if folded:
        _erase_unused(program, list(values))
        program.graph_module.recompile()
    return len(folded)


def _contents(
    program: ExportedProgram, node: fx.Node, excluded: Container[str]
) -> torch.Tensor | None:
    signature = program.graph_signature
    names = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers}
    return None if names.get(node.name) in excluded else constant_tensor(program, node)


# --- aliases ----------------------------------------------------------------------------


def _written(graph: fx.Graph) -> set[fx.Node]:
    """What is changed in place somewhere: its value depends on when it is read."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            for argument, value in _arguments(node):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    for written in _nodes(value):
                        found |= _aliases(written)
    return found


def _aliases(node: fx.Node) -> set[fx.Node]:
    """The node, and what it may be a view of."""
    found: set[fx.Node] = set()
    pending = [node]
    while pending:
        node = pending.pop()
        found.add(node)
        if node.target is operator.getitem:
            pending += node.all_input_nodes
        elif isinstance(node.target, OpOverload):
            for argument, value in _arguments(node):
                if argument.alias_info is not None:
                    pending += _nodes(value)
    return found


def _arguments(node: fx.Node) -> Iterator[tuple[Any, Any]]:
    """The schema's arguments that are given, with their values."""
    assert isinstance(node.target, OpOverload)
    for index, argument in enumerate(node.target._schema.arguments):
        if index < len(node.args):
            yield argument, node.args[index]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def _nodes(value: Any) -> list[fx.Node]:
    if isinstance(value, (tuple, list)):
        return [node for element in value for node in _nodes(element)]
    return [value] if isinstance(value, fx.Node) else []


# --- values -----------------------------------------------------------------------------


def _result(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    """What a node gives whenever the program runs; None if that is not known, or too much."""
    if not _is_function(node) or not all(n in values for n in node.all_input_nodes):
        return None
    if node.target is torch.ops.aten._assert_tensor_metadata.default:
        return ()  # true of constants when they were traced
    if not all(_is_small(x) for x in _tensors(node.meta.get("val"))):
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    function: Any = node.target
    with torch.no_grad():
        found = function(*args, **kwargs)
    expected = [(x.shape, x.dtype) for x in _tensors(node.meta["val"])]
    return found if expected and [(x.shape, x.dtype) for x in _tensors(found)] == expected else None


def _is_function(node: fx.Node) -> bool:
    """Whether equal arguments give equal results, and nothing else happens."""
    if node.target is operator.getitem:
        return True
    return (
        isinstance(node.target, OpOverload)
        and node.target.namespace == "aten"
        and not node.target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in node.target.tags
        and "empty" not in node.target._schema.name
    )


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (tuple, list)):
        return [tensor for element in value for tensor in _tensors(element)]
    return [value] if isinstance(value, torch.Tensor) else []


def _is_small(fake: torch.Tensor) -> bool:
    sizes = list(fake.shape)
    return all(isinstance(n, int) for n in sizes) and math.prod(sizes) <= MAX_ELEMENTS


# --- rewriting --------------------------------------------------------------------------

#: Their operand is stored, not the many copies that they make of it.
_COPIES_OF_ONE = ("aten::expand", "aten::expand_as", "aten::broadcast_to", "aten::repeat")


def _replaced(values: dict[fx.Node, Any], worthwhile: set[fx.Node]) -> list[fx.Node]:
    """The last nodes that are known, of those worth it, in the program's order."""
    wanted: set[fx.Node] = set()
    for node in values:
        if node in worthwhile and any(user not in values for user in node.users):
            while _makes_copies(node) and node.all_input_nodes:
                node = node.all_input_nodes[0]
            wanted.add(node)
    return [
        node
        for node in values
        if node in wanted
        and node in worthwhile
        and isinstance(values[node], torch.Tensor)
        and not any(user.op == "output" for user in node.users)
    ]


def _makes_copies(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.name in _COPIES_OF_ONE


def _store(program: ExportedProgram, node: fx.Node, value: torch.Tensor) -> None:
    """A constant of the program in place of a node."""
    specs = program.graph_signature.input_specs
    placeholders = program.graph.find_nodes(op="placeholder")
    index = next((i for i, s in enumerate(specs) if s.kind is InputKind.USER_INPUT), len(specs))
    before = placeholders[index] if index < len(placeholders) else _first_call(program.graph)
    with program.graph.inserting_before(before):
        constant = program.graph.placeholder(f"c_folded_{node.name}")
    constant.meta = {"val": node.meta["val"].fake_mode.from_tensor(value, static_shapes=True)}
    specs.insert(
        index,
        InputSpec(
            InputKind.CONSTANT_TENSOR, TensorArgument(name=constant.name), target=constant.name
        ),
    )
    program.constants[constant.name] = value
    node.replace_all_uses_with(constant)


def _first_call(graph: fx.Graph) -> fx.Node:
    node: fx.Node = next(n for n in graph.nodes if n.op != "placeholder")
    return node


def _erase_unused(program: ExportedProgram, nodes: list[fx.Node]) -> None:
    """Erase what only led to replaced nodes; ``nodes``: all that is known, in order."""
    dropped: set[str] = set()
    for node in reversed(nodes):
        if node.op == "call_function" and not node.users:
            leaves = [n for n in node.all_input_nodes if n.op == "placeholder"]
            program.graph.erase_node(node)
            for leaf in leaves:
                if not leaf.users:
                    program.graph.erase_node(leaf)
                    dropped.add(leaf.name)
    signature = program.graph_signature
    specs = {getattr(spec.arg, "name", ""): spec for spec in signature.input_specs}
    for name in dropped:
        target = str(specs[name].target)
        program.constants.pop(target, None)
        program.state_dict.pop(target, None)
        signature.input_specs.remove(specs[name])
