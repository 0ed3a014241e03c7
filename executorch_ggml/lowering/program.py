"""From a partition's exported program to an IR program and its named data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import sympy
import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.tensor import scalar_type_enum
from torch import fx
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

from executorch_ggml.ir.channels_last import keep_channels_last
from executorch_ggml.ir.epilogues import fold_epilogues
from executorch_ggml.ir.graph import (
    Graph,
    Program,
    Symbol,
    SymbolSource,
    Value,
    ValueKind,
)
from executorch_ggml.ir.passes import simplify
from executorch_ggml.ir.types import Dim, DType, IRError, TensorType, simplify_dim
from executorch_ggml.lowering import load_lowerings
from executorch_ggml.lowering.constants import constant_scalar, constant_tensor
from executorch_ggml.lowering.context import (
    Lowered,
    LoweringContext,
    Tensor,
    contiguous_type,
    dim_order_of,
    ir_dtype,
    to_dim,
)
from executorch_ggml.lowering.registry import Unsupported, find_lowering, op_name
from executorch_ggml.lowering.weight_types import store_weights
from executorch_ggml.options import WEIGHT_DTYPES, GgmlOptions
from executorch_ggml.weights.pack import content_key, pack, stored_dtype, tensor_bytes

#: A dim without an upper bound: ExecuTorch's own limit for a tensor's size.
UNBOUNDED = 2**31 - 1

_CONSTANT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass(frozen=True)
class LoweredProgram:
    """The IR of a delegate and the constants it stores."""

    program: Program
    data: NamedDataStore


@dataclass(frozen=True)
class _Constant:
    """A constant's contents, kept until the program is complete."""

    prefix: str
    tensor: torch.Tensor
    raw: bool = False  # the bytes as they are, not converted for storage


class ProgramSources:
    """Placeholders of an exported program as inputs, weights and states."""

    def __init__(self, program: ExportedProgram, options: GgmlOptions) -> None:
        self._program = program
        self._options = options
        self._specs: dict[str, InputSpec] = {
            spec.arg.name: spec
            for spec in program.graph_signature.input_specs
            if hasattr(spec.arg, "name")
        }
        self._mutated = set(program.graph_signature.buffers_to_mutate.values())
        self._constants: dict[Value, _Constant] = {}
        self._weights: dict[str, Value] = {}
        self._made: dict[tuple[torch.dtype, torch.Size, bytes], Value] = {}

    # --- lowering.context.Sources -----------------------------------------------------

    def materialize(self, graph: Graph, node: fx.Node) -> Lowered:
        if node.op == "get_attr":
            return self._wrap(node, self._declare(graph, str(node.target), self._attribute(node)))
        if node.op != "placeholder":
            raise AssertionError(f"{node.name} ({node.op}) is read before it is lowered")
        spec = self._specs.get(node.name)
        if spec is None or spec.kind not in _CONSTANT_KINDS:
            return self._input(graph, node)
        target = str(spec.target)
        if spec.kind is InputKind.BUFFER and target in self._mutated:
            return self._wrap(node, self._state(graph, node, target))
        keys = self._options.weight_keys.get(target)
        if keys is not None:
            type = contiguous_type(DType.FROM_FILE, self._shape(node))
            return self._wrap(node, graph.weight(type, *keys))
        return self._wrap(node, self._declare(graph, target, self._tensor(target)))

    def constant(self, graph: Graph, tensor: torch.Tensor) -> Value:
        key = (tensor.dtype, tensor.shape, tensor_bytes(tensor))
        known = self._made.get(key)
        if known is None or not any(w.value is known for w in graph.weights):
            known = self._made[key] = self._declare(graph, "const", tensor)
        return known

    def scalar(self, node: fx.Node) -> float | None:
        return constant_scalar(self._program, node)

    def contents(self, node: fx.Node) -> torch.Tensor | None:
        return constant_tensor(self._program, node)

    def precomputed(
        self, graph: Graph, nodes: Sequence[fx.Node], function: Callable[..., torch.Tensor]
    ) -> Value | None:
        tensors = [self._stored(node) for node in nodes]
        known = [tensor for tensor in tensors if tensor is not None]
        if len(known) < len(tensors):
            return None
        with torch.no_grad():
            return self._declare(graph, str(nodes[0].name), function(*known))

    def rearranged(
        self, graph: Graph, weight: Value, function: Callable[[torch.Tensor], torch.Tensor]
    ) -> Value | None:
        """A weight that holds a function of another one's contents; None if those are not known."""
        tensor = self.stored(weight)
        if tensor is None:
            return None
        with torch.no_grad():
            return self._declare(graph, self._constants[weight].prefix, function(tensor))

    # --- lowering.weight_types.WeightContents -------------------------------------------

    def stored(self, weight: Value) -> torch.Tensor | None:
        constant = self._constants.get(weight)
        return None if constant is None or constant.raw else constant.tensor

    def replaced(self, graph: Graph, weight: Value, contents: torch.Tensor, dtype: DType) -> Value:
        prefix = self._constants[weight].prefix
        if not dtype.is_quantized:
            return self._declare(graph, prefix, contents)
        value = graph.weight(TensorType.contiguous(dtype, weight.ne), prefix)
        self._constants[value] = _Constant(prefix, contents, raw=True)
        return value

    def _stored(self, node: fx.Node) -> torch.Tensor | None:
        """The contents of a node that the program itself holds."""
        if node.op == "get_attr":
            return self._attribute(node)
        spec = self._specs.get(node.name)
        if spec is None or spec.kind not in _CONSTANT_KINDS:
            return None
        target = str(spec.target)
        if target in self._mutated or target in self._options.weight_keys:
            return None
        return self._tensor(target)

    def _attribute(self, node: fx.Node) -> torch.Tensor:
        path = str(node.target).split(".")
        tensor = functools.reduce(getattr, path, self._program.graph_module)
        assert isinstance(tensor, torch.Tensor)
        return tensor

    def reinterpret(self, graph: Graph, weight: Value, type: TensorType) -> Value:
        constant = self._constants[weight]
        value = graph.weight(type, constant.prefix)
        self._constants[value] = _Constant(constant.prefix, constant.tensor, raw=True)
        return value

    # --- placeholders -----------------------------------------------------------------

    @staticmethod
    def _shape(node: fx.Node) -> tuple[Dim, ...]:
        return tuple(to_dim(s) for s in node.meta["val"].shape)

    def _wrap(self, node: fx.Node, value: Value) -> Tensor:
        return Tensor(value, self._shape(node), node.meta["val"].dtype)

    def _tensor(self, target: str) -> torch.Tensor:
        found = self._program.state_dict.get(target)
        if found is None:
            found = self._program.constants.get(target)
        if not isinstance(found, torch.Tensor):
            raise IRError(f"constant '{target}' has no tensor in the exported program")
        return found

    def _declare(self, graph: Graph, target: str, tensor: torch.Tensor) -> Value:
        type = contiguous_type(stored_dtype(tensor.dtype), tuple(int(s) for s in tensor.shape))
        value = graph.weight(type, target)
        self._constants[value] = _Constant(target, tensor)
        return value

    def _state(self, graph: Graph, node: fx.Node, target: str) -> Value:
        initial = self._tensor(target)
        if not isinstance(initial, torch._subclasses.FakeTensor) and bool(initial.any()):
            # The key is replaced by a content key when the program is packed.
            init_key: str | None = target
        else:
            init_key = None
        type = contiguous_type(ir_dtype(initial.dtype), self._shape(node))
        return graph.buffer_state(type, target, init_key)

    def _input(self, graph: Graph, node: fx.Node) -> Lowered:
        fake = node.meta["val"]
        if isinstance(fake, (torch.SymInt, int)):
            graph.input(contiguous_type(DType.I32, ()), int(scalar_type_enum(torch.int64)), ())
            return to_dim(fake)
        if not isinstance(fake, torch.Tensor):
            raise IRError(f"input '{node.name}' is a {type(fake).__name__}, not a tensor")
        shape, order = self._shape(node), dim_order_of(fake)
        value = graph.input(
            contiguous_type(ir_dtype(fake.dtype), [shape[d] for d in order] or shape),
            int(scalar_type_enum(fake.dtype)),
            shape,
            order,
        )
        return self._wrap(node, value)

    # --- packing ------------------------------------------------------------------------

    def pack(self, graph: Graph) -> NamedDataStore:
        """Give every stored weight its content key and collect the bytes."""
        entries: dict[str, bytes] = {}

        def store(prefix: str, data: bytes) -> str:
            key = content_key(prefix, data)
            entries[key] = data
            return key

        for index, weight in enumerate(graph.weights):
            constant = self._constants.get(weight.value)
            if constant is None:
                continue
            if constant.raw:
                flat = constant.tensor.detach().cpu().contiguous().reshape(-1)
                data = flat.view(torch.uint8).numpy().tobytes()
            else:
                data = tensor_bytes(constant.tensor)
            graph.weights[index] = type(weight)(weight.value, (store(constant.prefix, data),))
        for index, state in enumerate(graph.states):
            if state.init_key is not None:
                initial = self._tensor(state.init_key)
                widened = initial.float() if initial.is_floating_point() else initial
                key = store(state.init_key, tensor_bytes(widened))
                graph.states[index] = type(state)(
                    state.kind, state.name, value=state.value, init_key=key
                )
        return pack(entries.items())


def lower_program(program: ExportedProgram, options: GgmlOptions, name: str) -> LoweredProgram:
    """Lower every node of a partition.

    Raises:
        Unsupported, IRError: the partition holds something that cannot be lowered.
            The partitioner claims only nodes whose own lowering works, so this is a
            bug unless the program was not partitioned by it.
    """
    load_lowerings()
    graph = Graph(name=name)
    sources = ProgramSources(program, options)
    context = LoweringContext(graph, sources, options)
    for node in program.graph.nodes:
        if node.op == "placeholder" and _is_user_input(program, node):
            context.bind_input(node)
    for node in program.graph.nodes:
        if node.op == "call_function":
            context.bind(node, lower_node(context, node))
    _add_outputs(program, graph, context)
    graph.symbols = find_symbols(program, graph)
    graph.eliminate_dead_code()
    weight_dtype = WEIGHT_DTYPES[options.weight_dtype]
    if options.channels_last:
        rearranged = functools.partial(sources.rearranged, graph)
        keep_channels_last(graph, rearranged, as_products=weight_dtype.is_quantized)
        fold_epilogues(graph)
    store_weights(graph, weight_dtype, sources)
    data = sources.pack(graph)
    simplify(graph)
    return LoweredProgram(Program([graph], options.program_id), data)


def lower_node(context: LoweringContext, node: fx.Node) -> Lowered:
    """Run a node's lowering.

    Raises:
        Unsupported: with the reason.
    """
    function = find_lowering(node)
    if function is None:
        raise Unsupported(f"no lowering for {op_name(node.target)}")
    if any(_is_empty(n) for n in (node, *node.all_input_nodes)):
        raise Unsupported("a tensor without elements")  # ggml asserts that there are some
    handle = node.meta.get("debug_handle", 0)
    context.debug_handle = handle if isinstance(handle, int) else 0
    try:
        return function(context, node)
    except IRError as error:
        raise Unsupported(str(error)) from error


def _is_empty(node: fx.Node) -> bool:
    """Whether a node's tensor has a dim that is always 0."""
    fake = node.meta.get("val")
    return isinstance(fake, torch.Tensor) and any(
        isinstance(size, int) and size == 0 for size in fake.shape
    )


def _is_user_input(program: ExportedProgram, node: fx.Node) -> bool:
    return node.name in program.graph_signature.user_inputs


def _add_outputs(program: ExportedProgram, graph: Graph, context: LoweringContext) -> None:
    """User outputs in order; a buffer's next value is assigned to its state instead."""
    (output,) = (n for n in program.graph.nodes if n.op == "output")
    specs = program.graph_signature.output_specs
    states = {s.name: s.value for s in graph.states if s.value is not None}
    mutations: list[tuple[Value, Tensor]] = []
    for spec, node in zip(specs, output.args[0], strict=True):
        tensor = context.tensor(node, "output")
        if spec.kind is OutputKind.BUFFER_MUTATION:
            state = states.get(str(spec.target))
            if state is None:
                state = graph.buffer_state(
                    contiguous_type(ir_dtype(tensor.dtype), tensor.shape), str(spec.target)
                )
            mutations.append((state, tensor))
            continue
        order = dim_order_of(node.meta["val"])
        value = context.contiguous(context.permuted(tensor, order).value if order else tensor.value)
        if program.graph_signature.buffers_to_mutate:
            value = _detached(context, value)
        if value.type.dtype not in (DType.F32, DType.I32):
            value = context.as_f32(Tensor(value, tensor.shape, tensor.dtype)).value
        graph.output(value, int(scalar_type_enum(tensor.dtype)), tensor.shape, order)
    # Every old value that is read is copied before the first state changes.
    pending = [
        (state, _detached(context, tensor.value))
        for state, tensor in mutations
        if not _is_written_in_place(tensor.value, state)
    ]
    for state, value in pending:
        context.call("assign", state, value)


def _is_written_in_place(value: Value, state: Value) -> bool:
    """Whether a buffer's next value is its own memory, as a call left it there."""
    wrote = value.producer is not None and value.producer.op.has_side_effect
    return value is state or (wrote and _root(value) is state)


def _root(value: Value) -> Value:
    """The value whose memory this one shows."""
    while value.producer is not None and value.producer.op.is_view:
        source = value.producer.inputs[0]
        assert source is not None
        value = source
    return value


def _detached(context: LoweringContext, value: Value) -> Value:
    """A value that shows state memory is copied before the state changes."""
    if _root(value).kind is not ValueKind.STATE:
        return value
    return context.call("cont", value)


# --- symbols --------------------------------------------------------------------------------


def find_symbols(program: ExportedProgram, graph: Graph, from_two: bool = False) -> list[Symbol]:
    """Where each symbol of the graph is read from, and its bounds.

    A lower bound of 2 is torch's way to say "not 0 or 1", and 1 runs all the same. With
    ``from_two`` it means what it says.

    Raises:
        IRError: a symbol that no input determines.
    """
    wanted = sorted(_free_symbols(graph), key=str)
    sources: dict[sympy.Symbol, Symbol] = {}
    ranges = _symbol_ranges(program, 2 if from_two else 1)
    placeholders = [n for n in program.graph.nodes if _is_user_input(program, n)]
    for exact in (True, False):
        for index, node in enumerate(placeholders):
            fake = node.meta["val"]
            if isinstance(fake, torch.Tensor):
                sizes: Iterable[tuple[SymbolSource, int, Dim]] = (
                    (SymbolSource.INPUT_DIM, d, to_dim(s)) for d, s in enumerate(fake.shape)
                )
            else:
                sizes = ((SymbolSource.INPUT_ELEMENT, 0, to_dim(fake)),)
            for source, position, size in sizes:
                solved = _solve(size, exact)
                if solved is None or solved[0] in sources:
                    continue
                symbol, divisor, offset = solved
                low, high = ranges.get(symbol, (0, UNBOUNDED))
                sources[symbol] = Symbol(
                    symbol, low, high, source, index, position, offset, divisor
                )
    missing = [str(s) for s in wanted if s not in sources]
    if missing:
        raise IRError(f"no input determines {', '.join(missing)}")
    return [sources[s] for s in wanted]


def _free_symbols(graph: Graph) -> set[sympy.Symbol]:
    found: set[sympy.Symbol] = set()
    for value in graph.values():
        for dim in value.ne:
            if isinstance(dim, sympy.Expr):
                found |= dim.free_symbols
    for call in graph.calls:
        for param in call.params.values():
            if isinstance(param, sympy.Expr):
                found |= param.free_symbols
    for argument in (*graph.inputs, *graph.outputs):
        for dim in argument.sizes:
            if isinstance(dim, sympy.Expr):
                found |= dim.free_symbols
    return found


def _solve(size: Dim, exact: bool) -> tuple[sympy.Symbol, int, int] | None:
    """``size = divisor * symbol + offset`` as (symbol, divisor, offset)."""
    if isinstance(size, int) or len(size.free_symbols) != 1:
        return None
    (symbol,) = size.free_symbols
    if size == symbol:
        return symbol, 1, 0
    if exact or not size.is_polynomial(symbol):
        return None
    polynomial = sympy.Poly(size, symbol)
    if polynomial.degree() != 1:
        return None
    divisor, offset = (simplify_dim(c) for c in polynomial.all_coeffs())
    if not isinstance(divisor, int) or not isinstance(offset, int) or divisor <= 0:
        return None
    return symbol, divisor, offset


def _symbol_ranges(program: ExportedProgram, two: int) -> dict[sympy.Symbol, tuple[int, int]]:
    """Bounds of every symbol; ``two`` stands for a lower bound of 2."""
    ranges: dict[sympy.Symbol, tuple[int, int]] = {}

    def note(symbol: sympy.Symbol, found: object) -> None:
        lower, upper = getattr(found, "lower", None), getattr(found, "upper", None)
        low = int(lower) if isinstance(lower, sympy.Integer) else 0
        high = int(upper) if isinstance(upper, sympy.Integer) else UNBOUNDED
        ranges[symbol] = (two if low == 2 else max(low, 0), min(high, UNBOUNDED))

    for node in program.graph.nodes:
        fake = node.meta.get("val")
        sizes = fake.shape if isinstance(fake, torch.Tensor) else [fake]
        for size in sizes:
            if isinstance(size, torch.SymInt) and size.node.shape_env is not None:
                for symbol in size.node.expr.free_symbols - set(ranges):
                    found = size.node.shape_env.var_to_range.get(symbol)
                    if found is not None:
                        note(symbol, found)
    for symbol, found in program.range_constraints.items():
        if isinstance(symbol, sympy.Symbol):
            note(symbol, found)
    return ranges
