"""``executorch-ggml inspect``: what a ``.pte`` or a ``.gguf`` holds."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from executorch_ggml.cli.errors import CliError, ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from executorch_ggml.cli.pte_file import Argument, Delegate, Method, PteFile
    from executorch_ggml.ir.graph import Graph, State, Symbol, Weight
    from executorch_ggml.weights.gguf import GGUFFile

#: Metadata values longer than this (chat templates) are cut in the table.
_MAX_VALUE_LENGTH: Final = 80


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "inspect",
        parents=[common],
        help="show what a .pte or .gguf holds",
        description="Show the methods of a .pte, what each ggml delegate computes and needs, and "
        "the sizes of its parts; or the metadata and tensors of a .gguf. Nothing is run.",
    )
    command.add_argument("file", metavar="FILE", type=Path, help="a .pte or .gguf file")
    command.add_argument("--ir", action="store_true", help="print each delegate's program as text")
    command.add_argument("--weights", action="store_true", help="list every weight")
    command.add_argument(
        "--method", metavar="NAME", help="show this method only (default: all methods)"
    )
    command.add_argument(
        "--gguf",
        metavar="MODEL.gguf",
        type=Path,
        help="say which tensors of this file a .pte binds, their types and sizes",
    )
    command.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Print the description of ``args.file``."""
    from executorch_ggml.cli.console import stdout

    path: Path = args.file
    if not path.is_file():
        raise CliError(f"{path} does not exist or is not a file")
    with path.open("rb") as file:
        head = file.read(8)
    out = stdout()
    if head[:4] == b"GGUF":
        if args.gguf or args.ir or args.method:
            raise CliError(f"{path} is a .gguf file: --ir, --method and --gguf are for programs")
        _show_gguf(out, path, args.weights)
    elif head[4:6] == b"ET":
        _show_pte(out, path, args)
    else:
        raise CliError(f"{path} is neither an ExecuTorch program nor a GGUF file")
    return ExitCode.OK


# --- .pte --------------------------------------------------------------------------------


def _show_pte(out: Console, path: Path, args: argparse.Namespace) -> None:
    from executorch_ggml.cli.console import bytes_text
    from executorch_ggml.cli.pte_file import PteFile
    from executorch_ggml.weights.gguf import GGUFFile

    program = PteFile.open(path)
    gguf = GGUFFile.open(args.gguf) if args.gguf else None
    methods = program.methods
    if args.method is not None:
        methods = tuple(m for m in methods if m.name == args.method)
        if not methods:
            names = ", ".join(m.name for m in program.methods)
            raise CliError(f"{path} has no method '{args.method}'; it has {names}")
    _say(out, f"{path}: ExecuTorch program, {bytes_text(program.n_bytes)}")
    blobs = {d.blob for m in program.methods for d in m.delegates}
    parts = [
        f"delegates {bytes_text(sum(map(len, blobs)))}",
        f"named data {bytes_text(sum(program.named_data.values()))} "
        f"in {len(program.named_data)} entries",
        f"constants {bytes_text(program.constant_bytes)}",
    ]
    _say(out, "  " + ", ".join(parts))
    constants = [m for m in methods if m.is_constant]
    for method in methods:
        if not method.is_constant:
            _show_method(out, program, method, gguf, args)
    if constants:
        _say(out, "\nconstants")
        width = max(len(m.name) for m in constants)
        for m in constants:
            _say(out, f"  {m.name:{width}}  {', '.join(map(str, m.outputs))}")


def _show_method(
    out: Console,
    program: PteFile,
    method: Method,
    gguf: GGUFFile | None,
    args: argparse.Namespace,
) -> None:
    from executorch_ggml.cli.console import bytes_text

    inputs = ", ".join(map(_argument, method.inputs))
    outputs = ", ".join(map(_argument, method.outputs))
    _say(out, f"\nmethod {method.name}({inputs}) -> {outputs}")
    kernels = sum(method.kernel_calls.values())
    _say(
        out,
        f"  {method.delegate_calls} delegate call{_s(method.delegate_calls)}, "
        f"{kernels} kernel call{_s(kernels)} of ExecuTorch, "
        f"{bytes_text(method.planned_bytes)} planned for tensors between them",
    )
    if kernels:
        _say(out, f"  kernels: {_histogram(method.kernel_calls)}")
    for index, delegate in enumerate(method.delegates):
        _say(
            out, f"  delegate {index}: {delegate.backend}, blob of {bytes_text(len(delegate.blob))}"
        )
        if delegate.backend == "GgmlBackend":
            _show_delegate(out, program, delegate, gguf, args)


def _show_delegate(
    out: Console,
    program: PteFile,
    delegate: Delegate,
    gguf: GGUFFile | None,
    args: argparse.Namespace,
) -> None:
    from executorch_ggml.ir.serialize import from_bytes
    from executorch_ggml.ir.text import program_text

    ir = from_bytes(delegate.blob)
    made_by = f" by {ir.producer}" if ir.producer else ""
    _say(out, f"    program '{ir.program_id}'{made_by}")
    for graph in ir.graphs:
        ops = Counter(call.op.name for call in graph.calls)
        _say(out, f"    graph '{graph.name}': {len(graph.calls)} calls")
        if ops:
            _say(out, f"      ops      {_histogram(ops)}")
        if graph.symbols:
            _say(out, f"      symbols  {'; '.join(map(_symbol, graph.symbols))}")
        _show_states(out, graph.states)
        _show_weights(out, program, graph, gguf, args.weights)
    if args.ir:
        _say(out, "")
        _say(out, program_text(ir).rstrip("\n"))


def _symbol(symbol: Symbol) -> str:
    from executorch_ggml.ir.graph import SymbolSource

    what = f"size of input {symbol.input} in dim {symbol.index}"
    if symbol.source is SymbolSource.INPUT_ELEMENT:
        what = f"element {symbol.index} of input {symbol.input}"
    return f"{symbol.name} = {what}, {symbol.min} to {symbol.max}"


def _show_states(out: Console, states: Iterable[State]) -> None:
    """One line per kind: a decoder has the same cache for each layer."""
    from executorch_ggml.ir.graph import StateKind
    from executorch_ggml.ir.text import type_text

    kinds: Counter[str] = Counter()
    for state in states:
        if state.kind is StateKind.KV_CACHE:
            window = f", window of {state.window}" if state.window else ""
            kinds[
                f"cache of {state.n_kv_heads} heads, keys {state.k_head_dim}, values "
                f"{state.v_head_dim}, {state.default_capacity} positions by default, at most "
                f"{state.max_capacity}{window}"
            ] += 1
        else:
            text = type_text(state.value.type) if state.value is not None else "buffer"
            kinds[f"buffer '{state.name}' {text}"] += 1
    for text, count in kinds.items():
        _say(out, f"      state    {count} x {text}")


def _show_weights(
    out: Console, program: PteFile, graph: Graph, gguf: GGUFFile | None, every: bool
) -> None:
    from executorch_ggml.cli.console import bytes_text, table

    if not graph.weights:
        return
    places = [_place(weight, program, gguf) for weight in graph.weights]
    groups: dict[str, list[int]] = {}
    for place, _, size in places:
        groups.setdefault(place, []).append(size or 0)
    for place, sizes in groups.items():
        total = f", {bytes_text(sum(sizes))}" if any(sizes) else ""
        _say(out, f"      weights  {len(sizes)} {place}{total}")
    if every:
        rows = [
            (
                " or ".join(weight.keys),
                type_name,
                list(map(_dim, weight.value.type.ne)),
                "" if size is None else bytes_text(size),
                place,
            )
            for weight, (place, type_name, size) in zip(graph.weights, places, strict=True)
        ]
        out.print(table(("weight", "type", "extents", "size", "where"), rows, "   r"))


def _place(weight: Weight, program: PteFile, gguf: GGUFFile | None) -> tuple[str, str, int | None]:
    """Where a weight's bytes are, its type, and how many bytes it has where that is known."""
    from executorch_ggml.ir.types import DType

    dtype = weight.value.type.dtype
    declared = "of the file" if dtype is DType.FROM_FILE else dtype.name
    for key in weight.keys:
        if key in program.named_data:
            return "in the .pte", declared, program.named_data[key]
        if gguf is not None and key in gguf.tensors:
            tensor = gguf.tensors[key]
            if tensor.shape != tuple(map(int, weight.value.type.ne))[: len(tensor.shape)]:
                return f"in {gguf.path.name}, but of another shape", tensor.type.name, tensor.nbytes
            return f"in {gguf.path.name}", tensor.type.name, tensor.nbytes
    if gguf is not None:
        return f"missing from {gguf.path.name}", declared, None
    return "by name, from a .gguf or .ptd at load", declared, None


def _argument(argument: Argument) -> str:
    from executorch_ggml.cli.pte_file import TensorSpec
    from executorch_ggml.ir.verify import SCALAR_TYPE_NAMES

    if not isinstance(argument, TensorSpec):
        return type(argument).__name__
    name = SCALAR_TYPE_NAMES.get(argument.scalar_type, f"type {argument.scalar_type}").lower()
    sizes = ", ".join(map(str, argument.sizes))
    return f"{name}[up to {sizes}]" if argument.is_dynamic else f"{name}[{sizes}]"


# --- .gguf -------------------------------------------------------------------------------


def _show_gguf(out: Console, path: Path, every: bool) -> None:
    from executorch_ggml.cli.console import bytes_text, table
    from executorch_ggml.weights.gguf import GGUFFile

    file = GGUFFile.open(path)
    tensors = file.tensors.values()
    elements = sum(_product(t.shape) for t in tensors)
    n_bytes = sum(t.nbytes for t in tensors)
    bits = f", {8 * n_bytes / elements:.2f} bits per weight" if elements else ""
    _say(out, f"{path}: GGUF version {file.version}, {bytes_text(path.stat().st_size)}")
    _say(out, f"  {len(tensors)} tensors, {elements / 1e6:.1f} M weights{bits}")
    types: dict[str, list[int]] = {}
    for tensor in tensors:
        types.setdefault(tensor.type.name, []).append(tensor.nbytes)
    rows = [(name, len(sizes), bytes_text(sum(sizes))) for name, sizes in types.items()]
    out.print(table(("type", "tensors", "size"), rows, " rr"))
    out.print()
    metadata = [(key, _value(value)) for key, value in file.metadata.items()]
    out.print(table(("metadata", "value"), metadata))
    if every:
        out.print()
        listed = [(t.name, t.type.name, list(t.shape), bytes_text(t.nbytes)) for t in tensors]
        out.print(table(("tensor", "type", "extents", "size"), listed, "   r"))


def _value(value: object) -> str:
    from executorch_ggml.weights.gguf import GGUFArray

    if isinstance(value, GGUFArray):
        return f"{len(value)} x {value.element_type.name.lower()}"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else text[: _MAX_VALUE_LENGTH - 4] + " ..."


# --- text --------------------------------------------------------------------------------


def _say(out: Console, text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _histogram(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count}" for name, count in ordered)


def _dim(dim: object) -> object:
    return dim if isinstance(dim, int) else str(dim)


def _product(shape: Iterable[int]) -> int:
    result = 1
    for extent in shape:
        result *= extent
    return result
