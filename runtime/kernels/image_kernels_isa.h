// The kernels of image_kernels.h for one instruction set: EG_ISA is its name, EG_WIDTH how many
// floats a register holds, EG_ROWS and EG_PANELS the output positions and the panels whose sums
// fit its registers. A file for each set includes this and is compiled for that set alone.
//
// Nothing inline from the standard library here: the linker could take this file's copy,
// compiled for a newer machine, for the whole program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/image_kernels.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

constexpr int kWidth = EG_WIDTH;
constexpr int kVecs = kPanel / kWidth;  // of a panel

using Vec = float __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));

#define EG_INLINE inline __attribute__((always_inline))

EG_INLINE Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
EG_INLINE void store(float* p, Vec v) { *reinterpret_cast<Vec*>(p) = v; }

// A NaN stays, as in torch.
EG_INLINE Vec clamped(Vec v, const Epilogue& e) {
  const Vec low = Vec{} + e.min;
  const Vec high = Vec{} + e.max;
  v = v < low ? low : v;
  return v > high ? high : v;
}

EG_INLINE float clamped(float v, const Epilogue& e) {
  v = v < e.min ? e.min : v;
  return v > e.max ? e.max : v;
}

// `at`: the place in the result; `c`: the first channel.
EG_INLINE void finish(Vec v, const Epilogue& e, float* out, int64_t at, int64_t c) {
  if (e.bias != nullptr) {
    v += load(e.bias + c);
  }
  if (e.residual != nullptr) {
    v += load(e.residual + at);
  }
  store(out + at, e.clamps ? clamped(v, e) : v);
}

EG_INLINE void finish(float v, const Epilogue& e, float* out, int64_t at, int64_t c) {
  if (e.bias != nullptr) {
    v += e.bias[c];
  }
  if (e.residual != nullptr) {
    v += e.residual[at];
  }
  out[at] = e.clamps ? clamped(v, e) : v;
}

// `Rows` positions from `row` times `Panels` panels from `panel`.
// `w`: the first panel in F32, the others after it.
template <int Rows, int Panels>
void tile(const ConvBlock& b, const float* w, int64_t row, int64_t panel) {
  constexpr int kSums = Panels * kVecs;
  const int64_t depth = b.n_taps * b.c_in;
  Vec sums[size_t{Rows}][size_t{kSums}] = {};
  for (int64_t tap = 0; tap < b.n_taps; ++tap) {
    const float* x[size_t{Rows}];
    for (int r = 0; r < Rows; ++r) {
      x[r] = b.taps[tap * b.n_rows + row + r];
    }
    for (int64_t c = 0; c < b.c_in; ++c) {
      Vec weights[size_t{kSums}];
#pragma GCC unroll 8
      for (int v = 0; v < kSums; ++v) {
        weights[v] = load(w + v / kVecs * depth * kPanel + v % kVecs * kWidth);
      }
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const Vec value = Vec{} + x[r][c];
#pragma GCC unroll 8
        for (int v = 0; v < kSums; ++v) {
          sums[r][v] += weights[v] * value;
        }
      }
      w += kPanel;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kSums; ++v) {
      const int64_t c = panel * kPanel + v * kWidth;
      const int64_t at = (row + r) * b.c_out + c;
      if (c + kWidth <= b.c_out) {
        finish(sums[r][v], b.epilogue, b.out, at, c);
        continue;
      }
      for (int64_t i = 0; c + i < b.c_out; ++i) {
        finish(sums[r][v][i], b.epilogue, b.out, at + i, c + i);
      }
    }
  }
}

// The rest of the positions, fewer than EG_ROWS.
template <int Rows, int Panels>
void rest(const ConvBlock& b, const float* w, int64_t row, int64_t panel) {
  if constexpr (Rows > 0) {
    if (b.n_rows - row == Rows) {
      return tile<Rows, Panels>(b, w, row, panel);
    }
    return rest<Rows - 1, Panels>(b, w, row, panel);
  }
}

EG_INLINE float as_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }

EG_INLINE float from_bf16(uint16_t half) { return as_float(uint32_t{half} << 16); }

// Without branches, so that it is vectorized, and without denormal floats, which are slow.
EG_INLINE float from_f16(uint16_t stored) {
  constexpr uint32_t kExponent = 1U << 23;
  constexpr uint32_t kRebias = (127 - 15) * kExponent;
  const uint32_t half = stored;
  const uint32_t magnitude = (half & 0x7FFFU) << 13;
  const float denormal = as_float(magnitude | (kRebias + kExponent)) - 0x1p-14F;
  const uint32_t finite =
      magnitude < kExponent ? __builtin_bit_cast(uint32_t, denormal) : magnitude + kRebias;
  const uint32_t bits = magnitude >= 0x1F * kExponent ? magnitude | 0x7F800000U : finite;
  return as_float(bits | (half & 0x8000U) << 16);
}

// The panels as F32: where they lie, or widened.
template <int Panels>
const float* widened(const ConvBlock& b, int64_t panel) {
  const int64_t size = b.n_taps * b.c_in * kPanel;
  if (b.type == KernelType::F32) {
    return static_cast<const float*>(b.kernel) + panel * size;
  }
  const uint16_t* const halves = static_cast<const uint16_t*>(b.kernel) + panel * size;
  if (b.type == KernelType::F16) {
    for (int64_t i = 0; i < Panels * size; ++i) {
      b.widened[i] = from_f16(halves[i]);
    }
  } else {
    for (int64_t i = 0; i < Panels * size; ++i) {
      b.widened[i] = from_bf16(halves[i]);
    }
  }
  return b.widened;
}

template <int Panels>
void all_rows(const ConvBlock& b, int64_t panel) {
  const float* const w = widened<Panels>(b, panel);
  int64_t row = 0;
  for (; row + EG_ROWS <= b.n_rows; row += EG_ROWS) {
    tile<EG_ROWS, Panels>(b, w, row, panel);
  }
  rest<EG_ROWS - 1, Panels>(b, w, row, panel);
}

void conv(const ConvBlock& b) {
  const int64_t n_panels = (b.c_out + kPanel - 1) / kPanel;
  int64_t panel = 0;
  for (; panel + EG_PANELS <= n_panels; panel += EG_PANELS) {
    all_rows<EG_PANELS>(b, panel);
  }
  for (; panel < n_panels; ++panel) {
    all_rows<1>(b, panel);
  }
}

// --- depthwise ------------------------------------------------------------------------------

// `Rows` positions from `row`, `Vecs` vectors of channels from `c`.
template <int Rows, int Vecs>
void dw_tile(const ConvBlock& b, int64_t row, int64_t c) {
  Vec sums[size_t{Rows}][size_t{Vecs}] = {};
  const float* w = static_cast<const float*>(b.kernel) + c;
  for (int64_t tap = 0; tap < b.n_taps; ++tap) {
    const float* const* x = b.taps + tap * b.n_rows + row;
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) {
      const Vec weights = load(w + v * kWidth);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        sums[r][v] += weights * load(x[r] + c + v * kWidth);
      }
    }
    w += b.c_out;
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) {
      const int64_t channel = c + v * kWidth;
      finish(sums[r][v], b.epilogue, b.out, (row + r) * b.c_out + channel, channel);
    }
  }
}

template <int Rows>
void dw_rows(const ConvBlock& b, int64_t row) {
  int64_t c = 0;
  for (; c + 2 * kWidth <= b.c_out; c += 2 * kWidth) {
    dw_tile<Rows, 2>(b, row, c);
  }
  for (; c + kWidth <= b.c_out; c += kWidth) {
    dw_tile<Rows, 1>(b, row, c);
  }
  for (; c < b.c_out; ++c) {
    for (int r = 0; r < Rows; ++r) {
      float sum = 0;
      for (int64_t tap = 0; tap < b.n_taps; ++tap) {
        sum += static_cast<const float*>(b.kernel)[tap * b.c_out + c] *
               b.taps[tap * b.n_rows + row + r][c];
      }
      finish(sum, b.epilogue, b.out, (row + r) * b.c_out + c, c);
    }
  }
}

void conv_dw(const ConvBlock& b) {
  int64_t row = 0;
  for (; row + 4 <= b.n_rows; row += 4) {
    dw_rows<4>(b, row);
  }
  for (; row < b.n_rows; ++row) {
    dw_rows<1>(b, row);
  }
}

// --- pooling --------------------------------------------------------------------------------

// The last NaN stays, as in torch.
EG_INLINE Vec larger(Vec x, Vec best) { return (x > best) | (x != x) ? x : best; }
EG_INLINE float larger(float x, float best) { return x > best || x != x ? x : best; }

void max_pool(const PoolWindow& p) {
  for (int64_t c = 0; c < p.channels;) {
    const bool whole = c + kWidth <= p.channels;
    Vec best = Vec{} - __builtin_inff();
    float one = -__builtin_inff();
    for (int64_t y = 0; y < p.n_y; ++y) {
      const float* x = p.x + y * p.row_stride + c;
      for (int64_t i = 0; i < p.n_x; ++i, x += p.channels) {
        if (whole) {
          best = larger(load(x), best);
        } else {
          one = larger(*x, one);
        }
      }
    }
    if (whole) {
      store(p.out + c, best);
    } else {
      p.out[c] = one;
    }
    c += whole ? kWidth : 1;
  }
}

// Elements are summed in runs of this many, and the runs after that: fewer roundings than in
// one long sum.
constexpr int64_t kRun = 64;

void avg_pool(const PoolWindow& p) {
  for (int64_t c = 0; c < p.channels;) {
    const bool whole = c + kWidth <= p.channels;
    Vec total{};
    float one = 0;
    for (int64_t y = 0; y < p.n_y; ++y) {
      const float* x = p.x + y * p.row_stride + c;
      for (int64_t i = 0; i < p.n_x;) {
        const int64_t end = i + kRun < p.n_x ? i + kRun : p.n_x;
        Vec run{};
        float one_run = 0;
        for (; i < end; ++i, x += p.channels) {
          if (whole) {
            run += load(x);
          } else {
            one_run += *x;
          }
        }
        total += run;
        one += one_run;
      }
    }
    if (whole) {
      store(p.out + c, total / p.divisor);
    } else {
      p.out[c] = one / p.divisor;
    }
    c += whole ? kWidth : 1;
  }
}

#define EG_TEXT_OF(x) #x
#define EG_TEXT(x) EG_TEXT_OF(x)

}  // namespace

extern const ImageKernels kImageKernels;
const ImageKernels kImageKernels = {EG_TEXT(EG_ISA), conv, conv_dw, max_pool, avg_pool};

}  // namespace EG_ISA
}  // namespace executorch_ggml
