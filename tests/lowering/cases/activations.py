"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.lowering.cases.base import BF16, F16, Case, S, each, fn, host, ids, r, seeded

X = r(3, 5)
#: On both sides of the limits of shrinking functions, and at them.
LIMITS = torch.tensor([0.5, -0.5, 0.51, -0.51, 0.1, 0.05, 3.0])
GELU_TANH = ("sqr", "mul", "scale", "add", "scale", "unary", "scale", "mul")
MISH = ("clamp", "unary", "scale", "mul", "scale", "div", "mul")

#: Name, function, input, and ggml's calls.
_GGML: tuple[tuple[str, Callable[[Tensor], Tensor], Tensor, tuple[str, ...]], ...] = (
    ("relu", F.relu, X, ("unary",)),
    ("silu", F.silu, X, ("unary",)),
    ("gelu_erf", F.gelu, X, ("unary",)),
    ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), X, GELU_TANH),
    ("hardswish", F.hardswish, X * 4, ("unary",)),
    ("hardsigmoid", F.hardsigmoid, X * 4, ("unary",)),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.1), X, ("leaky_relu",)),
    ("leaky_relu_default", F.leaky_relu, X, ("leaky_relu",)),
    ("leaky_relu_negative_slope", lambda x: F.leaky_relu(x, -2.0), X, ("leaky_relu",)),
    ("rrelu_eval", lambda x: F.rrelu(x, 0.1, 0.3), X, ("leaky_relu",)),
    ("elu", F.elu, X, ("unary",)),
    ("elu_alpha", lambda x: F.elu(x, 0.5), X, ("unary", "leaky_relu")),
    ("elu_negative_alpha", lambda x: F.elu(x, -1.5), X, ("unary", "leaky_relu")),
    ("selu", F.selu, X, ("unary", "leaky_relu", "scale")),
    ("celu", F.celu, X, ("unary",)),
    ("mish", F.mish, X * 4, MISH),
    ("softsign", F.softsign, X, ("unary", "scale", "div")),
    ("tanhshrink", F.tanhshrink, X, ("unary", "sub")),
    ("hardtanh", F.hardtanh, X * 2, ("clamp",)),
    ("hardtanh_limits", lambda x: F.hardtanh(x, -0.5, 2.0), X * 2, ("clamp",)),
    ("relu6", F.relu6, X * 6, ("clamp",)),
    ("clamp", lambda x: x.clamp(-0.5, 0.25), X, ("clamp",)),
    ("clamp_min", lambda x: x.clamp(min=0.1), X, ("clamp",)),
    ("clamp_max", lambda x: x.clamp(max=0.1), X, ("clamp",)),
    ("clamp_crossed", lambda x: x.clamp(1.0, -1.0), X, ("clamp",)),
    ("clamp_min_method", lambda x: x.clamp_min(-0.1), X, ("clamp",)),
    ("clamp_max_method", lambda x: x.clamp_max(-0.1), X, ("clamp",)),
    ("glu_last", F.glu, r(3, 6), ()),
    ("glu_first", lambda x: F.glu(x, 0), r(4, 5), ()),
    ("silu_of_transposed", lambda x: F.silu(x.t()), X, ("permute", "cont", "unary")),
    ("relu_rank_6", F.relu, r(2, 1, 3, 2, 1, 2), ("unary",)),
    ("gelu_rank_0", F.gelu, r(), ("unary",)),
    ("clamp_of_i64_to_float", lambda x: x.clamp(0.5, 3.5), ids(9, 3, 5), ("cast", "clamp")),
)

_HOST: tuple[tuple[str, Callable[..., object], Tensor], ...] = (
    ("elu_input_scale", lambda x: torch.ops.aten.elu(x, 0.5, 2.0, 3.0), X),
    ("celu_alpha", lambda x: (F.celu(x, 1.5), F.celu(x, -0.5)), X),
    ("softplus", lambda x: (F.softplus(x), F.softplus(x, 2.0), F.softplus(x, 1.0, 1.0)), X * 4),
    ("log_sigmoid", F.logsigmoid, X * 4),
    ("threshold", lambda x: (F.threshold(x, 0.1, 20.0), F.threshold(x, 0.5, -1.0)), LIMITS),
    # torch takes these two apart before any partitioner is asked.
    ("hardshrink", lambda x: (F.hardshrink(x), F.hardshrink(x, 0.1)), LIMITS),
    ("softshrink", lambda x: (F.softshrink(x), F.softshrink(x, 0.1)), LIMITS),
)

PRELU = ("unary", "unary", "unary", "mul", "sub")

OTHERS = [
    Case("prelu_shared", seeded(lambda: nn.PReLU()), (X,), PRELU),
    Case("prelu_per_channel", seeded(lambda: nn.PReLU(4, 0.3)), (r(2, 4, 3),)),
    fn("prelu_weights", F.prelu, (r(2, 4, 3, 3), r(4))),
    fn("prelu_rank_1", F.prelu, (r(6), r(1)), *PRELU),
    fn("prelu_rank_5", F.prelu, (r(2, 3, 2, 2, 2), r(3))),
    fn("dropout_eval", lambda x: F.dropout(x, 0.5, training=False) + 1, (X,), "scale"),
    fn(
        "silu_dynamic",
        F.silu,
        (r(4, 5),),
        "unary",
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 5),), (r(16, 5),)],
    ),
    host(
        "softplus_dynamic",
        F.softplus,
        (r(4, 5),),
        "host_unary",
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 5),), (r(16, 5),)],
    ),
    host(
        "clamp_tensor", torch.clamp, (X, r(3, 5) - 0.5, r(3, 5) + 0.5), "host_binary", "host_binary"
    ),
    host(
        "clamp_tensor_one_side",
        lambda x, y, z: (x.clamp(min=y), x.clamp_max(z)),
        (X, r(5), r(3, 1)),
    ),
    host("clamp_tensor_crossed", torch.clamp, (X, torch.ones(5), -torch.ones(5))),
    host(
        "clamp_by_a_size",
        lambda x: (x.clamp(-0.5, x.shape[0] - 3), x.long().clamp(max=x.shape[0] - 1)),
        (r(4, 5) * 9,),
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 5) * 3,), (r(16, 5) * 9,)],
    ),
]


def _halves() -> list[Case]:
    found: list[Case] = []
    for dtype, name, tolerance in ((torch.float16, "f16", F16), (torch.bfloat16, "bf16", BF16)):
        x = X.to(dtype)
        for n, f in (
            ("relu", F.relu),
            ("silu", F.silu),
            ("gelu_erf", F.gelu),
            ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
            ("hardswish", F.hardswish),
            ("elu", F.elu),
            ("mish", F.mish),
            ("leaky_relu", F.leaky_relu),
            ("relu6", F.relu6),
        ):
            found.append(fn(f"{n}_{name}", f, (x,), rtol=tolerance))
        soft = each(F.softplus, F.logsigmoid)
        jumps = each(lambda x: F.hardshrink(x, 0.1), lambda x: F.threshold(x, 0.1, 2.0))
        limits = torch.tensor([0.1, 0.3, -0.1, -0.3]).to(dtype)
        found += [
            host(f"softplus_{name}", soft, (x,), rtol=tolerance),
            host(f"thresholds_{name}", jumps, (limits,), rtol=0.0),
        ]
    return found


CASES = [
    *(fn(name, function, (x,), *ops) for name, function, x, ops in _GGML),
    *(host(name, function, (x,)) for name, function, x in _HOST),
    *OTHERS,
    *_halves(),
]
