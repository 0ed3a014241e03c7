"""Convolution in one to three dims, transposed ones, fold and unfold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.lowering.cases.base import (
    BF16,
    F16,
    PRODUCT,
    Case,
    fn,
    r,
    seeded,
)


def conv(
    name: str,
    make: Callable[[], nn.Module],
    inputs: tuple[Tensor, ...],
    *ops: str,
    rtol: float = PRODUCT,
    **more: Any,
) -> Case:
    return Case(name, seeded(make), inputs, ops, rtol, **more)


def _not_finite(*shape: int) -> Tensor:
    x = r(*shape)
    x[(0, 0, *(1,) * (len(shape) - 2))] = torch.nan
    x[(0, 1, *(4,) * (len(shape) - 2))] = torch.inf
    return x


_COLUMNS = ("im2col", "reshape", "reshape", "mul_mat")

CONV_1D = [
    conv("conv1d", lambda: nn.Conv1d(3, 4, 3, padding=1, stride=2), (r(2, 3, 9),)),
    conv("conv1d_no_bias", lambda: nn.Conv1d(3, 4, 3, bias=False), (r(2, 3, 9),)),
    conv("conv1d_dilation", lambda: nn.Conv1d(3, 4, 3, dilation=2), (r(2, 3, 9),)),
    conv("conv1d_kernel_1", lambda: nn.Conv1d(3, 4, 1), (r(2, 3, 9),)),
    conv("conv1d_kernel_of_the_input", lambda: nn.Conv1d(3, 4, 9), (r(2, 3, 9),)),
    conv("conv1d_unbatched", lambda: nn.Conv1d(3, 4, 3), (r(3, 9),)),
    conv("conv1d_grouped", lambda: nn.Conv1d(6, 4, 3, groups=2), (r(2, 6, 9),)),
    conv("conv1d_depthwise", lambda: nn.Conv1d(6, 6, 3, groups=6, padding=2), (r(2, 6, 9),)),
    conv("conv1d_multiplier", lambda: nn.Conv1d(3, 6, 3, groups=3, stride=2), (r(2, 3, 9),)),
    conv("conv1d_same", lambda: nn.Conv1d(3, 4, 3, padding="same"), (r(2, 3, 9),)),
    conv("conv1d_same_even", lambda: nn.Conv1d(3, 4, 4, padding="same"), (r(2, 3, 9),)),
    conv(
        "conv1d_same_even_dilated",
        lambda: nn.Conv1d(3, 4, 2, padding="same", dilation=3),
        (r(2, 3, 9),),
    ),
    conv(
        "conv1d_same_even_grouped",
        lambda: nn.Conv1d(6, 4, 4, groups=2, padding="same"),
        (r(2, 6, 9),),
    ),
    conv(
        "conv1d_same_even_depthwise",
        lambda: nn.Conv1d(4, 4, 32, groups=4, padding="same"),
        (r(2, 4, 40),),
    ),
    conv("conv1d_valid", lambda: nn.Conv1d(3, 4, 4, padding="valid", stride=3), (r(2, 3, 11),)),
    conv(
        "conv1d_causal",
        lambda: nn.Sequential(nn.ConstantPad1d((2, 0), 0.0), nn.Conv1d(3, 4, 3)),
        (r(2, 3, 9),),
    ),
]

CONV_2D = [
    conv(
        "conv2d",
        lambda: nn.Conv2d(3, 4, 3, padding=1),
        (r(2, 3, 7, 6),),
        *("conv_2d", "reshape", "add"),
    ),
    conv(
        "conv2d_stride",
        lambda: nn.Conv2d(3, 4, (3, 2), stride=(2, 1), dilation=(1, 2), bias=False),
        (r(2, 3, 9, 8),),
        "conv_2d",
    ),
    conv("conv2d_padding_of_its_own", lambda: nn.Conv2d(3, 4, 3, padding=(0, 2)), (r(2, 3, 7, 6),)),
    conv("conv2d_padding_beyond", lambda: nn.Conv2d(2, 3, 2, padding=4), (r(2, 2, 3, 2),)),
    conv(
        "conv2d_wider_than_the_image",
        lambda: nn.Conv2d(2, 3, (2, 5), padding=(0, 3)),
        (r(2, 2, 4, 2),),
    ),
    conv(
        "conv2d_dilated_rows",
        lambda: nn.Conv2d(3, 4, 3, padding=1, dilation=(2, 1)),
        (r(2, 3, 9, 7),),
    ),
    conv("conv2d_kernel_1", lambda: nn.Conv2d(3, 4, 1, stride=2), (r(2, 3, 7, 6),)),
    conv("conv2d_one_image", lambda: nn.Conv2d(3, 4, 3), (r(1, 3, 7, 6),)),
    conv("conv2d_unbatched", lambda: nn.Conv2d(3, 4, 3, padding=1), (r(3, 7, 6),)),
    conv("conv2d_same", lambda: nn.Conv2d(3, 4, (3, 5), padding="same"), (r(2, 3, 7, 6),)),
    conv(
        "conv2d_same_even",
        lambda: nn.Conv2d(3, 4, (4, 2), padding="same"),
        (r(2, 3, 7, 6),),
        *("pad", "conv_2d", "reshape", "add"),
    ),
    conv("conv2d_same_mixed", lambda: nn.Conv2d(3, 4, (3, 4), padding="same"), (r(2, 3, 7, 6),)),
    conv(
        "conv2d_same_dilated",
        lambda: nn.Conv2d(3, 4, 2, padding="same", dilation=(2, 3)),
        (r(2, 3, 7, 6),),
    ),
    conv("conv2d_same_column", lambda: nn.Conv2d(3, 4, (32, 1), padding="same"), (r(2, 3, 40, 3),)),
    conv(
        "conv2d_same_column_longer_than_the_image",
        lambda: nn.Conv2d(4, 4, (32, 1), groups=4, padding="same"),
        (r(2, 4, 9, 3),),
    ),
    conv("conv2d_valid", lambda: nn.Conv2d(3, 4, 3, padding="valid"), (r(2, 3, 7, 6),)),
    conv(
        "conv2d_padded_before",
        lambda: nn.Sequential(nn.ZeroPad2d((0, 1, 2, 0)), nn.Conv2d(3, 4, 3, stride=2)),
        (r(2, 3, 8, 6),),
    ),
    conv(
        "conv2d_depthwise",
        lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1),
        (r(2, 4, 7, 6),),
        *("conv_2d_dw", "reshape", "add"),
    ),
    conv(
        "conv2d_depthwise_stride",
        lambda: nn.Conv2d(4, 4, (3, 2), groups=4, stride=2, dilation=(1, 2), bias=False),
        (r(2, 4, 9, 8),),
        "conv_2d_dw",
    ),
    conv(
        "conv2d_depthwise_same_even",
        lambda: nn.Conv2d(4, 4, 4, groups=4, padding="same"),
        (r(2, 4, 7, 6),),
    ),
    conv("conv2d_multiplier", lambda: nn.Conv2d(3, 6, 3, groups=3), (r(2, 3, 7, 6),)),
    conv(
        "conv2d_grouped",
        lambda: nn.Conv2d(6, 4, 3, groups=2, padding=1),
        (r(2, 6, 7, 6),),
    ),
    conv(
        "conv2d_grouped_one_image",
        lambda: nn.Conv2d(6, 4, (2, 3), groups=2, stride=(1, 2), bias=False),
        (r(1, 6, 7, 6),),
        *("reshape", *_COLUMNS, "reshape"),
    ),
    conv(
        "conv2d_grouped_dilated",
        lambda: nn.Conv2d(6, 9, 2, groups=3, dilation=(2, 1), padding=(1, 0)),
        (r(2, 6, 7, 6),),
    ),
    conv(
        "conv2d_grouped_same_even",
        lambda: nn.Conv2d(4, 6, 2, groups=2, padding="same"),
        (r(2, 4, 5, 6),),
    ),
    conv(
        "conv2d_channels_last",
        lambda: nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),
        (r(2, 3, 7, 6),),
    ),
    # With one channel in a group, strides say nothing of the order of dims.
    conv(
        "conv2d_depthwise_channels_last",
        lambda: nn.Conv2d(8, 8, 3, groups=8).to(memory_format=torch.channels_last),
        (r(2, 8, 7, 6).to(memory_format=torch.channels_last),),
    ),
    fn(
        "conv2d_depthwise_channels_last_given_kernel",
        lambda x, w: F.conv2d(x, w, groups=8),
        (r(2, 8, 7, 6), r(8, 1, 3, 3).to(memory_format=torch.channels_last)),
        rtol=PRODUCT,
    ),
    conv("conv2d_f16", lambda: nn.Conv2d(3, 4, 3).half(), (r(2, 3, 7, 6).half(),), rtol=F16),
    conv(
        "conv2d_bf16", lambda: nn.Conv2d(3, 4, 3).bfloat16(), (r(2, 3, 7, 6).bfloat16(),), rtol=BF16
    ),
    conv(
        "conv2d_grouped_f16",
        lambda: nn.Conv2d(4, 6, 3, groups=2).half(),
        (r(2, 4, 7, 6).half(),),
        rtol=F16,
    ),
    fn(
        "conv2d_given_kernel",
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        (r(2, 3, 7, 6), r(4, 3, 3, 3), r(4)),
        rtol=PRODUCT,
    ),
    fn(
        "conv2d_given_kernel_grouped",
        lambda x, w: F.conv2d(x, w, groups=2),
        (r(2, 6, 7, 6), r(4, 3, 3, 3)),
        rtol=PRODUCT,
    ),
    fn(
        "conv2d_transposed_operands",
        lambda x, w: F.conv2d(x.transpose(2, 3), w.transpose(0, 1)),
        (r(2, 3, 7, 6), r(3, 4, 3, 2)),
        rtol=PRODUCT,
    ),
    fn(
        "convolution",
        lambda x, w, b: torch.ops.aten.convolution(
            x, w, b, [2, 1], [1, 0], [1, 2], False, [0, 0], 1
        ),
        (r(2, 3, 7, 6), r(4, 3, 3, 2), r(4)),
        rtol=PRODUCT,
    ),
    fn(
        "convolution_grouped",
        lambda x, w: torch.ops.aten.convolution(x, w, None, [1], [1], [2], False, [0], 2),
        (r(2, 6, 9), r(4, 3, 3)),
        rtol=PRODUCT,
    ),
    # Sums beyond F16's range, and terms that it would round away.
    fn(
        "conv2d_beyond_f16",
        lambda x, w: F.conv2d(x * 1e4, w + 3.0),
        (r(1, 3, 7, 6), r(4, 3, 3, 3)),
        rtol=PRODUCT,
        atol=1.0,
    ),
    fn("conv2d_nan_and_inf", F.conv2d, (_not_finite(2, 2, 6, 6), r(3, 2, 2, 2)), rtol=PRODUCT),
    fn(
        "conv2d_nan_and_inf_grouped",
        lambda x, w: F.conv2d(x, w, groups=2),
        (_not_finite(2, 2, 6, 6), r(4, 1, 2, 2)),
        rtol=PRODUCT,
    ),
    fn(
        "conv2d_then_relu",
        lambda x, w: F.conv2d(x, w).relu(),
        (r(1, 3, 5, 5), r(2, 3, 3, 3)),
        rtol=PRODUCT,
    ),
]

PADDING_MODES = [
    conv(
        f"conv{rank}d_{mode}",
        lambda kind=kind, mode=mode: kind(2, 3, 3, padding=1, padding_mode=mode),
        (x,),
    )
    for rank, kind, x in ((1, nn.Conv1d, r(2, 2, 6)), (2, nn.Conv2d, r(2, 2, 5, 6)))
    for mode in ("reflect", "replicate", "circular")
]

_N = Dim("n", min=1, max=8)
_H = Dim("h", min=4, max=64)
_W = Dim("w", min=4, max=64)
# torch.export asks for sizes of which more than one window remains.
_TALL = Dim("h", min=7, max=64)
_WIDE = Dim("w", min=7, max=64)

DYNAMIC = [
    conv(
        "conv2d_dynamic_batch",
        lambda: nn.Conv2d(3, 4, 3, padding=1),
        (r(2, 3, 7, 6),),
        dynamic_shapes=({0: _N},),
        others=[(r(1, 3, 7, 6),), (r(8, 3, 7, 6),)],
    ),
    conv(
        "conv2d_dynamic_size",
        lambda: nn.Conv2d(3, 4, 3, padding=1, stride=2),
        (r(2, 3, 7, 6),),
        dynamic_shapes=({2: _H, 3: _W},),
        others=[(r(2, 3, 4, 4),), (r(2, 3, 64, 33),)],
    ),
    conv(
        "conv2d_dynamic_all",
        lambda: nn.Conv2d(3, 4, (3, 2), stride=(3, 2), dilation=(1, 2)),
        (r(2, 3, 9, 8),),
        dynamic_shapes=({0: _N, 2: _TALL, 3: _WIDE},),
        others=[(r(1, 3, 7, 7),), (r(3, 3, 12, 64),)],
    ),
    conv(
        "conv2d_dynamic_chain",
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1)
        ),
        (r(2, 3, 9, 8),),
        dynamic_shapes=({2: _TALL, 3: _WIDE},),
        others=[(r(2, 3, 7, 8),), (r(2, 3, 17, 30),)],
    ),
    conv(
        "conv2d_dynamic_depthwise",
        lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1),
        (r(2, 4, 7, 6),),
        dynamic_shapes=({0: _N, 2: _H},),
        others=[(r(1, 4, 4, 6),), (r(3, 4, 20, 6),)],
    ),
    conv(
        "conv2d_dynamic_grouped",
        lambda: nn.Conv2d(4, 6, 3, groups=2, padding=1),
        (r(2, 4, 7, 6),),
        dynamic_shapes=({0: _N, 3: _W},),
        others=[(r(1, 4, 7, 4),), (r(3, 4, 7, 20),)],
    ),
    conv(
        "conv1d_dynamic_length",
        lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1),
        (r(2, 3, 9),),
        dynamic_shapes=({2: _W},),
        others=[(r(2, 3, 4),), (r(2, 3, 64),)],
    ),
    conv(
        "conv1d_dynamic_same",
        lambda: nn.Conv1d(3, 4, 4, padding="same"),
        (r(2, 3, 9),),
        dynamic_shapes=({2: _W},),
        others=[(r(2, 3, 4),), (r(2, 3, 64),)],
    ),
    conv(
        "conv3d_dynamic",
        lambda: nn.Conv3d(2, 4, 3, padding=1),
        (r(2, 2, 4, 5, 6),),
        dynamic_shapes=({0: _N, 2: _H},),
        others=[(r(1, 2, 6, 5, 6),), (r(3, 2, 9, 5, 6),)],
    ),
    conv(
        "conv_transpose2d_dynamic",
        lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1),
        (r(2, 3, 7, 6),),
        dynamic_shapes=({0: _N, 2: _H, 3: _W},),
        others=[(r(1, 3, 4, 4),), (r(3, 3, 9, 20),)],
    ),
    conv(
        "conv_transpose1d_dynamic",
        lambda: nn.ConvTranspose1d(3, 4, 4, stride=2),
        (r(2, 3, 7),),
        dynamic_shapes=({2: _W},),
        others=[(r(2, 3, 4),), (r(2, 3, 20),)],
    ),
]

CONV_3D = [
    conv("conv3d", lambda: nn.Conv3d(2, 4, 3, padding=1), (r(2, 2, 4, 5, 6),)),
    conv(
        "conv3d_no_bias",
        lambda: nn.Conv3d(2, 4, 2, bias=False),
        (r(1, 2, 4, 5, 6),),
        *("im2col_3d", "reshape", "reshape", "mul_mat", "reshape"),
    ),
    conv(
        "conv3d_stride",
        lambda: nn.Conv3d(2, 3, (3, 2, 1), stride=(1, 2, 3), padding=(1, 0, 2)),
        (r(2, 2, 4, 5, 6),),
    ),
    conv("conv3d_dilation", lambda: nn.Conv3d(2, 3, 2, dilation=(1, 2, 3)), (r(2, 2, 4, 5, 6),)),
    conv("conv3d_grouped", lambda: nn.Conv3d(4, 6, 2, groups=2), (r(2, 4, 4, 5, 6),)),
    conv("conv3d_depthwise", lambda: nn.Conv3d(3, 3, 2, groups=3), (r(2, 3, 4, 5, 6),)),
    conv("conv3d_multiplier", lambda: nn.Conv3d(3, 6, 2, groups=3), (r(1, 3, 4, 5, 6),)),
    conv(
        "conv3d_same_even", lambda: nn.Conv3d(2, 3, (2, 3, 4), padding="same"), (r(2, 2, 4, 5, 6),)
    ),
    conv("conv3d_valid", lambda: nn.Conv3d(2, 3, 2, padding="valid"), (r(2, 2, 4, 5, 6),)),
    conv("conv3d_unbatched", lambda: nn.Conv3d(2, 3, 2), (r(2, 4, 5, 6),)),
    conv("conv3d_flat", lambda: nn.Conv3d(2, 3, (1, 3, 3)), (r(2, 2, 1, 5, 6),)),
    conv("conv3d_f16", lambda: nn.Conv3d(2, 3, 2).half(), (r(2, 2, 4, 5, 6).half(),), rtol=F16),
    fn("conv3d_given_kernel", F.conv3d, (r(2, 2, 4, 5, 6), r(3, 2, 2, 2, 2)), rtol=PRODUCT),
]

TRANSPOSED = [
    conv(
        "conv_transpose2d",
        lambda: nn.ConvTranspose2d(3, 4, 3, bias=False),
        (r(2, 3, 5, 6),),
    ),
    conv(
        "conv_transpose2d_stride",
        lambda: nn.ConvTranspose2d(3, 4, (3, 2), stride=(2, 3)),
        (r(2, 3, 5, 6),),
    ),
    conv(
        "conv_transpose2d_padding",
        lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=(1, 2)),
        (r(2, 3, 5, 6),),
    ),
    conv(
        "conv_transpose2d_padding_beyond",
        lambda: nn.ConvTranspose2d(3, 4, 2, padding=2),
        (r(2, 3, 6, 7),),
    ),
    conv(
        "conv_transpose2d_output_padding",
        lambda: nn.ConvTranspose2d(3, 4, 3, stride=(2, 3), output_padding=(1, 2)),
        (r(2, 3, 5, 6),),
    ),
    conv(
        "conv_transpose2d_output_padding_of_a_dilation",
        lambda: nn.ConvTranspose2d(3, 4, 2, stride=1, dilation=3, output_padding=2),
        (r(2, 3, 5, 6),),
    ),
    conv(
        "conv_transpose2d_dilation",
        lambda: nn.ConvTranspose2d(3, 4, 3, dilation=(2, 1), stride=2),
        (r(2, 3, 5, 6),),
    ),
    conv(
        "conv_transpose2d_grouped",
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, padding=1),
        (r(2, 4, 5, 6),),
    ),
    conv(
        "conv_transpose2d_depthwise",
        lambda: nn.ConvTranspose2d(3, 3, 4, stride=2, groups=3, padding=1, bias=False),
        (r(2, 3, 5, 6),),
    ),
    conv(
        "conv_transpose2d_kernel_1", lambda: nn.ConvTranspose2d(3, 4, 1, stride=2), (r(2, 3, 5, 6),)
    ),
    conv("conv_transpose2d_one_element", lambda: nn.ConvTranspose2d(3, 4, 4), (r(2, 3, 1, 1),)),
    conv("conv_transpose2d_unbatched", lambda: nn.ConvTranspose2d(3, 4, 3), (r(3, 5, 6),)),
    conv(
        "conv_transpose2d_f16",
        lambda: nn.ConvTranspose2d(3, 4, 3).half(),
        (r(2, 3, 5, 6).half(),),
        rtol=F16,
    ),
    fn(
        "conv_transpose2d_given_kernel",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2),
        (r(2, 3, 5, 6), r(3, 4, 3, 3), r(4)),
        rtol=PRODUCT,
    ),
    fn(
        "convolution_transposed",
        lambda x, w, b: torch.ops.aten.convolution(
            x, w, b, [2, 1], [1, 0], [1, 2], True, [1, 0], 2
        ),
        (r(2, 4, 5, 6), r(4, 3, 3, 2), r(6)),
        rtol=PRODUCT,
    ),
    conv("conv_transpose1d", lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), (r(2, 3, 7),)),
    conv(
        "conv_transpose1d_all",
        lambda: nn.ConvTranspose1d(
            4, 6, 3, stride=3, padding=1, output_padding=1, groups=2, dilation=2
        ),
        (r(2, 4, 7),),
    ),
    conv(
        "conv_transpose1d_no_bias", lambda: nn.ConvTranspose1d(3, 4, 3, bias=False), (r(1, 3, 7),)
    ),
    conv("conv_transpose1d_unbatched", lambda: nn.ConvTranspose1d(3, 4, 3), (r(3, 7),)),
    conv("conv_transpose3d", lambda: nn.ConvTranspose3d(3, 4, 3, stride=2), (r(2, 3, 2, 3, 4),)),
    conv(
        "conv_transpose3d_all",
        lambda: nn.ConvTranspose3d(
            4,
            6,
            (3, 2, 3),
            stride=(2, 1, 3),
            padding=(1, 0, 1),
            output_padding=(1, 0, 2),
            groups=2,
            dilation=(1, 2, 1),
        ),
        (r(2, 4, 2, 3, 4),),
    ),
    conv(
        "conv_transpose3d_no_bias",
        lambda: nn.ConvTranspose3d(3, 4, 2, bias=False),
        (r(1, 3, 2, 3, 4),),
    ),
    conv("conv_transpose3d_unbatched", lambda: nn.ConvTranspose3d(3, 4, 2), (r(3, 2, 3, 4),)),
]

FOLDS = [
    fn(
        "unfold", lambda x: F.unfold(x, 3), (r(2, 3, 5, 6),), "im2col", "reshape", "permute", "cont"
    ),
    fn(
        "unfold_all",
        lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=(1, 2), stride=(2, 1)),
        (r(2, 3, 5, 6),),
    ),
    fn("unfold_unbatched", lambda x: F.unfold(x, 2, stride=2), (r(3, 4, 6),)),
    fn(
        "unfold_dynamic",
        lambda x: F.unfold(x, 3, padding=1),
        (r(2, 3, 7, 6),),
        dynamic_shapes=(({0: _N, 3: _W},),),
        others=[(r(1, 3, 7, 4),), (r(3, 3, 7, 9),)],
    ),
    fn("fold", lambda x: F.fold(x, (4, 6), 2, stride=2), (r(2, 12, 6),)),
    fn("fold_overlapping", lambda x: F.fold(x, (4, 5), (3, 2)), (r(2, 12, 8),)),
    fn(
        "fold_all",
        lambda x: F.fold(x, (5, 6), (2, 3), dilation=(1, 2), padding=(1, 2), stride=(2, 1)),
        (r(2, 12, 18),),
    ),
    fn("fold_unbatched", lambda x: F.fold(x, (4, 6), 2, stride=2), (r(12, 6),)),
]

CASES = [*CONV_1D, *CONV_2D, *PADDING_MODES, *DYNAMIC, *CONV_3D, *TRANSPOSED, *FOLDS]
