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

// Channels are taken a vector at a time, those that do not fill one by themselves. (A vector
// type as a template argument would lose its attributes.)
struct Wide {
  using Value = Vec;
  static constexpr int kChannels = kWidth;
};
struct Single {
  using Value = float;
  static constexpr int kChannels = 1;
};

template <typename Lane>
EG_INLINE typename Lane::Value& lane_at(float* p) {
  return *reinterpret_cast<typename Lane::Value*>(p);
}

template <typename Lane>
EG_INLINE const typename Lane::Value& lane_at(const float* p) {
  return *reinterpret_cast<const typename Lane::Value*>(p);
}

// Minus zero is nothing; adding zero, which makes -0 into 0, would be an instruction more for
// each broadcast, on a port that products need.
template <typename Lane>
EG_INLINE typename Lane::Value splat(float x) {
  return x - typename Lane::Value{};
}

template <typename Run>
EG_INLINE void for_all_channels(int64_t channels, Run run) {
  int64_t c = 0;
  for (; c + kWidth <= channels; c += kWidth) {
    run(Wide{}, c);
  }
  for (; c < channels; ++c) {
    run(Single{}, c);
  }
}

// `at`: the place in the result; `c`: the first channel.
template <typename Lane>
EG_INLINE void finish(typename Lane::Value v, const Epilogue& e, float* out, int64_t at,
                      int64_t c) {
  if (e.bias != nullptr) {
    v += lane_at<Lane>(e.bias + c);
  }
  if (e.residual != nullptr) {
    v += lane_at<Lane>(e.residual + at);
  }
  if (e.clamps) {  // a NaN stays, as in torch
    const typename Lane::Value low = splat<Lane>(e.min);
    const typename Lane::Value high = splat<Lane>(e.max);
    v = v < low ? low : v;
    v = v > high ? high : v;
  }
  lane_at<Lane>(out + at) = v;
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
        weights[v] = lane_at<Wide>(w + v / kVecs * depth * kPanel + v % kVecs * kWidth);
      }
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const Vec value = splat<Wide>(x[r][c]);
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
        finish<Wide>(sums[r][v], b.epilogue, b.out, at, c);
        continue;
      }
      for (int64_t i = 0; c + i < b.c_out; ++i) {
        finish<Single>(sums[r][v][i], b.epilogue, b.out, at + i, c + i);
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

// `Rows` positions from `row`, `Lanes` lanes of channels from `c`.
template <typename Lane, int Rows, int Lanes>
void dw_tile(const ConvBlock& b, int64_t row, int64_t c) {
  typename Lane::Value sums[size_t{Rows}][size_t{Lanes}] = {};
  const float* w = static_cast<const float*>(b.kernel) + c;
  for (int64_t tap = 0; tap < b.n_taps; ++tap) {
    const float* const* x = b.taps + tap * b.n_rows + row;
#pragma GCC unroll 4
    for (int v = 0; v < Lanes; ++v) {
      const typename Lane::Value weights = lane_at<Lane>(w + v * Lane::kChannels);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        sums[r][v] += weights * lane_at<Lane>(x[r] + c + v * Lane::kChannels);
      }
    }
    w += b.c_out;
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Lanes; ++v) {
      const int64_t channel = c + v * Lane::kChannels;
      finish<Lane>(sums[r][v], b.epilogue, b.out, (row + r) * b.c_out + channel, channel);
    }
  }
}

template <int Rows>
void dw_rows(const ConvBlock& b, int64_t row) {
  int64_t c = 0;
  for (; c + 2 * kWidth <= b.c_out; c += 2 * kWidth) {
    dw_tile<Wide, Rows, 2>(b, row, c);
  }
  for (; c + kWidth <= b.c_out; c += kWidth) {
    dw_tile<Wide, Rows, 1>(b, row, c);
  }
  for (; c < b.c_out; ++c) {
    dw_tile<Single, Rows, 1>(b, row, c);
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

void max_pool(const PoolWindow& p) {
  for_all_channels(p.channels, [&p](auto lane, int64_t c) {
    using Lane = decltype(lane);
    typename Lane::Value best = splat<Lane>(-__builtin_inff());
    for (int64_t y = 0; y < p.n_y; ++y) {
      const float* x = p.x + y * p.row_stride + c;
      for (int64_t i = 0; i < p.n_x; ++i, x += p.channels) {
        const typename Lane::Value found = lane_at<Lane>(x);
        best = (found > best) | (found != found) ? found : best;  // the last NaN, as in torch
      }
    }
    lane_at<Lane>(p.out + c) = best;
  });
}

// Elements are summed in runs of this many, and the runs after that: fewer roundings than in
// one long sum.
constexpr int64_t kRun = 64;

void avg_pool(const PoolWindow& p) {
  for_all_channels(p.channels, [&p](auto lane, int64_t c) {
    using Lane = decltype(lane);
    typename Lane::Value total{};
    for (int64_t y = 0; y < p.n_y; ++y) {
      const float* x = p.x + y * p.row_stride + c;
      for (int64_t i = 0; i < p.n_x;) {
        const int64_t end = i + kRun < p.n_x ? i + kRun : p.n_x;
        typename Lane::Value run{};
        for (; i < end; ++i, x += p.channels) {
          run += lane_at<Lane>(x);
        }
        total += run;
      }
    }
    lane_at<Lane>(p.out + c) = total / p.divisor;
  });
}

#define EG_TEXT_OF(x) #x
#define EG_TEXT(x) EG_TEXT_OF(x)

}  // namespace

extern const ImageKernels kImageKernels;
const ImageKernels kImageKernels = {EG_TEXT(EG_ISA), conv, conv_dw, max_pool, avg_pool};

}  // namespace EG_ISA
}  // namespace executorch_ggml
