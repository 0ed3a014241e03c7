"""What run, bench and verify have in common: the program's arguments, and how it is opened."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from executorch_ggml.cli.errors import CliError

if TYPE_CHECKING:
    import torch

    from executorch_ggml._capi import LoadedProgram, MethodInfo


def add_program_arguments(command: argparse.ArgumentParser) -> None:
    """MODEL.pte and how it is loaded."""
    command.add_argument("program", metavar="MODEL.pte", type=Path)
    load = command.add_argument_group("loading")
    load.add_argument(
        "--gguf", "--data", dest="data", metavar="FILE", type=Path, action="append", default=[],
        help="a .gguf or .ptd file with the weights; may be given several times",
    )  # fmt: skip
    load.add_argument("--method", metavar="NAME", default="forward", help="default: %(default)s")
    load.add_argument("--threads", metavar="N", type=int, help="default: the physical cores")
    load.add_argument(
        "--option", metavar="KEY=VALUE", action="append", default=[],
        help="a load option, such as context=4096, cache_type=q8_0, flash_attention=1; may be "
        "given several times",
    )  # fmt: skip


def add_input_arguments(command: argparse.ArgumentParser) -> None:
    """Where the inputs come from."""
    group = command.add_argument_group("inputs")
    group.add_argument(
        "--input", metavar="FILE", type=Path, action="append", default=[],
        help="a .npy, .npz or .pt file with one or more inputs; may be given several times",
    )  # fmt: skip
    group.add_argument("--random", action="store_true", help="random inputs")
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of the random inputs")
    group.add_argument(
        "--size", metavar="INPUT=SIZES", action="append", default=[],
        help="sizes of a random input, such as 0=1x16 (default: the largest it can have)",
    )  # fmt: skip
    group.add_argument(
        "--cast", action="store_true", help="convert inputs to the element types of the program"
    )


def make_inputs(args: argparse.Namespace, info: MethodInfo) -> list[torch.Tensor]:
    """The inputs that ``args`` ask for, checked against the method's signature.

    Raises:
        CliError: a file is wrong, or the inputs do not fit.
    """
    from executorch_ggml.cli import tensors

    if args.random and args.input:
        raise CliError("--random and --input exclude each other")
    if args.size and not args.random:
        raise CliError("--size is for --random inputs")
    if args.random:
        sizes = dict(tensors.parse_size(text) for text in args.size)
        inputs = tensors.random_inputs(info.inputs, sizes, args.seed)
    elif args.input or not info.inputs:
        inputs = tensors.read_inputs(args.input)
    else:
        expected = ", ".join(map(tensors.describe, info.inputs))
        raise CliError(f"no inputs: give --input or --random. The method takes {expected}")
    if args.cast:
        inputs = tensors.cast_inputs(inputs, info.inputs)
    tensors.check_inputs(inputs, info.inputs)
    return inputs


def check_files(args: argparse.Namespace) -> None:
    """
    Raises:
        CliError: the program or a data file is not there.
    """
    for path in (args.program, *args.data):
        if not path.is_file():
            raise CliError(f"{path} does not exist or is not a file")


def open_program(args: argparse.Namespace) -> LoadedProgram:
    """Load the program and the method that ``args`` name.

    Raises:
        CliError: a file or the method is not there, or an option is no ``KEY=VALUE``.
        RuntimeApiError: the runtime refuses a file or an option.
    """
    check_files(args)
    options = dict(_option(text) for text in args.option)
    if args.threads is not None:
        options["n_threads"] = str(args.threads)

    from executorch_ggml._capi import LoadedProgram

    program = LoadedProgram(args.program, args.data, options)
    if args.method not in program.methods:
        raise CliError(
            f"{args.program} has no method '{args.method}'; it has {', '.join(program.methods)}"
        )
    program.load_method(args.method)
    return program


def _option(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise CliError(f"--option {text}: expected KEY=VALUE")
    return key, value


def language_model_vocabulary(program: LoadedProgram, info: MethodInfo) -> int | None:
    """Size of the vocabulary of a decoder that takes tokens and positions; None for others."""
    import torch

    names = program.methods
    integers = [argument.dtype for argument in info.inputs] == [torch.int64, torch.int64]
    if not integers or "get_vocab_size" not in names or "use_kv_cache" not in names:
        return None
    return constant(program, "get_vocab_size")


def constant(program: LoadedProgram, method: str) -> int:
    """The value of a constant method such as ``get_vocab_size``."""
    return int(program.run(method)[0].item())
