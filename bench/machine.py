"""The machine: what it is, how fast it reads memory, how it is kept busy, and child processes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "bench"


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


#: A program that takes longer is taken for one that hangs. The longest makes XNNPACK's file.
LIMIT_SECONDS = 3600.0


class ChildError(RuntimeError):
    """A program that ended badly: its name, how it ended, and the last that it said."""


@dataclass(frozen=True)
class Finished:
    """A process that ended well.

    Attributes:
        out: what it wrote to stdout.
        seconds: wall time from its start to its end.
        peak_mib: its peak resident memory; None where it is below this process's own, which
            a child inherits as its lowest.
    """

    out: str
    seconds: float
    peak_mib: float | None


def run_child(command: Sequence[str | Path], limit: float = LIMIT_SECONDS) -> Finished:
    """Run a program in the project's folder to its end. Raises :class:`ChildError`.

    One that is not done after ``limit`` seconds is killed.
    """
    own_peak = status_mib("VmHWM")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT
            )
        except OSError as error:
            raise ChildError(f"{command[0]} does not start: {error.strerror}") from error
        killer = threading.Timer(limit, child.kill)
        killer.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
        finally:
            killer.cancel()
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    name = Path(command[0]).name
    if seconds >= limit:
        raise ChildError(f"{name} was not done after {limit:.0f} seconds, and was killed")
    if child.returncode != 0:
        said = " | ".join((texts[1].strip() or texts[0].strip()).splitlines()[-3:])
        how = f"signal {-child.returncode}" if child.returncode < 0 else f"{child.returncode}"
        raise ChildError(f"{name} ended with {how}: {said or 'it said nothing'}")
    peak = usage.ru_maxrss / 1024
    return Finished(texts[0], seconds, peak if peak > own_peak else None)


def status_mib(field: str) -> float:
    """A figure of this process from the kernel, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


#: Ends with its parent, also one that was killed: it looks every 20 million additions.
_SPIN = """
import os, sys
parent = int(sys.argv[1])
os.sched_setaffinity(0, {int(sys.argv[2])})
print(flush=True)
while os.getppid() == parent:
    for _ in range(20_000_000):
        pass
"""


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep the last of this process's cores occupied by another process."""
    core = max(os.sched_getaffinity(0))
    command = [sys.executable, "-c", _SPIN, str(os.getpid()), str(core)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()  # it runs where it should
            yield
        finally:
            child.kill()


def read_bandwidth(threads: int, mebibytes: int = 1024, passes: int = 8) -> float:
    """Bytes per second that ``threads`` threads read from memory at best."""
    source = Path(__file__).with_name("read_bandwidth.cpp")
    program = CACHE / "read_bandwidth"
    if not program.is_file() or program.stat().st_mtime < source.stat().st_mtime:
        compiler = os.environ.get("CXX") or shutil.which("c++") or "c++"
        CACHE.mkdir(parents=True, exist_ok=True)
        options = ["-std=c++20", "-O3", "-march=native", "-pthread"]
        run_child([compiler, *options, source, "-o", program])
    found = json.loads(run_child([program, str(threads), str(mebibytes), str(passes)]).out)
    return float(found["bytes_per_second"])


def description() -> dict[str, object]:
    """What a reader of the figures has to know of the machine."""
    info: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    flags = info.get("flags", info.get("Features", "")).split()
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm", "sve")
    return {
        "processor": info.get("model name", platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "instructions": [flag for flag in wanted if flag in flags],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": os.getloadavg()[0],
    }


def versions() -> dict[str, str]:
    """Of this checkout and of what it is compared with."""
    found = {"python": platform.python_version()}
    for package in ("torch", "executorch", "transformers"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    found["executorch-ggml"] = done.stdout.strip() or "unknown"
    marker = ROOT / "third-party" / "llama.cpp" / "ggml" / "CMakeLists.txt"
    if marker.is_file():
        words = marker.read_text().replace(")", " ").replace("(", " ").split()
        parts = [words[words.index(f"GGML_VERSION_{p}") + 1] for p in ("MAJOR", "MINOR", "PATCH")]
        found["ggml"] = ".".join(parts)
    return found
