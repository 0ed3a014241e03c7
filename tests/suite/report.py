"""What a run of ExecuTorch's suite came to: ``python -m tests.suite.report result.json ...``.

A test of the suite passes also when nothing of it was delegated, and may hold several
subtests. So the report counts the subtests that ran and those of them that our flow
delegated, by operator, and states our partitioner's reason for each that it did not.

With ``--check`` the exit status is 1 unless the run is what ``tests/suite/expected.py``
says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.suite.expected import EXPECTED, Expected


@dataclass(frozen=True)
class Subtest:
    """One module that was lowered and run; ``error`` is empty if that went well."""

    name: str  # of the test, and its place in it: "test_add_dtype[float32] 0"
    result: str  # the suite's: "Pass", "Fail" or "Skip"
    error: str
    delegated: bool  # in part, at least
    rejections: tuple[str, ...]  # what our partitioner left, and why

    @property
    def ran(self) -> bool:
        return self.result != "Skip"

    @property
    def left(self) -> bool:
        """It passed because all of it fell back to ExecuTorch's kernels."""
        return self.result == "Pass" and not self.delegated

    @property
    def whole(self) -> bool:
        return self.delegated and not self.rejections


@dataclass(frozen=True)
class SuiteTest:
    """One test. The suite's own decorators skip a test before it has a subtest."""

    name: str
    operator: str
    outcome: str  # "passed", "failed" or "skipped"
    message: str
    subtests: tuple[Subtest, ...]

    @property
    def skipped_always(self) -> bool:
        return self.outcome == "skipped" and not self.subtests


@dataclass(frozen=True)
class Run:
    """All tests of one flow."""

    flow: str
    tests: tuple[SuiteTest, ...]

    def outcomes(self, outcome: str) -> list[SuiteTest]:
        return [test for test in self.tests if test.outcome == outcome]

    @property
    def ran(self) -> list[Subtest]:
        return [subtest for test in self.tests for subtest in test.subtests if subtest.ran]

    @property
    def delegated_share(self) -> float:
        return sum(s.delegated for s in self.ran) / max(len(self.ran), 1)


def read_run(report: Mapping[str, Any]) -> Run:
    """A run from what pytest-json-report wrote.

    Raises:
        ValueError: it holds no test, or tests of several flows.
    """
    entries = [(_split_id(entry["nodeid"]), entry) for entry in report["tests"]]
    flows = {flow for (_, _, flow), _ in entries}
    if len(flows) != 1:
        raise ValueError(f"expected the tests of one flow, found {sorted(flows) or 'no test'}")
    (flow,) = flows
    return Run(
        flow,
        tuple(_read_test(operator, name, entry) for (operator, name, _), entry in entries),
    )


def _split_id(nodeid: str) -> tuple[str, str, str]:
    """``.../test_add.py::test_add_dtype[ggml-float32]`` to operator, name less flow, flow."""
    path, _, name = nodeid.rpartition("::")
    base, _, parameters = name.rstrip("]").partition("[")
    flow, _, others = parameters.partition("-")
    operator = Path(path).stem.removeprefix("test_") or base.removeprefix("test_")
    return operator, f"{base}[{others}]" if others else base, flow


def _read_test(operator: str, name: str, entry: Mapping[str, Any]) -> SuiteTest:
    metadata = entry.get("metadata", {})
    ours = metadata.get("ggml", [])
    subtests = tuple(
        _read_subtest(f"{name} {index}", record, ours[index] if index < len(ours) else None)
        for index, record in enumerate(metadata.get("subtests", []))
    )
    phases = [entry.get(phase, {}) for phase in ("setup", "call", "teardown", "???")]
    message = next((str(p["longrepr"]) for p in phases if "longrepr" in p), "")
    outcome = entry["outcome"]
    return SuiteTest(
        name=name,
        operator=operator,
        outcome=outcome if outcome in ("passed", "skipped") else "failed",
        message=message,
        subtests=subtests,
    )


def _read_subtest(name: str, record: Mapping[str, Any], ours: Mapping[str, Any] | None) -> Subtest:
    result = record["Result"]
    error = " ".join(filter(None, (record.get("Result Detail"), record.get("Error"))))
    if result == "Skip" and not error:
        error = "an op is left that ExecuTorch's portable kernels lack"
    return Subtest(
        name=name,
        result=result,
        error=error,
        delegated=record.get("Delegated") == "True",
        rejections=tuple(f"{op}: {reason}" for op, reason in ours["rejections"]) if ours else (),
    )


def format_run(run: Run) -> str:
    """The report, for a person to read."""
    lines = [
        f"flow {run.flow}: {len(run.outcomes('passed'))} passed, "
        f"{len(run.outcomes('failed'))} failed, {len(run.outcomes('skipped'))} skipped "
        f"({sum(test.skipped_always for test in run.tests)} of them by the suite itself)",
        f"subtests: {len(run.ran)} run, {sum(s.delegated for s in run.ran)} delegated "
        f"({run.delegated_share:.1%}), {sum(s.whole for s in run.ran)} of them whole",
        "",
        *_operator_table(run),
    ]
    failed = run.outcomes("failed")
    lines += _section("Failed", ((_last_error(test), test.name) for test in failed))
    lines += _section(
        "Skipped",
        (
            (subtest.error.splitlines()[0], subtest.name)
            for test in run.outcomes("skipped")
            for subtest in test.subtests
            if not subtest.ran
        ),
    )
    lines += _section("Not delegated", _reasons(run, lambda s: s.left))
    lines += _section(
        "Delegated, though not all of it to ggml",
        _reasons(run, lambda s: s.delegated and not s.whole),
    )
    return "\n".join(lines)


def _operator_table(run: Run) -> list[str]:
    by_operator: dict[str, list[SuiteTest]] = defaultdict(list)
    for test in run.tests:
        by_operator[test.operator].append(test)
    width = max(map(len, by_operator))
    lines = [f"{'':{width}}  passed  failed  skipped  subtests  delegated  whole"]
    for operator, tests in sorted(by_operator.items()):
        outcomes = Counter(test.outcome for test in tests)
        ran = [subtest for test in tests for subtest in test.subtests if subtest.ran]
        lines.append(
            f"{operator:{width}}  {outcomes['passed']:6}  {outcomes['failed']:6}  "
            f"{outcomes['skipped']:7}  {len(ran):8}  {sum(s.delegated for s in ran):9}  "
            f"{sum(s.whole for s in ran):5}"
        )
    return lines


def _section(title: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    """Names grouped by what is said of them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for said, name in entries:
        groups[said].append(name)
    if not groups:
        return []
    lines = ["", title]
    for said, names in sorted(groups.items(), key=lambda group: -len(group[1])):
        lines += [f"  {len(names)} x {said}", f"      {', '.join(names)}"]
    return lines


def _reasons(run: Run, chosen: Callable[[Subtest], bool]) -> Iterable[tuple[str, str]]:
    for subtest in filter(chosen, run.ran):
        reasons = list(dict.fromkeys(subtest.rejections)) or ["no reason given"]
        yield "; ".join(reasons), subtest.name


def _last_error(test: SuiteTest) -> str:
    errors = [subtest.error for subtest in test.subtests if subtest.result == "Fail"]
    return (errors or test.message.splitlines()[-1:] or ["no message"])[-1].replace("\n", " ")


def problems(run: Run, expected: Expected) -> list[str]:
    """How a run differs from what is expected of it; empty if it does not."""
    found = [f"{test.name} failed: {_last_error(test)}" for test in run.outcomes("failed")]
    passed = len(run.outcomes("passed"))
    if passed < expected.passed:
        found.append(f"{passed} tests passed, expected at least {expected.passed}")
    if run.delegated_share < expected.delegated_share:
        found.append(
            f"{run.delegated_share:.1%} of the subtests that ran were delegated, "
            f"expected at least {expected.delegated_share:.1%}"
        )
    found += _differences(
        "not delegated",
        {s.name: "; ".join(s.rejections) for s in run.ran if s.left},
        expected.undelegated,
    )
    found += _differences(
        "skipped",
        {s.name: s.error for test in run.tests for s in test.subtests if not s.ran},
        expected.skipped,
    )
    return found


def _differences(
    what: str, actual: Mapping[str, str], named: Mapping[str, Sequence[str]] | None
) -> list[str]:
    """Subtests that are not named though they should be, and names that are out of date."""
    if named is None:
        return []
    names = [name for group in named.values() for name in group]
    return [
        *(
            f"{name} is {what}, and not listed: {why}"
            for name, why in sorted(actual.items())
            if name not in names
        ),
        *(
            f"{name} is listed as {what}, which it no longer is"
            for name in names
            if name not in actual
        ),
        *(f"{name} is listed twice as {what}" for name, n in Counter(names).items() if n > 1),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suite.report", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, help="files of pytest-json-report")
    parser.add_argument("--check", action="store_true", help="fail unless all is as expected")
    options = parser.parse_args(arguments)
    failed = False
    for path in options.results:
        run = read_run(json.loads(path.read_text(encoding="utf-8")))
        print(format_run(run))
        if options.check:
            found = problems(run, EXPECTED[run.flow])
            failed |= bool(found)
            print("\nas expected" if not found else f"\n{len(found)} problems")
            for problem in found:
                print(f"  {problem}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
