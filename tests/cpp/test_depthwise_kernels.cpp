// The depthwise kernels against plain loops, for every instruction set that this machine runs,
// every edge of the image and every rest that their blocks leave.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/kernels/image_kernels.h"
#include "tests/cpp/image_kernel_test.h"

namespace executorch_ggml::testing {
namespace {

// Along one axis.
struct Axis {
  int64_t extent;  // of the image
  int64_t kernel;
  int64_t n;          // results
  int64_t start = 0;  // of the first window
  int64_t step = 1;
  int64_t dilation = 1;

  int64_t input(int64_t result, int64_t tap) const {
    return start + result * step + tap * dilation;
  }
  bool has(int64_t i) const { return 0 <= i && i < extent; }
};

// Some channels of a depthwise convolution, and what they are to give.
struct Depthwise {
  int64_t channels;
  Axis x;
  Axis y;
  // Channels beside them.
  int64_t more_inputs = 0;
  int64_t more_taps = 0;
  int64_t more_results = 0;
  std::vector<float> image{};
  std::vector<float> kernel{};
  Finish finish{};

  int64_t pixel() const { return channels + more_inputs; }
  int64_t tap_stride() const { return channels + more_taps; }
  int64_t out_pixel() const { return channels + more_results; }
  // Exactly as far as they are read or written, so that a sanitizer sees any access beyond.
  int64_t n_inputs() const { return x.extent * y.extent * pixel() - more_inputs; }
  int64_t n_weights() const { return x.kernel * y.kernel * tap_stride() - more_taps; }
  int64_t n_results() const { return x.n * y.n * out_pixel() - more_results; }

  std::vector<float> run(const ImageKernels& kernels) const {
    std::vector<float> out(static_cast<size_t>(n_results()), kUntouched);
    kernels.conv_dw({.image = image.data(),
                     .width = x.extent,
                     .height = y.extent,
                     .pixel = pixel(),
                     .row_stride = x.extent * pixel(),
                     .column = x.start,
                     .row = y.start,
                     .column_step = x.step,
                     .row_step = y.step,
                     .kernel_width = x.kernel,
                     .kernel_height = y.kernel,
                     .column_dilation = x.dilation,
                     .row_dilation = y.dilation,
                     .n_positions = x.n,
                     .n_rows = y.n,
                     .channels = channels,
                     .kernel = kernel.data(),
                     .tap_stride = tap_stride(),
                     .out = out.data(),
                     .out_pixel = out_pixel(),
                     .out_row_stride = x.n * out_pixel(),
                     .epilogue = finish.epilogue()});
    return out;
  }

  void expect_equal(const std::vector<float>& found) const {
    for (int64_t i = 0; i < n_results(); ++i) {
      const int64_t c = i % out_pixel();
      if (c >= channels) {
        ASSERT_EQ(at(found, i), kUntouched);
        continue;
      }
      std::vector<double> terms;
      for (int64_t ky = 0; ky < y.kernel; ++ky) {
        for (int64_t kx = 0; kx < x.kernel; ++kx) {
          const int64_t row = y.input(i / out_pixel() / x.n, ky);
          const int64_t column = x.input(i / out_pixel() % x.n, kx);
          if (x.has(column) && y.has(row)) {
            terms.push_back(double{at(kernel, (ky * x.kernel + kx) * tap_stride() + c)} *
                            double{at(image, (row * x.extent + column) * pixel() + c)});
          }
        }
      }
      SCOPED_TRACE(describe(x) + ", " + describe(y) + ", " + std::to_string(channels) +
                   " channels");
      ASSERT_NO_FATAL_FAILURE(finish.expect(at(found, i), terms, c, i));
    }
  }

  static std::string describe(const Axis& a) {
    return std::to_string(a.n) + " windows of " + std::to_string(a.kernel) + " taps, " +
           std::to_string(a.step) + " and " + std::to_string(a.dilation) + " apart, from " +
           std::to_string(a.start) + " over " + std::to_string(a.extent);
  }
};

class DepthwiseConv : public ImageTest {
 protected:
  // As many results as windows that begin before the image's end.
  Axis draw_axis(int64_t kernel, int64_t step, int64_t dilation) {
    const int64_t extent = draw(1, 17);
    const int64_t start = -draw(0, 6);
    return {.extent = extent,
            .kernel = kernel,
            .n = (extent - start + step - 1) / step,
            .start = start,
            .step = step,
            .dilation = dilation};
  }

  Depthwise with_values(Depthwise conv) {
    conv.image = random(conv.n_inputs());
    conv.kernel = random(conv.n_weights());
    return conv;
  }

  void check(Depthwise conv) {
    conv.more_inputs = draw(0, 3);
    conv.more_taps = draw(0, 3);
    conv.more_results = draw(0, 3);
    conv = with_values(conv);
    add_finish(conv.finish, draw(0, 7), conv.channels, conv.n_results());
    conv.expect_equal(conv.run(*kernels_));
  }
};

TEST_P(DepthwiseConv, TakesAnyNumberOfChannels) {
  for (int64_t channels = 1; channels <= 70; ++channels) {
    for (const int64_t kernel : {3, 5}) {
      for (const int64_t step : {1, 2}) {
        check({channels, draw_axis(kernel, step, 1), draw_axis(kernel, step, 1)});
      }
    }
  }
}

TEST_P(DepthwiseConv, TakesWindowsOfAnyKind) {
  for (int i = 0; i < 300; ++i) {
    check({draw(1, 40), draw_axis(draw(1, 6), draw(1, 3), draw(1, 3)),
           draw_axis(draw(1, 6), draw(1, 3), draw(1, 3))});
  }
}

// Of a thin image some windows reach beyond both ends; every number of results leaves another rest.
TEST_P(DepthwiseConv, TakesImagesOfAnySize) {
  for (const int64_t kernel : {3, 5}) {
    for (const int64_t step : {1, 2}) {
      for (int64_t width = 1; width <= 12; ++width) {
        for (int64_t height = 1; height <= 7; ++height) {
          const auto axis = [&](int64_t extent) {
            return Axis{.extent = extent,
                        .kernel = kernel,
                        .n = (extent - 1) / step + 1,
                        .start = -(kernel / 2),
                        .step = step};
          };
          check({draw(16, 33), axis(width), axis(height)});
        }
      }
    }
  }
}

// As a strip of an image is read: no rows are beyond it.
TEST_P(DepthwiseConv, BeginsAtAnyRow) {
  for (int64_t start = 0; start <= 4; ++start) {
    Axis rows{.extent = 12, .kernel = 3, .n = 5, .start = start};
    check({draw(16, 33), draw_axis(3, 1, 1), rows});
  }
}

TEST_P(DepthwiseConv, OfAWindowBeyondTheImageIsTheBias) {
  for (const int64_t channels : {3, 19}) {
    Depthwise conv{channels,
                   {.extent = 4, .kernel = 3, .n = 9, .start = -3, .step = 2},
                   {.extent = 1, .kernel = 3, .n = 2, .start = -3, .step = 2}};
    conv = with_values(conv);
    conv.finish.bias = random(channels);
    const std::vector<float> found = conv.run(*kernels_);
    ASSERT_NO_FATAL_FAILURE(conv.expect_equal(found));
    for (int64_t i = 0; i < 9 * channels; ++i) {
      ASSERT_EQ(at(found, i), at(conv.finish.bias, i % channels));
    }
  }
}

TEST_P(DepthwiseConv, FinishesItsSumsInEveryWay) {
  for (int64_t kind = 0; kind < 8; ++kind) {
    for (const int64_t channels : {7, 37, 64}) {
      Depthwise conv = with_values({channels, draw_axis(3, 1, 1), draw_axis(3, 1, 1)});
      add_finish(conv.finish, kind, channels, conv.n_results());
      conv.expect_equal(conv.run(*kernels_));
    }
  }
}

TEST_P(DepthwiseConv, ClampsInfinitiesAndKeepsNan) {
  for (const float value : {kInfinity, -kInfinity, kNan}) {
    for (const float max : {6.0F, kInfinity}) {
      for (const int64_t channels : {3, 19}) {
        Depthwise conv = with_values({channels, draw_axis(3, 1, 1), draw_axis(3, 1, 1)});
        conv.finish.bias.assign(static_cast<size_t>(channels), value);
        conv.finish.min = -1.0F;
        conv.finish.max = max;
        for (const float one : conv.run(*kernels_)) {
          ASSERT_TRUE(std::isnan(value) ? std::isnan(one) : one == (value > 0 ? max : -1.0F))
              << one;
        }
      }
    }
  }
}

// A NaN is of the windows that hold it, and of its channel, alone.
TEST_P(DepthwiseConv, KeepsNanToItsWindows) {
  for (const int64_t step : {1, 2}) {
    const auto axis = [&](int64_t extent) {
      return Axis{
          .extent = extent, .kernel = 3, .n = (extent - 1) / step + 1, .start = -1, .step = step};
    };
    for (int64_t place = 0; place < 9 * 7; ++place) {
      Depthwise conv = with_values({21, axis(9), axis(7)});
      conv.image[static_cast<size_t>(place * 21 + 20)] = kNan;
      const std::vector<float> found = conv.run(*kernels_);
      for (int64_t i = 0; i < conv.n_results(); ++i) {
        const int64_t x = i / 21 % conv.x.n;
        const int64_t y = i / 21 / conv.x.n;
        const bool expected = i % 21 == 20 && std::abs(x * step - place % 9) <= 1 &&
                              std::abs(y * step - place / 9) <= 1;
        ASSERT_EQ(std::isnan(at(found, i)), expected) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DepthwiseConv, ::testing::ValuesIn(kIsas), name_of);

}  // namespace
}  // namespace executorch_ggml::testing
