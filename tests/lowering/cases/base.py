"""What a row of the op table is, and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
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


def _flat(results: Iterable[Any]) -> tuple[Tensor, ...]:
    """Results of several calls one after the other, each a tensor or a tuple."""
    return tuple(
        x for found in results for x in (found if isinstance(found, (tuple, list)) else (found,))
    )


def each(*functions: Callable[..., Any]) -> Callable[..., Any]:
    """All of these functions of the same inputs, so that one row covers their semantics."""
    return lambda *inputs: _flat(function(*inputs) for function in functions)


class _Together(nn.Module):
    """Several modules side by side, each with its inputs; the results follow each other."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(case.module for case in cases)
        self.counts = [len(case.inputs) for case in cases]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        rest = iter(inputs)
        return _flat(
            part(*islice(rest, count)) for part, count in zip(self.parts, self.counts, strict=True)
        )


def together(name: str, *cases: Case) -> Case:
    """One row of what differs in dtype, special values or an option of one operator.

    For host-side rows, which are to be few, and whose lowering takes far longer than their
    kernels. Calls are compared where every part states its own.
    """
    first = cases[0]
    for case in cases:
        if (case.host, case.rtol, case.atol) != (first.host, first.rtol, first.atol):
            raise ValueError(f"{name}: {case.name} is compared in another way than {first.name}")
        if case.dynamic_shapes is not None or case.others:
            raise ValueError(f"{name}: {case.name} has sizes of its own, so it is its own row")
    ops = tuple(op for case in cases for op in case.ops) if all(c.ops for c in cases) else ()
    return Case(
        name,
        _Together(cases),
        tuple(x for case in cases for x in case.inputs),
        ops,
        first.rtol,
        host=first.host,
        atol=first.atol,
    )


def host_over(
    name: str,
    function: Callable[..., Any],
    of_inputs: Iterable[tuple[Any, ...]],
    *ops: str,
    **more: Any,
) -> Case:
    """A row of one function for several inputs. ``ops``: the calls for each of them."""
    return together(name, *(host(name, function, inputs, *ops, **more) for inputs in of_inputs))
