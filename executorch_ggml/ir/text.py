"""Programs as text, for people and for golden tests.

One line per symbol, argument, weight, state and call. Names: ``%in0`` inputs, ``%w0``
weights, ``%st0`` buffer states, ``%0`` results in the order of the calls. Extents are in
ggml order (the first varies fastest); arguments show their torch sizes as well.
Parameters at their defaults are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import sympy
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from executorch_ggml.ir.canonical import basic
from executorch_ggml.ir.graph import (
    Argument,
    Call,
    Graph,
    Program,
    State,
    StateKind,
    Symbol,
    SymbolSource,
    Value,
)
from executorch_ggml.ir.opset import OpDef, Param, ParamKind
from executorch_ggml.ir.types import Dim, DType, TensorType
from executorch_ggml.ir.verify import SCALAR_TYPE_NAMES

_NE: Final = frozenset({"ne0", "ne1", "ne2", "ne3"})


def program_text(program: Program) -> str:
    """Every graph of the program; the first is the one that runs."""
    head = f"program '{program.program_id}'"
    if program.producer:
        head += f" by {program.producer}"
    return "\n\n".join([head, *(graph_text(graph) for graph in program.graphs)]) + "\n"


def graph_text(graph: Graph) -> str:
    """One graph; no newline at the end."""
    names = value_names(graph)
    lines = [f"graph '{graph.name}' {{"]
    lines += (f"  {_symbol(s)}" for s in graph.symbols)
    lines += (f"  {_input(a, names)}" for a in graph.inputs)
    for weight in graph.weights:
        keys = " or ".join(f"'{key}'" for key in weight.keys)
        lines.append(f"  {names[weight.value]}: {type_text(weight.value.type)} = weight {keys}")
    lines += (f"  {_state(i, s, names)}" for i, s in enumerate(graph.states))
    lines += (f"  {_call(c, names)}" for c in graph.calls)
    lines += (f"  {_output(a, names)}" for a in graph.outputs)
    return "\n".join([*lines, "}"])


def value_names(graph: Graph) -> dict[Value, str]:
    """The name that the text gives each value."""
    names: dict[Value, str] = {}
    for prefix, values in (
        ("in", [a.value for a in graph.inputs]),
        ("w", [w.value for w in graph.weights]),
        ("st", [s.value for s in graph.states if s.value is not None]),
        ("", [v for call in graph.calls for v in call.outputs]),
    ):
        names.update({value: f"%{prefix}{i}" for i, value in enumerate(values)})
    return names


def type_text(t: TensorType) -> str:
    """``f32[64, s0, 1, 1]``, with strides in elements unless contiguous.

    ``file`` stands for a type that the weight's file tells.
    """
    dtype = "file" if t.dtype is DType.FROM_FILE else t.dtype.name.lower()
    text = f"{dtype}{_dims(t.ne)}"
    return text if t.is_contiguous else f"{text} strides {_dims(t.strides)}"


def _dims(dims: Iterable[Dim]) -> str:
    return f"[{', '.join(_dim(d) for d in dims)}]"


class _DimPrinter(StrPrinter):  # type: ignore[misc]
    """Divisions as ``a // b`` and remainders as ``a % b``, however sympy or torch spell them."""

    printmethod = ""  # torch's own classes would print themselves otherwise

    def _infix(self, e: sympy.Expr, sign: str) -> str:
        level = PRECEDENCE["Pow"]
        return sign.join(self.parenthesize(a, level) for a in e.args)

    def _print_FloorDiv(self, e: sympy.Expr) -> str:  # noqa: N802
        return self._infix(e, " // ")

    def _print_PythonMod(self, e: sympy.Expr) -> str:  # noqa: N802
        return self._infix(e, " % ")


def _dim(dim: Dim) -> str:
    if not isinstance(dim, sympy.Expr):
        return str(int(dim))
    text: str = _DimPrinter().doprint(basic(dim))
    return text


def _symbol(s: Symbol) -> str:
    if s.source is SymbolSource.INPUT_DIM:
        source = f"size of %in{s.input} in dim {s.index}"
    else:
        source = f"element {s.index} of %in{s.input}"
    if s.offset:
        source = f"({source} - {s.offset})"
    if s.divisor != 1:
        source = f"{source} / {s.divisor}"
    return f"symbol {s.name} in {s.min}..{s.max} = {source}"


def _torch_type(a: Argument) -> str:
    text = f"{SCALAR_TYPE_NAMES.get(a.scalar_type, a.scalar_type)}{_dims(a.sizes)}"
    if a.dim_order and list(a.dim_order) != list(range(len(a.sizes))):
        text += f" dim order {_dims(a.dim_order)}"
    return text


def _input(a: Argument, names: dict[Value, str]) -> str:
    return f"{names[a.value]}: {type_text(a.value.type)} = input {_torch_type(a)}"


def _output(a: Argument, names: dict[Value, str]) -> str:
    return f"output {_torch_type(a)} = {names.get(a.value, '%undefined')}"


def _state(index: int, s: State, names: dict[Value, str]) -> str:
    if s.kind is StateKind.BUFFER and s.value is not None:
        text = f"{names[s.value]}: {type_text(s.value.type)} = state {index} '{s.name}'"
        return f"{text} from '{s.init_key}'" if s.init_key is not None else text
    text = (
        f"state {index} '{s.name}' = cache heads={s.n_kv_heads} k={s.k_head_dim} "
        f"v={s.v_head_dim} capacity={s.default_capacity}..{s.max_capacity}"
    )
    if s.n_batch != 1:
        text += f" batch={s.n_batch}"
    return f"{text} window={s.window}" if s.window else text


def _call(call: Call, names: dict[Value, str]) -> str:
    results = ", ".join(f"{names[v]}: {type_text(v.type)}" for v in call.outputs)
    inputs = ["-" if v is None else names.get(v, "%undefined") for v in call.inputs]
    while inputs and inputs[-1] == "-":
        inputs.pop()
    return f"{results} = {call.op.name}({', '.join([*inputs, *_params(call.op, call.params)])})"


def _params(op: OpDef, params: dict[str, Any]) -> list[str]:
    """``name=value``. Extents are left out: the result's type shows them."""
    shown = []
    for param in op.params:
        value = params[param.name]
        if param.name in _NE or (param.default is not None and value == param.default):
            continue
        shown.append(f"{param.name}={_param(op, param, value)}")
    return shown


def _param(op: OpDef, param: Param, value: Any) -> str:
    if param.enum is not None:
        return param.enum(value).name.lower()
    if op.name == "cast":
        return DType(value).name.lower()
    if param.kind is ParamKind.BOOL:
        return "true" if value else "false"
    if param.kind is ParamKind.FLOAT:
        return f"{float(value):.9g}"
    return _dim(value)
