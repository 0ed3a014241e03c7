"""The table, the shares of limits, and what is drawn."""

from __future__ import annotations

import itertools
import json

import pytest

from bench.measure import Summary
from bench.models import Reads
from bench.plot import bars, read_limits, results_of
from bench.report import LLAMA, OURS, OURS_COPIED, READ_LIMIT, XNNPACK, ModelResult, table

SETTINGS = {
    "threads": 2,
    "turns": 2,
    "prompt": 512,
    "decode": 128,
    "depth": 4096,
    "deep_decode": 32,
}
RESULT = ModelResult(
    name="Tiny Q4_0",
    file="tiny.gguf",
    reads=Reads(weight_bytes=1_000_000, n_weights=2_000_000, position_elements=100),
    figures={
        READ_LIMIT: {"bytes_per_second": [100e6, 50e6]},
        OURS: {"decode": [80.0, 45.0], "deep": [40.0, 20.0], "decode_busy": [60.0, 27.0]},
        OURS_COPIED: {"decode": [100.0, 54.0]},
        LLAMA: {"decode": [40.0, 30.0], "peak_memory_mib": [100.0, 100.0]},
        XNNPACK: {"decode": [50.0, 25.0], "deep": [10.0]},
    },
    failures={"PyTorch float32, decode": "ChildError: python ended with 1: no memory"},
)


def test_shares_of_the_read_limit() -> None:
    shares = RESULT.read_shares(OURS, SETTINGS)
    assert shares["decode"] == Summary(pytest.approx(0.85), 0.8, pytest.approx(0.9))
    # 4,096 positions of 100 F16 elements more; both turns have the same share.
    assert shares["deep"].low == shares["deep"].high == pytest.approx(40 * 1.8192e6 / 100e6)
    # XNNPACK reads weights of another size, and F32 keys and values.
    theirs = RESULT.read_shares(XNNPACK, SETTINGS)
    assert theirs["decode"].median == pytest.approx(50 * 2e6 * 0.5625 / 100e6)
    assert theirs["deep"].median == pytest.approx(10 * (2e6 * 0.5625 + 4096 * 400) / 100e6)


def test_weights_of_another_size_have_no_share() -> None:
    eager = ModelResult(
        "x", "x", RESULT.reads, {**RESULT.figures, "PyTorch float32": {"decode": [1.0]}}
    )
    assert eager.read_shares("PyTorch float32", SETTINGS) == {}


def test_what_a_busy_core_leaves() -> None:
    assert RESULT.busy_shares(OURS) == {"decode": Summary(pytest.approx(0.675), 0.6, 0.75)}
    assert RESULT.busy_shares(LLAMA) == {}


def test_the_table() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table(RESULT, SETTINGS).splitlines()
        if line.startswith("|")
    ]
    assert rows[0] == ["measure", "program", "figure", "share", "ratio", "ratio, --no-mmap"]
    ratios = {name: [row[4:] for row in rows if row[1] == name] for name in (LLAMA, XNNPACK)}
    assert ratios[LLAMA] == [["1.75 (1.50..2.00)", "2.15 (1.80..2.50)"], ["", ""]]
    assert ratios[XNNPACK] == [
        ["1.70 (1.60..1.80)", "2.08 (2.00..2.16)"],
        ["4.00 (4.00..4.00)", ""],
    ]
    assert [row[:4] for row in rows[2:]] == [
        ["decode, 128 tokens, tok/s", OURS, "62.5 (45.0..80.0)", "85 % (80..90) of limit"],
        ["", OURS_COPIED, "77.0 (54.0..100.0)", "104 % (100..108) of limit"],
        ["", LLAMA, "35.0 (30.0..40.0)", "50 % (40..60) of limit"],
        ["", XNNPACK, "37.5 (25.0..50.0)", "56 % (56..56) of limit"],
        ["decode after 4,096 positions, tok/s", OURS, "30.0 (20.0..40.0)", *_same(73)],
        ["", XNNPACK, "10.0 (10.0..10.0)", "28 % (28..28) of limit"],
        ["peak memory of the prefill, MiB", LLAMA, "100 (100..100)", ""],
        ["decode, one core busy, tok/s", OURS, "43.5 (27.0..60.0)", "68 % (60..75) of idle"],
    ]
    assert all(row[4:] == ["", ""] for row in rows[2:] if row[1] in (OURS, OURS_COPIED))


def _same(percent: int) -> list[str]:
    return [f"{percent} % ({percent}..{percent}) of limit"]


def test_what_the_table_says_below() -> None:
    text = table(RESULT, SETTINGS)
    assert "of 2 turns" in text
    assert "A token reads 1 MiB of weights; memory is read at 0.1 (0.1..0.1) GB/s." in text
    assert "Failed: PyTorch float32, decode: ChildError: python ended with 1: no memory" in text


def test_json_holds_the_turns_and_is_drawn_from() -> None:
    plain = json.loads(json.dumps(RESULT.as_json(SETTINGS)))
    assert plain["figures"][OURS]["decode"] == [80.0, 45.0]
    assert plain["ratios"][OURS][LLAMA]["decode"] == {"median": 1.75, "low": 1.5, "high": 2.0}
    assert plain["ratios"][OURS_COPIED][LLAMA]["decode"]["high"] == 2.5
    assert plain["read_share"][OURS]["decode"]["low"] == 0.8
    assert plain["busy_share"][OURS]["decode"]["high"] == 0.75
    assert plain["failures"] == RESULT.failures
    assert results_of({"models": [plain]}) == [RESULT]


def test_bars_stand_side_by_side_around_their_model() -> None:
    found = bars([RESULT, RESULT], "decode")
    assert [bar.contender for bar in found] == 2 * [OURS, OURS_COPIED, LLAMA, XNNPACK]
    positions = [bar.position for bar in found]
    assert positions == sorted(positions)
    assert [sum(group) / 4 for group in (positions[:4], positions[4:])] == [0.0, 1.0]
    gaps = {round(b - a, 9) for a, b in itertools.pairwise(positions[:4])}
    assert gaps == {round(found[0].width, 9)}
    assert found[0].summary == Summary(62.5, 45.0, 80.0)
    assert bars([RESULT], "prefill") == []


def test_the_limit_is_drawn_where_reading_is_what_takes_the_time() -> None:
    assert read_limits([RESULT], "decode", 4096) == {0: 75.0}
    assert read_limits([RESULT], "deep", 4096)[0] == pytest.approx(75e6 / 1.8192e6)
    assert read_limits([RESULT], "prefill", 4096) == {}
