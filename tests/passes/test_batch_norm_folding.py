"""BatchNorm folding: the same outputs, fewer ops, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.runtime import Runtime
from torch import nn
from torch.export import ExportedProgram

from executorch_ggml import GgmlOptions, GgmlPartitioner, load_library, to_edge_rewrite_and_lower
from executorch_ggml.ir.serialize import from_bytes
from executorch_ggml.passes import BatchNormFoldingRewritePass
from tests.harness import delegates


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


def as_exported(program: ExportedProgram) -> ExportedProgram:
    return program


def decomposed(program: ExportedProgram) -> ExportedProgram:
    """To core ATen: a batch norm is a tuple there, and every convolution one op."""
    return program.run_decompositions()


def training_ops_decomposed(program: ExportedProgram) -> ExportedProgram:
    return program.run_decompositions({})


FORMS = (as_exported, decomposed, training_ops_decomposed)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_outputs_stay(name: str, form: Callable[[ExportedProgram], ExportedProgram]) -> None:
    module, expected_folds = CASES[name]
    module = randomized(module)
    x = torch.randn(2, 4, 7, 7)
    with torch.no_grad():
        expected = module(x)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    fold = BatchNormFoldingRewritePass()
    program = fold(form(torch.export.export(module, (x,))))
    assert fold.n_folded == expected_folds
    norms = sum(isinstance(part, nn.BatchNorm2d) for part in module.modules())
    left = [node for node in program.graph.nodes if "batch_norm" in str(node.target)]
    assert len(left) == norms - expected_folds
    program.graph.lint()
    torch.testing.assert_close(program.module()(x), expected, rtol=1e-5, atol=1e-5)
    # The module that was exported is untouched.
    for key, value in module.state_dict().items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0)


def test_unused_statistics_leave_the_program() -> None:
    module = randomized(conv_bn(False, True))
    program = BatchNormFoldingRewritePass()(torch.export.export(module, (torch.randn(1, 4, 5, 5),)))
    assert sorted(program.state_dict) == ["0.weight", "1.bias"]


@pytest.mark.parametrize("activation", [nn.ReLU6(), nn.Hardswish(), nn.SiLU()])
@pytest.mark.parametrize("form", FORMS)
def test_folded_and_lowered_whole(
    form: Callable[[ExportedProgram], ExportedProgram], activation: nn.Module
) -> None:
    """As in the README: what is left is a convolution, its bias and the activation."""
    module = randomized(nn.Sequential(conv_bn(False, True)[:2], activation))
    x = torch.randn(1, 4, 5, 5)
    fold = BatchNormFoldingRewritePass()
    edge = to_edge_rewrite_and_lower(
        form(torch.export.export(module, (x,))),
        ep_passes=[fold],
        partitioner=[GgmlPartitioner(GgmlOptions(strict=True))],
    )
    assert fold.n_folded == 1
    (delegate,) = delegates(edge.exported_program().graph_module)
    (graph,) = from_bytes(bytes(delegate.processed_bytes)).graphs
    assert not any("sqrt" in call.op.name for call in graph.calls)
    load_library()
    program = Runtime.get().load_program(bytes(edge.to_executorch().buffer))
    (actual,) = program.load_method("forward").execute((x,))
    torch.testing.assert_close(actual, module(x).detach(), rtol=1e-4, atol=1e-5)


UNMATCHED = {
    "none": (nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()), "the program has no BatchNorm"),
    "alone": (nn.BatchNorm2d(4), "not the result of a convolution"),
    "shared": (Shared(), "the convolution's result has another user"),
    "transposed": (
        nn.Sequential(nn.ConvTranspose2d(4, 4, 3), nn.BatchNorm2d(4)),
        "not the result of a convolution",
    ),
    "no-bias": (conv_bn(False, False), "neither it nor the convolution has a bias"),
    "no-statistics": (
        nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)),
        "the batch's own statistics",
    ),
}


@pytest.mark.parametrize("name", UNMATCHED)
def test_a_program_in_which_nothing_matches_is_warned_about(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    module, why = UNMATCHED[name]
    fold = BatchNormFoldingRewritePass()
    fold(torch.export.export(module.eval(), (torch.randn(1, 4, 7, 7),)))
    (record,) = (r for r in caplog.records if r.name.startswith("executorch_ggml"))
    assert record.levelname == "WARNING"
    assert "BatchNormFoldingRewritePass folded nothing" in record.message
    assert why in record.message


def test_what_is_left_beside_folds_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    module = nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)).eval()
    fold = BatchNormFoldingRewritePass()
    fold(torch.export.export(module, (torch.randn(1, 4, 7, 7),)))
    assert fold.n_folded == 1
    assert not [r for r in caplog.records if r.name.startswith("executorch_ggml")]
