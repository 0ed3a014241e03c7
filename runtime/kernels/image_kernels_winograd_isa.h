// Convolution of 3 by 3 taps through fewer products (see WinogradTiles in image_kernels.h).
#pragma once

#include "runtime/kernels/image_kernels.h"
#include "runtime/kernels/image_kernels_conv_isa.h"
#include "runtime/kernels/vector_isa.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

constexpr int kSide = 4;  // of a tile of inputs; of its results 2, of a kernel 3

// The transform of one line of inputs, of taps, and back from products to results.
EG_INLINE void input_line(const Vec (&d)[size_t{kSide}], Vec (&v)[size_t{kSide}]) {
  v[0] = d[0] - d[2];
  v[1] = d[1] + d[2];
  v[2] = d[2] - d[1];
  v[3] = d[1] - d[3];
}

EG_INLINE void kernel_line(const Vec (&g)[3], Vec (&u)[size_t{kSide}]) {
  const Vec ends = (g[0] + g[2]) * 0.5F;
  const Vec middle = g[1] * 0.5F;
  u[0] = g[0];
  u[1] = ends + middle;
  u[2] = ends - middle;
  u[3] = g[2];
}

EG_INLINE void result_line(const Vec (&m)[size_t{kSide}], Vec (&y)[2]) {
  y[0] = m[0] + m[1] + m[2];
  y[1] = m[1] - m[2] - m[3];
}

void winograd_input(const WinogradTiles& t, const float* const* taps, float* out) {
  const int64_t plane = t.n_tiles * t.c_in;
  for (int64_t tile = 0; tile < t.n_tiles; ++tile) {
    for (int64_t c = 0; c < t.c_in; c += kWidth) {
      Vec columns[size_t{kSide}][size_t{kSide}];
#pragma GCC unroll 4
      for (int x = 0; x < kSide; ++x) {
        Vec d[size_t{kSide}];
#pragma GCC unroll 4
        for (int y = 0; y < kSide; ++y) {
          d[y] = load(taps[(y * kSide + x) * t.n_tiles + tile] + c);
        }
        input_line(d, columns[x]);
      }
#pragma GCC unroll 4
      for (int y = 0; y < kSide; ++y) {
        const Vec row[size_t{kSide}] = {columns[0][y], columns[1][y], columns[2][y], columns[3][y]};
        Vec v[size_t{kSide}];
        input_line(row, v);
#pragma GCC unroll 4
        for (int x = 0; x < kSide; ++x) {
          store(out + (y * kSide + x) * plane + tile * t.c_in + c, v[x]);
        }
      }
    }
  }
}

template <typename Load>
EG_INLINE void winograd_panels(const WinogradTiles& t, int64_t n_panels, float* out, Load load_at) {
  const int64_t size = t.c_in * kPanel;  // of a tap's weights in a panel
  for (int64_t panel = 0; panel < n_panels; ++panel) {
    for (int64_t i = 0; i < size; i += kWidth) {
      Vec columns[3][size_t{kSide}];
#pragma GCC unroll 3
      for (int x = 0; x < 3; ++x) {
        Vec g[3];
#pragma GCC unroll 3
        for (int y = 0; y < 3; ++y) {
          g[y] = load_at((panel * 9 + y * 3 + x) * size + i);
        }
        kernel_line(g, columns[x]);
      }
#pragma GCC unroll 4
      for (int y = 0; y < kSide; ++y) {
        const Vec row[3] = {columns[0][y], columns[1][y], columns[2][y]};
        Vec u[size_t{kSide}];
        kernel_line(row, u);
#pragma GCC unroll 4
        for (int x = 0; x < kSide; ++x) {
          store(out + ((y * kSide + x) * n_panels + panel) * size + i, u[x]);
        }
      }
    }
  }
}

void winograd_kernel(const WinogradTiles& t, const void* kernel, KernelType type, int64_t n_panels,
                     float* out) {
  const auto* const floats = static_cast<const float*>(kernel);
  const auto* const halves = static_cast<const uint16_t*>(kernel);
  switch (type) {
    case KernelType::F32:
      return winograd_panels(t, n_panels, out, [&](int64_t i) { return load(floats + i); });
    case KernelType::F16:
      return winograd_panels(t, n_panels, out, [&](int64_t i) { return load_f16(halves + i); });
    case KernelType::BF16:
      return winograd_panels(t, n_panels, out, [&](int64_t i) { return load_bf16(halves + i); });
  }
}

void winograd_output(const WinogradTiles& t, const float* products, int64_t tile,
                     const WinogradResult& r) {
  const int64_t plane = t.n_tiles * r.channels;
  const Vec low = splat(r.epilogue.min);
  const Vec high = splat(r.epilogue.max);
  for (int64_t c = 0; c < r.channels; c += kWidth) {
    const float* const m = products + tile * r.channels + c;
    Vec columns[size_t{kSide}][2];
#pragma GCC unroll 4
    for (int x = 0; x < kSide; ++x) {
      Vec column[size_t{kSide}];
#pragma GCC unroll 4
      for (int y = 0; y < kSide; ++y) {
        column[y] = load(m + (y * kSide + x) * plane);
      }
      result_line(column, columns[x]);
    }
    const Vec bias = r.epilogue.bias == nullptr ? Vec{} : load(r.epilogue.bias + c);
#pragma GCC unroll 2
    for (int y = 0; y < 2; ++y) {
      const Vec row[size_t{kSide}] = {columns[0][y], columns[1][y], columns[2][y], columns[3][y]};
      Vec result[2];
      result_line(row, result);
#pragma GCC unroll 2
      for (int x = 0; x < 2; ++x) {
        if (y >= r.height || x >= r.width) {
          continue;
        }
        const int64_t at = y * r.row_stride + x * r.stride + c;
        Vec sum = result[x] + bias;
        if (r.epilogue.residual != nullptr) {
          sum += load(r.epilogue.residual + at);
        }
        store(r.out + at, limited(sum, low, high));
      }
    }
  }
}

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
