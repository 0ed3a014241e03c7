"""BatchNorm folding: the same outputs, fewer ops, and what is left alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from executorch_ggml import GgmlOptions, GgmlPartitioner, to_edge_rewrite_and_lower
from executorch_ggml.passes import BatchNormFoldingRewritePass


def randomized(module: nn.Module) -> nn.Module:
    """Running statistics and scales that a wrong fold cannot get right by chance."""
    torch.manual_seed(0)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.running_mean = torch.randn(part.num_features)
            part.running_var = torch.rand(part.num_features) + 0.5
            if part.affine:
                nn.init.normal_(part.weight)
                nn.init.normal_(part.bias)
    return module.eval()


def conv_bn(bias: bool, affine: bool, groups: int = 1, padding: str | int = 1) -> nn.Module:
    conv = nn.Conv2d(4, 8, 3, padding=padding, bias=bias, groups=groups)
    return nn.Sequential(conv, nn.BatchNorm2d(8, affine=affine), nn.ReLU())


class Shared(nn.Module):
    """The convolution's result is read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y + self.norm(y)


CASES = {
    "bias": (conv_bn(True, True), 1),
    "no-bias": (conv_bn(False, True), 1),
    "no-affine": (conv_bn(True, False), 1),
    "nowhere-to-put-the-shift": (conv_bn(False, False), 0),
    "depthwise": (nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.BatchNorm2d(4)), 1),
    "same-padding": (conv_bn(False, True, padding="same"), 1),
    "twice": (nn.Sequential(conv_bn(False, True), nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4)), 2),
    "shared-result": (Shared(), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_outputs_stay(name: str) -> None:
    module, expected_folds = CASES[name]
    module = randomized(module)
    x = torch.randn(2, 4, 7, 7)
    with torch.no_grad():
        expected = module(x)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    fold = BatchNormFoldingRewritePass()
    program = fold(torch.export.export(module, (x,)))
    assert fold.n_folded == expected_folds
    names = [str(node.target) for node in program.graph.nodes]
    norms = sum(isinstance(part, nn.BatchNorm2d) for part in module.modules())
    assert names.count("aten.batch_norm.default") == norms - expected_folds
    torch.testing.assert_close(program.module()(x), expected, rtol=1e-5, atol=1e-5)
    # The module that was exported is untouched.
    for key, value in module.state_dict().items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0)


def test_unused_statistics_leave_the_program() -> None:
    module = randomized(conv_bn(False, True))
    program = BatchNormFoldingRewritePass()(torch.export.export(module, (torch.randn(1, 4, 5, 5),)))
    assert sorted(program.state_dict) == ["0.weight", "1.bias"]


def test_folded_and_lowered_whole() -> None:
    """As in the README: what is left is a convolution, its bias and the activation."""
    module = randomized(conv_bn(False, True))
    exported = torch.export.export(module, (torch.randn(1, 4, 5, 5),))
    edge = to_edge_rewrite_and_lower(
        exported,
        ep_passes=[BatchNormFoldingRewritePass()],
        partitioner=[GgmlPartitioner(GgmlOptions(strict=True))],
    )
    from executorch_ggml.ir.serialize import from_bytes
    from tests.harness import delegates

    (delegate,) = delegates(edge.exported_program().graph_module)
    (graph,) = from_bytes(bytes(delegate.processed_bytes)).graphs
    ops = [call.op.name for call in graph.calls]
    assert ops == ["conv_2d", "reshape", "add", "unary"]
