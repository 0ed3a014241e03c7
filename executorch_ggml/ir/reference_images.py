"""References of the ops over channels-last images: torch shape ``[n, h, w, c]``."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from executorch_ggml.ir.reference import Context, Inputs, Params, operand
from executorch_ggml.ir.reference import pool_2d as pool_2d_planes
from executorch_ggml.ir.shape_rules_images import PANEL


def packed_kernel(kernel: Tensor) -> Tensor:
    """A kernel ``[c_out, c_in, kh, kw]`` as ``[panels, kh * kw * c_in, PANEL]``."""
    rows = kernel.permute(2, 3, 1, 0).reshape(-1, kernel.shape[0])
    filled = F.pad(rows, (0, -rows.shape[1] % PANEL))
    return filled.reshape(rows.shape[0], -1, PANEL).permute(1, 0, 2).contiguous()


def _planes(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _channels_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).contiguous()


def _conv(x: Inputs, p: Params, kernel: Tensor, groups: int) -> Tensor:
    source = F.pad(
        _planes(operand(x, 1)), [p[f"{side}{i}"] for i in (0, 1) for side in ("padding", "after")]
    )
    result = F.conv2d(
        source,
        kernel,
        stride=(p["stride1"], p["stride0"]),
        dilation=(p["dilation1"], p["dilation0"]),
        groups=groups,
    )
    result = _channels_last(result)
    for extra in x[2:]:
        if extra is not None:
            result = result + extra
    return result.clamp(p["min"], p["max"])


def conv_2d_nhwc(x: Inputs, p: Params, c: Context) -> Tensor:
    _, panels, rows, panel = operand(x, 0).shape
    flat = (
        operand(x, 0).float().permute(0, 2, 1, 3).reshape(rows, panels * panel)[:, : p["channels"]]
    )
    taps = flat.reshape(p["kernel1"], p["kernel0"], -1, p["channels"])
    return _conv(x, p, taps.permute(3, 2, 0, 1), groups=1)


def conv_2d_dw_nhwc(x: Inputs, p: Params, c: Context) -> Tensor:
    kernel = operand(x, 0)  # [1, kh, kw, c]
    return _conv(x, p, kernel.permute(3, 0, 1, 2), groups=kernel.shape[3])


def pool_2d_nhwc(x: Inputs, p: Params, c: Context) -> Tensor:
    return _channels_last(pool_2d_planes([_planes(operand(x, 0))], p, c))
