"""Prints the requirements that pyproject.toml declares, one a line.

``pip install`` of the project would build its C++ code as well; `make setup` wants
the packages alone, from the same list.

usage: python tools/requirements.py [--only NAME]... [EXTRA]...

Extras are added to the project's dependencies. With ``--only``, only the lines
for these packages are printed.
"""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path
from typing import Any


def load_toml(path: Path) -> dict[str, Any]:
    """The parsed file; Python 3.10 has no parser but the one inside pip."""
    try:
        toml = importlib.import_module("tomllib")
    except ModuleNotFoundError:
        toml = importlib.import_module("pip._vendor.tomli")
    parsed: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
    return parsed


def package_of(requirement: str) -> str:
    """``executorch_ggml`` of ``executorch_ggml[test]>=1``, normalised."""
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def requirements(extras: list[str]) -> list[str]:
    """Dependencies of the project and its extras, extras of extras included."""
    project = load_toml(Path(__file__).resolve().parent.parent / "pyproject.toml")["project"]
    own = package_of(project["name"])
    lines: list[str] = list(project["dependencies"])
    pending = list(extras)
    while pending:
        for line in project["optional-dependencies"][pending.pop()]:
            if package_of(line) == own:
                pending += [name.strip() for name in line.split("[")[1].split("]")[0].split(",")]
            else:
                lines.append(line)
    return list(dict.fromkeys(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="print the project's requirements")
    parser.add_argument("extras", nargs="*")
    parser.add_argument("--only", action="append", default=[])
    arguments = parser.parse_args()
    for line in requirements(arguments.extras):
        if not arguments.only or package_of(line) in arguments.only:
            print(line)


if __name__ == "__main__":
    main()
