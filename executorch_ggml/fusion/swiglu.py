"""Gated unit ``silu(gate) * up``, with silu whole or as ``gate * sigmoid(gate)``."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram

from executorch_ggml.fusion.matching import has_one_user, is_op, replace

_MUL = "aten.mul.Tensor"


def fuse_swiglu(program: ExportedProgram) -> int:
    """Returns the number of gated units fused."""
    matches = 0
    for node in list(program.graph.nodes):
        if not is_op(node, _MUL):
            continue
        for gate_arg, up in (node.args[:2], node.args[1::-1]):
            gate = _silu_input(gate_arg)
            if gate is not None and _same_shape(gate, up):
                replace(node, torch.ops.ggml.swiglu.default, gate, up)
                matches += 1
                break
    return matches


def _silu_input(arg: Any) -> fx.Node | None:
    """``x`` of ``silu(x)`` if nothing else reads the activation."""
    if is_op(arg, "aten.silu.default") and has_one_user(arg):
        source: fx.Node = arg.args[0]
        return source
    if is_op(arg, _MUL) and has_one_user(arg):
        for x, gate in (arg.args[:2], arg.args[1::-1]):
            if is_op(gate, "aten.sigmoid.default") and gate.args[0] is x and has_one_user(gate):
                return x if isinstance(x, fx.Node) else None
    return None


def _same_shape(a: Any, b: Any) -> bool:
    return (
        isinstance(b, fx.Node)
        and tuple(a.meta["val"].shape) == tuple(b.meta["val"].shape)
        and a.meta["val"].dtype == b.meta["val"].dtype
    )
