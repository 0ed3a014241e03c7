"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.lowering.cases.base import (
    BF16,
    F16,
    PRODUCT,
    Case,
    fn,
    r,
    seeded,
)

_M = Dim("m", min=1, max=32)
_K = Dim("k", min=2, max=64)
_N = Dim("n", min=1, max=16)

LINEAR = [
    Case("linear", seeded(lambda: nn.Linear(8, 6)), (r(3, 8),), ("mul_mat", "add"), PRODUCT),
    Case("linear_rank_1", seeded(lambda: nn.Linear(8, 6)), (r(8),), ("mul_mat", "add"), PRODUCT),
    Case(
        "linear_rank_4",
        seeded(lambda: nn.Linear(10, 3)),
        (r(1, 2, 3, 10),),
        ("mul_mat", "add"),
        PRODUCT,
    ),
    Case("linear_rank_6", seeded(lambda: nn.Linear(8, 3)), (r(2, 1, 3, 2, 2, 8),), (), PRODUCT),
    Case(
        "linear_no_bias",
        seeded(lambda: nn.Linear(8, 6, bias=False)),
        (r(3, 8),),
        ("mul_mat",),
        PRODUCT,
    ),
    fn("linear_of_one", F.linear, (r(3, 1), r(5, 1), r(5)), rtol=PRODUCT),
    fn("linear_of_one_rank_5", F.linear, (r(2, 2, 2, 2, 1), r(5, 1), r(5)), rtol=PRODUCT),
    fn("linear_to_one", F.linear, (r(3, 8), r(1, 8), r(1)), rtol=PRODUCT),
    fn(
        "linear_computed_weight",
        lambda x, w: F.linear(x, w.exp()),
        (r(3, 8), r(5, 8)),
        rtol=PRODUCT,
    ),
    fn("linear_transposed_input", lambda x, w: F.linear(x.t(), w), (r(8, 3), r(5, 8))),
    fn("linear_transposed_weight", lambda x, w: F.linear(x, w.t()), (r(3, 8), r(8, 5))),
    fn(
        "linear_sliced_input",
        lambda x, w: F.linear(x[:, 2:10], w),
        (r(3, 12), r(5, 8)),
        "view",
        "mul_mat",
        rtol=PRODUCT,
    ),
    fn("linear_expanded_input", lambda x, w: F.linear(x.expand(4, 3, 8), w), (r(3, 8), r(5, 8))),
    fn("linear_long", F.linear, (r(2, 4099), r(3, 4099)), "mul_mat", rtol=PRODUCT, atol=1e-3),
    # Rounding the weights or the rows to BF16 or F16 anywhere would show.
    fn("linear_large", F.linear, (r(64, 512), r(128, 512)), "mul_mat", rtol=PRODUCT),
    fn("linear_nan", F.linear, (r(3, 8).log(), r(5, 8)), "mul_mat", rtol=PRODUCT),
    fn(
        "linear_infinite",
        F.linear,
        (torch.tensor([[math.inf, 1.0], [-math.inf, 1.0], [1.0, math.inf]]), r(5, 2)),
        "mul_mat",
    ),
    fn("linear_past_half", F.linear, (r(3, 8) * 1e6, r(5, 8) * 1e6), "mul_mat", atol=1e7),
    fn("linear_denormal", F.linear, (r(3, 8) * 1e-36, r(5, 8) * 1e-3), "mul_mat", atol=1e-43),
    fn(
        "linear_dynamic_rows",
        F.linear,
        (r(4, 3, 8), r(5, 8)),
        "mul_mat",
        rtol=PRODUCT,
        dynamic_shapes={"args": ({0: _M, 1: _K}, {0: _N})},
        others=[(r(1, 2, 8), r(1, 8)), (r(32, 64, 8), r(16, 8))],
    ),
    fn(
        "linear_dynamic_rank_5",
        F.linear,
        (r(4, 3, 2, 2, 8), r(5, 8)),
        rtol=PRODUCT,
        dynamic_shapes={"args": ({0: _M, 1: _K}, {0: _N})},
        others=[(r(1, 2, 2, 2, 8), r(1, 8))],
    ),
    fn("bilinear", F.bilinear, (r(3, 4), r(3, 5), r(6, 4, 5), r(6)), rtol=PRODUCT),
    fn("bilinear_no_bias", F.bilinear, (r(2, 3, 4), r(2, 3, 5), r(6, 4, 5)), rtol=PRODUCT),
]


def _linear(dtype: torch.dtype) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(64, 6).to(dtype)


class _Widened(nn.Module):
    """A product in F32 with weights kept in half precision."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = _linear(dtype)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.layer.weight.float(), self.layer.bias.float())


_HALF = (("half", torch.float16, F16), ("bfloat16", torch.bfloat16, BF16))

HALF = [
    case
    for name, dtype, rtol in _HALF
    for case in (
        Case(
            f"linear_{name}",
            _linear(dtype),
            (r(3, 64).to(dtype),),
            (),
            rtol,
        ),
        Case(f"linear_{name}_widened", _Widened(dtype), (r(3, 64),), (), 1e-5),
        Case(f"linear_{name}_widened_large", _Widened(dtype), (r(3, 64) * 1e5,), (), 1e-5, atol=1),
        fn(f"mm_{name}", torch.mm, (r(3, 8).to(dtype), r(8, 5).to(dtype)), rtol=rtol),
        # The sum leaves half precision's range on the way, the result does not.
        fn(
            f"linear_{name}_accumulates",
            F.linear,
            (
                torch.tensor([[300.0, 300.0, -300.0]], dtype=dtype),
                torch.full((1, 3), 300.0).to(dtype),
            ),
            "mul_mat",
            rtol=rtol,
        ),
        fn(
            f"addmm_{name}",
            lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0),
            (r(5).to(dtype), r(3, 8).to(dtype), r(8, 5).to(dtype)),
            rtol=rtol,
        ),
        fn(f"bmm_{name}", torch.bmm, (r(2, 3, 8).to(dtype), r(2, 8, 5).to(dtype)), rtol=rtol),
    )
]

_NAN = math.nan


class _Stored(nn.Module):
    """A product with a weight ``[k, n]``, which is stored as ggml reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(r(8, 5))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


PRODUCTS = [
    fn("mm", torch.mm, (r(3, 8), r(8, 5)), "permute", "cont", "mul_mat", rtol=PRODUCT),
    Case("mm_stored", _Stored(), (r(3, 8),), ("mul_mat",), PRODUCT),
    fn("mm_transposed", lambda a, b: a @ b.t(), (r(3, 8), r(5, 8)), "mul_mat", rtol=PRODUCT),
    fn("mm_both_transposed", lambda a, b: a.t() @ b.t(), (r(8, 3), r(5, 8)), rtol=PRODUCT),
    fn("mm_inner_one", torch.mm, (r(6, 1), r(1, 5)), "permute", "mul_mat", rtol=PRODUCT),
    fn("mm_outer_one", torch.mm, (r(1, 8), r(8, 1)), "permute", "mul_mat", rtol=PRODUCT),
    fn("mm_with_itself", lambda a: a @ a.t() + a @ a, (r(5, 5),), rtol=PRODUCT),
    fn(
        "mm_dynamic",
        torch.mm,
        (r(3, 8), r(8, 5)),
        "permute",
        "cont",
        "mul_mat",
        rtol=PRODUCT,
        dynamic_shapes={"args": ({0: _M, 1: _K}, {0: _K, 1: _N})},
        others=[(r(1, 2), r(2, 1)), (r(32, 64), r(64, 16))],
    ),
    fn("bmm", torch.bmm, (r(4, 3, 8), r(4, 8, 5)), "permute", "cont", "mul_mat", rtol=PRODUCT),
    fn("bmm_transposed", lambda a, b: a @ b.mT, (r(4, 3, 8), r(4, 5, 8)), rtol=PRODUCT),
    fn(
        "bmm_expanded",
        lambda a, b: torch.bmm(a, b.expand(4, 8, 5)),
        (r(4, 3, 8), r(1, 8, 5)),
        rtol=PRODUCT,
    ),
    fn(
        "bmm_dynamic_batch",
        torch.bmm,
        (r(4, 3, 8), r(4, 8, 5)),
        rtol=PRODUCT,
        dynamic_shapes={"args": ({0: _M}, {0: _M})},
        others=[(r(1, 3, 8), r(1, 8, 5)), (r(32, 3, 8), r(32, 8, 5))],
    ),
    fn("mv", torch.mv, (r(3, 8), r(8)), "mul", "sum_rows", "reshape", rtol=PRODUCT),
    fn("dot", torch.dot, (r(8), r(8) + 1), "mul", "sum_rows", rtol=PRODUCT),
    fn("inner", torch.inner, (r(3, 8), r(5, 8)), "mul_mat", rtol=PRODUCT),
    fn("outer", torch.outer, (r(3), r(5)), rtol=PRODUCT),
    fn("kron", torch.kron, (r(2, 3), r(3, 2)), rtol=PRODUCT),
    fn("matrix_power", lambda a: torch.matrix_power(a, 3), (r(4, 4),), rtol=PRODUCT),
    fn("multi_dot", lambda *m: torch.linalg.multi_dot(m), (r(2, 3), r(3, 4), r(4, 5))),
]

#: Operands of ``matmul``: vectors, matrices, batches that broadcast either way.
_SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((8,), (8,)),
    ((8,), (8, 5)),
    ((3, 8), (8,)),
    ((8,), (2, 8, 5)),
    ((2, 3, 8), (8,)),
    ((2, 3, 8), (8, 5)),
    ((3, 8), (2, 8, 5)),
    ((2, 1, 3, 8), (4, 8, 5)),
    ((1, 4, 3, 8), (2, 1, 8, 5)),
    ((2, 4, 3, 8), (4, 8, 5)),
    ((4, 3, 8), (2, 4, 8, 5)),
    ((2, 3, 4, 8), (2, 3, 8, 5)),
    ((2, 3, 2, 3, 8), (8, 5)),
    ((2, 3, 1, 3, 8), (2, 1, 2, 8, 5)),
    ((2, 2, 2, 2, 3, 8), (2, 1, 2, 1, 8, 5)),
    ((2, 2, 2, 2, 1), (1, 5)),
    ((2, 1, 2, 2, 1, 3), (3,)),
    ((8,), (2, 2, 2, 8, 5)),
]

MATMUL = [
    *(
        fn(f"matmul_{'x'.join(map(str, a))}_{'x'.join(map(str, b))}", torch.matmul, (r(*a), r(*b)))
        for a, b in _SHAPES
    ),
    fn("matmul_vector_calls", torch.matmul, (r(4, 8), r(8)), "mul_mat", "reshape", rtol=PRODUCT),
    fn(
        "matmul_dynamic_batch",
        torch.matmul,
        (r(4, 2, 3, 8), r(2, 8, 5)),
        rtol=PRODUCT,
        dynamic_shapes={"args": ({0: _M, 2: _K}, {})},
        others=[(r(1, 2, 2, 8), r(2, 8, 5))],
    ),
    fn("einsum_batched", lambda a, b: torch.einsum("bik,bkj->bij", a, b), (r(2, 3, 4), r(2, 4, 5))),
    fn(
        "einsum_heads",
        lambda a, b: torch.einsum("bhqd,bkhd->bhqk", a, b),
        (r(2, 3, 4, 5), r(2, 6, 3, 5)),
        rtol=PRODUCT,
    ),
    fn("einsum_outer", lambda a, b: torch.einsum("i,j->ij", a, b), (r(3), r(4))),
    fn(
        "einsum_two_sums",
        lambda a, b: torch.einsum("bijk,jkl->bil", a, b),
        (r(2, 3, 4, 5), r(4, 5, 6)),
        rtol=PRODUCT,
    ),
    fn(
        "einsum_three_operands",
        lambda a, b, c: torch.einsum("bi,ij,bj->b", a, b, c),
        (r(2, 3), r(3, 4), r(2, 4)),
        rtol=PRODUCT,
    ),
    fn(
        "einsum_rank_5",
        lambda a, b: torch.einsum("bhwqd,hwkd->bhwqk", a, b),
        (r(2, 3, 2, 4, 5), r(3, 2, 6, 5)),
        rtol=PRODUCT,
    ),
    fn("einsum_transposes", lambda a: torch.einsum("ij->ji", a) * 2, (r(3, 4),)),
    fn("tensordot", lambda a, b: torch.tensordot(a, b, 2), (r(3, 4, 5), r(4, 5, 6)), rtol=PRODUCT),
    fn(
        "tensordot_dims",
        lambda a, b: torch.tensordot(a, b, ([0, 1], [1, 0])),
        (r(3, 4, 5), r(4, 3, 6)),
        rtol=PRODUCT,
    ),
    fn("chain_matmul", lambda a, b, c: a @ b @ c, (r(2, 3), r(3, 4), r(4, 5)), rtol=PRODUCT),
]


def _scaled(function: str, beta: float, alpha: float) -> Callable[..., Tensor]:
    return lambda c, a, b: getattr(torch, function)(c, a, b, beta=beta, alpha=alpha)


#: Each function with operands of its ranks.
_ADDED: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ("addmm", (5,), (3, 8), (8, 5)),
    ("addmv", (3,), (3, 8), (8,)),
    ("baddbmm", (4, 3, 5), (4, 3, 8), (4, 8, 5)),
    ("addbmm", (3, 5), (4, 3, 8), (4, 8, 5)),
    ("addr", (3, 5), (3,), (5,)),
]

ADDED = [
    *(
        case
        for name, c, a, b in _ADDED
        for case in (
            fn(name, getattr(torch, name), (r(*c), r(*a), r(*b)), rtol=PRODUCT),
            fn(f"{name}_scaled", _scaled(name, 0.5, 2.0), (r(*c), r(*a), r(*b)), rtol=PRODUCT),
            fn(f"{name}_negative", _scaled(name, -1.0, -3.0), (r(*c), r(*a), r(*b)), rtol=PRODUCT),
            fn(f"{name}_beta_0", _scaled(name, 0.0, 2.0), (torch.full(c, _NAN), r(*a), r(*b))),
            fn(f"{name}_alpha_0", _scaled(name, 2.0, 0.0), (r(*c), r(*a), r(*b)), rtol=PRODUCT),
        )
    ),
    fn("addmm_matrix", torch.addmm, (r(3, 5), r(3, 8), r(8, 5)), rtol=PRODUCT),
    fn("addmm_column", torch.addmm, (r(3, 1), r(3, 8), r(8, 5)), rtol=PRODUCT),
    fn("addmm_number", torch.addmm, (r(), r(3, 8), r(8, 5)), rtol=PRODUCT),
    fn("addmm_transposed", lambda c, a, b: torch.addmm(c, a.t(), b.t()), (r(5), r(8, 3), r(5, 8))),
    fn(
        "addmm_dynamic",
        _scaled("addmm", 0.5, 2.0),
        (r(5), r(3, 8), r(8, 5)),
        rtol=PRODUCT,
        dynamic_shapes={"args": (None, {0: _M, 1: _K}, {0: _K})},
        others=[(r(5), r(1, 2), r(2, 5))],
    ),
    fn("baddbmm_broadcast", torch.baddbmm, (r(1, 3, 1), r(4, 3, 8), r(4, 8, 5)), rtol=PRODUCT),
    fn("addmv_number", torch.addmv, (r(1), r(3, 8), r(8)), rtol=PRODUCT),
]

CASES = [*LINEAR, *HALF, *PRODUCTS, *MATMUL, *ADDED]
