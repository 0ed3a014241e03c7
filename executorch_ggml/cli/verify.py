"""``executorch-ggml verify``: a program's outputs against a reference."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch_ggml.cli.errors import CliError, ExitCode
from executorch_ggml.cli.program import (
    add_input_arguments,
    add_program_arguments,
    make_inputs,
    open_program,
)

if TYPE_CHECKING:
    import torch


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "verify",
        parents=[common],
        help="compare a .pte's outputs with a reference",
        description="Run a method and compare its outputs with saved ones or with PyTorch. An "
        "element fits if |actual - expected| <= atol + rtol * |expected|. The exit code is 1 if "
        "any does not.",
    )
    add_program_arguments(command)
    add_input_arguments(command)
    reference = command.add_argument_group("reference").add_mutually_exclusive_group(required=True)
    reference.add_argument(
        "--reference", metavar="FILE.npz", type=Path,
        help="entries output0, output1, … and, unless --input is given, input0, input1, …; "
        "`run --save` writes such a file",
    )  # fmt: skip
    reference.add_argument(
        "--against", metavar="MODULE:NAME",
        help="a torch module, or a function or class without arguments that makes one, or a "
        "function of the inputs; MODULE is imported from the current folder or installed packages",
    )  # fmt: skip
    command.add_argument("--rtol", type=float, default=1e-3, help="default: %(default)s")
    command.add_argument("--atol", type=float, default=1e-4, help="default: %(default)s")
    command.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Compare and print a line per output."""
    from executorch_ggml.cli import tensors

    callee = _resolve(args.against) if args.against is not None else None
    saved: dict[str, torch.Tensor] = {}
    if args.reference is not None:
        saved = tensors.read_npz(args.reference)
        if not tensors.numbered(saved, "output"):
            raise CliError(f"{args.reference} has no entry output0; `run --save` writes one")
    program = open_program(args)
    info = program.describe(args.method)
    if saved and not args.input and not args.random:
        inputs = tensors.numbered(saved, "input")
        if args.cast:
            inputs = tensors.cast_inputs(inputs, info.inputs)
        tensors.check_inputs(inputs, info.inputs)
    else:
        inputs = make_inputs(args, info)
    actual = program.run(args.method, *inputs)
    expected = tensors.numbered(saved, "output") if callee is None else _call(callee, inputs)
    return _compare(actual, expected, args.rtol, args.atol)


def _resolve(text: str) -> Callable[..., Any]:
    """The function that ``MODULE:NAME`` stands for; modules are put in evaluation mode."""
    import torch

    module_name, separator, name = text.partition(":")
    if not separator or not module_name or not name:
        raise CliError(f"--against {text}: expected MODULE:NAME")
    # As `python -m` does.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise CliError(f"--against {text}: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise CliError(f"--against {text}: {module_name} has no '{name}'")
        found = getattr(found, part)
    if not callable(found):
        raise CliError(f"--against {text}: a {type(found).__name__} cannot be called")
    if not isinstance(found, torch.nn.Module) and not _n_required(found):
        found = found()
        if not isinstance(found, torch.nn.Module):
            raise CliError(f"--against {text}: it made a {type(found).__name__}, no torch module")
    return found.eval() if isinstance(found, torch.nn.Module) else found


def _n_required(function: Callable[..., Any]) -> int:
    """How many arguments a function needs, at least as far as it tells."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a builtin such as torch.relu
        return 1
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in variable]
    # A function of (*inputs) takes them.
    return len(needed) + any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _call(callee: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    import torch
    from torch.utils import _pytree

    with torch.no_grad():
        # It may write to its inputs; ours have been used already, but not printed.
        result = callee(*(tensor.clone() for tensor in inputs))
    leaves = _pytree.tree_leaves(result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _compare(
    actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], rtol: float, atol: float
) -> int:
    from executorch_ggml.cli.console import stdout, table

    out = stdout()
    if len(actual) != len(expected):
        out.print(f"MISMATCH: {len(actual)} outputs, the reference has {len(expected)}")
        return ExitCode.MISMATCH
    rows = [
        (index, *_difference(a, e, rtol, atol))
        for index, (a, e) in enumerate(zip(actual, expected, strict=True))
    ]
    columns = ("output", "verdict", "max abs error", "max rel error", "off", "what is off")
    out.print(table(columns, rows, "r rrr"))
    bad = sum(row[1] != "ok" for row in rows)
    limits = f"rtol {rtol:g}, atol {atol:g}"
    if bad:
        out.print(f"MISMATCH: {bad} of {len(rows)} outputs differ ({limits})")
        return ExitCode.MISMATCH
    out.print(f"OK: {len(rows)} output{'' if len(rows) == 1 else 's'} equal ({limits})")
    return ExitCode.OK


def _difference(
    actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float
) -> tuple[str, str, str, str, str]:
    """Verdict, largest absolute and relative error, elements that are off, and where."""
    import torch

    if actual.shape != expected.shape:
        text = f"sizes {list(actual.shape)}, the reference has {list(expected.shape)}"
        return ("sizes", "", "", "", text)
    if actual.is_floating_point() != expected.is_floating_point():
        return ("types", "", "", "", f"{actual.dtype}, the reference has {expected.dtype}")
    if actual.numel() == 0:
        return ("ok", "0", "0", "0", "")
    a, e = actual.to(torch.float64), expected.to(torch.float64)
    # Equal infinities have no difference, and neither do two NaNs.
    same = (a == e) | (a.isnan() & e.isnan())
    difference = torch.where(same, 0.0, (a - e).abs()).nan_to_num(nan=torch.inf)
    relative = torch.where(same, 0.0, difference / e.abs())
    off = ~same & ~(difference <= atol + rtol * e.abs())
    count = int(off.sum())
    where = ""
    if count:
        worst = int(torch.where(off, difference, -1.0).argmax())
        index = [int(i) for i in torch.unravel_index(torch.tensor(worst), a.shape)]
        where = f"worst at {index}: {a.flatten()[worst]:.6g}, expected {e.flatten()[worst]:.6g}"
    return (
        "differs" if count else "ok",
        f"{difference.max():.3g}",
        f"{relative.max():.3g}",
        f"{count} of {a.numel()}" if count else "0",
        where,
    )
