"""``preprocess``: a partition becomes a delegate blob."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from executorch.exir.backend.backend_details import (
    BackendDetails,
    CompileSpec,
    PreprocessResult,
)
from torch.export.exported_program import ExportedProgram

from executorch_ggml.fusion import fuse
from executorch_ggml.ir.serialize import to_bytes
from executorch_ggml.ir.verify import IRVerifyError, verify_program
from executorch_ggml.lowering.program import find_symbols, lower_program
from executorch_ggml.options import GgmlOptions

# Weight keys by program id. They name weights once, in the IR; a compile spec
# would store them in the .pte a second time.
_weight_keys: dict[str, Mapping[str, Sequence[str]]] = {}


def register_weight_keys(program_id: str, keys: Mapping[str, Sequence[str]]) -> None:
    """Make a partitioner's ``GgmlOptions.weight_keys`` known to ``preprocess``."""
    _weight_keys[program_id] = keys


@final
class GgmlBackend(BackendDetails):  # type: ignore[misc]  # ExecuTorch ships no types
    """Lowers a partition to ggml IR. The class name is the backend id in the ``.pte``."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Fuse, lower, verify, serialize.

        Args:
            edge_program: one partition, in edge dialect.
            compile_specs: made by :meth:`GgmlOptions.to_compile_specs`.
        """
        options = GgmlOptions.from_compile_specs(compile_specs, {})
        keys = _weight_keys.get(options.program_id, {})
        options = GgmlOptions.from_compile_specs(compile_specs, keys)
        fuse(edge_program, options)
        lowered = lower_program(edge_program, options, name="forward")
        try:
            verify_program(lowered.program)
        except IRVerifyError:
            # The program has no meaning for sizes of 1, as where two rows are cut off.
            (graph,) = lowered.program.graphs
            graph.symbols = find_symbols(edge_program, graph, from_two=True)
            verify_program(lowered.program)
        return PreprocessResult(
            processed_bytes=to_bytes(lowered.program),
            data_store_output=lowered.data.get_named_data_store_output(),
            # The runtime names the events of an op by its node's debug handle.
            debug_handle_map={
                call.debug_handle: (call.debug_handle,)
                for graph in lowered.program.graphs
                for call in graph.calls
                if call.debug_handle
            },
        )
