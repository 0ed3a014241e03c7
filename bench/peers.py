"""How each contender is run: ours, and llama.cpp's tools, built from the sources that the
runtime is built from.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.machine import ROOT, ChildError, Finished, progress, run_child
from bench.models import Model

SOURCES = ROOT / "third-party" / "llama.cpp"
BUILD = ROOT / ".cache" / "peers" / "llama.cpp"
TOOLS = ("llama-bench", "llama-completion", "llama-quantize")
#: Measured runs of a process, averaged: a single one is too noisy on a shared machine.
REPEATS = 3
#: ... behind a filled cache, where the tokens' time is long and filling it takes longer.
DEEP_REPEATS = 1
#: A context is a multiple of this for both programs.
CONTEXT_STEP = 256


@dataclass(frozen=True)
class Lengths:
    """Tokens of a measurement: in the cache before it, of the prompt, and decoded."""

    prompt: int = 0
    decode: int = 0
    depth: int = 0

    @property
    def context(self) -> int:
        """Positions of the cache, as llama-bench sizes it."""
        return -(-(self.depth + self.prompt + self.decode) // CONTEXT_STEP) * CONTEXT_STEP

    @property
    def repeats(self) -> int:
        return DEEP_REPEATS if self.depth else REPEATS

    @property
    def phase(self) -> str:
        """What is timed: a measurement has a prompt or decodes."""
        return "prefill" if self.prompt else "decode"


@dataclass(frozen=True)
class Speed:
    """Tokens per second, and the peak resident memory of the process in MiB where known."""

    tokens_per_second: float
    peak_mib: float | None


def build_llama_cpp() -> Path:
    """Build llama.cpp's tools with its defaults. Returns their folder."""
    if not (SOURCES / "CMakeLists.txt").is_file():
        raise FileNotFoundError(f"{SOURCES} is missing; run `make build` first")
    tools = BUILD / "bin"
    if not all((tools / tool).is_file() for tool in TOOLS):
        progress("building llama.cpp's tools (some minutes, once)")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        cmake = shutil.which("cmake", path=path)
        if cmake is None:
            raise FileNotFoundError("cmake is not installed; `make setup` brings it")
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF"]
        options.append(f"-DCMAKE_PROJECT_INCLUDE={Path(__file__).with_name('llama_cpp.cmake')}")
        options += [f"-DLLAMA_BUILD_{part}=OFF" for part in ("TESTS", "EXAMPLES", "SERVER")]
        run_child([cmake, "-S", SOURCES, "-B", BUILD, *options])
        run_child([cmake, "--build", BUILD, "-j", "2", "--target", *TOOLS])
    return tools


def report_of(program: str, finished: Finished) -> object:
    """The JSON that a program printed. Raises :class:`ChildError`."""
    try:
        return json.loads(finished.out)
    except json.JSONDecodeError as error:
        raise ChildError(f"{program} printed no JSON: {finished.out[:200]!r}") from error


def llama_bench_rate(rows: object, lengths: Lengths) -> float:
    """The rate that llama-bench reports of these lengths, in tokens per second."""
    wanted = {"n_prompt": lengths.prompt, "n_gen": lengths.decode, "n_depth": lengths.depth}
    if isinstance(rows, list):
        for row in rows:
            if all(row.get(key) == value for key, value in wanted.items()):
                return float(row["avg_ts"])
    raise ChildError(f"llama-bench reports nothing of {wanted}")


def llama_bench(
    tools: Path, model: Model, lengths: Lengths, threads: int, flash: bool | None = None
) -> Speed:
    """One run of llama-bench, with its default attention unless ``flash`` chooses."""
    command: list[str | Path] = [tools / "llama-bench", "-m", model.gguf, "-o", "json"]
    command += ["-p", str(lengths.prompt), "-n", str(lengths.decode), "-d", str(lengths.depth)]
    command += ["-t", str(threads), "-r", str(lengths.repeats)]
    if flash is not None:
        command += ["-fa", "1" if flash else "0"]
    finished = run_child(command)
    rate = llama_bench_rate(report_of("llama-bench", finished), lengths)
    return Speed(rate, finished.peak_mib)


def benchmark_llm(
    binary: Path, model: Model, lengths: Lengths, threads: int, mmap: bool = True
) -> Speed:
    """The same of ours, with a cache of the same size."""
    command: list[str | Path] = [binary, model.program, "--gguf", model.gguf, "--json"]
    command += ["--prompt-len", str(lengths.prompt), "--n-decode", str(lengths.decode)]
    command += ["--depth", str(lengths.depth), "--ctx", str(lengths.context)]
    command += ["--threads", str(threads), "--repeat", str(lengths.repeats)]
    command += [] if mmap else ["--no-mmap"]
    finished = run_child(command)
    report = report_of("benchmark_llm", finished)
    assert isinstance(report, dict)
    return Speed(float(report[lengths.phase]["tokens_per_second"]["mean"]), finished.peak_mib)


#: Positions of the cache where one token is wanted.
FIRST_TOKEN_CONTEXT = 512


def llama_first_token(tools: Path, model: Model, threads: int) -> float:
    """Seconds of a process that writes one token, with what would only delay it turned off."""
    command: list[str | Path] = [tools / "llama-completion", "-m", model.gguf]
    command += ["-p", model.prompt, "-n", "1", "-t", str(threads)]
    command += ["-c", str(FIRST_TOKEN_CONTEXT), "--temp", "0", "-no-cnv"]
    # Fitting the arguments to the memory opens the file twice, a warm-up runs it for nothing.
    command += ["-fit", "off", "--no-warmup"]
    return run_child(command).seconds


def our_first_token(binary: Path, model: Model, threads: int, mmap: bool = True) -> float:
    """The same of run_llm."""
    command: list[str | Path] = [binary, model.program, "--gguf", model.gguf]
    command += ["-p", model.prompt, "-n", "1", "--threads", str(threads), "--no-chat-template"]
    command += ["--ctx", str(FIRST_TOKEN_CONTEXT), "--temp", "0"]
    command += [] if mmap else ["--no-mmap"]
    return run_child(command).seconds
