"""Normalizations and distances."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.lowering.cases.base import (
    BF16,
    F16,
    PRODUCT,
    Case,
    S,
    fn,
    host,
    positive,
    r,
    seeded,
)

X = r(2, 3, 4)
X5 = r(2, 6, 2, 3, 4)
X6 = r(2, 1, 3, 2, 2, 4)


def _module(
    name: str, make: Callable[[], nn.Module], inputs: tuple[Any, ...], *ops: str, **more: Any
) -> Case:
    return Case(name, seeded(make), inputs, ops, **{"rtol": PRODUCT, **more})


def _trained(make: Callable[[], nn.Module]) -> nn.Module:
    """A module whose parameters and statistics are not those it starts from."""
    module = seeded(make)
    for index, tensor in enumerate((*module.parameters(), *module.buffers())):
        if tensor.is_floating_point():
            tensor.data.copy_(positive(*tensor.shape) + 0.1 * index)
    return module


LAYER_NORM = [
    _module("layer_norm", lambda: nn.LayerNorm(8), (r(2, 3, 8),), "norm", "mul", "add"),
    _module(
        "layer_norm_two_dims",
        lambda: nn.LayerNorm((3, 8)),
        (r(2, 3, 8),),
        "reshape",
        "norm",
        "reshape",
        "mul",
        "add",
    ),
    Case(
        "layer_norm_trained",
        _trained(lambda: nn.LayerNorm((3, 4), eps=1e-3)),
        (X,),
        rtol=PRODUCT,
    ),
    fn("layer_norm_plain", lambda x: F.layer_norm(x, (4,)), (X,), "norm", rtol=PRODUCT),
    fn("layer_norm_all_dims", lambda x: F.layer_norm(x, (2, 3, 4)), (X,), rtol=PRODUCT),
    fn("layer_norm_weight", lambda x, w: F.layer_norm(x, (4,), w), (X, r(4)), rtol=PRODUCT),
    Case("layer_norm_rank_5", _trained(lambda: nn.LayerNorm((3, 4))), (X5,), rtol=PRODUCT),
    Case("layer_norm_rank_6", _trained(lambda: nn.LayerNorm(4)), (X6,), rtol=PRODUCT),
    fn("layer_norm_of_one", lambda x: F.layer_norm(x, (1,)), (r(2, 3, 2, 2, 1),), rtol=PRODUCT),
    fn(
        "layer_norm_transposed",
        lambda x: F.layer_norm(x.transpose(1, 2), (3,)),
        (X,),
        rtol=PRODUCT,
    ),
    fn("layer_norm_constant_row", lambda x: F.layer_norm(x, (4,)), (torch.ones(2, 4),)),
    fn("layer_norm_large", lambda x: F.layer_norm(x, (4,)), (X * 1e5,), rtol=PRODUCT),
    fn(
        "layer_norm_special",
        lambda x: F.layer_norm(x, (3,)),
        (torch.tensor([[1.0, math.nan, 2.0], [math.inf, 1.0, 2.0], [1.0, 2.0, 4.0]]),),
        rtol=PRODUCT,
    ),
    fn("layer_norm_half", lambda x: F.layer_norm(x, (8,)), (r(2, 8).half() * 300,), rtol=F16),
    fn(
        "layer_norm_dynamic",
        lambda x: F.layer_norm(x, (3, 4)),
        (X,),
        rtol=PRODUCT,
        dynamic_shapes={"args": ({0: S},)},
        others=[(r(1, 3, 4),), (r(16, 3, 4),)],
    ),
    fn(
        "native_layer_norm",
        lambda x, w, b: torch.native_layer_norm(x, (3, 4), w, b, 1e-2),
        (X, r(3, 4), r(3, 4) + 1),
        rtol=PRODUCT,
    ),
]

RMS_NORM = [
    _module("rms_norm", lambda: nn.RMSNorm(8, eps=1e-5), (r(2, 3, 8),), "rms_norm", "mul"),
    Case("rms_norm_two_dims", _trained(lambda: nn.RMSNorm((3, 4), eps=0.1)), (X,), rtol=PRODUCT),
    fn("rms_norm_plain", lambda x: F.rms_norm(x, (4,), eps=1e-6), (X,), "rms_norm", rtol=PRODUCT),
    fn("rms_norm_default_eps", lambda x: F.rms_norm(x, (4,)), (X * 1e-4,), rtol=PRODUCT),
    fn("rms_norm_half_eps", lambda x: F.rms_norm(x, (4,)), (X.half() * 0.05,), rtol=F16),
    fn("rms_norm_rank_5", lambda x: F.rms_norm(x, (3, 4), eps=1e-6), (X5,), rtol=PRODUCT),
    fn("rms_norm_bf16_eps", lambda x: F.rms_norm(x, (4,)), (X.bfloat16() * 1e-3,), rtol=BF16),
    fn("rms_norm_bf16", lambda x: F.rms_norm(x, (4,), eps=1e-5), (X.bfloat16(),), rtol=BF16),
]

CHANNELS = [
    Case(f"group_norm_{name}", _trained(make), (x,), rtol=PRODUCT)
    for name, make, x in (
        ("1_group", lambda: nn.GroupNorm(1, 6), r(2, 6, 4)),
        ("2_groups", lambda: nn.GroupNorm(2, 6, eps=1e-2), r(2, 6, 3, 4)),
        ("each_channel", lambda: nn.GroupNorm(6, 6), r(2, 6, 5)),
        ("no_affine", lambda: nn.GroupNorm(3, 6, affine=False), r(2, 6, 4, 2)),
        ("rank_2", lambda: nn.GroupNorm(2, 6), r(4, 6)),
        ("rank_5", lambda: nn.GroupNorm(3, 6), X5),
    )
]
CHANNELS += [
    Case(
        "group_norm_dynamic",
        _trained(lambda: nn.GroupNorm(2, 4)),
        (r(2, 4, 6),),
        rtol=PRODUCT,
        dynamic_shapes={"input": {0: S}},
        others=[(r(1, 4, 6),), (r(16, 4, 6),)],
    ),
    fn(
        "native_group_norm",
        lambda x, w, b: torch.native_group_norm(x, w, b, 2, 6, 4, 3, 1e-2),
        (r(2, 6, 4), r(6), r(6) + 1),
        rtol=PRODUCT,
    ),
    *(
        Case(f"batch_norm_{name}", _trained(make), (x,), rtol=PRODUCT)
        for name, make, x in (
            ("1d", lambda: nn.BatchNorm1d(3), X),
            ("1d_rank_2", lambda: nn.BatchNorm1d(3), r(4, 3)),
            ("2d_eps", lambda: nn.BatchNorm2d(3, eps=0.1), r(2, 3, 4, 5)),
            ("2d_no_affine", lambda: nn.BatchNorm2d(3, affine=False), r(2, 3, 4, 5)),
            ("3d", lambda: nn.BatchNorm3d(6), X5),
            ("own_statistics", lambda: nn.BatchNorm2d(3, track_running_stats=False), r(2, 3, 4, 5)),
            (
                "own_statistics_plain",
                lambda: nn.BatchNorm1d(3, affine=False, track_running_stats=False),
                r(4, 3),
            ),
            ("own_statistics_3d", lambda: nn.BatchNorm3d(6, track_running_stats=False), X5),
            ("large", lambda: nn.BatchNorm1d(3), X * 1e5),
        )
    ),
    *(
        Case(f"instance_norm_{name}", _trained(make), (x,), rtol=PRODUCT)
        for name, make, x in (
            ("1d", lambda: nn.InstanceNorm1d(3), X),
            ("1d_no_batch", lambda: nn.InstanceNorm1d(3), r(3, 5)),
            ("2d_affine", lambda: nn.InstanceNorm2d(3, affine=True, eps=0.1), r(2, 3, 4, 5)),
            ("2d_running", lambda: nn.InstanceNorm2d(3, track_running_stats=True), r(2, 3, 4, 5)),
            (
                "1d_affine_running",
                lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
                X,
            ),
            ("3d", lambda: nn.InstanceNorm3d(6, affine=True), X5),
        )
    ),
]


def _weight_norm(x: Tensor, v: Tensor, g: Tensor) -> Tensor:
    return F.linear(x, torch._weight_norm(v, g, 0))


def _far_rows(*shape: int) -> Tensor:
    return torch.cat([r(*shape), torch.zeros(1, shape[-1])])


DISTANCES = [
    fn("normalize", lambda x: F.normalize(x, dim=1), (X,), rtol=PRODUCT),
    fn("normalize_zero_row", lambda x: F.normalize(x, dim=-1), (_far_rows(2, 4),), rtol=PRODUCT),
    fn("weight_norm", _weight_norm, (r(2, 4), r(3, 4), r(3, 1)), rtol=PRODUCT),
    fn("cosine_similarity", F.cosine_similarity, (X, X.flip(0)), rtol=PRODUCT),
    fn(
        "cosine_similarity_broadcast",
        lambda a, b: F.cosine_similarity(a[:, None], b, dim=-1),
        (r(3, 4), _far_rows(4, 4)),
        rtol=PRODUCT,
    ),
    fn(
        "cosine_similarity_eps",
        lambda a, b: F.cosine_similarity(a, b, dim=0, eps=3.0),
        (r(3, 4), r(3, 4) + 1),
        rtol=PRODUCT,
    ),
    fn(
        "cosine_similarity_rank_5",
        lambda a, b: F.cosine_similarity(a, b, dim=2),
        (X5, r(6, 1, 3, 4)),
        rtol=PRODUCT,
    ),
    fn("pairwise_distance", F.pairwise_distance, (r(3, 4), r(3, 4) + 1), rtol=PRODUCT),
    fn(
        "pairwise_distance_1_keep",
        lambda a, b: F.pairwise_distance(a, b, p=1.0, eps=0.1, keepdim=True),
        (X, r(4)),
        rtol=PRODUCT,
    ),
    fn("cdist", torch.cdist, (r(2, 3, 4), r(2, 5, 4)), rtol=PRODUCT),
    fn("cdist_many", torch.cdist, (r(30, 4), r(29, 4) + 3), rtol=PRODUCT),
    fn(
        "cdist_close",
        lambda a, b: torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist"),
        (r(30, 4) + 100, r(30, 4) + 100.5),
        rtol=PRODUCT,
    ),
    fn("cdist_1", lambda a, b: torch.cdist(a, b, 1.0), (r(3, 4), r(5, 4)), rtol=PRODUCT),
    host("cdist_inf", lambda a, b: torch.cdist(a, b, math.inf), (r(3, 4), r(5, 4)), rtol=PRODUCT),
    host("cdist_0", lambda a, b: torch.cdist(a, b, 0.0), (r(3, 4), r(3, 4).round()), rtol=PRODUCT),
    fn(
        "cdist_batch_broadcast",
        torch.cdist,
        (r(2, 1, 3, 2, 4), r(5, 1, 3, 4)),
        rtol=PRODUCT,
    ),
    fn("pdist", torch.pdist, (r(4, 3),), rtol=PRODUCT),
    host("pdist_3", lambda x: torch.pdist(x, 3.0), (r(4, 3),), rtol=PRODUCT),
    fn("dist", torch.dist, (r(3, 4), r(4) + 1), rtol=PRODUCT),
    fn("dist_1", lambda a, b: torch.dist(a, b, 1), (r(3, 4), r(3, 4) + 1), rtol=PRODUCT),
]

CASES = [*LAYER_NORM, *RMS_NORM, *CHANNELS, *DISTANCES]
