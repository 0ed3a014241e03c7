"""The same elements in another shape or order; parts of tensors, and tensors of parts."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim

from tests.lowering.cases.base import EXACT, S, fn, host, ids, r, sizes

#: Elements are moved, nothing is computed.
move = partial(fn, rtol=EXACT)

ROWS = {0: S}


def _mask(*shape: int) -> Tensor:
    return r(*shape) > 0


SHAPES = [
    fn("view", lambda x: x.view(5, 6) + 1, (r(2, 3, 5),), "reshape", "scale"),
    fn("flatten", lambda x: x.flatten(1) + 1, (r(2, 3, 5),), "reshape", "scale"),
    fn("unsqueeze", lambda x: x.unsqueeze(1) + 1, (r(3, 5),), "reshape", "scale"),
    fn("squeeze", lambda x: x.squeeze(1) + 1, (r(3, 1, 5),), "reshape", "scale"),
    move("view_inferred", lambda x: x.view(-1, 10), (r(2, 3, 5),), "reshape"),
    move("view_to_rank_0", lambda x: x.view(()), (r(1, 1),)),
    move("view_of_int64", lambda x: x.view(6), (ids(9, 2, 3),), "reshape"),
    move("view_of_bool", lambda x: x.view(6), (_mask(2, 3),), "reshape"),
    move("view_of_half", lambda x: x.view(3, 2), (r(2, 3).half(),), "reshape"),
    move(
        "view_dynamic",
        lambda x: x.view(-1, 4),
        (r(3, 8),),
        dynamic_shapes=sizes(ROWS),
        others=[(r(1, 8),)],
    ),
    move(
        "reshape_of_transposed",
        lambda x: x.t().reshape(2, 6),
        (r(4, 3),),
        "permute",
        "cont",
        "reshape",
    ),
    move(
        "reshape_merges_dynamic",
        lambda x: x.transpose(0, 1).reshape(3, -1),
        (r(4, 3, 2),),
        dynamic_shapes=sizes(ROWS),
        others=[(r(1, 3, 2),), (r(16, 3, 2),)],
    ),
    move("flatten_all", lambda x: x.flatten(), (r(2, 3, 1, 2),), "reshape"),
    move("unflatten", lambda x: x.unflatten(1, (2, -1)), (r(3, 6),), "reshape"),
    move("squeeze_all", lambda x: x.squeeze(), (r(1, 3, 1, 2),), "reshape"),
    move("squeeze_dims", lambda x: x.squeeze((0, -1)), (r(1, 3, 1, 2, 1),), "reshape"),
    move("squeeze_without_effect", lambda x: x.squeeze(1), (r(2, 3),)),
    move("squeeze_last_of_8_1", lambda x: x.squeeze(-1), (r(8, 1),), "reshape"),
    move("unsqueeze_negative", lambda x: x.unsqueeze(-1), (r(2, 3),), "reshape"),
    move("unsqueeze_by_none", lambda x: x[None, :, None], (r(2, 3),), "reshape"),
]

ORDERS = [
    fn("permute", lambda x: x.permute(2, 0, 1) + 1, (r(2, 3, 5),), "permute", "cont", "scale"),
    fn("permute_twice", lambda x: x.permute(2, 0, 1).permute(1, 2, 0) + 1, (r(2, 3, 5),), "scale"),
    move("permute_identity", lambda x: x.permute(0, 1, 2), (r(2, 3, 5),)),
    move("permute_negative", lambda x: x.permute(-1, 0, -2), (r(2, 3, 5),), "permute", "cont"),
    move("permute_of_bool", lambda x: x.permute(1, 0), (_mask(2, 3),), "permute", "cont"),
    move("permute_of_ones", lambda x: x.permute(1, 0, 2), (r(1, 3, 2),), "permute"),
    move("transpose", lambda x: x.transpose(0, -1), (r(2, 3, 4),), "permute", "cont"),
    move(
        "transpose_dynamic",
        lambda x: x.transpose(0, 1),
        (r(4, 3),),
        dynamic_shapes=sizes(ROWS),
        others=[(r(1, 3),), (r(4, 3),)],
    ),
    move("matrix_transpose", lambda x: x.mT, (r(2, 3, 4),), "permute", "cont"),
    move("t_of_a_vector", lambda x: x.t(), (r(4),)),
    move(
        "movedim_of_two", lambda x: x.movedim((0, 2), (2, 1)), (r(2, 3, 4, 2),), "permute", "cont"
    ),
    move("swapaxes", lambda x: x.swapaxes(0, 2), (r(2, 3, 4),), "permute", "cont"),
    move("adjoint_of_ints", lambda x: x.adjoint(), (ids(9, 3, 2),), "permute", "cont"),
    move("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (r(2, 8, 3, 2),)),
    move("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), (r(2, 2, 6, 4),)),
    move("channel_shuffle", lambda x: F.channel_shuffle(x, 3), (r(2, 6, 3, 2),)),
    move("contiguous_of_transposed", lambda x: x.t().contiguous(), (r(2, 3),), "permute", "cont"),
    move("detach", lambda x: x.detach() * 1, (r(2, 3),)),
    move(
        "space_to_depth",
        lambda x: x.view(1, 2, 2, 3, 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(1, 24, 2),
        (r(1, 2, 12, 2).view(1, 2, 2, 12),),
    ),
]

REPEATS = [
    fn("expand", lambda x: x.expand(4, 3, 5) + 1, (r(3, 5),), "repeat", "scale"),
    fn("repeat", lambda x: x.repeat(2, 3) + 1, (r(3, 5),), "repeat", "scale"),
    move("expand_keeping", lambda x: x.expand(-1, 4, -1), (r(2, 1, 3),), "repeat"),
    move("expand_of_nothing", lambda x: x.expand(2, 3), (r(2, 3),)),
    move("expand_of_a_scalar", lambda x: x.expand(2, 3), (r(),), "repeat"),
    move("expand_of_bool", lambda x: x.expand(3, 2), (_mask(1, 2),), "repeat"),
    move(
        "expand_of_transposed",
        lambda x: x.t().expand(2, 3, 4),
        (r(4, 3),),
        "permute",
        "cont",
        "repeat",
    ),
    move(
        "expand_dynamic",
        lambda x, y: x.expand(y.shape[0], 3),
        (r(3), r(4, 2)),
        dynamic_shapes=sizes(None, {0: S}),
        others=[(r(3), r(1, 2)), (r(3), r(16, 2))],
    ),
    fn("expanded_operand", lambda x, y: x[:, None].expand(2, 4, 3) * y, (r(2, 3), r(2, 4, 3))),
    move("expand_as", lambda x, y: x.expand_as(y), (r(3, 1), r(2, 3, 4))),
    move(
        "broadcast_tensors",
        lambda x, y: torch.broadcast_tensors(x, y),
        (r(3, 1), r(4)),
        "repeat",
        "repeat",
    ),
    move("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), (r(3), r(2))),
    move("meshgrid_xy", lambda x, y: torch.meshgrid(x, y, indexing="xy"), (r(3), r(2))),
    move("repeat_leading", lambda x: x.repeat(2, 1, 3), (r(2, 3),), "repeat"),
    move("repeat_of_int64", lambda x: x.repeat(2, 2), (ids(9, 2, 3),), "repeat"),
    move("repeat_rank_5", lambda x: x.repeat(1, 2, 1, 3, 2), (r(2, 1, 3, 2, 2),)),
    move(
        "repeat_dynamic_rows",
        lambda x: x.repeat(3, 2),
        (r(4, 3),),
        dynamic_shapes=sizes(ROWS),
        others=[(r(1, 3),), (r(4, 3),)],
    ),
    move(
        "repeat_a_dynamic_number",
        lambda x, y: x.repeat(y.shape[0], 1),
        (r(2, 3), r(4)),
        dynamic_shapes=sizes(None, {0: S}),
        others=[(r(2, 3), r(1)), (r(2, 3), r(16))],
    ),
    move("tile_of_fewer_dims", lambda x: x.tile(2), (r(2, 3),), "repeat"),
    move(
        "repeat_interleave_rows",
        lambda x: x.repeat_interleave(2, 0),
        (r(3, 2),),
        "reshape",
        "repeat",
        "reshape",
    ),
    move("repeat_interleave_columns", lambda x: x.repeat_interleave(3, -1), (r(3, 2),)),
    move("repeat_interleave_flat", lambda x: x.repeat_interleave(2), (r(3, 2),)),
    move("cartesian_product", lambda x, y: torch.cartesian_prod(x, y), (r(3), r(2))),
]

SLICES = [
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
    move("slice_negative_end", lambda x: x[:, :-2], (r(3, 5),), "view", "cont"),
    move("slice_past_the_end", lambda x: x[2:100], (r(3, 5),), "view"),
    move("slice_before_the_start", lambda x: x[-100:2], (r(3, 5),), "view"),
    move("slice_step_and_bounds", lambda x: x[1:6:3], (r(7, 2),), "view", "cont"),
    move("slice_step_past_the_end", lambda x: x[:, ::4], (r(2, 9),)),
    move("slice_step_rank_4", lambda x: x[..., ::2], (r(2, 2, 3, 5),)),
    move("slice_of_int64", lambda x: x[:, 1:], (ids(9, 3, 4),), "view", "cont"),
    move("slice_of_transposed", lambda x: x.t()[1:], (r(3, 4),), "permute", "cont", "view"),
    move(
        "slice_dynamic_rows",
        lambda x: x[1:],
        (r(4, 3),),
        dynamic_shapes=sizes({0: Dim("n", min=3, max=16)}),
        others=[(r(3, 3),), (r(16, 3),), (r(4, 3),)],
    ),
    move(
        "slice_of_all_but_the_last",
        lambda x: x[:-1] + x[1:],
        (r(4, 3),),
        dynamic_shapes=sizes({0: Dim("n", min=3, max=16)}),
        others=[(r(3, 3),), (r(16, 3),)],
    ),
    move(
        "slice_as_another",
        lambda x, y: x[: y.shape[0]],
        (r(16, 3), r(4)),
        dynamic_shapes=sizes(None, {0: S}),
        others=[(r(16, 3), r(1)), (r(16, 3), r(16))],
    ),
    move("narrow", lambda x: x.narrow(1, 1, 2), (r(3, 4),), "view", "cont"),
    move("narrow_negative", lambda x: x.narrow(0, -2, 2), (r(3, 4),), "view"),
    move("select_negative_dim", lambda x: x.select(-2, 1), (r(2, 3, 4),)),
    move("select_to_rank_0", lambda x: x[2], (r(3),), "view"),
    move("select_of_bool", lambda x: x[:, 0], (_mask(3, 2),)),
    move(
        "select_last_of_dynamic",
        lambda x: x[-1],
        (r(4, 3),),
        dynamic_shapes=sizes(ROWS),
        others=[(r(1, 3),), (r(16, 3),), (r(4, 3),)],
    ),
    move("ellipsis", lambda x: x[..., 1, :], (r(2, 3, 4),)),
    move("split", lambda x: torch.split(x, 2, 1), (r(3, 5),)),
    move("split_sizes", lambda x: torch.split(x, [2, 3], 1)[1], (r(4, 5),), "view", "cont"),
    move("split_negative_dim", lambda x: torch.split(x, 2, -2), (r(4, 3),), "view", "view"),
    move("chunk_uneven", lambda x: x.chunk(3), (r(7, 2),), "view", "view", "view"),
    fn("chunk", lambda x: x.chunk(2, -1)[0] * x.chunk(2, -1)[1], (r(4, 6),), "view", "view", "mul"),
    move("tensor_split", lambda x: x.tensor_split((1, 3)), (r(5, 2),), "view", "view", "view"),
    move("hsplit", lambda x: x.hsplit(2), (r(3, 4),)),
    move("unbind", lambda x: x.unbind(1), (r(2, 3, 2),)),
    move("unbind_of_a_vector", lambda x: x.unbind(), (ids(9, 3),)),
    move(
        "halves_of_dynamic_rows",
        lambda x: torch.cat([-x[:, 2:], x[:, :2]], -1),
        (r(4, 4),),
        dynamic_shapes=sizes(ROWS),
        others=[(r(1, 4),), (r(16, 4),)],
    ),
]


def _assigned(x: Tensor, part: Tensor, where: Any) -> Tensor:
    x = x.clone()
    x[where] = part
    return x


JOINS = [
    fn("cat_rows", lambda x, y: torch.cat([x, y]) + 1, (r(2, 5), r(3, 5)), "concat", "scale"),
    fn(
        "cat_columns", lambda x, y: torch.cat([x, y], -1) + 1, (r(2, 3), r(2, 5)), "concat", "scale"
    ),
    move("cat_of_one", lambda x: torch.cat([x]), (r(2, 3),)),
    move("cat_of_many", lambda x, y: torch.cat([x, y, x, x, y, x], 1), (r(2, 2, 3), r(2, 1, 3))),
    move("cat_of_itself", lambda x: torch.cat([x, x], 1), (r(2, 3),), "concat"),
    move(
        "cat_of_int_and_float",
        lambda x, y: torch.cat([x, y]),
        (r(2, 3), ids(9, 1, 3)),
        "cast",
        "concat",
    ),
    move("cat_of_bools", lambda x, y: torch.cat([x, y], 1), (_mask(2, 3), _mask(2, 1)), "concat"),
    move(
        "cat_of_transposed",
        lambda x, y: torch.cat([x.t(), y]),
        (r(3, 2), r(1, 3)),
        "permute",
        "concat",
    ),
    move(
        "cat_of_dynamic",
        lambda x, y: torch.cat([x, y]),
        (r(4, 3), r(2, 3)),
        dynamic_shapes=sizes(ROWS, None),
        others=[(r(1, 3), r(2, 3)), (r(16, 3), r(2, 3))],
    ),
    move(
        "cat_of_two_dynamic",
        lambda x, y: torch.cat([x, y]),
        (r(4, 3), r(2, 3)),
        dynamic_shapes=sizes({0: S}, {0: Dim("t", min=1, max=9)}),
        others=[(r(1, 3), r(9, 3)), (r(16, 3), r(1, 3))],
    ),
    move("cat_with_a_constant", lambda x: torch.cat([x, torch.ones(1, 3)]), (r(2, 3),)),
    move("stack", lambda x, y: torch.stack([x, y], 1), (r(2, 3), r(2, 3))),
    move("stack_last", lambda x, y: torch.stack([x, y], -1), (r(2, 3), r(3, 2).t().contiguous())),
    move("stack_of_scalars", lambda x, y: torch.stack([x, y]), (r(), r()), "concat"),
    move("stack_of_ints", lambda x: torch.stack([x, x]), (ids(9, 3),), "concat", "reshape"),
    move("hstack", lambda x, y: torch.hstack([x, y]), (r(2), r(3)), "concat"),
    move("vstack", lambda x, y: torch.vstack([x, y]), (r(3), r(3))),
    move("dstack", lambda x, y: torch.dstack([x, y]), (r(2, 3), r(2, 3))),
    move("block_diag", lambda x, y: torch.block_diag(x, y), (r(3, 2), r(1, 2))),
    move("roll", lambda x: x.roll(1, 0), (r(3, 2),), "view", "view", "concat"),
    move("roll_negative", lambda x: x.roll(-1, 1), (r(2, 3),)),
    move("roll_around", lambda x: x.roll(7, 0), (r(3, 2),), "view", "view", "concat"),
    move("roll_of_two_dims", lambda x: x.roll((1, -2), (0, 1)), (r(3, 4),)),
    move("roll_of_all_elements", lambda x: x.roll(2), (r(3, 2),)),
    move("roll_by_nothing", lambda x: x.roll(3, 0), (r(3, 2),)),
    move("roll_of_bool", lambda x: x.roll(1, 0), (_mask(3, 2),), "view", "view", "concat"),
    move(
        "roll_beside_a_dynamic_dim",
        lambda x: x.roll(1, 1),
        (r(4, 3),),
        dynamic_shapes=sizes(ROWS),
        others=[(r(1, 3),)],
    ),
    move(
        "slice_scatter",
        lambda x, y: x.slice_scatter(y, 0, 1, 3),
        (r(5, 3), r(2, 3)),
        "view",
        "view",
        "concat",
        "concat",
    ),
    move("slice_scatter_all", lambda x, y: x.slice_scatter(y, 1), (r(5, 3), r(5, 3))),
    move(
        "slice_scatter_end",
        lambda x, y: x.slice_scatter(y, 1, -2),
        (r(2, 5), r(2, 2)),
        "view",
        "concat",
    ),
    move("slice_scatter_step", lambda x, y: x.slice_scatter(y, 1, 0, 5, 2), (r(2, 5), r(2, 3))),
    move(
        "slice_scatter_of_ints",
        lambda x, y: x.slice_scatter(y, 0, 2),
        (ids(9, 4, 3), ids(9, 2, 3)),
        "view",
        "concat",
    ),
    move(
        "slice_scatter_in_dynamic",
        lambda x, y: x.slice_scatter(y, 1, 1, 3),
        (r(4, 5), r(4, 2)),
        dynamic_shapes=sizes(ROWS, ROWS),
        others=[(r(1, 5), r(1, 2)), (r(16, 5), r(16, 2))],
    ),
    move("select_scatter", lambda x, y: x.select_scatter(y, 0, 1), (r(3, 4), r(4))),
    move("select_scatter_last", lambda x, y: x.select_scatter(y, 1, -1), (r(3, 4), r(3))),
    move("assigned_rows", lambda x, y: _assigned(x, y, slice(1, 3)), (r(5, 3), r(2, 3))),
    move("assigned_column", lambda x, y: _assigned(x, y, (slice(None), 1)), (r(5, 3), r(5))),
    move("assigned_int_to_float", lambda x, y: _assigned(x, y, 0), (r(5, 3), ids(9, 3))),
    move("assigned_broadcast", lambda x, y: _assigned(x, y, slice(0, 2)), (r(5, 3), r(1))),
    move("assigned_bools", lambda x, y: _assigned(x, y, slice(0, 2)), (_mask(5, 3), _mask(2, 3))),
]

MORE = [(r(1, 3),), (r(16, 3),), (r(4, 3),)]

#: What no view and no copy can express: elements are counted at run time.
COUNTED = [
    host(
        "roll_dynamic",
        lambda x: x.roll(3, 0),
        (r(4, 3),),
        rtol=EXACT,
        dynamic_shapes=sizes({0: S}),
        others=MORE,
    ),
    host(
        "roll_back_dynamic",
        lambda x: x.roll(-1, 0),
        (r(4, 3),),
        rtol=EXACT,
        dynamic_shapes=sizes({0: S}),
        others=MORE,
    ),
    host(
        "slice_scatter_of_dynamic_length",
        lambda x, y: x.slice_scatter(y, 0, 0, y.shape[0]),
        (r(16, 3), r(4, 3)),
        rtol=EXACT,
        dynamic_shapes=sizes(None, {0: S}),
        others=[(r(16, 3), r(1, 3)), (r(16, 3), r(16, 3))],
    ),
    move(
        "tail_of_a_window",
        lambda x, y: torch.cat([x, y])[-x.shape[0] :],
        (r(4, 3), r(2, 3)),
        dynamic_shapes=sizes({0: S}, None),
        others=[(r(1, 3), r(2, 3)), (r(16, 3), r(2, 3))],
    ),
]

CASES = [*SHAPES, *ORDERS, *REPEATS, *SLICES, *JOINS, *COUNTED]
