"""Root mean square norm: ``x * rsqrt(mean(x^2) + eps)``, times a weight where there is one."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram

from executorch_ggml.fusion.matching import (
    has_one_user,
    is_op,
    operands,
    replace,
    scalar_value,
    skip_casts,
)

_MUL = "aten.mul.Tensor"


def fuse_rms_norm(program: ExportedProgram) -> int:
    """Returns the number of norms fused."""
    matches = 0
    for node in list(program.graph.nodes):
        if not is_op(node, _MUL):
            continue
        found = _match(program, node)
        if found is None:
            continue
        x, eps = found
        last, weight = _weight(node)
        replace(last, torch.ops.ggml.rms_norm.default, x, weight, eps)
        matches += 1
    return matches


def _match(program: ExportedProgram, node: fx.Node) -> tuple[fx.Node, float] | None:
    """``mul(x, rsqrt(add(mean(pow(x, 2), [-1], True), eps)))`` as (x, eps)."""
    pair = operands(node, lambda arg: is_op(arg, "aten.rsqrt.default"))
    if pair is None:
        return None
    rsqrt, x = pair
    add = rsqrt.args[0]
    if not is_op(add, "aten.add.Tensor", "aten.add.Scalar"):
        return None
    mean, eps_arg = add.args[0], add.args[1]
    if not is_op(mean, "aten.mean.dim"):
        mean, eps_arg = eps_arg, mean
    eps = scalar_value(program, eps_arg)
    if eps is None or not is_op(mean, "aten.mean.dim"):
        return None
    dims, keepdim = mean.args[1], len(mean.args) > 2 and mean.args[2]
    rank = x.meta["val"].dim()
    if not keepdim or [d % rank for d in dims] != [rank - 1]:
        return None
    square = mean.args[0]
    if (is_op(square, "aten.pow.Tensor_Scalar") and square.args[1] == 2) or (
        is_op(square, _MUL) and square.args[0] is square.args[1]
    ):
        base = square.args[0]
    else:
        return None
    return (skip_casts(x), eps) if skip_casts(base) is skip_casts(x) else None


def _weight(node: fx.Node) -> tuple[fx.Node, Any]:
    """A following product with a vector, and the vector; else the node itself and None."""
    last: Any = node
    while has_one_user(last):
        (user,) = last.users
        if skip_casts(user) is not node and not is_op(user, _MUL):
            break
        if is_op(user, _MUL):
            pair = operands(user, lambda arg: skip_casts(arg) is node)
            if pair is None:
                break
            weight = skip_casts(pair[1])
            if isinstance(weight, fx.Node):
                shape, size = weight.meta["val"].shape, node.meta["val"].shape[-1]
                if len(shape) == 1 and shape[0] == size:
                    return user, weight
            break
        last = user
    return node, None
