// What tests of the kernels over channels-last images have in common: every instruction set that
// this machine runs, random values, and what becomes of a sum.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ggml.h"
#include "runtime/kernels/image_kernels.h"
#include "tests/cpp/random_values.h"

namespace executorch_ggml::testing {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kUntouched = 4711.0F;

inline float at(const std::vector<float>& values, int64_t i) {
  return values[static_cast<size_t>(i)];
}

inline std::vector<uint16_t> halves_of(KernelType type, const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    halves[i] =
        type == KernelType::F16 ? ggml_fp32_to_fp16(values[i]) : ggml_fp32_to_bf16(values[i]).bits;
  }
  return halves;
}

inline float widened(KernelType type, uint16_t half) {
  return type == KernelType::F16 ? ggml_fp16_to_fp32(half) : ggml_bf16_to_fp32({half});
}

// What is to become of a sum.
struct Finish {
  std::vector<float> bias{};  // empty: none
  std::vector<float> residual{};
  float min = -kInfinity;
  float max = kInfinity;

  Epilogue epilogue() const {
    return {.bias = bias.empty() ? nullptr : bias.data(),
            .residual = residual.empty() ? nullptr : residual.data(),
            .min = min,
            .max = max};
  }

  // `terms`: what is summed for channel c of the result at i.
  void expect(float found, const std::vector<double>& terms, int64_t c, int64_t i) const {
    double sum = 0;
    double magnitude = 0;
    const auto add = [&](double term) {
      sum += term;
      magnitude += std::abs(term);
    };
    std::for_each(terms.begin(), terms.end(), add);
    add(bias.empty() ? 0 : double{at(bias, c)});
    add(residual.empty() ? 0 : double{at(residual, i)});
    const double expected = std::clamp(sum, double{min}, double{max});
    ASSERT_NEAR(found, expected, 1e-5 * magnitude) << "channel " << c << ", at " << i;
  }
};

class ImageTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = image_kernels_named(GetParam());
    if (kernels_ == nullptr) {
      GTEST_SKIP() << "this machine does not run " << GetParam();
    }
  }

  std::vector<float> random(int64_t n) { return normal_values(n, engine_); }

  int64_t draw(int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(engine_);
  }

  // Bits of `kind`: a bias, a residual, limits.
  void add_finish(Finish& finish, int64_t kind, int64_t channels, int64_t n_results) {
    if ((kind & 1) != 0) {
      finish.bias = random(channels);
    }
    if ((kind & 2) != 0) {
      finish.residual = random(n_results);
    }
    if ((kind & 4) != 0) {
      finish.min = -0.5F;
      finish.max = 1.5F;
    }
  }

  const ImageKernels* kernels_ = nullptr;

 private:
  std::mt19937 engine_{20};
};

inline constexpr const char* kIsas[] = {"baseline", "avx2", "avx512"};

inline std::string name_of(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

}  // namespace executorch_ggml::testing
