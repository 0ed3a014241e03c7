"""What each op computes, in torch: the meaning of the IR, independent of ggml.

A reference takes tensors of four dims in reversed ggml order, ``[ne3, ne2, ne1, ne0]``,
and gives one such tensor. Views share memory with their operand, as in ggml, so that a
write into a state is seen through its views. Products are exact in F32: ggml rounds the
activations of a quantized product, this does not.

Attention and rotation are in :mod:`executorch_ggml.ir.reference_attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from executorch_ggml.ir.enums import Glu, Pool, Unary, Upscale
from executorch_ggml.ir.types import DType, IRError

if TYPE_CHECKING:
    from executorch_ggml.ir.reference_attention import KvCacheTensor

Inputs: TypeAlias = "Sequence[Tensor | None]"
Params: TypeAlias = "Mapping[str, Any]"


@dataclass(frozen=True)
class Context:
    """What an op can reach besides its operands: the caches, by state number."""

    caches: Mapping[int, KvCacheTensor] = field(default_factory=dict)


Reference: TypeAlias = "Callable[[Inputs, Params, Context], Tensor]"

TORCH_DTYPES: Final[Mapping[DType, torch.dtype]] = {
    DType.F32: torch.float32,
    DType.F16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.F64: torch.float64,
    DType.I8: torch.int8,
    DType.I16: torch.int16,
    DType.I32: torch.int32,
    DType.I64: torch.int64,
}


def torch_dtype(dtype: DType) -> torch.dtype:
    """The torch type that holds values of ``dtype``: F32 for quantized types and unknown ones."""
    return TORCH_DTYPES.get(dtype, torch.float32)


def operand(x: Inputs, index: int) -> Tensor:
    found = x[index]
    if found is None:
        raise IRError(f"operand {index} is missing")
    return found


def optional(x: Inputs, index: int) -> Tensor | None:
    return x[index] if index < len(x) else None


def _shape(p: Params) -> list[int]:
    return [p[f"ne{i}"] for i in (3, 2, 1, 0)]


# --- views and copies ------------------------------------------------------------------


def reshape(x: Inputs, p: Params, c: Context) -> Tensor:
    return operand(x, 0).view(_shape(p))


def permute(x: Inputs, p: Params, c: Context) -> Tensor:
    order = [0] * 4
    for source in range(4):
        order[3 - p[f"axis{source}"]] = 3 - source
    return operand(x, 0).permute(order)


def view(x: Inputs, p: Params, c: Context) -> Tensor:
    source = operand(x, 0)
    strides = [p["stride3"], p["stride2"], p["stride1"], 1]
    offset = int(source.storage_offset()) + p["offset"]
    return source.as_strided(_shape(p), strides, offset)


def cont(x: Inputs, p: Params, c: Context) -> Tensor:
    return operand(x, 0).clone(memory_format=torch.contiguous_format)


def cast(x: Inputs, p: Params, c: Context) -> Tensor:
    """To an integer type, the fraction is dropped, as in C."""
    copied = operand(x, 0).to(torch_dtype(DType(p["dtype"])), copy=True)
    return copied.clone(memory_format=torch.contiguous_format)


def repeat(x: Inputs, p: Params, c: Context) -> Tensor:
    source = operand(x, 0)
    return source.repeat([n // m for n, m in zip(_shape(p), source.shape, strict=True)])


def concat(x: Inputs, p: Params, c: Context) -> Tensor:
    return torch.cat([operand(x, 0), operand(x, 1)], dim=3 - p["axis"])


def pad(x: Inputs, p: Params, c: Context) -> Tensor:
    amounts = [p[f"{side}{i}"] for i in range(4) for side in ("before", "after")]
    return F.pad(operand(x, 0), amounts)


# --- rows and state ------------------------------------------------------------------------


def check_rows(ids: Tensor, n_rows: int) -> None:
    if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= n_rows):
        raise IRError(f"row {int(ids.min())}..{int(ids.max())} of {n_rows}")


def get_rows(x: Inputs, p: Params, c: Context) -> Tensor:
    table = operand(x, 0)
    ids = operand(x, 1)[0].to(torch.int64)
    check_rows(ids, table.shape[2])
    picked = table.gather(2, ids.unsqueeze(-1).expand(*ids.shape, table.shape[3]))
    return picked if table.dtype == torch.int32 else picked.to(torch.float32)


def set_rows(x: Inputs, p: Params, c: Context) -> Tensor:
    state, rows, ids = operand(x, 0), operand(x, 1), operand(x, 2)[0].to(torch.int64)
    check_rows(ids, state.shape[2])
    # One list of ids serves every matrix where ids have fewer dims than rows.
    full = ids.repeat(rows.shape[0] // ids.shape[0], rows.shape[1] // ids.shape[1], 1)
    state.scatter_(2, full.unsqueeze(-1).expand(rows.shape), rows.to(state.dtype))
    return state


def assign(x: Inputs, p: Params, c: Context) -> Tensor:
    return operand(x, 0).copy_(operand(x, 1))


# --- element-wise ----------------------------------------------------------------------------


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Reference:
    def run(x: Inputs, p: Params, c: Context) -> Tensor:
        return function(operand(x, 0), operand(x, 1).to(torch.float32)).contiguous()

    return run


def _unary(function: Callable[[Tensor], Tensor]) -> Reference:
    """Computed in F32, whatever the element type."""

    def run(x: Inputs, p: Params, c: Context) -> Tensor:
        source = operand(x, 0)
        return function(source.to(torch.float32)).to(source.dtype).contiguous()

    return run


add: Final = _binary(torch.add)
sub: Final = _binary(torch.sub)
mul: Final = _binary(torch.mul)
div: Final = _binary(torch.div)
sqr: Final = _unary(torch.square)
sqrt: Final = _unary(torch.sqrt)
log: Final = _unary(torch.log)
sin: Final = _unary(torch.sin)
cos: Final = _unary(torch.cos)


def scale(x: Inputs, p: Params, c: Context) -> Tensor:
    scaled = torch.mul(operand(x, 0), p["scale"])
    return torch.add(scaled, p["bias"]) if p["bias"] else scaled  # -0 + 0 is 0


def clamp(x: Inputs, p: Params, c: Context) -> Tensor:
    return operand(x, 0).clamp(p["min"], p["max"])


def leaky_relu(x: Inputs, p: Params, c: Context) -> Tensor:
    return F.leaky_relu(operand(x, 0), p["negative_slope"])


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def _gelu_quick(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


def _round(x: Tensor) -> Tensor:
    """Halves away from zero, as C's ``roundf``; ``torch.round`` takes them to even."""
    whole = torch.trunc(x)
    return torch.where((x - whole).abs() >= 0.5, whole + torch.sign(x), whole)


_UNARY: Final[Mapping[Unary, Callable[[Tensor], Tensor]]] = {
    Unary.ABS: torch.abs,
    Unary.SGN: torch.sign,
    Unary.NEG: torch.neg,
    Unary.STEP: lambda x: (x > 0).to(x.dtype),
    Unary.TANH: torch.tanh,
    Unary.ELU: F.elu,
    Unary.RELU: F.relu,
    Unary.SIGMOID: torch.sigmoid,
    Unary.GELU: _gelu_tanh,
    Unary.GELU_QUICK: _gelu_quick,
    Unary.SILU: F.silu,
    Unary.HARDSWISH: F.hardswish,
    Unary.HARDSIGMOID: F.hardsigmoid,
    Unary.EXP: torch.exp,
    Unary.EXPM1: torch.expm1,
    Unary.SOFTPLUS: F.softplus,
    Unary.GELU_ERF: F.gelu,
    Unary.FLOOR: torch.floor,
    Unary.CEIL: torch.ceil,
    Unary.ROUND: _round,
    Unary.TRUNC: torch.trunc,
}

_GLU: Final[Mapping[Glu, Callable[[Tensor], Tensor]]] = {
    Glu.REGLU: F.relu,
    Glu.GEGLU: _gelu_tanh,
    Glu.SWIGLU: F.silu,
    Glu.GEGLU_ERF: F.gelu,
    Glu.GEGLU_QUICK: _gelu_quick,
}


def unary(x: Inputs, p: Params, c: Context) -> Tensor:
    return _unary(_UNARY[Unary(p["kind"])])(x, p, c)


def glu(x: Inputs, p: Params, c: Context) -> Tensor:
    return (_GLU[Glu(p["kind"])](operand(x, 0)) * operand(x, 1)).contiguous()


# --- reductions and norms -------------------------------------------------------------------


def sum_rows(x: Inputs, p: Params, c: Context) -> Tensor:
    return operand(x, 0).sum(dim=-1, keepdim=True)


def mean_rows(x: Inputs, p: Params, c: Context) -> Tensor:
    return operand(x, 0).mean(dim=-1, keepdim=True)


def sum(x: Inputs, p: Params, c: Context) -> Tensor:
    return operand(x, 0).sum().reshape(1, 1, 1, 1)


def argmax(x: Inputs, p: Params, c: Context) -> Tensor:
    """The first of equal maxima."""
    found = operand(x, 0).argmax(dim=-1).to(torch.int32)
    return found.reshape(1, 1, 1, -1)


def cumsum(x: Inputs, p: Params, c: Context) -> Tensor:
    return operand(x, 0).cumsum(dim=-1)


def norm(x: Inputs, p: Params, c: Context) -> Tensor:
    source = operand(x, 0).contiguous()
    return F.layer_norm(source, source.shape[-1:], eps=p["eps"])


def rms_norm(x: Inputs, p: Params, c: Context) -> Tensor:
    source = operand(x, 0).contiguous()
    mean_square = source.square().mean(dim=-1, keepdim=True)
    return source * torch.rsqrt(mean_square + p["eps"])


def l2_norm(x: Inputs, p: Params, c: Context) -> Tensor:
    """``x / max(|x|, eps)`` per row."""
    return F.normalize(operand(x, 0).contiguous(), dim=-1, eps=p["eps"])


def group_norm(x: Inputs, p: Params, c: Context) -> Tensor:
    """Groups of ``ceil(channels / n_groups)`` channels; the last may be smaller."""
    source = operand(x, 0)
    per_group = -(-source.shape[1] // p["n_groups"])
    groups = [
        F.group_norm(group, 1, eps=p["eps"]) for group in torch.split(source, per_group, dim=1)
    ]
    return torch.cat(groups, dim=1)


def soft_max(x: Inputs, p: Params, c: Context) -> Tensor:
    scores = torch.mul(operand(x, 0), p["scale"])
    mask = optional(x, 1)
    if mask is not None:
        scores = scores + mask.to(torch.float32)
    return scores.softmax(dim=-1)


# --- products and convolution -----------------------------------------------------------------


def mul_mat(x: Inputs, p: Params, c: Context) -> Tensor:
    """``x @ w^T``; a matrix of ``w`` serves as many consecutive matrices of ``x`` as fit."""
    w, activations = operand(x, 0).to(torch.float32), operand(x, 1)
    for dim in (0, 1):
        w = w.repeat_interleave(activations.shape[dim] // w.shape[dim], dim=dim)
    return torch.matmul(activations, w.transpose(-1, -2))


def _conv(x: Inputs, p: Params, groups: int) -> Tensor:
    return F.conv2d(
        operand(x, 1),
        operand(x, 0).to(torch.float32),
        stride=(p["stride1"], p["stride0"]),
        padding=(p["padding1"], p["padding0"]),
        dilation=(p["dilation1"], p["dilation0"]),
        groups=groups,
    )


def conv_2d(x: Inputs, p: Params, c: Context) -> Tensor:
    return _conv(x, p, groups=1)


def conv_2d_dw(x: Inputs, p: Params, c: Context) -> Tensor:
    return _conv(x, p, groups=operand(x, 1).shape[1])


def pool_2d(x: Inputs, p: Params, c: Context) -> Tensor:
    """The average divides by the whole kernel: padding counts as zeros."""
    source = operand(x, 0)
    kernel, stride, padding = ((p[f"{n}1"], p[f"{n}0"]) for n in ("kernel", "stride", "padding"))
    if Pool(p["kind"]) is Pool.AVG:
        return F.avg_pool2d(source, kernel, stride, padding, count_include_pad=True)
    # F.max_pool2d refuses padding beyond half the kernel.
    (ph, pw) = padding
    return F.max_pool2d(F.pad(source, (pw, pw, ph, ph), value=-torch.inf), kernel, stride)


def _window(p: Params) -> dict[str, tuple[int, int]]:
    names = {"kernel_size": "kernel", "stride": "stride", "padding": "padding"}
    return {k: (p[f"{n}1"], p[f"{n}0"]) for k, n in {**names, "dilation": "dilation"}.items()}


def im2col(x: Inputs, p: Params, c: Context) -> Tensor:
    """A row holds a window of every channel, in the order of a kernel's elements."""
    source = operand(x, 0)
    columns = F.unfold(source, **_window(p)).transpose(1, 2).contiguous()
    width = _n_windows(source.shape[3], p, 0)
    return columns.reshape(source.shape[0], -1, width, columns.shape[-1])


def _n_windows(extent: int, p: Params, axis: int) -> int:
    span: int = extent + 2 * p[f"padding{axis}"] - p[f"dilation{axis}"] * (p[f"kernel{axis}"] - 1)
    return int((span - 1) // p[f"stride{axis}"]) + 1


def im2col_3d(x: Inputs, p: Params, c: Context) -> Tensor:
    source = operand(x, 0)
    volumes = source.reshape(p["images"], p["channels"], *source.shape[1:])
    amounts = [p[f"padding{i}"] for i in (0, 0, 1, 1, 2, 2)]
    windows = F.pad(volumes, amounts)
    for dim, axis in ((2, 2), (3, 1), (4, 0)):
        span = p[f"dilation{axis}"] * (p[f"kernel{axis}"] - 1) + 1
        windows = windows.unfold(dim, span, p[f"stride{axis}"])
    kernel = windows[..., :: p["dilation2"], :: p["dilation1"], :: p["dilation0"]]
    ordered = kernel.permute(0, 2, 3, 4, 1, 5, 6, 7).contiguous()
    n, depth, height, width = ordered.shape[:4]
    return ordered.reshape(n * depth, height, width, -1)


def col2im(x: Inputs, p: Params, c: Context) -> Tensor:
    """Windows that do not fit the image are dropped, so they are added on a larger one."""
    source = operand(x, 0)
    n, height, width, column = source.shape
    sizes, grown = (p["ne1"], p["ne0"]), []
    for axis, (windows, size) in enumerate(((width, sizes[1]), (height, sizes[0]))):
        span = p[f"dilation{axis}"] * (p[f"kernel{axis}"] - 1) + 1
        needed = (windows - 1) * p[f"stride{axis}"] + span - 2 * p[f"padding{axis}"]
        grown.append(max(needed, size))
    result = torch.zeros(n, column // (p["kernel0"] * p["kernel1"]), *sizes)
    taps = source.reshape(n, height, width, -1, p["kernel1"], p["kernel0"])
    full = torch.zeros(
        n, result.shape[1], grown[1] + 2 * p["padding1"], grown[0] + 2 * p["padding0"]
    )
    for ky in range(p["kernel1"]):
        for kx in range(p["kernel0"]):
            y, v = ky * p["dilation1"], kx * p["dilation0"]
            rows = slice(y, y + (height - 1) * p["stride1"] + 1, p["stride1"])
            columns = slice(v, v + (width - 1) * p["stride0"] + 1, p["stride0"])
            full[:, :, rows, columns] += taps[..., ky, kx].permute(0, 3, 1, 2)
    top, left = p["padding1"], p["padding0"]
    return result.copy_(full[:, :, top : top + sizes[0], left : left + sizes[1]])


def upscale(x: Inputs, p: Params, c: Context) -> Tensor:
    mode = Upscale(p["mode"])
    size = (p["ne1"], p["ne0"])
    if mode is Upscale.NEAREST:
        return F.interpolate(operand(x, 0), size, mode="nearest")
    align = bool(p["align_corners"])
    return F.interpolate(operand(x, 0), size, mode=mode.name.lower(), align_corners=align)
