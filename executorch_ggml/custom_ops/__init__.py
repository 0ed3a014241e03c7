"""The ``ggml::*`` operators: whole operations that ggml computes in one call.

Importing this package registers them. Each has an eager reference, so that a
graph that contains them still runs in PyTorch, and a fake implementation, so
that it can be traced. They carry no gradient: these graphs are for inference.
"""

from executorch_ggml.custom_ops.rms_norm import rms_norm
from executorch_ggml.custom_ops.rope import rope
from executorch_ggml.custom_ops.swiglu import swiglu

__all__ = ["rms_norm", "rope", "swiglu"]
