// The kernels over channels-last images against plain loops, for every instruction set that this
// machine runs, and every rest that their tiles leave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ggml.h"
#include "runtime/kernels/image_kernels.h"

namespace executorch_ggml {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class ImageTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = image_kernels_named(GetParam());
    if (kernels_ == nullptr) {
      GTEST_SKIP() << "this machine does not run " << GetParam();
    }
  }

  std::vector<float> random(int64_t n) {
    std::normal_distribution<float> values;
    std::vector<float> result(static_cast<size_t>(n));
    std::generate(result.begin(), result.end(), [&] { return values(engine_); });
    return result;
  }

  int64_t draw(int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(engine_);
  }

  const ImageKernels* kernels_ = nullptr;

 private:
  std::mt19937 engine_{20};
};

float at(const std::vector<float>& values, int64_t i) { return values[static_cast<size_t>(i)]; }

std::vector<uint16_t> halves_of(KernelType type, const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    halves[i] =
        type == KernelType::F16 ? ggml_fp32_to_fp16(values[i]) : ggml_fp32_to_bf16(values[i]).bits;
  }
  return halves;
}

float widened(KernelType type, uint16_t half) {
  return type == KernelType::F16 ? ggml_fp16_to_fp32(half) : ggml_bf16_to_fp32({half});
}

// A convolution of random positions of an image, and what it is to give.
struct Conv {
  int64_t n_rows;
  int64_t n_taps;
  int64_t c_in;
  int64_t c_out;
  bool depthwise = false;
  std::vector<float> image{};
  std::vector<float> kernel{};  // [tap][c_in][c_out], or depthwise [tap][c]
  std::vector<float> bias{};    // empty: none
  std::vector<float> residual{};
  bool clamps = false;
  float min = -kInfinity;
  float max = kInfinity;
  std::vector<int64_t> places{};  // in the image, as taps
  KernelType type = KernelType::F32;

  int64_t n_results() const { return n_rows * c_out; }

  // In panels. What fills up the last one is not to reach any result.
  std::vector<float> packed() const {
    const int64_t depth = n_taps * c_in;
    const int64_t n_panels = (c_out + kPanel - 1) / kPanel;
    std::vector<float> result(static_cast<size_t>(n_panels * depth * kPanel), kNan);
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
      const std::vector<float> weights = depthwise ? kernel : packed();
      return run(kernels, weights.data());
    }
    const std::vector<uint16_t> weights = halves_of(type, packed());
    return run(kernels, weights.data());
  }

  std::vector<float> run(const ImageKernels& kernels, const void* weights) const {
    std::vector<const float*> taps;
    for (const int64_t place : places) {
      taps.push_back(image.data() + place * c_in);
    }
    std::vector<float> widened(static_cast<size_t>(widened_size(n_taps, c_in)));
    // Exactly as large as the result, so that a sanitizer sees any write beyond it.
    std::vector<float> out(static_cast<size_t>(n_results()), 4711.0F);
    ConvBlock block{};
    block.taps = taps.data();
    block.n_taps = n_taps;
    block.n_rows = n_rows;
    block.c_in = c_in;
    block.c_out = c_out;
    block.kernel = weights;
    block.type = type;
    block.widened = widened.data();
    block.out = out.data();
    block.epilogue = {.bias = bias.empty() ? nullptr : bias.data(),
                      .residual = residual.empty() ? nullptr : residual.data(),
                      .min = min,
                      .max = max,
                      .clamps = clamps};
    (depthwise ? kernels.conv_dw : kernels.conv)(block);
    return out;
  }

  void expect_equal(const std::vector<float>& found) const {
    for (int64_t row = 0; row < n_rows; ++row) {
      for (int64_t c = 0; c < c_out; ++c) {
        double sum = 0;
        double magnitude = 0;
        const auto add = [&](double term) {
          sum += term;
          magnitude += std::abs(term);
        };
        for (int64_t tap = 0; tap < n_taps; ++tap) {
          const int64_t x = places[static_cast<size_t>(tap * n_rows + row)] * c_in;
          if (depthwise) {
            add(double{at(kernel, tap * c_out + c)} * double{at(image, x + c)});
            continue;
          }
          for (int64_t i = 0; i < c_in; ++i) {
            add(double{at(kernel, (tap * c_in + i) * c_out + c)} * double{at(image, x + i)});
          }
        }
        add(bias.empty() ? 0 : double{at(bias, c)});
        add(residual.empty() ? 0 : double{at(residual, row * c_out + c)});
        const double expected = clamps ? std::clamp(sum, double{min}, double{max}) : sum;
        ASSERT_NEAR(at(found, row * c_out + c), expected, 1e-5 * magnitude)
            << "row " << row << " of " << n_rows << ", channel " << c << " of " << c_out << ", "
            << c_in << " inputs, " << n_taps << " taps";
      }
    }
  }
};

class ImageConv : public ImageTest {
 protected:
  Conv make(int64_t n_rows, int64_t n_taps, int64_t c_in, int64_t c_out, bool depthwise = false) {
    constexpr int64_t kPlaces = 13;
    Conv conv{
        .n_rows = n_rows, .n_taps = n_taps, .c_in = c_in, .c_out = c_out, .depthwise = depthwise};
    conv.image = random(kPlaces * c_in);
    conv.kernel = random(n_taps * c_out * (depthwise ? 1 : c_in));
    for (int64_t i = 0; i < n_taps * n_rows; ++i) {
      conv.places.push_back(draw(0, kPlaces - 1));
    }
    return conv;
  }

  void add_epilogue(Conv& conv, int64_t kind) {
    if ((kind & 1) != 0) {
      conv.bias = random(conv.c_out);
    }
    if ((kind & 2) != 0) {
      conv.residual = random(conv.n_results());
    }
    if ((kind & 4) != 0) {
      conv.clamps = true;
      conv.min = -0.5F;
      conv.max = 1.5F;
    }
  }

  void check(Conv conv) {
    add_epilogue(conv, draw(0, 7));
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

TEST_P(ImageConv, IsDepthwiseForAnyNumberOfChannelsAndPositions) {
  for (int64_t channels = 1; channels <= 70; ++channels) {
    for (const int64_t n_taps : {1, 3, 9, 25}) {
      check(make(draw(1, 50), n_taps, channels, channels, true));
    }
  }
  for (int64_t n_rows = 1; n_rows <= 50; ++n_rows) {
    const int64_t channels = draw(1, 70);
    check(make(n_rows, 9, channels, channels, true));
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
    for (const bool depthwise : {false, true}) {
      Conv conv = make(11, 3, 37, 37, depthwise);
      add_epilogue(conv, kind);
      conv.expect_equal(conv.run(*kernels_));
    }
  }
}

// Both of a vector and of the channels after it.
TEST_P(ImageConv, ClampsInfinitiesAndKeepsNan) {
  for (const bool depthwise : {false, true}) {
    for (const float value : {kInfinity, -kInfinity, kNan}) {
      Conv conv = make(7, 1, 19, 19, depthwise);
      conv.bias.assign(19, value);
      conv.clamps = true;
      conv.min = -1.0F;
      conv.max = 6.0F;
      for (const float found : conv.run(*kernels_)) {
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(found));
        } else {
          ASSERT_EQ(found, value > 0 ? 6.0F : -1.0F);
        }
      }
      conv.min = 0.0F;
      conv.max = kInfinity;
      for (const float found : conv.run(*kernels_)) {
        ASSERT_TRUE(std::isnan(value) ? std::isnan(found) : found == std::max(value, 0.0F));
      }
    }
  }
}

// A NaN in one position or channel is of that position, or that channel, alone.
TEST_P(ImageConv, KeepsNanToItsPosition) {
  for (const bool depthwise : {false, true}) {
    Conv conv = make(13, 3, 21, 21, depthwise);
    std::fill(conv.places.begin(), conv.places.end(), 0);
    conv.places[2 * 13 + 5] = 1;
    conv.image[21 + 20] = kNan;
    const std::vector<float> found = conv.run(*kernels_);
    for (int64_t row = 0; row < 13; ++row) {
      for (int64_t c = 0; c < 21; ++c) {
        const bool expected = row == 5 && (c == 20 || !depthwise);
        ASSERT_EQ(std::isnan(at(found, row * 21 + c)), expected) << row << ", " << c;
      }
    }
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
    std::vector<float> largest(static_cast<size_t>(channels), 4711.0F);
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

constexpr const char* kIsas[] = {"baseline", "avx2", "avx512"};

std::string name_of(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Every, ImageConv, ::testing::ValuesIn(kIsas), name_of);
INSTANTIATE_TEST_SUITE_P(Every, ImagePool, ::testing::ValuesIn(kIsas), name_of);

TEST(ImageKernels, AreNamed) {
  ASSERT_NE(image_kernels_named("baseline"), nullptr);
  EXPECT_STREQ(image_kernels_named("baseline")->isa, "baseline");
  EXPECT_EQ(image_kernels_named("abacus"), nullptr);
  EXPECT_EQ(&image_kernels(), image_kernels_named(image_kernels().isa));
}

}  // namespace
}  // namespace executorch_ggml
