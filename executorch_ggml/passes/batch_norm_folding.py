"""Fold BatchNorms into the convolutions before them.

    to_edge_rewrite_and_lower(program, ep_passes=[BatchNormFoldingRewritePass()], ...)

In evaluation mode ``gamma * (conv(x) - mean) / sqrt(var + eps) + beta`` is a convolution
with other weights, which saves a pass over every activation.
"""

from __future__ import annotations

import logging
import operator
from collections import Counter
from dataclasses import dataclass

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram

logger = logging.getLogger(__name__)

_aten = torch.ops.aten
_CONVOLUTIONS = frozenset(
    {
        _aten.conv1d.default,
        _aten.conv2d.default,
        _aten.conv2d.padding,
        _aten.conv3d.default,
        _aten.convolution.default,
    }
)
_BIAS, _TRANSPOSED = 2, 6  # of a convolution's arguments


class BatchNormFoldingRewritePass:
    """A rewrite for ``ep_passes``; ``n_folded`` counts the BatchNorms of the last program.

    The batch norm may be one op, as ``torch.export`` gives it, or what decompositions make
    of that. A pair is left alone where the convolution's result, its weight or its bias has
    another user, where the norm uses the batch's own statistics, or where there is no bias
    to hold the shift. A program in which nothing is folded is warned about: it runs, slower.
    """

    def __init__(self) -> None:
        self.n_folded = 0

    def __call__(self, program: ExportedProgram) -> ExportedProgram:
        """Rewrite ``program`` in place, and return it."""
        self.n_folded = 0
        left: Counter[str] = Counter()
        for node in list(program.graph.nodes):
            norm = _batch_norm(node)
            if norm is None:
                continue
            reason = _fold(program, norm)
            if reason is None:
                self.n_folded += 1
            else:
                left[reason] += 1
        _drop_unused(program)
        program.graph_module.recompile()
        self._say(left)
        return program

    def _say(self, left: Counter[str]) -> None:
        reasons = "".join(f"\n  {count:4} x left: {why}" for why, count in left.most_common())
        if self.n_folded:
            logger.info("folded %d BatchNorms%s", self.n_folded, reasons)
        else:
            name = type(self).__name__
            logger.warning("%s folded nothing%s", name, reasons or ": the program has no BatchNorm")


@dataclass(frozen=True)
class _BatchNorm:
    """A batch norm's operands, and the node of its normalised tensor."""

    node: fx.Node
    result: fx.Node
    operands: tuple[fx.node.Argument, ...]  # input, scale, shift, mean, variance
    own_statistics: bool
    eps: float


def _batch_norm(node: fx.Node) -> _BatchNorm | None:
    if node.target in (_aten.batch_norm.default, _aten.native_batch_norm.default):
        operands, (training, _, eps) = node.args[:5], node.args[5:8]
    elif node.target is _aten._native_batch_norm_legit_no_training.default:
        operands, (training, _, eps) = node.args[:5], (False, *node.args[5:7])
    else:
        return None
    result = node
    if node.target is not _aten.batch_norm.default:  # a tuple, of which only this is used
        used = [user for user in node.users if user.users]
        if [user.target for user in used] != [operator.getitem] or used[0].args[1] != 0:
            return None
        (result,) = used
    assert isinstance(eps, (int, float))
    return _BatchNorm(node, result, operands, bool(training), float(eps))


def _fold(program: ExportedProgram, norm: _BatchNorm) -> str | None:
    """Fold a batch norm into the convolution before it; the reason if that is not possible."""
    conv, gamma, beta, mean, var = norm.operands
    if not isinstance(conv, fx.Node) or conv.target not in _CONVOLUTIONS:
        return "what it normalises is not the result of a convolution"
    if conv.target is _aten.convolution.default and conv.args[_TRANSPOSED]:
        return "the convolution before it is a transposed one"
    if norm.own_statistics:
        return "it uses the batch's own statistics; export the model after .eval()"
    weight = conv.args[1]
    bias = conv.args[_BIAS] if len(conv.args) > _BIAS else None
    # The shift needs a place: the convolution's own bias, or else the norm's.
    place = beta if bias is None else bias
    if place is None:
        return "neither it nor the convolution has a bias, to hold the shift"
    nodes = (weight, gamma, beta, mean, var, bias)
    w, g, b, m, v, old = tensors = [_value(program, node) for node in nodes]
    if any((x is None) != (node is None) for x, node in zip(tensors, nodes, strict=True)):
        return "a weight, bias or statistic is computed"
    if w is None or m is None or v is None:
        return "it has no statistics"
    if not _only_user(conv, norm.node):
        return "the convolution's result has another user"
    if not _only_user(weight, conv):
        return "the convolution's weight has another user"
    if not _only_user(place, conv if bias is not None else norm.node):
        return "the bias has another user"
    with torch.no_grad():
        scale = (v.double() + norm.eps).rsqrt()
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
    norm.result.replace_all_uses_with(conv)
    for node in (*norm.node.users, norm.node):
        program.graph.erase_node(node)
    return None


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
