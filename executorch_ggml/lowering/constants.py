"""The contents of a program's constants, where they may be read ahead of time.

Only small constants are asked for here: a model's numbers, lifted to tensors, and
tables such as rotary frequencies. Weights are never read this way.
"""

from __future__ import annotations

import functools

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram


def constant_tensor(program: ExportedProgram, node: fx.Node) -> torch.Tensor | None:
    """The tensor of a lifted constant, an attribute or a buffer that is never written.

    None for parameters, inputs and mutable buffers, and while the contents are not
    known (fake or meta tensors).
    """
    if node.op == "get_attr":
        found = functools.reduce(getattr, str(node.target).split("."), program.graph_module)
    elif node.op == "placeholder":
        signature = program.graph_signature
        target = signature.inputs_to_lifted_tensor_constants.get(node.name)
        if target is None:
            target = signature.inputs_to_buffers.get(node.name)
        if target is None or target in signature.buffers_to_mutate.values():
            return None
        found = program.constants.get(target)
        if found is None:
            found = program.state_dict.get(target)
    else:
        return None
    if isinstance(found, torch._subclasses.FakeTensor):
        # Partitioners see fake contents, but a number of the model's code is kept beside them.
        found = getattr(node.meta.get("val"), "constant", None)
    return found if isinstance(found, torch.Tensor) and not found.is_meta else None


def constant_scalar(program: ExportedProgram, node: fx.Node) -> float | None:
    """The value of a constant of one element."""
    tensor = constant_tensor(program, node)
    return float(tensor.item()) if tensor is not None and tensor.numel() == 1 else None
