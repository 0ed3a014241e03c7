"""Shape rules of the host-side ops: our own CPU kernels, run inside the ggml graph.

Operands may be strided in any way; results are contiguous. Extents of 1 broadcast.
"""

from __future__ import annotations

from executorch_ggml.ir.enums import (
    GridMode,
    GridPadding,
    HostBinary,
    HostPool,
    HostReduce,
    HostResize,
    HostScan,
    HostUnary,
    IntType,
    Recurrence,
)
from executorch_ggml.ir.shape_rules import (
    Params,
    Types,
    can_repeat,
    describe,
    extents_param,
    operand,
    require,
    require_contiguous,
    require_dtype,
)
from executorch_ggml.ir.types import (
    Dim,
    DType,
    IRError,
    TensorType,
    dims_equal,
    extents_equal,
    simplify_dim,
)

_VALUES = (DType.F32, DType.I32)

#: Functions that are only defined for integers, or only for floats.
_INTEGER_BINARY = frozenset(
    {
        HostBinary.ADD,
        HostBinary.SUB,
        HostBinary.MUL,
        HostBinary.BITWISE_AND,
        HostBinary.BITWISE_OR,
        HostBinary.BITWISE_XOR,
        HostBinary.SHIFT_LEFT,
        HostBinary.SHIFT_RIGHT,
    }
)
_FLOAT_BINARY = frozenset(
    {
        HostBinary.FMAX,
        HostBinary.FMIN,
        HostBinary.ATAN2,
        HostBinary.HYPOT,
        HostBinary.COPYSIGN,
        HostBinary.XLOGY,
    }
)
#: Functions of one integer; all but BITWISE_NOT are defined for floats too.
_INTEGER_UNARY = frozenset(
    {
        HostUnary.SIGN,
        HostUnary.ABS,
        HostUnary.NEG,
        HostUnary.BITWISE_NOT,
        HostUnary.LOGICAL_NOT,
    }
)
_INTEGER_REDUCE = frozenset(HostReduce) - {HostReduce.VAR, HostReduce.LOGSUMEXP, HostReduce.NORM}


def broadcast(*types: TensorType) -> list[Dim]:
    """The common extents: each is 1 or the same in all.

    Raises:
        IRError: extents that do not broadcast.
    """
    result: list[Dim] = []
    for extents in zip(*(t.ne for t in types), strict=True):
        wide = [n for n in extents if not dims_equal(n, 1)]
        if not all(dims_equal(n, wide[0]) for n in wide):
            raise IRError(f"{', '.join(describe(t) for t in types)} do not broadcast")
        result.append(wide[0] if wide else 1)
    return result


def host_unary(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    kind = HostUnary(params["kind"])
    require_dtype(x, "x", *_VALUES)
    if x.dtype == DType.I32:
        require(kind in _INTEGER_UNARY, f"{kind.name} of an integer")
    else:
        require(kind is not HostUnary.BITWISE_NOT, "BITWISE_NOT of a float")
    return (x.with_dtype(DType.I32 if kind >= HostUnary.LOGICAL_NOT else x.dtype),)


def host_binary(types: Types, params: Params) -> tuple[TensorType, ...]:
    a, b = operand(types, 0, "a"), operand(types, 1, "b")
    kind = HostBinary(params["kind"])
    require_dtype(a, "a", *_VALUES)
    require_dtype(b, "b", a.dtype)
    forbidden = _INTEGER_BINARY if a.dtype == DType.F32 else _FLOAT_BINARY
    require(kind not in forbidden, f"{kind.name} of {a.dtype.name}")
    dtype = DType.I32 if kind >= HostBinary.EQ else a.dtype
    return (TensorType.contiguous(dtype, broadcast(a, b)),)


def host_where(types: Types, params: Params) -> tuple[TensorType, ...]:
    condition = operand(types, 0, "condition")
    a, b = operand(types, 1, "a"), operand(types, 2, "b")
    require_dtype(condition, "condition", DType.I32)
    require_dtype(a, "a", *_VALUES)
    require_dtype(b, "b", a.dtype)
    return (TensorType.contiguous(a.dtype, broadcast(condition, a, b)),)


def host_convert(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require_dtype(x, "x", *_VALUES)
    IntType(params["to"])
    return (x.with_dtype(DType.I32),)


def host_round(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require(params["dtype"] in (DType.F16, DType.BF16), "values are rounded to F16 or BF16")
    return (x.with_dtype(DType.F32),)


def _rows_of_one(x: TensorType, dtype: DType) -> tuple[TensorType, ...]:
    return (TensorType.contiguous(dtype, [1, *x.ne[1:]]),)


def host_reduce(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    kind = HostReduce(params["kind"])
    require_dtype(x, "x", *_VALUES)
    require(x.dtype == DType.F32 or kind in _INTEGER_REDUCE, f"{kind.name} of integers")
    index = kind in (HostReduce.ARGMAX, HostReduce.ARGMIN, HostReduce.ANY, HostReduce.ALL)
    return _rows_of_one(x, DType.I32 if index else x.dtype)


def host_scan(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    kind = HostScan(params["kind"])
    require_dtype(x, "x", *_VALUES)
    require(x.dtype == DType.F32 or kind is not HostScan.LOGSUMEXP, "LOGSUMEXP of integers")
    index = kind in (HostScan.ARGMAX, HostScan.ARGMIN)
    return (x.with_dtype(DType.I32 if index else x.dtype),)


def host_argsort(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require_dtype(x, "x", *_VALUES)
    return (x.with_dtype(DType.I32),)


def host_gather(types: Types, params: Params) -> tuple[TensorType, ...]:
    """``ne[0]`` is the index's; the other extents broadcast."""
    x, index = operand(types, 0, "x"), operand(types, 1, "index")
    require_dtype(x, "x", *_VALUES)
    require_dtype(index, "index", DType.I32)
    column = TensorType.contiguous(x.dtype, [1, *x.ne[1:]])
    return (TensorType.contiguous(x.dtype, broadcast(column, index)),)


def host_scatter(types: Types, params: Params) -> tuple[TensorType, ...]:
    """The index broadcasts to ``src``, which covers x from its start in all dims but the first."""
    x, index, src = operand(types, 0, "x"), operand(types, 1, "index"), operand(types, 2, "src")
    require_dtype(x, "x", *_VALUES)
    require_dtype(index, "index", DType.I32)
    require_dtype(src, "src", x.dtype)
    require(can_repeat(index, src), f"{describe(index)} does not broadcast to {describe(src)}")
    for covered, extent in zip(src.ne[1:], x.ne[1:], strict=True):
        fits = isinstance(covered, int) and isinstance(extent, int) and covered <= extent
        require(
            fits or dims_equal(covered, extent),
            f"{describe(src)} does not fit into {describe(x)}",
        )
    return (x.with_dtype(x.dtype),)


def host_wrap_ids(types: Types, params: Params) -> tuple[TensorType, ...]:
    ids = operand(types, 0, "ids")
    require_dtype(ids, "ids", DType.I32)
    return (ids.with_dtype(DType.I32),)


def host_iota(types: Types, params: Params) -> tuple[TensorType, ...]:
    return (TensorType.contiguous(DType.I32, extents_param(params)),)


def host_pool(types: Types, params: Params) -> tuple[TensorType, ...]:
    """Over ``ne[0..2]``; the result's extents are parameters, as torch rounds them."""
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    kind = HostPool(params["kind"])
    for i in range(3):
        for name in ("kernel", "stride", "dilation"):
            require(params[f"{name}{i}"] > 0, f"{name}{i} must be positive")
        require(params[f"padding{i}"] >= 0, f"padding{i} must not be negative")
    dtype = DType.I32 if kind is HostPool.MAX_INDEX else DType.F32
    return (TensorType.contiguous(dtype, [*(params[f"ne{i}"] for i in range(3)), x.ne[3]]),)


def host_resize(types: Types, params: Params) -> tuple[TensorType, ...]:
    """Over ``ne[0..rank - 1]``; only images have the wider windows."""
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    kind, rank = HostResize(params["kind"]), params["rank"]
    ranks = (1, 2, 3) if kind <= HostResize.LINEAR else (2,)
    require(rank in ranks, f"{kind.name} over {rank} dims")
    for i in range(3):
        require(params[f"step{i}"] >= 0, f"step{i} must not be negative")
        kept = i < rank or dims_equal(params[f"ne{i}"], x.ne[i])
        require(kept, f"ne{i} of {describe(x)} is not resized")
    return (TensorType.contiguous(DType.F32, [*(params[f"ne{i}"] for i in range(3)), x.ne[3]]),)


def host_grid_sample(types: Types, params: Params) -> tuple[TensorType, ...]:
    """x [w, h, c, n] at grid [2, ow, oh, n] gives [ow, oh, c, n]."""
    x, grid = operand(types, 0, "x"), operand(types, 1, "grid")
    require_dtype(x, "x", DType.F32)
    require_dtype(grid, "grid", DType.F32)
    GridMode(params["mode"])
    GridPadding(params["padding"])
    require(
        dims_equal(grid.ne[0], 2) and dims_equal(grid.ne[3], x.ne[3]),
        f"grid {describe(grid)} does not fit {describe(x)}",
    )
    return (TensorType.contiguous(DType.F32, [*grid.ne[1:3], *x.ne[2:]]),)


def host_recurrent(types: Types, params: Params) -> tuple[TensorType, ...]:
    """gates [g h, steps, batch], weights [h, g h], bias [g h] and state [h, n, batch].

    g and n are the kind's numbers of gates and states. Gives [h, steps + n - 1, batch].
    """
    names = ("gates", "weights", "bias", "state")
    gates, weights, bias, state = (operand(types, i, name) for i, name in enumerate(names))
    for type, name in zip((gates, weights, bias, state), names, strict=True):
        require_dtype(type, name, DType.F32)
    require_contiguous(weights, "weights")
    require_contiguous(bias, "bias")
    kind = Recurrence(params["kind"])
    size, (wide, steps, batch, _) = state.ne[0], gates.ne
    expected: tuple[tuple[TensorType, tuple[Dim, ...]], ...] = (
        (gates, (simplify_dim(size * kind.n_gates), steps, batch, 1)),
        (weights, (size, wide, 1, 1)),
        (bias, (wide, 1, 1, 1)),
        (state, (size, kind.n_states, batch, 1)),
    )
    fits = all(extents_equal(t.ne, ne) for t, ne in expected)
    require(fits, f"{', '.join(map(describe, (gates, weights, bias, state)))} are no {kind.name}")
    rows = simplify_dim(steps + kind.n_states - 1)
    return (TensorType.contiguous(DType.F32, [size, rows, batch, 1]),)
