"""Programs that the command's tests look into and run, and a way to call the command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from executorch_ggml.cli.main import main
from tests.gguf_models import SMALL, write_gguf


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs ``executorch-ggml`` with the arguments given, in this process."""

    def call(*arguments: object) -> Result:
        capfd.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as left:  # argparse
            code = int(left.code or 0)
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return call


class Mixed(torch.nn.Module):
    """Two linears around an op in float64, which stays with ExecuTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(16, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.atan(self.a(x).double()).float())


def make_linear() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LeakyReLU(0.1)).eval()


def make_other() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LeakyReLU(0.1)).eval()


def make_mixed() -> torch.nn.Module:
    torch.manual_seed(0)
    return Mixed().eval()


def linear_function(x: torch.Tensor) -> torch.Tensor:
    return make_linear()(x)


not_a_module = 5


def export(module: torch.nn.Module, example: torch.Tensor, path: Path, dynamic: bool) -> Path:
    from executorch.exir import to_edge_transform_and_lower

    from executorch_ggml import GgmlPartitioner

    shapes = ({0: torch.export.Dim("rows", min=1, max=64)},) if dynamic else None
    exported = torch.export.export(module, (example,), dynamic_shapes=shapes)
    edge = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner()])
    path.write_bytes(edge.to_executorch().buffer)
    return path


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="session")
def linear(folder: Path) -> Path:
    """``make_linear()`` for [rows, 4], rows from 1 to 64."""
    return export(make_linear(), torch.randn(3, 4), folder / "linear.pte", dynamic=True)


@pytest.fixture(scope="session")
def mixed(folder: Path) -> Path:
    """``make_mixed()`` for [2, 16]: two delegates and a kernel of ExecuTorch between them."""
    return export(make_mixed(), torch.randn(2, 16), folder / "mixed.pte", dynamic=False)


@dataclass(frozen=True)
class Model:
    pte: Path
    gguf: Path


@pytest.fixture(scope="session")
def model(folder: Path) -> Model:
    """A small random qwen3, exported for 128 positions."""
    from executorch_ggml.export_gguf import GGUFExportConfig, export_gguf_to_pte

    gguf = write_gguf(folder / "qwen3.gguf", SMALL["qwen3"])
    export_gguf_to_pte(gguf, folder / "qwen3.pte", GGUFExportConfig(max_seq_len=128))
    return Model(folder / "qwen3.pte", gguf)


@pytest.fixture
def ones(tmp_path: Path) -> Path:
    """An ``.npy`` file with ones [3, 4] float32."""
    path = tmp_path / "ones.npy"
    np.save(path, np.ones((3, 4), np.float32))
    return path
