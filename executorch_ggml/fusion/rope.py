"""Rotary embedding as transformers writes it: ``x * cos + rotate_half(x) * sin``.

Cosine and sine come from ``cat(f, f)`` with ``f = positions * inv_freq``, possibly
scaled. ggml computes the frequencies from a base; where ``inv_freq`` is no pure
power law, its deviation from one becomes the op's ``freq_factors``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram

from executorch_ggml.fusion.matching import (
    is_op,
    replace,
    scalar_value,
    skip_casts,
    skip_views,
)
from executorch_ggml.lowering.constants import constant_tensor

_MUL = "aten.mul.Tensor"
_SLICE = ("aten.slice_copy.Tensor", "aten.slice.Tensor")
#: Relative error up to which frequencies count as a power law: a few float32 roundings.
_POWER_LAW_TOLERANCE = 2e-6


@dataclass(frozen=True)
class _Angles:
    """What a cosine or sine table was made from."""

    positions: fx.Node
    inv_freq: torch.Tensor
    scale: float


def fuse_rope(program: ExportedProgram) -> int:
    """Returns the number of rotations fused."""
    matches = 0
    for node in list(program.graph.nodes):
        if not is_op(node, "aten.add.Tensor") or not all(is_op(a, _MUL) for a in node.args[:2]):
            continue
        for straight, rotated in (node.args[:2], node.args[1::-1]):
            found = _match(program, straight, rotated)
            if found is not None:
                _fuse(program, node, *found)
                matches += 1
                break
    return matches


def _match(
    program: ExportedProgram, straight: fx.Node, rotated: fx.Node
) -> tuple[fx.Node, _Angles] | None:
    for x, cosine in (straight.args[:2], straight.args[1::-1]):
        for half, sine in (rotated.args[:2], rotated.args[1::-1]):
            if not isinstance(x, fx.Node) or not _is_rotate_half(half, x):
                continue
            cos = _angles(program, cosine, "aten.cos.default")
            sin = _angles(program, sine, "aten.sin.default")
            if cos is None or sin is None or x.meta["val"].dim() != 4:
                continue
            same = (
                cos.positions is sin.positions
                and torch.equal(cos.inv_freq, sin.inv_freq)
                and cos.scale == sin.scale
            )
            if same and _is_one_row(cos.positions, x):
                return x, cos
    return None


def _is_rotate_half(arg: Any, x: fx.Node) -> bool:
    """``cat([-x[..., n/2:], x[..., :n/2]], -1)``."""
    if not is_op(arg, "aten.cat.default") or len(arg.args[0]) != 2:
        return False
    rank, size = x.meta["val"].dim(), x.meta["val"].shape[-1]
    if (arg.args[1] if len(arg.args) > 1 else 0) % rank != rank - 1:
        return False
    negated, plain = arg.args[0]
    if not is_op(negated, "aten.neg.default"):
        return False
    upper = negated.args[0]
    for part, start in ((upper, size // 2), (plain, 0)):
        if not is_op(part, *_SLICE) or part.args[0] is not x:
            return False
        given = part.args[2] if len(part.args) > 2 and part.args[2] is not None else 0
        if given != start or part.meta["val"].shape[-1] != size // 2:
            return False
    return True


def _angles(program: ExportedProgram, arg: Any, function: str) -> _Angles | None:
    """Trace a table back to ``scale * function(cat(f, f))``, ``f = positions * inv_freq``."""
    arg, scale = skip_views(arg), 1.0
    if is_op(arg, _MUL, "aten.mul.Scalar"):
        for table, factor in (arg.args[:2], arg.args[1::-1]):
            value = scalar_value(program, factor)
            if value is not None:
                arg, scale = skip_views(table), value
                break
    if not is_op(arg, function):
        return None
    doubled = skip_views(arg.args[0])
    if not is_op(doubled, "aten.cat.default") or len(doubled.args[0]) != 2:
        return None
    first, second = doubled.args[0]
    if first is not second:
        return None
    product = skip_views(first)
    if is_op(product, "aten.permute_copy.default", "aten.transpose.int"):
        product = skip_views(product.args[0])
    if not is_op(product, _MUL, "aten.bmm.default", "aten.matmul.default"):
        return None
    for positions, frequencies in (product.args[:2], product.args[1::-1]):
        table = skip_views(frequencies)
        inv_freq = constant_tensor(program, table) if isinstance(table, fx.Node) else None
        source = _integer_source(positions)
        if inv_freq is not None and source is not None:
            return _Angles(source, inv_freq.reshape(-1).double(), scale)
    return None


def _integer_source(arg: Any) -> fx.Node | None:
    """The integer tensor that positions were converted from."""
    arg = skip_views(arg)
    for _ in range(8):
        if not isinstance(arg, fx.Node):
            return None
        value = arg.meta.get("val")
        if isinstance(value, torch.Tensor) and not value.is_floating_point():
            return _strip_integer_views(arg)
        if arg.op != "call_function":
            return None
        arg = skip_views(arg.args[0])
    return None


def _strip_integer_views(node: fx.Node) -> fx.Node:
    source = skip_views(node)
    assert isinstance(source, fx.Node)
    return source


def _is_one_row(positions: fx.Node, x: fx.Node) -> bool:
    """Whether there is one position for each of x's, shared by the batch."""
    shape = positions.meta["val"].shape
    count = 1
    for size in shape:
        count = count * size
    return bool(count == x.meta["val"].shape[2])


def _fuse(program: ExportedProgram, node: fx.Node, x: fx.Node, angles: _Angles) -> None:
    inv_freq = angles.inv_freq
    n_dims = 2 * inv_freq.numel()
    exponents = torch.arange(inv_freq.numel(), dtype=torch.float64) * 2.0 / n_dims
    base = float(inv_freq[-1] ** (-1.0 / exponents[-1])) if inv_freq.numel() > 1 else 10000.0
    base = _rounded(base)
    factors: fx.Node | None = None
    power_law = base**-exponents
    if not torch.allclose(power_law, inv_freq, rtol=_POWER_LAW_TOLERANCE, atol=0.0):
        base = 10000.0
        factors = _attribute(program, node, (base**-exponents / inv_freq).float())
    replace(
        node,
        torch.ops.ggml.rope.default,
        skip_casts(x),
        _flat(angles.positions, node),
        factors,
        n_dims,
        "neox",
        base,
        1.0,
        0.0,
        angles.scale,
        32.0,
        1.0,
        0,
    )


def _flat(positions: fx.Node, before: fx.Node) -> fx.Node:
    """Positions as the op takes them, in one dim."""
    fake = positions.meta["val"]
    if fake.dim() == 1:
        return positions
    with before.graph.inserting_before(before):
        flat = before.graph.call_function(torch.ops.aten.view.default, (positions, [-1]))
    flat.meta["val"] = fake.view(-1)
    return flat


def _rounded(base: float) -> float:
    """The base as a config would state it: float32 frequencies give about six digits."""
    rounded = float(f"{base:.6g}")
    return float(round(rounded)) if abs(rounded - round(rounded)) < 1e-3 * rounded else rounded


def _attribute(program: ExportedProgram, before: fx.Node, tensor: torch.Tensor) -> fx.Node:
    """A new constant of the program, as an attribute of its graph module."""
    module = program.graph_module
    index = 0
    while hasattr(module, f"_rope_freq_factors_{index}"):
        index += 1
    name = f"_rope_freq_factors_{index}"
    module.register_buffer(name, tensor, persistent=False)
    with before.graph.inserting_before(before):
        node = before.graph.get_attr(name)
    mode = before.meta["val"].fake_mode
    node.meta["val"] = mode.from_tensor(tensor, static_shapes=True)
    return node
