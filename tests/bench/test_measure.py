"""Turns, ratios and spreads."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bench.measure import Series, Summary, per_turn, ratios, take_turns


def quiet(_: str) -> None:
    pass


def test_a_ratio_is_formed_within_each_turn() -> None:
    ours = Series("ours", {"decode": [10.0, 40.0, 90.0], "only ours": [1.0]})
    peer = Series("peer", {"decode": [10.0, 20.0, 30.0], "only theirs": [1.0]})
    # The median of 1, 2 and 3; not 40 / 20 of the medians, which is 2 too, but in its spread.
    assert ratios(ours, peer) == {"decode": Summary(2.0, 1.0, 3.0)}


def test_turns_that_only_one_has_count_for_nothing() -> None:
    assert per_turn([1.0, 2.0, 300.0], [1.0, 1.0]) == Summary(1.5, 1.0, 2.0)
    assert per_turn([1.0, 2.0], [0.0, 4.0]) == Summary(0.5, 0.5, 0.5)
    assert per_turn([1.0], []) is None
    assert ratios(Series("a", {"x": [1.0]}), Series("b", {"x": [0.0]})) == {}


def test_peers_take_turns() -> None:
    order: list[str] = []

    def run(name: str) -> Mapping[str, float]:
        order.append(name)
        return {"figure": float(len(order))}

    series = take_turns({"a": lambda: run("a"), "b": lambda: run("b")}, 2, quiet)
    assert order == ["a", "b", "a", "b"]
    assert series["a"].values == {"figure": [1.0, 3.0]}
    assert series["b"].values == {"figure": [2.0, 4.0]}


def test_who_fails_is_named_and_the_others_go_on() -> None:
    calls = 0

    def second_time_bad() -> Mapping[str, float]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("out of luck")
        return {"figure": 1.0}

    failures: dict[str, str] = {}
    runs = {"bad": second_time_bad, "good": lambda: {"figure": 2.0}}
    series = take_turns(runs, 3, quiet, failures)
    assert failures == {"bad": "RuntimeError: out of luck"}
    assert calls == 2
    assert series["bad"].values == {"figure": [1.0]}
    assert series["good"].values == {"figure": [2.0, 2.0, 2.0]}

    calls = 1
    with pytest.raises(RuntimeError, match="out of luck"):
        take_turns(runs, 1, quiet)
