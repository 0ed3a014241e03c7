"""Functions of one and two values."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.lowering.cases.base import (
    S,
    fn,
    positive,
    r,
)

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
        dynamic_shapes={"args": ({0: S}, None)},
        others=[(r(1, 5), r(5)), (r(16, 5), r(5))],
    ),
]


CASES = [*UNARY, *BINARY]
