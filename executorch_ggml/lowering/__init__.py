"""Lowerings from ATen, edge and ``ggml::`` ops to IR, one file per op family."""

from __future__ import annotations


def load_lowerings() -> None:
    """Register every op family (importing a family registers its ops)."""
    from executorch_ggml.lowering import (  # noqa: F401
        attention,
        cast,
        conv,
        distance,
        elementwise,
        embedding,
        linear,
        norm,
        reduce,
        scan,
        softmax,
        sort,
        state,
        views,
    )
