"""The only list of IR ops: name, operands, parameters, shape rule,
torch reference.

An op is one ``ggml_*`` call, one of the few coarse ops whose best graph only the
runtime can choose (``attention``, ``update_and_attend``), or a host-side op: a CPU
kernel of our own for what ggml lacks, run inside the ggml graph. Codes are stable:
ops are appended, never renumbered or changed, so that an old ``.pte`` runs on a
newer runtime. ``OPSET_VERSION`` grows with each addition.

The C++ table is generated from this file: ``python -m executorch_ggml.ir.generate``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from executorch_ggml.ir import reference as ref
from executorch_ggml.ir import reference_attention as ref_attention
from executorch_ggml.ir import reference_host as ref_host
from executorch_ggml.ir import reference_images as ref_images
from executorch_ggml.ir import reference_recurrent as ref_recurrent
from executorch_ggml.ir import shape_rules as rules
from executorch_ggml.ir import shape_rules_host as host_rules
from executorch_ggml.ir import shape_rules_images as image_rules
from executorch_ggml.ir.enums import Glu as Glu
from executorch_ggml.ir.enums import GridMode as GridMode
from executorch_ggml.ir.enums import GridPadding as GridPadding
from executorch_ggml.ir.enums import HostBinary as HostBinary
from executorch_ggml.ir.enums import HostPool as HostPool
from executorch_ggml.ir.enums import HostReduce as HostReduce
from executorch_ggml.ir.enums import HostResize as HostResize
from executorch_ggml.ir.enums import HostScan as HostScan
from executorch_ggml.ir.enums import HostUnary as HostUnary
from executorch_ggml.ir.enums import IntType as IntType
from executorch_ggml.ir.enums import Pool as Pool
from executorch_ggml.ir.enums import Recurrence as Recurrence
from executorch_ggml.ir.enums import RopeMode as RopeMode
from executorch_ggml.ir.enums import Scatter as Scatter
from executorch_ggml.ir.enums import Unary as Unary
from executorch_ggml.ir.enums import Upscale as Upscale
from executorch_ggml.ir.reference import Reference
from executorch_ggml.ir.shape_rules import ShapeRule

OPSET_VERSION: Final = 2

#: Codes of host-side ops start here.
FIRST_HOST_CODE: Final = 200


class ParamKind(IntEnum):
    INT = 0  # a constant
    DIM = 1  # an expression over symbols
    FLOAT = 2
    BOOL = 3


@dataclass(frozen=True)
class Operand:
    name: str
    optional: bool = False


@dataclass(frozen=True)
class Param:
    name: str
    kind: ParamKind = ParamKind.INT
    default: int | float | None = None
    #: Names for the values of an INT that is an enumeration.
    enum: type[IntEnum] | None = None


@dataclass(frozen=True)
class OpDef:
    """One op. ``params`` of kind FLOAT are stored apart; the order within each list counts."""

    code: int
    name: str
    operands: tuple[Operand, ...]
    params: tuple[Param, ...]
    infer: ShapeRule
    #: What the op computes, on torch tensors.
    reference: Reference
    doc: str
    #: The result aliases the first operand's memory (views, and writes into a state).
    is_view: bool = False
    #: The call writes state: it must stay, in order, even if its result is unused.
    has_side_effect: bool = False
    since: int = 1
    n_outputs: int = 1

    @property
    def is_host(self) -> bool:
        """Whether a kernel of our own runs it, on the CPU whatever the device."""
        return self.code >= FIRST_HOST_CODE

    @property
    def int_params(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.kind is not ParamKind.FLOAT)

    @property
    def float_params(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.kind is ParamKind.FLOAT)


def _operands(text: str) -> tuple[Operand, ...]:
    """``"w x mask?"``: names in order, ``?`` marks an optional one."""
    return tuple(Operand(n.rstrip("?"), n.endswith("?")) for n in text.split())


def _ints(text: str, default: int | None = None) -> tuple[Param, ...]:
    return tuple(Param(n, ParamKind.INT, default) for n in text.split())


def _dims(text: str, default: int | None = None) -> tuple[Param, ...]:
    return tuple(Param(n, ParamKind.DIM, default) for n in text.split())


def _float(name: str, default: float | None = None) -> tuple[Param, ...]:
    return (Param(name, ParamKind.FLOAT, default),)


def _enum(name: str, enum: type[IntEnum]) -> tuple[Param, ...]:
    return (Param(name, ParamKind.INT, None, enum),)


def _bool(name: str, default: bool) -> tuple[Param, ...]:
    return (Param(name, ParamKind.BOOL, int(default)),)


_NE = _dims("ne0 ne1 ne2 ne3")
_CONV = _ints("stride0 stride1") + _ints("padding0 padding1", 0) + _ints("dilation0 dilation1", 1)
_COLUMNS = _ints("kernel0 kernel1 stride0 stride1") + _CONV[2:]
#: Windows with zeros before and after the image, and what is done to each sum: plus bias,
#: plus residual, clamped.
_IMAGE_CONV = (
    _COLUMNS + _ints("after0 after1", 0) + _float("min", -math.inf) + _float("max", math.inf)
)

_TYPE = (Param("type", ParamKind.INT, int(IntType.I64), IntType),)
_POOL = (
    _ints("kernel0 kernel1 kernel2 stride0 stride1 stride2", 1)
    + _ints("padding0 padding1 padding2", 0)
    + _ints("dilation0 dilation1 dilation2", 1)
)


def _host(
    code: int,
    name: str,
    operands: str,
    params: tuple[Param, ...],
    infer: ShapeRule,
    reference: Reference,
    doc: str,
) -> OpDef:
    return OpDef(code, name, _operands(operands), params, infer, reference, doc, since=2)


_TABLE: Final[tuple[OpDef, ...]] = (
    # --- views -------------------------------------------------------------------
    OpDef(
        1,
        "reshape",
        _operands("x"),
        _NE,
        rules.reshape,
        ref.reshape,
        "ggml_reshape_4d",
        is_view=True,
    ),
    OpDef(
        2,
        "permute",
        _operands("x"),
        _ints("axis0 axis1 axis2 axis3"),
        rules.permute,
        ref.permute,
        "ggml_permute: dim i of x becomes dim axis_i",
        is_view=True,
    ),
    OpDef(
        3,
        "view",
        _operands("x"),
        _NE + _dims("stride1 stride2 stride3 offset"),
        rules.view,
        ref.view,
        "ggml_view_4d; strides and offset in elements, counted from the start of x's data",
        is_view=True,
    ),
    # --- copies ------------------------------------------------------------------
    OpDef(10, "cont", _operands("x"), (), rules.cont, ref.cont, "ggml_cont"),
    OpDef(11, "cast", _operands("x"), _ints("dtype"), rules.cast, ref.cast, "ggml_cast"),
    OpDef(12, "repeat", _operands("x"), _NE, rules.repeat, ref.repeat, "ggml_repeat_4d"),
    OpDef(13, "concat", _operands("a b"), _ints("axis"), rules.concat, ref.concat, "ggml_concat"),
    OpDef(
        14,
        "pad",
        _operands("x"),
        _ints("before0 after0 before1 after1 before2 after2 before3 after3", 0),
        rules.pad,
        ref.pad,
        "ggml_pad_ext with zeros",
    ),
    # --- rows and state -------------------------------------------------------------
    OpDef(
        20,
        "get_rows",
        _operands("table ids"),
        (),
        rules.get_rows,
        ref.get_rows,
        "ggml_get_rows, ids checked",
    ),
    OpDef(
        21,
        "set_rows",
        _operands("state x ids"),
        (),
        rules.set_rows,
        ref.set_rows,
        "ggml_set_rows, ids checked",
        is_view=True,
        has_side_effect=True,
    ),
    OpDef(
        22,
        "assign",
        _operands("state x"),
        (),
        rules.assign,
        ref.assign,
        "ggml_cpy into the state",
        is_view=True,
        has_side_effect=True,
    ),
    # --- element-wise -------------------------------------------------------------------
    OpDef(30, "add", _operands("a b"), (), rules.binary, ref.add, "ggml_add"),
    OpDef(31, "sub", _operands("a b"), (), rules.binary, ref.sub, "ggml_sub"),
    OpDef(32, "mul", _operands("a b"), (), rules.binary, ref.mul, "ggml_mul"),
    OpDef(33, "div", _operands("a b"), (), rules.binary, ref.div, "ggml_div"),
    OpDef(
        34,
        "scale",
        _operands("x"),
        _float("scale", 1.0) + _float("bias", 0.0),
        rules.contiguous_unary,
        ref.scale,
        "ggml_scale_bias: x * scale + bias",
    ),
    OpDef(
        35,
        "clamp",
        _operands("x"),
        _float("min") + _float("max"),
        rules.contiguous_unary,
        ref.clamp,
        "ggml_clamp",
    ),
    OpDef(36, "sqr", _operands("x"), (), rules.unary, ref.sqr, "ggml_sqr"),
    OpDef(37, "sqrt", _operands("x"), (), rules.unary, ref.sqrt, "ggml_sqrt"),
    OpDef(38, "log", _operands("x"), (), rules.unary, ref.log, "ggml_log"),
    OpDef(39, "sin", _operands("x"), (), rules.unary, ref.sin, "ggml_sin"),
    OpDef(40, "cos", _operands("x"), (), rules.unary, ref.cos, "ggml_cos"),
    OpDef(41, "unary", _operands("x"), _enum("kind", Unary), rules.unary, ref.unary, "ggml_unary"),
    OpDef(
        42,
        "leaky_relu",
        _operands("x"),
        _float("negative_slope"),
        rules.contiguous_unary,
        ref.leaky_relu,
        "ggml_leaky_relu",
    ),
    OpDef(
        43,
        "glu",
        _operands("a b"),
        _enum("kind", Glu),
        rules.glu,
        ref.glu,
        "ggml_glu_split: act(a) * b",
    ),
    # --- reductions and norms -------------------------------------------------------------
    OpDef(50, "sum_rows", _operands("x"), (), rules.reduce_rows, ref.sum_rows, "ggml_sum_rows"),
    OpDef(51, "mean_rows", _operands("x"), (), rules.reduce_rows, ref.mean_rows, "ggml_mean"),
    OpDef(52, "sum", _operands("x"), (), rules.reduce_all, ref.sum, "ggml_sum"),
    OpDef(53, "argmax", _operands("x"), (), rules.argmax, ref.argmax, "ggml_argmax, per row"),
    OpDef(
        54,
        "cumsum",
        _operands("x"),
        (),
        rules.contiguous_unary,
        ref.cumsum,
        "ggml_cumsum over ne[0]",
    ),
    OpDef(60, "norm", _operands("x"), _float("eps"), rules.norm, ref.norm, "ggml_norm over ne[0]"),
    OpDef(
        61,
        "rms_norm",
        _operands("x"),
        _float("eps"),
        rules.norm,
        ref.rms_norm,
        "ggml_rms_norm over ne[0]",
    ),
    OpDef(
        62,
        "group_norm",
        _operands("x"),
        _ints("n_groups") + _float("eps"),
        rules.contiguous_unary,
        ref.group_norm,
        "ggml_group_norm over ne[0], ne[1] and the channels ne[2] of a group",
    ),
    OpDef(
        63,
        "l2_norm",
        _operands("x"),
        _float("eps"),
        rules.norm,
        ref.l2_norm,
        "ggml_l2_norm over ne[0]",
    ),
    OpDef(
        64,
        "soft_max",
        _operands("x mask?"),
        _float("scale", 1.0),
        rules.soft_max,
        ref.soft_max,
        "ggml_soft_max_ext over ne[0] of x * scale + mask",
    ),
    # --- products, rotation, attention --------------------------------------------------------
    OpDef(
        70,
        "mul_mat",
        _operands("w x"),
        (),
        rules.mul_mat,
        ref.mul_mat,
        "ggml_mul_mat with F32 precision",
    ),
    OpDef(
        71,
        "rope",
        _operands("x positions freq_factors?"),
        _ints("n_dims")
        + _enum("mode", RopeMode)
        + _ints("original_context", 0)
        + _float("freq_base", 10000.0)
        + _float("freq_scale", 1.0)
        + _float("ext_factor", 0.0)
        + _float("attn_factor", 1.0)
        + _float("beta_fast", 32.0)
        + _float("beta_slow", 1.0),
        rules.rope,
        ref_attention.rope,
        "ggml_rope_ext",
    ),
    OpDef(
        72,
        "attention",
        _operands("q k v mask?"),
        _bool("causal", False) + _float("scale"),
        rules.attention,
        ref_attention.attention,
        "softmax(scale * q k^T + mask) v, explicit or ggml_flash_attn_ext; causal is "
        "lower-right aligned to the last query and key; a query whose mask is -inf alone gives 0",
    ),
    OpDef(
        73,
        "update_and_attend",
        _operands("q k v positions mask? sinks? sequences?"),
        _ints("state")
        + _bool("causal", True)
        + _bool("update", True)
        + _float("scale")
        + _float("softcap", 0.0),
        rules.update_and_attend,
        ref_attention.update_and_attend,
        "writes k and v to rows `positions` of KvCache state `state` and attends over it; "
        "positions must be a program argument (possibly reshaped)",
        has_side_effect=True,
    ),
    # --- convolution ------------------------------------------------------------------------
    OpDef(80, "conv_2d", _operands("kernel x"), _CONV, rules.conv_2d, ref.conv_2d, "ggml_conv_2d"),
    OpDef(
        81,
        "conv_2d_dw",
        _operands("kernel x"),
        _CONV,
        rules.conv_2d_dw,
        ref.conv_2d_dw,
        "ggml_conv_2d_dw_direct",
    ),
    OpDef(
        82,
        "pool_2d",
        _operands("x"),
        _enum("kind", Pool)
        + _ints("kernel0 kernel1 stride0 stride1")
        + _ints("padding0 padding1", 0),
        rules.pool_2d,
        ref.pool_2d,
        "ggml_pool_2d",
    ),
    OpDef(
        83,
        "im2col",
        _operands("x"),
        _COLUMNS,
        rules.im2col,
        ref.im2col,
        "ggml_im2col in F32: the windows over ne[0..1] as rows",
        since=2,
    ),
    OpDef(
        84,
        "im2col_3d",
        _operands("x"),
        _ints("channels") + _dims("images") + _POOL,
        rules.im2col_3d,
        ref.im2col_3d,
        "ggml_im2col_3d in F32: the windows over ne[0..2] of `images` x `channels` planes",
        since=2,
    ),
    OpDef(
        85,
        "col2im",
        _operands("x"),
        _dims("ne0 ne1") + _COLUMNS,
        rules.col2im,
        ref.col2im,
        "ggml_im2col_back: windows added up to an image; what lies outside is dropped",
        since=2,
    ),
    OpDef(
        86,
        "upscale",
        _operands("x"),
        _enum("mode", Upscale) + _dims("ne0 ne1") + _bool("align_corners", False),
        rules.upscale,
        ref.upscale,
        "ggml_interpolate over ne[0..1]",
        since=2,
    ),
    # --- channels-last images: ne (c, w, h, n) ----------------------------------------------
    OpDef(
        90,
        "conv_2d_nhwc",
        _operands("kernel x bias? residual?"),
        _IMAGE_CONV + _ints("channels"),
        image_rules.conv_2d_nhwc,
        ref_images.conv_2d_nhwc,
        "clamp(conv_2d(x) + bias + residual), the kernel packed in panels of 16 output channels",
        since=2,
    ),
    OpDef(
        91,
        "conv_2d_dw_nhwc",
        _operands("kernel x bias? residual?"),
        _IMAGE_CONV,
        image_rules.conv_2d_dw_nhwc,
        ref_images.conv_2d_dw_nhwc,
        "clamp(conv_2d_dw(x) + bias + residual)",
        since=2,
    ),
    OpDef(
        92,
        "pool_2d_nhwc",
        _operands("x"),
        _enum("kind", Pool)
        + _ints("kernel0 kernel1 stride0 stride1")
        + _ints("padding0 padding1", 0),
        image_rules.pool_2d_nhwc,
        ref_images.pool_2d_nhwc,
        "pool_2d",
        since=2,
    ),
    # --- host-side ops ------------------------------------------------------------------------
    _host(
        200,
        "host_unary",
        "x",
        _enum("kind", HostUnary) + _TYPE + _float("p", 0.0) + _float("q", 0.0) + _float("r", 0.0),
        host_rules.host_unary,
        ref_host.host_unary,
        "a function of one value",
    ),
    _host(
        201,
        "host_binary",
        "a b",
        _enum("kind", HostBinary) + _TYPE,
        host_rules.host_binary,
        ref_host.host_binary,
        "a function of two values, broadcast both ways",
    ),
    _host(
        202,
        "host_where",
        "condition a b",
        (),
        host_rules.host_where,
        ref_host.host_where,
        "condition != 0 ? a : b, broadcast",
    ),
    _host(
        203,
        "host_convert",
        "x",
        _enum("to", IntType),
        host_rules.host_convert,
        ref_host.host_convert,
        "to an integer type: fractions dropped, wrapped to its width; BOOL: x != 0",
    ),
    _host(
        204,
        "host_round",
        "x",
        _ints("dtype"),
        host_rules.host_round,
        ref_host.host_round,
        "F32 rounded to the nearest value of F16 or BF16",
    ),
    _host(
        205,
        "host_reduce",
        "x",
        _enum("kind", HostReduce) + _TYPE + _float("correction", 0.0),
        host_rules.host_reduce,
        ref_host.host_reduce,
        "a reduction of each row; correction is also the order of NORM",
    ),
    _host(
        206,
        "host_scan",
        "x",
        _enum("kind", HostScan) + _TYPE,
        host_rules.host_scan,
        ref_host.host_scan,
        "a running function along each row",
    ),
    _host(
        207,
        "host_argsort",
        "x",
        _bool("descending", False),
        host_rules.host_argsort,
        ref_host.host_argsort,
        "indices that sort each row; stable, NaN is the largest",
    ),
    _host(
        208,
        "host_gather",
        "x index",
        (),
        host_rules.host_gather,
        ref_host.host_gather,
        "elements of each row by index, checked",
    ),
    _host(
        209,
        "host_scatter",
        "x index src",
        _enum("mode", Scatter),
        host_rules.host_scatter,
        ref_host.host_scatter,
        "x with elements of each row replaced by, or combined with, src; indices checked",
    ),
    _host(
        210,
        "host_wrap_ids",
        "ids",
        _dims("limit"),
        host_rules.host_wrap_ids,
        ref_host.host_wrap_ids,
        "negative ids count from the end; outside -limit..limit-1 is an error of the call",
    ),
    _host(
        211,
        "host_iota",
        "",
        _NE + _dims("start", 0) + _dims("step", 1),
        host_rules.host_iota,
        ref_host.host_iota,
        "start + step * i along ne[0]",
    ),
    _host(
        212,
        "host_pool",
        "x",
        _enum("kind", HostPool)
        + _dims("ne0 ne1 ne2")
        + _POOL
        + _bool("adaptive", False)
        + _bool("count_include_pad", True)
        + _ints("divisor", 0),
        host_rules.host_pool,
        ref_host.host_pool,
        "pooling over ne[0..2]; adaptive: windows of equal share, without kernel and stride",
    ),
    _host(
        220,
        "host_resize",
        "x",
        _enum("kind", HostResize)
        + _ints("rank")
        + _dims("ne0 ne1 ne2")
        + _bool("align_corners", False)
        + _float("step0", 0.0)
        + _float("step1", 0.0)
        + _float("step2", 0.0),
        host_rules.host_resize,
        ref_host.host_resize,
        "interpolation over the first dims; step: input positions a result, 0: input over result",
    ),
    _host(
        221,
        "host_grid_sample",
        "x grid",
        _enum("mode", GridMode) + _enum("padding", GridPadding) + _bool("align_corners", False),
        host_rules.host_grid_sample,
        ref_host.host_grid_sample,
        "x at the coordinates of a grid, -1 to 1 in each dim",
    ),
    _host(
        230,
        "host_recurrent",
        "gates weights bias state",
        _enum("kind", Recurrence) + _bool("reverse", False),
        host_rules.host_recurrent,
        ref_recurrent.host_recurrent,
        "one direction of a recurrent layer: gates are the input's part for every step; gives "
        "the state after each step, then an LSTM's last cell",
    ),
)

OPSET: Final[dict[str, OpDef]] = {op.name: op for op in _TABLE}
OPS_BY_CODE: Final[dict[int, OpDef]] = {op.code: op for op in _TABLE}

assert len(OPSET) == len(OPS_BY_CODE) == len(_TABLE), "op names and codes must be unique"
