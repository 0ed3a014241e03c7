// Convolutions, pooling and interpolation.
#include "runtime/op_builders.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

// ggml adds the padding of both sides in an int.
constexpr int kMaxPadding = 1 << 30;

struct Window {
  std::array<int, 2> stride{};
  std::array<int, 2> padding{};
  std::array<int, 2> dilation{1, 1};
};

// Along one axis.
struct AxisWindow {
  int kernel;
  int stride;
  int padding;
  int dilation;
};

// The windows whose parameters start at `kernel0`: kernel, stride, padding and dilation, each
// of N axes.
template <size_t N>
std::array<AxisWindow, N> axis_windows(OpContext& op, size_t kernel0) {
  std::array<AxisWindow, N> windows{};
  for (size_t i = 0; i < N; ++i) {
    windows[i] = {.kernel = op.as_int(kernel0 + i),
                  .stride = op.as_int(kernel0 + N + i),
                  .padding = op.as_int(kernel0 + 2 * N + i),
                  .dilation = op.as_int(kernel0 + 3 * N + i)};
  }
  return windows;
}

bool expect_valid(OpContext& op, const AxisWindow& w) {
  return op.expect(w.kernel > 0 && w.stride > 0 && w.padding >= 0 && w.dilation > 0,
                   "kernel, stride and dilation must be positive, padding not negative") &&
         op.expect(w.padding < kMaxPadding, "a padding of %d is too large", w.padding);
}

// How many windows lie on `extent` elements; 0 if none.
int64_t n_windows(int64_t extent, const AxisWindow& w) {
  const int64_t room =
      extent + 2 * int64_t{w.padding} - saturating_product(w.dilation, w.kernel - 1) - 1;
  return room < 0 ? 0 : room / w.stride + 1;
}

int64_t elements(int64_t a, int64_t b, int64_t c) {
  return saturating_product(saturating_product(a, b), c);
}

// ggml holds the distance of images in an int.
bool expect_small_images(OpContext& op, const std::array<int64_t, 4>& ne) {
  constexpr int64_t kMax = INT32_MAX / static_cast<int64_t>(sizeof(float));
  return op.expect(elements(ne[0], ne[1], ne[2]) <= kMax,
                   "images of 2 GiB and more are too large for ggml");
}

// ggml reads the extents of windows from a kernel; its elements are not read.
ggml_tensor* window_shape(OpContext& op, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
  return ggml_new_tensor_4d(op.ggml(), GGML_TYPE_F32, ne0, ne1, ne2, ne3);
}

// Checks that a window of `kernel` elements fits and gives the declared extents.
bool expect_window(OpContext& op, const ggml_tensor& x, const std::array<int64_t, 2>& kernel,
                   const Window& w) {
  const std::array<int64_t, 4> result = op.declared();
  for (size_t i = 0; i < 2; ++i) {
    if (!op.expect(kernel[i] > 0 && w.stride[i] > 0 && w.padding[i] >= 0 && w.dilation[i] > 0,
                   "kernel, stride and dilation must be positive, padding not negative") ||
        !op.expect(w.padding[i] < kMaxPadding, "a padding of %d is too large", w.padding[i])) {
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
      !expect_window(op, *x, {kernel->ne[0], kernel->ne[1]}, w) ||
      !expect_small_images(op, {x->ne[0], x->ne[1], x->ne[2], 1})) {
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

ggml_tensor* build_im2col(OpContext& op) {
  using namespace params::im2col;
  const std::array<AxisWindow, 2> w = axis_windows<2>(op, kKernel0);
  const std::array<int64_t, 4> ne = op.declared();
  ggml_tensor* x = op.in(0);
  if (!op.expect_f32(0) || !op.expect_contiguous(0) || !expect_valid(op, w[0]) ||
      !expect_valid(op, w[1]) || !expect_small_images(op, {x->ne[0], x->ne[1], x->ne[2], 1}) ||
      !op.expect(ne[1] > 0 && ne[2] > 0 && n_windows(x->ne[0], w[0]) == ne[1] &&
                     n_windows(x->ne[1], w[1]) == ne[2] &&
                     elements(w[0].kernel, w[1].kernel, x->ne[2]) == ne[0],
                 "the windows over %s do not give the declared result", describe(*x).c_str())) {
    return nullptr;
  }
  return ggml_im2col(op.ggml(), window_shape(op, w[0].kernel, w[1].kernel, x->ne[2], 1), x,
                     w[0].stride, w[1].stride, w[0].padding, w[1].padding, w[0].dilation,
                     w[1].dilation, /*is_2D=*/true, GGML_TYPE_F32);
}

ggml_tensor* build_im2col_3d(OpContext& op) {
  using namespace params::im2col_3d;
  const std::array<AxisWindow, 3> w = axis_windows<3>(op, kKernel0);
  const std::array<int64_t, 4> ne = op.declared();
  const int channels = op.as_int(kChannels);
  const int64_t images = op.dim(kImages);
  ggml_tensor* x = op.in(0);
  if (!op.expect_f32(0) || !op.expect_contiguous(0) || !expect_valid(op, w[0]) ||
      !expect_valid(op, w[1]) || !expect_valid(op, w[2]) ||
      !op.expect(channels > 0 && images > 0 && saturating_product(channels, images) == x->ne[3],
                 "%s is not %lld images of %d channels", describe(*x).c_str(),
                 static_cast<long long>(images), channels) ||
      !op.expect(ne[1] > 0 && ne[2] > 0 && ne[3] > 0 && n_windows(x->ne[0], w[0]) == ne[1] &&
                     n_windows(x->ne[1], w[1]) == ne[2] &&
                     saturating_product(n_windows(x->ne[2], w[2]), images) == ne[3] &&
                     saturating_product(elements(w[0].kernel, w[1].kernel, w[2].kernel),
                                        channels) == ne[0],
                 "the windows over %s do not give the declared result", describe(*x).c_str())) {
    return nullptr;
  }
  ggml_tensor* kernel = window_shape(op, w[0].kernel, w[1].kernel, w[2].kernel, channels);
  return ggml_im2col_3d(op.ggml(), kernel, x, channels, w[0].stride, w[1].stride, w[2].stride,
                        w[0].padding, w[1].padding, w[2].padding, w[0].dilation, w[1].dilation,
                        w[2].dilation, GGML_TYPE_F32);
}

ggml_tensor* build_col2im(OpContext& op) {
  using namespace params::col2im;
  const std::array<AxisWindow, 2> w = axis_windows<2>(op, kKernel0);
  std::array<int64_t, 4> ne = op.declared();
  ggml_tensor* x = op.in(0);
  if (!op.expect_f32(0) || !op.expect_contiguous(0) || !expect_valid(op, w[0]) ||
      !expect_valid(op, w[1]) || !expect_small_images(op, ne) ||
      !op.expect(
          ne[0] == op.dim(kNe0) && ne[1] == op.dim(kNe1) && ne[3] == x->ne[3] &&
              saturating_product(saturating_product(w[0].kernel, w[1].kernel), ne[2]) == x->ne[0],
          "the windows %s do not add up to the declared result", describe(*x).c_str())) {
    return nullptr;
  }
  return ggml_im2col_back(op.ggml(), x, window_shape(op, w[0].kernel, w[1].kernel, ne[2], 1),
                          ne.data(), w[0].stride, w[1].stride, w[0].padding, w[1].padding,
                          w[0].dilation, w[1].dilation, /*is_2D=*/true);
}

ggml_tensor* build_upscale(OpContext& op) {
  using namespace params::upscale;
  const int64_t mode = op.dim(kMode);
  const std::array<int64_t, 4> ne = op.declared();
  ggml_tensor* x = op.in(0);
  if (!op.expect_f32(0) || !op.expect_contiguous(0) ||
      !op.expect(mode == static_cast<int64_t>(Upscale::Nearest) ||
                     mode == static_cast<int64_t>(Upscale::Bilinear) ||
                     mode == static_cast<int64_t>(Upscale::Bicubic),
                 "unknown mode %lld", static_cast<long long>(mode)) ||
      !op.expect(
          ne[0] == op.dim(kNe0) && ne[1] == op.dim(kNe1) && ne[2] == x->ne[2] && ne[3] == x->ne[3],
          "%s does not give the declared result", describe(*x).c_str())) {
    return nullptr;
  }
  constexpr uint32_t kAlign = GGML_SCALE_FLAG_ALIGN_CORNERS;
  return ggml_interpolate(op.ggml(), x, ne[0], ne[1], ne[2], ne[3],
                          static_cast<uint32_t>(mode) | (op.flag(kAlignCorners) ? kAlign : 0U));
}

}  // namespace executorch_ggml
