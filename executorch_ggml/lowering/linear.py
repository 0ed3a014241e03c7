"""Matrix products. ``ggml_mul_mat(w, x)`` contracts ``ne[0]`` of both: it is ``x @ w.T``."""

from __future__ import annotations

from torch import fx

from executorch_ggml.ir.graph import Value
from executorch_ggml.ir.types import Dim, DType, dims_equal
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.elementwise import add_values
from executorch_ggml.lowering.registry import Unsupported, lowering


def product(ctx: LoweringContext, x: Tensor, w_transposed: Value) -> Value:
    """``x @ w`` where ``w_transposed`` has the contracted dim as ``ne[0]``."""
    x = ctx.as_f32(x)
    return ctx.call("mul_mat", ctx.rows(w_transposed), ctx.rows(x.value))


@lowering("aten.linear.default", whole=True)
def linear(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``x @ weight.T + bias``; x ``[..., k]``, weight ``[n, k]``."""
    x = ctx.tensor(node.args[0], "input")
    weight = ctx.tensor(node.args[1], "weight")
    bias = ctx.optional_tensor(ctx.argument(node, 2, "bias"), "bias")
    if not x.is_float or not weight.is_float:
        raise Unsupported("integer linear")
    if weight.rank != 2:
        raise Unsupported(f"weight of rank {weight.rank}")
    y = product(ctx, x, weight.value)
    if bias is not None:
        y = add_values(ctx, y, ctx.as_f32(bias).value)
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


def _matrices(ctx: LoweringContext, node: fx.Node, first: int = 0) -> tuple[Tensor, Tensor]:
    a = ctx.float_tensor(node.args[first], "mat1")
    b = ctx.tensor(node.args[first + 1], "mat2")
    if not b.is_float:
        raise Unsupported("an integer matrix product")
    return a, b


def _transposed(ctx: LoweringContext, b: Tensor) -> Value:
    return ctx.transpose(b, -2 + b.rank, -1 + b.rank).value


def _broadcast_batch(ctx: LoweringContext, value: Value, like: Value) -> Value:
    """Repeat ne[2] and ne[3] where the second operand has more."""
    ne: list[Dim] = list(value.ne)
    for i in (2, 3):
        if dims_equal(ne[i], 1) and not dims_equal(like.ne[i], 1):
            ne[i] = like.ne[i]
    if all(dims_equal(a, b) for a, b in zip(ne, value.ne, strict=True)):
        return value
    return ctx.call("repeat", value, **{f"ne{i}": d for i, d in enumerate(ne)})


@lowering("aten.mm.default", "aten.bmm.default")
def mm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    a, b = _matrices(ctx, node)
    return ctx.result(node, product(ctx, a, _transposed(ctx, b)))


@lowering("aten.matmul.default", whole=True)
def matmul(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Batched product with broadcasting of the leading dims."""
    a, b = _matrices(ctx, node)
    if a.rank == 1:
        a = Tensor(a.value, (1, *a.shape), a.dtype)
    w = b.value if b.rank == 1 else _transposed(ctx, b)
    # mul_mat broadcasts its first operand only.
    x = Tensor(_broadcast_batch(ctx, ctx.rows(a.value), w), a.shape, a.dtype)
    y = product(ctx, x, w)
    return ctx.result(node, ctx.reshape(y, ctx.output_shape(node)))


@lowering("aten.addmm.default", "aten.baddbmm.default")
def addmm(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``beta * bias + alpha * (a @ b)``."""
    bias = ctx.float_tensor(node.args[0], "bias")
    a, b = _matrices(ctx, node, first=1)
    y = product(ctx, a, _transposed(ctx, b))
    alpha = ctx.number(ctx.argument(node, 4, "alpha", 1), "alpha")
    beta = ctx.number(ctx.argument(node, 3, "beta", 1), "beta")
    if alpha != 1.0:
        y = ctx.call("scale", y, scale=alpha)
    if beta == 0.0:
        return ctx.result(node, y)
    addend = bias.value
    if beta != 1.0:
        addend = ctx.call("scale", ctx.contiguous(addend), scale=beta)
    return ctx.result(node, add_values(ctx, y, addend))


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
