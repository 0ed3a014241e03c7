"""Named results are returned as tuples, wherever they are in the outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.export import export
from torch.utils._pytree import tree_unflatten

from executorch_ggml.passes.plain_outputs import plain_outputs


class _Named(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"best": [x.max(1)], "next": x + 1}


class _Plain(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, x - 1


def test_named_results_become_tuples() -> None:
    x = torch.randn(2, 3)
    program = export(_Named(), (x,))
    assert plain_outputs(program)
    spec = program.module_call_graph[0].signature.out_spec
    assert tree_unflatten([1, 2, 3], spec) == {"best": [(1, 2)], "next": 3}
    result = program.module()(x)
    assert type(result["best"][0]) is tuple
    torch.testing.assert_close(result["best"][0][0], x.max(1).values)
    assert not plain_outputs(program)


def test_others_stay() -> None:
    program = export(_Plain(), (torch.randn(2),))
    before = program.module_call_graph[0].signature.out_spec
    assert not plain_outputs(program)
    assert program.module_call_graph[0].signature.out_spec == before
