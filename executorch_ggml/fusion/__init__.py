"""The fusions that ``preprocess`` runs on a partition, in order.

Each replaces nodes that the partitioner claimed by one fused op that lowers too
and still runs in PyTorch (:mod:`executorch_ggml.custom_ops`), so a fused program
can be compared with the unfused one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torch.export.exported_program import ExportedProgram

import executorch_ggml.custom_ops  # noqa: F401  (defines the ops that fusions emit)
from executorch_ggml.fusion.gqa import strip_gqa_expand
from executorch_ggml.fusion.rms_norm import fuse_rms_norm
from executorch_ggml.fusion.rope import fuse_rope
from executorch_ggml.fusion.swiglu import fuse_swiglu
from executorch_ggml.options import GgmlOptions

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fusion:
    """One rewrite; ``run`` returns how often it matched."""

    name: str
    run: Callable[[ExportedProgram], int]


#: In order. The reason for each place is beside it.
FUSIONS: Final = (
    Fusion("rms_norm", fuse_rms_norm),  # first: its products would look like others'
    Fusion("rope", fuse_rope),
    Fusion("gqa", strip_gqa_expand),  # after rope, which sees the keys before they repeat
    Fusion("swiglu", fuse_swiglu),
)


class FusionNotFoundError(RuntimeError):
    """An expected fusion matched nothing."""


def fuse(program: ExportedProgram, options: GgmlOptions) -> Counter[str]:
    """Run every fusion on a partition. Returns the matches by name.

    Raises:
        FusionNotFoundError: one of ``options.expect_fusions`` matched nothing.
        ValueError: ``options.expect_fusions`` names an unknown fusion.
    """
    matches: Counter[str] = Counter()
    for fusion in FUSIONS:
        matches[fusion.name] = fusion.run(program)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    logger.info("fusions: %s", dict(matches))
    unknown = set(options.expect_fusions) - set(matches)
    if unknown:
        raise ValueError(f"unknown fusions {sorted(unknown)}; there are {sorted(matches)}")
    missing = [name for name in options.expect_fusions if not matches[name]]
    if missing:
        raise FusionNotFoundError(
            f"expected fusions matched nothing: {', '.join(missing)}. The model writes them in a "
            "form that is not known yet; without them it is right but slower."
        )
    return matches
