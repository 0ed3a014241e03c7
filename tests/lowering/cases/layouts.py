"""Arguments in another order of dims, results in theirs."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim

from tests.lowering.cases.base import EXACT, PRODUCT, Case, S, fn, ids, r, seeded, sizes

move = partial(fn, rtol=EXACT)


def _last(x: Tensor) -> Tensor:
    """Channels innermost in memory."""
    return x.to(memory_format=torch.channels_last)


IMAGE = _last(r(2, 3, 4, 5))

LAYOUTS = [
    move("channels_last_input", lambda x: x.contiguous(), (IMAGE,), "permute", "cont"),
    move(
        "channels_last_output", lambda x: x.to(memory_format=torch.channels_last), (r(2, 3, 4, 5),)
    ),
    move(
        "channels_last_through",
        lambda x: x * 2,
        (IMAGE,),
        "permute",
        "cont",
        "scale",
        "permute",
        "cont",
    ),
    move("channels_last_as_it_is", lambda x: x.clone(), (IMAGE,)),
    move("channels_last_of_ints", lambda x: x.contiguous(), (_last(ids(9, 2, 3, 4, 5)),)),
    move("channels_last_of_half", lambda x: x.contiguous(), (_last(r(2, 3, 4, 5).half()),)),
    move("channels_last_one_channel", lambda x: x * 2, (_last(r(2, 1, 4, 5)),)),
    move("channels_last_one_image", lambda x: x * 2, (_last(r(1, 3, 4, 5)),)),
    move("channels_last_one_pixel", lambda x: x * 2, (_last(r(2, 3, 1, 1)),)),
    move("channels_last_one_element", lambda x: x * 2, (_last(r(1, 1, 1, 1)),)),
    move("channels_last_one_row", lambda x: x * 2, (_last(r(2, 3, 1, 5)),)),
    fn("channels_last_and_default", lambda x, y: x + y, (IMAGE, r(2, 3, 4, 5))),
    fn("default_and_channels_last", lambda x, y: x * y, (r(2, 3, 4, 5), IMAGE)),
    fn("channels_last_broadcast", lambda x, y: x * y, (IMAGE, r(3, 1, 1))),
    move("channels_last_reshaped", lambda x: x.reshape(2, -1), (IMAGE,)),
    move(
        "channels_last_flattened_behind",
        lambda x: x.permute(0, 2, 3, 1).reshape(2, 20, 3),
        (IMAGE,),
    ),
    fn("channels_last_mean", lambda x: x.mean((2, 3)), (IMAGE,), rtol=PRODUCT),
    Case(
        "channels_last_conv",
        seeded(lambda: torch.nn.Conv2d(3, 4, 3).eval()),
        (IMAGE,),
        rtol=PRODUCT,
    ),
    Case("channels_last_pool", torch.nn.MaxPool2d(2), (IMAGE,), rtol=EXACT),
    Case("channels_last_norm", seeded(lambda: torch.nn.BatchNorm2d(3).eval()), (IMAGE,)),
    move("channels_last_two_outputs", lambda x: (x * 2, x.contiguous() * 2), (IMAGE,)),
    move("channels_last_cat", lambda x: torch.cat([x, x], 1), (IMAGE,)),
    move("channels_last_slice", lambda x: x[:, 1:] * 2, (IMAGE,)),
    fn("channels_last_pad", lambda x: F.pad(x, (1, 0, 2, 1)), (IMAGE,)),
    move(
        "channels_last_dynamic",
        lambda x: x * 2,
        (_last(r(4, 3, 4, 5)),),
        dynamic_shapes=sizes({0: S}),
        others=[(_last(r(1, 3, 4, 5)),), (_last(r(16, 3, 4, 5)),), (_last(r(4, 3, 4, 5)),)],
    ),
    move(
        "channels_last_dynamic_pixels",
        lambda x: x * 2,
        (_last(r(2, 3, 4, 5)),),
        dynamic_shapes=sizes({2: Dim("h", min=2, max=9), 3: Dim("w", min=2, max=9)}),
        others=[(_last(r(2, 3, 2, 9)),), (_last(r(2, 3, 9, 2)),)],
    ),
]

CASES = LAYOUTS
