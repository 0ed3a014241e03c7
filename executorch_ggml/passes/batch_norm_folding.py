"""Fold BatchNorms into the convolutions before them.

    to_edge_rewrite_and_lower(program, ep_passes=[BatchNormFoldingRewritePass()], ...)

In evaluation mode ``gamma * (conv(x) - mean) / sqrt(var + eps) + beta`` is a convolution
with other weights, which saves a pass over every activation.
"""

from __future__ import annotations

import logging

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram

logger = logging.getLogger(__name__)

_CONVOLUTIONS = frozenset(
    {
        torch.ops.aten.conv1d.default,
        torch.ops.aten.conv2d.default,
        torch.ops.aten.conv2d.padding,
        torch.ops.aten.conv3d.default,
    }
)
_BATCH_NORM = torch.ops.aten.batch_norm.default
_BIAS = 2  # of a convolution's arguments


class BatchNormFoldingRewritePass:
    """A rewrite for ``ep_passes``; ``n_folded`` counts the BatchNorms of the last program.

    A pair is left alone where the convolution's result, its weight or its bias has another
    user, where the norm uses the batch's own statistics, or where there is no bias to hold
    the shift.
    """

    def __init__(self) -> None:
        self.n_folded = 0

    def __call__(self, program: ExportedProgram) -> ExportedProgram:
        """Rewrite ``program`` in place, and return it."""
        self.n_folded = sum(
            _fold(program, node)
            for node in list(program.graph.nodes)
            if node.op == "call_function" and node.target is _BATCH_NORM
        )
        _drop_unused(program)
        program.graph_module.recompile()
        logger.info("folded %d BatchNorms", self.n_folded)
        return program


def _fold(program: ExportedProgram, norm: fx.Node) -> bool:
    conv, gamma, beta, mean, var, training, _, eps = norm.args[:8]
    if not isinstance(conv, fx.Node) or conv.target not in _CONVOLUTIONS or training:
        return False
    weight = conv.args[1]
    bias = conv.args[_BIAS] if len(conv.args) > _BIAS else None
    # The shift needs a place: the convolution's own bias, or else the norm's.
    place = beta if bias is None else bias
    tensors = [_value(program, node) for node in (weight, gamma, beta, mean, var, bias)]
    w, g, b, m, v, old = tensors
    if w is None or m is None or v is None or (g is None) != (gamma is None):
        return False
    if not _only_user(conv, norm) or not _only_user(weight, conv):
        return False
    if not _only_user(place, conv if bias is not None else norm):
        return False
    with torch.no_grad():
        scale = (v.double() + float(eps)).rsqrt()  # type: ignore[arg-type]
        if g is not None:
            scale = scale * g.double()
        shift = ((0.0 if old is None else old.double()) - m.double()) * scale
        if b is not None:
            shift = shift + b.double()
        folded = w.double() * scale.reshape(-1, *[1] * (w.dim() - 1))
    _set(program, weight, folded.to(w.dtype))
    _set(program, place, shift.to(w.dtype))
    arguments = list(conv.args) + [None] * (_BIAS + 1 - len(conv.args))
    arguments[_BIAS] = place
    conv.args = tuple(arguments)
    norm.replace_all_uses_with(conv)
    program.graph.erase_node(norm)
    return True


def _only_user(node: object, user: fx.Node) -> bool:
    return isinstance(node, fx.Node) and list(node.users) == [user]


def _name(program: ExportedProgram, node: object) -> str | None:
    """Qualified name of the parameter or buffer that a placeholder stands for."""
    if not isinstance(node, fx.Node):
        return None
    signature = program.graph_signature
    names: dict[str, str] = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return names.get(node.name)


def _value(program: ExportedProgram, node: object) -> torch.Tensor | None:
    name = _name(program, node)
    return None if name is None else program.state_dict.get(name)


def _set(program: ExportedProgram, node: object, value: torch.Tensor) -> None:
    name = _name(program, node)
    assert name is not None
    # New tensors: the user's module keeps its own.
    is_parameter = isinstance(program.state_dict[name], torch.nn.Parameter)
    program.state_dict[name] = torch.nn.Parameter(value, False) if is_parameter else value


def _drop_unused(program: ExportedProgram) -> None:
    """Remove parameters and buffers that nothing reads any more."""
    unused = {
        node.name: node
        for node in program.graph.nodes
        if node.op == "placeholder" and not node.users and _name(program, node) is not None
    }
    for node in unused.values():
        name = _name(program, node)
        assert name is not None
        program.state_dict.pop(name, None)
        program.graph.erase_node(node)
    signature = program.graph_signature
    signature.input_specs = [
        s for s in signature.input_specs if getattr(s.arg, "name", "") not in unused
    ]
