"""Shape rules: from the types of a call's operands to the types of its results.

Each rule states what the ggml call asserts, so that a graph that passes here is
one that ggml takes. The runtime checks the same again on concrete tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from executorch_ggml.ir.canonical import floor_div
from executorch_ggml.ir.enums import Upscale
from executorch_ggml.ir.types import (
    Dim,
    DType,
    IRError,
    TensorType,
    as_extents,
    dims_equal,
    extents_equal,
    simplify_dim,
)

Types: TypeAlias = "Sequence[TensorType | None]"
Params: TypeAlias = "Mapping[str, Any]"
ShapeRule: TypeAlias = "Callable[[Types, Params], tuple[TensorType, ...]]"


def require(condition: bool, message: str) -> None:
    if not condition:
        raise IRError(message)


def operand(types: Types, index: int, name: str) -> TensorType:
    found = types[index] if index < len(types) else None
    if found is None:
        raise IRError(f"operand '{name}' is missing")
    return found


def describe(t: TensorType) -> str:
    return f"{t.dtype.name}[{', '.join(str(d) for d in t.ne)}]"


def require_dtype(t: TensorType, name: str, *dtypes: DType) -> None:
    allowed = " or ".join(d.name for d in dtypes)
    require(t.dtype in dtypes, f"operand '{name}' is {describe(t)}, expected {allowed}")


def require_rows(t: TensorType, name: str) -> None:
    require(t.has_contiguous_rows, f"operand '{name}' must have contiguous rows")


def require_contiguous(t: TensorType, name: str) -> None:
    require(t.is_contiguous, f"operand '{name}' must be contiguous")


def can_repeat(small: TensorType, large: TensorType) -> bool:
    """Whether each extent of ``small`` is 1 or that of ``large``.

    ``ggml_can_repeat`` takes any divisor; torch broadcasting needs only 1, and
    with symbolic extents only 1 and equality can be decided.
    """
    return all(
        dims_equal(s, 1) or dims_equal(s, n) for s, n in zip(small.ne, large.ne, strict=True)
    )


def extents_param(params: Params) -> list[Dim]:
    return [params[f"ne{i}"] for i in range(4)]


# --- views -------------------------------------------------------------------


def reshape(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require_contiguous(x, "x")
    result = TensorType.contiguous(x.dtype, extents_param(params))
    require(
        dims_equal(result.n_elements, x.n_elements),
        f"cannot reshape {describe(x)} to {describe(result)}",
    )
    return (result,)


def permute(types: Types, params: Params) -> tuple[TensorType, ...]:
    """``ggml_permute``: dim ``i`` of the operand becomes dim ``axis_i`` of the result."""
    x = operand(types, 0, "x")
    axes = [params[f"axis{i}"] for i in range(4)]
    require(sorted(axes) == [0, 1, 2, 3], f"axes {axes} are no permutation")
    require(not x.dtype.is_quantized, "a quantized tensor cannot be permuted")
    ne: list[Dim] = [0] * 4
    strides: list[Dim] = [0] * 4
    for source, target in enumerate(axes):
        ne[target] = x.ne[source]
        strides[target] = x.strides[source]
    return (TensorType(x.dtype, as_extents(ne), as_extents(strides)),)


def view(types: Types, params: Params) -> tuple[TensorType, ...]:
    """``ggml_view_4d``; strides and offset count elements, the row stride is 1."""
    x = operand(types, 0, "x")
    require(not x.dtype.is_quantized, "a quantized tensor cannot be viewed")
    strides: list[Dim] = [1, params["stride1"], params["stride2"], params["stride3"]]
    return (TensorType(x.dtype, as_extents(extents_param(params)), as_extents(strides)),)


def cont(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require(not x.dtype.is_quantized, "a quantized tensor cannot be copied element-wise")
    return (x.with_dtype(x.dtype),)


def cast(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    target = DType(params["dtype"])
    if x.dtype == DType.I32:
        require_dtype(x.with_dtype(target), "result", DType.F32)
    elif x.dtype == DType.F32:
        require_dtype(x.with_dtype(target), "result", DType.F32, DType.F16, DType.BF16, DType.I32)
    else:
        require(
            x.dtype in (DType.F16, DType.BF16, DType.FROM_FILE) or x.dtype.is_quantized,
            f"{x.dtype.name} cannot be cast",
        )
        require_dtype(x.with_dtype(target), "result", DType.F32, DType.F16, DType.BF16)
    return (x.with_dtype(target),)


def repeat(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    result = TensorType.contiguous(x.dtype, extents_param(params))
    require_dtype(x, "x", DType.F32, DType.F16, DType.BF16, DType.I32, DType.I16)
    require_rows(x, "x")
    for small, large in zip(x.ne, result.ne, strict=True):
        if isinstance(small, int) and isinstance(large, int) and small > 0:
            require(large % small == 0, f"{large} is no multiple of {small}")
        else:
            require(
                dims_equal(small, 1) or dims_equal(small, large),
                f"cannot repeat {describe(x)} to {describe(result)}",
            )
    return (result,)


def concat(types: Types, params: Params) -> tuple[TensorType, ...]:
    a = operand(types, 0, "a")
    b = operand(types, 1, "b")
    axis = params["axis"]
    require(0 <= axis < 4, f"axis {axis} is outside 0..3")
    require(a.dtype == b.dtype, f"{a.dtype.name} and {b.dtype.name} cannot be concatenated")
    require(not a.dtype.is_quantized, "quantized tensors cannot be concatenated")
    ne = list(a.ne)
    for i in range(4):
        if i == axis:
            ne[i] = simplify_dim(a.ne[i] + b.ne[i])
        else:
            require(
                dims_equal(a.ne[i], b.ne[i]),
                f"cannot concatenate {describe(a)} and {describe(b)} along {axis}",
            )
    return (TensorType.contiguous(a.dtype, ne),)


def pad(types: Types, params: Params) -> tuple[TensorType, ...]:
    """``ggml_pad_ext``: zeros before and after each dim."""
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_rows(x, "x")
    ne = [simplify_dim(params[f"before{i}"] + x.ne[i] + params[f"after{i}"]) for i in range(4)]
    return (TensorType.contiguous(x.dtype, ne),)


# --- rows ----------------------------------------------------------------------


def get_rows(types: Types, params: Params) -> tuple[TensorType, ...]:
    """Rows of ``table`` [n, rows, b2, b3] picked by I32 ``ids`` [k, b2, b3]."""
    table = operand(types, 0, "table")
    ids = operand(types, 1, "ids")
    require_dtype(ids, "ids", DType.I32)
    require(
        dims_equal(table.ne[2], ids.ne[1]) and dims_equal(table.ne[3], ids.ne[2]),
        f"rows {describe(ids)} do not fit table {describe(table)}",
    )
    require(dims_equal(ids.ne[3], 1), "ids have at most three dims")
    dtype = DType.I32 if table.dtype == DType.I32 else DType.F32
    return (TensorType.contiguous(dtype, [table.ne[0], *ids.ne[:3]]),)


def set_rows(types: Types, params: Params) -> tuple[TensorType, ...]:
    """Writes rows ``x`` [n, k, b2, b3] into ``state`` at ``ids`` [k, ...]; gives the state."""
    state = operand(types, 0, "state")
    x = operand(types, 1, "x")
    ids = operand(types, 2, "ids")
    require_dtype(x, "x", DType.F32)
    require_dtype(ids, "ids", DType.I32, DType.I64)
    require_rows(x, "x")
    require(
        dims_equal(state.ne[0], x.ne[0])
        and dims_equal(state.ne[2], x.ne[2])
        and dims_equal(state.ne[3], x.ne[3])
        and dims_equal(x.ne[1], ids.ne[0]),
        f"rows {describe(x)} at {describe(ids)} do not fit {describe(state)}",
    )
    return (state,)


def assign(types: Types, params: Params) -> tuple[TensorType, ...]:
    """Writes ``x`` over the whole of ``state``; the result is the state."""
    state = operand(types, 0, "state")
    x = operand(types, 1, "x")
    require(
        extents_equal(state.ne, x.ne),
        f"{describe(x)} does not fit state {describe(state)}",
    )
    return (state,)


# --- element-wise ----------------------------------------------------------------


def unary(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32, DType.F16)
    require_rows(x, "x")
    return (x.with_dtype(x.dtype),)


def contiguous_unary(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_contiguous(x, "x")
    return (x.with_dtype(x.dtype),)


def binary(types: Types, params: Params) -> tuple[TensorType, ...]:
    """``a`` keeps its shape; ``b`` is broadcast to it."""
    a = operand(types, 0, "a")
    b = operand(types, 1, "b")
    require_dtype(a, "a", DType.F32)
    require_dtype(b, "b", DType.F32, DType.FROM_FILE)
    require_rows(a, "a")
    require_rows(b, "b")
    require(can_repeat(b, a), f"{describe(b)} does not broadcast to {describe(a)}")
    return (a.with_dtype(DType.F32),)


def glu(types: Types, params: Params) -> tuple[TensorType, ...]:
    a = operand(types, 0, "a")
    b = operand(types, 1, "b")
    for t, name in ((a, "a"), (b, "b")):
        require_dtype(t, name, DType.F32)
        require_rows(t, name)
    require(
        extents_equal(a.ne, b.ne),
        f"{describe(a)} and {describe(b)} differ",
    )
    return (a.with_dtype(DType.F32),)


# --- reductions and norms -----------------------------------------------------------


def reduce_rows(types: Types, params: Params) -> tuple[TensorType, ...]:
    """One value per row: ``ne[0]`` becomes 1."""
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_rows(x, "x")
    return (TensorType.contiguous(DType.F32, [1, *x.ne[1:]]),)


def reduce_all(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_rows(x, "x")
    return (TensorType.contiguous(DType.F32, [1]),)


def argmax(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_contiguous(x, "x")
    require(dims_equal(x.ne[2], 1) and dims_equal(x.ne[3], 1), "argmax takes a matrix")
    return (TensorType.contiguous(DType.I32, [x.ne[1]]),)


def norm(types: Types, params: Params) -> tuple[TensorType, ...]:
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_rows(x, "x")
    return (x.with_dtype(DType.F32),)


def soft_max(types: Types, params: Params) -> tuple[TensorType, ...]:
    """Over ``ne[0]``, of ``x * scale + mask``; the mask is [n, >= rows, 1 or heads, 1 or batch]."""
    x = operand(types, 0, "x")
    mask = types[1] if len(types) > 1 else None
    require_dtype(x, "x", DType.F32)
    require_contiguous(x, "x")
    if mask is not None:
        require_dtype(mask, "mask", DType.F32, DType.F16)
        require_contiguous(mask, "mask")
        require(can_repeat(mask, x), f"mask {describe(mask)} does not fit {describe(x)}")
        require(dims_equal(mask.ne[0], x.ne[0]), "the mask must cover every column")
        require(dims_equal(mask.ne[1], x.ne[1]), "the mask must cover every row")
    return (x.with_dtype(DType.F32),)


# --- products and attention -----------------------------------------------------------


def mul_mat(types: Types, params: Params) -> tuple[TensorType, ...]:
    """``w`` [k, n, b2, b3] and ``x`` [k, m, c2, c3] give [n, m, c2, c3]; b divides c."""
    w = operand(types, 0, "w")
    x = operand(types, 1, "x")
    require_dtype(x, "x", DType.F32)
    require(w.dtype not in (DType.I32, DType.I64, DType.I16, DType.I8), "w must be floating point")
    require_rows(w, "w")
    require_rows(x, "x")
    require(
        dims_equal(w.ne[0], x.ne[0]), f"{describe(w)} and {describe(x)} share no inner dimension"
    )
    for i in (2, 3):
        a, b = w.ne[i], x.ne[i]
        fits = dims_equal(a, b) or dims_equal(a, 1)
        if isinstance(a, int) and isinstance(b, int) and a > 0:
            fits = b % a == 0
        require(fits, f"{describe(w)} does not broadcast to {describe(x)}")
    return (TensorType.contiguous(DType.F32, [w.ne[1], *x.ne[1:]]),)


def rope(types: Types, params: Params) -> tuple[TensorType, ...]:
    """``x`` [d, heads, positions, batch]; ``positions`` I32 [positions]."""
    x = operand(types, 0, "x")
    positions = operand(types, 1, "positions")
    require_dtype(x, "x", DType.F32)
    require_dtype(positions, "positions", DType.I32)
    require_rows(x, "x")
    require(
        dims_equal(positions.ne[0], x.ne[2]),
        f"{describe(positions)} does not give one position for each of {describe(x)}",
    )
    n_dims = params["n_dims"]
    require(n_dims % 2 == 0 and n_dims > 0, f"n_dims {n_dims} must be even and positive")
    if isinstance(x.ne[0], int):
        require(n_dims <= x.ne[0], f"n_dims {n_dims} exceeds the head size {x.ne[0]}")
    factors = types[2] if len(types) > 2 else None
    if factors is not None:
        require_dtype(factors, "freq_factors", DType.F32, DType.FROM_FILE)
        require(
            dims_equal(factors.ne[0], n_dims // 2),
            f"freq_factors {describe(factors)} must hold {n_dims // 2} values",
        )
    return (x.with_dtype(DType.F32),)


def _check_qkv(q: TensorType, k: TensorType, v: TensorType) -> TensorType:
    for t, name in ((q, "q"), (k, "k"), (v, "v")):
        require_dtype(t, name, DType.F32)
        require_rows(t, name)
    require(dims_equal(q.ne[0], k.ne[0]), "q and k differ in head size")
    require(dims_equal(k.ne[1], v.ne[1]), "k and v differ in heads")
    require(dims_equal(k.ne[2], v.ne[2]), "k and v differ in length")
    require(dims_equal(q.ne[3], k.ne[3]) and dims_equal(q.ne[3], v.ne[3]), "batches differ")
    heads, kv_heads = q.ne[1], k.ne[1]
    require(
        isinstance(heads, int) and isinstance(kv_heads, int) and heads % kv_heads == 0,
        f"{heads} query heads are no multiple of {kv_heads} key heads",
    )
    return TensorType.contiguous(DType.F32, [v.ne[0], q.ne[1], q.ne[2], q.ne[3]])


def attention(types: Types, params: Params) -> tuple[TensorType, ...]:
    """q [d, heads, nq, b], k [d, kv_heads, nk, b], v [dv, kv_heads, nk, b] -> [dv, heads, nq, b].

    The optional additive mask is F32 [nk, nq, 1 or heads, 1 or b].
    """
    q, k, v = (operand(types, i, n) for i, n in enumerate("qkv"))
    result = _check_qkv(q, k, v)
    mask = types[3] if len(types) > 3 else None
    if mask is not None:
        require_dtype(mask, "mask", DType.F32)
        scores = TensorType.contiguous(DType.F32, [k.ne[2], q.ne[2], q.ne[1], q.ne[3]])
        require(can_repeat(mask, scores), f"mask {describe(mask)} does not fit the scores")
        require(dims_equal(mask.ne[0], scores.ne[0]), "the mask must cover every key")
        require(dims_equal(mask.ne[1], scores.ne[1]), "the mask must cover every query")
    return (result,)


def update_and_attend(types: Types, params: Params) -> tuple[TensorType, ...]:
    """As :func:`attention`, over the rows of a cache after k and v were written to it."""
    q = operand(types, 0, "q")
    k = operand(types, 1, "k")
    v = operand(types, 2, "v")
    positions = operand(types, 3, "positions")
    require_dtype(positions, "positions", DType.I32)
    require(dims_equal(positions.ne[0], k.ne[2]), "positions must give one position per key")
    require(dims_equal(q.ne[2], k.ne[2]), "q and k differ in length")
    return (_check_qkv(q, k, v),)


# --- convolution -----------------------------------------------------------------------


def conv_extent(n: Dim, kernel: Dim, stride: int, padding: int, dilation: int) -> Dim:
    span = simplify_dim(n + 2 * padding - dilation * (kernel - 1) - 1)
    return simplify_dim(floor_div(span, stride) + 1)


def conv_2d(types: Types, params: Params) -> tuple[TensorType, ...]:
    """kernel [kw, kh, c_in, c_out] and x [w, h, c_in, n] give [ow, oh, c_out, n]."""
    kernel = operand(types, 0, "kernel")
    x = operand(types, 1, "x")
    require_dtype(kernel, "kernel", DType.F32, DType.F16)
    require_dtype(x, "x", DType.F32)
    require_contiguous(kernel, "kernel")
    require_contiguous(x, "x")
    require(
        dims_equal(kernel.ne[2], x.ne[2]),
        f"kernel {describe(kernel)} does not fit {describe(x)}",
    )
    ne = [
        conv_extent(
            x.ne[i],
            kernel.ne[i],
            params[f"stride{i}"],
            params[f"padding{i}"],
            params[f"dilation{i}"],
        )
        for i in (0, 1)
    ]
    return (TensorType.contiguous(DType.F32, [*ne, kernel.ne[3], x.ne[3]]),)


def conv_2d_dw(types: Types, params: Params) -> tuple[TensorType, ...]:
    """Depthwise: kernel [kw, kh, 1, c] and x [w, h, c, n] give [ow, oh, c, n]."""
    kernel = operand(types, 0, "kernel")
    x = operand(types, 1, "x")
    require(
        dims_equal(kernel.ne[2], 1) and dims_equal(kernel.ne[3], x.ne[2]),
        f"depthwise kernel {describe(kernel)} does not fit {describe(x)}",
    )
    require_dtype(kernel, "kernel", DType.F32)
    require_dtype(x, "x", DType.F32)
    require_contiguous(kernel, "kernel")
    require_contiguous(x, "x")
    ne = [
        conv_extent(
            x.ne[i],
            kernel.ne[i],
            params[f"stride{i}"],
            params[f"padding{i}"],
            params[f"dilation{i}"],
        )
        for i in (0, 1)
    ]
    return (TensorType.contiguous(DType.F32, [*ne, x.ne[2], x.ne[3]]),)


def pool_2d(types: Types, params: Params) -> tuple[TensorType, ...]:
    """x [w, h, c, n] gives [ow, oh, c, n]. Padding never is the maximum, but counts in an average:

    ggml divides by the whole kernel (torch's ``count_include_pad=True``).
    """
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_contiguous(x, "x")
    ne = [
        conv_extent(x.ne[i], params[f"kernel{i}"], params[f"stride{i}"], params[f"padding{i}"], 1)
        for i in (0, 1)
    ]
    return (TensorType.contiguous(DType.F32, [*ne, *x.ne[2:]]),)


def im2col(types: Types, params: Params) -> tuple[TensorType, ...]:
    """x [w, h, c, n] gives [c * kh * kw, ow, oh, n]."""
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_contiguous(x, "x")
    ne = _window_extents(x, params, 2)
    column = simplify_dim(x.ne[2] * params["kernel0"] * params["kernel1"])
    return (TensorType.contiguous(DType.F32, [column, *ne, x.ne[3]]),)


def im2col_3d(types: Types, params: Params) -> tuple[TensorType, ...]:
    """x [w, h, d, c * n] gives [c * kd * kh * kw, ow, oh, od * n]."""
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_contiguous(x, "x")
    channels, images = params["channels"], params["images"]
    require(
        channels > 0 and dims_equal(x.ne[3], channels * images),
        f"{describe(x)} is not {images} images of {channels} channels",
    )
    ne = _window_extents(x, params, 3)
    column = channels * params["kernel0"] * params["kernel1"] * params["kernel2"]
    return (TensorType.contiguous(DType.F32, [column, *ne[:2], simplify_dim(ne[2] * images)]),)


def col2im(types: Types, params: Params) -> tuple[TensorType, ...]:
    """x [c * kh * kw, ow, oh, n] gives [ne0, ne1, c, n]."""
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_contiguous(x, "x")
    _require_window(params, 2)
    window = params["kernel0"] * params["kernel1"]
    column = x.ne[0]
    require(
        isinstance(column, int) and column % window == 0,
        f"rows of {column} are no windows of {window}",
    )
    channels = floor_div(column, window)
    return (TensorType.contiguous(DType.F32, [params["ne0"], params["ne1"], channels, x.ne[3]]),)


def _require_window(params: Params, rank: int) -> None:
    for i in range(rank):
        for name in ("kernel", "stride", "dilation"):
            require(params[f"{name}{i}"] > 0, f"{name}{i} must be positive")
        require(params[f"padding{i}"] >= 0, f"padding{i} must not be negative")


def _window_extents(x: TensorType, params: Params, rank: int) -> list[Dim]:
    """How many windows fit along each of the first dims."""
    _require_window(params, rank)
    names = ("kernel", "stride", "padding", "dilation")
    return [conv_extent(x.ne[i], *(params[f"{name}{i}"] for name in names)) for i in range(rank)]


def upscale(types: Types, params: Params) -> tuple[TensorType, ...]:
    """x [w, h, c, n] gives [ne0, ne1, c, n]."""
    x = operand(types, 0, "x")
    require_dtype(x, "x", DType.F32)
    require_contiguous(x, "x")
    Upscale(params["mode"])
    return (TensorType.contiguous(DType.F32, [params["ne0"], params["ne1"], *x.ne[2:]]),)
