// Channels-last images, ne (c, w, h, n): kernels of our own. ggml reads a convolution's image
// with the channels outermost, and writes out every window.
#include <vector>

#include "runtime/kernels/image_kernels.h"
#include "runtime/op_builders.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

// Both convolutions have these parameters at the same places.
namespace conv = params::conv_2d_nhwc;
static_assert(conv::kKernel0 == params::conv_2d_dw_nhwc::kKernel0 &&
              conv::kAfter1 == params::conv_2d_dw_nhwc::kAfter1 &&
              conv::kMax == params::conv_2d_dw_nhwc::kMax);

// Along one axis.
struct AxisWindow {
  int64_t kernel;
  int64_t stride;
  int64_t padding;
  int64_t after;  // padding behind the image
  int64_t dilation;
};

// Whether windows along width (axis 0) or height (axis 1) give the declared result.
bool expect_window(OpContext& op, const ggml_tensor& x, size_t axis, const AxisWindow& w) {
  if (!op.expect(w.kernel > 0 && w.stride > 0 && w.padding >= 0 && w.dilation > 0 && w.after >= 0,
                 "kernel, stride and dilation must be positive, padding not negative")) {
    return false;
  }
  const int64_t room =
      x.ne[axis + 1] + w.padding + w.after - saturating_product(w.dilation, w.kernel - 1) - 1;
  return op.expect(room >= 0 && room / w.stride + 1 == op.declared()[axis + 1],
                   "a window of %lld over %s does not give the declared result",
                   static_cast<long long>(w.kernel), describe(x).c_str());
}

bool expect_conv_windows(OpContext& op, const ggml_tensor& x) {
  for (size_t i = 0; i < 2; ++i) {
    if (!expect_window(op, x, i,
                       {.kernel = op.dim(conv::kKernel0 + i),
                        .stride = op.dim(conv::kStride0 + i),
                        .padding = op.dim(conv::kPadding0 + i),
                        .after = op.dim(conv::kAfter0 + i),
                        .dilation = op.dim(conv::kDilation0 + i)})) {
      return false;
    }
  }
  return op.expect(x.ne[3] == op.declared()[3], "%s does not give the declared result",
                   describe(x).c_str());
}

bool has_extents(const ggml_tensor& t, const std::array<int64_t, 4>& ne) {
  return t.ne[0] == ne[0] && t.ne[1] == ne[1] && t.ne[2] == ne[2] && t.ne[3] == ne[3];
}

// A depthwise convolution with the one whose result is its operand 1.
ggml_tensor* after_convolution(OpContext& op, const std::array<ggml_tensor*, 4>& operands,
                               HostParams params) {
  ggml_tensor& before = *operands[1];
  const std::array<int64_t, 4> ne = op.declared();
  set_strips(params, before, ne);
  const std::array<ggml_tensor*, 6> all = {operands[0], before.src[1], operands[2],
                                           operands[3], before.src[0], before.src[2]};
  return op.host_op(host_conv_2d_then_dw, GGML_TYPE_F32, ne, all, std::move(params));
}

std::vector<int64_t> window_ints(const OpContext& op) {
  std::vector<int64_t> ints;
  for (size_t i = conv::kKernel0; i <= conv::kAfter1; ++i) {
    ints.push_back(op.dim(i));
  }
  return ints;
}

ggml_tensor* convolution(OpContext& op, HostKernel run, const std::array<int64_t, 4>& kernel_ne) {
  const std::array<int64_t, 4> ne = op.declared();
  std::array<ggml_tensor*, 4> operands = {op.in(0), op.in(1), op.in(2), op.in(3)};
  const bool takes_halves = run == host_conv_2d;
  if (takes_halves && !op.expect_type(0, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16})) {
    return nullptr;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != nullptr &&
        (!((i == 0 && takes_halves) || op.expect_f32(i)) || !op.expect_contiguous(i))) {
      return nullptr;
    }
  }
  const ggml_tensor& kernel = *operands[0];
  const ggml_tensor& x = *operands[1];
  if (!op.expect(has_extents(kernel, kernel_ne), "kernel %s does not fit %s",
                 describe(kernel).c_str(), describe(x).c_str()) ||
      !expect_conv_windows(op, x) ||
      !op.expect(operands[2] == nullptr || has_extents(*operands[2], {ne[0], 1, 1, 1}),
                 "the bias must have one element for each of %lld channels",
                 static_cast<long long>(ne[0])) ||
      !op.expect(operands[3] == nullptr || has_extents(*operands[3], ne),
                 "the residual must be as the result")) {
    return nullptr;
  }
  HostParams params = {.ints = window_ints(op)};
  params.floats = {op.param(conv::kMin), op.param(conv::kMax)};
  if (run == host_conv_2d) {
    // A multiplication is quick beside the elements that other ops compute one by one.
    constexpr int64_t kPerElement = 8;
    params.n_units = conv_2d_units(params.ints, ne, kernel, x);
    params.size = saturating_product(ne[0] * ne[1] * ne[2] * ne[3], kernel.ne[1]) / kPerElement;
  } else if (op.takes_in_previous()) {
    return after_convolution(op, operands, std::move(params));
  } else {
    params.n_units = ne[2] * ne[3];
  }
  return op.host_op(run, GGML_TYPE_F32, ne, operands, std::move(params));
}

}  // namespace

bool takes_in_convolution(const OpContext& depthwise, const ggml_tensor& conv) {
  return is_worth_strips(conv, window_ints(depthwise));
}

ggml_tensor* build_conv_2d_nhwc(OpContext& op) {
  const int64_t channels = op.dim(conv::kChannels);
  const int64_t taps = saturating_product(op.dim(conv::kKernel0), op.dim(conv::kKernel1));
  if (!op.expect(channels == op.declared()[0], "%lld channels do not give the declared result",
                 static_cast<long long>(channels))) {
    return nullptr;
  }
  const std::array<int64_t, 4> packed = {kPanel, saturating_product(taps, op.in(1)->ne[0]),
                                         (channels + kPanel - 1) / kPanel, 1};
  return convolution(op, host_conv_2d, packed);
}

ggml_tensor* build_conv_2d_dw_nhwc(OpContext& op) {
  const int64_t channels = op.in(1)->ne[0];
  if (!op.expect(channels == op.declared()[0], "%lld channels do not give the declared result",
                 static_cast<long long>(channels))) {
    return nullptr;
  }
  const std::array<int64_t, 4> kernel = {channels, op.dim(conv::kKernel0), op.dim(conv::kKernel1),
                                         1};
  return convolution(op, host_conv_2d_dw, kernel);
}

ggml_tensor* build_pool_2d_nhwc(OpContext& op) {
  using namespace params::pool_2d_nhwc;
  const std::array<int64_t, 4> ne = op.declared();
  const int64_t kind = op.dim(kKind);
  ggml_tensor* x = op.in(0);
  if (!op.expect_f32(0) || !op.expect_contiguous(0) ||
      !op.expect(kind == static_cast<int64_t>(Pool::Max) || kind == static_cast<int64_t>(Pool::Avg),
                 "unknown pooling %lld", static_cast<long long>(kind)) ||
      !op.expect(x->ne[0] == ne[0] && x->ne[3] == ne[3], "%s does not give the declared result",
                 describe(*x).c_str())) {
    return nullptr;
  }
  HostParams params = {.ints = {kind}};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t padding = op.dim(kPadding0 + i);
    if (!expect_window(op, *x, i,
                       {.kernel = op.dim(kKernel0 + i),
                        .stride = op.dim(kStride0 + i),
                        .padding = padding,
                        .after = padding,
                        .dilation = 1})) {
      return nullptr;
    }
  }
  for (size_t i = kKernel0; i <= kPadding1; ++i) {
    params.ints.push_back(op.dim(i));
  }
  std::array<ggml_tensor*, 1> operands = {x};
  return op.host_op(host_pool_2d, GGML_TYPE_F32, ne, operands, std::move(params));
}

}  // namespace executorch_ggml
