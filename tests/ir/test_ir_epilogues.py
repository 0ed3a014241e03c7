"""A convolution takes over its bias, residual and clamp, and nothing that another one needs."""

from __future__ import annotations

import math

import pytest
import torch
from image_graphs import RELU, SIGMOID, Net
from ir_graphs import f32

from executorch_ggml.ir.epilogues import fold_epilogues
from executorch_ggml.ir.graph import Call, Value
from executorch_ggml.ir.verify import verify_graph

#: (channels, width, height, images) of the inputs.
C, W, H, N = 5, 4, 3, 2


def fold(net: Net, folded: int, states: dict[str, torch.Tensor] | None = None) -> list[Call]:
    """The pass, that it folds so many calls and changes no result; the convolutions."""
    before = net.run(states)
    assert fold_epilogues(net.graph) == folded
    verify_graph(net.graph)
    for actual, expected in zip(net.run(states), before, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)
    assert fold_epilogues(net.graph) == 0
    return [call for call in net.graph.calls if call.op.name.startswith("conv")]


def image(net: Net, channels: int = C) -> Value:
    return net.input(N, H, W, channels)


def conv(net: Net, x: Value, depthwise: bool = False) -> Value:
    """A channels-last convolution that keeps sizes and channels."""
    c = int(x.ne[0])
    window = {"kernel0": 3, "kernel1": 3, "stride0": 1, "stride1": 1}
    window |= {"padding0": 1, "padding1": 1, "after0": 1, "after1": 1}
    if depthwise:
        return net.graph.call("conv_2d_dw_nhwc", net.weight(3, 3, c), x, **window)
    kernel = net.weight(1, 9 * c, 16)
    return net.graph.call("conv_2d_nhwc", kernel, x, channels=c, **window)


def limits(call: Call) -> tuple[float, float]:
    return call.params["min"], call.params["max"]


@pytest.mark.parametrize("depthwise", [False, True])
def test_bias_residual_and_clamp_are_folded_in_this_order(depthwise: bool) -> None:
    net = Net()
    x = image(net)
    bias = net.weight(C)
    y = net.add(net.add(conv(net, x, depthwise), bias), x)
    net.finish(net.graph.call("clamp", y, min=-0.5, max=0.75))
    (call,) = fold(net, 3)
    assert call.inputs[1:] == (x, bias, x)
    assert limits(call) == (-0.5, 0.75)
    assert len(net.graph.calls) == 1


def test_relu_has_one_limit() -> None:
    net = Net()
    net.finish(net.relu(conv(net, image(net))))
    (call,) = fold(net, 1)
    assert limits(call) == (0.0, math.inf)


def test_a_sum_of_two_convolutions_is_the_later_ones() -> None:
    net = Net()
    x = image(net)
    first = net.add(conv(net, x), net.weight(C))
    second = net.add(conv(net, x), net.weight(C))
    net.finish(net.relu(net.add(first, second)))
    one, other = fold(net, 4)
    assert one.inputs[3] is None
    assert other.inputs[3] is one.outputs[0]


@pytest.mark.parametrize("on_the_left", [True, False])
def test_a_residual_may_be_computed_after_the_convolution(on_the_left: bool) -> None:
    net = Net()
    x = image(net)
    y = conv(net, x)
    later = net.graph.call("sqr", x)
    net.finish(net.add(y, later) if on_the_left else net.add(later, y))
    (call,) = fold(net, 1)
    assert call.inputs[3] is later
    assert net.graph.calls[-1] is call


def test_what_follows_a_clamp_stays() -> None:
    net = Net()
    x = image(net)
    y = net.graph.call("clamp", conv(net, x), min=0.0, max=6.0)
    y = net.graph.call("clamp", y, min=1.0, max=3.0)
    z = net.add(net.relu(conv(net, x)), net.weight(C))
    net.finish(y, z)
    first, second = fold(net, 2)
    assert limits(first) == (0.0, 6.0)
    assert limits(second) == (0.0, math.inf)
    assert net.ops == ["conv_2d_nhwc", "clamp", "conv_2d_nhwc", "add"]


def test_a_bias_after_a_residual_stays() -> None:
    net = Net()
    x = image(net)
    net.finish(net.add(net.add(conv(net, x), x), net.weight(C)))
    fold(net, 1)
    assert net.ops == ["conv_2d_nhwc", "add"]


def test_a_second_bias_and_a_second_residual_stay() -> None:
    net = Net()
    x = image(net)
    y = net.add(net.add(conv(net, x), net.weight(C)), net.weight(C))
    z = net.add(net.add(conv(net, x), x), x)
    net.finish(y, z)
    fold(net, 2)
    assert net.ops == ["conv_2d_nhwc", "add", "conv_2d_nhwc", "add"]


@pytest.mark.parametrize("sizes", [(1,), (W, 1), (N, 1, 1, C), (H, W, C), (1, 1, 1, 1)])
def test_other_operands_of_a_sum_stay(sizes: tuple[int, ...]) -> None:
    net = Net()
    net.finish(net.add(conv(net, image(net)), net.weight(*sizes)))
    fold(net, 0)


def test_a_result_that_broadcasts_is_no_residual() -> None:
    net = Net()
    images = net.input(N, H, W, C)
    net.finish(net.add(images, conv(net, net.input(1, H, W, C))))
    fold(net, 0)


def test_the_bias_of_one_position_is_no_residual_of_another_shape() -> None:
    """Where one position is all there is, a bias and a residual look the same."""
    net = Net()
    x = net.input(1, 1, 1, C)
    net.finish(net.add(net.add(conv(net, x), x), net.weight(C)))
    (call,) = fold(net, 2)
    assert call.inputs[2] is x


def test_other_functions_stay() -> None:
    net = Net()
    x = image(net)
    y = net.graph.call("unary", conv(net, x), kind=SIGMOID)
    net.finish(y, net.graph.call("mul", conv(net, x), net.weight(C)))
    net.finish(net.graph.call("sub", conv(net, x), x))
    fold(net, 0)


def test_results_with_another_reader_stay() -> None:
    net = Net()
    x = image(net)
    y = conv(net, x)
    twice = conv(net, x)
    result = conv(net, x)
    net.finish(net.relu(y), net.graph.call("sqr", y))
    net.finish(net.add(twice, twice))
    net.finish(result, net.relu(result))
    fold(net, 0)


def test_a_reader_of_a_folded_call_reads_the_convolution() -> None:
    net = Net()
    x = image(net)
    y = net.add(conv(net, x), net.weight(C))
    net.finish(net.graph.call("sqr", y), net.graph.call("unary", y, kind=RELU), y)
    (call,) = fold(net, 1)
    assert [a.value is call.outputs[0] for a in net.graph.outputs] == [False, False, True]


def test_other_convolutions_stay() -> None:
    net = Net()
    net.finish(net.relu(net.bias(net.conv(net.input(1, 3, 5, 6), 4))))
    fold(net, 0)


def test_a_convolution_of_a_state_stays_before_its_write() -> None:
    net = Net()
    x = image(net)
    state = net.graph.buffer_state(f32(C, W, H, N), "b")
    y = conv(net, net.reshape(state, C, W, H, N))
    net.graph.call("assign", state, x)
    net.finish(net.add(y, net.weight(C)))
    fold(net, 0, {"b": net.random(N, H, W, C)})


def test_a_bias_that_is_a_state_is_read_before_its_write() -> None:
    net = Net()
    x = image(net)
    state = net.graph.buffer_state(f32(C), "b")
    y = net.add(conv(net, x), state)
    net.graph.call("assign", state, net.weight(C))
    net.finish(net.relu(y))
    fold(net, 1, {"b": net.random(1, 1, 1, C)})
    assert net.ops == ["conv_2d_nhwc", "assign", "unary"]


def test_sizes_may_be_dynamic() -> None:
    net = Net()
    w = net.symbol("w", 2)
    net.inputs.append(net.random(N, H, 9, C))
    x = net.graph.input(f32(C, w, H, N), 6, (N, H, w, C))
    y = net.add(net.add(conv(net, x), net.weight(C)), conv(net, x))
    net.finish(net.relu(y))
    fold(net, 3)
