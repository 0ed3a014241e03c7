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

// Two rows of windows at once, where registers hold the taps of both: an input is read once for
// all windows in which it lies.
#if EG_WIDTH == 16 || defined(__aarch64__)
constexpr int kRowsAtOnce = 2;
#else
constexpr int kRowsAtOnce = 1;
#endif
// And so many of each row.
constexpr int kPositions = 4;

// [first, end) of an axis.
struct Range {
  int64_t first;
  int64_t end;

  int64_t count() const { return end - first; }
  bool has(int64_t i) const { return first <= i && i < end; }
};

// Which of `n` in a row, the first of them at `start`, lie on an axis of this extent.
EG_INLINE Range within(int64_t start, int64_t n, int64_t extent) {
  const int64_t end = extent - start < n ? extent - start : n;
  return {start < 0 ? -start : 0, end};
}

// The windows of a few neighbouring positions, of a row or two.
struct Windows {
  int64_t origin;       // of the first window, in floats from the image
  Range rows;           // of the rows from there on, those within the image
  Range columns;        // of the columns
  int64_t out;          // of the first position, in floats from the result
  int64_t n_positions;  // others are computed along, but not stored
};

template <int Rows>
using WindowSums = Vec[size_t{Rows}][size_t{kPositions}];

// Adds the inputs of row y, counted from the first window's on, to the sums of the windows that it
// is in. `Edges`: whether some columns or rows are not within the image.
template <int Rows, int Taps, int Step, bool Edges>
EG_INLINE void add_row(const DepthwiseRun& d, const Windows& at, int64_t c, int64_t y,
                       WindowSums<Rows>& sums) {
  constexpr int kInputs = (kPositions - 1) * Step + Taps;
  const auto is_in = [y](int r) { return Rows == 1 || (y >= r * Step && y < r * Step + Taps); };
  Vec weights[size_t{Rows}][size_t{Taps}];
#pragma GCC unroll 2
  for (int r = 0; r < Rows; ++r) {
    if (is_in(r)) {
#pragma GCC unroll 8
      for (int t = 0; t < Taps; ++t) {
        weights[r][t] = load(d.kernel + ((y - r * Step) * Taps + t) * d.tap_stride + c);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kInputs; ++i) {
    if (Edges && !at.columns.has(i)) {
      continue;
    }
    const Vec input = load(d.image + (at.origin + y * d.row_stride + i * d.pixel + c));
#pragma GCC unroll 2
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
      for (int t = 0; t < Taps; ++t) {
        if (is_in(r) && i >= t && (i - t) % Step == 0 && (i - t) / Step < kPositions) {
          sums[r][(i - t) / Step] += weights[r][t] * input;
        }
      }
    }
  }
}

// A vector of channels from c on: `Rows` by kPositions windows, `Step` apart.
template <int Rows, int Taps, int Step, bool Edges>
EG_INLINE void dw_vector(const DepthwiseRun& d, const Windows& at, int64_t c) {
  WindowSums<Rows> sums;
  const Vec bias = d.epilogue.bias == nullptr ? Vec{} : load(d.epilogue.bias + c);
#pragma GCC unroll 2
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPositions; ++p) {
      sums[r][p] = bias;
    }
  }
  if constexpr (Rows == 1) {
    for (int64_t y = at.rows.first; y < at.rows.end; ++y) {
      add_row<Rows, Taps, Step, Edges>(d, at, c, y, sums);
    }
  } else {
#pragma GCC unroll 8
    for (int y = 0; y < (Rows - 1) * Step + Taps; ++y) {
      if (!Edges || at.rows.has(y)) {
        add_row<Rows, Taps, Step, Edges>(d, at, c, y, sums);
      }
    }
  }
  const Vec low = splat(d.epilogue.min);
  const Vec high = splat(d.epilogue.max);
#pragma GCC unroll 2
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPositions; ++p) {
      if (Edges && p >= at.n_positions) {
        continue;
      }
      const int64_t to = at.out + r * d.out_row_stride + p * d.out_pixel + c;
      Vec v = sums[r][p];
      if (d.epilogue.residual != nullptr) {
        v += load(d.epilogue.residual + to);
      }
      store(d.out + to, limited(v, low, high));
    }
  }
}

// All channels.
template <int Rows, int Taps, int Step, bool Edges>
EG_INLINE void dw_windows(const DepthwiseRun& d, const Windows& at) {
  const int64_t last = d.channels - kWidth;
  int64_t c = 0;
  while (true) {
    dw_vector<Rows, Taps, Step, Edges>(d, at, c);
    if (c == last) {
      return;
    }
    c = c + kWidth <= last ? c + kWidth : last;  // some of the last vector once more
  }
}

// Rows [first, first + Rows).
template <int Rows, int Taps, int Step>
void dw_rows(const DepthwiseRun& run, int64_t first) {
  const DepthwiseRun d = run;  // a copy, which no store can change
  constexpr int kInputs = (kPositions - 1) * Step + Taps;
  const int64_t row = d.row + first * d.row_step;
  const int64_t n_rows = (Rows - 1) * Step + d.kernel_height;
  Windows at{};
  at.rows = within(row, n_rows, d.height);
  for (int64_t i = 0; i < d.n_positions; i += kPositions) {
    const int64_t column = d.column + i * Step;
    at.origin = row * d.row_stride + column * d.pixel;
    at.columns = within(column, kInputs, d.width);
    at.out = first * d.out_row_stride + i * d.out_pixel;
    at.n_positions = d.n_positions - i;
    const bool whole = at.columns.count() == kInputs && at.rows.count() == n_rows;
    if (whole && at.n_positions >= kPositions) {
      dw_windows<Rows, Taps, Step, false>(d, at);
    } else {
      dw_windows<Rows, Taps, Step, true>(d, at);
    }
  }
}

template <int Taps, int Step>
void dw_all(const DepthwiseRun& d) {
  int64_t row = 0;
  if constexpr (kRowsAtOnce == 2) {
    if (d.kernel_height == Taps && d.row_step == Step) {
      for (; row + 2 <= d.n_rows; row += 2) {
        dw_rows<2, Taps, Step>(d, row);
      }
    }
  }
  for (; row < d.n_rows; ++row) {
    dw_rows<1, Taps, Step>(d, row);
  }
}

// One window of any size.
template <typename Lane>
EG_INLINE void dw_window(const DepthwiseRun& d, int64_t row, int64_t column, int64_t out,
                         int64_t c) {
  using Value = typename Lane::Value;
  Value sum = d.epilogue.bias == nullptr ? Value{} : lane_at<Lane>(d.epilogue.bias + c);
  for (int64_t y = 0; y < d.kernel_height; ++y) {
    const int64_t image_row = row + y * d.row_dilation;
    if (image_row < 0 || image_row >= d.height) {
      continue;
    }
    for (int64_t x = 0; x < d.kernel_width; ++x) {
      const int64_t image_column = column + x * d.column_dilation;
      if (image_column >= 0 && image_column < d.width) {
        sum += lane_at<Lane>(d.kernel + (y * d.kernel_width + x) * d.tap_stride + c) *
               lane_at<Lane>(d.image + image_row * d.row_stride + image_column * d.pixel + c);
      }
    }
  }
  if (d.epilogue.residual != nullptr) {
    sum += lane_at<Lane>(d.epilogue.residual + out + c);
  }
  const Value low = d.epilogue.min - Value{};
  const Value high = d.epilogue.max - Value{};
  lane_at<Lane>(d.out + out + c) = limited(sum, low, high);
}

void dw_any(const DepthwiseRun& d) {
  for (int64_t r = 0; r < d.n_rows; ++r) {
    for (int64_t i = 0; i < d.n_positions; ++i) {
      const int64_t out = r * d.out_row_stride + i * d.out_pixel;
      for_all_channels(d.channels, [&](auto lane, int64_t c) {
        dw_window<decltype(lane)>(d, d.row + r * d.row_step, d.column + i * d.column_step, out, c);
      });
    }
  }
}

void conv_dw(const DepthwiseRun& d) {
  const bool plain = d.column_dilation == 1 && d.row_dilation == 1 && d.channels >= kWidth;
  if (plain && d.kernel_width == 3 && d.column_step <= 2) {
    return d.column_step == 1 ? dw_all<3, 1>(d) : dw_all<3, 2>(d);
  }
  if (plain && d.kernel_width == 5 && d.column_step <= 2) {
    return d.column_step == 1 ? dw_all<5, 1>(d) : dw_all<5, 2>(d);
  }
  dw_any(d);
}

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
