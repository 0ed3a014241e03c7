"""A model that ggml takes in part: the other ops run on ExecuTorch's own kernels.

Prints what was delegated, what was not and why.

usage: python examples/mixed_backends.py
"""

from __future__ import annotations

import torch
from executorch.exir import to_edge_transform_and_lower
from torch.export import Dim, export

from executorch_ggml import GgmlPartitioner, load_library


class Model(torch.nn.Module):
    """Two projections with an arc tangent in float64 between them, which a delegate has not."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[rows, 16]`` to ``[rows, 4]``."""
        return self.b(torch.atan(self.a(x).double()).float())


def main() -> None:
    model = Model().eval()
    rows = Dim("rows", min=1, max=32)
    exported = export(model, (torch.randn(3, 16),), dynamic_shapes=({0: rows},))

    partitioner = GgmlPartitioner()
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    program = edge.to_executorch()
    print(*partitioner.reports, sep="\n")

    load_library()
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(program.buffer).load_method("forward")
    for n in (1, 3, 32):
        x = torch.randn(n, 16)
        (output,) = method.execute((x,))
        with torch.no_grad():
            difference = (output - model(x)).abs().max().item()
        print(f"{n:2} rows: differs from eager by {difference:.1e} at most")


if __name__ == "__main__":
    main()
