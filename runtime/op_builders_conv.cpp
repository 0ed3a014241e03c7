// Convolutions and pooling.
#include "runtime/op_builders.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

struct Window {
  std::array<int, 2> stride{};
  std::array<int, 2> padding{};
  std::array<int, 2> dilation{1, 1};
};

// Checks that a window of `kernel` elements fits and gives the declared extents.
bool expect_window(OpContext& op, const ggml_tensor& x, const std::array<int64_t, 2>& kernel,
                   const Window& w) {
  const std::array<int64_t, 4> result = op.declared();
  for (size_t i = 0; i < 2; ++i) {
    if (!op.expect(kernel[i] > 0 && w.stride[i] > 0 && w.padding[i] >= 0 && w.dilation[i] > 0,
                   "kernel, stride and dilation must be positive, padding not negative")) {
      return false;
    }
    const int64_t room =
        x.ne[i] + 2 * int64_t{w.padding[i]} - saturating_product(w.dilation[i], kernel[i] - 1) - 1;
    if (!op.expect(room >= 0 && room / w.stride[i] + 1 == result[i],
                   "a window of %lld over %s does not give the declared result",
                   static_cast<long long>(kernel[i]), describe(x).c_str())) {
      return false;
    }
  }
  return true;
}

Window conv_window(OpContext& op) {
  using namespace params::conv_2d;
  return {.stride = {op.as_int(kStride0), op.as_int(kStride1)},
          .padding = {op.as_int(kPadding0), op.as_int(kPadding1)},
          .dilation = {op.as_int(kDilation0), op.as_int(kDilation1)}};
}

}  // namespace

// As ggml_conv_2d, which would round the columns of an F32 kernel to F16.
ggml_tensor* build_conv_2d(OpContext& op) {
  ggml_context* ctx = op.ggml();
  ggml_tensor* kernel = op.in(0);
  ggml_tensor* x = op.in(1);
  const Window w = conv_window(op);
  const std::array<int64_t, 4> ne = op.declared();
  if (!op.expect_type(0, {GGML_TYPE_F32, GGML_TYPE_F16}) || !op.expect_contiguous(0) ||
      !op.expect_f32(1) || !op.expect_contiguous(1) ||
      !op.expect(kernel->ne[2] == x->ne[2] && kernel->ne[3] == ne[2] && x->ne[3] == ne[3],
                 "kernel %s does not fit %s", describe(*kernel).c_str(), describe(*x).c_str()) ||
      !expect_window(op, *x, {kernel->ne[0], kernel->ne[1]}, w)) {
    return nullptr;
  }
  const int64_t column = kernel->ne[0] * kernel->ne[1] * kernel->ne[2];
  const int64_t positions = ne[0] * ne[1] * ne[3];
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  if (!op.expect(saturating_product(column, positions) < kMaxElements,
                 "the columns of this convolution are too large")) {
    return nullptr;
  }
  if (kernel->type != GGML_TYPE_F32) {
    kernel = ggml_cast(ctx, kernel, GGML_TYPE_F32);
  }
  ggml_tensor* columns =
      ggml_im2col(ctx, kernel, x, w.stride[0], w.stride[1], w.padding[0], w.padding[1],
                  w.dilation[0], w.dilation[1], /*is_2D=*/true, GGML_TYPE_F32);
  ggml_tensor* product = ggml_mul_mat(ctx, ggml_reshape_2d(ctx, columns, column, positions),
                                      ggml_reshape_2d(ctx, kernel, column, kernel->ne[3]));
  ggml_prec_set_acc(product, GGML_PREC_F32);
  if (ne[3] == 1) {
    return ggml_reshape_4d(ctx, product, ne[0], ne[1], ne[2], 1);
  }
  ggml_tensor* by_channel = ggml_reshape_4d(ctx, product, ne[0], ne[1], ne[3], ne[2]);
  return ggml_cont(ctx, ggml_permute(ctx, by_channel, 0, 1, 3, 2));
}

ggml_tensor* build_conv_2d_dw(OpContext& op) {
  const ggml_tensor* kernel = op.in(0);
  const ggml_tensor* x = op.in(1);
  const Window w = conv_window(op);
  if (!op.expect_f32(0) || !op.expect_contiguous(0) || !op.expect_f32(1) ||
      !op.expect_contiguous(1) ||
      !op.expect(kernel->ne[2] == 1 && kernel->ne[3] == x->ne[2],
                 "depthwise kernel %s does not fit %s", describe(*kernel).c_str(),
                 describe(*x).c_str()) ||
      !expect_window(op, *x, {kernel->ne[0], kernel->ne[1]}, w)) {
    return nullptr;
  }
  return ggml_conv_2d_dw_direct(op.ggml(), op.in(0), op.in(1), w.stride[0], w.stride[1],
                                w.padding[0], w.padding[1], w.dilation[0], w.dilation[1]);
}

ggml_tensor* build_pool_2d(OpContext& op) {
  using namespace params::pool_2d;
  const ggml_tensor* x = op.in(0);
  const int64_t kind = op.dim(kKind);
  const std::array<int, 2> kernel = {op.as_int(kKernel0), op.as_int(kKernel1)};
  const Window w = {.stride = {op.as_int(kStride0), op.as_int(kStride1)},
                    .padding = {op.as_int(kPadding0), op.as_int(kPadding1)}};
  if (!op.expect_f32(0) || !op.expect_contiguous(0) ||
      !op.expect(kind == static_cast<int64_t>(Pool::Max) || kind == static_cast<int64_t>(Pool::Avg),
                 "unknown pooling %lld", static_cast<long long>(kind)) ||
      !expect_window(op, *x, {kernel[0], kernel[1]}, w)) {
    return nullptr;
  }
  // Our kernel in place of ggml's: that one loses a NaN. It pools over three dims, so the
  // planes of a batch are one dim here.
  const bool is_max = kind == static_cast<int64_t>(Pool::Max);
  const std::array<int64_t, 4> ne = op.declared();
  ggml_tensor* planes =
      ggml_reshape_4d(op.ggml(), op.in(0), x->ne[0], x->ne[1], 1, x->ne[2] * x->ne[3]);
  std::array<ggml_tensor*, 1> operands = {planes};
  ggml_tensor* pooled = op.host_op(
      host_pool, GGML_TYPE_F32, {ne[0], ne[1], 1, planes->ne[3]}, operands,
      {.ints = {static_cast<int64_t>(is_max ? HostPool::Max : HostPool::Avg), ne[0], ne[1], 1,
                kernel[0], kernel[1], 1, w.stride[0], w.stride[1], 1, w.padding[0], w.padding[1], 0,
                1, 1, 1, /*adaptive=*/0, /*count_include_pad=*/1, /*divisor=*/0}});
  return ggml_reshape_4d(op.ggml(), pooled, ne[0], ne[1], x->ne[2], x->ne[3]);
}

}  // namespace executorch_ggml
