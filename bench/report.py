"""What the turns of :mod:`bench.llm` add up to: ratios, shares of limits, a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.measure import Series, Summary, per_turn, ratios
from bench.models import Reads
from bench.xnnpack import BYTES_PER_WEIGHT

OURS, LLAMA, XNNPACK = "executorch-ggml", "llama.cpp", "XNNPACK 8da4w"
#: Ours with weights in large pages instead of a mapped file.
OURS_COPIED = "executorch-ggml --no-mmap"
BOTH_OURS = (OURS, OURS_COPIED)
#: llama.cpp's other attention, where its speed depends on it.
LLAMA_FLASH = "llama.cpp, flash attention"
READ_LIMIT = "read limit"

FIRST_TOKEN, PEAK, BUSY = "first_token_seconds", "peak_memory_mib", "_busy"
#: Bytes of a cached key's or value's element: F16 here, F32 in ExecuTorch's own attention.
CACHE_BYTES, XNNPACK_CACHE_BYTES = 2, 4

Figures = Mapping[str, Mapping[str, list[float]]]
Settings = Mapping[str, int]


@dataclass(frozen=True)
class Row:
    """How a figure is shown. ``label`` is a format of the settings."""

    figure: str
    label: str
    unit: str
    #: Digits after the point.
    digits: int = 1


ROWS = (
    Row("prefill", "prefill, {prompt} tokens", "tok/s"),
    Row("decode", "decode, {decode} tokens", "tok/s"),
    Row("deep", "decode after {depth:,} positions", "tok/s"),
    Row(FIRST_TOKEN, "process start to first token", "s", 2),
    Row(PEAK, "peak memory of the prefill", "MiB", 0),
    Row("prefill" + BUSY, "prefill, one core busy", "tok/s"),
    Row("decode" + BUSY, "decode, one core busy", "tok/s"),
)


@dataclass(frozen=True)
class ModelResult:
    """The figures of a model: contender -> figure -> a value per turn."""

    name: str
    file: str
    reads: Reads
    figures: Figures
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def contenders(self) -> list[str]:
        """Those that have figures, ours first."""
        return [name for name, found in self.figures.items() if found and name != READ_LIMIT]

    @property
    def peers(self) -> list[str]:
        """The others."""
        return [name for name in self.contenders if name not in BOTH_OURS]

    def as_json(self, settings: Settings) -> dict[str, Any]:
        """Raw turns and all that is computed from them."""
        return {
            "name": self.name,
            "file": self.file,
            **asdict(self.reads),
            "figures": {name: dict(found) for name, found in self.figures.items()},
            "ratios": {
                ours: {peer: _plain(self.ratios(peer, ours)) for peer in self.peers}
                for ours in BOTH_OURS
                if ours in self.contenders
            },
            "read_share": {
                name: _plain(self.read_shares(name, settings)) for name in self.contenders
            },
            "busy_share": {name: _plain(self.busy_shares(name)) for name in self.contenders},
            "failures": dict(self.failures),
        }

    def ratios(self, peer: str, ours: str = OURS) -> dict[str, Summary]:
        """Ours over the peer's."""
        return ratios(self._series(ours), self._series(peer))

    def read_shares(self, contender: str, settings: Settings) -> dict[str, Summary]:
        """Of the memory's bandwidth, what the weights and the cache that are read make up."""
        if contender.startswith("PyTorch"):
            return {}  # its weights are not the file's
        values = self._series(contender).values
        limits = self._series(READ_LIMIT).values.get("bytes_per_second", [])
        found: dict[str, Summary] = {}
        for figure, depth in (("decode", 0), ("deep", settings["depth"])):
            bytes_read = self.bytes_per_token(contender, depth)
            share = per_turn([rate * bytes_read for rate in values.get(figure, [])], limits)
            if share is not None:
                found[figure] = share
        return found

    def bytes_per_token(self, contender: str, depth: int) -> float:
        """What a token reads with ``depth`` positions in the cache."""
        if contender == XNNPACK:
            weights = self.reads.n_weights * BYTES_PER_WEIGHT
            return weights + depth * self.reads.position_elements * XNNPACK_CACHE_BYTES
        return self.reads.weight_bytes + depth * self.reads.position_elements * CACHE_BYTES

    def busy_shares(self, contender: str) -> dict[str, Summary]:
        """What one busy core leaves of each idle figure."""
        values = self._series(contender).values
        found = {
            figure: per_turn(values[figure + BUSY], idle)
            for figure, idle in values.items()
            if figure + BUSY in values
        }
        return {figure: share for figure, share in found.items() if share is not None}

    def _series(self, name: str) -> Series:
        return Series(name, {k: list(v) for k, v in self.figures.get(name, {}).items()})


def _plain(summaries: Mapping[str, Summary]) -> dict[str, dict[str, float]]:
    return {name: asdict(summary) for name, summary in summaries.items()}


def _cell(summary: Summary | None, digits: int) -> str:
    if summary is None:
        return ""
    return f"{summary.median:.{digits}f} ({summary.low:.{digits}f}..{summary.high:.{digits}f})"


def _percent(share: Summary | None, of_what: str) -> str:
    if share is None:
        return ""
    median, low, high = (100 * value for value in (share.median, share.low, share.high))
    return f"{median:.0f} % ({low:.0f}..{high:.0f}) {of_what}"


def table(result: ModelResult, settings: Settings) -> str:
    """The figures in Markdown: median (lowest..highest) of the turns, and ours over each peer's."""
    header = ["measure", "program", "figure", "share", "ratio", "ratio, --no-mmap"]
    body: list[list[str]] = []
    for row in ROWS:
        label = f"{row.label.format(**settings)}, {row.unit}"
        for name in result.contenders:
            values = result.figures[name].get(row.figure)
            if not values:
                continue
            share, of_what = result.read_shares(name, settings).get(row.figure), "of limit"
            if row.figure.endswith(BUSY):
                idle = row.figure.removesuffix(BUSY)
                share, of_what = result.busy_shares(name).get(idle), "of idle"
            cells = [_cell(Summary.of(values), row.digits), _percent(share, of_what)]
            for ours in BOTH_OURS:
                ratio = result.ratios(name, ours).get(row.figure) if name in result.peers else None
                cells.append(_cell(ratio, 2))
            body.append([label, name, *cells])
            label = ""
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    rule = ["-" * width for width in widths]
    lines = [f"### {result.name} ({result.file}, threads: {settings['threads']})", ""]
    for cells in (header, rule, *body):
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append("| " + " | ".join(padded) + " |")
    lines += ["", _note(result, settings)]
    lines += [f"Failed: {job}: {error}" for job, error in result.failures.items()]
    return "\n".join([*lines, ""])


def _note(result: ModelResult, settings: Settings) -> str:
    limits = result.figures.get(READ_LIMIT, {}).get("bytes_per_second")
    read = f"A token reads {result.reads.weight_bytes / 2**20:.0f} MiB of weights"
    if limits:
        limit = Summary.of([value / 1e9 for value in limits])
        read += f"; memory is read at {_cell(limit, 1)} GB/s"
    turns = settings["turns"]
    return f"Median (lowest..highest) of {turns} turns; ratio: ours over theirs. {read}."
