"""Random modules: small graphs of torch functions over tensors of random shapes.

A module is a list of steps. Each step applies a function of the table to values made so
far; a step that torch itself refuses is dropped while the module is drawn, so that every
module runs in eager. Steps with jumps (comparisons, floor, indices of maxima) are only
applied to program inputs and to integers, where both sides hold the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

Draw = Callable[[st.SearchStrategy[Any]], Any]
Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Step:
    """``function(*values[sources], *arguments)`` appended to the values."""

    name: str
    function: Function
    sources: tuple[int, ...]
    arguments: tuple[Any, ...]

    def __repr__(self) -> str:
        given = [f"v{i}" for i in self.sources] + [repr(a) for a in self.arguments]
        return f"{self.name}({', '.join(given)})"


class RandomModule(nn.Module):
    """Applies the steps; the results are what no step reads."""

    def __init__(self, steps: list[Step], outputs: list[int]) -> None:
        super().__init__()
        self.steps = steps
        self.outputs = outputs

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step in self.steps:
            values.append(step.function(*(values[i] for i in step.sources), *step.arguments))
        return tuple(values[i] for i in self.outputs)


@dataclass
class Drawn:
    """A module with its inputs, and what a person needs to make a table row of it."""

    module: RandomModule
    inputs: tuple[Tensor, ...]
    exact: list[bool]
    #: Dim 0 of these inputs has a dynamic size, the same in all.
    dynamic: frozenset[int] = frozenset()

    def resized(self, size: int) -> tuple[Tensor, ...]:
        """The inputs with another dynamic size: rows repeated or left out."""
        return tuple(
            x[torch.arange(size) % x.shape[0]] if i in self.dynamic else x
            for i, x in enumerate(self.inputs)
        )

    def __repr__(self) -> str:
        shapes = [f"v{i}: {t.dtype}{list(t.shape)}" for i, t in enumerate(self.inputs)]
        start = len(self.inputs)
        steps = [f"v{start + i} = {step!r}" for i, step in enumerate(self.module.steps)]
        outputs = ", ".join(f"v{i}" for i in self.module.outputs)
        dynamic = f"dim 0 is dynamic in {sorted(self.dynamic)}" if self.dynamic else ""
        return "\n".join(["", *shapes, dynamic, *steps, f"return {outputs}"])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis prints; of a dataclass it would print the fields."""
        printer.text(repr(self))


#: name -> (function, operands, needs exact operands, result is exact)
_FLOAT: dict[str, tuple[Function, int, bool, bool]] = {
    "relu": (F.relu, 1, False, True),
    "sigmoid": (torch.sigmoid, 1, False, False),
    "tanh": (torch.tanh, 1, False, False),
    "gelu": (F.gelu, 1, False, False),
    "silu": (F.silu, 1, False, False),
    "elu": (F.elu, 1, False, False),
    "softplus": (F.softplus, 1, False, False),
    "hardswish": (F.hardswish, 1, False, False),
    "leaky_relu": (F.leaky_relu, 1, False, False),
    "sin": (torch.sin, 1, False, False),
    "cos": (torch.cos, 1, False, False),
    "exp": (lambda x: torch.exp(x.clamp(-4, 4)), 1, False, False),
    "log": (lambda x: torch.log(x.clamp(0.1, 9.0)), 1, False, False),
    "sqrt": (lambda x: torch.sqrt(x.clamp(0.1, 9.0)), 1, False, False),
    "rsqrt": (lambda x: torch.rsqrt(x.clamp(0.1, 9.0)), 1, False, False),
    "erf": (torch.erf, 1, False, False),
    "atan": (torch.atan, 1, False, False),
    "abs": (torch.abs, 1, False, True),
    "neg": (torch.neg, 1, False, True),
    "square": (torch.square, 1, False, False),
    "floor": (torch.floor, 1, True, True),
    "round": (torch.round, 1, True, True),
    "sign": (torch.sign, 1, True, True),
    "to_int": (lambda x: (x * 8).to(torch.int64), 1, True, True),
    "to_half_and_back": (lambda x: x.half().float(), 1, True, True),
    "add": (torch.add, 2, False, False),
    "sub": (torch.sub, 2, False, False),
    "mul": (torch.mul, 2, False, False),
    "div": (lambda x, y: x / y.abs().clamp(min=0.2), 2, False, False),
    "maximum": (torch.maximum, 2, False, True),
    "minimum": (torch.minimum, 2, False, True),
    "gt": (torch.gt, 2, True, True),
    "le": (torch.le, 2, True, True),
    "where_gt": (lambda x, y, z: torch.where(x > y, y, z), 3, True, True),
    "matmul": (torch.matmul, 2, False, False),
    "matmul_t": (lambda x, y: x @ y.transpose(-1, -2), 2, False, False),
    "add_scalar": (lambda x: x + 0.5, 1, False, False),
    "rsub": (lambda x: 1.0 - x, 1, False, False),
    "mul_scalar": (lambda x: x * -1.25, 1, False, False),
    "pow_3": (lambda x: x.clamp(-2, 2) ** 3, 1, False, False),
    "clamp": (lambda x: x.clamp(-0.5, 0.75), 1, False, True),
}

_INTEGER: dict[str, tuple[Function, int]] = {
    "add": (torch.add, 2),
    "sub": (torch.sub, 2),
    "mul": (torch.mul, 2),
    "bitwise_and": (torch.bitwise_and, 2),
    "maximum": (torch.maximum, 2),
    "eq": (torch.eq, 2),
    "lt": (torch.lt, 2),
    # Of a scalar, ExecuTorch's own edge program gives int64 where eager keeps the dtype.
    "floor_div": (lambda x: (x if x.dim() else x.long()) // 3, 1),
    "remainder": (lambda x: x % 5, 1),
    "to_float": (lambda x: x.float(), 1),
    "to_bool": (lambda x: x.bool(), 1),
    "to_int16": (lambda x: x.to(torch.int16), 1),
    "abs": (torch.abs, 1),
    "one_hot_like": (lambda x: (x[..., None] == torch.arange(3)).float(), 1),
}

_BOOLEAN: dict[str, tuple[Function, int]] = {
    "and": (torch.logical_and, 2),
    "or": (torch.logical_or, 2),
    "xor": (torch.logical_xor, 2),
    "not": (torch.logical_not, 1),
    "to_float": (lambda x: x.float(), 1),
    "to_int": (lambda x: x.to(torch.int64), 1),
}


def _dim(draw: Draw, x: Tensor) -> int:
    return int(draw(st.integers(-x.dim(), x.dim() - 1)))


def _along(draw: Draw, x: Tensor) -> tuple[str, Function, tuple[Any, ...], bool, bool]:
    """A function with a dim: (name, function, arguments, needs exact, gives exact)."""
    d, other = _dim(draw, x), _dim(draw, x)
    is_float = x.is_floating_point()
    keep = bool(draw(st.booleans()))
    size = x.shape[d]
    at = draw(st.integers(-size, size - 1))
    order = draw(st.permutations(range(x.dim())))
    choices: list[tuple[str, Function, tuple[Any, ...], bool, bool]] = [
        ("slice", lambda x, d, a, b: x.narrow(d, a, b), (d, *_span(draw, size)), False, True),
        ("select", lambda x, d, i: x.select(d, i), (d, at), False, True),
        ("flip", lambda x, d: x.flip(d), (d,), False, True),
        ("roll", lambda x, n, d: x.roll(n, d), (draw(st.integers(-3, 3)), d), False, True),
        ("unsqueeze", lambda x, d: x.unsqueeze(d), (d,), False, True),
        ("twice", lambda x, d: torch.cat([x, x], d), (d,), False, True),
        ("stack", lambda x, d: torch.stack([x, x], d), (d,), False, True),
        ("transpose", lambda x, a, b: x.transpose(a, b), (d, other), False, True),
        ("permute", lambda x, p: x.permute(p), (order,), False, True),
        ("flatten", lambda x: x.flatten(), (), False, True),
        ("expand", lambda x: x.unsqueeze(0).expand(2, *x.shape), (), False, True),
        ("step", lambda x, d: x.transpose(0, d)[::2], (d,), False, True),
        ("repeat", lambda x: x.repeat(2, *([1] * x.dim())), (), False, True),
    ]  # fmt: skip
    if x.dtype != torch.bool:
        choices += [
            ("sum", lambda x, d, k: x.sum(d, keepdim=k), (d, keep), False, not is_float),
            ("amax", lambda x, d, k: x.amax(d, keepdim=k), (d, keep), False, True),
            ("argmin", lambda x, d, k: x.argmin(d, keepdim=k), (d, keep), True, True),
            ("cumsum", lambda x, d: x.cumsum(d), (d,), False, not is_float),
            ("sort", lambda x, d: x.sort(d).values, (d,), False, True),
            ("argsort", lambda x, d: x.argsort(d, stable=True), (d,), True, True),
        ]
    if is_float:
        choices += [
            ("softmax", lambda x, d: x.softmax(d), (d,), False, False),
            ("log_softmax", lambda x, d: x.log_softmax(d), (d,), False, False),
            ("mean", lambda x, d, k: x.mean(d, keepdim=k), (d, keep), False, False),
            ("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:], eps=0.1), (), False, False),
            ("pad", lambda x: F.pad(x, (1, 2)), (), False, True),
            ("logsumexp", lambda x, d: x.logsumexp(d), (d,), False, False),
        ]
    return draw(st.sampled_from(choices))  # type: ignore[no-any-return]


def _span(draw: Draw, size: int) -> tuple[int, int]:
    start = draw(st.integers(0, size - 1))
    return start, draw(st.integers(1, size - start))


def _fits(result: object) -> bool:
    if not isinstance(result, Tensor) or not 0 < result.numel() <= 2048 or result.dim() > 6:
        return False
    if result.dtype == torch.float64:
        return False
    if result.is_floating_point():
        return bool(result.isfinite().all()) and float(result.abs().max()) < 1e3
    return result.dtype == torch.bool or int(result.abs().max()) < 2**20


def _input(draw: Draw, base: list[int]) -> Tensor:
    rank = draw(st.integers(0, len(base)))
    shape = [draw(st.sampled_from([n, n, 1])) for n in base[len(base) - rank :]]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    kind = draw(st.sampled_from(["float", "float", "float", "half", "int64", "int32", "bool"]))
    if kind in ("float", "half"):
        x = torch.randn(shape, generator=generator)
        return x.half() if kind == "half" else x
    if kind == "bool":
        return torch.randint(0, 2, shape, generator=generator).bool()
    x = torch.randint(-9, 10, shape, generator=generator)
    return x if kind == "int64" else x.to(torch.int32)


@st.composite
def modules(draw: Draw, longest: int = 6) -> Drawn:
    """A module of up to ``longest`` steps that runs in eager."""
    base = [draw(st.integers(1, 5)) for _ in range(4)]
    inputs = tuple(_input(draw, base) for _ in range(draw(st.integers(1, 3))))
    values, exact, steps = list(inputs), [True] * len(inputs), []
    for _ in range(draw(st.integers(1, longest))):
        index = draw(st.integers(0, len(values) - 1))
        x = values[index]
        arguments: tuple[Any, ...] = ()
        if x.dim() > 0 and draw(st.booleans()):
            name, function, arguments, needs, gives = _along(draw, x)
            sources = [index]
        else:
            table: dict[str, Any] = _FLOAT
            if not x.is_floating_point():
                table = _BOOLEAN if x.dtype == torch.bool else _INTEGER
            name = draw(st.sampled_from(list(table)))
            function, count, needs, gives = (*table[name], False, True)[:4]
            alike = [i for i, v in enumerate(values) if v.dtype == x.dtype]
            sources = [index, *(draw(st.sampled_from(alike)) for _ in range(count - 1))]
        if needs and not all(exact[i] for i in sources):
            continue
        # Half precision rounds after each step in eager, once in a delegate.
        if x.dtype == torch.float16 and not gives:
            function, name = _widened(function), f"float_{name}"
        try:
            result = function(*(values[i] for i in sources), *arguments)
        except (RuntimeError, IndexError, TypeError):
            continue
        if not _fits(result):
            continue
        steps.append(Step(name, function, tuple(sources), arguments))
        values.append(result)
        exact.append(gives and all(exact[i] for i in sources))
    read = {i for step in steps for i in step.sources}
    outputs = [i for i in range(len(inputs), len(values)) if i not in read]
    dynamic: frozenset[int] = frozenset()
    sizes = {x.shape[0] for x in inputs if x.dim() > 0} - {1}
    if sizes and draw(st.booleans()):
        size = draw(st.sampled_from(sorted(sizes)))
        dynamic = frozenset(i for i, x in enumerate(inputs) if x.dim() and x.shape[0] == size)
    return Drawn(RandomModule(steps, outputs), inputs, [exact[i] for i in outputs], dynamic)


def _widened(function: Function) -> Function:
    return lambda *given: function(
        *(x.float() if isinstance(x, Tensor) and x.is_floating_point() else x for x in given)
    )
