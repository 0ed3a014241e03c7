// The kernels over channels-last images against plain loops, for every instruction set that this
// machine runs, and every rest that their tiles leave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "ggml.h"
#include "runtime/kernels/image_kernels.h"
#include "tests/cpp/image_kernel_test.h"

namespace executorch_ggml::testing {
namespace {

// A convolution of random positions of an image, or of rows and taps at one distance each, and what
// it is to give.
struct Conv {
  int64_t n_rows;
  int64_t n_taps;
  int64_t c_in;
  int64_t c_out;
  std::vector<float> image{};
  std::vector<float> kernel{};    // [tap][c_in][c_out]
  std::vector<int64_t> places{};  // in the image, as taps; empty: at these distances
  int64_t stride = 0;
  int64_t tap_stride = 0;
  int64_t gap = 0;  // between the results of rows
  KernelType type = KernelType::F32;
  int64_t first_panel = 0;
  Finish finish{};

  int64_t first_channel() const { return first_panel * kPanel; }
  int64_t n_channels() const { return c_out - first_channel(); }
  int64_t out_stride() const { return n_channels() + gap; }
  int64_t n_results() const { return (n_rows - 1) * out_stride() + n_channels(); }
  int64_t n_panels() const { return (c_out + kPanel - 1) / kPanel; }

  // What a row multiplies.
  const float* input(int64_t tap, int64_t row) const {
    return image.data() + (places.empty() ? row * stride + tap * tap_stride
                                          : places[static_cast<size_t>(tap * n_rows + row)] * c_in);
  }

  // In panels. What fills up the last one is not to reach any result.
  std::vector<float> packed() const {
    const int64_t depth = n_taps * c_in;
    std::vector<float> result(static_cast<size_t>(n_panels() * depth * kPanel), kNan);
    for (int64_t i = 0; i < depth; ++i) {
      for (int64_t c = 0; c < c_out; ++c) {
        result[static_cast<size_t>((c / kPanel * depth + i) * kPanel + c % kPanel)] =
            at(kernel, i * c_out + c);
      }
    }
    return result;
  }

  std::vector<float> run(const ImageKernels& kernels) const {
    if (type == KernelType::F32) {
      return run(kernels, packed().data());
    }
    return run(kernels, halves_of(type, packed()).data());
  }

  std::vector<float> run(const ImageKernels& kernels, const void* weights) const {
    std::vector<const float*> taps;
    for (int64_t i = 0; i < n_taps * n_rows && !places.empty(); ++i) {
      taps.push_back(input(i / n_rows, i % n_rows));
    }
    std::vector<float> widened(static_cast<size_t>(widened_size(n_taps, c_in)));
    // Exactly as large as the result, so that a sanitizer sees any write beyond it.
    std::vector<float> out(static_cast<size_t>(n_results()), kUntouched);
    kernels.conv({.taps = places.empty() ? nullptr : taps.data(),
                  .x = image.data(),
                  .stride = stride,
                  .tap_stride = tap_stride,
                  .n_taps = n_taps,
                  .n_rows = n_rows,
                  .c_in = c_in,
                  .c_out = c_out,
                  .kernel = weights,
                  .type = type,
                  .widened = widened.data(),
                  .first_panel = first_panel,
                  .end_panel = n_panels(),
                  .out = out.data(),
                  .out_stride = out_stride(),
                  .epilogue = finish.epilogue()});
    return out;
  }

  void expect_equal(const std::vector<float>& found) const {
    for (int64_t i = 0; i < n_results(); ++i) {
      const int64_t c = first_channel() + i % out_stride();
      if (c >= c_out) {
        ASSERT_EQ(at(found, i), kUntouched);
        continue;
      }
      std::vector<double> terms;
      for (int64_t tap = 0; tap < n_taps; ++tap) {
        for (int64_t j = 0; j < c_in; ++j) {
          terms.push_back(double{at(kernel, (tap * c_in + j) * c_out + c)} *
                          double{input(tap, i / out_stride())[j]});
        }
      }
      SCOPED_TRACE(std::to_string(n_rows) + " rows of " + std::to_string(n_taps) + " taps, " +
                   std::to_string(c_in) + " to " + std::to_string(c_out) + " channels");
      ASSERT_NO_FATAL_FAILURE(finish.expect(at(found, i), terms, c, i));
    }
  }
};

class ImageConv : public ImageTest {
 protected:
  Conv make(int64_t n_rows, int64_t n_taps, int64_t c_in, int64_t c_out) {
    constexpr int64_t kPlaces = 13;
    Conv conv{.n_rows = n_rows, .n_taps = n_taps, .c_in = c_in, .c_out = c_out};
    conv.kernel = random(n_taps * c_out * c_in);
    if (draw(0, 1) == 0) {
      conv.stride = draw(1, c_in + 3);
      conv.tap_stride = draw(0, 50);
      conv.image = random((n_rows - 1) * conv.stride + (n_taps - 1) * conv.tap_stride + c_in);
      return conv;
    }
    conv.image = random(kPlaces * c_in);
    for (int64_t i = 0; i < n_taps * n_rows; ++i) {
      conv.places.push_back(draw(0, kPlaces - 1));
    }
    return conv;
  }

  void check(Conv conv) {
    conv.first_panel = draw(0, conv.n_panels() - 1);
    conv.gap = draw(0, 20);
    add_finish(conv.finish, draw(0, 7), conv.c_out, conv.n_results());
    conv.expect_equal(conv.run(*kernels_));
  }
};

class ImagePool : public ImageTest {};

TEST_P(ImageConv, TakesAnyNumberOfPositions) {
  for (int64_t n_rows = 1; n_rows <= 50; ++n_rows) {
    for (const int64_t n_taps : {1, 3, 9}) {
      check(make(n_rows, n_taps, draw(1, 40), draw(1, 70)));
    }
  }
}

TEST_P(ImageConv, TakesAnyNumberOfInputChannels) {
  for (int64_t c_in = 1; c_in <= 40; ++c_in) {
    for (const int64_t n_taps : {1, 3, 9}) {
      check(make(draw(1, 20), n_taps, c_in, draw(1, 70)));
    }
  }
}

TEST_P(ImageConv, TakesAnyNumberOfOutputChannels) {
  for (int64_t c_out = 1; c_out <= 70; ++c_out) {
    for (const int64_t n_taps : {1, 3, 9}) {
      check(make(draw(1, 20), n_taps, draw(1, 40), c_out));
    }
  }
}

TEST_P(ImageConv, WidensKernelsInHalfPrecision) {
  for (const KernelType type : {KernelType::F16, KernelType::BF16}) {
    for (int64_t c_out = 1; c_out <= 70; ++c_out) {
      Conv conv = make(draw(1, 20), draw(1, 9), draw(1, 40), c_out);
      conv.type = type;
      for (float& value : conv.kernel) {
        value = widened(type, halves_of(type, {value}).front());
      }
      check(conv);
    }
  }
}

TEST_P(ImageConv, WidensEveryHalf) {
  constexpr int64_t kHalves = int64_t{1} << 16;
  for (const KernelType type : {KernelType::F16, KernelType::BF16}) {
    Conv conv{.n_rows = 1, .n_taps = 1, .c_in = 1, .c_out = kHalves};
    conv.image = {1.0F};
    conv.places = {0};
    conv.type = type;
    std::vector<uint16_t> halves(kHalves);
    std::iota(halves.begin(), halves.end(), uint16_t{0});
    const std::vector<float> found = conv.run(*kernels_, halves.data());
    for (const uint16_t half : halves) {
      const float expected = widened(type, half);
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(found[half]) : found[half] == expected)
          << half << ": " << found[half] << ", expected " << expected;
    }
  }
}

TEST_P(ImageConv, FinishesItsSumsInEveryWay) {
  for (int64_t kind = 0; kind < 8; ++kind) {
    for (const int64_t channels : {37, 64}) {
      Conv conv = make(31, 3, 37, channels);
      add_finish(conv.finish, kind, channels, conv.n_results());
      conv.expect_equal(conv.run(*kernels_));
    }
  }
}

// Both of a vector and of the channels after it.
TEST_P(ImageConv, ClampsInfinitiesAndKeepsNan) {
  for (const float value : {kInfinity, -kInfinity, kNan}) {
    for (const float max : {6.0F, kInfinity}) {
      Finish finish;
      finish.bias.assign(19, value);
      finish.min = -1.0F;
      finish.max = max;
      Conv conv = make(7, 1, 19, 19);
      conv.finish = finish;
      for (const float one : conv.run(*kernels_)) {
        ASSERT_TRUE(std::isnan(value) ? std::isnan(one) : one == (value > 0 ? max : -1.0F)) << one;
      }
    }
  }
}

// A NaN in one position is of that position alone.
TEST_P(ImageConv, KeepsNanToItsPosition) {
  Conv conv{.n_rows = 13, .n_taps = 3, .c_in = 21, .c_out = 21};
  conv.kernel = random(3 * 21 * 21);
  conv.image = random(2 * 21);
  conv.places.assign(3 * 13, 0);
  conv.places[2 * 13 + 5] = 1;
  conv.image[21 + 20] = kNan;
  const std::vector<float> found = conv.run(*kernels_);
  for (int64_t i = 0; i < conv.n_results(); ++i) {
    ASSERT_EQ(std::isnan(at(found, i)), i / 21 == 5) << i;
  }
}

TEST_P(ImagePool, TakesTheLargestOrTheMeanOfAnyWindow) {
  constexpr int64_t kWidth = 5;
  for (int64_t i = 0; i < 5 * 70; ++i) {
    const int64_t channels = i % 70 + 1;
    std::vector<float> image = random(kWidth * 4 * channels);
    for (int64_t n = 0; n < 3; ++n) {
      const auto size = static_cast<int64_t>(image.size());
      image[static_cast<size_t>(draw(0, size - 1))] = kNan;
      image[static_cast<size_t>(draw(0, size - 1))] = -kInfinity;
    }
    const int64_t n_x = draw(0, kWidth);
    const int64_t n_y = draw(0, 4);
    std::vector<float> largest(static_cast<size_t>(channels), kUntouched);
    std::vector<float> mean = largest;
    PoolWindow window = {.x = image.data(),
                         .n_x = n_x,
                         .n_y = n_y,
                         .row_stride = kWidth * channels,
                         .channels = channels,
                         .divisor = 12.0F,
                         .out = largest.data()};
    kernels_->max_pool(window);
    window.out = mean.data();
    kernels_->avg_pool(window);
    for (int64_t c = 0; c < channels; ++c) {
      float expected = -kInfinity;
      double sum = 0;
      double magnitude = 0;
      for (int64_t y = 0; y < n_y; ++y) {
        for (int64_t x = 0; x < n_x; ++x) {
          const float value = at(image, (y * kWidth + x) * channels + c);
          expected = std::isnan(value) || value > expected ? value : expected;
          sum += double{value};
          magnitude += std::abs(double{value});
        }
      }
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(at(largest, c)) : at(largest, c) == expected)
          << "channel " << c << " of " << channels << ": " << at(largest, c) << ", " << expected;
      if (std::isfinite(sum)) {
        ASSERT_NEAR(at(mean, c), sum / 12, 1e-6 * magnitude) << c << " of " << channels;
      } else {
        ASSERT_TRUE(std::isnan(sum) ? std::isnan(at(mean, c)) : double{at(mean, c)} == sum);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ImageConv, ::testing::ValuesIn(kIsas), name_of);
INSTANTIATE_TEST_SUITE_P(Every, ImagePool, ::testing::ValuesIn(kIsas), name_of);

TEST(ImageKernels, AreNamed) {
  ASSERT_NE(image_kernels_named("baseline"), nullptr);
  EXPECT_STREQ(image_kernels_named("baseline")->isa, "baseline");
  EXPECT_EQ(image_kernels_named("abacus"), nullptr);
  EXPECT_EQ(&image_kernels(), image_kernels_named(image_kernels().isa));
}

}  // namespace
}  // namespace executorch_ggml::testing
