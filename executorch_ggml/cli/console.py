"""What the subcommands print with: results on the standard output, progress beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Width where the output is no terminal, so that tables in files and pipes are not cut.
_PIPE_WIDTH = 200


def stdout() -> Console:
    """Results go here; no colours and no wrapping when it is not a terminal."""
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def stderr() -> Console:
    """Progress and errors go here, so that results can be piped."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: str = "") -> Table:
    """A plain table. ``numbers`` has a letter per column: ``r`` aligns it to the right."""
    result = Table(box=box.SIMPLE, pad_edge=False, show_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        right = numbers[index : index + 1] == "r"
        # Names are what one looks up: they fold onto a new line rather than lose their end.
        result.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        result.add_row(*(Text(str(cell)) for cell in row))
    return result


def bytes_text(count: int) -> str:
    """``1.2 MB``; units are powers of 1000, as file managers and ``ls -h --si`` have them."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def seconds_text(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


class Stages:
    """Tells on the standard error which stage runs, and how long the earlier ones took.

    with Stages() as stage:
        stage("read")
        ...
        stage("write")
    """

    def __init__(self, labels: dict[str, str] | None = None) -> None:
        self._console = stderr()
        self._labels = labels or {}
        self._status = self._console.status("") if self._console.is_terminal else None
        self._current: str | None = None
        self._start = 0.0

    def __call__(self, name: str) -> None:
        self._finish()
        self._current, self._start = self._labels.get(name, name), time.perf_counter()
        if self._status is not None:
            self._status.update(Text(f"{self._current} ..."))
            self._status.start()

    def _finish(self) -> None:
        if self._current is None:
            return
        elapsed = time.perf_counter() - self._start
        self._console.print(Text(f"  {self._current:<40} {seconds_text(elapsed):>10}"))
        self._current = None

    def __enter__(self) -> Callable[[str], None]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()
        if error is None:
            self._finish()
