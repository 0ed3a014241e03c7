"""Recurrent layers, and single steps of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.lowering.cases.base import F16, PRODUCT, Case, r, seeded, together


class _Layer(nn.Module):
    """A recurrent layer's outputs and last states as one flat tuple, from given states or none."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layer = seeded(make)

    def forward(self, x: Tensor, h: Tensor | None = None, c: Tensor | None = None) -> Any:
        outputs, last = self.layer(x, h if c is None else (h, c))
        return (outputs, *last) if isinstance(last, tuple) else (outputs, last)


def _whole(name: str, make: Callable[[], nn.Module], *inputs: Tensor, **more: Any) -> Case:
    """Every step in one host-side op."""
    return Case(name, _Layer(make), inputs, (), PRODUCT, host=True, **more)


_X = r(4, 2, 5)
_H, _C = r(1, 2, 7), r(1, 2, 7) + 1
#: Two layers of two directions.
_H4, _C4 = r(4, 2, 7), r(4, 2, 7) + 1

LAYERS = [
    together(
        "lstm",
        _whole("from_0", lambda: nn.LSTM(5, 7), _X),
        _whole("from_states", lambda: nn.LSTM(5, 7), _X, _H, _C),
    ),
    _whole("lstm_batch_first", lambda: nn.LSTM(5, 7, batch_first=True), r(2, 4, 5), _H, _C),
    _whole("lstm_no_bias", lambda: nn.LSTM(5, 7, bias=False), _X, _H, _C),
    _whole("lstm_two_layers", lambda: nn.LSTM(5, 7, 2, dropout=0.5), _X, _H4[:2], _C4[:2]),
    _whole("lstm_both_ways", lambda: nn.LSTM(5, 7, bidirectional=True), _X, _H4[:2], _C4[:2]),
    _whole("lstm_two_layers_both_ways", lambda: nn.LSTM(5, 7, 2, bidirectional=True), _X, _H4, _C4),
    _whole(
        "lstm_unbatched",
        lambda: nn.LSTM(5, 7),
        r(4, 5),
        _H[:, 0].contiguous(),
        _C[:, 1].contiguous(),
    ),
    _whole("lstm_one_step", lambda: nn.LSTM(5, 7), r(1, 2, 5), _H, _C),
    _whole("lstm_long", lambda: nn.LSTM(5, 33, batch_first=True), r(3, 150, 5)),
    together(
        "lstm_special",
        _whole("saturated", lambda: nn.LSTM(5, 7), _X * 1e4, _H, _C * 1e3),
        _whole("nan", lambda: nn.LSTM(5, 7), _X.log(), _H, _C),
    ),
    _whole(
        "lstm_dynamic_batch",
        lambda: nn.LSTM(5, 7, bidirectional=True),
        _X,
        dynamic_shapes={"x": {1: Dim("b", min=1, max=8)}},
        others=[(r(4, 1, 5),), (r(4, 8, 5),)],
    ),
    Case(
        "lstm_half",
        _Layer(lambda: nn.LSTM(5, 7).half()),
        (_X.half(), _H.half(), _C.half()),
        (),
        F16,
        host=True,
    ),
    # Projections are left to torch's decomposition, one step after the other.
    Case(
        "lstm_projections",
        _Layer(lambda: nn.LSTM(5, 7, proj_size=3)),
        (_X, r(1, 2, 3), _C),
        (),
        PRODUCT,
    ),
    together(
        "gru",
        _whole("from_0", lambda: nn.GRU(5, 7), _X),
        _whole("from_states", lambda: nn.GRU(5, 7), _X, _H),
    ),
    _whole(
        "gru_batch_first_no_bias",
        lambda: nn.GRU(5, 7, bias=False, batch_first=True),
        r(2, 4, 5),
        _H,
    ),
    _whole("gru_two_layers_both_ways", lambda: nn.GRU(5, 7, 2, bidirectional=True), _X, _H4),
    _whole("gru_unbatched", lambda: nn.GRU(5, 7), r(4, 5), r(1, 7)),
    _whole(
        "gru_dynamic_batch",
        lambda: nn.GRU(5, 7),
        _X,
        dynamic_shapes={"x": {1: Dim("b", min=1, max=8)}},
        others=[(r(4, 1, 5),), (r(4, 8, 5),)],
    ),
    _whole("rnn_tanh", lambda: nn.RNN(5, 7), _X, _H),
    together(
        "rnn_relu",
        *(
            _whole("relu", lambda: nn.RNN(5, 7, nonlinearity="relu"), x, _H)
            for x in (_X, _X.log())  # NaN
        ),
    ),
    _whole("rnn_two_layers_both_ways", lambda: nn.RNN(5, 7, 2, bidirectional=True), _X, _H4),
]


class _Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = seeded(lambda: nn.LSTMCell(5, 7))

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
        return self.cell(x, (h, c))


CELLS = [
    Case("lstm_cell", seeded(lambda: nn.LSTMCell(5, 7)), (r(2, 5),), (), PRODUCT),
    Case("lstm_cell_states", _Cell(), (r(2, 5), r(2, 7), r(2, 7) + 1), (), PRODUCT),
    Case("gru_cell", seeded(lambda: nn.GRUCell(5, 7)), (r(2, 5), r(2, 7)), (), PRODUCT),
    Case("rnn_cell", seeded(lambda: nn.RNNCell(5, 7)), (r(2, 5), r(2, 7)), (), PRODUCT),
    Case(
        "rnn_cell_relu",
        seeded(lambda: nn.RNNCell(5, 7, bias=False, nonlinearity="relu")),
        (r(2, 5), r(2, 7)),
        (),
        PRODUCT,
    ),
]


class _Tagger(nn.Module):
    """Words to tags: embedding, both directions, a product for each word."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(30, 8)
        self.layers = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(12, 5)

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.tags(self.layers(self.words(ids))[0]).log_softmax(-1)
        return found


MODELS = [Case("lstm_tagger", _Tagger(), (torch.arange(14).reshape(2, 7),), (), PRODUCT, host=True)]

CASES = [*LAYERS, *CELLS, *MODELS]
