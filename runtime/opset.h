// Generated from executorch_ggml/ir/opset.py; do not edit. To regenerate:
//   python -m executorch_ggml.ir.generate
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace executorch_ggml {

// A program that asks for a newer opset is refused.
inline constexpr uint32_t kOpsetVersion = 2;

// Codes are stable: they are part of the file format.
enum class Op : uint16_t {
  Reshape = 1,
  Permute = 2,
  View = 3,
  Cont = 10,
  Cast = 11,
  Repeat = 12,
  Concat = 13,
  Pad = 14,
  GetRows = 20,
  SetRows = 21,
  Assign = 22,
  Add = 30,
  Sub = 31,
  Mul = 32,
  Div = 33,
  Scale = 34,
  Clamp = 35,
  Sqr = 36,
  Sqrt = 37,
  Log = 38,
  Sin = 39,
  Cos = 40,
  Unary = 41,
  LeakyRelu = 42,
  Glu = 43,
  SumRows = 50,
  MeanRows = 51,
  Sum = 52,
  Argmax = 53,
  Cumsum = 54,
  Norm = 60,
  RmsNorm = 61,
  GroupNorm = 62,
  L2Norm = 63,
  SoftMax = 64,
  MulMat = 70,
  Rope = 71,
  Attention = 72,
  UpdateAndAttend = 73,
  Conv2d = 80,
  Conv2dDw = 81,
  Pool2d = 82,
  Im2col = 83,
  Im2col3d = 84,
  Col2im = 85,
  Upscale = 86,
  Conv2dNhwc = 90,
  Conv2dDwNhwc = 91,
  Pool2dNhwc = 92,
  HostUnary = 200,
  HostBinary = 201,
  HostWhere = 202,
  HostConvert = 203,
  HostRound = 204,
  HostReduce = 205,
  HostScan = 206,
  HostArgsort = 207,
  HostGather = 208,
  HostScatter = 209,
  HostWrapIds = 210,
  HostIota = 211,
  HostPool = 212,
  HostResize = 220,
  HostGridSample = 221,
  HostRecurrent = 230,
};

// Element-wise functions of Op::Unary.
enum class Unary : uint8_t {
  Abs = 0,
  Sgn = 1,
  Neg = 2,
  Step = 3,
  Tanh = 4,
  Elu = 5,
  Relu = 6,
  Sigmoid = 7,
  Gelu = 8,
  GeluQuick = 9,
  Silu = 10,
  Hardswish = 11,
  Hardsigmoid = 12,
  Exp = 13,
  Expm1 = 14,
  Softplus = 15,
  GeluErf = 16,
  Floor = 17,
  Ceil = 18,
  Round = 19,
  Trunc = 20,
};

// Gated units of Op::Glu: act(a) * b.
enum class Glu : uint8_t {
  Reglu = 0,
  Geglu = 1,
  Swiglu = 2,
  GegluErf = 3,
  GegluQuick = 4,
};

// Normal rotates pairs (2i, 2i + 1); Neox rotates halves (i, i + n / 2).
enum class RopeMode : uint8_t {
  Normal = 0,
  Neox = 2,
};

// Kinds of Op::Pool2d.
enum class Pool : uint8_t {
  Max = 0,
  Avg = 1,
};

// Kinds of Op::HostRecurrent; gates in torch's order.
enum class Recurrence : uint8_t {
  Lstm = 0,
  Gru = 1,
  RnnTanh = 2,
  RnnRelu = 3,
};

// The torch type whose arithmetic an I32 value follows; I64 must fit 32 bits.
enum class IntType : uint8_t {
  I64 = 0,
  I32 = 1,
  I16 = 2,
  I8 = 3,
  U8 = 4,
  Bool = 5,
};

// Functions of Op::HostUnary.
enum class HostUnary : uint8_t {
  Relu = 0,
  Sign = 1,
  RoundEven = 2,
  Frac = 3,
  Rsqrt = 4,
  Reciprocal = 5,
  Log2 = 6,
  Log10 = 7,
  Log1p = 8,
  Exp2 = 9,
  Expm1 = 10,
  Tan = 11,
  Asin = 12,
  Acos = 13,
  Atan = 14,
  Sinh = 15,
  Cosh = 16,
  Asinh = 17,
  Acosh = 18,
  Atanh = 19,
  Erf = 20,
  Erfc = 21,
  Lgamma = 22,
  Elu = 23,
  Softplus = 24,
  Threshold = 25,
  Hardshrink = 26,
  Softshrink = 27,
  Clamp = 28,
  NanToNum = 29,
  LogSigmoid = 30,
  LeakyRelu = 31,
  Abs = 32,
  Neg = 33,
  BitwiseNot = 34,
  Hardsigmoid = 35,
  LogicalNot = 40,
  IsNan = 41,
  IsInf = 42,
  SignBit = 43,
};

// Functions of Op::HostBinary.
enum class HostBinary : uint8_t {
  Add = 0,
  Sub = 1,
  Mul = 2,
  DivTrunc = 3,
  DivFloor = 4,
  Remainder = 5,
  Fmod = 6,
  Pow = 7,
  Maximum = 8,
  Minimum = 9,
  Fmax = 10,
  Fmin = 11,
  Atan2 = 12,
  Hypot = 13,
  Copysign = 14,
  Xlogy = 15,
  BitwiseAnd = 16,
  BitwiseOr = 17,
  BitwiseXor = 18,
  ShiftLeft = 19,
  ShiftRight = 20,
  Eq = 30,
  Ne = 31,
  Lt = 32,
  Le = 33,
  Gt = 34,
  Ge = 35,
  LogicalAnd = 36,
  LogicalOr = 37,
  LogicalXor = 38,
};

// Kinds of Op::HostReduce.
enum class HostReduce : uint8_t {
  Sum = 0,
  Prod = 1,
  Max = 2,
  Min = 3,
  Argmax = 4,
  Argmin = 5,
  Any = 6,
  All = 7,
  Var = 8,
  Logsumexp = 9,
  Norm = 10,
};

// Kinds of Op::HostScan.
enum class HostScan : uint8_t {
  Sum = 0,
  Prod = 1,
  Max = 2,
  Min = 3,
  Argmax = 4,
  Argmin = 5,
  Logsumexp = 6,
};

// How Op::HostScatter combines.
enum class Scatter : uint8_t {
  Set = 0,
  Add = 1,
  Mul = 2,
  Max = 3,
  Min = 4,
};

// Kinds of Op::HostPool.
enum class HostPool : uint8_t {
  Max = 0,
  Avg = 1,
  MaxIndex = 2,
};

// Modes of Op::Upscale.
enum class Upscale : uint8_t {
  Nearest = 0,
  Bilinear = 1,
  Bicubic = 2,
};

// Kinds of Op::HostResize.
enum class HostResize : uint8_t {
  Nearest = 0,
  NearestExact = 1,
  Linear = 2,
  Cubic = 3,
  LinearAa = 4,
  CubicAa = 5,
};

// Modes of Op::HostGridSample.
enum class GridMode : uint8_t {
  Bilinear = 0,
  Nearest = 1,
  Bicubic = 2,
};

// What Op::HostGridSample finds outside of the image.
enum class GridPadding : uint8_t {
  Zeros = 0,
  Border = 1,
  Reflection = 2,
};

// Int: a constant; Dim: an expression over symbols; Bool: the constant 0 or 1.
enum class ParamKind : uint8_t {
  Int = 0,
  Dim = 1,
  Bool = 3,
};

struct IntParam {
  const char* name;
  ParamKind kind;
  std::span<const uint8_t> values = {};  // of an enumeration; else empty
};

struct OpInfo {
  Op op;
  const char* name;
  uint8_t min_inputs;  // inputs from here on are optional
  uint8_t max_inputs;
  uint8_t n_ints;
  uint8_t n_floats;
  uint8_t n_outputs;
  bool is_view;          // the result aliases the first input's memory
  bool has_side_effect;  // writes state: stays, in order, even if its result is unused
  uint32_t since;        // the opset version that added it
  std::span<const char* const> inputs;  // names
  std::span<const IntParam> ints;
  std::span<const char* const> floats;  // names
};

// Positions in Call::ints and, for parameters that are numbers with a fraction,
// in Call::floats.
namespace params {

namespace reshape {
inline constexpr size_t kNe0 = 0;
inline constexpr size_t kNe1 = 1;
inline constexpr size_t kNe2 = 2;
inline constexpr size_t kNe3 = 3;
}  // namespace reshape

namespace permute {
inline constexpr size_t kAxis0 = 0;
inline constexpr size_t kAxis1 = 1;
inline constexpr size_t kAxis2 = 2;
inline constexpr size_t kAxis3 = 3;
}  // namespace permute

namespace view {
inline constexpr size_t kNe0 = 0;
inline constexpr size_t kNe1 = 1;
inline constexpr size_t kNe2 = 2;
inline constexpr size_t kNe3 = 3;
inline constexpr size_t kStride1 = 4;
inline constexpr size_t kStride2 = 5;
inline constexpr size_t kStride3 = 6;
inline constexpr size_t kOffset = 7;
}  // namespace view

namespace cast {
inline constexpr size_t kDtype = 0;
}  // namespace cast

namespace repeat {
inline constexpr size_t kNe0 = 0;
inline constexpr size_t kNe1 = 1;
inline constexpr size_t kNe2 = 2;
inline constexpr size_t kNe3 = 3;
}  // namespace repeat

namespace concat {
inline constexpr size_t kAxis = 0;
}  // namespace concat

namespace pad {
inline constexpr size_t kBefore0 = 0;
inline constexpr size_t kAfter0 = 1;
inline constexpr size_t kBefore1 = 2;
inline constexpr size_t kAfter1 = 3;
inline constexpr size_t kBefore2 = 4;
inline constexpr size_t kAfter2 = 5;
inline constexpr size_t kBefore3 = 6;
inline constexpr size_t kAfter3 = 7;
}  // namespace pad

namespace scale {
// in floats
inline constexpr size_t kScale = 0;
inline constexpr size_t kBias = 1;
}  // namespace scale

namespace clamp {
// in floats
inline constexpr size_t kMin = 0;
inline constexpr size_t kMax = 1;
}  // namespace clamp

namespace unary {
inline constexpr size_t kKind = 0;
}  // namespace unary

namespace leaky_relu {
// in floats
inline constexpr size_t kNegativeSlope = 0;
}  // namespace leaky_relu

namespace glu {
inline constexpr size_t kKind = 0;
}  // namespace glu

namespace norm {
// in floats
inline constexpr size_t kEps = 0;
}  // namespace norm

namespace rms_norm {
// in floats
inline constexpr size_t kEps = 0;
}  // namespace rms_norm

namespace group_norm {
inline constexpr size_t kNGroups = 0;
// in floats
inline constexpr size_t kEps = 0;
}  // namespace group_norm

namespace l2_norm {
// in floats
inline constexpr size_t kEps = 0;
}  // namespace l2_norm

namespace soft_max {
// in floats
inline constexpr size_t kScale = 0;
}  // namespace soft_max

namespace rope {
inline constexpr size_t kNDims = 0;
inline constexpr size_t kMode = 1;
inline constexpr size_t kOriginalContext = 2;
// in floats
inline constexpr size_t kFreqBase = 0;
inline constexpr size_t kFreqScale = 1;
inline constexpr size_t kExtFactor = 2;
inline constexpr size_t kAttnFactor = 3;
inline constexpr size_t kBetaFast = 4;
inline constexpr size_t kBetaSlow = 5;
}  // namespace rope

namespace attention {
inline constexpr size_t kCausal = 0;
// in floats
inline constexpr size_t kScale = 0;
}  // namespace attention

namespace update_and_attend {
inline constexpr size_t kState = 0;
inline constexpr size_t kCausal = 1;
inline constexpr size_t kUpdate = 2;
// in floats
inline constexpr size_t kScale = 0;
inline constexpr size_t kSoftcap = 1;
}  // namespace update_and_attend

namespace conv_2d {
inline constexpr size_t kStride0 = 0;
inline constexpr size_t kStride1 = 1;
inline constexpr size_t kPadding0 = 2;
inline constexpr size_t kPadding1 = 3;
inline constexpr size_t kDilation0 = 4;
inline constexpr size_t kDilation1 = 5;
}  // namespace conv_2d

namespace conv_2d_dw {
inline constexpr size_t kStride0 = 0;
inline constexpr size_t kStride1 = 1;
inline constexpr size_t kPadding0 = 2;
inline constexpr size_t kPadding1 = 3;
inline constexpr size_t kDilation0 = 4;
inline constexpr size_t kDilation1 = 5;
}  // namespace conv_2d_dw

namespace pool_2d {
inline constexpr size_t kKind = 0;
inline constexpr size_t kKernel0 = 1;
inline constexpr size_t kKernel1 = 2;
inline constexpr size_t kStride0 = 3;
inline constexpr size_t kStride1 = 4;
inline constexpr size_t kPadding0 = 5;
inline constexpr size_t kPadding1 = 6;
}  // namespace pool_2d

namespace im2col {
inline constexpr size_t kKernel0 = 0;
inline constexpr size_t kKernel1 = 1;
inline constexpr size_t kStride0 = 2;
inline constexpr size_t kStride1 = 3;
inline constexpr size_t kPadding0 = 4;
inline constexpr size_t kPadding1 = 5;
inline constexpr size_t kDilation0 = 6;
inline constexpr size_t kDilation1 = 7;
}  // namespace im2col

namespace im2col_3d {
inline constexpr size_t kChannels = 0;
inline constexpr size_t kImages = 1;
inline constexpr size_t kKernel0 = 2;
inline constexpr size_t kKernel1 = 3;
inline constexpr size_t kKernel2 = 4;
inline constexpr size_t kStride0 = 5;
inline constexpr size_t kStride1 = 6;
inline constexpr size_t kStride2 = 7;
inline constexpr size_t kPadding0 = 8;
inline constexpr size_t kPadding1 = 9;
inline constexpr size_t kPadding2 = 10;
inline constexpr size_t kDilation0 = 11;
inline constexpr size_t kDilation1 = 12;
inline constexpr size_t kDilation2 = 13;
}  // namespace im2col_3d

namespace col2im {
inline constexpr size_t kNe0 = 0;
inline constexpr size_t kNe1 = 1;
inline constexpr size_t kKernel0 = 2;
inline constexpr size_t kKernel1 = 3;
inline constexpr size_t kStride0 = 4;
inline constexpr size_t kStride1 = 5;
inline constexpr size_t kPadding0 = 6;
inline constexpr size_t kPadding1 = 7;
inline constexpr size_t kDilation0 = 8;
inline constexpr size_t kDilation1 = 9;
}  // namespace col2im

namespace upscale {
inline constexpr size_t kMode = 0;
inline constexpr size_t kNe0 = 1;
inline constexpr size_t kNe1 = 2;
inline constexpr size_t kAlignCorners = 3;
}  // namespace upscale

namespace conv_2d_nhwc {
inline constexpr size_t kKernel0 = 0;
inline constexpr size_t kKernel1 = 1;
inline constexpr size_t kStride0 = 2;
inline constexpr size_t kStride1 = 3;
inline constexpr size_t kPadding0 = 4;
inline constexpr size_t kPadding1 = 5;
inline constexpr size_t kDilation0 = 6;
inline constexpr size_t kDilation1 = 7;
inline constexpr size_t kAfter0 = 8;
inline constexpr size_t kAfter1 = 9;
inline constexpr size_t kChannels = 10;
// in floats
inline constexpr size_t kMin = 0;
inline constexpr size_t kMax = 1;
}  // namespace conv_2d_nhwc

namespace conv_2d_dw_nhwc {
inline constexpr size_t kKernel0 = 0;
inline constexpr size_t kKernel1 = 1;
inline constexpr size_t kStride0 = 2;
inline constexpr size_t kStride1 = 3;
inline constexpr size_t kPadding0 = 4;
inline constexpr size_t kPadding1 = 5;
inline constexpr size_t kDilation0 = 6;
inline constexpr size_t kDilation1 = 7;
inline constexpr size_t kAfter0 = 8;
inline constexpr size_t kAfter1 = 9;
// in floats
inline constexpr size_t kMin = 0;
inline constexpr size_t kMax = 1;
}  // namespace conv_2d_dw_nhwc

namespace pool_2d_nhwc {
inline constexpr size_t kKind = 0;
inline constexpr size_t kKernel0 = 1;
inline constexpr size_t kKernel1 = 2;
inline constexpr size_t kStride0 = 3;
inline constexpr size_t kStride1 = 4;
inline constexpr size_t kPadding0 = 5;
inline constexpr size_t kPadding1 = 6;
}  // namespace pool_2d_nhwc

namespace host_unary {
inline constexpr size_t kKind = 0;
inline constexpr size_t kType = 1;
// in floats
inline constexpr size_t kP = 0;
inline constexpr size_t kQ = 1;
inline constexpr size_t kR = 2;
}  // namespace host_unary

namespace host_binary {
inline constexpr size_t kKind = 0;
inline constexpr size_t kType = 1;
}  // namespace host_binary

namespace host_convert {
inline constexpr size_t kTo = 0;
}  // namespace host_convert

namespace host_round {
inline constexpr size_t kDtype = 0;
}  // namespace host_round

namespace host_reduce {
inline constexpr size_t kKind = 0;
inline constexpr size_t kType = 1;
// in floats
inline constexpr size_t kCorrection = 0;
}  // namespace host_reduce

namespace host_scan {
inline constexpr size_t kKind = 0;
inline constexpr size_t kType = 1;
}  // namespace host_scan

namespace host_argsort {
inline constexpr size_t kDescending = 0;
}  // namespace host_argsort

namespace host_scatter {
inline constexpr size_t kMode = 0;
}  // namespace host_scatter

namespace host_wrap_ids {
inline constexpr size_t kLimit = 0;
}  // namespace host_wrap_ids

namespace host_iota {
inline constexpr size_t kNe0 = 0;
inline constexpr size_t kNe1 = 1;
inline constexpr size_t kNe2 = 2;
inline constexpr size_t kNe3 = 3;
inline constexpr size_t kStart = 4;
inline constexpr size_t kStep = 5;
}  // namespace host_iota

namespace host_pool {
inline constexpr size_t kKind = 0;
inline constexpr size_t kNe0 = 1;
inline constexpr size_t kNe1 = 2;
inline constexpr size_t kNe2 = 3;
inline constexpr size_t kKernel0 = 4;
inline constexpr size_t kKernel1 = 5;
inline constexpr size_t kKernel2 = 6;
inline constexpr size_t kStride0 = 7;
inline constexpr size_t kStride1 = 8;
inline constexpr size_t kStride2 = 9;
inline constexpr size_t kPadding0 = 10;
inline constexpr size_t kPadding1 = 11;
inline constexpr size_t kPadding2 = 12;
inline constexpr size_t kDilation0 = 13;
inline constexpr size_t kDilation1 = 14;
inline constexpr size_t kDilation2 = 15;
inline constexpr size_t kAdaptive = 16;
inline constexpr size_t kCountIncludePad = 17;
inline constexpr size_t kDivisor = 18;
}  // namespace host_pool

namespace host_resize {
inline constexpr size_t kKind = 0;
inline constexpr size_t kRank = 1;
inline constexpr size_t kNe0 = 2;
inline constexpr size_t kNe1 = 3;
inline constexpr size_t kNe2 = 4;
inline constexpr size_t kAlignCorners = 5;
// in floats
inline constexpr size_t kStep0 = 0;
inline constexpr size_t kStep1 = 1;
inline constexpr size_t kStep2 = 2;
}  // namespace host_resize

namespace host_grid_sample {
inline constexpr size_t kMode = 0;
inline constexpr size_t kPadding = 1;
inline constexpr size_t kAlignCorners = 2;
}  // namespace host_grid_sample

namespace host_recurrent {
inline constexpr size_t kKind = 0;
inline constexpr size_t kReverse = 1;
}  // namespace host_recurrent

}  // namespace params

// Positions in Call::inputs.
namespace inputs {

namespace reshape {
inline constexpr size_t kX = 0;
}  // namespace reshape

namespace permute {
inline constexpr size_t kX = 0;
}  // namespace permute

namespace view {
inline constexpr size_t kX = 0;
}  // namespace view

namespace cont {
inline constexpr size_t kX = 0;
}  // namespace cont

namespace cast {
inline constexpr size_t kX = 0;
}  // namespace cast

namespace repeat {
inline constexpr size_t kX = 0;
}  // namespace repeat

namespace concat {
inline constexpr size_t kA = 0;
inline constexpr size_t kB = 1;
}  // namespace concat

namespace pad {
inline constexpr size_t kX = 0;
}  // namespace pad

namespace get_rows {
inline constexpr size_t kTable = 0;
inline constexpr size_t kIds = 1;
}  // namespace get_rows

namespace set_rows {
inline constexpr size_t kState = 0;
inline constexpr size_t kX = 1;
inline constexpr size_t kIds = 2;
}  // namespace set_rows

namespace assign {
inline constexpr size_t kState = 0;
inline constexpr size_t kX = 1;
}  // namespace assign

namespace add {
inline constexpr size_t kA = 0;
inline constexpr size_t kB = 1;
}  // namespace add

namespace sub {
inline constexpr size_t kA = 0;
inline constexpr size_t kB = 1;
}  // namespace sub

namespace mul {
inline constexpr size_t kA = 0;
inline constexpr size_t kB = 1;
}  // namespace mul

namespace div {
inline constexpr size_t kA = 0;
inline constexpr size_t kB = 1;
}  // namespace div

namespace scale {
inline constexpr size_t kX = 0;
}  // namespace scale

namespace clamp {
inline constexpr size_t kX = 0;
}  // namespace clamp

namespace sqr {
inline constexpr size_t kX = 0;
}  // namespace sqr

namespace sqrt {
inline constexpr size_t kX = 0;
}  // namespace sqrt

namespace log {
inline constexpr size_t kX = 0;
}  // namespace log

namespace sin {
inline constexpr size_t kX = 0;
}  // namespace sin

namespace cos {
inline constexpr size_t kX = 0;
}  // namespace cos

namespace unary {
inline constexpr size_t kX = 0;
}  // namespace unary

namespace leaky_relu {
inline constexpr size_t kX = 0;
}  // namespace leaky_relu

namespace glu {
inline constexpr size_t kA = 0;
inline constexpr size_t kB = 1;
}  // namespace glu

namespace sum_rows {
inline constexpr size_t kX = 0;
}  // namespace sum_rows

namespace mean_rows {
inline constexpr size_t kX = 0;
}  // namespace mean_rows

namespace sum {
inline constexpr size_t kX = 0;
}  // namespace sum

namespace argmax {
inline constexpr size_t kX = 0;
}  // namespace argmax

namespace cumsum {
inline constexpr size_t kX = 0;
}  // namespace cumsum

namespace norm {
inline constexpr size_t kX = 0;
}  // namespace norm

namespace rms_norm {
inline constexpr size_t kX = 0;
}  // namespace rms_norm

namespace group_norm {
inline constexpr size_t kX = 0;
}  // namespace group_norm

namespace l2_norm {
inline constexpr size_t kX = 0;
}  // namespace l2_norm

namespace soft_max {
inline constexpr size_t kX = 0;
inline constexpr size_t kMask = 1;
}  // namespace soft_max

namespace mul_mat {
inline constexpr size_t kW = 0;
inline constexpr size_t kX = 1;
}  // namespace mul_mat

namespace rope {
inline constexpr size_t kX = 0;
inline constexpr size_t kPositions = 1;
inline constexpr size_t kFreqFactors = 2;
}  // namespace rope

namespace attention {
inline constexpr size_t kQ = 0;
inline constexpr size_t kK = 1;
inline constexpr size_t kV = 2;
inline constexpr size_t kMask = 3;
}  // namespace attention

namespace update_and_attend {
inline constexpr size_t kQ = 0;
inline constexpr size_t kK = 1;
inline constexpr size_t kV = 2;
inline constexpr size_t kPositions = 3;
inline constexpr size_t kMask = 4;
inline constexpr size_t kSinks = 5;
inline constexpr size_t kSequences = 6;
}  // namespace update_and_attend

namespace conv_2d {
inline constexpr size_t kKernel = 0;
inline constexpr size_t kX = 1;
}  // namespace conv_2d

namespace conv_2d_dw {
inline constexpr size_t kKernel = 0;
inline constexpr size_t kX = 1;
}  // namespace conv_2d_dw

namespace pool_2d {
inline constexpr size_t kX = 0;
}  // namespace pool_2d

namespace im2col {
inline constexpr size_t kX = 0;
}  // namespace im2col

namespace im2col_3d {
inline constexpr size_t kX = 0;
}  // namespace im2col_3d

namespace col2im {
inline constexpr size_t kX = 0;
}  // namespace col2im

namespace upscale {
inline constexpr size_t kX = 0;
}  // namespace upscale

namespace conv_2d_nhwc {
inline constexpr size_t kKernel = 0;
inline constexpr size_t kX = 1;
inline constexpr size_t kBias = 2;
inline constexpr size_t kResidual = 3;
}  // namespace conv_2d_nhwc

namespace conv_2d_dw_nhwc {
inline constexpr size_t kKernel = 0;
inline constexpr size_t kX = 1;
inline constexpr size_t kBias = 2;
inline constexpr size_t kResidual = 3;
}  // namespace conv_2d_dw_nhwc

namespace pool_2d_nhwc {
inline constexpr size_t kX = 0;
}  // namespace pool_2d_nhwc

namespace host_unary {
inline constexpr size_t kX = 0;
}  // namespace host_unary

namespace host_binary {
inline constexpr size_t kA = 0;
inline constexpr size_t kB = 1;
}  // namespace host_binary

namespace host_where {
inline constexpr size_t kCondition = 0;
inline constexpr size_t kA = 1;
inline constexpr size_t kB = 2;
}  // namespace host_where

namespace host_convert {
inline constexpr size_t kX = 0;
}  // namespace host_convert

namespace host_round {
inline constexpr size_t kX = 0;
}  // namespace host_round

namespace host_reduce {
inline constexpr size_t kX = 0;
}  // namespace host_reduce

namespace host_scan {
inline constexpr size_t kX = 0;
}  // namespace host_scan

namespace host_argsort {
inline constexpr size_t kX = 0;
}  // namespace host_argsort

namespace host_gather {
inline constexpr size_t kX = 0;
inline constexpr size_t kIndex = 1;
}  // namespace host_gather

namespace host_scatter {
inline constexpr size_t kX = 0;
inline constexpr size_t kIndex = 1;
inline constexpr size_t kSrc = 2;
}  // namespace host_scatter

namespace host_wrap_ids {
inline constexpr size_t kIds = 0;
}  // namespace host_wrap_ids

namespace host_pool {
inline constexpr size_t kX = 0;
}  // namespace host_pool

namespace host_resize {
inline constexpr size_t kX = 0;
}  // namespace host_resize

namespace host_grid_sample {
inline constexpr size_t kX = 0;
inline constexpr size_t kGrid = 1;
}  // namespace host_grid_sample

namespace host_recurrent {
inline constexpr size_t kGates = 0;
inline constexpr size_t kWeights = 1;
inline constexpr size_t kBias = 2;
inline constexpr size_t kState = 3;
}  // namespace host_recurrent

}  // namespace inputs

// clang-format off: one table row a line.
namespace opset_detail {

inline constexpr uint8_t kUnaryValues[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
inline constexpr uint8_t kGluValues[] = {0, 1, 2, 3, 4};
inline constexpr uint8_t kRopeModeValues[] = {0, 2};
inline constexpr uint8_t kPoolValues[] = {0, 1};
inline constexpr uint8_t kRecurrenceValues[] = {0, 1, 2, 3};
inline constexpr uint8_t kIntTypeValues[] = {0, 1, 2, 3, 4, 5};
inline constexpr uint8_t kHostUnaryValues[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 40, 41, 42, 43};
inline constexpr uint8_t kHostBinaryValues[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 30, 31, 32, 33, 34, 35, 36, 37, 38};
inline constexpr uint8_t kHostReduceValues[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
inline constexpr uint8_t kHostScanValues[] = {0, 1, 2, 3, 4, 5, 6};
inline constexpr uint8_t kScatterValues[] = {0, 1, 2, 3, 4};
inline constexpr uint8_t kHostPoolValues[] = {0, 1, 2};
inline constexpr uint8_t kUpscaleValues[] = {0, 1, 2};
inline constexpr uint8_t kHostResizeValues[] = {0, 1, 2, 3, 4, 5};
inline constexpr uint8_t kGridModeValues[] = {0, 1, 2};
inline constexpr uint8_t kGridPaddingValues[] = {0, 1, 2};
inline constexpr const char* kReshapeInputs[] = {"x"};
inline constexpr IntParam kReshapeInts[] = {
    {"ne0", ParamKind::Dim},
    {"ne1", ParamKind::Dim},
    {"ne2", ParamKind::Dim},
    {"ne3", ParamKind::Dim},
};
inline constexpr const char* kPermuteInputs[] = {"x"};
inline constexpr IntParam kPermuteInts[] = {
    {"axis0", ParamKind::Int},
    {"axis1", ParamKind::Int},
    {"axis2", ParamKind::Int},
    {"axis3", ParamKind::Int},
};
inline constexpr const char* kViewInputs[] = {"x"};
inline constexpr IntParam kViewInts[] = {
    {"ne0", ParamKind::Dim},
    {"ne1", ParamKind::Dim},
    {"ne2", ParamKind::Dim},
    {"ne3", ParamKind::Dim},
    {"stride1", ParamKind::Dim},
    {"stride2", ParamKind::Dim},
    {"stride3", ParamKind::Dim},
    {"offset", ParamKind::Dim},
};
inline constexpr const char* kContInputs[] = {"x"};
inline constexpr const char* kCastInputs[] = {"x"};
inline constexpr IntParam kCastInts[] = {
    {"dtype", ParamKind::Int},
};
inline constexpr const char* kRepeatInputs[] = {"x"};
inline constexpr IntParam kRepeatInts[] = {
    {"ne0", ParamKind::Dim},
    {"ne1", ParamKind::Dim},
    {"ne2", ParamKind::Dim},
    {"ne3", ParamKind::Dim},
};
inline constexpr const char* kConcatInputs[] = {"a", "b"};
inline constexpr IntParam kConcatInts[] = {
    {"axis", ParamKind::Int},
};
inline constexpr const char* kPadInputs[] = {"x"};
inline constexpr IntParam kPadInts[] = {
    {"before0", ParamKind::Int},
    {"after0", ParamKind::Int},
    {"before1", ParamKind::Int},
    {"after1", ParamKind::Int},
    {"before2", ParamKind::Int},
    {"after2", ParamKind::Int},
    {"before3", ParamKind::Int},
    {"after3", ParamKind::Int},
};
inline constexpr const char* kGetRowsInputs[] = {"table", "ids"};
inline constexpr const char* kSetRowsInputs[] = {"state", "x", "ids"};
inline constexpr const char* kAssignInputs[] = {"state", "x"};
inline constexpr const char* kAddInputs[] = {"a", "b"};
inline constexpr const char* kSubInputs[] = {"a", "b"};
inline constexpr const char* kMulInputs[] = {"a", "b"};
inline constexpr const char* kDivInputs[] = {"a", "b"};
inline constexpr const char* kScaleInputs[] = {"x"};
inline constexpr const char* kScaleFloats[] = {"scale", "bias"};
inline constexpr const char* kClampInputs[] = {"x"};
inline constexpr const char* kClampFloats[] = {"min", "max"};
inline constexpr const char* kSqrInputs[] = {"x"};
inline constexpr const char* kSqrtInputs[] = {"x"};
inline constexpr const char* kLogInputs[] = {"x"};
inline constexpr const char* kSinInputs[] = {"x"};
inline constexpr const char* kCosInputs[] = {"x"};
inline constexpr const char* kUnaryInputs[] = {"x"};
inline constexpr IntParam kUnaryInts[] = {
    {"kind", ParamKind::Int, kUnaryValues},
};
inline constexpr const char* kLeakyReluInputs[] = {"x"};
inline constexpr const char* kLeakyReluFloats[] = {"negative_slope"};
inline constexpr const char* kGluInputs[] = {"a", "b"};
inline constexpr IntParam kGluInts[] = {
    {"kind", ParamKind::Int, kGluValues},
};
inline constexpr const char* kSumRowsInputs[] = {"x"};
inline constexpr const char* kMeanRowsInputs[] = {"x"};
inline constexpr const char* kSumInputs[] = {"x"};
inline constexpr const char* kArgmaxInputs[] = {"x"};
inline constexpr const char* kCumsumInputs[] = {"x"};
inline constexpr const char* kNormInputs[] = {"x"};
inline constexpr const char* kNormFloats[] = {"eps"};
inline constexpr const char* kRmsNormInputs[] = {"x"};
inline constexpr const char* kRmsNormFloats[] = {"eps"};
inline constexpr const char* kGroupNormInputs[] = {"x"};
inline constexpr const char* kGroupNormFloats[] = {"eps"};
inline constexpr IntParam kGroupNormInts[] = {
    {"n_groups", ParamKind::Int},
};
inline constexpr const char* kL2NormInputs[] = {"x"};
inline constexpr const char* kL2NormFloats[] = {"eps"};
inline constexpr const char* kSoftMaxInputs[] = {"x", "mask"};
inline constexpr const char* kSoftMaxFloats[] = {"scale"};
inline constexpr const char* kMulMatInputs[] = {"w", "x"};
inline constexpr const char* kRopeInputs[] = {"x", "positions", "freq_factors"};
inline constexpr const char* kRopeFloats[] = {"freq_base", "freq_scale", "ext_factor", "attn_factor", "beta_fast", "beta_slow"};
inline constexpr IntParam kRopeInts[] = {
    {"n_dims", ParamKind::Int},
    {"mode", ParamKind::Int, kRopeModeValues},
    {"original_context", ParamKind::Int},
};
inline constexpr const char* kAttentionInputs[] = {"q", "k", "v", "mask"};
inline constexpr const char* kAttentionFloats[] = {"scale"};
inline constexpr IntParam kAttentionInts[] = {
    {"causal", ParamKind::Bool},
};
inline constexpr const char* kUpdateAndAttendInputs[] = {"q", "k", "v", "positions", "mask", "sinks", "sequences"};
inline constexpr const char* kUpdateAndAttendFloats[] = {"scale", "softcap"};
inline constexpr IntParam kUpdateAndAttendInts[] = {
    {"state", ParamKind::Int},
    {"causal", ParamKind::Bool},
    {"update", ParamKind::Bool},
};
inline constexpr const char* kConv2dInputs[] = {"kernel", "x"};
inline constexpr IntParam kConv2dInts[] = {
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
    {"dilation0", ParamKind::Int},
    {"dilation1", ParamKind::Int},
};
inline constexpr const char* kConv2dDwInputs[] = {"kernel", "x"};
inline constexpr IntParam kConv2dDwInts[] = {
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
    {"dilation0", ParamKind::Int},
    {"dilation1", ParamKind::Int},
};
inline constexpr const char* kPool2dInputs[] = {"x"};
inline constexpr IntParam kPool2dInts[] = {
    {"kind", ParamKind::Int, kPoolValues},
    {"kernel0", ParamKind::Int},
    {"kernel1", ParamKind::Int},
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
};
inline constexpr const char* kIm2colInputs[] = {"x"};
inline constexpr IntParam kIm2colInts[] = {
    {"kernel0", ParamKind::Int},
    {"kernel1", ParamKind::Int},
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
    {"dilation0", ParamKind::Int},
    {"dilation1", ParamKind::Int},
};
inline constexpr const char* kIm2col3dInputs[] = {"x"};
inline constexpr IntParam kIm2col3dInts[] = {
    {"channels", ParamKind::Int},
    {"images", ParamKind::Dim},
    {"kernel0", ParamKind::Int},
    {"kernel1", ParamKind::Int},
    {"kernel2", ParamKind::Int},
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"stride2", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
    {"padding2", ParamKind::Int},
    {"dilation0", ParamKind::Int},
    {"dilation1", ParamKind::Int},
    {"dilation2", ParamKind::Int},
};
inline constexpr const char* kCol2imInputs[] = {"x"};
inline constexpr IntParam kCol2imInts[] = {
    {"ne0", ParamKind::Dim},
    {"ne1", ParamKind::Dim},
    {"kernel0", ParamKind::Int},
    {"kernel1", ParamKind::Int},
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
    {"dilation0", ParamKind::Int},
    {"dilation1", ParamKind::Int},
};
inline constexpr const char* kUpscaleInputs[] = {"x"};
inline constexpr IntParam kUpscaleInts[] = {
    {"mode", ParamKind::Int, kUpscaleValues},
    {"ne0", ParamKind::Dim},
    {"ne1", ParamKind::Dim},
    {"align_corners", ParamKind::Bool},
};
inline constexpr const char* kConv2dNhwcInputs[] = {"kernel", "x", "bias", "residual"};
inline constexpr const char* kConv2dNhwcFloats[] = {"min", "max"};
inline constexpr IntParam kConv2dNhwcInts[] = {
    {"kernel0", ParamKind::Int},
    {"kernel1", ParamKind::Int},
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
    {"dilation0", ParamKind::Int},
    {"dilation1", ParamKind::Int},
    {"after0", ParamKind::Int},
    {"after1", ParamKind::Int},
    {"channels", ParamKind::Int},
};
inline constexpr const char* kConv2dDwNhwcInputs[] = {"kernel", "x", "bias", "residual"};
inline constexpr const char* kConv2dDwNhwcFloats[] = {"min", "max"};
inline constexpr IntParam kConv2dDwNhwcInts[] = {
    {"kernel0", ParamKind::Int},
    {"kernel1", ParamKind::Int},
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
    {"dilation0", ParamKind::Int},
    {"dilation1", ParamKind::Int},
    {"after0", ParamKind::Int},
    {"after1", ParamKind::Int},
};
inline constexpr const char* kPool2dNhwcInputs[] = {"x"};
inline constexpr IntParam kPool2dNhwcInts[] = {
    {"kind", ParamKind::Int, kPoolValues},
    {"kernel0", ParamKind::Int},
    {"kernel1", ParamKind::Int},
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
};
inline constexpr const char* kHostUnaryInputs[] = {"x"};
inline constexpr const char* kHostUnaryFloats[] = {"p", "q", "r"};
inline constexpr IntParam kHostUnaryInts[] = {
    {"kind", ParamKind::Int, kHostUnaryValues},
    {"type", ParamKind::Int, kIntTypeValues},
};
inline constexpr const char* kHostBinaryInputs[] = {"a", "b"};
inline constexpr IntParam kHostBinaryInts[] = {
    {"kind", ParamKind::Int, kHostBinaryValues},
    {"type", ParamKind::Int, kIntTypeValues},
};
inline constexpr const char* kHostWhereInputs[] = {"condition", "a", "b"};
inline constexpr const char* kHostConvertInputs[] = {"x"};
inline constexpr IntParam kHostConvertInts[] = {
    {"to", ParamKind::Int, kIntTypeValues},
};
inline constexpr const char* kHostRoundInputs[] = {"x"};
inline constexpr IntParam kHostRoundInts[] = {
    {"dtype", ParamKind::Int},
};
inline constexpr const char* kHostReduceInputs[] = {"x"};
inline constexpr const char* kHostReduceFloats[] = {"correction"};
inline constexpr IntParam kHostReduceInts[] = {
    {"kind", ParamKind::Int, kHostReduceValues},
    {"type", ParamKind::Int, kIntTypeValues},
};
inline constexpr const char* kHostScanInputs[] = {"x"};
inline constexpr IntParam kHostScanInts[] = {
    {"kind", ParamKind::Int, kHostScanValues},
    {"type", ParamKind::Int, kIntTypeValues},
};
inline constexpr const char* kHostArgsortInputs[] = {"x"};
inline constexpr IntParam kHostArgsortInts[] = {
    {"descending", ParamKind::Bool},
};
inline constexpr const char* kHostGatherInputs[] = {"x", "index"};
inline constexpr const char* kHostScatterInputs[] = {"x", "index", "src"};
inline constexpr IntParam kHostScatterInts[] = {
    {"mode", ParamKind::Int, kScatterValues},
};
inline constexpr const char* kHostWrapIdsInputs[] = {"ids"};
inline constexpr IntParam kHostWrapIdsInts[] = {
    {"limit", ParamKind::Dim},
};
inline constexpr IntParam kHostIotaInts[] = {
    {"ne0", ParamKind::Dim},
    {"ne1", ParamKind::Dim},
    {"ne2", ParamKind::Dim},
    {"ne3", ParamKind::Dim},
    {"start", ParamKind::Dim},
    {"step", ParamKind::Dim},
};
inline constexpr const char* kHostPoolInputs[] = {"x"};
inline constexpr IntParam kHostPoolInts[] = {
    {"kind", ParamKind::Int, kHostPoolValues},
    {"ne0", ParamKind::Dim},
    {"ne1", ParamKind::Dim},
    {"ne2", ParamKind::Dim},
    {"kernel0", ParamKind::Int},
    {"kernel1", ParamKind::Int},
    {"kernel2", ParamKind::Int},
    {"stride0", ParamKind::Int},
    {"stride1", ParamKind::Int},
    {"stride2", ParamKind::Int},
    {"padding0", ParamKind::Int},
    {"padding1", ParamKind::Int},
    {"padding2", ParamKind::Int},
    {"dilation0", ParamKind::Int},
    {"dilation1", ParamKind::Int},
    {"dilation2", ParamKind::Int},
    {"adaptive", ParamKind::Bool},
    {"count_include_pad", ParamKind::Bool},
    {"divisor", ParamKind::Int},
};
inline constexpr const char* kHostResizeInputs[] = {"x"};
inline constexpr const char* kHostResizeFloats[] = {"step0", "step1", "step2"};
inline constexpr IntParam kHostResizeInts[] = {
    {"kind", ParamKind::Int, kHostResizeValues},
    {"rank", ParamKind::Int},
    {"ne0", ParamKind::Dim},
    {"ne1", ParamKind::Dim},
    {"ne2", ParamKind::Dim},
    {"align_corners", ParamKind::Bool},
};
inline constexpr const char* kHostGridSampleInputs[] = {"x", "grid"};
inline constexpr IntParam kHostGridSampleInts[] = {
    {"mode", ParamKind::Int, kGridModeValues},
    {"padding", ParamKind::Int, kGridPaddingValues},
    {"align_corners", ParamKind::Bool},
};
inline constexpr const char* kHostRecurrentInputs[] = {"gates", "weights", "bias", "state"};
inline constexpr IntParam kHostRecurrentInts[] = {
    {"kind", ParamKind::Int, kRecurrenceValues},
    {"reverse", ParamKind::Bool},
};

}  // namespace opset_detail

// In the order of the codes.
inline constexpr OpInfo kOpset[] = {
    {
        .op = Op::Reshape,
        .name = "reshape",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 4,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = true,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kReshapeInputs,
        .ints = opset_detail::kReshapeInts,
        .floats = {},
    },
    {
        .op = Op::Permute,
        .name = "permute",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 4,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = true,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kPermuteInputs,
        .ints = opset_detail::kPermuteInts,
        .floats = {},
    },
    {
        .op = Op::View,
        .name = "view",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 8,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = true,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kViewInputs,
        .ints = opset_detail::kViewInts,
        .floats = {},
    },
    {
        .op = Op::Cont,
        .name = "cont",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kContInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Cast,
        .name = "cast",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 1,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kCastInputs,
        .ints = opset_detail::kCastInts,
        .floats = {},
    },
    {
        .op = Op::Repeat,
        .name = "repeat",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 4,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kRepeatInputs,
        .ints = opset_detail::kRepeatInts,
        .floats = {},
    },
    {
        .op = Op::Concat,
        .name = "concat",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 1,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kConcatInputs,
        .ints = opset_detail::kConcatInts,
        .floats = {},
    },
    {
        .op = Op::Pad,
        .name = "pad",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 8,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kPadInputs,
        .ints = opset_detail::kPadInts,
        .floats = {},
    },
    {
        .op = Op::GetRows,
        .name = "get_rows",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kGetRowsInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::SetRows,
        .name = "set_rows",
        .min_inputs = 3,
        .max_inputs = 3,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = true,
        .has_side_effect = true,
        .since = 1,
        .inputs = opset_detail::kSetRowsInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Assign,
        .name = "assign",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = true,
        .has_side_effect = true,
        .since = 1,
        .inputs = opset_detail::kAssignInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Add,
        .name = "add",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kAddInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Sub,
        .name = "sub",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kSubInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Mul,
        .name = "mul",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kMulInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Div,
        .name = "div",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kDivInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Scale,
        .name = "scale",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 2,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kScaleInputs,
        .ints = {},
        .floats = opset_detail::kScaleFloats,
    },
    {
        .op = Op::Clamp,
        .name = "clamp",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 2,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kClampInputs,
        .ints = {},
        .floats = opset_detail::kClampFloats,
    },
    {
        .op = Op::Sqr,
        .name = "sqr",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kSqrInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Sqrt,
        .name = "sqrt",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kSqrtInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Log,
        .name = "log",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kLogInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Sin,
        .name = "sin",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kSinInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Cos,
        .name = "cos",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kCosInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Unary,
        .name = "unary",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 1,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kUnaryInputs,
        .ints = opset_detail::kUnaryInts,
        .floats = {},
    },
    {
        .op = Op::LeakyRelu,
        .name = "leaky_relu",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 1,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kLeakyReluInputs,
        .ints = {},
        .floats = opset_detail::kLeakyReluFloats,
    },
    {
        .op = Op::Glu,
        .name = "glu",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 1,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kGluInputs,
        .ints = opset_detail::kGluInts,
        .floats = {},
    },
    {
        .op = Op::SumRows,
        .name = "sum_rows",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kSumRowsInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::MeanRows,
        .name = "mean_rows",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kMeanRowsInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Sum,
        .name = "sum",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kSumInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Argmax,
        .name = "argmax",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kArgmaxInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Cumsum,
        .name = "cumsum",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kCumsumInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Norm,
        .name = "norm",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 1,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kNormInputs,
        .ints = {},
        .floats = opset_detail::kNormFloats,
    },
    {
        .op = Op::RmsNorm,
        .name = "rms_norm",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 1,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kRmsNormInputs,
        .ints = {},
        .floats = opset_detail::kRmsNormFloats,
    },
    {
        .op = Op::GroupNorm,
        .name = "group_norm",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 1,
        .n_floats = 1,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kGroupNormInputs,
        .ints = opset_detail::kGroupNormInts,
        .floats = opset_detail::kGroupNormFloats,
    },
    {
        .op = Op::L2Norm,
        .name = "l2_norm",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 0,
        .n_floats = 1,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kL2NormInputs,
        .ints = {},
        .floats = opset_detail::kL2NormFloats,
    },
    {
        .op = Op::SoftMax,
        .name = "soft_max",
        .min_inputs = 1,
        .max_inputs = 2,
        .n_ints = 0,
        .n_floats = 1,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kSoftMaxInputs,
        .ints = {},
        .floats = opset_detail::kSoftMaxFloats,
    },
    {
        .op = Op::MulMat,
        .name = "mul_mat",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kMulMatInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::Rope,
        .name = "rope",
        .min_inputs = 2,
        .max_inputs = 3,
        .n_ints = 3,
        .n_floats = 6,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kRopeInputs,
        .ints = opset_detail::kRopeInts,
        .floats = opset_detail::kRopeFloats,
    },
    {
        .op = Op::Attention,
        .name = "attention",
        .min_inputs = 3,
        .max_inputs = 4,
        .n_ints = 1,
        .n_floats = 1,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kAttentionInputs,
        .ints = opset_detail::kAttentionInts,
        .floats = opset_detail::kAttentionFloats,
    },
    {
        .op = Op::UpdateAndAttend,
        .name = "update_and_attend",
        .min_inputs = 4,
        .max_inputs = 7,
        .n_ints = 3,
        .n_floats = 2,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = true,
        .since = 1,
        .inputs = opset_detail::kUpdateAndAttendInputs,
        .ints = opset_detail::kUpdateAndAttendInts,
        .floats = opset_detail::kUpdateAndAttendFloats,
    },
    {
        .op = Op::Conv2d,
        .name = "conv_2d",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 6,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kConv2dInputs,
        .ints = opset_detail::kConv2dInts,
        .floats = {},
    },
    {
        .op = Op::Conv2dDw,
        .name = "conv_2d_dw",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 6,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kConv2dDwInputs,
        .ints = opset_detail::kConv2dDwInts,
        .floats = {},
    },
    {
        .op = Op::Pool2d,
        .name = "pool_2d",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 7,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 1,
        .inputs = opset_detail::kPool2dInputs,
        .ints = opset_detail::kPool2dInts,
        .floats = {},
    },
    {
        .op = Op::Im2col,
        .name = "im2col",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 8,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kIm2colInputs,
        .ints = opset_detail::kIm2colInts,
        .floats = {},
    },
    {
        .op = Op::Im2col3d,
        .name = "im2col_3d",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 14,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kIm2col3dInputs,
        .ints = opset_detail::kIm2col3dInts,
        .floats = {},
    },
    {
        .op = Op::Col2im,
        .name = "col2im",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 10,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kCol2imInputs,
        .ints = opset_detail::kCol2imInts,
        .floats = {},
    },
    {
        .op = Op::Upscale,
        .name = "upscale",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 4,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kUpscaleInputs,
        .ints = opset_detail::kUpscaleInts,
        .floats = {},
    },
    {
        .op = Op::Conv2dNhwc,
        .name = "conv_2d_nhwc",
        .min_inputs = 2,
        .max_inputs = 4,
        .n_ints = 11,
        .n_floats = 2,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kConv2dNhwcInputs,
        .ints = opset_detail::kConv2dNhwcInts,
        .floats = opset_detail::kConv2dNhwcFloats,
    },
    {
        .op = Op::Conv2dDwNhwc,
        .name = "conv_2d_dw_nhwc",
        .min_inputs = 2,
        .max_inputs = 4,
        .n_ints = 10,
        .n_floats = 2,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kConv2dDwNhwcInputs,
        .ints = opset_detail::kConv2dDwNhwcInts,
        .floats = opset_detail::kConv2dDwNhwcFloats,
    },
    {
        .op = Op::Pool2dNhwc,
        .name = "pool_2d_nhwc",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 7,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kPool2dNhwcInputs,
        .ints = opset_detail::kPool2dNhwcInts,
        .floats = {},
    },
    {
        .op = Op::HostUnary,
        .name = "host_unary",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 2,
        .n_floats = 3,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostUnaryInputs,
        .ints = opset_detail::kHostUnaryInts,
        .floats = opset_detail::kHostUnaryFloats,
    },
    {
        .op = Op::HostBinary,
        .name = "host_binary",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 2,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostBinaryInputs,
        .ints = opset_detail::kHostBinaryInts,
        .floats = {},
    },
    {
        .op = Op::HostWhere,
        .name = "host_where",
        .min_inputs = 3,
        .max_inputs = 3,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostWhereInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::HostConvert,
        .name = "host_convert",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 1,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostConvertInputs,
        .ints = opset_detail::kHostConvertInts,
        .floats = {},
    },
    {
        .op = Op::HostRound,
        .name = "host_round",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 1,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostRoundInputs,
        .ints = opset_detail::kHostRoundInts,
        .floats = {},
    },
    {
        .op = Op::HostReduce,
        .name = "host_reduce",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 2,
        .n_floats = 1,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostReduceInputs,
        .ints = opset_detail::kHostReduceInts,
        .floats = opset_detail::kHostReduceFloats,
    },
    {
        .op = Op::HostScan,
        .name = "host_scan",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 2,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostScanInputs,
        .ints = opset_detail::kHostScanInts,
        .floats = {},
    },
    {
        .op = Op::HostArgsort,
        .name = "host_argsort",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 1,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostArgsortInputs,
        .ints = opset_detail::kHostArgsortInts,
        .floats = {},
    },
    {
        .op = Op::HostGather,
        .name = "host_gather",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 0,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostGatherInputs,
        .ints = {},
        .floats = {},
    },
    {
        .op = Op::HostScatter,
        .name = "host_scatter",
        .min_inputs = 3,
        .max_inputs = 3,
        .n_ints = 1,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostScatterInputs,
        .ints = opset_detail::kHostScatterInts,
        .floats = {},
    },
    {
        .op = Op::HostWrapIds,
        .name = "host_wrap_ids",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 1,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostWrapIdsInputs,
        .ints = opset_detail::kHostWrapIdsInts,
        .floats = {},
    },
    {
        .op = Op::HostIota,
        .name = "host_iota",
        .min_inputs = 0,
        .max_inputs = 0,
        .n_ints = 6,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = {},
        .ints = opset_detail::kHostIotaInts,
        .floats = {},
    },
    {
        .op = Op::HostPool,
        .name = "host_pool",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 19,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostPoolInputs,
        .ints = opset_detail::kHostPoolInts,
        .floats = {},
    },
    {
        .op = Op::HostResize,
        .name = "host_resize",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_ints = 6,
        .n_floats = 3,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostResizeInputs,
        .ints = opset_detail::kHostResizeInts,
        .floats = opset_detail::kHostResizeFloats,
    },
    {
        .op = Op::HostGridSample,
        .name = "host_grid_sample",
        .min_inputs = 2,
        .max_inputs = 2,
        .n_ints = 3,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostGridSampleInputs,
        .ints = opset_detail::kHostGridSampleInts,
        .floats = {},
    },
    {
        .op = Op::HostRecurrent,
        .name = "host_recurrent",
        .min_inputs = 4,
        .max_inputs = 4,
        .n_ints = 2,
        .n_floats = 0,
        .n_outputs = 1,
        .is_view = false,
        .has_side_effect = false,
        .since = 2,
        .inputs = opset_detail::kHostRecurrentInputs,
        .ints = opset_detail::kHostRecurrentInts,
        .floats = {},
    },
};
// clang-format on

// The op with this code, or nullptr.
constexpr const OpInfo* find_op(uint16_t code) {
  const auto* found = std::lower_bound(
      std::begin(kOpset), std::end(kOpset), code,
      [](const OpInfo& info, uint16_t c) { return static_cast<uint16_t>(info.op) < c; });
  if (found == std::end(kOpset) || static_cast<uint16_t>(found->op) != code) {
    return nullptr;
  }
  return found;
}

}  // namespace executorch_ggml
