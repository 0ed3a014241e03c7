"""Control flow: refused by name. ExecuTorch runs the branches and loops between delegates."""

from __future__ import annotations

from torch import fx

from executorch_ggml.lowering.context import Lowered, LoweringContext
from executorch_ggml.lowering.registry import Unsupported, lowering


@lowering(
    "torch.ops.higher_order.cond",
    "torch.ops.higher_order.while_loop",
    "torch.ops.higher_order.map_impl",
    "torch.ops.higher_order.scan",
)
def control_flow(ctx: LoweringContext, node: fx.Node) -> Lowered:
    raise Unsupported("control flow, which ExecuTorch runs between delegates")
