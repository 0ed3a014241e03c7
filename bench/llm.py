"""Compare language models with llama.cpp, ExecuTorch's XNNPACK delegate and PyTorch, in turns.

    python -m bench.llm                                  # Qwen3-0.6B Q8_0 with random weights
    python -m bench.llm --types Q8_0 Q4_0 Q4_K_M F16 --busy --json llm.json --plot llm.png
    python -m bench.llm --gguf model.gguf --measures prefill decode

Everything that a run needs is made once under .cache/. The machine should be idle; docs/speed.md
says what the figures mean and how long a run takes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import eager, peers, xnnpack
from bench.machine import ROOT, busy_core, description, progress, read_bandwidth, versions
from bench.measure import Run, take_turns
from bench.models import Model, models, reads
from bench.peers import Lengths, Speed
from bench.plot import plot, require_matplotlib
from bench.report import (
    BUSY,
    FIRST_TOKEN,
    LLAMA,
    LLAMA_FLASH,
    OURS,
    OURS_COPIED,
    PEAK,
    READ_LIMIT,
    XNNPACK,
    ModelResult,
    table,
)

MEASURES = ("prefill", "decode", "deep", "first-token")
EAGER_TOKENS = 8
#: A program and how it measures itself.
Job = tuple[str, Run]


@dataclass(frozen=True)
class Setup:
    """What is measured and with which programs."""

    tools: Path  # llama.cpp's
    build: Path  # ours
    xnnpack: Path | None
    threads: int
    prompt: int
    decode: int
    depth: int
    deep_decode: int
    measures: tuple[str, ...]
    busy: bool
    eager: bool


def _speed(figure: str, measure: Callable[[], Speed], *, memory: bool = False) -> Run:
    """A run that reports a rate under this name, and with ``memory`` the process's peak."""

    def run() -> Mapping[str, float]:
        speed = measure()
        peak = {} if speed.peak_mib is None or not memory else {PEAK: speed.peak_mib}
        return {figure: speed.tokens_per_second, **peak}

    return run


def _number(figure: str, measure: Callable[[], float]) -> Run:
    return lambda: {figure: measure()}


def _busily(run: Run) -> Run:
    """The same with one core kept busy, under names of its own."""

    def busy() -> Mapping[str, float]:
        with busy_core():
            figures = run()
        return {name + BUSY: value for name, value in figures.items()}

    return busy


def _rates(setup: Setup, model: Model, figure: str, lengths: Lengths) -> list[Job]:
    """Every contender's rate, ours and llama.cpp's with the peak memory of a prompt's process."""
    threads, memory = setup.threads, figure == "prefill"
    benchmark = setup.build / "benchmark" / "benchmark_llm"
    ours = partial(peers.benchmark_llm, benchmark, model, lengths, threads)
    copied = partial(ours, mmap=False)
    bench = partial(peers.llama_bench, setup.tools, model, lengths, threads)
    jobs = [(OURS, _speed(figure, ours, memory=memory))]
    jobs.append((OURS_COPIED, _speed(figure, copied, memory=memory)))
    if lengths.depth:
        for name, flash in ((LLAMA, False), (LLAMA_FLASH, True)):
            jobs.append((name, _speed(figure, partial(bench, flash))))
    else:
        jobs.append((LLAMA, _speed(figure, bench, memory=memory)))
    if setup.xnnpack is not None and model.type_name.startswith("Q4"):
        run = partial(xnnpack.measure, setup.xnnpack, lengths, threads)
        jobs.append((XNNPACK, _number(figure, run)))
    return jobs


def jobs_of(setup: Setup, model: Model) -> dict[str, Job]:
    """All runs of a turn by name, in order: contenders of a measure follow one another."""
    lengths = {
        "prefill": Lengths(prompt=setup.prompt),
        "decode": Lengths(decode=setup.decode),
        "deep": Lengths(decode=setup.deep_decode, depth=setup.depth),
    }
    jobs: dict[str, Job] = {}

    def add(measure: str, found: list[Job]) -> None:
        jobs.update({f"{name}, {measure}": (name, run) for name, run in found})

    threads = setup.threads
    add("bandwidth", [(READ_LIMIT, _number("bytes_per_second", lambda: read_bandwidth(threads)))])
    for measure in setup.measures:
        if measure in lengths:
            add(measure, _rates(setup, model, measure, lengths[measure]))
    if "decode" in setup.measures and setup.eager:
        for dtype in eager.DTYPES:
            run = partial(eager.measure, model.gguf, dtype, EAGER_TOKENS, threads)
            add("decode", [(f"PyTorch {dtype}", _number("decode", run))])
    if "first-token" in setup.measures:
        ours = partial(peers.our_first_token, setup.build / "bin" / "run_llm", model, threads)
        peer = partial(peers.llama_first_token, setup.tools, model, threads)
        found = ((OURS, ours), (OURS_COPIED, partial(ours, mmap=False)), (LLAMA, peer))
        add("first token", [(name, _number(FIRST_TOKEN, run)) for name, run in found])
    if setup.busy:
        for measure in ("prefill", "decode"):
            if measure in setup.measures:
                rates = _rates(setup, model, measure, lengths[measure])
                add(f"{measure} busy", [(name, _busily(run)) for name, run in rates])
    return jobs


def measure(setup: Setup, model: Model, turns: int) -> ModelResult:
    """All figures of a model. A contender that fails is named in the result's failures."""
    jobs = jobs_of(setup, model)
    failures: dict[str, str] = {}
    runs = {job: run for job, (_, run) in jobs.items()}
    series = take_turns(runs, turns, lambda text: progress(f"{model.name}: {text}"), failures)
    figures: dict[str, dict[str, list[float]]] = {}
    for job, (contender, _) in jobs.items():
        figures.setdefault(contender, {}).update(series[job].values)
    return ModelResult(model.name, model.gguf.name, reads(model.gguf), figures, failures)


def xnnpack_program(wanted: bool, failures: dict[str, str]) -> Path | None:
    """The delegate's program where it is wanted and can be made."""
    if not wanted:
        return None
    try:
        return xnnpack.exported()
    except Exception as error:
        failures[f"{XNNPACK}, export"] = f"{type(error).__name__}: {error}"
        progress(f"{XNNPACK} is left out: {error}")
        return None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--types", nargs="+", metavar="TYPE", help="weights of the random model")
    parser.add_argument("--gguf", nargs="+", type=Path, default=[], help="files of your own")
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--busy", action="store_true", help="also with one core kept busy")
    parser.add_argument("--eager", action="store_true", help="also PyTorch without export")
    parser.add_argument("--no-xnnpack", action="store_true", help="without ExecuTorch's XNNPACK")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="folder of our programs")
    parser.add_argument("--reuse", action="store_true", help="do not export our programs again")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--depth", type=int, default=4096, help="cached positions of 'deep'")
    parser.add_argument("--deep-decode", type=int, default=32, help="tokens decoded behind them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--plot", type=Path, help="also draw them here (.png, .svg)")
    args = parser.parse_args()
    for name in ("prompt", "decode", "depth", "deep_decode", "threads", "turns"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} is {getattr(args, name)}, expected 1 or more")
    for path in args.gguf:
        if not path.is_file():
            parser.error(f"--gguf: there is no file {path}")
    if args.types is None:
        args.types = [] if args.gguf else ["Q8_0"]
    return args


def main() -> int:
    args = arguments()
    if args.plot is not None:
        require_matplotlib()  # now, not after the measurements
    failures: dict[str, str] = {}
    tools = peers.build_llama_cpp()
    four_bits = any(type_name.upper().startswith("Q4") for type_name in args.types)
    setup = Setup(
        tools=tools,
        build=args.build,
        xnnpack=xnnpack_program(four_bits and not args.no_xnnpack, failures),
        threads=args.threads,
        prompt=args.prompt,
        decode=args.decode,
        depth=args.depth,
        deep_decode=args.deep_decode,
        measures=tuple(args.measures),
        busy=args.busy,
        eager=args.eager,
    )
    found = models(
        [name.upper() for name in args.types], args.gguf, tools / "llama-quantize", args.reuse
    )
    settings = ("threads", "turns", "prompt", "decode", "depth", "deep_decode")
    result: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": description(),
        "versions": versions(),
        "settings": {name: getattr(args, name) for name in settings},
        "failures": failures,
        "models": [],
    }
    for model in found:
        measured = measure(setup, model, args.turns)
        result["models"].append(measured.as_json(result["settings"]))
        print(table(measured, result["settings"]), flush=True)
        if args.json is not None:  # after each model: a run takes long
            args.json.write_text(json.dumps(result, indent=2) + "\n")
        failures = {**failures, **measured.failures}
    if args.plot is not None:
        plot(result, args.plot)
    for job, error in failures.items():
        progress(f"failed: {job}: {error}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
