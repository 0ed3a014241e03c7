"""What a recurrent layer computes, step by step; see :mod:`executorch_ggml.ir.reference`."""

from __future__ import annotations

import torch
from torch import Tensor

from executorch_ggml.ir.enums import Recurrence
from executorch_ggml.ir.reference import Context, Inputs, Params, operand


def host_recurrent(x: Inputs, p: Params, c: Context) -> Tensor:
    """gates ``[1, batch, steps, g h]`` and state ``[1, batch, n, h]`` give
    ``[1, batch, steps + n - 1, h]``."""
    gates, state = operand(x, 0)[0], operand(x, 3)[0]
    weights, bias = operand(x, 1)[0, 0], operand(x, 2)[0, 0, 0]
    kind = Recurrence(p["kind"])
    hidden, cell = state[:, 0], state[:, -1]
    steps = list(range(gates.shape[1]))
    outputs = [hidden] * len(steps)
    for t in reversed(steps) if p["reverse"] else steps:
        inner = hidden @ weights.T + bias
        hidden, cell = _step(kind, gates[:, t], inner, hidden, cell)
        outputs[t] = hidden
    if kind is Recurrence.LSTM:
        outputs.append(cell)
    return torch.stack(outputs, dim=1).unsqueeze(0)


def _step(
    kind: Recurrence, outer: Tensor, inner: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """The next hidden state and cell (which only an LSTM has apart)."""
    if kind is Recurrence.LSTM:
        i, f, g, o = (outer + inner).chunk(4, dim=-1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell
    if kind is Recurrence.GRU:
        (outer_r, outer_z, outer_n), (inner_r, inner_z, inner_n) = (
            half.chunk(3, dim=-1) for half in (outer, inner)
        )
        new = torch.tanh(outer_n + torch.sigmoid(outer_r + inner_r) * inner_n)
        mixed = new + torch.sigmoid(outer_z + inner_z) * (hidden - new)
        return mixed, mixed
    total = outer + inner
    hidden = total.tanh() if kind is Recurrence.RNN_TANH else total.relu()
    return hidden, hidden
