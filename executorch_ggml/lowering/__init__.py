"""Lowerings from ATen, edge and ``ggml::`` ops to IR, one file per op family."""

from __future__ import annotations


def load_lowerings() -> None:
    """Register every op family (importing a family registers its ops)."""
    from executorch_ggml.lowering import (  # noqa: F401
        activations,
        arithmetic,
        attention,
        cast,
        compare,
        constructors,
        control_flow,
        conv,
        conv_transpose,
        distance,
        embedding,
        index,
        linear,
        norm,
        pads,
        pool,
        quantized,
        recurrent,
        reduce,
        scan,
        scatter,
        slices,
        softmax,
        sort,
        state,
        unary,
        upsample,
        views,
    )
