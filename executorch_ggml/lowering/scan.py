"""Running functions along a dim."""

from __future__ import annotations

import torch
from torch import fx

from executorch_ggml.ir.enums import HostScan
from executorch_ggml.ir.graph import Value
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.host import int_type
from executorch_ggml.lowering.reduce import compared_operand, operand_as
from executorch_ggml.lowering.registry import Lowering, lowering
from executorch_ggml.lowering.rows import lines, shaped_all


def host_scan(ctx: LoweringContext, kind: HostScan, rows: Value, dtype: torch.dtype) -> Value:
    """A running function along each row; ``dtype`` is the result's."""
    return ctx.call("host_scan", rows, kind=int(kind), type=int(int_type(dtype)))


@lowering("aten.cumsum.default")
def cumsum(ctx: LoweringContext, node: fx.Node) -> Tensor:
    dtype = ctx.output_dtype(node)
    x = operand_as(ctx, node.args[0], dtype)
    along = lines(ctx, x, node.args[1])
    if x.is_float:
        sums = ctx.call("cumsum", ctx.contiguous(along.rows))
    else:
        sums = host_scan(ctx, HostScan.SUM, along.rows, dtype)
    return ctx.result(node, along.restored(ctx, sums))


def _by_kernel(ctx: LoweringContext, node: fx.Node, kind: HostScan) -> Tensor:
    dtype = ctx.output_dtype(node)
    along = lines(ctx, operand_as(ctx, node.args[0], dtype), node.args[1])
    return ctx.result(node, along.restored(ctx, host_scan(ctx, kind, along.rows, dtype)))


@lowering("aten.cumprod.default", whole=True)
def cumprod(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _by_kernel(ctx, node, HostScan.PROD)


@lowering("aten.logcumsumexp.default", whole=True)
def logcumsumexp(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _by_kernel(ctx, node, HostScan.LOGSUMEXP)


def _register_running_extremes() -> None:
    def lower(value: HostScan, index: HostScan) -> Lowering:
        def running(ctx: LoweringContext, node: fx.Node) -> tuple[Tensor, ...]:
            x = compared_operand(ctx, node.args[0])
            along = lines(ctx, x, node.args[1])
            values = host_scan(ctx, value, along.rows, x.dtype)
            indices = host_scan(ctx, index, along.rows, torch.int64)
            return shaped_all(ctx, node, along.restored(ctx, values), along.restored(ctx, indices))

        return running

    lowering("aten.cummax.default", whole=True)(lower(HostScan.MAX, HostScan.ARGMAX))
    lowering("aten.cummin.default", whole=True)(lower(HostScan.MIN, HostScan.ARGMIN))


_register_running_extremes()
