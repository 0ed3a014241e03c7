// Depthwise convolution (see image_kernels.h).
#pragma once

#include "runtime/kernels/image_kernels.h"
#include "runtime/kernels/vector_isa.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

// Channels are taken a vector at a time, those that do not fill one by themselves. (A vector
// type as a template argument would lose its attributes.)
struct Wide {
  using Value = Vec;
  static constexpr int64_t kChannels = kWidth;
};
struct Single {
  using Value = float;
  static constexpr int64_t kChannels = 1;
};

template <typename Lane>
EG_INLINE typename Lane::Value& lane_at(float* p) {
  return *reinterpret_cast<typename Lane::Value*>(p);
}

template <typename Lane>
EG_INLINE const typename Lane::Value& lane_at(const float* p) {
  return *reinterpret_cast<const typename Lane::Value*>(p);
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

// `Positions` sums over windows of `Taps` taps in a row, `Step` taps apart: each input of a row
// is read once for all windows in which it lies.
template <typename Lane, int Positions, int Taps, int Step>
EG_INLINE void add_windows(const DepthwiseRun& d, const float* x, const float* w,
                           typename Lane::Value* sums) {
  constexpr int kInputs = (Positions - 1) * Step + Taps;
  for (int64_t y = 0; y < d.n_y; ++y) {
    typename Lane::Value weights[size_t{Taps}];
#pragma GCC unroll 8
    for (int t = 0; t < Taps; ++t) {
      weights[t] = lane_at<Lane>(w + t * d.channels);
    }
#pragma GCC unroll 32
    for (int i = 0; i < kInputs; ++i) {
      const typename Lane::Value input = lane_at<Lane>(x + i * d.x_stride);
#pragma GCC unroll 8
      for (int t = 0; t < Taps; ++t) {
        if (i >= t && (i - t) % Step == 0 && (i - t) / Step < Positions) {
          sums[(i - t) / Step] += weights[t] * input;
        }
      }
    }
    x += d.y_stride;
    w += d.kernel_stride;
  }
}

// One window of any size.
template <typename Lane>
EG_INLINE void add_window(const DepthwiseRun& d, const float* x, const float* w,
                          typename Lane::Value& sum) {
  for (int64_t y = 0; y < d.n_y; ++y) {
    for (int64_t t = 0; t < d.n_x; ++t) {
      sum += lane_at<Lane>(w + t * d.channels) * lane_at<Lane>(x + t * d.x_stride);
    }
    x += d.y_stride;
    w += d.kernel_stride;
  }
}

// `Positions` positions from `first`. `Taps`: of a row, or 0 for any number and one position.
template <int Positions, int Taps, int Step>
EG_INLINE void dw_positions(const DepthwiseRun& d, int64_t first) {
  const float* const x = d.x + first * d.step;
  const int64_t row = first * d.channels;
  for_all_channels(d.channels, [&](auto lane, int64_t c) {
    using Lane = decltype(lane);
    using Value = typename Lane::Value;
    Value sums[size_t{Positions}];
    const Value bias = d.epilogue.bias == nullptr ? Value{} : lane_at<Lane>(d.epilogue.bias + c);
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) {
      sums[p] = bias;
    }
    if constexpr (Taps > 0) {
      add_windows<Lane, Positions, Taps, Step>(d, x + c, d.kernel + c, sums);
    } else {
      add_window<Lane>(d, x + c, d.kernel + c, sums[0]);
    }
    const Value low = d.epilogue.min - Value{};
    const Value high = d.epilogue.max - Value{};
#pragma GCC unroll 8
    for (int p = 0; p < Positions; ++p) {
      const int64_t at = row + p * d.channels + c;
      Value v = sums[p];
      if (d.epilogue.residual != nullptr) {
        v += lane_at<Lane>(d.epilogue.residual + at);
      }
      v = v < low ? low : v;
      lane_at<Lane>(d.out + at) = v > high ? high : v;
    }
  });
}

template <int Taps, int Step>
void dw_run(const DepthwiseRun& d) {
  int64_t i = 0;
  for (; i + 4 <= d.n_positions; i += 4) {
    dw_positions<4, Taps, Step>(d, i);
  }
  if (i + 2 <= d.n_positions) {
    dw_positions<2, Taps, Step>(d, i);
    i += 2;
  }
  if (i < d.n_positions) {
    dw_positions<1, Taps, Step>(d, i);
  }
}

void dw_any(const DepthwiseRun& d) {
  for (int64_t i = 0; i < d.n_positions; ++i) {
    dw_positions<1, 0, 1>(d, i);
  }
}

void conv_dw(const DepthwiseRun& d) {
  const int64_t taps = d.n_positions > 1 ? d.n_x : 0;
  if (d.step == d.x_stride) {
    return taps == 3 ? dw_run<3, 1>(d) : taps == 5 ? dw_run<5, 1>(d) : dw_any(d);
  }
  if (d.step == 2 * d.x_stride) {
    return taps == 3 ? dw_run<3, 2>(d) : taps == 5 ? dw_run<5, 2>(d) : dw_any(d);
  }
  dw_any(d);
}

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
