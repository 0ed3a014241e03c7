"""Give every mutable buffer a next value of its own.

``self.hidden.copy_(h); return h`` exports one node that is both the buffer's next
value and a result. A delegate cannot own such a buffer, and ExecuTorch does not
initialise the buffers that it keeps itself. A clone separates the two.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument


def separate_state_outputs(program: ExportedProgram) -> int:
    """Clone, in place, what a buffer's next value shares with anything else returned.

    Returns the number of clones.
    """
    (output,) = (n for n in program.graph.nodes if n.op == "output")
    results = list(output.args[0])
    specs = program.graph_signature.output_specs
    taken: set[fx.Node] = set()
    clones = 0
    # Buffers first: they keep the node, what else returns it gets the clone.
    order = sorted(range(len(specs)), key=lambda i: specs[i].kind is not OutputKind.BUFFER_MUTATION)
    for index in order:
        node = results[index]
        is_state = specs[index].kind is OutputKind.BUFFER_MUTATION
        if not isinstance(node, fx.Node):
            continue
        if node in taken or (is_state and node.op == "placeholder"):
            with program.graph.inserting_before(output):
                clone = program.graph.call_function(torch.ops.aten.clone.default, (node,))
            clone.meta = dict(node.meta)
            results[index] = node = clone
            specs[index].arg = TensorArgument(name=clone.name)
            clones += 1
        if is_state:
            taken.add(node)
    if clones:
        output.args = (tuple(results),)
        program.graph_module.recompile()
    return clones
