"""Return tuples instead of torch's named results.

A model that ends in ``return x.max(dim)`` exports with ``torch.return_types.max`` as the
structure of its outputs, for which ExecuTorch has no form in a program: it refuses to
write the file. A plain tuple holds the same tensors.
"""

from __future__ import annotations

from torch.export.exported_program import ExportedProgram
from torch.utils._pytree import TreeSpec


def plain_outputs(program: ExportedProgram) -> bool:
    """Replace, in place, named results in the structure of a program's outputs.

    Returns whether there were any.
    """
    changed = False
    for entry in program.module_call_graph:
        if entry.fqn == "" and entry.signature is not None:
            plain = _plain(entry.signature.out_spec)
            changed = plain != entry.signature.out_spec
            entry.signature.out_spec = plain
    return changed


def _plain(spec: TreeSpec) -> TreeSpec:
    if spec.is_leaf():
        return spec
    children = [_plain(child) for child in spec.children()]
    if spec.type is not None and spec.type.__module__ == "torch.return_types":
        return TreeSpec(tuple, None, children)
    return TreeSpec(spec.type, spec.context, children)
