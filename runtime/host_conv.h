// What the convolutions over channels-last images have in common.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/host_kernel.h"
#include "runtime/kernels/image_kernels.h"

namespace executorch_ggml {

// The windows of either convolution: their parameters lie at the same places.
struct Geometry {
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];

  int64_t n_taps() const { return kernel[0] * kernel[1]; }
};

// Of a call's ints.
inline Geometry geometry_of(std::span<const int64_t> ints) {
  using namespace params::conv_2d_nhwc;
  Geometry g{};
  for (size_t i = 0; i < 2; ++i) {
    g.kernel[i] = ints[kKernel0 + i];
    g.stride[i] = ints[kStride0 + i];
    g.padding[i] = ints[kPadding0 + i];
    g.dilation[i] = ints[kDilation0 + i];
  }
  return g;
}

inline const float* image_at(const ggml_tensor& x, int64_t column, int64_t row, int64_t image) {
  return static_cast<const float*>(x.data) + ((image * x.ne[2] + row) * x.ne[1] + column) * x.ne[0];
}

// Pointers to what the taps of a window read that begins at a column and row, maybe outside: each
// `n` after the one before. Beyond the image they read `zeros`.
inline void set_taps(const Geometry& g, const ggml_tensor& x, const RowIndex& begin,
                     const float* zeros, const float** tap, int64_t n) {
  for (int64_t ky = 0; ky < g.kernel[1]; ++ky) {
    const int64_t row = begin.i2 + ky * g.dilation[1];
    for (int64_t kx = 0; kx < g.kernel[0]; ++kx, tap += n) {
      const int64_t column = begin.i1 + kx * g.dilation[0];
      const bool inside = row >= 0 && row < x.ne[2] && column >= 0 && column < x.ne[1];
      *tap = inside ? image_at(x, column, row, begin.i3) : zeros;
    }
  }
}

inline Epilogue epilogue_of(const HostTask& task) {
  const auto optional_data = [](const ggml_tensor* tensor) {
    return tensor == nullptr ? nullptr : static_cast<const float*>(tensor->data);
  };
  return {.bias = optional_data(task.result->src[2]),
          .residual = optional_data(task.result->src[3]),
          .min = task.call.floats[params::conv_2d_nhwc::kMin],
          .max = task.call.floats[params::conv_2d_nhwc::kMax]};
}

inline KernelType kernel_type(const ggml_tensor& kernel) {
  if (kernel.type == GGML_TYPE_F32) {
    return KernelType::F32;
  }
  return kernel.type == GGML_TYPE_F16 ? KernelType::F16 : KernelType::BF16;
}

inline std::array<int64_t, 4> extents_of(const ggml_tensor& t) {
  return {t.ne[0], t.ne[1], t.ne[2], t.ne[3]};
}

inline int64_t in_parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

// Memory of a thread that grows, kept from task to task.
template <typename T>
T* at_least(std::vector<T>& memory, int64_t n) {
  if (memory.size() < static_cast<size_t>(n)) {
    memory.resize(static_cast<size_t>(n));
  }
  return memory.data();
}

// Rows of a convolution's result, positions of the images in turn, times panels of channels; and
// where they are put: the first row's first channel, and the distance of rows in floats.
struct ConvPart {
  int64_t first_row;
  int64_t end_row;
  int64_t first_panel;
  int64_t end_panel;
  float* out;
  int64_t out_stride;
};

// As host_conv_2d, of no residual unless it is put in the result.
void conv_2d_part(const HostTask& task, const ConvPart& part);

// Winograd's convolution, host_conv_winograd.cpp: whether it takes such a one, into how many units
// it is divided, and some of them.
bool is_winograd(const Geometry& geometry, const std::array<int64_t, 4>& result_ne,
                 const ggml_tensor& kernel, const ggml_tensor& x);
int64_t winograd_units(const std::array<int64_t, 4>& result_ne);
void winograd_conv_2d(const HostTask& task, const Geometry& geometry);

}  // namespace executorch_ggml
