// Convolution and pooling over channels-last images: an image is [h][w][c] in memory, ggml's
// ne (c, w, h, n).
//
// The kernels are compiled once for each instruction set (image_kernels_isa.h) and chosen
// when the first one runs. A convolution multiplies the image where it lies: for each tap of
// the window and each output position there is a pointer to the input's channels, or to zeros
// beyond the edge, so no window is ever copied.
#pragma once

#include <cstdint>

namespace executorch_ggml {

// Output channels of a packed kernel lie in panels of this many: [c_out / 16][taps * c_in][16],
// the last panel filled up with zeros.
inline constexpr int64_t kPanel = 16;

// What is done to a sum before it is stored, in this order.
struct Epilogue {
  const float* bias = nullptr;      // [c], or null
  const float* residual = nullptr;  // as the result, or null
  float min = 0;
  float max = 0;
  bool clamps = false;
};

// How the elements of a packed kernel are stored; sums are of floats.
enum class KernelType { F32, F16, BF16 };

// Output positions are the rows of the result, counted over all images. `taps` holds, tap by
// tap, a pointer for each of `n_rows` positions: taps[tap * n_rows + row].
struct ConvBlock {
  const float* const* taps;
  int64_t n_taps;
  int64_t n_rows;
  int64_t c_in;
  int64_t c_out;
  const void* kernel;  // conv: packed in panels; depthwise: [tap][c], F32
  KernelType type;
  float* widened;     // conv with another type than F32: room for widened_size(n_taps, c_in)
  float* out;         // of the first position
  Epilogue epilogue;  // residual: of the first position
};

// The panels that a convolution widens at a time, in floats.
inline int64_t widened_size(int64_t n_taps, int64_t c_in) { return 2 * kPanel * n_taps * c_in; }

// One output position: `n_x` by `n_y` elements of an image from `x`.
struct PoolWindow {
  const float* x;
  int64_t n_x;
  int64_t n_y;
  int64_t row_stride;  // floats
  int64_t channels;
  float divisor;  // of an average
  float* out;
};

struct ImageKernels {
  const char* isa;
  void (*conv)(const ConvBlock& block);
  void (*conv_dw)(const ConvBlock& block);  // c_in == c_out
  void (*max_pool)(const PoolWindow& window);
  void (*avg_pool)(const PoolWindow& window);
};

// The best set that this machine runs; the environment variable GGML_IMAGE_KERNELS names
// another one (for tests).
const ImageKernels& image_kernels();

// The set of this name ("avx512", "avx2", "baseline"); null if this machine does not run it.
const ImageKernels* image_kernels_named(const char* isa);

}  // namespace executorch_ggml
