"""ExecuTorch's Inspector sees a delegate's time, per call and per op."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.devtools import Inspector
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib

from executorch_ggml import GgmlPartitioner
from executorch_ggml._library import load_library


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(torch.nn.functional.leaky_relu(self.first(x), 0.1))
        return y


def _delegate_events(folder: Path, runs: int) -> dict[str, list[str]]:
    """Runs the net and returns the delegate's events: name to the ops it is tied to."""
    load_library()
    x = torch.randn(4, 16)
    edge = to_edge_transform_and_lower(
        torch.export.export(_Net().eval(), (x,)),
        partitioner=[GgmlPartitioner()],
        generate_etrecord=True,
    )
    program = edge.to_executorch()
    record = folder / "net.etrecord"
    dump = folder / "net.etdump"
    program.get_etrecord().save(str(record))
    module = portable_lib._load_for_executorch_from_buffer(program.buffer, enable_etdump=True)
    for _ in range(runs):
        module.forward([x])
    module.write_etdump_result_to_file(str(dump))
    inspector = Inspector(etdump_path=str(dump), etrecord=str(record))
    events = [event for block in inspector.event_blocks for event in block.events]
    for event in events:
        if event.is_delegated_op:
            assert event.delegate_backend_name == "GgmlBackend"
            assert len(event.perf_data.raw) == runs
    return {event.name: event.op_types for event in events if event.is_delegated_op}


def test_inspector_sees_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GGML_PROFILE", raising=False)
    assert _delegate_events(tmp_path, runs=3) == {"ggml_delegate_call": []}


def test_inspector_sees_each_op_when_profiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGML_PROFILE", "1")
    events = _delegate_events(tmp_path, runs=2)
    assert events.pop("ggml_delegate_call") == []
    assert list(events.values()) == [
        ["aten.linear.default"],
        ["aten.leaky_relu.default"],
        ["aten.linear.default"],
    ]
