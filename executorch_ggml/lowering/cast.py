"""Dtype conversions. Never silent: what ggml cannot convert exactly is not claimed."""

from __future__ import annotations

import torch
from torch import fx

from executorch_ggml.ir.types import DType
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.registry import Unsupported, lowering

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
#: Integers whose every value an F32 or I32 holds.
_SMALL_INTEGERS = (torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


@lowering(
    "aten._to_copy.default",
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.device",
    "aten.type_as.default",
    "dim_order_ops._to_dim_order_copy.default",
)
def to_copy(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Float to float is the identity on F32; integers widen to F32 exactly or not at all."""
    x = ctx.tensor(node.args[0])
    target = ctx.output_dtype(node)
    if x.dtype == target:
        return ctx.result(node, x.value)
    if x.is_float and target in _FLOATS:
        return ctx.result(node, x.value)
    if not x.is_float and target in _FLOATS:
        # An I32 holds what a delegate takes as int64, and the cast rounds as torch's does.
        return ctx.result(node, ctx.call("cast", ctx.contiguous(x.value), dtype=int(DType.F32)))
    if x.dtype in _SMALL_INTEGERS and target in (torch.int64, torch.int32):
        return ctx.result(node, x.value)
    raise Unsupported(f"a conversion from {x.dtype} to {target}")
