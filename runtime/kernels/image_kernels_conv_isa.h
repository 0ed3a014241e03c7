// Convolution as a product: rows of the image times panels of the kernel (see image_kernels.h).
#pragma once

#include "runtime/kernels/image_kernels.h"
#include "runtime/kernels/vector_isa.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

constexpr int64_t kVecs = kPanel / kWidth;  // of a panel

// The sums of `Rows` rows and `Vectors` vectors of channels, in registers.
template <int Rows, int Vectors>
using Sums = Vec[size_t{Rows}][size_t{Vectors}];

// Adds `depth` products to each sum. `x[r]`, or the row r * stride from x: what row r multiplies.
// `panel`: how many floats lie from one panel to the next. `ahead`: as much of a panel that is
// needed later, fetched meanwhile.
template <int Rows, int Vectors>
EG_INLINE void multiply(Sums<Rows, Vectors>& sums, const float* const* x, const float* w,
                        int64_t panel, int64_t depth, const float* ahead) {
  const float* row[size_t{Rows}];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    row[r] = x[r];
  }
  for (int64_t i = 0; i < depth; ++i) {
    Vec weights[size_t{Vectors}];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      weights[v] = load(w + v / kVecs * panel + v % kVecs * kWidth);
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vec value = splat(row[r][i]);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) {
        sums[r][v] += weights[v] * value;
      }
    }
    __builtin_prefetch(ahead, 0, 2);
    ahead += kPanel;
    w += kPanel;
  }
}

// Three rows to a pointer, the others by its distance: as few registers as that takes.
template <int Rows, int Vectors>
EG_INLINE void multiply(Sums<Rows, Vectors>& sums, const float* x, int64_t stride, const float* w,
                        int64_t panel, int64_t depth, const float* ahead) {
  constexpr int kPointers = (Rows + 2) / 3;
  const float* row[size_t{kPointers}];
#pragma GCC unroll 16
  for (int i = 0; i < kPointers; ++i) {
    row[i] = x + 3 * i * stride;
  }
  for (int64_t i = 0; i < depth; ++i) {
    Vec weights[size_t{Vectors}];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      weights[v] = load(w + v / kVecs * panel + v % kVecs * kWidth);
    }
    asm("" : "+r"(stride));  // else the compiler keeps a pointer for each row
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vec value = splat(row[r / 3][r % 3 * stride]);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) {
        sums[r][v] += weights[v] * value;
      }
    }
#pragma GCC unroll 16
    for (int p = 0; p < kPointers; ++p) {
      ++row[p];
    }
    __builtin_prefetch(ahead, 0, 2);
    ahead += kPanel;
    w += kPanel;
  }
}

// `Rows` rows from `row` times `Panels` panels from `panel`, whose weights are `w` in F32.
// `ahead`: see multiply.
template <int Rows, int Panels>
__attribute__((noinline)) void tile(const ConvBlock& b, const float* w, int64_t row, int64_t panel,
                                    const float* ahead) {
  constexpr int kSums = Panels * static_cast<int>(kVecs);
  const int64_t size = b.n_taps * b.c_in * kPanel;
  const int64_t c = panel * kPanel;
  const bool whole = c + Panels * kPanel <= b.c_out;
  const Epilogue& e = b.epilogue;
  Sums<Rows, kSums> sums;
#pragma GCC unroll 8
  for (int v = 0; v < kSums; ++v) {
    Vec bias = {};
    if (e.bias != nullptr) {
      const int64_t left = b.c_out - c - v * kWidth;
      bias = left >= kWidth ? load(e.bias + c + v * kWidth)
             : left > 0     ? load_part(e.bias + c + v * kWidth, left)
                            : bias;
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      sums[r][v] = bias;
    }
  }
  // A loop each: with the choice within one, MobileNetV2 is 1.5 % slower.
  if (b.taps == nullptr) {
    for (int64_t tap = 0; tap < b.n_taps; ++tap) {
      multiply<Rows, kSums>(sums, b.x + row * b.stride + tap * b.tap_stride, b.stride,
                            w + tap * b.c_in * kPanel, size, b.c_in, ahead + tap * b.c_in * kPanel);
    }
  } else {
    for (int64_t tap = 0; tap < b.n_taps; ++tap) {
      multiply<Rows, kSums>(sums, b.taps + tap * b.n_rows + row, w + tap * b.c_in * kPanel, size,
                            b.c_in, ahead + tap * b.c_in * kPanel);
    }
  }
  const Vec low = splat(e.min);
  const Vec high = splat(e.max);
  const int64_t at = row * b.out_stride + (panel - b.first_panel) * kPanel;
  float* out = b.out + at;
  const float* residual = e.residual == nullptr ? nullptr : e.residual + at;
  if (whole) {
    if (residual != nullptr) {
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r, residual += b.out_stride) {
#pragma GCC unroll 8
        for (int v = 0; v < kSums; ++v) {
          sums[r][v] += load(residual + v * kWidth);
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r, out += b.out_stride) {
#pragma GCC unroll 8
      for (int v = 0; v < kSums; ++v) {
        store(out + v * kWidth, limited(sums[r][v], low, high));
      }
    }
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r, out += b.out_stride) {
#pragma GCC unroll 8
    for (int v = 0; v < kSums; ++v) {
      const int64_t left = b.c_out - c - v * kWidth;
      const int64_t in_row = r * b.out_stride + v * kWidth;
      if (left >= kWidth) {
        const Vec sum = residual == nullptr ? sums[r][v] : sums[r][v] + load(residual + in_row);
        store(out + v * kWidth, limited(sum, low, high));
      } else if (left > 0) {
        const Vec sum =
            residual == nullptr ? sums[r][v] : sums[r][v] + load_part(residual + in_row, left);
        store_part(out + v * kWidth, left, limited(sum, low, high));
      }
    }
  }
}

// `n` rows, at most `Rows`.
template <int Rows, int Panels>
void some_rows(const ConvBlock& b, const float* w, int64_t row, int64_t n, int64_t panel,
               const float* ahead) {
  if constexpr (Rows > 0) {
    if (n == Rows) {
      return tile<Rows, Panels>(b, w, row, panel, ahead);
    }
    return some_rows<Rows - 1, Panels>(b, w, row, n, panel, ahead);
  }
}

// --- kernels in half precision ----------------------------------------------------------------

EG_INLINE Vec load_bf16(const uint16_t* p) {
  const Halves halves = *reinterpret_cast<const Halves*>(p);
  return from_bits(__builtin_convertvector(halves, Bits) << 16);
}

// The panels as F32: where they lie, or widened.
template <int Panels>
const float* widened(const ConvBlock& b, int64_t panel) {
  const int64_t size = b.n_taps * b.c_in * kPanel;
  if (b.type == KernelType::F32) {
    return static_cast<const float*>(b.kernel) + panel * size;
  }
  const uint16_t* const halves = static_cast<const uint16_t*>(b.kernel) + panel * size;
  for (int64_t i = 0; i < Panels * size; i += kWidth) {
    const uint16_t* const from = halves + i;
    store(b.widened + i, b.type == KernelType::F16 ? load_f16(from) : load_bf16(from));
  }
  return b.widened;
}

// --- all rows and panels ----------------------------------------------------------------------

// The first tiles fetch the next panels: one each, for a kernel comes from far memory but the rows
// of one block do not.
template <int Panels>
void all_rows(const ConvBlock& b, int64_t panel) {
  const float* const w = widened<Panels>(b, panel);
  const int64_t size = b.n_taps * b.c_in * kPanel;
  const int64_t n_tiles = (b.n_rows + EG_ROWS - 1) / EG_ROWS;
  int64_t row = 0;
  for (int64_t i = 1; i <= n_tiles; ++i) {
    const int64_t end = b.n_rows * i / n_tiles;
    const bool fetches =
        b.type == KernelType::F32 && i <= Panels && panel + Panels + i <= b.end_panel;
    const float* const ahead = fetches ? w + (Panels + i - 1) * size : w;
    some_rows<EG_ROWS, Panels>(b, w, row, end - row, panel, ahead);
    row = end;
  }
}

// `n` panels, at most `Panels`.
template <int Panels>
void some_panels(const ConvBlock& b, int64_t panel, int64_t n) {
  if constexpr (Panels > 1) {
    if (n < Panels) {
      return some_panels<Panels - 1>(b, panel, n);
    }
  }
  all_rows<Panels>(b, panel);
}

void conv(const ConvBlock& b) {
  for (int64_t panel = b.first_panel; panel < b.end_panel;) {
    const int64_t left = b.end_panel - panel;
    // A single one at the end would leave most registers empty.
    const bool divides = left > EG_PANELS && left % EG_PANELS == 1;
    const int64_t n = divides ? EG_PANELS - 1 : left < EG_PANELS ? left : EG_PANELS;
    some_panels<EG_PANELS>(b, panel, n);
    panel += n;
  }
}

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
