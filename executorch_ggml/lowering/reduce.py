"""Reductions: sums and means, extremes, truth, spread and norms, over any dims."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.enums import HostReduce, HostUnary, Unary
from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, DType
from executorch_ggml.lowering.context import FLOATS, LoweringContext, Tensor
from executorch_ggml.lowering.elementwise import (
    binary_values,
    float_dtype,
    scale_value,
    unary_value,
)
from executorch_ggml.lowering.host import held, host_unary, int_type, settled
from executorch_ggml.lowering.registry import Lowering, lowering, op_name
from executorch_ggml.lowering.rows import (
    count_over,
    reduced_dims,
    rows_over,
    shaped,
    shaped_all,
)

#: F32 counts exactly up to here.
_EXACT_COUNT = 2**24


def host_reduce(
    ctx: LoweringContext,
    kind: HostReduce,
    rows: Value,
    dtype: torch.dtype = torch.float32,
    correction: float = 0.0,
) -> Value:
    """A reduction of each row; ``dtype`` is the result's."""
    return ctx.call(
        "host_reduce", rows, kind=int(kind), type=int(int_type(dtype)), correction=correction
    )


def operand_as(ctx: LoweringContext, arg: Any, dtype: torch.dtype) -> Tensor:
    """An operand as values of the dtype that the op computes in."""
    x = ctx.tensor(arg)
    return Tensor(held(ctx, x, dtype), x.shape, dtype)


def compared_operand(ctx: LoweringContext, arg: Any) -> Tensor:
    """An operand exactly as its dtype holds it, for what compares its elements."""
    x = ctx.tensor(arg)
    return Tensor(settled(ctx, x), x.shape, x.dtype)


def _dims(node: fx.Node, x: Tensor, index: int = 1) -> list[int]:
    return reduced_dims(LoweringContext.argument(node, index, "dim"), x.rank)


# --- sums --------------------------------------------------------------------------------


def sum_rows(ctx: LoweringContext, rows: Value) -> Value:
    return ctx.call("sum_rows", ctx.rows(rows))


def mean_rows(ctx: LoweringContext, rows: Value) -> Value:
    return ctx.call("mean_rows", ctx.rows(rows))


def count_ones(ctx: LoweringContext, rows: Value, count: Dim) -> Value:
    """How many elements of each row of 0 and 1 are 1."""
    if not isinstance(count, int) or count > _EXACT_COUNT:
        return host_reduce(ctx, HostReduce.SUM, rows, torch.int64)
    ones = ctx.call("cast", ctx.contiguous(rows), dtype=int(DType.F32))
    return ctx.call("cast", sum_rows(ctx, ones), dtype=int(DType.I32))


def _sum(ctx: LoweringContext, x: Tensor, dims: list[int], dtype: torch.dtype) -> Value:
    """Sums of a tensor that has been converted to ``dtype``."""
    rows = rows_over(ctx, x, dims)
    if dtype in FLOATS:
        return sum_rows(ctx, rows)
    return host_reduce(ctx, HostReduce.SUM, rows, dtype)


@lowering("aten.sum.dim_IntList", "aten.sum.default")
def sum_(ctx: LoweringContext, node: fx.Node) -> Tensor:
    dtype = ctx.output_dtype(node)
    source = ctx.tensor(node.args[0])
    dims = _dims(node, source)
    if source.dtype == torch.bool and dtype in (torch.int64, torch.int32):
        counted = count_ones(ctx, rows_over(ctx, source, dims), count_over(source, dims))
        return shaped(ctx, node.meta["val"], counted)
    return shaped(
        ctx, node.meta["val"], _sum(ctx, operand_as(ctx, node.args[0], dtype), dims, dtype)
    )


@lowering("aten.mean.dim", "aten.mean.default")
def mean(ctx: LoweringContext, node: fx.Node) -> Tensor:
    dtype = float_dtype(ctx, node)
    x = operand_as(ctx, node.args[0], dtype)
    return shaped(ctx, node.meta["val"], mean_rows(ctx, rows_over(ctx, x, _dims(node, x))))


def _without_nan(ctx: LoweringContext, x: Value) -> Value:
    return host_unary(ctx, HostUnary.NAN_TO_NUM, x, p=0.0, q=math.inf, r=-math.inf)


@lowering("aten.nansum.default", whole=True)
def nansum(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The sum of what is no NaN."""
    dtype = ctx.output_dtype(node)
    x = operand_as(ctx, node.args[0], dtype)
    if x.is_float:
        x = Tensor(_without_nan(ctx, x.value), x.shape, x.dtype)
    return shaped(ctx, node.meta["val"], _sum(ctx, x, _dims(node, x), dtype))


@lowering("aten.nanmean.default", whole=True)
def nanmean(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """The mean of what is no NaN; NaN if all is."""
    x = operand_as(ctx, node.args[0], ctx.output_dtype(node))
    dims = _dims(node, x)
    missing = host_unary(ctx, HostUnary.IS_NAN, x.value, torch.bool)
    present = scale_value(ctx, ctx.call("cast", missing, dtype=int(DType.F32)), -1.0, 1.0)
    total, count = (
        sum_rows(ctx, rows_over(ctx, Tensor(value, x.shape, torch.float32), dims))
        for value in (_without_nan(ctx, x.value), present)
    )
    return shaped(ctx, node.meta["val"], ctx.call("div", total, count))


@lowering("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList", whole=True)
def count_nonzero(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = operand_as(ctx, node.args[0], torch.bool)
    dims = _dims(node, x)
    counted = count_ones(ctx, rows_over(ctx, x, dims), count_over(x, dims))
    return shaped(ctx, node.meta["val"], counted)


@lowering("aten.prod.dim_int", "aten.prod.default")
def prod(ctx: LoweringContext, node: fx.Node) -> Tensor:
    dtype = ctx.output_dtype(node)
    x = operand_as(ctx, node.args[0], dtype)
    rows = rows_over(ctx, x, _dims(node, x))
    return shaped(ctx, node.meta["val"], host_reduce(ctx, HostReduce.PROD, rows, dtype))


# --- extremes ----------------------------------------------------------------------------


def _extreme(*kinds: HostReduce) -> Lowering:
    """A result for each kind. NaN is larger and smaller than any number, as in torch."""

    def lower(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
        x = compared_operand(ctx, node.args[0])
        rows = rows_over(ctx, x, _dims(node, x))
        found = [
            host_reduce(
                ctx,
                kind,
                rows,
                torch.int64 if kind in (HostReduce.ARGMAX, HostReduce.ARGMIN) else x.dtype,
            )
            for kind in kinds
        ]
        if len(found) > 1:
            return shaped_all(ctx, node, *found)
        return shaped(ctx, node.meta["val"], found[0])

    return lower


for _name, _kind, _index in (
    ("max", HostReduce.MAX, HostReduce.ARGMAX),
    ("min", HostReduce.MIN, HostReduce.ARGMIN),
):
    lowering(f"aten.a{_name}.default", f"aten.{_name}.default")(_extreme(_kind))
    lowering(f"aten.arg{_name}.default")(_extreme(_index))
    lowering(f"aten.{_name}.dim")(_extreme(_kind, _index))

lowering("aten.aminmax.default", whole=True)(_extreme(HostReduce.MIN, HostReduce.MAX))


# --- truth -------------------------------------------------------------------------------


def _truth(ctx: LoweringContext, node: fx.Node, kind: HostReduce) -> Tensor:
    """Any or all over the dims; of booleans as a sum, which ggml computes."""
    x = compared_operand(ctx, node.args[0])
    dims = _dims(node, x)
    if ctx.argument(node, 1, "dim") == [] and op_name(node.target).endswith(".dims"):
        dims = []  # unlike elsewhere, an empty list names none
    rows = rows_over(ctx, x, dims)
    if x.dtype != torch.bool:
        return shaped(ctx, node.meta["val"], host_reduce(ctx, kind, rows, torch.bool))
    value = ctx.call("cast", ctx.contiguous(rows), dtype=int(DType.F32))
    if kind is HostReduce.ALL:  # none is false
        value = scale_value(ctx, value, -1.0, 1.0)
    value = ctx.call("clamp", sum_rows(ctx, value), min=0.0, max=1.0)
    if kind is HostReduce.ALL:
        value = scale_value(ctx, value, -1.0, 1.0)
    return shaped(ctx, node.meta["val"], ctx.call("cast", value, dtype=int(DType.I32)))


@lowering("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _truth(ctx, node, HostReduce.ANY)


@lowering("aten.all.default", "aten.all.dim", "aten.all.dims", whole=True)
def all_(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _truth(ctx, node, HostReduce.ALL)


# --- spread ------------------------------------------------------------------------------


def variance_rows(
    ctx: LoweringContext, rows: Value, count: Dim, correction: float = 0.0
) -> tuple[Value, Value]:
    """Mean and variance of each row: squared deviations over ``count - correction``.

    The mean is rounded, so the deviations are centred once more: else values close
    together and far from 0 would seem to spread.
    """
    mean = mean_rows(ctx, rows)
    centred = binary_values(ctx, "sub", rows, mean)
    centred = binary_values(ctx, "sub", centred, mean_rows(ctx, centred))
    squares = ctx.call("sqr", centred)
    if correction == 0.0:
        return mean, mean_rows(ctx, squares)
    if not isinstance(count, int):
        return mean, host_reduce(ctx, HostReduce.VAR, rows, correction=correction)
    divisor = max(count - correction, 0.0)
    return mean, scale_value(ctx, sum_rows(ctx, squares), 1.0 / divisor if divisor else math.inf)


def _register_spread() -> None:
    def lower(root: bool, with_mean: bool) -> Lowering:
        def spread(ctx: LoweringContext, node: fx.Node) -> Tensor | tuple[Tensor, ...]:
            x = ctx.float_tensor(node.args[0])
            overload = op_name(node.target).rpartition(".")[2]
            dims = list(range(x.rank)) if overload == "default" else _dims(node, x)
            if overload == "correction":
                given = node.kwargs.get("correction")
                correction = 1.0 if given is None else ctx.number(given, "correction")
            else:
                unbiased = ctx.argument(node, 1 if overload == "default" else 2, "unbiased", True)
                correction = 1.0 if unbiased else 0.0
            rows = rows_over(ctx, x, dims)
            mean, result = variance_rows(ctx, rows, count_over(x, dims), correction)
            if root:
                result = ctx.call("sqrt", result)
            if with_mean:
                return shaped_all(ctx, node, result, mean)
            return shaped(ctx, node.meta["val"], result)

        return spread

    for name, root in (("var", False), ("std", True)):
        for suffix, with_mean in (("", False), ("_mean", True)):
            names = [f"aten.{name}{suffix}.{o}" for o in ("default", "dim", "correction")]
            lowering(*names, whole=True)(lower(root, with_mean))


_register_spread()


# --- norms -------------------------------------------------------------------------------


def norm_rows(ctx: LoweringContext, rows: Value, order: float) -> Value:
    """``(sum |x|^order)^(1/order)`` of each row; infinite orders: the extreme ``|x|``."""
    if order == 1.0:
        return sum_rows(ctx, unary_value(ctx, Unary.ABS, rows))
    if order == 2.0:
        return ctx.call("sqrt", sum_rows(ctx, ctx.call("sqr", ctx.rows(rows))))
    return host_reduce(ctx, HostReduce.NORM, rows, correction=order)


def _norm(ctx: LoweringContext, node: fx.Node, order: Any, dims: Any) -> Tensor:
    dtype = float_dtype(ctx, node)
    x = operand_as(ctx, node.args[0], dtype)
    rows = rows_over(ctx, x, reduced_dims(dims, x.rank))
    p = 2.0 if order is None else ctx.number(order, "ord")
    return shaped(ctx, node.meta["val"], norm_rows(ctx, rows, p))


@lowering("aten.linalg_vector_norm.default", whole=True)
def linalg_vector_norm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _norm(ctx, node, ctx.argument(node, 1, "ord", 2), ctx.argument(node, 2, "dim"))


@lowering(
    "aten.norm.Scalar",
    "aten.norm.ScalarOpt_dim",
    "aten.norm.ScalarOpt_dtype",
    "aten.norm.ScalarOpt_dim_dtype",
    whole=True,
)
def norm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    return _norm(ctx, node, ctx.argument(node, 1, "p", 2), ctx.argument(node, 2, "dim"))
