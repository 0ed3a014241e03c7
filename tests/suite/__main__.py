"""Runs ExecuTorch's operator suite with our flows, and checks what came out.

``python -m tests.suite [flow ...]``; the flows are ``ggml`` and ``ggml_xnnpack``, both
unless named. What follows ``--`` goes to pytest (``-- -k conv``), and then the check is left out,
since it is about whole runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.suite import report
from tests.suite.expected import EXPECTED

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "suite"
SUITE = "executorch.backends.test.suite.operators"


def run_suite(flow: str, jobs: int, pytest_arguments: list[str]) -> Path:
    """Run one flow in ``jobs`` processes. Returns the report, also of a run with failures.

    Raises:
        RuntimeError: pytest did not come as far as writing one.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = RESULTS / f"{flow}.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "--pyargs", SUITE, "-m", f"flow_{flow}"]
    command += ["-n", str(jobs)]
    command += ["-p", "tests.suite.plugin", "-p", "no:cacheprovider", "-q", "--tb=short"]
    command += ["--json-report", f"--json-report-file={result}", *pytest_arguments]
    # The processes share the cores; ggml's threads would wait for each other.
    environment = {"GGML_N_THREADS": "1", **os.environ}
    log = result.with_suffix(".log")
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        ).returncode
    if not result.is_file():
        raise RuntimeError(f"pytest ended with status {code} and no report; see {log}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suite", description=__doc__)
    parser.add_argument("flows", nargs="*", metavar="flow", help=f"of {', '.join(EXPECTED)}")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    own, separator, pytest_arguments = _split(sys.argv[1:])
    options = parser.parse_args(own)
    flows = options.flows or list(EXPECTED)
    if unknown := set(flows) - set(EXPECTED):
        parser.error(f"no flow {', '.join(sorted(unknown))}; there are {', '.join(EXPECTED)}")
    status = 0
    for flow in flows:
        print(f"==> {SUITE}, flow {flow} (minutes)", flush=True)
        result = run_suite(flow, options.jobs, pytest_arguments)
        check = [] if separator else ["--check"]
        status |= report.main([str(result), *check])
    return status


def _split(arguments: list[str]) -> tuple[list[str], bool, list[str]]:
    """Our own arguments, whether there was a ``--``, and what followed it."""
    if "--" not in arguments:
        return arguments, False, []
    at = arguments.index("--")
    return arguments[:at], True, arguments[at + 1 :]


if __name__ == "__main__":
    sys.exit(main())
