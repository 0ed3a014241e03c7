"""Images between convolutions are kept channels-last: same values, and few are turned."""

from __future__ import annotations

import pytest
import torch
from image_graphs import SIGMOID, SILU, Net
from ir_graphs import FLOAT, f32

from executorch_ggml.ir import passes
from executorch_ggml.ir.channels_last import keep_channels_last
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import DType
from executorch_ggml.ir.verify import verify_graph

MAX, AVG = 0, 1


def keep(
    net: Net,
    convolutions: int,
    states: dict[str, torch.Tensor] | None = None,
    as_products: bool = False,
) -> Net:
    """The pass, and that it rewrites so many convolutions and changes no result."""
    before = net.run(states)
    assert keep_channels_last(net.graph, net.rearranged, as_products) == convolutions
    verify_graph(net.graph)
    after = net.run(states)
    passes.simplify(net.graph)
    verify_graph(net.graph)
    for results in (after, net.run(states)):
        for actual, expected in zip(results, before, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    return net


def turns(net: Net) -> int:
    """How many images are written out in another order."""
    return net.count("cont")


def chain(net: Net, x: Value) -> Value:
    return net.conv(net.conv(x, 5, padding=(1, 1)), 7)


def test_an_image_is_turned_once_in_and_once_out() -> None:
    net = Net()
    net.finish(chain(net, net.input(2, 3, 9, 8)))
    keep(net, 2)
    assert net.ops == ["permute", "cont", "conv_2d_nhwc", "conv_2d_nhwc", "permute", "cont"]


def test_a_convolution_alone_stays() -> None:
    net = Net()
    net.finish(net.relu(net.bias(net.conv(net.input(2, 3, 9, 8), 5))))
    assert keep(net, 0).ops == ["conv_2d", "add", "unary"]


def test_graphs_without_convolutions_stay() -> None:
    net = Net()
    x = net.input(2, 3, 8, 8)
    net.finish(net.graph.call("cont", net.permute(net.pool(x, MAX, 2, 2), 1, 2, 0, 3)))
    assert keep(net, 0).ops == ["pool_2d", "permute", "cont"]


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(
    ("kernel", "padding"), [((3, 3), (1, 2)), ((5, 2), (2, 0)), ((1, 1), (0, 1))]
)
def test_windows(
    kernel: tuple[int, int], padding: tuple[int, int], stride: int, dilation: int
) -> None:
    net = Net()
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    y = net.conv(net.input(2, 3, 17, 19), 18, kernel, **options)  # type: ignore[arg-type]
    y = net.depthwise(y, kernel, padding=(4, 3))
    net.finish(net.conv(y, 4, (1, 1)))
    keep(net, 3)
    assert turns(net) == 2


def residual_block(net: Net, x: Value, downsampled: bool) -> Value:
    """The residual is known before the convolutions, or is the last convolution itself."""
    y = net.relu(net.bias(net.conv(x, 8, stride=2 if downsampled else 1, padding=(1, 1))))
    y = net.graph.call("clamp", net.depthwise(y, padding=(1, 1)), min=-0.5, max=0.5)
    y = net.bias(net.conv(y, 8, (1, 1)))
    if downsampled:
        return net.relu(net.add(y, net.bias(net.conv(x, 8, (1, 1), stride=2))))
    return net.relu(net.add(x, y))


def test_residuals_are_not_turned() -> None:
    net = Net()
    x = net.conv(net.input(2, 3, 9, 8), 8)
    x = residual_block(net, x, downsampled=False)
    net.finish(residual_block(net, x, downsampled=True))
    keep(net, 8)
    assert turns(net) == 2


@pytest.mark.parametrize("sides", [(1, 1, 1, 1), (0, 1, 0, 1), (2, 0, 1, 3)])
def test_zeros_before_a_convolution_are_its_own(sides: tuple[int, int, int, int]) -> None:
    net = Net()
    before0, after0, before1, after1 = sides
    y = net.conv(net.input(2, 3, 9, 8), 5)
    y = net.pad(y, before0=before0, after0=after0, before1=before1, after1=after1)
    net.finish(net.conv(y, 4, stride=2, padding=(1, 0)))
    keep(net, 2)
    assert net.count("pad") == 0
    last = net.graph.calls[net.ops.index("conv_2d_nhwc") + 1].params
    assert [last[k] for k in ("padding0", "after0", "padding1", "after1")] == [
        1 + before0,
        1 + after0,
        before1,
        after1,
    ]


def test_zeros_of_an_input_are_its_convolutions_own() -> None:
    net = Net()
    x = net.pad(net.input(1, 3, 8, 8), after0=1, after1=1)
    net.finish(net.conv(net.conv(x, 4, stride=2), 4))
    keep(net, 2)
    assert net.count("pad") == 0
    assert turns(net) == 2


@pytest.mark.parametrize("sides", [{"after2": 2}, {"before3": 1}, {"before2": 1, "before0": 1}])
def test_more_channels_and_images_of_zeros_stay(sides: dict[str, int]) -> None:
    net = Net()
    y = net.pad(net.conv(net.input(2, 3, 9, 8), 5), **sides)
    net.finish(net.conv(y, 4))
    keep(net, 2)
    assert net.count("pad") == 1
    assert turns(net) == 2


def test_padded_images_that_are_read_twice_are_made_once() -> None:
    net = Net()
    y = net.pad(net.conv(net.input(2, 3, 9, 8), 5), before0=1, after1=1)
    net.finish(net.add(net.conv(y, 5, (1, 1)), y))
    keep(net, 2)
    assert net.count("pad") == 1


@pytest.mark.parametrize("kind", [MAX, AVG])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1)])
def test_pools(kind: int, kernel: int, stride: int, padding: int) -> None:
    net = Net()
    y = net.pool(net.conv(net.input(2, 3, 11, 8), 5), kind, kernel, stride, padding)
    net.finish(net.conv(y, 4))
    keep(net, 2)
    assert net.count("pool_2d_nhwc") == 1
    assert turns(net) == 2


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_branches_are_joined(axis: int) -> None:
    net = Net()
    x = net.conv(net.input(2, 3, 9, 8), 5)
    joined = net.graph.call("concat", net.conv(x, 4, (1, 1)), net.conv(x, 4, (1, 1)), axis=axis)
    net.finish(net.conv(joined, 6))
    keep(net, 4)
    assert net.graph.calls[net.ops.index("concat")].params["axis"] == (1, 2, 0, 3)[axis]
    assert turns(net) == 2


def test_a_branch_of_another_origin_is_turned() -> None:
    net = Net()
    x, other = net.input(2, 3, 9, 8), net.input(2, 2, 7, 6)
    joined = net.graph.call("concat", other, net.conv(x, 4), axis=2)
    net.finish(net.conv(joined, 6))
    keep(net, 2)
    assert turns(net) == 3


def squeezed(net: Net, y: Value) -> Value:
    """The mean of all positions, ``ne = (1, 1, c, n)``."""
    w, h, c, n = y.ne
    mean = net.graph.call("mean_rows", net.reshape(y, w * h, c, n, 1))
    return net.reshape(mean, 1, 1, c, n)


def test_squeeze_and_excitation_turns_nothing() -> None:
    net = Net()
    y = net.graph.call("unary", net.conv(net.input(2, 3, 9, 8), 8), kind=SILU)
    s = net.relu(net.bias(net.conv(squeezed(net, y), 2, (1, 1))))
    s = net.graph.call("unary", net.bias(net.conv(s, 8, (1, 1))), kind=SIGMOID)
    net.finish(net.conv(net.graph.call("mul", y, s), 5, (1, 1)))
    keep(net, 4)
    assert net.count("pool_2d_nhwc") == 1
    assert turns(net) == 2


def test_a_classifier_reads_means_as_they_lie() -> None:
    net = Net()
    y = net.conv(net.conv(net.input(2, 3, 9, 8), 8), 6)
    means = net.reshape(squeezed(net, y), 6, 2, 1, 1)
    net.finish(net.graph.call("mul_mat", net.weight(10, 6), means))
    keep(net, 2)
    assert turns(net) == 1


def test_factors_of_channels_and_of_everything() -> None:
    net = Net()
    y = net.conv(net.input(2, 3, 9, 8), 5)
    y = net.graph.call("mul", y, net.weight(5, 1, 1))
    y = net.graph.call("sub", y, net.weight(1))
    y = net.graph.call("scale", y, scale=0.5, bias=0.25)
    y = net.graph.call("div", y, net.stored(torch.full((1, 5, 7, 6), 3.0)))
    net.finish(net.conv(y, 4))
    keep(net, 2)
    assert net.count("mul", "sub", "scale", "div") == 4
    assert turns(net) == 3  # the divisor of every element is turned as well


def test_factors_of_rows_and_columns() -> None:
    net = Net()
    y = net.conv(net.input(2, 3, 9, 8), 5)
    y = net.graph.call("mul", y, net.weight(1, 1, 6))  # a factor for each column
    y = net.graph.call("add", y, net.weight(7, 1))
    net.finish(net.conv(y, 4))
    keep(net, 2)


def test_host_ops_of_elements_keep_an_image() -> None:
    net = Net()
    x = net.input(2, 3, 9, 8)
    y = net.conv(x, 5)
    y = net.graph.call("host_unary", y, kind=1, type=4)
    y = net.graph.call("host_binary", y, net.weight(5, 1, 1), kind=10, type=4)
    net.finish(net.conv(y, 4))
    keep(net, 2)
    assert turns(net) == 2


def test_a_host_op_whose_first_operand_broadcasts_is_left() -> None:
    net = Net()
    y = net.conv(net.input(2, 3, 9, 8), 1)
    y = net.graph.call("host_binary", y, net.stored(torch.ones(1, 5, 1, 1)), kind=10, type=4)
    net.finish(chain(net, y))
    keep(net, 3)


def test_patches_become_tokens_without_a_turn() -> None:
    net = Net()
    x = net.conv(net.conv(net.input(2, 3, 16, 16), 4), 8, (4, 4), stride=4)
    tokens = net.permute(net.reshape(x, 9, 8, 2, 1), 1, 0, 2, 3)
    net.finish(net.graph.call("mul_mat", net.weight(5, 8), net.graph.call("cont", tokens)))
    keep(net, 2)
    assert turns(net) == 1  # of the input


def test_one_patch_convolution_gives_tokens_without_a_turn() -> None:
    net = Net()
    x = net.bias(net.conv(net.input(2, 3, 16, 16), 8, (4, 4), stride=4))
    tokens = net.permute(net.reshape(x, 16, 8, 2, 1), 1, 0, 2, 3)
    net.finish(net.graph.call("mul_mat", net.weight(5, 8), net.graph.call("cont", tokens)))
    keep(net, 1)
    assert turns(net) == 1


def test_norms_over_channels_turn_nothing() -> None:
    net = Net()
    x = net.conv(net.input(2, 3, 9, 8), 8)
    y = net.depthwise(x, padding=(1, 1))
    y = net.graph.call("norm", net.graph.call("cont", net.permute(y, 1, 2, 0, 3)), eps=1e-6)
    y = net.graph.call("mul_mat", net.weight(8, 8), y)
    y = net.graph.call("cont", net.permute(y, 2, 0, 1, 3))
    y = net.graph.call("mul", y, net.weight(8, 1, 1))
    net.finish(net.depthwise(net.add(x, y), padding=(1, 1)))
    keep(net, 3)
    assert turns(net) == 2


def test_a_reshape_that_tears_channels_reads_a_plain_image() -> None:
    net = Net()
    y = net.conv(net.conv(net.input(2, 3, 9, 8), 4), 6)
    net.finish(net.reshape(y, 4, 5, 2, 6), net.reshape(y, 4 * 5 * 6, 2, 1, 1))
    keep(net, 2)


def test_channels_shuffled_between_convolutions() -> None:
    net = Net()
    y = net.conv(net.conv(net.input(1, 3, 9, 8), 5, padding=(1, 1)), 6)
    y = net.permute(net.reshape(y, 42, 3, 2, 1), 0, 2, 1, 3)
    y = net.reshape(net.graph.call("cont", y), 6, 7, 6, 1)
    net.finish(chain(net, y))
    keep(net, 4)


def test_channels_last_inputs_and_outputs_are_read_and_written_as_they_lie() -> None:
    net = Net()
    net.inputs.append(net.random(2, 9, 8, 3))
    x = net.graph.input(f32(3, 8, 9, 2), FLOAT, (2, 9, 8, 3))
    y = chain(net, net.graph.call("cont", net.permute(x, 2, 0, 1, 3)))
    net.finish(net.graph.call("cont", net.permute(y, 1, 2, 0, 3)))
    keep(net, 2)
    assert net.count("permute", "reshape") == 0
    # A result of the program has memory of its own.
    assert turns(net) <= 1


def test_a_value_read_both_ways_is_turned_back_once() -> None:
    net = Net()
    y = net.conv(net.conv(net.input(2, 3, 9, 8), 5), 6)
    rows = net.graph.call("norm", y, eps=1e-5)  # over columns
    net.finish(net.conv(y, 4), rows, net.graph.call("soft_max", y))
    keep(net, 3)
    assert turns(net) == 3


@pytest.mark.parametrize("channels", [1, 3])
def test_states_are_read_when_they_were(channels: int) -> None:
    net = Net()
    x = net.input(1, channels, 6, 7)
    state = net.graph.buffer_state(f32(7, 6, channels), "b")
    seen = net.permute(state, 0, 1, 2, 3)
    padded = net.pad(state, before0=1, after1=1)
    net.graph.call("assign", state, x)
    first = net.conv(padded, 4)
    second = net.conv(net.graph.call("cont", seen), 4)
    net.finish(net.conv(first, 3), net.conv(second, 3))
    keep(net, 4, {"b": net.random(1, channels, 6, 7)})


def test_a_state_is_written_in_its_own_order() -> None:
    net = Net()
    state = net.graph.buffer_state(f32(6, 5, 4), "b")
    y = net.conv(net.input(1, 3, 7, 8), 4)
    written = net.graph.call("assign", state, y)
    net.finish(net.conv(net.add(y, written), 3))
    keep(net, 2, {"b": net.random(1, 4, 5, 6)})


def test_half_precision_kernels_are_unpacked_from_their_casts() -> None:
    net = Net()
    x = net.input(2, 3, 9, 8)
    for c_in, c_out in ((3, 5), (5, 7)):
        w = net.weight(c_out, c_in, 3, 3, dtype=DType.F16)
        w = net.graph.call("cast", w, dtype=DType.F32)
        x = net.graph.call("conv_2d", w, x, stride0=1, stride1=1)
    net.finish(x)
    assert keep(net, 2).count("cast") == 0


def test_kernels_that_are_computed_or_unknown_stay() -> None:
    net = Net()
    x = chain(net, net.input(1, 3, 9, 8))
    kernel = net.graph.call("scale", net.weight(5, 7, 3, 3), scale=2.0)
    y = net.graph.call("conv_2d", kernel, x, stride0=1, stride1=1)
    net.finish(chain(net, y))
    keep(net, 4)
    assert net.count("conv_2d") == 1
    net = Net()
    net.finish(chain(net, net.input(1, 3, 9, 8)))
    assert keep_channels_last(net.graph, lambda weight, function: None) == 0
    assert net.ops == ["conv_2d", "conv_2d"]


def test_convolutions_of_one_position_may_become_products() -> None:
    """Where the rows of their matrices are whole blocks of quantized weights."""
    net = Net()
    h, w = net.symbol("h", 2), net.symbol("w", 3)
    net.inputs.append(net.random(2, 32, 7, 9))
    x = net.graph.input(f32(w, h, 32, 2), FLOAT, (2, 32, h, w))
    y = net.relu(net.bias(net.conv(x, 64, (1, 1))))
    y = net.add(y, net.conv(y, 64, (1, 1)))
    net.finish(net.conv(y, 5, (1, 1)))
    keep(net, 3, as_products=True)
    assert net.count("mul_mat") == 3
    assert net.count("conv_2d_nhwc") == 0
    assert turns(net) == 2


def test_other_convolutions_are_no_products() -> None:
    net = Net()
    x = net.conv(net.input(2, 3, 9, 8), 32)
    strided = net.conv(x, 48, (1, 1), stride=2)
    padded = net.conv(x, 32, (1, 1), padding=(1, 0))
    torn = net.conv(strided, 4, (1, 1))  # rows of 48
    net.finish(torn, net.depthwise(padded, (1, 1)), net.conv(x, 4, (1, 2)))
    keep(net, 6, as_products=True)
    assert net.count("mul_mat") == 0


def test_sizes_may_be_dynamic() -> None:
    net = Net()
    h, w = net.symbol("h", 2), net.symbol("w", 3)
    net.inputs.append(net.random(2, 3, 10, 13))
    x = net.graph.input(f32(w, h, 3, 2), FLOAT, (2, 3, h, w))
    y = net.relu(net.bias(net.conv(x, 8, stride=2, padding=(1, 1))))
    y = net.pool(y, MAX, 3, 2, 1)
    y = net.add(y, net.conv(y, 8, padding=(1, 1)))
    flat = net.reshape(y, y.ne[0] * y.ne[1], 8, 2, 1)
    net.finish(y, net.graph.call("cont", net.permute(flat, 1, 0, 2, 3)))
    keep(net, 2)
    net.inputs = [net.random(2, 3, 31, 6)]
    assert [list(result.shape) for result in net.run()] == [[2, 8, 8, 2], [1, 2, 16, 8]]


def test_the_number_of_images_may_be_dynamic() -> None:
    net = Net()
    n = net.symbol("n", 0)
    net.inputs.append(net.random(3, 3, 9, 8))
    x = net.graph.input(f32(8, 9, 3, n), FLOAT, (n, 3, 9, 8))
    y = net.conv(x, 8)
    s = net.graph.call("unary", net.conv(squeezed(net, y), 8, (1, 1)), kind=SIGMOID)
    net.finish(net.conv(net.graph.call("mul", y, s), 4))
    keep(net, 3)
    assert turns(net) == 2
