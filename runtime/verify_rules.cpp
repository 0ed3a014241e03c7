#include "runtime/verify_rules.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace executorch_ggml {
namespace {

// enum ggml_type
constexpr uint8_t kF32 = 0;
constexpr uint8_t kQ8_1 = 9;
constexpr uint8_t kQ8_K = 15;
constexpr uint8_t kI32 = 26;

constexpr ScalarTypeInfo kScalarTypes[] = {
    {0, "Byte", true, kI32},       {1, "Char", true, kI32},    {2, "Short", true, kI32},
    {3, "Int", true, kI32},        {4, "Long", true, kI32},    {5, "Half", false, kF32},
    {6, "Float", false, kF32},     {7, "Double", false, kF32}, {11, "Bool", true, kI32},
    {15, "BFloat16", false, kF32},
};

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr int64_t kIntMin = std::numeric_limits<int32_t>::min();

// Parameters `first` to `last`, by their position in Call::ints.
struct IntRange {
  Op op;
  size_t first;
  size_t last;
  int64_t min;
  int64_t max;
};

constexpr IntRange kIntRanges[] = {
    {Op::Permute, params::permute::kAxis0, params::permute::kAxis3, 0, 3},
    {Op::Concat, params::concat::kAxis, params::concat::kAxis, 0, 3},
    {Op::Pad, params::pad::kBefore0, params::pad::kAfter3, 0, kIntMax},
    {Op::GroupNorm, params::group_norm::kNGroups, params::group_norm::kNGroups, 1, kIntMax},
    {Op::Rope, params::rope::kNDims, params::rope::kNDims, 2, kIntMax},
    {Op::Rope, params::rope::kOriginalContext, params::rope::kOriginalContext, 0, kIntMax},
    {Op::Conv2d, params::conv_2d::kStride0, params::conv_2d::kStride1, 1, kIntMax},
    {Op::Conv2d, params::conv_2d::kPadding0, params::conv_2d::kPadding1, 0, kIntMax},
    {Op::Conv2d, params::conv_2d::kDilation0, params::conv_2d::kDilation1, 1, kIntMax},
    {Op::Conv2dDw, params::conv_2d_dw::kStride0, params::conv_2d_dw::kStride1, 1, kIntMax},
    {Op::Conv2dDw, params::conv_2d_dw::kPadding0, params::conv_2d_dw::kPadding1, 0, kIntMax},
    {Op::Conv2dDw, params::conv_2d_dw::kDilation0, params::conv_2d_dw::kDilation1, 1, kIntMax},
    {Op::Pool2d, params::pool_2d::kKernel0, params::pool_2d::kStride1, 1, kIntMax},
    {Op::Pool2d, params::pool_2d::kPadding0, params::pool_2d::kPadding1, 0, kIntMax},
    {Op::Im2col, params::im2col::kKernel0, params::im2col::kStride1, 1, kIntMax},
    {Op::Im2col, params::im2col::kPadding0, params::im2col::kPadding1, 0, kIntMax},
    {Op::Im2col, params::im2col::kDilation0, params::im2col::kDilation1, 1, kIntMax},
    {Op::Im2col3d, params::im2col_3d::kChannels, params::im2col_3d::kChannels, 1, kIntMax},
    {Op::Im2col3d, params::im2col_3d::kKernel0, params::im2col_3d::kStride2, 1, kIntMax},
    {Op::Im2col3d, params::im2col_3d::kPadding0, params::im2col_3d::kPadding2, 0, kIntMax},
    {Op::Im2col3d, params::im2col_3d::kDilation0, params::im2col_3d::kDilation2, 1, kIntMax},
    {Op::Col2im, params::col2im::kKernel0, params::col2im::kStride1, 1, kIntMax},
    {Op::Col2im, params::col2im::kPadding0, params::col2im::kPadding1, 0, kIntMax},
    {Op::Col2im, params::col2im::kDilation0, params::col2im::kDilation1, 1, kIntMax},
    {Op::Conv2dNhwc, params::conv_2d_nhwc::kKernel0, params::conv_2d_nhwc::kStride1, 1, kIntMax},
    {Op::Conv2dNhwc, params::conv_2d_nhwc::kPadding0, params::conv_2d_nhwc::kPadding1, 0, kIntMax},
    {Op::Conv2dNhwc, params::conv_2d_nhwc::kDilation0, params::conv_2d_nhwc::kDilation1, 1,
     kIntMax},
    {Op::Conv2dNhwc, params::conv_2d_nhwc::kAfter0, params::conv_2d_nhwc::kAfter1, 0, kIntMax},
    {Op::Conv2dDwNhwc, params::conv_2d_dw_nhwc::kKernel0, params::conv_2d_dw_nhwc::kStride1, 1,
     kIntMax},
    {Op::Conv2dDwNhwc, params::conv_2d_dw_nhwc::kPadding0, params::conv_2d_dw_nhwc::kPadding1, 0,
     kIntMax},
    {Op::Conv2dDwNhwc, params::conv_2d_dw_nhwc::kDilation0, params::conv_2d_dw_nhwc::kDilation1, 1,
     kIntMax},
    {Op::Conv2dDwNhwc, params::conv_2d_dw_nhwc::kAfter0, params::conv_2d_dw_nhwc::kAfter1, 0,
     kIntMax},
    {Op::Pool2dNhwc, params::pool_2d_nhwc::kKernel0, params::pool_2d_nhwc::kStride1, 1, kIntMax},
    {Op::Pool2dNhwc, params::pool_2d_nhwc::kPadding0, params::pool_2d_nhwc::kPadding1, 0, kIntMax},
    {Op::HostPool, params::host_pool::kKernel0, params::host_pool::kStride2, 1, kIntMax},
    {Op::HostPool, params::host_pool::kPadding0, params::host_pool::kPadding2, 0, kIntMax},
    {Op::HostPool, params::host_pool::kDilation0, params::host_pool::kDilation2, 1, kIntMax},
    {Op::HostResize, params::host_resize::kRank, params::host_resize::kRank, 1, 3},
    {Op::HostPool, params::host_pool::kDivisor, params::host_pool::kDivisor, kIntMin, kIntMax},
};

}  // namespace

const GgmlTypeInfo* program_dtype(int64_t dtype) {
  if (dtype < 0 || dtype > std::numeric_limits<uint8_t>::max() || dtype == kQ8_1 ||
      dtype == kQ8_K) {
    return nullptr;
  }
  return ggml_type_info(static_cast<uint32_t>(dtype));
}

std::string program_dtype_name(uint8_t dtype) {
  const GgmlTypeInfo* const info = program_dtype(dtype);
  return info == nullptr ? "type " + std::to_string(dtype) : info->name;
}

const ScalarTypeInfo* find_scalar_type(int8_t code) {
  const auto* const found =
      std::find_if(std::begin(kScalarTypes), std::end(kScalarTypes),
                   [code](const ScalarTypeInfo& info) { return info.code == code; });
  return found == std::end(kScalarTypes) ? nullptr : found;
}

Interval int_param_range(const OpInfo& info, size_t param) {
  for (const IntRange& range : kIntRanges) {
    if (range.op == info.op && range.first <= param && param <= range.last) {
      return {range.min, range.max};
    }
  }
  const bool is_bool = info.ints[param].kind == ParamKind::Bool;
  return is_bool ? Interval{0, 1} : Interval{kIntMin, kIntMax};
}

}  // namespace executorch_ggml
