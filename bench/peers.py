"""llama.cpp's own benchmark, built from the sources that the runtime is built from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "third-party" / "llama.cpp"
BUILD = ROOT / ".cache" / "peers" / "llama.cpp"
#: Measured runs of a process, averaged: a single one is too noisy on a shared machine.
REPEATS = 3


def build_llama_cpp(progress: Callable[[str], None]) -> Path:
    """Build llama-bench and llama-quantize with llama.cpp's defaults. Returns their folder."""
    if not (SOURCES / "CMakeLists.txt").is_file():
        raise FileNotFoundError(f"{SOURCES} is missing; run `make build` first")
    tools = BUILD / "bin"
    if not (tools / "llama-bench").is_file() or not (tools / "llama-quantize").is_file():
        progress("building llama.cpp's tools (some minutes, once)")
        cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert cmake is not None, "cmake is not installed"
        options: list[str | Path] = [
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUILD_SHARED_LIBS=OFF",
            "-DLLAMA_CURL=OFF",
        ]
        options.append(f"-DCMAKE_PROJECT_INCLUDE={Path(__file__).with_name('llama_cpp.cmake')}")
        options += [f"-DLLAMA_BUILD_{part}=OFF" for part in ("TESTS", "EXAMPLES", "SERVER")]
        subprocess.run([cmake, "-S", SOURCES, "-B", BUILD, *options], check=True)
        targets = ["llama-bench", "llama-quantize"]
        subprocess.run([cmake, "--build", BUILD, "-j", "2", "--target", *targets], check=True)
    return tools


def llama_bench(
    tools: Path, model: Path, prompt: int, decode: int, threads: int
) -> Mapping[str, float]:
    """One run of llama-bench: prefill and decode in tokens per second."""
    command: list[str | Path] = [
        tools / "llama-bench",
        "-m",
        model,
        "-p",
        str(prompt),
        "-n",
        str(decode),
    ]
    command += ["-t", str(threads), "-r", str(REPEATS), "-o", "json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures: dict[str, float] = {}
    for row in json.loads(output):
        name = "prefill" if row["n_prompt"] else "decode"
        figures[name] = float(row["avg_ts"])
    return figures


def benchmark_llm(
    binary: Path, program: Path, model: Path, prompt: int, decode: int, threads: int
) -> Mapping[str, float]:
    """One run of ours: the same two figures."""
    figures: dict[str, float] = {}
    # As llama-bench does: the prompt alone, then the answer alone, from an empty cache.
    for name, lengths in (("prefill", (prompt, 0)), ("decode", (0, decode))):
        command: list[str | Path] = [binary, program, "--gguf", model, "--threads", str(threads)]
        command += ["--prompt-len", str(lengths[0]), "--n-decode", str(lengths[1])]
        command += ["--repeat", str(REPEATS), "--json"]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        report = json.loads(run.stdout)
        figures[name] = float(report[name]["tokens_per_second"]["mean"])
        figures["peak_memory_mib"] = float(report["peak_memory_bytes"]) / 2**20
    return figures
