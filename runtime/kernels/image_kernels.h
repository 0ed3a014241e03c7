// Convolution and pooling over channels-last images: an image is [h][w][c] in memory, ggml's
// ne (c, w, h, n).
//
// The kernels are compiled once for each instruction set (image_kernels_isa.h) and chosen
// when the first one runs. A convolution multiplies the image where it lies: no window is ever
// copied but those of few channels over an edge.
#pragma once

#include <cstdint>

namespace executorch_ggml {

// Output channels of a packed kernel lie in panels of this many: [c_out / 16][taps * c_in][16],
// the last panel filled up with zeros.
inline constexpr int64_t kPanel = 16;
// Panels that a convolution multiplies at once, at most.
inline constexpr int64_t kPanelGroup = 3;

// What is done to a sum before it is stored, in this order.
struct Epilogue {
  const float* bias = nullptr;      // [c], or null
  const float* residual = nullptr;  // as the result, or null
  float min = -__builtin_inff();    // a NaN stays
  float max = __builtin_inff();
};

// How the elements of a packed kernel are stored; sums are of floats.
enum class KernelType { F32, F16, BF16 };

// Output positions, the rows of the result, times output channels, counted in panels.
//
// What a row multiplies: for each tap c_in floats. `taps` holds, tap by tap, a pointer to them
// for each of `n_rows`: taps[tap * n_rows + row]. Or `taps` is null, and the rows lie `stride`
// floats apart from `x` on, the taps of each `tap_stride`.
struct ConvBlock {
  const float* const* taps;
  const float* x;
  int64_t stride;
  int64_t tap_stride;
  int64_t n_taps;
  int64_t n_rows;
  int64_t c_in;
  int64_t c_out;
  const void* kernel;  // packed
  KernelType type;
  float* widened;  // with another type than F32: room for widened_size(n_taps, c_in)
  int64_t first_panel;
  int64_t end_panel;
  float* out;  // of the first row, and the first panel
  int64_t out_stride;
  Epilogue epilogue;  // residual: as out
};

// The panels that a convolution widens at a time, in floats.
inline int64_t widened_size(int64_t n_taps, int64_t c_in) {
  return kPanelGroup * kPanel * n_taps * c_in;
}

// Winograd's convolution F(2x2, 3x3) (Lavin and Gray, "Fast algorithms for convolutional neural
// networks", 2016): a tile of 2 by 2 results, from 4 by 4 inputs, takes 16 products for each pair
// of channels instead of 36. Inputs and taps are transformed to 16 planes each, the planes are
// multiplied, each by itself as a convolution of one tap, and the products transformed to results.
// Halves and sums of floats alone: rounding errors grow by less than two bits. Channels are whole
// panels.
struct WinogradTiles {
  int64_t n_tiles;
  int64_t c_in;
};

inline constexpr int64_t kWinogradPlanes = 16;

// The results of a tile: as many of the 2 by 2 as lie within the image. Strides in floats.
struct WinogradResult {
  int64_t channels;
  int64_t width;
  int64_t height;
  float* out;
  int64_t stride;      // between columns
  int64_t row_stride;  // between rows
  Epilogue epilogue;   // residual: as out
};

// Depthwise: whole rows of output positions. Of windows that reach beyond the image only the taps
// within it count. Distances in floats.
struct DepthwiseRun {
  const float* image;  // its first pixel
  int64_t width;
  int64_t height;
  int64_t pixel;         // from one to the next
  int64_t row_stride;    // between rows of the image
  int64_t column;        // of the first window's first tap, maybe outside
  int64_t row;           // the same
  int64_t column_step;   // from a window to the next, in columns
  int64_t row_step;      // in rows
  int64_t kernel_width;  // taps
  int64_t kernel_height;
  int64_t column_dilation;
  int64_t row_dilation;
  int64_t n_positions;  // of a row
  int64_t n_rows;
  int64_t channels;
  const float* kernel;  // [kernel_height][kernel_width][c]
  int64_t tap_stride;   // between its taps
  float* out;           // of the first position
  int64_t out_pixel;
  int64_t out_row_stride;
  Epilogue epilogue;  // residual: as out
};

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
  int64_t tile_rows;  // rows that conv multiplies at once
  void (*conv)(const ConvBlock& block);
  // `taps`: for each of the 4 by 4 inputs the pointers of all tiles to c_in floats, as
  // ConvBlock::taps. `out`: [16][tile][c_in].
  void (*winograd_input)(const WinogradTiles& tiles, const float* const* taps, float* out);
  // `kernel`: n_panels of 9 taps, as ConvBlock::kernel. `out`: [16][panel][c_in][16].
  void (*winograd_kernel)(const WinogradTiles& tiles, const void* kernel, KernelType type,
                          int64_t n_panels, float* out);
  // `products`: [16][tile][result.channels], of which this tile's are taken.
  void (*winograd_output)(const WinogradTiles& tiles, const float* products, int64_t tile,
                          const WinogradResult& result);
  void (*conv_dw)(const DepthwiseRun& run);
  void (*max_pool)(const PoolWindow& window);
  void (*avg_pool)(const PoolWindow& window);
};

// The best set that this machine runs, see kernel_choice.h; "baseline" runs everywhere.
const ImageKernels& image_kernels();

// The set of this name ("avx512", "avx2", "baseline"); null if this machine does not run it.
const ImageKernels* image_kernels_named(const char* isa);

}  // namespace executorch_ggml
