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
    runs: Mapping[str, Run], turns: int, progress: Callable[[str], None]
) -> dict[str, Series]:
    """Run each peer once per turn, in order, ``turns`` times."""
    series = {name: Series(name) for name in runs}
    for turn in range(turns):
        for name, run in runs.items():
            progress(f"turn {turn + 1} of {turns}: {name}")
            series[name].add(run())
    return series


def ratios(ours: Series, peer: Series) -> dict[str, Summary]:
    """Ours over the peer's, turn by turn, for every figure that both report."""
    return {
        figure: Summary.of(
            [a / b for a, b in zip(values, peer.values[figure], strict=True) if b > 0]
        )
        for figure, values in ours.values.items()
        if figure in peer.values
    }
