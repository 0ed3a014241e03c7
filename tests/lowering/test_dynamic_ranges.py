"""Lowering leaves dynamic dims the ranges that they were exported with."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import Dim, export

from executorch_ggml import to_edge_rewrite_and_lower


class _Subsampling(nn.Module):
    """Convolutions for which torch chooses by batch and size: a front end of speech models."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.mix = nn.Conv1d(40, 40, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.frames(x[:, None]).transpose(1, 2).flatten(2)[:, :, :40]
        return self.mix(y.transpose(1, 2))


def test_convolutions_do_not_narrow_them() -> None:
    batch, frames = Dim("batch", min=2, max=64), Dim("frames", min=9, max=3000)
    exported = export(
        _Subsampling(), (torch.randn(2, 100, 80),), dynamic_shapes=({0: batch, 1: frames},)
    )
    edge = to_edge_rewrite_and_lower(exported).exported_program()
    (x,) = (n for n in edge.graph.nodes if n.name in edge.graph_signature.user_inputs)
    ranges = []
    for size in x.meta["val"].shape[:2]:
        found = size.node.shape_env.var_to_range[size.node.expr]
        ranges.append((int(found.lower), int(found.upper)))
    assert ranges == [(2, 64), (9, 3000)]
