"""The reference of recurrent layers against torch's own, and what the shape rule refuses."""

from __future__ import annotations

import pytest
import torch
from ir_graphs import f32
from test_ir_interpret import call, close, randn, run
from torch import Tensor, nn

from executorch_ggml.ir.enums import Recurrence
from executorch_ggml.ir.opset import OPSET
from executorch_ggml.ir.types import IRError, TensorType

_LAYERS = {
    Recurrence.LSTM: nn.LSTM(3, 5, batch_first=True),
    Recurrence.GRU: nn.GRU(3, 5, batch_first=True),
    Recurrence.RNN_TANH: nn.RNN(3, 5, batch_first=True),
    Recurrence.RNN_RELU: nn.RNN(3, 5, nonlinearity="relu", batch_first=True),
}


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("kind", Recurrence)
def test_steps_are_torchs(kind: Recurrence, reverse: int) -> None:
    layer = _LAYERS[kind]
    for index, parameter in enumerate(layer.parameters()):
        parameter.data.copy_(randn(*parameter.shape, seed=index))
    x, states = randn(2, 4, 3), randn(2, kind.n_states, 5, seed=9)
    outer, inner, outer_bias, inner_bias = (p.detach() for p in layer.parameters())
    gates = x @ outer.T + outer_bias
    actual = run(
        call("host_recurrent", kind=int(kind), reverse=reverse), gates, inner, inner_bias, states
    )
    first = [s.unsqueeze(0) for s in states.unbind(1)]
    outputs, last = layer(
        x.flip(1) if reverse else x, tuple(first) if len(first) == 2 else first[0]
    )
    expected: Tensor = outputs.flip(1) if reverse else outputs
    if kind is Recurrence.LSTM:
        expected = torch.cat([expected, last[1].transpose(0, 1)], dim=1)
    close(actual, expected.detach())


@pytest.mark.parametrize(
    ("gates", "weights", "bias", "state"),
    [
        (f32(15, 4, 2), f32(5, 20), f32(20), f32(5, 2, 2)),
        (f32(20, 4, 2), f32(5, 15), f32(20), f32(5, 2, 2)),
        (f32(20, 4, 2), f32(5, 20), f32(5), f32(5, 2, 2)),
        (f32(20, 4, 2), f32(5, 20), f32(20), f32(5, 1, 2)),
        (f32(20, 4, 2), f32(5, 20), f32(20), f32(5, 2, 3)),
        (f32(20, 4, 2, 2), f32(5, 20), f32(20), f32(5, 2, 2)),
    ],
    ids=["gates", "weights", "bias", "states", "batch", "rank"],
)
def test_extents_must_fit(
    gates: TensorType, weights: TensorType, bias: TensorType, state: TensorType
) -> None:
    op = OPSET["host_recurrent"]
    params = {"kind": int(Recurrence.LSTM), "reverse": 0}
    (result,) = op.infer([f32(20, 4, 2), f32(5, 20), f32(20), f32(5, 2, 2)], params)
    assert result.ne == (5, 5, 2, 1)
    with pytest.raises(IRError, match="LSTM"):
        op.infer([gates, weights, bias, state], params)
