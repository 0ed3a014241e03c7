"""Shapes, slices, concatenation."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.lowering.cases.base import (
    ELEMENTWISE,
    fn,
    r,
)

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


CASES = [*VIEWS]
