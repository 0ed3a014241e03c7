"""Matrix products. ``ggml_mul_mat(w, x)`` contracts ``ne[0]`` of both: it is ``x @ w.T``."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import DType, dims_equal, simplify_dim
from executorch_ggml.lowering.context import MAX_RANK, LoweringContext, Tensor, broadcast_shape
from executorch_ggml.lowering.context import product as product_of
from executorch_ggml.lowering.elementwise import add_values, scale_value
from executorch_ggml.lowering.registry import Unsupported, lowering


def product(ctx: LoweringContext, x: Tensor, w_transposed: Tensor) -> Value:
    """``x @ w`` where ``w_transposed`` has the contracted dim last."""
    w = w_transposed.value
    if w_transposed.dtype == torch.float32 and w.type.dtype in (DType.F16, DType.BF16):
        # A weight widened by the model: ggml would round x to the stored type.
        w = ctx.as_f32(w_transposed).value
    return ctx.call("mul_mat", ctx.rows(w), ctx.rows(ctx.as_f32(x).value))


@lowering("aten.linear.default", whole=True)
def linear(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x @ weight.T + bias``; x ``[..., k]``, weight ``[n, k]``."""
    x = ctx.tensor(node.args[0], "input")
    weight = ctx.tensor(node.args[1], "weight")
    bias = ctx.optional_tensor(ctx.argument(node, 2, "bias"), "bias")
    if not x.is_float or not weight.is_float:
        raise Unsupported("an integer matrix product")
    if weight.rank != 2:
        raise Unsupported(f"weight of rank {weight.rank}")
    y = product(ctx, _as_rows(ctx, x), weight)
    if bias is not None:
        y = add_values(ctx, y, ctx.as_f32(bias).value)
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


def _as_rows(ctx: LoweringContext, x: Tensor) -> Tensor:
    """``[..., k]`` with k as an axis of its own: a higher rank than four may merge it."""
    if x.rank <= MAX_RANK:
        return x
    shape = (product_of(x.shape[:-1]), x.shape[-1])
    return Tensor(ctx.reshape(x.value, shape), shape, x.dtype)


def _matrices(ctx: LoweringContext, node: fx.Node, first: int = 0) -> tuple[Tensor, Tensor]:
    a, b = ctx.tensor(node.args[first], "mat1"), ctx.tensor(node.args[first + 1], "mat2")
    if not a.is_float or not b.is_float:
        raise Unsupported("an integer matrix product")
    return ctx.as_f32(a), b


def _transposed(ctx: LoweringContext, arg: Any, b: Tensor) -> Tensor:
    """The second operand ``b`` of a product as ggml reads it.

    A constant that nothing else reads is stored that way.
    """
    if len(arg.users) == 1:
        value = ctx.precomputed((arg,), lambda stored: stored.mT.contiguous())
        if value is not None:
            return Tensor(value, (*b.shape[:-2], b.shape[-1], b.shape[-2]), b.dtype)
    return ctx.transpose(b, b.rank - 2, b.rank - 1)


@lowering("aten.mm.default", "aten.bmm.default")
def mm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    a, b = _matrices(ctx, node)
    return ctx.result(node, product(ctx, a, _transposed(ctx, node.args[1], b)))


@lowering("aten.matmul.default", whole=True)
def matmul(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Batched product with broadcasting of the leading dims, of vectors too."""
    a, b = _matrices(ctx, node)
    w = b if b.rank == 1 else _transposed(ctx, node.args[1], b)
    x = a if a.rank > 1 else Tensor(a.value, (1, *a.shape), a.dtype)
    batch = broadcast_shape(x.shape[:-2], w.shape[:-2])
    if all(dims_equal(d, 1) for d in w.shape[:-2]):
        w = Tensor(ctx.reshape(w.value, w.shape[-2:]), w.shape[-2:], w.dtype)
        x = _as_rows(ctx, x)
    else:
        # mul_mat broadcasts its first operand, over two dims.
        x = Tensor(ctx.broadcast_to(x, (*batch, *x.shape[-2:])), (*batch, *x.shape[-2:]), x.dtype)
        if len(batch) > MAX_RANK - 2:
            w = Tensor(
                ctx.broadcast_to(w, (*batch, *w.shape[-2:])), (*batch, *w.shape[-2:]), w.dtype
            )
            x, w = _one_batch_dim(ctx, x), _one_batch_dim(ctx, w)
    return ctx.result(node, ctx.reshape(product(ctx, x, w), ctx.output_shape(node)))


def _one_batch_dim(ctx: LoweringContext, x: Tensor) -> Tensor:
    shape = (product_of(x.shape[:-2]), *x.shape[-2:])
    return Tensor(ctx.reshape(x.value, shape), shape, x.dtype)


@lowering("aten.addmm.default", "aten.baddbmm.default")
def addmm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``beta * bias + alpha * (a @ b)``."""
    a, b = _matrices(ctx, node, first=1)
    return _plus_bias(ctx, node, product(ctx, a, _transposed(ctx, node.args[2], b)))


@lowering("aten.addmv.default", whole=True)
def addmv(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``beta * bias + alpha * (matrix @ vector)``."""
    matrix, vector = _matrices(ctx, node, first=1)
    return _plus_bias(ctx, node, product(ctx, vector, matrix))


@lowering("aten.addbmm.default", whole=True)
def addbmm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``beta * bias + alpha * sum of a[i] @ b[i]``: one product over all i and k."""
    a, b = _matrices(ctx, node, first=1)
    wide = simplify_dim(a.shape[0] * a.shape[2])
    x, w = ctx.permuted(a, (1, 0, 2)), ctx.permuted(b, (2, 0, 1))
    flat_x, flat_w = (
        Tensor(ctx.reshape(t.value, (t.shape[0], wide)), (t.shape[0], wide), t.dtype)
        for t in (x, w)
    )
    return _plus_bias(ctx, node, product(ctx, flat_x, flat_w))


def _plus_bias(ctx: LoweringContext, node: fx.Node, y: Value) -> Tensor:
    """``beta * args[0] + alpha * y``; a bias times 0 is left out, NaN or not."""
    bias = ctx.float_tensor(node.args[0], "bias")
    alpha = ctx.number(ctx.argument(node, 4, "alpha", 1), "alpha")
    beta = ctx.number(ctx.argument(node, 3, "beta", 1), "beta")
    y = scale_value(ctx, y, alpha)
    if beta != 0.0:
        y = add_values(ctx, y, scale_value(ctx, bias.value, beta))
    return ctx.result(node, y)


@lowering("aten.bilinear.default", whole=True)
def bilinear(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x1[i] * weight[n, i, j] * x2[j] + bias[n]`` summed over i and j, for each row."""
    x1, x2, weight = (ctx.float_tensor(node.args[i], f"input{i + 1}") for i in range(3))
    bias = ctx.optional_tensor(ctx.argument(node, 3, "bias"), "bias")
    n, i, j = weight.shape
    rows = product_of(x1.shape[:-1])
    flat = simplify_dim(n * i)
    matrix = Tensor(ctx.reshape(weight.value, (flat, j)), (flat, j), weight.dtype)
    over_j = product(ctx, _as_rows(ctx, x2), matrix)
    terms = ctx.call(
        "mul", ctx.reshape(over_j, (rows, n, i)), ctx.rows(ctx.reshape(x1.value, (rows, 1, i)))
    )
    y = ctx.reshape(ctx.call("sum_rows", terms), (rows, n))
    if bias is not None:
        y = add_values(ctx, y, ctx.as_f32(bias).value)
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


@lowering("torchao.dequantize_gguf.default")
def dequantize_gguf(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """A GGUF block blob ``uint8 [n, row_bytes]`` as the float matrix ``[n, k]`` it encodes.

    The blob is a weight: it is bound as a tensor of its block type, and products
    read the blocks directly.
    """
    blob = ctx.tensor(node.args[0], "weight")
    type_name = ctx.argument(node, 1, "ggml_type")
    if not isinstance(type_name, str) or type_name.upper() not in DType.__members__:
        raise Unsupported(f"GGUF type {type_name!r}")
    dtype = DType[type_name.upper()]
    shape = ctx.output_shape(node)
    return Tensor(ctx.reinterpret_weight(blob, dtype, shape), shape, ctx.output_dtype(node))
