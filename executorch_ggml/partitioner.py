"""The partitioner: tags the nodes that ggml takes and says why the others stay."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import torch
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_partitions_from_list_of_nodes,
)
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data, tag_mutated_buffer
from torch import fx
from torch.export.exported_program import ExportedProgram
from torch.fx.passes.infra.partitioner import Partition
from torch.fx.passes.operator_support import OperatorSupportBase

from executorch_ggml.backend import GgmlBackend, register_weight_keys
from executorch_ggml.lowering.dry_run import Verdicts, dry_run, wide_constants
from executorch_ggml.lowering.registry import is_kept_whole, op_name
from executorch_ggml.lowering.views import SIZE_OPS
from executorch_ggml.options import GgmlOptions
from executorch_ggml.passes.constant_folding import fold_constants
from executorch_ggml.passes.keep_whole import keep_whole
from executorch_ggml.passes.plain_outputs import plain_outputs
from executorch_ggml.passes.separate_state import separate_state_outputs
from executorch_ggml.report import DelegationReport, Rejection

logger = logging.getLogger(__name__)

#: Ops that compute nothing: a partition of only these is not worth a delegate call.
_NO_WORK_PREFIXES = (
    "aten.view",
    "aten.reshape",
    "aten.unsqueeze",
    "aten.squeeze",
    "aten.permute",
    "aten.transpose",
    "aten.t.",
    "aten.t_copy",
    "aten.expand",
    "aten.slice",
    "aten.select",
    "aten.clone",
    "aten.alias",
    "aten.detach",
    "aten.lift_fresh_copy",
    "aten.split",
    "aten.cat",
    "aten.stack",
    "aten.unbind",
    "aten.chunk",
    "aten._to_copy",
    "aten.to.",
    "aten.copy",
    "aten.full",
    "aten.zeros",
    "aten.ones",
    "aten.empty",
    "aten.fill",
    "aten.arange",
    "aten.scalar_tensor",
    "dim_order_ops.",
    "operator.",
    "aten.sym_size",
)


class NotDelegatedError(RuntimeError):
    """``strict`` is on and an op was left to ExecuTorch; the message is the report."""


class _Supported(OperatorSupportBase):
    def __init__(self, nodes: set[fx.Node]) -> None:
        self._nodes = nodes

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return node in self._nodes


class GgmlPartitioner(Partitioner):  # type: ignore[misc]  # ExecuTorch ships no types
    """Claims what :mod:`executorch_ggml.lowering` can express.

    Args:
        options: how the program is lowered; see :class:`GgmlOptions`.

    After lowering, ``reports`` holds one :class:`DelegationReport` per method.
    """

    def __init__(self, options: GgmlOptions | None = None) -> None:
        super().__init__()
        self.options = options or GgmlOptions()
        self.reports: list[DelegationReport] = []
        self._spec: DelegationSpec | None = None
        self._wide: frozenset[str] = frozenset()
        self._kept: tuple[ExportedProgram, list[torch._ops.OpOverload]] | None = None

    @property
    def delegation_spec(self) -> DelegationSpec:
        """Made at the first use, when the program id is known."""
        if self._spec is None:
            register_weight_keys(self.options.program_id, self.options.weight_keys)
            self._spec = DelegationSpec(GgmlBackend.__name__, self.options.to_compile_specs())
        return self._spec

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[fx.Node], bool] | None]:
        """Composites to keep. One use that cannot be delegated gives up the op everywhere:
        a kept op that stays undelegated would stop the export.

        This is also where ExecuTorch first shows the program, before its own passes, and
        the only place where a partitioner may prepare it: see ``separate_state_outputs``,
        ``plain_outputs``, ``fold_constants`` and ``keep_whole``.
        """
        if self._kept is not None and self._kept[0] is ep:
            return self._kept[1], None
        supported: set[torch._ops.OpOverload] = set()
        declined: set[torch._ops.OpOverload] = set()
        if not any(n.op == "get_attr" and "lowered_module" in n.name for n in ep.graph.nodes):
            separate_state_outputs(ep)
            plain_outputs(ep)
            fold_constants(ep, _does_work, self.options.weight_keys)
            self._wide |= wide_constants(ep)
            verdicts = dry_run(ep, self.options, self._wide)
            keep_whole(n for n in verdicts.supported if is_kept_whole(op_name(n.target)))
            for node in ep.graph.nodes:
                if node.op == "call_function" and is_kept_whole(op_name(node.target)):
                    (supported if node in verdicts.supported else declined).add(node.target)
        self._kept = (ep, sorted(supported - declined, key=str))
        return self._kept[1], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the claimed nodes.

        Raises:
            NotDelegatedError: in strict mode, if any op is left out.
        """
        if not self.options.program_id:
            code = str(exported_program.graph_module.code)
            program_id = hashlib.sha256(code.encode()).hexdigest()[:16]
            self.options = replace(self.options, program_id=program_id)
        verdicts = dry_run(exported_program, self.options, self._wide)
        partitions = generate_partitions_from_list_of_nodes(
            exported_program.graph_module, op_support=_Supported(verdicts.supported)
        )
        # Moving data alone is no reason to split a program, but no split is needed to
        # take all of it.
        takes_all = all(
            node in verdicts.supported
            for node in exported_program.graph.nodes
            if node.op == "call_function" and _counts(node)
        )
        tags: dict[str, DelegationSpec] = {}
        claimed: set[fx.Node] = set()
        for partition in partitions:
            nodes = _without_escaping_sizes(partition)
            if not takes_all and not any(_does_work(node) for node in nodes):
                for node in nodes:
                    verdicts.reasons.setdefault(node, "nothing beside it computes anything")
                continue
            tag = f"ggml_{len(tags)}"
            tags[tag] = self.delegation_spec
            for node in nodes:
                node.meta["delegation_tag"] = tag
            claimed |= nodes
        if tags:
            tag_constant_data(exported_program)
            tag_mutated_buffer(exported_program)
        self._report(exported_program, verdicts, claimed, len(tags))
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)

    def _report(
        self,
        program: ExportedProgram,
        verdicts: Verdicts,
        claimed: set[fx.Node],
        n_partitions: int,
    ) -> None:
        ops = [n for n in program.graph.nodes if n.op == "call_function" and _counts(n)]
        rejections = tuple(
            Rejection(
                op_name(node.target),
                verdicts.reasons.get(node, "not in a partition"),
                _source_line(node),
            )
            for node in ops
            if node not in claimed
        )
        report = DelegationReport(
            method=f"method {len(self.reports)}",
            n_ops=len(ops),
            n_delegated=len(ops) - len(rejections),
            n_partitions=n_partitions,
            rejections=rejections,
            n_host=sum(node in claimed and node in verdicts.host for node in ops),
        )
        self.reports.append(report)
        logger.info("%s", report)
        if self.options.strict and not report.is_whole:
            raise NotDelegatedError(f"strict mode, but not every op is delegated\n{report}")


def _counts(node: fx.Node) -> bool:
    """Size arithmetic and tuple elements are no ops of their own in the report."""
    name = op_name(node.target)
    return not name.startswith("operator.") and name not in SIZE_OPS


def _does_work(node: fx.Node) -> bool:
    """An op that was kept whole counts: nothing else can run it."""
    name = op_name(node.target)
    return is_kept_whole(name) or not name.startswith(_NO_WORK_PREFIXES)


def _without_escaping_sizes(partition: Partition) -> set[fx.Node]:
    """A partition less the size arithmetic that others read: a delegate returns tensors only."""
    nodes = set(partition.nodes)
    while True:
        escaping = {
            node
            for node in nodes
            if op_name(node.target) in SIZE_OPS and any(user not in nodes for user in node.users)
        }
        if not escaping:
            return nodes
        nodes -= escaping


def _source_line(node: fx.Node) -> str:
    """The innermost line of the model's own code that made a node."""
    trace: str = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    return lines[-1].removeprefix("File ") if lines else ""


def reports_of(partitioners: Iterable[Partitioner]) -> list[DelegationReport]:
    """The reports of every :class:`GgmlPartitioner` among ``partitioners``."""
    return [report for p in partitioners if isinstance(p, GgmlPartitioner) for report in p.reports]
