"""Interleaved measurements of peers, and the ratios between them.

The machines that run this are shared and their speed drifts, so peers take turns,
a ratio is formed within each turn, and the median is reported with its spread.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

#: One run of a peer: figure name -> value.
Run = Callable[[], Mapping[str, float]]


@dataclass
class Series:
    """The figures of one peer, one value per turn."""

    name: str
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, figures: Mapping[str, float]) -> None:
        for figure, value in figures.items():
            self.values.setdefault(figure, []).append(value)


@dataclass(frozen=True)
class Summary:
    """Median, minimum and maximum."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Summary:
        return Summary(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{self.median:.4g} ({self.low:.4g} .. {self.high:.4g})"


def take_turns(
    runs: Mapping[str, Run],
    turns: int,
    progress: Callable[[str], None],
    failures: dict[str, str] | None = None,
) -> dict[str, Series]:
    """Run each peer once per turn, in order, ``turns`` times.

    With ``failures``, a run that raises is noted there by its name and not tried again, and
    the others go on; its values are then those of the turns before. Without, it ends all.
    """
    series = {name: Series(name) for name in runs}
    for turn in range(turns):
        for name, run in runs.items():
            if failures is not None and name in failures:
                continue
            progress(f"turn {turn + 1} of {turns}: {name}")
            try:
                series[name].add(run())
            except Exception as error:
                if failures is None:
                    raise
                failures[name] = f"{type(error).__name__}: {error}"
                progress(f"{name} failed: {failures[name]}")
    return series


def per_turn(a: Sequence[float], b: Sequence[float]) -> Summary | None:
    """Quotients of the turns that both have, which are the first ones; None without any."""
    quotients = [x / y for x, y in zip(a, b, strict=False) if y > 0]
    return Summary.of(quotients) if quotients else None


def ratios(ours: Series, peer: Series) -> dict[str, Summary]:
    """Ours over the peer's, turn by turn, for every figure that both report."""
    found = {
        figure: per_turn(values, peer.values[figure])
        for figure, values in ours.values.items()
        if figure in peer.values
    }
    return {figure: summary for figure, summary in found.items() if summary is not None}
