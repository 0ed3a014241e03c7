"""The fenced code blocks of the documents, and which of them are run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
)

_FENCE = re.compile(r"^ *```(\w*)$")
#: Stands on the line before a block that no test here runs.
_NOT_RUN = re.compile(r"^ *<!-- not run: (.+) -->$")


@dataclass(frozen=True)
class Block:
    """``not_run`` is the reason, or None for a block that a test runs."""

    document: Path
    line: int
    language: str
    text: str
    not_run: str | None

    @property
    def place(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(document: Path) -> list[Block]:
    """All fenced blocks of a document, in order."""
    found: list[Block] = []
    lines = document.read_text(encoding="utf-8").splitlines()
    start: int | None = None
    language, reason = "", None
    for index, line in enumerate(lines):
        fence = _FENCE.match(line)
        if start is None and fence:
            start, language = index + 1, fence[1]
            before = _NOT_RUN.match(lines[index - 1]) if index else None
            reason = before[1] if before else None
        elif start is not None and fence:
            text = "\n".join(lines[start:index]) + "\n"
            found.append(Block(document, start + 1, language, text, reason))
            start = None
    assert start is None, f"{document}: a block is not closed"
    return found


def runnable(document: Path, *languages: str) -> list[Block]:
    """The blocks in one of ``languages`` that are to be run."""
    return [b for b in blocks(document) if b.language in languages and b.not_run is None]
