"""The report counts what the suite's JSON says, and its check finds every difference."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.suite import report
from tests.suite.expected import EXPECTED, Expected
from tests.suite.report import format_run, problems, read_run


def entry(name: str, outcome: str, *subtests: tuple[str, bool, str], **more: Any) -> dict[str, Any]:
    """A test as pytest-json-report has it; a subtest is its result, whether it was delegated,
    and why not."""
    return {
        "nodeid": f"suite/operators/{name}",
        "outcome": outcome,
        "metadata": {
            "subtests": [
                {"Result": result, "Delegated": str(delegated), "Result Detail": "", "Error": ""}
                for result, delegated, _ in subtests
            ],
            "ggml": [
                {"rejections": [["aten.x.default", reason]] if reason else []}
                for _, _, reason in subtests
            ],
        },
        **more,
    }


def suite() -> dict[str, Any]:
    """Two tests that pass, one that the suite skips, one that is skipped for what was left."""
    return {
        "tests": [
            entry("test_add.py::test_add_dtype[ggml-float32]", "passed", ("Pass", True, "")),
            entry(
                "test_pow.py::test_pow_scalar[ggml]",
                "passed",
                ("Pass", True, ""),
                ("Pass", True, "exponent 2.5"),
                ("Pass", False, "exponent 7"),
            ),
            entry("test_abs.py::test_abs_edge_cases[ggml]", "skipped"),
            entry("test_median.py::test_median_dim[ggml]", "skipped", ("Skip", False, "no median")),
        ]
    }


GOOD = Expected(
    passed=2,
    delegated_share=0.75,
    undelegated={"an exponent": ("test_pow_scalar 2",)},
    skipped={"a median": ("test_median_dim 0",)},
)


def test_counts() -> None:
    run = read_run(suite())
    assert run.flow == "ggml"
    assert [test.name for test in run.tests][:2] == ["test_add_dtype[float32]", "test_pow_scalar"]
    assert [len(run.outcomes(o)) for o in ("passed", "failed", "skipped")] == [2, 0, 2]
    assert [test.skipped_always for test in run.tests] == [False, False, True, False]
    assert len(run.ran) == 4
    assert [subtest.whole for subtest in run.ran] == [True, True, False, False]
    assert run.delegated_share == 0.75


def test_text() -> None:
    text = format_run(read_run(suite()))
    assert "flow ggml: 2 passed, 0 failed, 2 skipped (1 of them by the suite itself)" in text
    assert "subtests: 4 run, 3 delegated (75.0%), 2 of them whole" in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    assert rows["pow"] == ["1", "0", "0", "3", "2", "1"]
    _, not_delegated = text.split("\nNot delegated\n")
    left, in_part = not_delegated.split("\nDelegated, though not all of it to ggml\n")
    assert "1 x aten.x.default: exponent 7\n      test_pow_scalar 2" in left
    assert "1 x aten.x.default: exponent 2.5\n      test_pow_scalar 1" in in_part


def test_a_run_as_expected() -> None:
    assert problems(read_run(suite()), GOOD) == []


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        (replace(GOOD, passed=3), "2 tests passed, expected at least 3"),
        (replace(GOOD, delegated_share=0.8), "75.0% of the subtests that ran were delegated"),
        (replace(GOOD, undelegated={}), "test_pow_scalar 2 is not delegated, and not listed: aten"),
        (replace(GOOD, skipped={}), "test_median_dim 0 is skipped, and not listed"),
        (
            replace(GOOD, undelegated={"an exponent": ("test_pow_scalar 1", "test_pow_scalar 2")}),
            "test_pow_scalar 1 is listed as not delegated, which it no longer is",
        ),
        (
            replace(GOOD, skipped={"a": ("test_median_dim 0",), "b": ("test_median_dim 0",)}),
            "test_median_dim 0 is listed twice as skipped",
        ),
    ],
)
def test_a_difference(expected: Expected, problem: str) -> None:
    (found,) = problems(read_run(suite()), expected)
    assert found.startswith(problem)


def test_lists_that_are_not_kept() -> None:
    relaxed = replace(GOOD, undelegated=None, skipped=None)
    assert problems(read_run(suite()), relaxed) == []


def test_a_failure_is_named_with_its_error() -> None:
    failing = suite()
    failing["tests"][0] = entry(
        "test_add.py::test_add_dtype[ggml-float32]", "failed", ("Fail", True, "")
    )
    failing["tests"][0]["metadata"]["subtests"][0] |= {
        "Result Detail": "Output Mismatch",
        "Error": "Output 0 does not match\nmore",
    }
    run = read_run(failing)
    assert "1 x Output Mismatch Output 0 does not match more" in format_run(run)
    assert problems(run, replace(GOOD, passed=1)) == [
        "test_add_dtype[float32] failed: Output Mismatch Output 0 does not match more"
    ]


def test_a_crashed_process() -> None:
    """The suite's conftest adds a subtest without a number, and there are no reports of ours."""
    crashed = suite()
    crashed["tests"].append(
        {
            "nodeid": "test_sub_dtype[ggml-float32]",
            "outcome": "failed",
            "???": {"longrepr": "worker 'gw0' crashed"},
            "metadata": {
                "subtests": [
                    {"Result": "Fail", "Result Detail": "Process Crash", "Error": "gw0 crashed"}
                ]
            },
        }
    )
    run = read_run(crashed)
    assert run.tests[-1].operator == "sub_dtype"
    expected = replace(GOOD, delegated_share=0.6)
    assert problems(run, expected) == ["test_sub_dtype[float32] failed: Process Crash gw0 crashed"]


def test_an_error_outside_of_subtests_is_a_failure() -> None:
    broken = suite()
    broken["tests"].append(
        entry("test_sub.py::test_sub[ggml]", "error", setup={"longrepr": "trace\nNo library"})
    )
    assert problems(read_run(broken), GOOD) == ["test_sub failed: No library"]


def test_no_test_and_two_flows_are_refused() -> None:
    with pytest.raises(ValueError, match="found no test"):
        read_run({"tests": []})
    mixed = suite()
    mixed["tests"].append(entry("test_add.py::test_add_dtype[xnnpack-float32]", "passed"))
    with pytest.raises(ValueError, match="'ggml', 'xnnpack'"):
        read_run(mixed)


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(suite()), encoding="utf-8")
    monkeypatch.setitem(EXPECTED, "ggml", GOOD)
    assert report.main([str(path), "--check"]) == 0
    assert capsys.readouterr().out.endswith("as expected\n")
    monkeypatch.setitem(EXPECTED, "ggml", replace(GOOD, passed=3))
    assert report.main([str(path)]) == 0
    assert report.main([str(path), "--check"]) == 1
    assert "2 tests passed, expected at least 3" in capsys.readouterr().out
