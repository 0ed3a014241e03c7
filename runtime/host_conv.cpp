// Convolution and pooling over channels-last images: this file says which elements, the
// kernels do the arithmetic (kernels/image_kernels.h).
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/host_kernel.h"
#include "runtime/kernels/image_kernels.h"

namespace executorch_ggml {
namespace {

// Positions whose pointers are made at once. Their inputs stay in a cache while every panel of
// the kernel passes over them; each panel is read once for all of them.
constexpr int64_t kBlockRows = 48;

// The windows of either convolution: their parameters lie at the same places.
struct Geometry {
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
};

Geometry geometry_of(const HostCall& call) {
  using namespace params::conv_2d_nhwc;
  Geometry g{};
  for (size_t i = 0; i < 2; ++i) {
    g.kernel[i] = call.ints[kKernel0 + i];
    g.stride[i] = call.ints[kStride0 + i];
    g.padding[i] = call.ints[kPadding0 + i];
    g.dilation[i] = call.ints[kDilation0 + i];
  }
  return g;
}

const float* image_at(const ggml_tensor& x, int64_t column, int64_t row, int64_t image) {
  return static_cast<const float*>(x.data) + ((image * x.ne[2] + row) * x.ne[1] + column) * x.ne[0];
}

// The taps of positions [first, first + n): taps[tap * n + i].
void point_taps(const HostTask& task, const Geometry& g, int64_t first, int64_t n,
                const float* zeros, std::vector<const float*>& taps) {
  const ggml_tensor& x = task.operand(1);
  for (int64_t i = 0; i < n; ++i) {
    const RowIndex at = task.position(first + i);
    const int64_t column = at.i1 * g.stride[0] - g.padding[0];
    const int64_t row = at.i2 * g.stride[1] - g.padding[1];
    auto tap = static_cast<size_t>(i);
    for (int64_t ky = 0; ky < g.kernel[1]; ++ky) {
      const int64_t y = row + ky * g.dilation[1];
      for (int64_t kx = 0; kx < g.kernel[0]; ++kx, tap += static_cast<size_t>(n)) {
        const int64_t place = column + kx * g.dilation[0];
        const bool inside = y >= 0 && y < x.ne[2] && place >= 0 && place < x.ne[1];
        taps[tap] = inside ? image_at(x, place, y, at.i3) : zeros;
      }
    }
  }
}

const float* optional_data(const ggml_tensor* tensor) {
  return tensor == nullptr ? nullptr : static_cast<const float*>(tensor->data);
}

KernelType kernel_type(const ggml_tensor& kernel) {
  if (kernel.type == GGML_TYPE_F32) {
    return KernelType::F32;
  }
  return kernel.type == GGML_TYPE_F16 ? KernelType::F16 : KernelType::BF16;
}

void convolve(const HostTask& task, void (*run)(const ConvBlock&)) {
  const Geometry g = geometry_of(task.call);
  const ggml_tensor& x = task.operand(1);
  const int64_t c_out = task.result->ne[0];
  const float min = task.call.floats[params::conv_2d_nhwc::kMin];
  const float max = task.call.floats[params::conv_2d_nhwc::kMax];
  const float* const residual = optional_data(task.result->src[3]);
  const ggml_tensor& kernel = task.operand(0);
  const std::vector<float> zeros(static_cast<size_t>(x.ne[0]));
  const int64_t n_taps = g.kernel[0] * g.kernel[1];
  std::vector<const float*> taps(static_cast<size_t>(n_taps * kBlockRows));
  std::vector<float> widened;
  if (kernel.type != GGML_TYPE_F32) {
    widened.resize(static_cast<size_t>(widened_size(n_taps, x.ne[0])));
  }
  ConvBlock block = {
      .taps = taps.data(),
      .n_taps = n_taps,
      .n_rows = 0,
      .c_in = x.ne[0],
      .c_out = c_out,
      .kernel = kernel.data,
      .type = kernel_type(kernel),
      .widened = widened.data(),
      .out = nullptr,
      .epilogue = {.bias = optional_data(task.result->src[2]),
                   .min = min,
                   .max = max,
                   .clamps = !(std::isinf(min) && min < 0 && std::isinf(max) && max > 0)}};
  for (int64_t r = task.first_row; r < task.end_row; r += kBlockRows) {
    block.n_rows = std::min(kBlockRows, task.end_row - r);
    point_taps(task, g, r, block.n_rows, zeros.data(), taps);
    block.out = task.out<float>(r);
    block.epilogue.residual = residual == nullptr ? nullptr : residual + r * c_out;
    run(block);
  }
}

}  // namespace

void host_conv_2d(const HostTask& task) { convolve(task, image_kernels().conv); }

void host_conv_2d_dw(const HostTask& task) { convolve(task, image_kernels().conv_dw); }

void host_pool_2d(const HostTask& task) {
  using namespace params::pool_2d_nhwc;
  const ggml_tensor& x = task.operand(0);
  const bool is_max = task.call.ints[kKind] == static_cast<int64_t>(Pool::Max);
  const auto run = is_max ? image_kernels().max_pool : image_kernels().avg_pool;
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const int64_t column = at.i1 * task.call.ints[kStride0] - task.call.ints[kPadding0];
    const int64_t row = at.i2 * task.call.ints[kStride1] - task.call.ints[kPadding1];
    const int64_t kernel0 = task.call.ints[kKernel0];
    const int64_t kernel1 = task.call.ints[kKernel1];
    const int64_t x0 = std::max<int64_t>(column, 0);
    const int64_t y0 = std::max<int64_t>(row, 0);
    // Padding counts in an average.
    run({.x = image_at(x, x0, y0, at.i3),
         .n_x = std::max<int64_t>(std::min(column + kernel0, x.ne[1]) - x0, 0),
         .n_y = std::max<int64_t>(std::min(row + kernel1, x.ne[2]) - y0, 0),
         .row_stride = x.ne[0] * x.ne[1],
         .channels = x.ne[0],
         .divisor = static_cast<float>(kernel0 * kernel1),
         .out = task.out<float>(r)});
  }
}

}  // namespace executorch_ggml
