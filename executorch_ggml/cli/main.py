"""Entry point of ``executorch-ggml``: arguments in, exit code out.

Subcommands import what they need when they run: PyTorch and ExecuTorch take seconds, which
``--help`` and a mistyped argument should not.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

from executorch_ggml import __version__
from executorch_ggml.cli import bench, export, inspect, run, verify
from executorch_ggml.cli.errors import ExitCode, is_user_error

_PROGRAM = "executorch-ggml"
_EXIT_CODES = "exit codes: 0 done, 1 `verify` found a difference, 2 a file or argument is wrong"


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Export models to ExecuTorch programs that run on ggml; look into, run, "
        "time and check them.",
        epilog=_EXIT_CODES,
    )
    top.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    commands = top.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    general = common.add_argument_group("general")
    general.add_argument("--debug", action="store_true", help="show tracebacks and debug logs")
    general.add_argument("-v", "--verbose", action="store_true", help="log what is being done")
    for module in (export, inspect, run, bench, verify):
        module.add_parser(commands, common)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code, and never raises for an error of the user."""
    top = parser()
    args = top.parse_args(arguments)
    if args.command is None:
        top.print_help()
        return ExitCode.OK
    _set_up_logging(args.debug, args.verbose)
    try:
        return int(args.handler(args))
    except KeyboardInterrupt:
        _complain("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has left: nothing to say and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:
        if args.debug:
            traceback.print_exc()
        if is_user_error(error):
            _complain(f"error: {error}")
            return ExitCode.USER_ERROR
        _complain(f"internal error: {type(error).__name__}: {error}")
        _complain("this is a bug in executorch-ggml; --debug shows where it happened")
        return ExitCode.INTERNAL_ERROR


def _set_up_logging(debug: bool, verbose: bool) -> None:
    level = logging.DEBUG if debug else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("executorch_ggml").setLevel(level)
    if not debug:
        # What the libraries say to each other: missing CUDA parts, deprecations.
        warnings.simplefilter("ignore")
        for name in ("torch.utils._pytree", "torchao"):
            logging.getLogger(name).setLevel(logging.ERROR)


def _complain(text: str) -> None:
    print(f"{_PROGRAM}: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
