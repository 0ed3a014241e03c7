// Channels-last images, ne (c, w, h, n): kernels of our own. ggml reads a convolution's image
// with the channels outermost, and writes out every window.
#include "runtime/kernels/image_kernels.h"
#include "runtime/op_builders.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

// Where the parameters of a window start.
struct WindowParams {
  size_t kernel0;
  size_t stride0;
  size_t padding0;
  size_t dilation0;
  size_t after0;
};

bool expect_windows(OpContext& op, const ggml_tensor& x, const WindowParams& at) {
  const std::array<int64_t, 4> ne = op.declared();
  for (size_t i = 0; i < 2; ++i) {
    const int64_t kernel = op.dim(at.kernel0 + i);
    const int64_t stride = op.dim(at.stride0 + i);
    const int64_t padding = op.dim(at.padding0 + i);
    const int64_t dilation = op.dim(at.dilation0 + i);
    const int64_t after = op.dim(at.after0 + i);
    if (!op.expect(kernel > 0 && stride > 0 && padding >= 0 && dilation > 0 && after >= 0,
                   "kernel, stride and dilation must be positive, padding not negative")) {
      return false;
    }
    const int64_t room =
        x.ne[i + 1] + padding + after - saturating_product(dilation, kernel - 1) - 1;
    if (!op.expect(room >= 0 && room / stride + 1 == ne[i + 1],
                   "a window of %lld over %s does not give the declared result",
                   static_cast<long long>(kernel), describe(x).c_str())) {
      return false;
    }
  }
  return op.expect(x.ne[3] == ne[3], "%s does not give the declared result", describe(x).c_str());
}

bool has_extents(const ggml_tensor& t, const std::array<int64_t, 4>& ne) {
  return t.ne[0] == ne[0] && t.ne[1] == ne[1] && t.ne[2] == ne[2] && t.ne[3] == ne[3];
}

ggml_tensor* convolution(OpContext& op, HostKernel run, const WindowParams& at,
                         const std::array<int64_t, 4>& kernel_ne) {
  const std::array<int64_t, 4> ne = op.declared();
  std::array<ggml_tensor*, 4> operands = {op.in(0), op.in(1), op.in(2), op.in(3)};
  if (run == host_conv_2d && !op.expect_type(0, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16})) {
    return nullptr;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool any_type = i == 0 && run == host_conv_2d;
    if (operands[i] != nullptr && ((!any_type && !op.expect_f32(i)) || !op.expect_contiguous(i))) {
      return nullptr;
    }
  }
  const ggml_tensor& kernel = *operands[0];
  const ggml_tensor& x = *operands[1];
  if (!op.expect(has_extents(kernel, kernel_ne), "kernel %s does not fit %s",
                 describe(kernel).c_str(), describe(x).c_str()) ||
      !expect_windows(op, x, at) ||
      !op.expect(operands[2] == nullptr || has_extents(*operands[2], {ne[0], 1, 1, 1}),
                 "the bias must have one element for each of %lld channels",
                 static_cast<long long>(ne[0])) ||
      !op.expect(operands[3] == nullptr || has_extents(*operands[3], ne),
                 "the residual must be as the result")) {
    return nullptr;
  }
  HostParams params;
  for (size_t i = 0; i <= at.after0 + 1; ++i) {
    params.ints.push_back(op.dim(i));
  }
  params.floats = {op.param(0), op.param(1)};
  return op.host_op(run, GGML_TYPE_F32, ne, operands, std::move(params));
}

}  // namespace

ggml_tensor* build_conv_2d_nhwc(OpContext& op) {
  using namespace params::conv_2d_nhwc;
  const int64_t channels = op.dim(kChannels);
  const int64_t taps = saturating_product(op.dim(kKernel0), op.dim(kKernel1));
  if (!op.expect(channels == op.declared()[0], "%lld channels do not give the declared result",
                 static_cast<long long>(channels))) {
    return nullptr;
  }
  const std::array<int64_t, 4> packed = {kPanel, saturating_product(taps, op.in(1)->ne[0]),
                                         (channels + kPanel - 1) / kPanel, 1};
  return convolution(op, host_conv_2d, {kKernel0, kStride0, kPadding0, kDilation0, kAfter0},
                     packed);
}

ggml_tensor* build_conv_2d_dw_nhwc(OpContext& op) {
  using namespace params::conv_2d_dw_nhwc;
  const int64_t channels = op.in(1)->ne[0];
  if (!op.expect(channels == op.declared()[0], "%lld channels do not give the declared result",
                 static_cast<long long>(channels))) {
    return nullptr;
  }
  const std::array<int64_t, 4> kernel = {channels, op.dim(kKernel0), op.dim(kKernel1), 1};
  return convolution(op, host_conv_2d_dw, {kKernel0, kStride0, kPadding0, kDilation0, kAfter0},
                     kernel);
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
    const int64_t kernel = op.dim(kKernel0 + i);
    const int64_t stride = op.dim(kStride0 + i);
    const int64_t padding = op.dim(kPadding0 + i);
    if (!op.expect(kernel > 0 && stride > 0 && padding >= 0,
                   "kernel and stride must be positive, padding not negative")) {
      return nullptr;
    }
    const int64_t room = x->ne[i + 1] + 2 * padding - kernel;
    if (!op.expect(room >= 0 && room / stride + 1 == ne[i + 1],
                   "a window of %lld over %s does not give the declared result",
                   static_cast<long long>(kernel), describe(*x).c_str())) {
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
