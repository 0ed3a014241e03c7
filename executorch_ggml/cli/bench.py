"""``executorch-ggml bench``: how long calls take."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executorch_ggml.cli.errors import CliError, ExitCode
from executorch_ggml.cli.program import (
    add_input_arguments,
    add_program_arguments,
    check_files,
    constant,
    language_model_vocabulary,
    make_inputs,
    open_program,
)

if TYPE_CHECKING:
    from executorch_ggml._capi import LoadedProgram


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "bench",
        parents=[common],
        help="time a .pte",
        description="Time calls of a method, from Python. Inputs are random unless given. A "
        "language model is timed on a prompt of random tokens and on single tokens after it. "
        "The C++ program benchmark_llm measures without Python.",
    )
    add_program_arguments(command)
    add_input_arguments(command)
    command.add_argument(
        "--iterations", metavar="N", type=_count, default=None,
        help="timed repetitions (default: 50 calls, 5 for a language model)",
    )  # fmt: skip
    command.add_argument(
        "--warmup", metavar="N", type=int, default=2, help="calls before (default: %(default)s)"
    )
    command.add_argument("--json", action="store_true", help="print figures as JSON")
    model = command.add_argument_group("language models")
    model.add_argument(
        "--prompt-len", metavar="N", type=_count, default=128, help="default: %(default)s"
    )
    model.add_argument(
        "--n-decode", metavar="N", type=_count, default=32, help="default: %(default)s"
    )
    command.set_defaults(handler=run)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


@dataclass(frozen=True)
class _Figure:
    """Repetitions of one measurement. ``samples`` are in ``unit``; rates count upwards."""

    name: str
    unit: str
    samples: list[float]

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "unit": self.unit,
            "median": statistics.median(self.samples),
            "min": min(self.samples),
            "max": max(self.samples),
            "samples": self.samples,
        }

    def row(self) -> tuple[str, ...]:
        middle = statistics.median(self.samples)
        # Half the distance between the quartiles: one slow call does not move it.
        spread = 0.0
        if len(self.samples) > 1:
            low, _, high = statistics.quantiles(self.samples, n=4)
            spread = 100 * (high - low) / 2 / middle
        figures = [f"{x:.4g} {self.unit}" for x in (middle, min(self.samples), max(self.samples))]
        return (self.name, figures[0], f"{spread:.1f} %", *figures[1:], str(len(self.samples)))


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    # Importing PyTorch and loading the library are no part of loading a program.
    check_files(args)
    from executorch_ggml._capi import runtime_version
    from executorch_ggml.cli.console import stdout, table

    runtime_version()
    start = time.perf_counter()
    program = open_program(args)
    load = _Figure("load", "ms", [1e3 * (time.perf_counter() - start)])
    info = program.describe(args.method)
    vocabulary = language_model_vocabulary(program, info)
    own_inputs = bool(args.input or args.random)
    if vocabulary is not None and not own_inputs:
        figures = [load, *_bench_model(program, vocabulary, args)]
    else:
        args.random = not args.input
        inputs = make_inputs(args, info)
        figures = [load, _bench_calls(lambda: program.run(args.method, *inputs), args)]
    if args.json:
        print(json.dumps([figure.as_json() for figure in figures], indent=2))
    else:
        columns = ("", "median", "spread", "min", "max", "samples")
        stdout().print(table(columns, [figure.row() for figure in figures], " rrrrr"))
    return ExitCode.OK


def _bench_calls(call: Callable[[], object], args: argparse.Namespace) -> _Figure:
    samples = []
    for index in range(args.warmup + (args.iterations or 50)):
        start = time.perf_counter()
        call()
        if index >= args.warmup:
            samples.append(1e3 * (time.perf_counter() - start))
    return _Figure(args.method, "ms", samples)


def _bench_model(
    program: LoadedProgram, vocabulary: int, args: argparse.Namespace
) -> list[_Figure]:
    """Prefill in calls as large as the program takes, then single tokens."""
    import torch

    from executorch_ggml.cli.console import stderr

    most = constant(program, "get_max_seq_len")
    capacity = program.position_capacity
    if capacity and args.prompt_len + args.n_decode > capacity:
        raise CliError(
            f"{args.prompt_len} + {args.n_decode} tokens do not fit the cache of {capacity} "
            "positions; load it with a larger one: --option context=N"
        )
    generator = torch.Generator().manual_seed(args.seed)
    ids = torch.randint(0, vocabulary, (1, args.prompt_len + args.n_decode), generator=generator)
    prefill, first, decode = [], [], []
    repetitions = args.iterations or 5
    for index in range(repetitions + 1):
        program.reset()
        if not args.json:
            name = f"repetition {index} of {repetitions}" if index else "warming up"
            stderr().print(f"  {name}", markup=False)
        start = time.perf_counter()
        for begin in range(0, args.prompt_len, most):
            end = min(begin + most, args.prompt_len)
            program.run(args.method, ids[:, begin:end], torch.arange(begin, end))
        prompt_seconds = time.perf_counter() - start
        start = time.perf_counter()
        for position in range(args.prompt_len, args.prompt_len + args.n_decode):
            program.run(args.method, ids[:, position : position + 1], torch.tensor([position]))
        decode_seconds = time.perf_counter() - start
        if index:
            prefill.append(args.prompt_len / prompt_seconds)
            first.append(1e3 * prompt_seconds)
            decode.append(args.n_decode / decode_seconds)
    return [
        _Figure(f"prefill of {args.prompt_len}", "tok/s", prefill),
        _Figure("time to first token", "ms", first),
        _Figure(f"decode of {args.n_decode}", "tok/s", decode),
    ]
