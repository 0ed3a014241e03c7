"""Recurrent layers, whole: the input's part as one product, the steps as one host-side op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.enums import Recurrence
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, simplify_dim
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.elementwise import add_values
from executorch_ggml.lowering.linear import product
from executorch_ggml.lowering.registry import Unsupported, lowering
from executorch_ggml.lowering.slices import concatenate


@dataclass(frozen=True)
class _Direction:
    """One direction of a layer: weights ``[g h, input]`` and ``[g h, h]``, biases ``[g h]``."""

    outer: Tensor
    inner: Tensor
    outer_bias: Tensor | None
    inner_bias: Tensor | None


@dataclass(frozen=True)
class _Passed:
    """What a direction gives: outputs ``[batch, steps, h]``, last states ``[batch, h]``."""

    outputs: Tensor
    last: tuple[Tensor, ...]


@lowering("aten.lstm.input", whole=True)
def lstm(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    states = node.args[1]
    if not isinstance(states, Sequence):
        raise Unsupported("states that are no list")
    return _layers(ctx, node, Recurrence.LSTM, [ctx.float_tensor(s, "state") for s in states])


@lowering("aten.gru.input", whole=True)
def gru(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    return _layers(ctx, node, Recurrence.GRU, [ctx.float_tensor(node.args[1], "state")])


@lowering("aten.rnn_tanh.input", whole=True)
def rnn_tanh(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    return _layers(ctx, node, Recurrence.RNN_TANH, [ctx.float_tensor(node.args[1], "state")])


@lowering("aten.rnn_relu.input", whole=True)
def rnn_relu(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
    return _layers(ctx, node, Recurrence.RNN_RELU, [ctx.float_tensor(node.args[1], "state")])


def _layers(
    ctx: LoweringContext, node: fx.Node, kind: Recurrence, initial: list[Tensor]
) -> tuple[Tensor, ...]:
    """The stack of layers: (outputs, last states ``[layers * directions, batch, h]`` ...)."""
    params, has_biases, n_layers, dropout, training, both_ways, batch_first = node.args[2:9]
    if training and dropout:
        raise Unsupported("dropout in training mode")
    n_directions = 2 if both_ways else 1
    directions = _directions(ctx, params, bool(has_biases), int(str(n_layers)) * n_directions)
    x = ctx.float_tensor(node.args[0])
    if not batch_first:
        x = ctx.transpose(x, 0, 1)
    last: list[list[Tensor]] = [[] for _ in initial]
    for first in range(0, len(directions), n_directions):
        passed = []
        for index in range(first, first + n_directions):
            state = [_state(ctx, s, index) for s in initial]
            reverse = index - first == 1
            passed.append(_direction(ctx, kind, x, directions[index], state, reverse))
        for kept, values in zip(last, zip(*(p.last for p in passed), strict=True), strict=True):
            kept.extend(values)
        x = _side_by_side(ctx, [p.outputs for p in passed])
    outputs = x if batch_first else ctx.transpose(x, 0, 1)
    fakes = node.meta["val"]
    stacked = [_stacked(ctx, states) for states in last]
    return tuple(
        Tensor(t.value, t.shape, fake.dtype)
        for t, fake in zip((outputs, *stacked), fakes, strict=True)
    )


def _directions(
    ctx: LoweringContext, params: Any, has_biases: bool, count: int
) -> list[_Direction]:
    per_direction = 4 if has_biases else 2
    if not isinstance(params, Sequence) or len(params) != count * per_direction:
        raise Unsupported("a recurrent layer with projections")
    tensors = [ctx.float_tensor(p, "weight") for p in params]
    return [
        _Direction(*tensors[i : i + 2], *(tensors[i + 2 : i + 4] if has_biases else (None, None)))
        for i in range(0, len(tensors), per_direction)
    ]


def _direction(
    ctx: LoweringContext,
    kind: Recurrence,
    x: Tensor,
    weights: _Direction,
    initial: list[Tensor],
    reverse: bool,
) -> _Passed:
    """One pass over ``x`` ``[batch, steps, input]``; states ``[batch, h]``."""
    batch, steps, _ = x.shape
    wide, size = weights.inner.shape
    gates = product(ctx, x, weights.outer)
    if weights.outer_bias is not None:
        gates = add_values(ctx, gates, weights.outer_bias.value)
    states = [
        Tensor(ctx.reshape(s.value, (batch, 1, size)), (batch, 1, size), s.dtype) for s in initial
    ]
    rows = ctx.call(
        "host_recurrent",
        gates,
        ctx.contiguous(weights.inner.value),
        _bias(ctx, weights.inner_bias, wide),
        concatenate(ctx, states, 1),
        kind=int(kind),
        reverse=int(reverse),
    )
    full = Tensor(rows, (batch, simplify_dim(steps + kind.n_states - 1), size), x.dtype)
    outputs = Tensor(ctx.slice(full, 1, 0, steps), (batch, steps, size), x.dtype)
    last = [_step(ctx, full, 0 if reverse else simplify_dim(steps - 1))]
    if kind is Recurrence.LSTM:
        last.append(_step(ctx, full, steps))
    return _Passed(outputs, tuple(last))


def _bias(ctx: LoweringContext, bias: Tensor | None, wide: Dim) -> Value:
    if bias is not None:
        return ctx.contiguous(bias.value)
    if not isinstance(wide, int):
        raise Unsupported("weights of symbolic size")
    return ctx.constant(torch.zeros(wide))


def _step(ctx: LoweringContext, rows: Tensor, index: Dim) -> Tensor:
    batch, _, size = rows.shape
    picked = ctx.slice(rows, 1, index, 1)
    return Tensor(ctx.reshape(picked, (batch, size)), (batch, size), rows.dtype)


def _state(ctx: LoweringContext, states: Tensor, index: int) -> Tensor:
    """The initial state ``[batch, h]`` of one direction of a layer."""
    shape = states.shape[1:]
    picked = ctx.slice(states, 0, index, 1)
    return Tensor(ctx.reshape(picked, shape), shape, states.dtype)


def _side_by_side(ctx: LoweringContext, parts: list[Tensor]) -> Tensor:
    """Outputs ``[batch, steps, h]`` of the directions after each other in the last dim."""
    batch, steps, size = parts[0].shape
    if len(parts) == 1:
        return parts[0]
    shape = (batch, steps, simplify_dim(size * len(parts)))
    return Tensor(concatenate(ctx, parts, 2), shape, parts[0].dtype)


def _stacked(ctx: LoweringContext, states: list[Tensor]) -> Tensor:
    batch, size = states[0].shape
    rows = [
        Tensor(ctx.reshape(s.value, (1, batch, size)), (1, batch, size), s.dtype) for s in states
    ]
    return Tensor(concatenate(ctx, rows, 0), (len(rows), batch, size), states[0].dtype)
