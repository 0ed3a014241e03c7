"""A whole program as one delegate, without the detour through edge dialect.

Partitioning a graph costs ExecuTorch some twenty passes over every node, most of a
minute for 28 layers. A decoder made here is delegated whole or not at all, so its
graph is lowered as it is, and ExecuTorch gets a program of one node: a call of the
finished delegate, as ``to_backend`` makes it.
"""

from __future__ import annotations

import copy

import torch
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch import nn
from torch.export import ExportedProgram

from executorch_ggml.backend import GgmlBackend, register_weight_keys
from executorch_ggml.gguf.program import ALL_ROWS_METHOD, GGUFPrograms, trace_step
from executorch_ggml.lowering.dry_run import dry_run
from executorch_ggml.lowering.registry import op_name
from executorch_ggml.options import GgmlOptions
from executorch_ggml.partitioner import NotDelegatedError
from executorch_ggml.report import DelegationReport, Rejection


class _Call(nn.Module):
    """One step of a decoder, as a call of its delegate."""

    def __init__(self, delegate: LoweredBackendModule) -> None:
        super().__init__()
        self.delegate = delegate

    def forward(self, input_ids: torch.Tensor, cache_pos: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.delegate(input_ids, cache_pos)
        return logits


class _Outline(nn.Module):
    """Has the signature and result shape of a decoder's step and none of its cost.

    ExecuTorch runs a delegate's original program on fake tensors in each of its passes.
    """

    def __init__(self, vocab_size: int, all_rows: bool) -> None:
        super().__init__()
        self.vocab_size, self.all_rows = vocab_size, all_rows

    def forward(self, input_ids: torch.Tensor, cache_pos: torch.Tensor) -> torch.Tensor:
        rows = input_ids.shape[1] if self.all_rows else 1
        return input_ids.new_zeros((1, rows, self.vocab_size), dtype=torch.float32)


def delegate_whole(
    programs: GGUFPrograms, method: str, options: GgmlOptions
) -> tuple[ExportedProgram, DelegationReport]:
    """Lower all of one method to ggml; returns a program that calls the result.

    Raises:
        NotDelegatedError: some operation has no lowering; the message is the report.
    """
    program = programs.methods[method]
    report = _report(program, options, method)
    if not report.is_whole:
        raise NotDelegatedError(f"the decoder cannot run in ggml\n{report}")
    register_weight_keys(options.program_id, options.weight_keys)
    specs = options.to_compile_specs()
    # preprocess fuses in place; the caller's program stays as it is.
    result = GgmlBackend.preprocess(copy.deepcopy(program), specs)
    outline = _Outline(programs.config.vocab_size, all_rows=method == ALL_ROWS_METHOD)
    delegate = LoweredBackendModule(
        trace_step(outline, programs.max_tokens_per_call, "cpu"),
        GgmlBackend.__name__,
        result.processed_bytes,
        specs,
        result.data_store_output,
    )
    delegate.meta = {"debug_handle_map": result.debug_handle_map}
    return trace_step(_Call(delegate), programs.max_tokens_per_call, "cpu"), report


def _report(program: ExportedProgram, options: GgmlOptions, method: str) -> DelegationReport:
    verdicts = dry_run(program, options)
    rejections = tuple(
        Rejection(op_name(node.target), reason) for node, reason in verdicts.reasons.items()
    )
    n_ops = len(verdicts.supported) + len(rejections)
    return DelegationReport(method, n_ops, len(verdicts.supported), 1, rejections)
