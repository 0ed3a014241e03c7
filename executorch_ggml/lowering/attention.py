"""Rotary embedding and attention.

ggml keeps heads next to the head size (``[d, heads, positions, batch]``), torch
keeps positions there (``[B, H, S, D]``). The permutations below undo the ones the
model made, so none is left in the IR of an ordinary decoder.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from executorch_ggml.ir.graph import State, StateKind, Value
from executorch_ggml.ir.opset import RopeMode
from executorch_ggml.ir.types import DType, dims_equal
from executorch_ggml.lowering.context import LoweringContext, Tensor
from executorch_ggml.lowering.registry import Unsupported, lowering, op_name

_ROPE_MODES = {"normal": RopeMode.NORMAL, "neox": RopeMode.NEOX}

_SWAP_HEADS = (0, 2, 1, 3)


def _heads_inner(ctx: LoweringContext, x: Tensor, name: str) -> Value:
    """torch ``[B, H, S, D]`` as ``ne = (D, H, S, B)``."""
    if x.rank != 4:
        raise Unsupported(f"{name} of rank {x.rank}, expected [batch, heads, length, head size]")
    return ctx.permute(x.value, _SWAP_HEADS)


@lowering("ggml.rope.default")
def rope(ctx: LoweringContext, node: fx.Node) -> Tensor:
    x = ctx.float_tensor(node.args[0], "x")
    positions = ctx.tensor(node.args[1], "positions")
    factors = ctx.optional_tensor(ctx.argument(node, 2, "freq_factors"), "freq_factors")
    names = (
        "n_dims",
        "mode",
        "freq_base",
        "freq_scale",
        "ext_factor",
        "attn_factor",
        "beta_fast",
        "beta_slow",
        "original_context",
    )
    args = {name: ctx.argument(node, i + 3, name) for i, name in enumerate(names)}
    if args["mode"] not in _ROPE_MODES:
        raise Unsupported(f"rope mode {args['mode']!r}")
    if positions.is_float:
        raise Unsupported("floating-point positions")
    args["mode"] = int(_ROPE_MODES[args["mode"]])
    for name in names[2:8]:
        args[name] = float(args[name])
    flat = ctx.reshape(positions.value, [x.shape[2]])
    y = ctx.call(
        "rope",
        ctx.rows(_heads_inner(ctx, x, "x")),
        ctx.contiguous(flat),
        None if factors is None else factors.value,
        **args,
    )
    return ctx.result(node, ctx.permute(y, _SWAP_HEADS))


def _additive_mask(ctx: LoweringContext, mask: Tensor) -> Value:
    """A boolean mask (true: attend) as 0 or -inf; a float mask as it is."""
    if mask.is_float:
        return ctx.contiguous(ctx.as_f32(mask).value)
    if mask.dtype != torch.bool:
        raise Unsupported(f"mask of dtype {mask.dtype}")
    as_float = ctx.call("cast", ctx.contiguous(mask.value), dtype=int(DType.F32))
    return ctx.call("log", as_float)  # log(1) = 0, log(0) = -inf


@lowering("aten.scaled_dot_product_attention.default", whole=True)
def scaled_dot_product_attention(ctx: LoweringContext, node: fx.Node) -> Tensor:
    q = ctx.float_tensor(node.args[0], "query")
    k = ctx.float_tensor(node.args[1], "key")
    v = ctx.float_tensor(node.args[2], "value")
    mask = ctx.optional_tensor(ctx.argument(node, 3, "attn_mask"), "attn_mask")
    dropout = ctx.argument(node, 4, "dropout_p", 0.0)
    causal = ctx.argument(node, 5, "is_causal", False)
    scale = ctx.argument(node, 6, "scale")
    if dropout:
        raise Unsupported("attention dropout")
    if q.rank == 3:
        q, k, v = (Tensor(x.value, (*x.shape[:1], 1, *x.shape[1:]), x.dtype) for x in (q, k, v))
        q, k, v = (Tensor(ctx.reshape(x.value, x.shape), x.shape, x.dtype) for x in (q, k, v))
    if not all(dims_equal(x.shape[0], q.shape[0]) for x in (k, v)):
        raise Unsupported("attention that broadcasts the batch")
    if causal and not dims_equal(q.shape[2], k.shape[2]):
        raise Unsupported("causal attention over keys that are not the queries' own")
    head_size = q.shape[3]
    if scale is None:
        if not isinstance(head_size, int):
            raise Unsupported("a symbolic head size")
        scale = 1.0 / math.sqrt(head_size)
    heads, kv_heads = q.shape[1], k.shape[1]
    if not (isinstance(heads, int) and isinstance(kv_heads, int) and heads % kv_heads == 0):
        raise Unsupported(f"{heads} query heads over {kv_heads} key heads")
    y = ctx.call(
        "attention",
        ctx.rows(_heads_inner(ctx, q, "query")),
        ctx.rows(_heads_inner(ctx, k, "key")),
        ctx.rows(_heads_inner(ctx, v, "value")),
        None if mask is None else _additive_mask(ctx, mask),
        causal=int(causal),
        scale=float(scale),
    )
    return ctx.result(node, ctx.reshape(ctx.permute(y, _SWAP_HEADS), ctx.output_shape(node)))


# --- the key/value cache -----------------------------------------------------------------

_POSITION_VIEWS = (
    "aten.view.default",
    "aten.view_copy.default",
    "aten.reshape.default",
    "aten.unsqueeze.default",
    "aten.unsqueeze_copy.default",
    "aten.clone.default",
    "aten.alias_copy.default",
    "dim_order_ops._clone_dim_order.default",
)


def _positions_source(arg: object) -> fx.Node:
    """The placeholder that positions are read from; the cache plans from it ahead of the graph."""
    while isinstance(arg, fx.Node) and arg.op == "call_function":
        if op_name(arg.target) not in _POSITION_VIEWS:
            raise Unsupported(
                f"cache positions are computed by {op_name(arg.target)}; they must be an input"
            )
        arg = arg.args[0]
    if not isinstance(arg, fx.Node) or arg.op != "placeholder":
        raise Unsupported("cache positions are not an input")
    return arg


@lowering("kvcache.update_and_attend.default")
def update_and_attend(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """Keys and values go to session memory; see ``executorch.extension.llm.cache``."""
    q = ctx.float_tensor(node.args[0], "q")
    k = ctx.float_tensor(node.args[1], "k")
    v = ctx.float_tensor(node.args[2], "v")
    source = ctx.tensor(_positions_source(node.args[3]), "position")
    layer = ctx.static(node.args[4], "layer_id")
    scale = ctx.number(node.args[5], "scale")
    cache = ctx.options.kv_cache
    state = State(
        kind=StateKind.KV_CACHE,
        name=f"kv.{layer}",
        k_head_dim=_static(k.shape[3], "key head size"),
        v_head_dim=_static(v.shape[3], "value head size"),
        n_kv_heads=_static(k.shape[1], "key heads"),
        n_batch=_static(k.shape[0], "batch"),
        window=cache.window_of(layer),
        default_capacity=cache.default_capacity,
        max_capacity=cache.max_capacity,
    )
    y = ctx.call(
        "update_and_attend",
        ctx.rows(_heads_inner(ctx, q, "q")),
        ctx.rows(_heads_inner(ctx, k, "k")),
        ctx.rows(_heads_inner(ctx, v, "v")),
        ctx.reshape(source.value, [q.shape[2]]),
        state=ctx.state_index(state),
        scale=scale,
    )
    return ctx.result(node, ctx.permute(y, _SWAP_HEADS))


def _static(size: object, name: str) -> int:
    if not isinstance(size, int):
        raise Unsupported(f"a symbolic {name}")
    return size
