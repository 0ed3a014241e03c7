// The kernels over rows of floats against the same in double precision, for every instruction
// set that this machine runs, and every rest that their vectors leave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ggml.h"
#include "runtime/kernels/row_kernels.h"
#include "tests/cpp/random_values.h"

namespace executorch_ggml {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kEps = std::numeric_limits<float>::epsilon();
constexpr double kTiny = std::numeric_limits<float>::min();
constexpr int64_t kLongest = 100;  // more than six vectors of the widest set

using Floats = std::vector<float>;
using Map = void (*)(const float*, int64_t, float*);
using Map2 = void (*)(const float*, const float*, int64_t, float*);

float at(const Floats& values, int64_t i) { return values[static_cast<size_t>(i)]; }

// As PyTorch computes it in float: zero from where e^-x has none.
double silu(double x) { return x < -0x1.62e42ep+6 ? x * 0 : x / (1 + std::exp(-x)); }
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); }

// x (1 + tanh y) / 2, in a form that does not cancel.
double gelu(double x) {
  const double y = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * y));
}

class Rows : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = row_kernels_named(GetParam());
    if (kernels_ == nullptr) {
      GTEST_SKIP() << "this machine does not run " << GetParam();
    }
  }

  Floats random(int64_t n, float deviation = 1.0F) {
    return testing::normal_values(n, engine_, deviation);
  }

  const RowKernels* kernels_ = nullptr;

 private:
  std::mt19937 engine_{20};
};

// `run` of a result of exactly this length, so that a sanitizer sees any write beyond it.
Floats result_of(int64_t n, const std::function<void(float*)>& run) {
  Floats out(static_cast<size_t>(n), 4711.0F);
  run(out.data());
  return out;
}

void expect_close(const Floats& found, const std::vector<double>& expected,
                  const std::vector<double>& tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance[i]) << i << " of " << found.size();
  }
}

// Every float of both signs from `least` to `most`, some left out.
void for_floats(float least, float most, const std::function<void(const Floats&)>& check) {
  const uint32_t end = __builtin_bit_cast(uint32_t, most);
  Floats x;
  for (uint32_t bits = __builtin_bit_cast(uint32_t, least); bits <= end; bits += 1009) {
    x.push_back(__builtin_bit_cast(float, bits));
    x.push_back(-x.back());
    if (x.size() >= 4096) {
      check(x);
      x.clear();
    }
  }
  check(x);
}

// Within `n_eps` of the exact value, relative to it. `least`: what counts as denormal for an x.
void expect_within(
    const Floats& x, Map run, double (*exact)(double), double n_eps,
    double (*least)(double) = [](double) { return kTiny; }) {
  const auto n = static_cast<int64_t>(x.size());
  const Floats found = result_of(n, [&](float* out) { run(x.data(), n, out); });
  for (int64_t i = 0; i < n; ++i) {
    const double value = double{at(x, i)};
    const double expected = exact(value);
    ASSERT_NEAR(at(found, i), expected, n_eps * kEps * std::max(std::abs(expected), least(value)))
        << value;
  }
}

// Where a product of x with a power is rounded as a denormal.
double least_with_factor(double x) { return kTiny * std::max(1.0, std::min(std::abs(x), 110.0)); }

// --- activations ------------------------------------------------------------------------------

TEST_P(Rows, GeluIsWithinTwoEps) {
  for_floats(0x1p-100F, 10.0F,
             [this](const Floats& x) { expect_within(x, kernels_->gelu_erf, gelu_erf, 2.0); });
}

// Beyond, the result is denormal or x itself.
TEST_P(Rows, GeluIsRightFarOut) {
  for_floats(10.0F, std::numeric_limits<float>::max(),
             [this](const Floats& x) { expect_within(x, kernels_->gelu_erf, gelu_erf, 2.5); });
}

TEST_P(Rows, SiluIsWithinTwoEps) {
  for_floats(0x1p-100F, std::numeric_limits<float>::max(), [this](const Floats& x) {
    expect_within(x, kernels_->silu, silu, 2.0, least_with_factor);
  });
}

// The exponent's three roundings are amplified by its size, which is 88 where the result is tiny.
TEST_P(Rows, TanhGeluIsWithinItsExponentsRounding) {
  for_floats(0x1p-100F, std::numeric_limits<float>::max(), [this](const Floats& x) {
    const auto n = static_cast<int64_t>(x.size());
    const Floats found = result_of(n, [&](float* out) { kernels_->gelu(x.data(), n, out); });
    for (int64_t i = 0; i < n; ++i) {
      const double value = double{at(x, i)};
      const double expected = gelu(value);
      const double exponent =
          std::min(90.0, std::max(0.0, -1.6 * (value + 0.044715 * value * value * value)));
      const double scale = std::max(std::abs(expected), least_with_factor(value));
      ASSERT_NEAR(at(found, i), expected, (2 + 2 * exponent) * kEps * scale) << value;
    }
  });
}

TEST_P(Rows, ActivationsKeepSpecialValues) {
  const Map maps[] = {kernels_->silu, kernels_->gelu_erf, kernels_->gelu};
  for (const Map run : maps) {
    for (const int64_t n : {3, 19}) {  // of a rest, and of a vector
      Floats x(static_cast<size_t>(n), 1.0F);
      x[0] = kNan;
      x[1] = kInfinity;
      x[2] = -0.0F;
      const Floats found = result_of(n, [&](float* out) { run(x.data(), n, out); });
      EXPECT_TRUE(std::isnan(found[0]));
      EXPECT_EQ(found[1], kInfinity);
      EXPECT_EQ(found[2], 0.0F);
      EXPECT_TRUE(std::signbit(found[2]));
    }
  }
}

// --- element by element -----------------------------------------------------------------------

TEST_P(Rows, OfEveryLengthAreTakenElementByElement) {
  struct Case {
    Map2 run;
    double (*exact)(double, double);
    double n_eps;
  };
  const Case cases[] = {
      {kernels_->add, [](double a, double b) { return a + b; }, 0.5},
      {kernels_->mul, [](double a, double b) { return a * b; }, 0.5},
      {kernels_->swiglu, [](double a, double b) { return silu(a) * b; }, 3},
      {kernels_->geglu, [](double a, double b) { return gelu(a) * b; }, 20},
  };
  for (const Case& c : cases) {
    for (int64_t n = 0; n <= kLongest; ++n) {
      const Floats a = random(n);
      const Floats b = random(n);
      const auto check = [&](const Floats& found) {
        for (int64_t i = 0; i < n; ++i) {
          const double expected = c.exact(double{at(a, i)}, double{at(b, i)});
          ASSERT_NEAR(at(found, i), expected, c.n_eps * kEps * std::abs(expected))
              << i << ", " << n;
        }
      };
      check(result_of(n, [&](float* out) { c.run(a.data(), b.data(), n, out); }));
      Floats first = a;
      c.run(first.data(), b.data(), n, first.data());
      check(first);
      Floats second = b;
      c.run(a.data(), second.data(), n, second.data());
      check(second);
    }
  }
}

TEST_P(Rows, OfEveryLengthAreMapped) {
  struct Case {
    Map run;
    double (*exact)(double);
  };
  const Case cases[] = {
      {kernels_->silu, silu}, {kernels_->gelu_erf, gelu_erf}, {kernels_->gelu, gelu}};
  for (const Case& c : cases) {
    for (int64_t n = 0; n <= kLongest; ++n) {
      const Floats x = random(n);
      expect_within(x, c.run, c.exact, 20);
      const Floats found = result_of(n, [&](float* out) { c.run(x.data(), n, out); });
      Floats in_place = x;
      c.run(in_place.data(), n, in_place.data());
      ASSERT_EQ(in_place, found);
    }
  }
}

TEST_P(Rows, AreScaledAndShifted) {
  for (int64_t n = 0; n <= kLongest; ++n) {
    const Floats x = random(n);
    const Floats found =
        result_of(n, [&](float* out) { kernels_->scale(x.data(), 0.3F, 2.0F, n, out); });
    for (int64_t i = 0; i < n; ++i) {
      const double product = double{at(x, i)} * double{0.3F};
      ASSERT_NEAR(at(found, i), product + 2, kEps * (std::abs(product) + 2));
    }
  }
}

// --- norms ------------------------------------------------------------------------------------

// The relative error of a sum of n squares in parallel sums: far below n / 4 roundings.
double of_sum(int64_t n) { return (4 + static_cast<double>(n) / 64) * kEps; }

TEST_P(Rows, AreNormalizedByTheirRootMeanSquare) {
  for (int64_t n = 1; n <= 1100; n += n < kLongest ? 1 : 499) {
    const Floats x = random(n, 3.0F);
    const Floats weight = random(n);
    double squares = 0;
    for (const float value : x) {
      squares += double{value} * double{value};
    }
    const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + double{1e-3F});
    for (const bool weighted : {false, true}) {
      std::vector<double> expected;
      std::vector<double> tolerance;
      for (int64_t i = 0; i < n; ++i) {
        expected.push_back(double{at(x, i)} * factor * (weighted ? double{at(weight, i)} : 1.0));
        tolerance.push_back(of_sum(n) * std::abs(expected.back()));
      }
      const float* const w = weighted ? weight.data() : nullptr;
      expect_close(
          result_of(n, [&](float* out) { kernels_->rms_norm(x.data(), w, 1e-3F, n, out); }),
          expected, tolerance);
      Floats in_place = x;
      kernels_->rms_norm(in_place.data(), w, 1e-3F, n, in_place.data());
      expect_close(in_place, expected, tolerance);
    }
  }
}

// A mean far from zero must not count as variance.
TEST_P(Rows, AreNormalizedToZeroMeanAndUnitVariance) {
  for (const double offset : {0.0, 100.0}) {
    for (int64_t n = 1; n <= 1100; n += n < kLongest ? 1 : 499) {
      Floats x = random(n, 3.0F);
      double mean = 0;
      for (float& value : x) {
        value += static_cast<float>(offset);
        mean += double{value} / static_cast<double>(n);
      }
      double squares = 0;
      for (const float value : x) {
        squares += (double{value} - mean) * (double{value} - mean);
      }
      const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + double{1e-3F});
      std::vector<double> expected;
      std::vector<double> tolerance;
      for (int64_t i = 0; i < n; ++i) {
        expected.push_back((double{at(x, i)} - mean) * factor);
        tolerance.push_back(of_sum(n) * (std::abs(expected.back()) + (offset + 10) * factor));
      }
      expect_close(result_of(n, [&](float* out) { kernels_->layer_norm(x.data(), 1e-3F, n, out); }),
                   expected, tolerance);
      Floats in_place = x;
      kernels_->layer_norm(in_place.data(), 1e-3F, n, in_place.data());
      expect_close(in_place, expected, tolerance);
    }
  }
}

TEST_P(Rows, NormsKeepNan) {
  for (int64_t n = 1; n <= kLongest; ++n) {
    Floats x = random(n);
    x.back() = kNan;
    const Floats rms =
        result_of(n, [&](float* out) { kernels_->rms_norm(x.data(), nullptr, 0, n, out); });
    const Floats layer =
        result_of(n, [&](float* out) { kernels_->layer_norm(x.data(), 0, n, out); });
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_TRUE(std::isnan(at(rms, i)) && std::isnan(at(layer, i)));
    }
  }
}

// --- softmax ----------------------------------------------------------------------------------

// The exponent is rounded relative to its size, and every result with it.
TEST_P(Rows, SoftmaxOfEveryLengthIsRight) {
  for (int64_t n = 1; n <= 1100; n += n < kLongest ? 1 : 499) {
    for (const bool masked : {false, true}) {
      const Floats x = random(n, 8.0F);
      Floats mask = random(n);
      for (int64_t i = 1; i < n; i += 3) {
        mask[static_cast<size_t>(i)] = -kInfinity;
      }
      std::vector<double> expected;
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t i = 0; i < n; ++i) {
        expected.push_back(double{at(x, i)} * 0.5 + (masked ? double{at(mask, i)} : 0.0));
        largest = std::max(largest, expected.back());
      }
      double sum = 0;
      for (double& value : expected) {
        value = std::exp(value - largest);
        sum += value;
      }
      std::vector<double> tolerance;
      for (double& value : expected) {
        value /= sum;
        tolerance.push_back((32 + of_sum(n) / kEps) * kEps * value);
      }
      const float* const m = masked ? mask.data() : nullptr;
      expect_close(result_of(n, [&](float* out) { kernels_->softmax(x.data(), m, 0.5F, n, out); }),
                   expected, tolerance);
      Floats in_place = x;
      kernels_->softmax(in_place.data(), m, 0.5F, n, in_place.data());
      expect_close(in_place, expected, tolerance);
    }
  }
}

TEST_P(Rows, SoftmaxIsNanWhereTorchGivesNan) {
  for (int64_t n = 1; n <= kLongest; ++n) {
    Floats hidden(static_cast<size_t>(n), -kInfinity);
    Floats unknown = random(n);
    unknown.back() = kNan;
    Floats infinite = random(n);
    infinite.back() = kInfinity;
    for (const Floats& x : {hidden, unknown}) {
      for (const float value :
           result_of(n, [&](float* out) { kernels_->softmax(x.data(), nullptr, 1, n, out); })) {
        ASSERT_TRUE(std::isnan(value));
      }
    }
    const Floats found =
        result_of(n, [&](float* out) { kernels_->softmax(infinite.data(), nullptr, 1, n, out); });
    ASSERT_TRUE(std::isnan(found.back()));
  }
}

TEST_P(Rows, SoftmaxTakesLargeValues) {
  const Floats x = {1e30F, -1e30F, 1e30F, -kInfinity, 0.0F};
  const Floats found =
      result_of(5, [&](float* out) { kernels_->softmax(x.data(), nullptr, 1, 5, out); });
  EXPECT_EQ(found, (Floats{0.5F, 0.0F, 0.5F, 0.0F, 0.0F}));
}

// --- rope and halves --------------------------------------------------------------------------

TEST_P(Rows, PairsAreRotated) {
  for (const bool neox : {false, true}) {
    for (int64_t n_dims = 0; n_dims <= kLongest; n_dims += 2) {
      const int64_t half = n_dims / 2;
      const int64_t n = n_dims + 7;
      const Floats x = random(n);
      const Floats angles = random(half, 10.0F);
      Floats cosines;
      Floats sines;
      for (const float angle : angles) {
        cosines.push_back(std::cos(angle));
        sines.push_back(std::sin(angle));
      }
      std::vector<double> expected(x.begin(), x.end());
      std::vector<double> tolerance(static_cast<size_t>(n), 0.0);
      for (int64_t i = 0; i < half; ++i) {
        const auto first = static_cast<size_t>(neox ? i : 2 * i);
        const auto second = static_cast<size_t>(neox ? i + half : 2 * i + 1);
        const double c = double{at(cosines, i)};
        const double s = double{at(sines, i)};
        expected[first] = double{x[first]} * c - double{x[second]} * s;
        expected[second] = double{x[first]} * s + double{x[second]} * c;
        const double size = std::abs(double{x[first]}) + std::abs(double{x[second]});
        tolerance[first] = tolerance[second] = 1.5 * kEps * size;
      }
      const auto rotate = [&](const float* from, float* to) {
        kernels_->rope(from, cosines.data(), sines.data(), n_dims, n, neox, to);
      };
      expect_close(result_of(n, [&](float* out) { rotate(x.data(), out); }), expected, tolerance);
      Floats in_place = x;
      rotate(in_place.data(), in_place.data());
      expect_close(in_place, expected, tolerance);
    }
  }
}

TEST_P(Rows, PlanesBecomePixels) {
  for (int64_t n_planes = 2; n_planes <= 4; ++n_planes) {
    for (int64_t n = 0; n <= kLongest; ++n) {
      const int64_t stride = n + 3;
      // Exactly as far as they are read, so that a sanitizer sees any access beyond.
      const Floats x = random((n_planes - 1) * stride + n);
      Floats expected;
      for (int64_t i = 0; i < n * n_planes; ++i) {
        expected.push_back(x[static_cast<size_t>(i % n_planes * stride + i / n_planes)]);
      }
      ASSERT_EQ(
          result_of(n * n_planes,
                    [&](float* out) { kernels_->interleave(x.data(), stride, n_planes, n, out); }),
          expected)
          << n << " of " << n_planes << " planes";
    }
  }
}

TEST_P(Rows, HalvesAreRoundedToNearestEven) {
  const auto check = [this](const Floats& x) {
    const auto n = static_cast<int64_t>(x.size());
    std::vector<ggml_fp16_t> found(x.size(), 4711);
    kernels_->to_f16(x.data(), n, found.data());
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(ggml_fp16_to_fp32(found[i])));
      } else {
        ASSERT_EQ(found[i], ggml_fp32_to_fp16(x[i])) << x[i];
      }
    }
  };
  for_floats(0x1p-30F, 0x1p17F, check);
  check({0.0F, -0.0F, kInfinity, -kInfinity, kNan, 65504.0F, 65519.0F, 65520.0F, 1.00048828125F,
         1.00146484375F, 0x1p-24F, 0x1p-25F, 0x1.8p-25F, 1e-45F, 1e38F, -1e38F});
  for (int64_t n = 0; n <= kLongest; ++n) {
    check(random(n));
  }
}

constexpr const char* kIsas[] = {"baseline", "avx2", "avx512"};

std::string name_of(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Every, Rows, ::testing::ValuesIn(kIsas), name_of);

TEST(RowKernels, AreNamed) {
  ASSERT_NE(row_kernels_named("baseline"), nullptr);
  EXPECT_STREQ(row_kernels_named("baseline")->isa, "baseline");
  EXPECT_EQ(row_kernels_named("abacus"), nullptr);
  EXPECT_EQ(&row_kernels(), row_kernels_named(row_kernels().isa));
}

}  // namespace
}  // namespace executorch_ggml
