"""Draw what :mod:`bench.llm` measured: a panel per measure, a bar per model and contender.

python -m bench.plot llm.json llm.png
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import Summary
from bench.models import Reads
from bench.report import (
    LLAMA,
    LLAMA_FLASH,
    OURS,
    OURS_COPIED,
    READ_LIMIT,
    ROWS,
    XNNPACK,
    ModelResult,
    Row,
)

#: Of each contender, told apart without colours too: their order is the same everywhere.
COLOURS = {
    OURS: "#0b6e4f",
    OURS_COPIED: "#6fb98f",
    LLAMA: "#d9822b",
    LLAMA_FLASH: "#f2c48d",
    XNNPACK: "#3a6ea5",
    "PyTorch float32": "#8a8a8a",
    "PyTorch bfloat16": "#c4c4c4",
}


def require_matplotlib() -> Any:
    """The module; says how to get it where it is missing."""
    try:
        return importlib.import_module("matplotlib.figure")
    except ModuleNotFoundError:
        sys.exit("plots need matplotlib: pip install matplotlib")


def results_of(report: Mapping[str, Any]) -> list[ModelResult]:
    """The models of a JSON report."""
    names = ("weight_bytes", "n_weights", "position_elements")
    return [
        ModelResult(
            model["name"],
            model["file"],
            Reads(**{name: model[name] for name in names}),
            model["figures"],
            model["failures"],
        )
        for model in report["models"]
    ]


@dataclass(frozen=True)
class Bar:
    """One bar: where it stands among the models, and the turns' median and spread."""

    position: float
    width: float
    contender: str
    summary: Summary


def bars(results: Sequence[ModelResult], figure: str) -> list[Bar]:
    """The bars of a figure: each model's around the model's number, in the colours' order."""
    found = []
    for group, result in enumerate(results):
        present = [name for name in COLOURS if result.figures.get(name, {}).get(figure)]
        width = 0.8 / max(len(present), 3)
        for index, name in enumerate(present):
            position = group + (index - (len(present) - 1) / 2) * width
            summary = Summary.of(result.figures[name][figure])
            found.append(Bar(position, width, name, summary))
    return found


def read_limits(results: Sequence[ModelResult], figure: str, depth: int) -> dict[int, float]:
    """By a model's number, the tokens per second at which reading takes all the bandwidth."""
    depths = {"decode": 0, "deep": depth}
    found: dict[int, float] = {}
    for group, result in enumerate(results):
        measured = result.figures.get(READ_LIMIT, {}).get("bytes_per_second")
        if figure in depths and measured:
            bytes_read = result.bytes_per_token(OURS, depths[figure])
            found[group] = Summary.of(measured).median / bytes_read
    return found


def _draw(axes: Any, row: Row, results: Sequence[ModelResult], settings: Mapping[str, int]) -> None:
    """One panel."""
    top = 0.0
    for bar in bars(results, row.figure):
        middle, low, high = bar.summary.median, bar.summary.low, bar.summary.high
        axes.bar(bar.position, middle, 0.92 * bar.width, color=COLOURS[bar.contender])
        axes.vlines(bar.position, low, high, color="#333333", linewidth=1)
        axes.annotate(
            f"{middle:.3g}" if middle < 1000 else f"{middle:.0f}",
            (bar.position, high),
            (0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=7,
        )
        top = max(top, high)
    for group, limit in read_limits(results, row.figure, settings["depth"]).items():
        axes.hlines(limit, group - 0.45, group + 0.45, color="#b00020", linestyle="--", linewidth=1)
        top = max(top, limit)
    better = "higher" if row.unit == "tok/s" else "lower"
    label = row.label.format(**settings)
    axes.set_title(f"{label} ({row.unit}; {better} is better)", fontsize=9, loc="left")
    axes.set_xticks(range(len(results)), [result.name for result in results], fontsize=8)
    axes.set_xlim(-0.6, len(results) - 0.4)
    axes.set_ylim(0, 1.12 * top)
    axes.tick_params(axis="y", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Write the picture; its form is the path's suffix. Needs matplotlib."""
    figure_module = require_matplotlib()
    lines, patches = (importlib.import_module(f"matplotlib.{n}") for n in ("lines", "patches"))
    results, settings = results_of(report), report["settings"]
    rows = [row for row in ROWS if bars(results, row.figure)]
    if not rows:
        raise ValueError("the report holds no figures to draw")
    columns = min(len(rows), 2)
    n_lines = -(-len(rows) // columns)
    width = columns * max(3.6, 1.3 + 1.35 * len(results))
    size = (width, 0.9 + 2.5 * n_lines)
    figure = figure_module.Figure(figsize=size, layout="constrained")
    panels = figure.subplots(n_lines, columns, squeeze=False).ravel()
    for axes, row in zip(panels, rows, strict=False):
        _draw(axes, row, results, settings)
    for axes in panels[len(rows) :]:
        axes.set_axis_off()
    drawn = {bar.contender for row in rows for bar in bars(results, row.figure)}
    legend = [patches.Patch(color=c, label=name) for name, c in COLOURS.items() if name in drawn]
    if any(read_limits(results, row.figure, settings["depth"]) for row in rows):
        label = "limit of memory bandwidth"
        legend.append(lines.Line2D([], [], color="#b00020", linestyle="--", label=label))
    figure.legend(handles=legend, loc="outside upper left", ncols=4, fontsize=8, frameon=False)
    machine = report["machine"]
    figure.supxlabel(
        f"{machine['processor']}, threads: {settings['threads']}; median and spread of "
        f"{settings['turns']} turns; {report['date'][:10]}",
        fontsize=7,
    )
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, help="what bench.llm --json wrote")
    parser.add_argument("picture", type=Path, help=".png, .svg or .pdf")
    args = parser.parse_args()
    plot(json.loads(args.report.read_text()), args.picture)


if __name__ == "__main__":
    main()
