// Winograd's convolution of image_kernels.h against plain loops, for every instruction set that
// this machine runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/kernels/image_kernels.h"
#include "tests/cpp/image_kernel_test.h"

namespace executorch_ggml::testing {
namespace {

// Tiles of random inputs, through planes of products.
class ImageWinograd : public ImageTest {
 protected:
  static constexpr int64_t kSide = 4;  // of a tile's inputs

  // The results of all tiles: [tile][2][2][c_out], those beyond width and height untouched.
  std::vector<float> run(const WinogradTiles& tiles, const std::vector<float>& image,
                         const void* kernel, KernelType type, WinogradResult result) const {
    const int64_t n_panels = result.channels / kPanel;
    const int64_t inputs_plane = tiles.n_tiles * tiles.c_in;
    const int64_t kernel_plane = n_panels * tiles.c_in * kPanel;
    const int64_t products_plane = tiles.n_tiles * result.channels;
    std::vector<const float*> taps;
    for (int64_t i = 0; i < kSide * kSide * tiles.n_tiles; ++i) {
      const int64_t tile = i % tiles.n_tiles;
      taps.push_back(image.data() + (tile * kSide * kSide + i / tiles.n_tiles) * tiles.c_in);
    }
    const auto planes = [](int64_t plane) {
      return std::vector<float>(static_cast<size_t>(kWinogradPlanes * plane), kUntouched);
    };
    std::vector<float> inputs = planes(inputs_plane);
    std::vector<float> panels = planes(kernel_plane);
    std::vector<float> products = planes(products_plane);
    kernels_->winograd_input(tiles, taps.data(), inputs.data());
    kernels_->winograd_kernel(tiles, kernel, type, n_panels, panels.data());
    for (int64_t i = 0; i < kWinogradPlanes; ++i) {
      kernels_->conv({.taps = nullptr,
                      .x = inputs.data() + i * inputs_plane,
                      .stride = tiles.c_in,
                      .tap_stride = 0,
                      .n_taps = 1,
                      .n_rows = tiles.n_tiles,
                      .c_in = tiles.c_in,
                      .c_out = result.channels,
                      .kernel = panels.data() + i * kernel_plane,
                      .type = KernelType::F32,
                      .widened = nullptr,
                      .first_panel = 0,
                      .end_panel = n_panels,
                      .out = products.data() + i * products_plane,
                      .out_stride = result.channels,
                      .epilogue = {}});
    }
    std::vector<float> out(static_cast<size_t>(4 * products_plane), kUntouched);
    const float* const residual = result.epilogue.residual;
    for (int64_t tile = 0; tile < tiles.n_tiles; ++tile) {
      const int64_t first = tile * 4 * result.channels;
      result.out = out.data() + first;
      result.epilogue.residual = residual == nullptr ? nullptr : residual + first;
      kernels_->winograd_output(tiles, products.data(), tile, result);
    }
    return out;
  }

  void check(int64_t n_tiles, int64_t c_in, int64_t n_panels, KernelType type) {
    const int64_t c_out = n_panels * kPanel;
    const std::vector<float> image = random(n_tiles * kSide * kSide * c_in);
    std::vector<float> kernel = random(9 * c_in * c_out);  // in panels
    const std::vector<uint16_t> halves = halves_of(type, kernel);
    if (type != KernelType::F32) {
      std::ranges::transform(halves, kernel.begin(), [&](auto h) { return widened(type, h); });
    }
    Finish finish;
    finish.bias = random(draw(0, 1) * c_out);
    finish.residual = random(draw(0, 1) * 4 * n_tiles * c_out);
    finish.max = draw(0, 1) == 0 ? kInfinity : 1.5F;
    const WinogradResult result = {.channels = c_out,
                                   .width = draw(1, 2),
                                   .height = draw(1, 2),
                                   .out = nullptr,
                                   .stride = c_out,
                                   .row_stride = 2 * c_out,
                                   .epilogue = finish.epilogue()};
    const void* const weights =
        type == KernelType::F32 ? static_cast<const void*>(kernel.data()) : halves.data();
    const std::vector<float> found =
        run({.n_tiles = n_tiles, .c_in = c_in}, image, weights, type, result);
    for (int64_t i = 0; i < 4 * n_tiles * c_out; ++i) {
      const int64_t c = i % c_out;
      const int64_t x = i / c_out % 2;
      const int64_t y = i / c_out / 2 % 2;
      if (x >= result.width || y >= result.height) {
        ASSERT_EQ(at(found, i), kUntouched) << "beyond the image";
        continue;
      }
      std::vector<double> terms;
      for (int64_t tap = 0; tap < 9; ++tap) {
        const int64_t input = (i / c_out / 4 * kSide + y + tap / 3) * kSide + x + tap % 3;
        for (int64_t j = 0; j < c_in; ++j) {
          const int64_t weight = (c / kPanel * 9 + tap) * c_in + j;
          terms.push_back(double{at(image, input * c_in + j)} *
                          double{at(kernel, weight * kPanel + c % kPanel)});
        }
      }
      ASSERT_NO_FATAL_FAILURE(finish.expect(at(found, i), terms, c, i));
    }
  }
};

TEST_P(ImageWinograd, EqualsTheConvolution) {
  for (const KernelType type : {KernelType::F32, KernelType::F16, KernelType::BF16}) {
    for (int64_t n_tiles = 1; n_tiles <= 20; ++n_tiles) {
      check(n_tiles, kPanel * draw(1, 3), draw(1, 4), type);
    }
  }
}

// A NaN reaches the windows in which it lies, as of a sum of products.
TEST_P(ImageWinograd, KeepsNanToItsWindows) {
  for (int64_t place = 0; place < kSide * kSide; ++place) {
    std::vector<float> image = random(kSide * kSide * kPanel);
    image[static_cast<size_t>(place * kPanel + 3)] = kNan;
    const std::vector<float> kernel = random(9 * kPanel * kPanel);
    const std::vector<float> found =
        run({.n_tiles = 1, .c_in = kPanel}, image, kernel.data(), KernelType::F32,
            {.channels = kPanel,
             .width = 2,
             .height = 2,
             .out = nullptr,
             .stride = kPanel,
             .row_stride = 2 * kPanel,
             .epilogue = {}});
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t x = place % kSide - i % 2;
      const int64_t y = place / kSide - i / 2;
      const bool within = x >= 0 && x < 3 && y >= 0 && y < 3;
      ASSERT_EQ(std::isnan(at(found, i * kPanel)), within) << place << ", result " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ImageWinograd, ::testing::ValuesIn(kIsas), name_of);

}  // namespace
}  // namespace executorch_ggml::testing
