"""``python -m tests.property ir|export --graphs N [--seed S]``: many random graphs."""

from __future__ import annotations

import argparse
import os
import sys

import pytest

_TESTS = {
    "ir": ("tests/property/test_ir_graphs.py", "EXECUTORCH_GGML_IR_GRAPHS", 20_000),
    "export": ("tests/property/test_export_graphs.py", "EXECUTORCH_GGML_EXPORT_GRAPHS", 2_000),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.property", description=__doc__)
    parser.add_argument("kind", choices=_TESTS)
    parser.add_argument("--graphs", type=int, help="how many (ir: 20000, export: 2000)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other graphs")
    arguments = parser.parse_args()
    path, variable, default = _TESTS[arguments.kind]
    os.environ[variable] = str(arguments.graphs or default)
    options = [path, "-q", "-p", "no:cacheprovider", f"--hypothesis-seed={arguments.seed}"]
    os.environ["EXECUTORCH_GGML_SEED"] = str(arguments.seed)
    return int(pytest.main([*options, "--hypothesis-show-statistics"]))


if __name__ == "__main__":
    sys.exit(main())
