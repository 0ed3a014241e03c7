"""Arguments that do not fit: an error of the call that says so, and the next call works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.harness import lower, run_reference, run_runtime
from tests.lowering.cases.base import Fn, S, ids, r, sizes

_Function = Callable[..., Tensor]


OUTSIDE: list[tuple[str, _Function, tuple[Any, ...], Tensor, Tensor]] = [
    # name, function of (others, index), others, a good index, one outside
    (
        "gather",
        lambda x, i: x.gather(1, i),
        (r(2, 4),),
        torch.tensor([[0], [3]]),
        torch.tensor([[0], [4]]),
    ),
    (
        "gather_negative",
        lambda x, i: x.gather(1, i),
        (r(2, 4),),
        torch.tensor([[0], [3]]),
        torch.tensor([[0], [-1]]),
    ),
    (
        "index_select",
        lambda x, i: x.index_select(1, i),
        (r(2, 4),),
        torch.tensor([0, 3]),
        torch.tensor([0, 4]),
    ),
    (
        "index_select_negative",
        lambda x, i: x.index_select(0, i),
        (r(2, 4),),
        torch.tensor([1]),
        torch.tensor([-1]),
    ),
    ("index", lambda x, i: x[i], (r(3, 4),), torch.tensor([2, -3]), torch.tensor([2, 3])),
    (
        "index_far_below",
        lambda x, i: x[:, i],
        (r(3, 4),),
        torch.tensor([2, -4]),
        torch.tensor([2, -5]),
    ),
    (
        "index_beside_constant",
        lambda x, i: x[i, torch.tensor([1, 0])],
        (r(3, 4),),
        torch.tensor([2, -3]),
        torch.tensor([3, 0]),
    ),
    (
        "embedding",
        lambda x, i: F.embedding(i, x),
        (r(5, 3),),
        ids(5, 4),
        torch.tensor([0, 5, 1, 1]),
    ),
    ("one_hot", lambda i: F.one_hot(i, 4), (), ids(4, 3), torch.tensor([0, 4, 1])),
    (
        "scatter",
        lambda x, i: x.scatter(1, i, 2.0),
        (r(2, 4),),
        torch.tensor([[0], [3]]),
        torch.tensor([[0], [4]]),
    ),
    (
        "scatter_add",
        lambda x, i: x.scatter_add(1, i, x),
        (r(2, 4),),
        ids(4, 2, 4),
        ids(4, 2, 4) - 1,
    ),
    (
        "index_put",
        lambda x, i: x.index_put((i,), x[:2]),
        (r(3, 4),),
        torch.tensor([2, -3]),
        torch.tensor([2, -4]),
    ),
    (
        "index_copy",
        lambda x, i: x.index_copy(0, i, x[:2]),
        (r(3, 4),),
        torch.tensor([2, 1]),
        torch.tensor([2, 3]),
    ),
    (
        "int64_beyond_int32",
        lambda x, i: x[i],
        (r(3, 4),),
        torch.tensor([2, 1]),
        torch.tensor([2, 2**40]),
    ),
]


@pytest.mark.parametrize(
    ("function", "others", "good", "bad"),
    [case[1:] for case in OUTSIDE],
    ids=[case[0] for case in OUTSIDE],
)
def test_an_index_outside_is_an_error(
    function: _Function, others: tuple[Any, ...], good: Tensor, bad: Tensor
) -> None:
    lowered = lower(Fn(function), (*others, good))
    (report,) = lowered.partitioner.reports
    assert report.is_whole, str(report)
    for _ in range(2):
        (actual,) = run_runtime(lowered, (*others, good))
        torch.testing.assert_close(actual, function(*others, good))
        with pytest.raises(RuntimeError):
            run_runtime(lowered, (*others, bad))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.flip(0),
        lambda x: x[-1] * x,
        lambda x: torch.arange(x.shape[0]),
        lambda x: torch.cat([x, x.new_ones(x.shape[0], 1)], 1),
    ],
    ids=["flip", "last_row", "arange", "cat"],
)
def test_a_size_past_the_bounds_is_an_error(function: _Function) -> None:
    lowered = lower(Fn(function), (r(4, 3),), sizes({0: S}))
    for n in (4, 1, 16, 4):
        (actual,) = run_runtime(lowered, (r(n, 3),))
        torch.testing.assert_close(actual, function(r(n, 3)))
        with pytest.raises(RuntimeError):
            run_runtime(lowered, (r(17, 3),))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat([x[:, :0], x], 1) * 2,
        lambda x: torch.cat([x, x.new_zeros(0, 3)]) + 1,
        lambda x: (x[1:1].sum() + x).exp(),
        lambda x: (x[:0], x * 2),
        lambda x: torch.cat([torch.zeros(0), x[0]]) * 2,
        lambda x: x.split([0, 2], 0)[1] * 2,
        lambda x: x.new_zeros(0, 3).sum(0) + x,
    ],
    ids=["cut", "made", "sum_of_nothing", "output", "legacy", "split", "reduced"],
)
def test_tensors_without_elements_are_right_beside_others(function: Callable[..., Any]) -> None:
    x = r(2, 3)
    lowered = lower(Fn(function), (x,))
    expected = function(x)
    outputs = expected if isinstance(expected, tuple) else (expected,)
    for actual, wanted in zip(run_runtime(lowered, (x,)), outputs, strict=True):
        torch.testing.assert_close(actual, wanted)


def test_a_sliced_example_means_a_dense_argument() -> None:
    x = r(3, 4)[:, 1:]
    lowered = lower(Fn(lambda x: x * 2), (x,))
    (actual,) = run_runtime(lowered, (x.contiguous(),))
    torch.testing.assert_close(actual, x * 2)


def test_a_transposed_example_means_a_transposed_argument() -> None:
    """ExecuTorch's Python binding takes none, so only the references run it."""
    x = r(3, 4).t()
    lowered = lower(Fn(lambda x: x + x.sum(0)), (x,))
    (argument,) = lowered.graphs[0].inputs
    assert argument.dim_order == (1, 0)
    (actual,) = run_reference(lowered, (x,))
    torch.testing.assert_close(actual, x + x.sum(0))


def test_channels_last_in_three_dims() -> None:
    """Neither does it take these; the runtime sees them as any other order of dims."""
    x = r(2, 3, 2, 4, 5).to(memory_format=torch.channels_last_3d)
    lowered = lower(Fn(lambda x: x * 2), (x,))
    (argument,), (result,) = lowered.graphs[0].inputs, lowered.graphs[0].outputs
    assert argument.dim_order == result.dim_order == (0, 2, 3, 4, 1)
    (actual,) = run_reference(lowered, (x,))
    torch.testing.assert_close(actual, x * 2)
    assert actual.stride() == x.stride()


def test_a_constant_beyond_32_bits_stays_with_executorch() -> None:
    big = torch.tensor([2**40, -(2**35), 1])
    x = ids(9, 3)
    lowered = lower(Fn(lambda x: (x + big, x * 2)), (x,))
    (report,) = lowered.partitioner.reports
    assert not report.is_whole
    actual = run_runtime(lowered, (x,))
    assert torch.equal(actual[0], x + big)
    assert torch.equal(actual[1], x * 2)


def test_an_expanded_example_stays_with_executorch() -> None:
    lowered = lower(Fn(lambda x: x + 1), (r(3, 1).expand(3, 4),))
    (report,) = lowered.partitioner.reports
    assert report.n_partitions == 0
    assert "stride of 0" in str(report)
