"""From an exported program to an edge program, with rewrites before partitioning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import Partitioner
from torch.export.exported_program import ExportedProgram

#: A rewrite of an exported program; see :mod:`executorch_ggml.passes`.
ProgramPass = Callable[[ExportedProgram], ExportedProgram]


def to_edge_rewrite_and_lower(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    *,
    ep_passes: Sequence[ProgramPass] = (),
    transform_passes: Any = None,
    partitioner: Sequence[Partitioner] | None = None,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
) -> EdgeProgramManager:
    """Rewrite exported programs, then lower them as ``to_edge_transform_and_lower`` does.

    Unlike that function, it leaves dynamic dims the ranges that they were exported with
    (:func:`keep_dynamic_ranges`).

    Args:
        programs: one program, or a mapping from method names to programs.
        ep_passes: rewrites applied to each program before edge lowering, in order.
        transform_passes: edge-dialect passes, run before partitioning.
        partitioner: partitioners, in order of preference.
        constant_methods: methods that return a constant, by name.
        compile_config: how ExecuTorch checks and decomposes the edge program.
    """
    methods = {"forward": programs} if isinstance(programs, ExportedProgram) else dict(programs)
    for rewrite in ep_passes:
        methods = {name: rewrite(program) for name, program in methods.items()}
    with keep_dynamic_ranges():
        return to_edge_transform_and_lower(
            methods,
            transform_passes=transform_passes,
            partitioner=list(partitioner) if partitioner is not None else None,
            constant_methods=dict(constant_methods) if constant_methods is not None else None,
            compile_config=compile_config,
        )


@contextmanager
def keep_dynamic_ranges() -> Iterator[None]:
    """Lower a program inside, and its dynamic dims keep their ranges.

    Lowering traces a program again. There torch asks which library would run a convolution
    of its size, and narrows dynamic dims to those for which the answer stays the same: a
    batch below 16, for example. The program then refuses larger inputs. Without oneDNN and
    NNPACK to choose from, no size is asked for; what runs on devices does not change.
    """
    with torch.backends.mkldnn.flags(enabled=False), torch.backends.nnpack.flags(enabled=False):
        yield
