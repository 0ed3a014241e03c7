"""The command as a whole: help, exit codes, and how errors are told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from executorch_ggml._library import LibraryError
from executorch_ggml.cli import inspect
from executorch_ggml.cli.main import main
from tests.cli.conftest import Command

COMMANDS = ("export", "inspect", "run", "bench", "verify")


def test_help_imports_nothing_heavy() -> None:
    """A second of imports before the help appears is a second too many."""
    code = (
        "import sys\n"
        "from executorch_ggml.cli.main import parser\n"
        "parser().format_help()\n"
        "heavy = {'torch', 'numpy', 'sympy', 'executorch.exir', 'transformers', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_help_lists_every_command(command: Command) -> None:
    result = command("--help")
    assert result.code == 0
    for name in COMMANDS:
        assert f"\n    {name} " in result.out
        assert command(name, "--help").code == 0


def test_without_a_command_shows_help(command: Command) -> None:
    result = command()
    assert result.code == 0
    assert "COMMAND" in result.out


@pytest.mark.parametrize(
    "arguments", [["unknown"], ["run"], ["export", "a.gguf", "--max-seq-len", "0"]]
)
def test_wrong_usage(command: Command, arguments: list[str]) -> None:
    result = command(*arguments)
    assert result.code == 2
    assert "usage:" in result.err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_missing_file_is_named(command: Command, name: str) -> None:
    more = ["--against", "math:sin"] if name == "verify" else []
    result = command(name, "nowhere.gguf", *more)
    assert result.code == 2
    assert "nowhere.gguf does not exist" in result.err
    assert "Traceback" not in result.err


def test_a_missing_library_is_the_users_to_build(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(args: object) -> int:
        raise LibraryError("the library was not found; build it with `make build`")

    monkeypatch.setattr(inspect, "run", fail)
    result = command("inspect", "a.pte")
    assert result.code == 2
    assert "make build" in result.err
    assert "Traceback" not in result.err


def test_a_bug_says_so_and_debug_shows_where(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(args: object) -> int:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(inspect, "run", fail)
    result = command("inspect", "a.pte")
    assert result.code == 70
    assert "ZeroDivisionError" in result.err
    assert "Traceback" not in result.err
    assert "Traceback" in command("inspect", "a.pte", "--debug").err


def test_interruption(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect, "run", interrupt)
    assert command("inspect", "a.pte").code == 130


def test_main_is_what_the_package_installs() -> None:
    from importlib.metadata import PackageNotFoundError, entry_points

    found = [e for e in entry_points(group="console_scripts") if e.name == "executorch-ggml"]
    if not found:
        pytest.skip(f"{PackageNotFoundError.__name__}: the package is not installed")
    assert found[0].load() is main
