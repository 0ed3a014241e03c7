"""Elements picked by index, and moves by fixed ids."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.lowering.cases.base import (
    EXACT,
    PRODUCT,
    Case,
    S,
    fn,
    host,
    host_over,
    ids,
    r,
    sizes,
    together,
)

move = partial(fn, rtol=EXACT)
pick = partial(host, rtol=EXACT)


def _mask(*shape: int) -> Tensor:
    return r(*shape) > 0


def _signed(limit: int, *shape: int) -> Tensor:
    """Indices of which about half count from the end."""
    found = ids(limit, *shape)
    return torch.where(r(*shape) > 0, found, found - limit)


class _Embedding(nn.Module):
    def __init__(self, padding: int | None = None, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(11, 6, padding_idx=padding, dtype=dtype)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)


class _Bag(nn.Module):
    """Bags of rows of a table of its own."""

    def __init__(self, mode: str, last: bool = False, padding: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.bag = nn.EmbeddingBag(11, 6, mode=mode, include_last_offset=last, padding_idx=padding)

    def forward(self, ids: Tensor, offsets: Tensor | None = None) -> Tensor:
        return self.bag(ids, offsets)


class _OwnIndex(nn.Module):
    """An index that is a buffer of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor([[0, -1], [2, 1]]))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.index]


OFFSETS = torch.tensor([0, 2, 2, 5])
#: Two rows lie behind the end, which torch takes now one way and now another.
STARTS_AND_END = torch.tensor([0, 2, 2, 5])


def _bag(bag: _Bag, *inputs: Tensor, name: str = "bag") -> Case:
    return Case(name, bag, inputs, host=True)


EMBEDDINGS = [
    Case("embedding", _Embedding(), (ids(11, 7),), ("get_rows",), EXACT),
    Case("embedding_rank_0", _Embedding(), (ids(11),), ("get_rows",), EXACT),
    Case("embedding_rank_3", _Embedding(), (ids(11, 2, 3, 2),), rtol=EXACT),
    Case("embedding_int32", _Embedding(), (ids(11, 7).int(),), ("get_rows",), EXACT),
    Case(
        "embedding_padding", _Embedding(padding=3), (torch.tensor([3, 1, 3]),), ("get_rows",), EXACT
    ),
    Case("embedding_half", _Embedding(dtype=torch.float16), (ids(11, 7),), ("get_rows",), EXACT),
    Case(
        "embedding_dynamic",
        _Embedding(),
        (ids(11, 4, 2),),
        (),
        EXACT,
        ({0: S},),
        [(ids(11, 1, 2),), (ids(11, 16, 2),), (ids(11, 4, 2),)],
    ),
    move("embedding_of_an_input", lambda i, x: F.embedding(i, x), (ids(5, 3), r(5, 4)), "get_rows"),
    *(
        together(
            f"bag_{mode}",
            _bag(_Bag(mode), ids(11, 7), OFFSETS),
            _bag(_Bag(mode, padding=4), torch.tensor([1, 4, 4, 4, 2, 4, 0]), OFFSETS),
        )
        for mode in ("sum", "mean", "max")
    ),
    _bag(_Bag("mean"), ids(11, 2, 3), name="bag_of_rows"),
    together(
        "bag_last_offset",
        *(
            _bag(_Bag(mode, True, padding), ids(11, 7), STARTS_AND_END)
            for mode, padding in (("sum", None), ("mean", None), ("max", None), ("mean", 4))
        ),
    ),
    Case(
        "bag_dynamic",
        _Bag("max"),
        (ids(11, 7), torch.tensor([0])),
        host=True,
        dynamic_shapes=({0: S}, None),
        others=[(ids(11, 1), torch.tensor([0])), (ids(11, 16), torch.tensor([0]))],
    ),
    move("one_hot", lambda i: F.one_hot(i, 5), (ids(5, 2, 3),)),
    move("one_hot_of_one", lambda i: F.one_hot(i, 3).float(), (ids(3),)),
]

SELECTS = [
    fn(
        "index_select",
        lambda x, i: x.index_select(0, i) + 1,
        (r(5, 4), ids(5, 3)),
        "get_rows",
        "scale",
    ),
    move("index_select_last_dim", lambda x, i: x.index_select(-1, i), (r(3, 5), ids(5, 4))),
    move("index_select_middle", lambda x, i: x.index_select(1, i), (r(2, 5, 3), ids(5, 4))),
    move(
        "index_select_int32",
        lambda x, i: x.index_select(0, i),
        (r(5, 4), ids(5, 3).int()),
        "get_rows",
    ),
    move(
        "index_select_of_ints",
        lambda x, i: x.index_select(0, i),
        (ids(9, 5, 4), ids(5, 3)),
        "get_rows",
    ),
    move("index_select_of_bools", lambda x, i: x.index_select(1, i), (_mask(3, 5), ids(5, 3))),
    move("index_select_of_a_vector", lambda x, i: x.index_select(0, i), (r(5), ids(5, 3))),
    move("index_select_by_a_scalar", lambda x, i: x.index_select(0, i), (r(5, 4), ids(5))),
    move(
        "index_select_of_transposed",
        lambda x, i: x.t().index_select(0, i),
        (r(4, 5), ids(5, 3)),
        "permute",
        "cont",
        "get_rows",
    ),
    move(
        "index_select_special",
        lambda x, i: x.index_select(0, i),
        (torch.tensor([float("nan"), float("inf"), -0.0, 1e-42]), ids(4, 6)),
    ),
    move(
        "index_select_dynamic_ids",
        lambda x, i: x.index_select(1, i),
        (r(3, 5), ids(5, 4)),
        dynamic_shapes=sizes(None, {0: S}),
        others=[(r(3, 5), ids(5, 1)), (r(3, 5), ids(5, 16)), (r(3, 5), ids(5, 4))],
    ),
    move(
        "index_select_dynamic_rows",
        lambda x, i: x.index_select(1, i),
        (r(4, 5), ids(5, 3)),
        dynamic_shapes=sizes({0: S}, None),
        others=[(r(1, 5), ids(5, 3)), (r(16, 5), ids(5, 3))],
    ),
    move("gather_last_dim", lambda x, i: x.gather(1, i), (r(3, 4), ids(4, 3, 6))),
    move("gather_first_dim", lambda x, i: x.gather(0, i), (r(3, 4), ids(3, 5, 4))),
    move("gather_middle", lambda x, i: x.gather(1, i), (r(2, 3, 4), ids(3, 2, 2, 4))),
    move("gather_of_fewer_rows", lambda x, i: x.gather(1, i), (r(3, 4), ids(4, 2, 3))),
    move("gather_of_fewer_everything", lambda x, i: x.gather(-1, i), (r(3, 4, 5), ids(5, 2, 3, 1))),
    move("gather_of_ints", lambda x, i: x.gather(1, i), (ids(9, 3, 4), ids(4, 3, 2))),
    move("gather_of_bools", lambda x, i: x.gather(0, i), (_mask(3, 4), ids(3, 2, 4))),
    move("gather_of_a_scalar", lambda x, i: x.gather(0, i), (r(), torch.tensor(0))),
    move("gather_of_half", lambda x, i: x.gather(1, i), (r(3, 4).half(), ids(4, 3, 2))),
    move(
        "gather_dynamic",
        lambda x, i: x.gather(1, i),
        (r(4, 5), ids(5, 4, 2)),
        dynamic_shapes=sizes({0: S}, {0: S}),
        others=[(r(1, 5), ids(5, 1, 2)), (r(16, 5), ids(5, 16, 2)), (r(4, 5), ids(5, 4, 2))],
    ),
    pick("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), (r(3, 4), ids(4, 1, 2))),
    pick("take", lambda x, i: x.take(i), (r(3, 4), _signed(12, 2, 3))),
]

INDICES = [
    pick("index_rows", lambda x, i: x[i], (r(5, 4), _signed(5, 3)), "host_wrap_ids", "get_rows"),
    host_over(
        "index_first",
        lambda x, i: x[i],
        [
            (r(5, 4), _signed(5, 2, 3)),
            (r(5, 4), _signed(5, 3).int()),
            (ids(9, 5, 2), _signed(5, 3)),
            (_mask(5, 2), _signed(5, 3)),
        ],
        rtol=EXACT,
    ),
    together(
        "index_last",
        pick("columns", lambda x, i: x[:, i], (r(3, 5), _signed(5, 2))),
        pick("rank_3", lambda x, i: x[..., i], (r(2, 3, 4), _signed(4, 3))),
    ),
    pick("index_with_slice", lambda x, i: x[1:, i, :2], (r(3, 5, 4), _signed(5, 2))),
    pick("index_pairs", lambda x, i, j: x[i, j], (r(5, 4), _signed(5, 3), _signed(4, 3))),
    pick(
        "index_triples",
        lambda x, i, j, k: x[i, j, k],
        (r(3, 4, 5), _signed(3, 6), _signed(4, 6), _signed(5, 6)),
    ),
    pick("index_outer", lambda x, i, j: x[i[:, None], j], (r(5, 4), _signed(5, 3), _signed(4, 2))),
    pick(
        "index_pairs_behind", lambda x, i, j: x[:, i, j], (r(2, 5, 4), _signed(5, 3), _signed(4, 3))
    ),
    pick(
        "index_with_a_gap", lambda x, i, j: x[i, :, j], (r(3, 4, 5), _signed(3, 2), _signed(5, 2))
    ),
    pick(
        "index_with_a_broadcast_gap",
        lambda x, i, j: x[:, i, :, j],
        (r(2, 3, 4, 5), _signed(3, 2, 1), _signed(5, 3)),
    ),
    pick(
        "index_dynamic_table",
        lambda x, i: x[i],
        (r(4, 3), torch.tensor([0, -1, 0])),
        dynamic_shapes=sizes({0: S}, None),
        others=[(r(1, 3), torch.tensor([0, -1, 0])), (r(16, 3), torch.tensor([15, -16, 2]))],
    ),
    pick(
        "index_dynamic_ids",
        lambda x, i: x[:, i],
        (r(3, 5), _signed(5, 4)),
        dynamic_shapes=sizes(None, {0: S}),
        others=[(r(3, 5), _signed(5, 1)), (r(3, 5), _signed(5, 16))],
    ),
    pick(
        "index_pairs_dynamic",
        lambda x, i, j: x[i, j],
        (r(4, 5), _signed(4, 3), _signed(5, 3)),
        dynamic_shapes=sizes({0: S}, None, None),
        others=[
            (r(1, 5), torch.tensor([0, -1, 0]), _signed(5, 3)),
            (r(16, 5), _signed(16, 3), _signed(5, 3)),
        ],
    ),
    move("index_constant", lambda x: x[:, [0, -1, 1]], (r(3, 4),)),
    move("index_constant_rows", lambda x: x[[2, 0]], (r(3, 4),), "get_rows"),
    move(
        "index_constant_pairs",
        lambda x: x[[0, -1], [1, 2]],
        (r(3, 4),),
        "reshape",
        "get_rows",
        "reshape",
    ),
    move("index_constant_of_ints", lambda x: x[..., [1, 1]], (ids(9, 2, 3),)),
    Case("index_buffer", _OwnIndex(), (r(2, 3),), rtol=EXACT),
    pick("index_mixed", lambda x, i: x[i, torch.tensor([1, -1])], (r(3, 4), _signed(3, 2))),
]

MOVES = [
    move("flip_rows", lambda x: x.flip(0), (r(3, 4),), "get_rows"),
    move("flip_last_dim", lambda x: x.flip(-1), (r(3, 4),)),
    move("flip_two", lambda x: x.flip(0, 2), (r(2, 3, 4),)),
    move("flip_of_ints", lambda x: x.flip(0), (ids(9, 4),)),
    move("flip_of_one", lambda x: x.flip(1), (r(3, 1),)),
    pick(
        "flip_dynamic",
        lambda x: x.flip(0),
        (r(4, 3),),
        "host_iota",
        "get_rows",
        dynamic_shapes=sizes({0: S}),
        others=[(r(1, 3),), (r(16, 3),), (r(4, 3),)],
    ),
    move(
        "flip_beside_dynamic",
        lambda x: x.flip(1),
        (r(4, 3),),
        dynamic_shapes=sizes({0: S}),
        others=[(r(1, 3),)],
    ),
    move("fliplr", lambda x: x.fliplr(), (r(3, 4),)),
    move("rot90", lambda x: x.rot90(1, (0, 1)), (r(3, 4),)),
    move("rot90_twice", lambda x: x.rot90(2, (1, 2)), (r(2, 3, 4),)),
    move("rot90_back", lambda x: x.rot90(-1, (0, 1)), (r(3, 4),)),
    move("unfold_windows", lambda x: x.unfold(1, 3, 2), (r(2, 7),)),
    move("unfold_overlapping", lambda x: x.unfold(0, 3, 1), (r(5, 2),)),
    move("unfold_middle", lambda x: x.unfold(1, 2, 2), (r(2, 5, 3),)),
    move("unfold_patches", lambda x: x.unfold(2, 2, 2).unfold(3, 2, 2), (r(1, 2, 4, 6),)),
    move("diagonal", lambda x: x.diagonal(), (r(3, 4),)),
    move("diagonal_above", lambda x: x.diagonal(1), (r(3, 4),)),
    move("diagonal_below", lambda x: x.diagonal(-2), (r(3, 4),)),
    move("diagonal_of_batches", lambda x: x.diagonal(0, 1, 2), (r(2, 3, 4),)),
    move("diagonal_of_outer_dims", lambda x: x.diagonal(1, 0, -1), (ids(9, 3, 2, 4),)),
    move(
        "diagonal_dynamic_batch",
        lambda x: x.diagonal(0, 1, 2),
        (r(4, 3, 3),),
        dynamic_shapes=sizes({0: S}),
        others=[(r(1, 3, 3),)],
    ),
    fn("trace", lambda x: x.trace(), (r(3, 4),), rtol=PRODUCT),
    move("diag_of_a_matrix", lambda x: torch.diag(x, -1), (r(3, 4),)),
    move("diag_embed", lambda x: x.diag_embed(), (r(2, 3),)),
    move("diag_embed_below", lambda x: x.diag_embed(-1), (ids(9, 3),)),
    move("diag_embed_outer", lambda x: x.diag_embed(1, 0, 2), (r(2, 3),)),
    move("tril", lambda x: x.tril(), (r(3, 4),)),
    move("tril_below", lambda x: x.tril(-1), (r(2, 3, 3),)),
    move("triu_above", lambda x: x.triu(1), (r(4, 3),)),
    move("triu_of_ints", lambda x: x.triu(), (ids(9, 3, 3),)),
    move("tril_of_bools", lambda x: x.tril(), (_mask(3, 3),)),
    move("tril_of_everything", lambda x: x.tril(5), (r(3, 4),)),
    move(
        "tril_of_inf_and_nan",
        lambda x: x.tril(),
        (torch.full((3, 3), float("nan")).triu() + float("inf"),),
    ),
    move(
        "tril_dynamic_batch",
        lambda x: x.tril(),
        (r(4, 3, 3),),
        dynamic_shapes=sizes({0: S}),
        others=[(r(1, 3, 3),), (r(16, 3, 3),)],
    ),
    pick(
        "tril_dynamic",
        lambda x: x.tril(),
        (r(4, 4),),
        dynamic_shapes=sizes({0: S, 1: S}),
        others=[(r(1, 1),), (r(16, 16),), (r(4, 4),)],
    ),
    pick(
        "causal_mask_dynamic",
        lambda x: torch.triu(torch.full((x.shape[0], x.shape[0]), float("-inf")), 1) + x[:, None],
        (r(4),),
        dynamic_shapes=sizes({0: S}),
        others=[(r(1),), (r(16),)],
    ),
    move("as_strided", lambda x: x.as_strided((2, 3), (1, 2), 1), (r(3, 3),)),
    move("as_strided_windows", lambda x: x.as_strided((3, 4), (2, 1)), (r(8),)),
    move("as_strided_runs", lambda x: x.as_strided((2, 2, 4), (4, 4, 1)), (r(3, 4),)),
    move("as_strided_repeated", lambda x: x.as_strided((3, 4), (0, 1)), (ids(9, 4),)),
    move("diagonal_scatter", lambda x, y: x.diagonal_scatter(y), (r(3, 4), r(3))),
    move(
        "diagonal_scatter_batches",
        lambda x, y: x.diagonal_scatter(y, 1, 1, 2),
        (r(2, 3, 4), r(2, 3)),
    ),
    move(
        "as_strided_scatter",
        lambda x, y: x.as_strided_scatter(y, (2, 2), (1, 4)),
        (r(3, 4), r(2, 2)),
    ),
]


CASES = [*EMBEDDINGS, *SELECTS, *INDICES, *MOVES]
