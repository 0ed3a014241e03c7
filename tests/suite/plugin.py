"""A pytest plugin that adds our flows to ExecuTorch's backend suite.

Used as ``pytest --pyargs executorch.backends.test.suite.operators -p tests.suite.plugin
-m flow_ggml``. The suite has no way to register a flow from outside: its conftest asks
``all_flows()`` for them at import, so that function is wrapped here, and ``-p`` imports
this module first.

Each test's metadata in the JSON report gains the key ``ggml``: what our partitioner
reported, one entry per subtest.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import torch
from executorch.backends.test.harness import Tester
from executorch.backends.test.harness.stages import StageType, ToEdgeTransformAndLower
from executorch.backends.test.suite import flow as suite_flow
from executorch.backends.test.suite.flow import TestFlow
from executorch.backends.test.suite.reporting import begin_test_session
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.backend.partitioner import Partitioner

import tests.quick_lowering  # noqa: F401
from executorch_ggml import GgmlPartitioner, load_library

#: The partitioners of the current test, one per subtest that got as far as lowering.
_partitioners: list[GgmlPartitioner] = []


class _GgmlTester(Tester):  # type: ignore[misc]  # ExecuTorch ships no types
    """Lowers with our partitioner, and then with those that ``others`` makes."""

    others: tuple[Callable[[], Partitioner], ...] = ()
    tolerances: Mapping[str, float] = {"atol": 1e-5, "rtol": 1e-4}

    def __init__(self, module: torch.nn.Module, example_inputs: tuple[Any, ...]) -> None:
        load_library()
        ours = GgmlPartitioner()
        _partitioners.append(ours)

        def lower() -> ToEdgeTransformAndLower:
            # Without a default class the stage drops the partitioners.
            return ToEdgeTransformAndLower(
                default_partitioner_cls=GgmlPartitioner,
                partitioners=[ours, *(make() for make in self.others)],
            )

        stages = Tester.default_stage_classes() | {StageType.TO_EDGE_TRANSFORM_AND_LOWER: lower}
        super().__init__(module, example_inputs, stages)

    def run_method_and_compare_outputs(self, **arguments: Any) -> Tester:
        """The suite would take results that are 0.1 off."""
        return super().run_method_and_compare_outputs(**{**arguments, **self.tolerances})


class _GgmlXnnpackTester(_GgmlTester):
    others = (XnnpackPartitioner,)
    tolerances: Mapping[str, float] = {}  # what XNNPACK computes is not ours to judge


FLOWS = (
    TestFlow("ggml", backend="ggml", tester_factory=_GgmlTester),
    TestFlow("ggml_xnnpack", backend="ggml", tester_factory=_GgmlXnnpackTester),
)

_suite_flows = suite_flow.all_flows


@cache  # the suite asks several times, and each flow that cannot be imported takes seconds
def _all_flows() -> dict[str, TestFlow]:
    return {**_suite_flows(), **{flow.name: flow for flow in FLOWS}}


suite_flow.all_flows = _all_flows


def pytest_configure(config: pytest.Config) -> None:
    # The suite's conftest registers its markers too late when one of its files is named.
    for flow in _all_flows().values():
        for marker in (f"flow_{flow.name}", f"backend_{flow.backend}"):
            config.addinivalue_line("markers", f"{marker}: of ExecuTorch's suite")
    # Without a session the suite draws another seed in every run.
    begin_test_session(report_path=None, seed=0)


def pytest_runtest_setup(item: pytest.Item) -> None:
    _partitioners.clear()
    # Most tests draw their weights and inputs before the suite seeds anything.
    torch.manual_seed(zlib.crc32(item.name.partition("[")[0].encode()))


@pytest.hookimpl(optionalhook=True)
def pytest_json_runtest_metadata() -> dict[str, Any]:
    return {"ggml": [_describe(partitioner) for partitioner in _partitioners]}


def _describe(partitioner: GgmlPartitioner) -> dict[str, Any]:
    """Partitions, ops and the reasons for those that were left, of all methods together."""
    reports = partitioner.reports
    return {
        "partitions": sum(report.n_partitions for report in reports),
        "ops": sum(report.n_ops for report in reports),
        "delegated": sum(report.n_delegated for report in reports),
        "rejections": [[r.op, r.reason] for report in reports for r in report.rejections],
    }
