"""Rotary embedding and attention.

ggml keeps heads next to the head size (``[d, heads, positions, batch]``), torch
keeps positions there (``[B, H, S, D]``). The permutations below undo the ones the
model made, so none is left in the IR of an ordinary decoder.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from executorch_ggml.ir.enums import HostBinary, RopeMode
from executorch_ggml.ir.graph import State, StateKind, Value
from executorch_ggml.ir.types import Dim, DType, dims_equal
from executorch_ggml.lowering.context import LoweringContext, Tensor, broadcast_shape, product
from executorch_ggml.lowering.host import host_binary, iota
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
    """What is added to the scores: a boolean mask (true: attend) as 0 or -inf."""
    if mask.is_float:
        return ctx.contiguous(ctx.as_f32(mask).value)
    if mask.dtype != torch.bool:
        raise Unsupported(f"mask of dtype {mask.dtype}")
    as_float = ctx.call("cast", ctx.contiguous(mask.value), dtype=int(DType.F32))
    return ctx.call("log", as_float)  # log(1) = 0, log(0) = -inf


def _causal_mask(ctx: LoweringContext, queries: Dim, keys: Dim) -> Value:
    """Query i sees the keys 0..i, whatever the number of keys."""
    if isinstance(queries, int) and isinstance(keys, int):
        visible = torch.ones(queries, keys, dtype=torch.bool).tril()
        return ctx.constant(torch.zeros(queries, keys).masked_fill(~visible, -math.inf))
    rows = ctx.reshape(iota(ctx, queries), (queries, 1))
    sees = host_binary(ctx, HostBinary.LE, iota(ctx, keys), rows, torch.bool)
    return ctx.call("log", ctx.call("cast", sees, dtype=int(DType.F32)))


def _with_heads(ctx: LoweringContext, x: Tensor, rank: int) -> Tensor:
    """An operand of rank 2 or more, of ``rank`` dims and a dim of heads if it had none."""
    shape: tuple[Dim, ...] = (*((1,) * (rank - x.rank)), *x.shape)
    if rank == 2:
        shape = (1, 1, *shape)
    elif rank == 3:
        shape = (shape[0], 1, *shape[1:])
    return Tensor(ctx.reshape(x.value, shape), shape, x.dtype)


def _one_batch(ctx: LoweringContext, x: Tensor, lead: tuple[Dim, ...]) -> Tensor:
    """``[..., H, S, D]`` repeated to the leading dims, which become one."""
    kept = x.shape[-3:]
    full = Tensor(ctx.broadcast_to(x, (*lead, *kept)), (*lead, *kept), x.dtype)
    shape = (product(lead), *kept)
    return Tensor(ctx.reshape(full.value, shape), shape, x.dtype)


def _mask_of(
    ctx: LoweringContext, mask: Tensor, rank: int, lead: tuple[Dim, ...], scores: tuple[Dim, Dim]
) -> Value:
    mask = _with_heads(ctx, mask, rank)
    if all(dims_equal(d, 1) for d in mask.shape[:-3]):
        lead = (1,)
    shape = (*mask.shape[:-2], *scores)  # a mask may broadcast over queries and keys too
    mask = _one_batch(ctx, Tensor(ctx.broadcast_to(mask, shape), shape, mask.dtype), lead)
    return _additive_mask(ctx, mask)


@lowering("aten.scaled_dot_product_attention.default", whole=True)
def scaled_dot_product_attention(ctx: LoweringContext, node: fx.Node) -> Tensor:
    """``softmax(scale * q k^T + mask) v`` over operands ``[..., heads, length, size]``.

    A query that the mask hides every key from gives 0, in the IR as in torch.
    """
    q, k, v = (ctx.float_tensor(node.args[i], n) for i, n in enumerate(("query", "key", "value")))
    attn_mask = ctx.optional_tensor(ctx.argument(node, 3, "attn_mask"), "attn_mask")
    causal = bool(ctx.argument(node, 5, "is_causal", False))
    scale = ctx.argument(node, 6, "scale")
    grouped = bool(ctx.argument(node, 7, "enable_gqa", False))
    if ctx.argument(node, 4, "dropout_p", 0.0):
        raise Unsupported("attention dropout")
    if causal and attn_mask is not None:
        raise Unsupported("a mask beside is_causal")
    if scale is None:
        scale = 1.0 / math.sqrt(_static(q.shape[-1], "head size"))

    rank = max(q.rank, k.rank, v.rank)
    q, k, v = (_with_heads(ctx, x, rank) for x in (q, k, v))
    lead = broadcast_shape(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    q, k, v = (_one_batch(ctx, x, lead) for x in (q, k, v))
    q, k, v = _matched_heads(ctx, q, k, v, grouped)

    queries, keys = q.shape[2], k.shape[2]
    mask = None
    if attn_mask is not None:
        mask = _mask_of(ctx, attn_mask, rank, lead, (queries, keys))
    elif causal and not dims_equal(queries, keys):
        # The IR's causal attention aligns the last query with the last key, torch's the first.
        mask, causal = _causal_mask(ctx, queries, keys), False
    y = ctx.call(
        "attention",
        ctx.rows(_heads_inner(ctx, q, "query")),
        ctx.rows(_heads_inner(ctx, k, "key")),
        ctx.rows(_heads_inner(ctx, v, "value")),
        mask,
        causal=int(causal),
        scale=float(scale),
    )
    return ctx.result(node, ctx.reshape(ctx.permute(y, _SWAP_HEADS), ctx.output_shape(node)))


def _matched_heads(
    ctx: LoweringContext, q: Tensor, k: Tensor, v: Tensor, grouped: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values with as many heads as each other, a divisor of the queries'."""

    def with_heads(x: Tensor, heads: Dim) -> Tensor:
        shape = (x.shape[0], heads, *x.shape[2:])
        return Tensor(ctx.broadcast_to(x, shape), shape, x.dtype)

    (kv_heads,) = broadcast_shape((k.shape[1],), (v.shape[1],))
    k, v = with_heads(k, kv_heads), with_heads(v, kv_heads)
    if dims_equal(q.shape[1], 1):
        q = with_heads(q, kv_heads)
    heads = q.shape[1]
    whole = isinstance(heads, int) and isinstance(kv_heads, int) and heads % kv_heads == 0
    if not whole or not (grouped or heads == kv_heads or kv_heads == 1):
        raise Unsupported(f"{heads} query heads over {kv_heads} key heads")
    return q, k, v


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
