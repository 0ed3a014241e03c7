"""Rewrites of an exported program that a user asks for."""

from executorch_ggml.passes.batch_norm_folding import BatchNormFoldingRewritePass

__all__ = ["BatchNormFoldingRewritePass"]
