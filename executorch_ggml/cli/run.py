"""``executorch-ggml run``: run a method once and show its outputs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from executorch_ggml.cli.errors import CliError, ExitCode
from executorch_ggml.cli.program import (
    add_input_arguments,
    add_program_arguments,
    constant,
    language_model_vocabulary,
    make_inputs,
    open_program,
)

if TYPE_CHECKING:
    import torch

    from executorch_ggml._capi import LoadedProgram

_TOP: Final = 5
_FIRST_VALUES: Final = 8


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "run",
        parents=[common],
        help="run a .pte",
        description="Run a method of a .pte and show the shapes, types and statistics of what it "
        "returns. A language model takes token ids; for text use the program run_llm.",
    )
    add_program_arguments(command)
    add_input_arguments(command)
    command.add_argument(
        "--save", metavar="FILE.npz", type=Path, help="write inputs and outputs, for `verify`"
    )
    model = command.add_argument_group("language models")
    model.add_argument("--ids", metavar="N,N,…", type=_ids, help="token ids to feed")
    model.add_argument(
        "--n-predict", metavar="N", type=int, default=0, help="greedy tokens after --ids"
    )
    model.add_argument("--prompt", metavar="TEXT", help=argparse.SUPPRESS)
    command.set_defaults(handler=run)


def _ids(text: str) -> list[int]:
    try:
        ids = [int(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of token ids") from None
    if not ids:
        raise argparse.ArgumentTypeError("no token ids")
    return ids


def run(args: argparse.Namespace) -> int:
    """Run and print."""
    if args.prompt is not None:
        weights = " ".join(f"--gguf {path}" for path in args.data) or "--gguf MODEL.gguf"
        raise CliError(
            "text needs the model's tokenizer, which the C++ program run_llm has: "
            f"run_llm {args.program} {weights} --prompt '{args.prompt}'. Here, give --ids."
        )
    if args.save is not None and args.save.suffix != ".npz":
        raise CliError(f"--save {args.save}: the file's name must end in .npz")
    program = open_program(args)
    info = program.describe(args.method)
    if args.ids is not None:
        if language_model_vocabulary(program, info) is None:
            raise CliError(f"{args.program} is no language model that takes token ids")
        if args.input or args.random or args.save:
            raise CliError("--ids excludes --input, --random and --save")
        _run_tokens(program, args)
        return ExitCode.OK
    inputs = make_inputs(args, info)
    outputs = program.run(args.method, *inputs)
    _show(outputs)
    if args.save is not None:
        from executorch_ggml.cli.tensors import save_npz

        save_npz(args.save, inputs, outputs)
    return ExitCode.OK


def _show(outputs: tuple[torch.Tensor, ...]) -> None:
    from executorch_ggml.cli.console import stdout, table
    from executorch_ggml.cli.tensors import statistics, type_name

    rows = []
    for index, output in enumerate(outputs):
        first = [f"{value:.4g}" for value in output.flatten()[:_FIRST_VALUES].tolist()]
        more = [" …"] if output.numel() > _FIRST_VALUES else []
        values = ", ".join(first + more)
        rows.append(
            (index, type_name(output.dtype), list(output.shape), *statistics(output), values)
        )
    columns = ("output", "type", "sizes", "min", "max", "mean", "std", "not finite", "first values")
    stdout().print(table(columns, rows, "r  rrrrr"))


def _run_tokens(program: LoadedProgram, args: argparse.Namespace) -> None:
    """Feed the ids in calls as large as the program takes, then continue greedily."""
    import torch

    from executorch_ggml.cli.console import stdout, table

    most = constant(program, "get_max_seq_len")
    logits = torch.empty(0)
    for start in range(0, len(args.ids), most):
        chunk = args.ids[start : start + most]
        positions = torch.arange(start, start + len(chunk))
        (logits,) = program.run(args.method, torch.tensor([chunk]), positions)
    last = logits[0, -1]
    top = torch.topk(last, min(_TOP, last.numel()))
    chances = torch.softmax(last, 0)[top.indices]
    rows = [
        (int(i), f"{v:.4f}", f"{100 * p:.1f} %")
        for i, v, p in zip(top.indices, top.values.tolist(), chances.tolist(), strict=True)
    ]
    out = stdout()
    out.print(f"after {len(args.ids)} tokens, the likeliest next ones:", markup=False)
    out.print(table(("token", "logit", "probability"), rows, "rrr"))
    tokens = []
    for step in range(args.n_predict):
        token = int(last.argmax())
        tokens.append(token)
        if step + 1 < args.n_predict:
            position = torch.tensor([len(args.ids) + step])
            (logits,) = program.run(args.method, torch.tensor([[token]]), position)
            last = logits[0, -1]
    if tokens:
        out.print(f"greedy continuation: {','.join(map(str, tokens))}", markup=False)
