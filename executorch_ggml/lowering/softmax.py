"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

import math

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary, HostReduce, Unary
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim
from executorch_ggml.lowering.context import LoweringContext, Tensor, product
from executorch_ggml.lowering.elementwise import (
    add_values,
    binary_values,
    float_dtype,
    unary_value,
)
from executorch_ggml.lowering.host import host_binary, where
from executorch_ggml.lowering.reduce import host_reduce, operand_as, sum_rows
from executorch_ggml.lowering.registry import lowering
from executorch_ggml.lowering.rows import Lines, lines, reduced_dims, rows_over, shaped

_LARGEST = torch.finfo(torch.float32).max


def _lines(ctx: LoweringContext, node: fx.Node) -> Lines:
    """The operand along the dim of a softmax, in the dtype that it computes in."""
    dtype = float_dtype(ctx, node)
    return lines(ctx, operand_as(ctx, node.args[0], dtype), node.args[1])


@lowering("aten.softmax.int", whole=True)
@lowering("aten._softmax.default")
def softmax(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``exp(x) / sum(exp(x))`` along a dim; all of -inf give NaN."""
    along = _lines(ctx, node)
    y = ctx.call("soft_max", ctx.contiguous(along.rows))
    return ctx.result(node, along.restored(ctx, y))


@lowering("aten._safe_softmax.default", whole=True)
def safe_softmax(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Softmax; all of -inf give 0."""
    along = _lines(ctx, node)
    rows = ctx.contiguous(along.rows)
    largest = host_reduce(ctx, HostReduce.MAX, rows)
    masked = host_binary(
        ctx, HostBinary.EQ, largest, ctx.constant(torch.tensor(-math.inf)), torch.bool
    )
    y = where(ctx, masked, ctx.constant(torch.tensor(0.0)), ctx.call("soft_max", rows))
    return ctx.result(node, along.restored(ctx, y))


def _peaks(ctx: LoweringContext, rows: Value) -> tuple[Value, Value]:
    """Contiguous rows as a matrix, and the largest value of each.

    Of a row with NaN it may be any value: whoever sums the row gets NaN anyway.
    """
    n, count = rows.ne[0], product(rows.ne[1:])
    matrix = ctx.reshape(ctx.contiguous(rows), (count, n))
    ids = ctx.reshape(ctx.call("argmax", matrix), (count, 1))
    table = ctx.reshape(matrix, (count, n, 1))
    return matrix, ctx.reshape(ctx.call("get_rows", table, ids), (count, 1))


def _log_of_sum(ctx: LoweringContext, shifted: Value) -> Value:
    return ctx.call("log", sum_rows(ctx, unary_value(ctx, Unary.EXP, shifted)))


@lowering("aten.log_softmax.int", whole=True)
@lowering("aten._log_softmax.default")
def log_softmax(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x - log(sum(exp(x)))`` along a dim, by the distance to the largest value."""
    along = _lines(ctx, node)
    ne: list[Dim] = list(along.rows.ne)
    matrix, largest = _peaks(ctx, along.rows)
    shifted = binary_values(ctx, "sub", matrix, largest)
    y = binary_values(ctx, "sub", shifted, _log_of_sum(ctx, shifted))
    return ctx.result(node, along.restored(ctx, ctx.reshape(y, ne[::-1])))


@lowering("aten.logsumexp.default", whole=True)
def logsumexp(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``log(sum(exp(x)))`` over dims."""
    dtype = float_dtype(ctx, node)
    x = operand_as(ctx, node.args[0], dtype)
    dims = reduced_dims(ctx.argument(node, 1, "dim"), x.rank)
    matrix, largest = _peaks(ctx, rows_over(ctx, x, dims))
    # The distance to an infinity is no number, to the largest finite value it is infinite.
    finite = ctx.call("clamp", largest, min=-_LARGEST, max=_LARGEST)
    shifted = binary_values(ctx, "sub", matrix, finite)
    return shaped(ctx, node.meta["val"], add_values(ctx, _log_of_sum(ctx, shifted), finite))
