"""Dtype conversions, exactly as torch makes them."""

from __future__ import annotations

from torch import fx

from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.host import held
from executorch_ggml.lowering.registry import lowering


@lowering(
    "aten._to_copy.default",
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.device",
    "aten.type_as.default",
    "dim_order_ops._to_dim_order_copy.default",
)
def to_copy(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """To half precision: rounded only where that can be told, as every value of these dtypes."""
    x = ctx.tensor(node.args[0])
    return ctx.result(node, held(ctx, x, ctx.output_dtype(node)))
