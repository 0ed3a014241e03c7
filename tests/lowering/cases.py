"""The op table: one row per (operator, semantics)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

#: Element-wise results differ from eager by a few roundings; products and sums by the
#: order of their terms.
ELEMENTWISE = 1e-5
PRODUCT = 1e-4


class Fn(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


@dataclass(frozen=True)
class Case:
    """Module, inputs, what must come out: values within ``rtol`` of eager, and these IR ops.

    ``others`` are further inputs for the same program (dynamic shapes).
    """

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    ops: tuple[str, ...]
    rtol: float = ELEMENTWISE
    dynamic_shapes: Any = None
    others: Sequence[tuple[Any, ...]] = ()


def r(*shape: int) -> Tensor:
    """Reproducible values in a shape."""
    generator = torch.Generator().manual_seed(sum(shape) + 31 * len(shape))
    return torch.randn(shape, generator=generator)


def positive(*shape: int) -> Tensor:
    return r(*shape).abs() + 0.1


def ids(limit: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(limit)
    return torch.randint(0, limit, shape, generator=generator)


def fn(
    name: str,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    *ops: str,
    rtol: float = ELEMENTWISE,
    **more: Any,
) -> Case:
    return Case(name, Fn(function), inputs, ops, rtol, **more)


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


_S = Dim("s", min=1, max=16)

UNARY = [
    fn("abs", torch.abs, (r(3, 5),), "unary"),
    fn("exp", torch.exp, (r(3, 5),), "unary"),
    fn("log", torch.log, (positive(3, 5),), "log"),
    fn("sqrt", torch.sqrt, (positive(3, 5),), "sqrt"),
    fn("sin", torch.sin, (r(3, 5),), "sin"),
    fn("cos", torch.cos, (r(3, 5),), "cos"),
    fn("tanh", torch.tanh, (r(3, 5),), "unary"),
    fn("sigmoid", torch.sigmoid, (r(3, 5),), "unary"),
    fn("relu", torch.relu, (r(3, 5),), "unary"),
    fn("silu", F.silu, (r(3, 5),), "unary"),
    fn("gelu_erf", F.gelu, (r(3, 5),), "unary"),
    fn("floor", torch.floor, (r(3, 5) * 4,), "unary"),
    fn("ceil", torch.ceil, (r(3, 5) * 4,), "unary"),
    fn("trunc", torch.trunc, (r(3, 5) * 4,), "unary"),
    fn("neg", torch.neg, (r(3, 5),), "unary"),
    fn("hardswish", F.hardswish, (r(3, 5) * 4,), "unary"),
    fn("hardsigmoid", F.hardsigmoid, (r(3, 5) * 4,), "unary"),
    fn("leaky_relu", lambda x: F.leaky_relu(x, 0.1), (r(3, 5),), "leaky_relu"),
    fn("clamp", lambda x: x.clamp(-0.5, 0.25), (r(3, 5),), "clamp"),
    fn("clamp_min", lambda x: x.clamp(min=0.1), (r(3, 5),), "clamp"),
    fn("hardtanh", F.hardtanh, (r(3, 5) * 2,), "clamp"),
    fn("relu6", F.relu6, (r(3, 5) * 6,), "clamp"),
    fn("square", torch.square, (r(3, 5),), "sqr"),
    fn("pow_2", lambda x: x**2, (r(3, 5),), "sqr"),
    fn("pow_3", lambda x: x**3, (r(3, 5),), "sqr", "mul"),
    fn("rsqrt", torch.rsqrt, (positive(3, 5),), "sqrt", "repeat", "div"),
    fn("reciprocal", torch.reciprocal, (positive(3, 5),), "repeat", "div"),
    fn("unary_of_transposed", lambda x: torch.exp(x.t()), (r(3, 5),), "permute", "cont", "unary"),
]

GELU_TANH = ("sqr", "mul", "scale", "add", "scale", "unary", "scale", "mul")

BINARY = [
    fn("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), (r(3, 5),), *GELU_TANH),
    fn("add", torch.add, (r(3, 5), r(3, 5)), "add"),
    fn("add_alpha", lambda x, y: torch.add(x, y, alpha=3), (r(3, 5), r(3, 5)), "scale", "add"),
    fn("add_scalar", lambda x: x + 2.5, (r(3, 5),), "scale"),
    fn("sub", torch.sub, (r(3, 5), r(3, 5)), "sub"),
    fn("sub_alpha", lambda x, y: torch.sub(x, y, alpha=2), (r(3, 5), r(3, 5)), "scale", "sub"),
    fn("rsub", lambda x: 2.0 - x, (r(3, 5),), "scale"),
    fn("mul", torch.mul, (r(3, 5), r(3, 5)), "mul"),
    fn("mul_scalar", lambda x: x * 0.3, (r(3, 5),), "scale"),
    fn("div", torch.div, (r(3, 5), positive(3, 5)), "div"),
    fn("div_by_power_of_two", lambda x: x / 8, (r(3, 5),), "scale"),
    fn("div_scalar", lambda x: x / 3, (r(3, 5),), "div"),
    fn("broadcast_row", torch.add, (r(4, 3, 5), r(5)), "add"),
    fn("broadcast_column", torch.mul, (r(4, 3, 5), r(3, 1)), "mul"),
    fn("broadcast_first", torch.sub, (r(5), r(4, 3, 5)), "repeat", "sub"),
    fn("broadcast_both", torch.add, (r(3, 1), r(1, 5)), "repeat", "add"),
    fn("broadcast_scalar_tensor", torch.mul, (r(3, 5), r()), "mul"),
    fn("add_transposed", lambda x, y: x.t() + y, (r(3, 5), r(5, 3)), "permute", "cont", "add"),
    fn(
        "add_dynamic",
        torch.add,
        (r(4, 5), r(5)),
        "add",
        dynamic_shapes={"args": ({0: _S}, None)},
        others=[(r(1, 5), r(5)), (r(16, 5), r(5))],
    ),
]

VIEWS = [
    fn("view", lambda x: x.view(5, 6) + 1, (r(2, 3, 5),), "reshape", "scale"),
    fn("flatten", lambda x: x.flatten(1) + 1, (r(2, 3, 5),), "reshape", "scale"),
    fn("unsqueeze", lambda x: x.unsqueeze(1) + 1, (r(3, 5),), "reshape", "scale"),
    fn("squeeze", lambda x: x.squeeze(1) + 1, (r(3, 1, 5),), "reshape", "scale"),
    fn("permute", lambda x: x.permute(2, 0, 1) + 1, (r(2, 3, 5),), "permute", "cont", "scale"),
    fn("permute_twice", lambda x: x.permute(2, 0, 1).permute(1, 2, 0) + 1, (r(2, 3, 5),), "scale"),
    fn("slice_rows", lambda x: x[1:3] + 1, (r(4, 5),), "view", "scale"),
    fn("slice_columns", lambda x: x[:, 1:4] + 1, (r(4, 5),), "view", "cont", "scale"),
    fn("slice_negative", lambda x: x[-2:] + 1, (r(4, 5),), "view", "scale"),
    fn("slice_step_rows", lambda x: x[::2] + 1, (r(5, 4),), "view", "cont", "scale"),
    fn(
        "slice_step_columns",
        lambda x: x[:, 1::2] + 1,
        (r(4, 6),),
        "view",
        "cont",
        "reshape",
        "scale",
    ),
    fn("slice_of_slice", lambda x: x[1:4, 1:3] + 1, (r(5, 4),), "view", "cont", "scale"),
    fn("select", lambda x: x[:, 2] + 1, (r(3, 5),), "view", "permute", "cont", "scale"),
    fn("select_last", lambda x: x[-1] + 1, (r(3, 5),), "view", "scale"),
    fn("cat_rows", lambda x, y: torch.cat([x, y]) + 1, (r(2, 5), r(3, 5)), "concat", "scale"),
    fn(
        "cat_columns", lambda x, y: torch.cat([x, y], -1) + 1, (r(2, 3), r(2, 5)), "concat", "scale"
    ),
    fn("stack", lambda x, y: torch.stack([x, y], 1) * 2, (r(2, 3), r(2, 3)), rtol=ELEMENTWISE),
    fn("split", lambda x: torch.split(x, [2, 3], 1)[1] + 1, (r(4, 5),), "view", "cont", "scale"),
    fn("chunk", lambda x: x.chunk(2, -1)[0] * x.chunk(2, -1)[1], (r(4, 6),), "view", "view", "mul"),
    fn("expand", lambda x: x.expand(4, 3, 5) + 1, (r(3, 5),), "repeat", "scale"),
    fn("repeat", lambda x: x.repeat(2, 3) + 1, (r(3, 5),), "repeat", "scale"),
    fn("pad", lambda x: F.pad(x, (1, 2, 0, 1)) + 1, (r(3, 5),), "pad", "scale"),
    fn("rank_5", lambda x: x[:, :, None].expand(1, 2, 3, 4, 5) + 1, (r(1, 2, 4, 5),)),
    fn("transpose_of_rank_5", lambda x: x.transpose(1, 3).exp(), (r(2, 3, 1, 4, 5),)),
    fn("rank_0", lambda x: x * 2, (r(),), "scale"),
]

PRODUCTS = [
    Case("linear", _seeded(lambda: nn.Linear(8, 6)), (r(3, 8),), ("mul_mat", "add"), PRODUCT),
    Case("linear_rank_1", _seeded(lambda: nn.Linear(8, 6)), (r(8),), ("mul_mat", "add"), PRODUCT),
    Case(
        "linear_rank_4",
        _seeded(lambda: nn.Linear(10, 3)),
        (r(1, 2, 3, 10),),
        ("mul_mat", "add"),
        PRODUCT,
    ),
    Case(
        "linear_no_bias",
        _seeded(lambda: nn.Linear(8, 6, bias=False)),
        (r(3, 8),),
        ("mul_mat",),
        PRODUCT,
    ),
    fn("mm", torch.mm, (r(3, 8), r(8, 5)), "permute", "cont", "mul_mat", rtol=PRODUCT),
    fn("mm_transposed", lambda a, b: a @ b.t(), (r(3, 8), r(5, 8)), "mul_mat", rtol=PRODUCT),
    fn("bmm", torch.bmm, (r(4, 3, 8), r(4, 8, 5)), "permute", "cont", "mul_mat", rtol=PRODUCT),
    fn("matmul_batch", torch.matmul, (r(2, 3, 4, 8), r(2, 3, 8, 5)), rtol=PRODUCT),
    fn("matmul_broadcast_w", torch.matmul, (r(2, 3, 4, 8), r(8, 5)), rtol=PRODUCT),
    fn("matmul_broadcast_x", torch.matmul, (r(4, 8), r(3, 8, 5)), rtol=PRODUCT),
    fn("matmul_vector", torch.matmul, (r(4, 8), r(8)), "mul_mat", "reshape", rtol=PRODUCT),
    fn("addmm", torch.addmm, (r(5), r(3, 8), r(8, 5)), rtol=PRODUCT),
    fn(
        "addmm_scaled",
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0),
        (r(5), r(3, 8), r(8, 5)),
        rtol=PRODUCT,
    ),
]

NORMS = [
    Case(
        "layer_norm",
        _seeded(lambda: nn.LayerNorm(8)),
        (r(2, 3, 8),),
        ("norm", "mul", "add"),
        PRODUCT,
    ),
    Case(
        "layer_norm_two_dims",
        _seeded(lambda: nn.LayerNorm((3, 8))),
        (r(2, 3, 8),),
        ("reshape", "norm", "reshape", "mul", "add"),
        PRODUCT,
    ),
    Case(
        "rms_norm",
        _seeded(lambda: nn.RMSNorm(8, eps=1e-5)),
        (r(2, 3, 8),),
        ("rms_norm", "mul"),
        PRODUCT,
    ),
    fn("softmax", lambda x: x.softmax(-1), (r(2, 3, 8),), "soft_max"),
    fn(
        "softmax_dim_0",
        lambda x: x.softmax(0),
        (r(4, 3),),
        "permute",
        "cont",
        "soft_max",
        "permute",
        "cont",
    ),
    fn("mean_last", lambda x: x.mean(-1), (r(2, 3, 8),), "mean_rows", "reshape", rtol=PRODUCT),
    fn(
        "mean_keepdim", lambda x: x.mean(-1, keepdim=True), (r(2, 3, 8),), "mean_rows", rtol=PRODUCT
    ),
    fn("mean_two_dims", lambda x: x.mean((2, 3)), (r(2, 3, 4, 5),), rtol=PRODUCT),
    fn("mean_first_dim", lambda x: x.mean(0), (r(4, 3),), rtol=PRODUCT),
    fn("mean_all", torch.mean, (r(4, 3),), rtol=PRODUCT),
    fn("sum_last", lambda x: x.sum(-1), (r(2, 3, 8),), "sum_rows", "reshape", rtol=PRODUCT),
    fn("sum_middle", lambda x: x.sum(1), (r(2, 3, 8),), rtol=PRODUCT),
]


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


_QKV = (r(2, 4, 6, 8), r(2, 4, 7, 8), r(2, 4, 7, 8))
_SQUARE = (r(2, 4, 6, 8), r(2, 4, 6, 8) * 0.5, r(2, 4, 6, 8) + 1)

ATTENTION = [
    fn("sdpa", F.scaled_dot_product_attention, _QKV, rtol=PRODUCT),
    fn("sdpa_causal", _causal, _SQUARE, rtol=PRODUCT),
    fn("sdpa_float_mask", _masked, (*_QKV, r(6, 7)), rtol=PRODUCT),
    fn("sdpa_bool_mask", _masked, (*_QKV, r(2, 1, 6, 7) > -1), rtol=PRODUCT),
    fn("sdpa_grouped", _grouped, (r(2, 4, 6, 8), r(2, 2, 7, 8), r(2, 2, 7, 8)), rtol=PRODUCT),
    fn(
        "sdpa_rank_3",
        F.scaled_dot_product_attention,
        (r(4, 6, 8), r(4, 7, 8), r(4, 7, 8)),
        rtol=PRODUCT,
    ),
]


class _Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(11, 6)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)


ROWS = [
    Case("embedding", _Embedding(), (ids(11, 7),), ("get_rows",)),
    Case("embedding_rank_2", _Embedding(), (ids(11, 2, 3),), ("reshape", "get_rows", "reshape")),
    Case("embedding_int32", _Embedding(), (ids(11, 7).int(),), ("get_rows",)),
    fn(
        "index_select",
        lambda x, i: x.index_select(0, i) + 1,
        (r(5, 4), ids(5, 3)),
        "get_rows",
        "scale",
    ),
    fn("int_to_float", lambda i: i.float() * 2, (ids(11, 7),), "cast", "scale"),
]

IMAGES = [
    Case(
        "conv2d",
        _seeded(lambda: nn.Conv2d(3, 4, 3, padding=1)),
        (r(2, 3, 7, 6),),
        ("conv_2d", "reshape", "add"),
        PRODUCT,
    ),
    Case(
        "conv2d_stride",
        _seeded(lambda: nn.Conv2d(3, 4, (3, 2), stride=(2, 1), dilation=(1, 2), bias=False)),
        (r(2, 3, 9, 8),),
        ("conv_2d",),
        PRODUCT,
    ),
    Case(
        "conv2d_depthwise",
        _seeded(lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1)),
        (r(2, 4, 7, 6),),
        ("conv_2d_dw", "reshape", "add"),
        PRODUCT,
    ),
    Case(
        "conv1d",
        _seeded(lambda: nn.Conv1d(3, 4, 3, padding=1, stride=2)),
        (r(2, 3, 9),),
        (),
        PRODUCT,
    ),
    Case("max_pool2d", nn.MaxPool2d(2), (r(2, 3, 6, 8),), ("pool_2d",)),
    Case("max_pool2d_padding", nn.MaxPool2d(3, 2, 1), (r(2, 3, 7, 8),), ("pool_2d",)),
    Case("avg_pool2d", nn.AvgPool2d(2), (r(2, 3, 6, 8),), ("pool_2d",), PRODUCT),
    Case("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d(1), (r(2, 3, 6, 8),), (), PRODUCT),
    Case("batch_norm", _seeded(lambda: nn.BatchNorm2d(3)), (r(2, 3, 6, 8),), (), PRODUCT),
]

CASES = [*UNARY, *BINARY, *VIEWS, *PRODUCTS, *NORMS, *ATTENTION, *ROWS, *IMAGES]
