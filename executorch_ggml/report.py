"""What was delegated and what was not, for a person to read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rejection:
    """One op that stays with ExecuTorch."""

    op: str
    reason: str
    source: str = ""  # file and line of the model's code


@dataclass(frozen=True)
class DelegationReport:
    """Counts for one method; ``str()`` is a table.

    ``n_host`` of the delegated ops take a host-side kernel: a function, comparison or
    index operation of our own, which runs on the CPU whatever ggml's device is.
    """

    method: str
    n_ops: int
    n_delegated: int
    n_partitions: int
    rejections: tuple[Rejection, ...] = field(default_factory=tuple)
    n_host: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.rejections

    def __str__(self) -> str:
        host = f", {self.n_host} of them host-side" if self.n_host else ""
        lines = [
            f"{self.method}: {self.n_delegated} of {self.n_ops} ops delegated to ggml "
            f"in {self.n_partitions} partition{'' if self.n_partitions == 1 else 's'}{host}"
        ]
        groups = Counter((r.op, r.reason) for r in self.rejections)
        first_source: dict[tuple[str, str], str] = {}
        for r in self.rejections:
            first_source.setdefault((r.op, r.reason), r.source)
        width = max((len(op) for op, _ in groups), default=0)
        for (op, reason), count in groups.most_common():
            source = first_source[(op, reason)]
            where = f"  ({source})" if source else ""
            lines.append(f"  {count:4} x {op:{width}}  {reason}{where}")
        return "\n".join(lines)
