"""Child processes, the busy core and the program that reads memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.machine import (
    ROOT,
    ChildError,
    busy_core,
    description,
    read_bandwidth,
    run_child,
    versions,
)


def python(code: str) -> list[str | Path]:
    return [sys.executable, "-c", code]


def test_a_child_that_ends_well() -> None:
    finished = run_child(python("import time; print('out'); time.sleep(0.1)"))
    assert finished.out == "out\n"
    assert 0.1 < finished.seconds < 60


def test_the_peak_memory_of_a_child_is_its_own_or_unknown() -> None:
    # By a small process: a child's peak is at least its parent's, and tests' is large.
    code = """
import sys
from bench.machine import run_child
child = [sys.executable, "-c", "b'1' * (200 << 20)"]
print(run_child(child).peak_mib)
ballast = b"1" * (400 << 20)
print(run_child(child).peak_mib)
"""
    measured, hidden = run_child(python(code)).out.split()
    assert 200 < float(measured) < 300
    assert hidden == "None"


def test_a_child_that_fails_is_named_with_its_last_words() -> None:
    with pytest.raises(ChildError, match=r"python.* ended with 3: so it ends"):
        run_child(python("import sys; print('so it ends', file=sys.stderr); sys.exit(3)"))
    with pytest.raises(ChildError, match="ended with signal 9: it said nothing"):
        run_child(python("import os; os.kill(os.getpid(), 9)"))
    with pytest.raises(ChildError, match="/no/such/program does not start: No such file"):
        run_child(["/no/such/program"])


def test_a_child_that_hangs_is_killed() -> None:
    start = time.perf_counter()
    with pytest.raises(ChildError, match="was not done after 1 seconds, and was killed"):
        run_child(python("import time; time.sleep(60)"), limit=1)
    assert time.perf_counter() - start < 30


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children() -> list[int]:
    tasks = Path("/proc/self/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def test_the_busy_core_is_busy_and_free_again() -> None:
    before = set(children())
    with busy_core():
        (pid,) = set(children()) - before
        assert os.sched_getaffinity(pid) == {max(os.sched_getaffinity(0))}
        deadline = time.perf_counter() + 60
        while processor_seconds(pid) < 0.2:
            assert time.perf_counter() < deadline
            time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_the_busy_core_is_free_again_whatever_happens() -> None:
    before = set(children())
    with pytest.raises(ZeroDivisionError), busy_core():
        len(before) // 0
    assert set(children()) == before


def test_the_busy_core_ends_with_a_parent_that_is_killed() -> None:
    code = """
import os, signal
from pathlib import Path
from bench.machine import busy_core
with busy_core():
    print(Path(f"/proc/self/task/{os.getpid()}/children").read_text(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run(python(code), cwd=ROOT, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    spinning = Path("/proc", killed.stdout.strip())
    deadline = time.perf_counter() + 120
    while spinning.exists():
        assert time.perf_counter() < deadline
        time.sleep(0.1)


def test_the_bandwidth_of_memory_is_plausible() -> None:
    assert 1e8 < read_bandwidth(threads=2, mebibytes=64, passes=2) < 1e13


def test_what_the_figures_come_from() -> None:
    assert description()["cores"] == len(os.sched_getaffinity(0))
    found = versions()
    assert found["executorch"] == "1.5.1"
    assert found["ggml"].count(".") == 2
