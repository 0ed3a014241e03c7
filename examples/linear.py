"""The smallest model: Linear and LeakyReLU, exported, run through ggml and compared.

usage: python examples/linear.py
"""

from __future__ import annotations

import torch
from executorch.exir import to_edge_transform_and_lower
from torch.export import export

from executorch_ggml import GgmlPartitioner, load_library


def main() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LeakyReLU(0.1)).eval()
    example = (torch.randn(2, 4),)

    partitioner = GgmlPartitioner()
    edge = to_edge_transform_and_lower(export(model, example), partitioner=[partitioner])
    program = edge.to_executorch()
    print(*partitioner.reports, sep="\n")

    load_library()  # registers the backend with ExecuTorch's runtime
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(program.buffer).load_method("forward")
    (output,) = method.execute(example)
    with torch.no_grad():
        difference = (output - model(*example)).abs().max().item()
    print(f"output {list(output.shape)}, differs from eager by {difference:.1e} at most")


if __name__ == "__main__":
    main()
