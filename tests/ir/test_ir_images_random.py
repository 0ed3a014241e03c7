"""The passes over images change no result of random graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from image_graphs import Net
from ir_graphs import f32

from executorch_ggml.ir import passes
from executorch_ggml.ir.channels_last import keep_channels_last
from executorch_ggml.ir.epilogues import fold_epilogues
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import DType, IRError
from executorch_ggml.ir.verify import verify_graph

Draw = Callable[[st.SearchStrategy[Any]], Any]
Step = Callable[[Draw, Net, Value], Value]

_LARGEST = 3000


def _extents(value: Value) -> list[int]:
    return [int(n) for n in value.ne]


def _window(draw: Draw, n: int) -> tuple[int, int]:
    """Sizes along width and height."""
    return draw(st.integers(1, n)), draw(st.integers(1, n))


def _conv(draw: Draw, net: Net, x: Value) -> Value:
    options = {"stride": draw(st.integers(1, 2)), "dilation": draw(st.integers(1, 2))}
    padding = draw(st.sampled_from([(0, 0), (1, 1), (2, 0)]))
    kernel = _window(draw, 3)
    if draw(st.booleans()):
        return net.depthwise(x, kernel, padding=padding, **options)
    channels = draw(st.sampled_from([_extents(x)[2], 1, 4, 18]))
    return net.conv(x, channels, kernel, padding=padding, **options)


def _by_channel(draw: Draw, net: Net, x: Value) -> Value:
    op = draw(st.sampled_from(["add", "sub", "mul"]))
    w, h, c, n = _extents(x)
    sizes = draw(
        st.sampled_from([(c, 1, 1), (c, 1, 1), (1,), (w,), (h, 1), (n, 1, 1, 1), (c, h, w)])
    )
    return net.graph.call(op, x, net.weight(*sizes))


def _alone(draw: Draw, net: Net, x: Value) -> Value:
    op, params = draw(
        st.sampled_from(
            [
                ("unary", {"kind": 6}),
                ("unary", {"kind": 10}),
                ("clamp", {"min": -0.5, "max": 0.75}),
                ("scale", {"scale": 0.5, "bias": 0.1}),
                ("host_unary", {"kind": 1, "type": 4}),
                ("cont", {}),
                ("soft_max", {}),
                ("mean_rows", {}),
            ]
        )
    )
    return net.graph.call(op, x, **params)


def _with_another(draw: Draw, net: Net, x: Value) -> Value:
    op = draw(st.sampled_from(["add", "add", "mul", "concat"]))
    fitting = [v for v in _values(net) if _extents(v) == _extents(x)]
    other = draw(st.sampled_from(fitting))
    params = {"axis": draw(st.integers(0, 3))} if op == "concat" else {}
    operands = (x, other) if draw(st.booleans()) else (other, x)
    if not all(v.type.is_contiguous for v in operands):
        operands = tuple(net.graph.call("cont", v) for v in operands)  # type: ignore[assignment]
    return net.graph.call(op, *operands, **params)


def _pad(draw: Draw, net: Net, x: Value) -> Value:
    sides = {
        f"{side}{i}": draw(st.sampled_from([0, 0, 1, 2] if i < 2 else [0, 0, 0, 1]))
        for i in range(4)
        for side in ("before", "after")
    }
    return net.pad(x, **sides)


def _pool(draw: Draw, net: Net, x: Value) -> Value:
    kernel = draw(st.integers(1, 3))
    padding = draw(st.integers(0, kernel // 2))
    return net.pool(x, draw(st.integers(0, 1)), kernel, draw(st.integers(1, 2)), padding)


def _permute(draw: Draw, net: Net, x: Value) -> Value:
    known = st.sampled_from([(1, 2, 0, 3), (2, 0, 1, 3), (1, 0, 2, 3), (0, 2, 1, 3)])
    return net.permute(x, *draw(st.one_of(known, st.permutations(range(4)))))


def _reshape(draw: Draw, net: Net, x: Value) -> Value:
    w, h, c, n = _extents(x)
    ne = [
        (w * h, c, n, 1),
        (w, h * c, 1, n),
        (1, w, h * c, n),
        (1, 1, w * h * c, n),
        (w, h, c * n, 1),
    ]
    if c % 2 == 0:
        ne.append((w * h, c // 2, 2, n))
    if w % 2 == 0:
        ne.append((w // 2, 2 * h, c, n))
    return net.reshape(x, *draw(st.sampled_from(ne)))


_STEPS: tuple[Step, ...] = (
    *(_conv, _conv, _conv, _conv, _conv, _conv, _by_channel, _by_channel, _alone, _alone),
    *(_with_another, _with_another, _pad, _pool, _permute, _reshape),
)


def _values(net: Net) -> list[Value]:
    """What steps may read, the last first."""
    results = [call.outputs[0] for call in reversed(net.graph.calls)]
    return [v for v in results if v.type.dtype is DType.F32] + [a.value for a in net.graph.inputs]


@st.composite
def nets(draw: Draw) -> Net:
    """Most steps read the last value, so that chains are long."""
    net = Net()
    x = net.input(draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 4])), 6, 5)
    state = net.graph.buffer_state(f32(*x.ne), "state") if draw(st.booleans()) else None
    for number in range(draw(st.integers(2, 12))):
        if state is not None and number == 6:
            net.graph.call("assign", state, net.graph.inputs[0].value)
        values = _values(net) + ([] if state is None else [state])
        x = values[0] if draw(st.integers(0, 3)) else draw(st.sampled_from(values))
        step = draw(st.sampled_from(_STEPS))
        if not x.type.is_contiguous and step is not _permute:
            x = net.graph.call("cont", x)
        calls = len(net.graph.calls)
        try:
            fits = math.prod(_extents(step(draw, net, x))) <= _LARGEST
            verify_graph(net.graph)
        except (IRError, ValueError):
            fits = False
        if not fits:
            del net.graph.calls[calls:]
    read = {v for call in net.graph.calls for v in call.inputs}
    ends = [v for v in _values(net) if v not in read or not draw(st.integers(0, 5))]
    for value in ends or _values(net)[:1]:
        copied = value if value.type.is_contiguous else net.graph.call("cont", value)
        net.finish(copied)
    return net


def _close(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for found, wanted in zip(actual, expected, strict=True):
        largest = float(wanted.abs().max())
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1.0, largest))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(nets(), st.booleans())
def test_no_result_changes(net: Net, as_products: bool) -> None:
    sizes = [int(n) for state in net.graph.states for n in reversed(state.value.ne)]  # type: ignore[union-attr]
    states = {"state": net.random(*sizes)} if sizes else {}
    expected = net.run(states)
    event(f"{keep_channels_last(net.graph, net.rearranged, as_products)} convolutions")
    verify_graph(net.graph)
    _close(net.run(states), expected)
    event(f"{fold_epilogues(net.graph)} calls folded")
    verify_graph(net.graph)
    _close(net.run(states), expected)
    passes.simplify(net.graph)
    verify_graph(net.graph)
    _close(net.run(states), expected)
