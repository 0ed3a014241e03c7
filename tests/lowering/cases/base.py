"""What a row of the op table is, and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

#: Element-wise results differ from eager by a few roundings; products and sums by the
#: order of their terms.
ELEMENTWISE = 1e-5
PRODUCT = 1e-4
#: Integers, booleans, and what only moves elements.
EXACT = 0.0
#: The distance of neighbours in half precision: a delegate computes in F32 and rounds
#: once, eager rounds after each operation.
F16 = 2e-3
BF16 = 1.6e-2


class Fn(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


@dataclass(frozen=True)
class Case:
    """Module, inputs, what must come out: values within ``rtol`` of eager.

    ``ops``: the IR calls expected, in order; empty to leave them open.
    ``host``: whether host-side ops take part. Without it every call is ggml's.
    ``others``: further inputs for the same program (dynamic shapes).
    ``atol``: ``rtol`` if not given.
    """

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    ops: tuple[str, ...] = ()
    rtol: float = ELEMENTWISE
    dynamic_shapes: Any = None
    others: Sequence[tuple[Any, ...]] = ()
    host: bool = False
    atol: float | None = None


def r(*shape: int) -> Tensor:
    """Reproducible values in a shape."""
    generator = torch.Generator().manual_seed(sum(shape) + 31 * len(shape))
    return torch.randn(shape, generator=generator)


def positive(*shape: int) -> Tensor:
    return r(*shape).abs() + 0.1


def ids(limit: int, *shape: int) -> Tensor:
    """int64 in ``0..limit - 1``."""
    generator = torch.Generator().manual_seed(limit)
    return torch.randint(0, limit, shape, generator=generator)


def fn(
    name: str,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    *ops: str,
    rtol: float = ELEMENTWISE,
    **more: Any,
) -> Case:
    return Case(name, Fn(function), inputs, ops, rtol, **more)


def host(
    name: str,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    *ops: str,
    rtol: float = ELEMENTWISE,
    **more: Any,
) -> Case:
    """A row in which host-side ops take part."""
    return Case(name, Fn(function), inputs, ops, rtol, host=True, **more)


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


#: A dynamic size.
S = Dim("s", min=1, max=16)


def sizes(*of_inputs: Any) -> Any:
    """``dynamic_shapes`` of a row's function: one entry for each input, None if it is static."""
    return (of_inputs,)


def each(*functions: Callable[..., Any]) -> Callable[..., Any]:
    """All of these functions of the same inputs, so that one row covers their semantics."""
    return lambda *inputs: tuple(function(*inputs) for function in functions)


class Together(nn.Module):
    """Several modules side by side; the results follow each other."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(case.module for case in cases)
        self.counts = [len(case.inputs) for case in cases]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        results: list[Tensor] = []
        start = 0
        for part, count in zip(self.parts, self.counts, strict=True):
            found = part(*inputs[start : start + count])
            results += found if isinstance(found, (tuple, list)) else [found]
            start += count
        return tuple(results)


def by_operator(cases: Sequence[Case], at_most: int = 4) -> list[Case]:
    """Host-side rows of one operator as one row.

    They differ in dtype, special values or an option, and a lowering takes far longer
    than a kernel. Rows that expect certain calls, sizes or state stay apart.
    """
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        has_state = any(True for _ in (*case.module.buffers(), *case.module.parameters()))
        alone = not case.host or case.ops or case.dynamic_shapes or case.others or has_state
        operator = case.name if alone else case.name.partition("_")[0] + "_"
        groups.setdefault((operator, case.rtol, case.atol), []).append(case)
    rows: list[Case] = []
    for group in groups.values():
        for start in range(0, len(group), at_most):
            part = group[start : start + at_most]
            rows.append(part[0] if len(part) == 1 else _together(part))
    return rows


def _together(cases: Sequence[Case]) -> Case:
    first = cases[0]
    return Case(
        "+".join(case.name for case in cases),
        Together(cases),
        tuple(x for case in cases for x in case.inputs),
        rtol=first.rtol,
        host=True,
        atol=first.atol,
    )
