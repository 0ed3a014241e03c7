// The products of weights with activations against plain loops, for every instruction set that
// this machine runs, every weight type it supports, and every rest that its tiles leave.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "ggml.h"
#include "runtime/kernels/matmul_kernels.h"
#include "tests/cpp/random_values.h"

namespace executorch_ggml {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kUntouched = 4711.0F;
constexpr int64_t kBlock = 32;       // activations that share a scale
constexpr int64_t kManyTokens = 64;  // for so many, a kernel may differ from that for few

constexpr ggml_type kTypes[] = {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,
                                GGML_TYPE_Q5_1, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K,
                                GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_F32};

// Memory that ends where the process may read and write no further.
class Guarded {
 public:
  explicit Guarded(size_t size) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t pages = (size + page - 1) / page;
    mapped_ = (pages + 1) * page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) {
      std::abort();
    }
    if (mprotect(base_ + pages * page, page, PROT_NONE) != 0) {
      std::abort();
    }
    begin_ = base_ + pages * page - size;
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  std::byte* data() const { return begin_; }
  float* floats() const { return reinterpret_cast<float*>(begin_); }

 private:
  std::byte* base_ = nullptr;
  std::byte* begin_ = nullptr;
  size_t mapped_ = 0;
};

// Rows of weights that lie `stride` bytes apart, the last one before a guard, and their values.
struct Weights {
  ggml_type type;
  int64_t n_rows;
  int64_t k;
  size_t stride;
  std::unique_ptr<Guarded> stored;
  std::vector<float> values;

  std::byte* row(int64_t r) const { return stored->data() + static_cast<size_t>(r) * stride; }

  void read_back() {
    values.resize(static_cast<size_t>(n_rows * k));
    for (int64_t r = 0; r < n_rows; ++r) {
      float* const to = values.data() + r * k;
      if (type == GGML_TYPE_F32) {
        std::memcpy(to, row(r), static_cast<size_t>(k) * sizeof(float));
      } else {
        ggml_get_type_traits(type)->to_float(row(r), to, k);
      }
    }
  }
};

Weights stored(ggml_type type, int64_t n_rows, int64_t k, const std::vector<float>& values,
               size_t gap = 0) {
  const size_t size = ggml_row_size(type, k);
  Weights w{type, n_rows, k, size + gap, nullptr, {}};
  w.stored = std::make_unique<Guarded>(w.stride * static_cast<size_t>(n_rows) - gap);
  for (int64_t r = 0; r < n_rows; ++r) {
    ggml_quantize_chunk(type, values.data() + r * k, w.row(r), 0, 1, k, nullptr);
  }
  w.read_back();
  return w;
}

// Tokens as a kernel reads them.
struct Prepared {
  int64_t n_tokens;
  int64_t k;
  size_t stride;
  std::unique_ptr<Guarded> rows;
};

struct Options {
  std::vector<float> bias{};      // of each row, or none
  std::vector<float> residual{};  // [token][y_stride], or none
  bool in_place = false;          // the residual is y itself
  int64_t gap = 0;                // floats of y beyond the rows
};

class MatmulTest : public ::testing::TestWithParam<std::tuple<const char*, ggml_type>> {
 protected:
  void SetUp() override {
    const auto [isa, type] = GetParam();
    kernels_ = matmul_kernels_named(isa);
    type_ = type;
    if (kernels_ == nullptr) {
      GTEST_SKIP() << "this machine does not run " << isa;
    }
    kernel_ = kernels_->kernel(type_, 1);
    if (kernel_.multiply == nullptr) {
      GTEST_SKIP() << isa << " does not read " << ggml_type_name(type_);
    }
  }

  int64_t draw(int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(engine_);
  }

  std::vector<float> random(int64_t n) { return testing::normal_values(n, engine_); }

  // As in a model: each block of its own magnitude, its values about a mean of its own.
  std::vector<float> uneven(int64_t n) {
    std::vector<float> result = random(n);
    for (size_t i = 0; i < result.size(); i += kBlock) {
      const float magnitude = std::exp(random(1).front());
      const float mean = random(1).front();
      for (size_t j = i; j < std::min(i + kBlock, result.size()); ++j) {
        result[j] = magnitude * (result[j] + mean);
      }
    }
    return result;
  }

  Weights weights(int64_t n_rows, int64_t k, size_t gap = 0) {
    return stored(type_, n_rows, k, uneven(n_rows * k), gap);
  }

  ActivationForm form_for(int64_t n_tokens) const { return kernels_->kernel(type_, n_tokens).form; }

  // The numbers of elements that a row may have, up to `most`.
  std::vector<int64_t> lengths(int64_t most) const {
    const int64_t block =
        std::max(ggml_blck_size(type_), kernel_.form == ActivationForm::Q8 ? kBlock : int64_t{1});
    std::vector<int64_t> result;
    for (int64_t k = block; k <= most; k += block) {
      result.push_back(k);
    }
    return result;
  }
  int64_t length(int64_t most) {
    const std::vector<int64_t> all = lengths(most);
    return all[static_cast<size_t>(draw(0, static_cast<int64_t>(all.size()) - 1))];
  }

  Prepared prepared(const std::vector<float>& x, int64_t k) const {
    return prepared(form_for(static_cast<int64_t>(x.size()) / k), x, k);
  }
  Prepared prepared(ActivationForm form, const std::vector<float>& x, int64_t k) const {
    Prepared p{static_cast<int64_t>(x.size()) / k, k, kernels_->prepared_size(form, k), nullptr};
    EXPECT_EQ(p.stride % 64, 0U);
    p.rows = std::make_unique<Guarded>(p.stride * static_cast<size_t>(p.n_tokens));
    const size_t bytes = static_cast<size_t>(k) * sizeof(float);
    for (int64_t token = 0; token < p.n_tokens; ++token) {
      const Guarded row(bytes);
      std::memcpy(row.data(), x.data() + token * k, bytes);
      kernels_->prepare(form, row.floats(), k,
                        p.rows->data() + static_cast<size_t>(token) * p.stride);
    }
    return p;
  }

  std::vector<float> run(const Weights& w, const Prepared& x, const Options& o = {}) const {
    const MatmulKernel kernel = kernels_->kernel(w.type, x.n_tokens);
    const int64_t stride = w.n_rows + o.gap;
    const size_t size = static_cast<size_t>(stride * x.n_tokens - o.gap);
    const size_t scratch_size = (kernels_->scratch_size(w.type, w.k) + 63) / 64 * 64;
    const Guarded scratch(scratch_size);
    std::memset(scratch.data(), 0xFF, scratch_size);
    const Guarded y(size * sizeof(float));
    std::fill_n(y.floats(), size, kUntouched);
    if (o.in_place) {
      std::copy_n(o.residual.data(), size, y.floats());
    }
    MatmulTask task{};
    task.w = w.stored->data();
    task.row_stride = w.stride;
    task.n_rows = w.n_rows;
    task.k = w.k;
    task.x = x.rows->data();
    task.n_tokens = x.n_tokens;
    task.y = y.floats();
    task.y_stride = stride;
    task.bias = o.bias.empty() ? nullptr : o.bias.data();
    task.residual = o.in_place ? y.floats() : o.residual.empty() ? nullptr : o.residual.data();
    task.scratch = scratch.data();
    kernel.multiply(task);
    return {y.floats(), y.floats() + size};
  }

  // The activations that a product reads: the products with the rows of a unit matrix.
  std::vector<float> read_back(const Prepared& x) const {
    const int64_t k = x.k;
    const bool q8 = kernel_.form == ActivationForm::Q8;
    const ggml_type type = q8 ? GGML_TYPE_Q8_0 : GGML_TYPE_F32;
    const size_t size = ggml_row_size(type, k);
    Weights unit{type, k, k, size, std::make_unique<Guarded>(size * static_cast<size_t>(k)), {}};
    for (int64_t i = 0; i < k; ++i) {
      if (q8) {  // a block is its scale in F16 and 32 bytes
        std::byte* const block = unit.row(i) + ggml_row_size(type, i / kBlock * kBlock);
        const ggml_fp16_t one = ggml_fp32_to_fp16(1.0F);
        std::memcpy(block, &one, sizeof(one));
        block[sizeof(one) + static_cast<size_t>(i % kBlock)] = std::byte{1};
      } else {
        const float one = 1.0F;
        std::memcpy(unit.row(i) + static_cast<size_t>(i) * sizeof(one), &one, sizeof(one));
      }
    }
    return run(unit, x);
  }

  // The weights that a product of so many tokens reads: the products with unit vectors.
  std::vector<float> weights_read(const Weights& w, int64_t n_tokens) const {
    std::vector<float> values(w.values.size());
    for (int64_t first = 0; first < w.k; first += n_tokens) {
      std::vector<float> units(static_cast<size_t>(n_tokens * w.k));
      const int64_t n = std::min(n_tokens, w.k - first);
      for (int64_t i = 0; i < n; ++i) {
        units[static_cast<size_t>(i * w.k + first + i)] = 1.0F;
      }
      const std::vector<float> found = run(w, prepared(units, w.k));
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t row = 0; row < w.n_rows; ++row) {
          values[static_cast<size_t>(row * w.k + first + i)] =
              found[static_cast<size_t>(i * w.n_rows + row)];
        }
      }
    }
    return values;
  }

  bool rounds_weights(int64_t n_tokens) const { return form_for(n_tokens) == ActivationForm::BF16; }

  // Against weights as a product of so many tokens reads them.
  void expect_products(const Weights& w, const std::vector<float>& x,
                       const std::vector<float>& found, const Options& o, double tolerance) const {
    const int64_t n_tokens = static_cast<int64_t>(x.size()) / w.k;
    const std::vector<float> values =
        rounds_weights(n_tokens) ? weights_read(w, kManyTokens) : w.values;
    expect_products_of(values, w, x, found, o, tolerance);
  }

  void expect_products_of(const std::vector<float>& values, const Weights& w,
                          const std::vector<float>& x, const std::vector<float>& found,
                          const Options& o, double tolerance) const {
    const int64_t n_tokens = static_cast<int64_t>(x.size()) / w.k;
    const int64_t stride = w.n_rows + o.gap;
    ASSERT_EQ(found.size(), static_cast<size_t>(stride * n_tokens - o.gap));
    for (int64_t token = 0; token < n_tokens; ++token) {
      for (int64_t row = 0; row < stride; ++row) {
        const auto at = static_cast<size_t>(token * stride + row);
        if (row >= w.n_rows) {
          if (at < found.size()) {
            ASSERT_EQ(found[at], o.in_place ? o.residual[at] : kUntouched) << "beyond the rows";
          }
          continue;
        }
        double sum = 0;
        double magnitude = 0;
        const auto add = [&](double term) {
          sum += term;
          magnitude += std::abs(term);
        };
        for (int64_t i = 0; i < w.k; ++i) {
          add(double{values[static_cast<size_t>(row * w.k + i)]} *
              double{x[static_cast<size_t>(token * w.k + i)]});
        }
        add(o.bias.empty() ? 0 : double{o.bias[static_cast<size_t>(row)]});
        add(o.residual.empty() ? 0 : double{o.residual[at]});
        ASSERT_NEAR(found[at], sum, tolerance * magnitude)
            << "row " << row << " of " << w.n_rows << ", token " << token << " of " << n_tokens
            << ", " << w.k << " elements";
      }
    }
  }

  // Against what the product reads.
  void check(int64_t n_rows, int64_t n_tokens, int64_t k) {
    const Weights w = weights(n_rows, k, static_cast<size_t>(draw(0, 1) * 36));
    const std::vector<float> x = uneven(n_tokens * k);
    Options o{.gap = draw(0, 2) * 3};
    const auto size = (n_rows + o.gap) * n_tokens - o.gap;
    if (draw(0, 1) == 1) {
      o.bias = random(n_rows);
    }
    if (draw(0, 2) != 0) {
      o.residual = random(size);
      o.in_place = draw(0, 1) == 1;
    }
    const Prepared p = prepared(x, k);
    expect_products(w, read_back(p), run(w, p, o), o, 1e-5);
  }

  const MatmulKernels* kernels_ = nullptr;
  MatmulKernel kernel_;
  ggml_type type_ = GGML_TYPE_F32;

 private:
  std::mt19937 engine_{20};
};

TEST_P(MatmulTest, ReadsActivationsAsTheirFormSays) {
  for (const int64_t k : lengths(600)) {
    const int64_t n_tokens = draw(0, 1) == 0 ? 3 : kManyTokens;
    std::vector<float> x = uneven(n_tokens * k);
    std::fill_n(x.begin(), std::min(k, kBlock), 0.0F);
    const std::vector<float> found = read_back(prepared(x, k));
    for (size_t i = 0; i < x.size(); ++i) {
      if (form_for(n_tokens) == ActivationForm::F32) {
        ASSERT_FLOAT_EQ(found[i], x[i]);
        continue;
      }
      if (form_for(n_tokens) == ActivationForm::BF16) {  // half a unit in the last of 8 bits
        ASSERT_NEAR(found[i], x[i], 0x1p-8 * std::abs(double{x[i]}));
        continue;
      }
      float largest = 0;
      for (size_t j = i / kBlock * kBlock; j < (i / kBlock + 1) * kBlock; ++j) {
        largest = std::max(largest, std::abs(x[j]));
      }
      ASSERT_NEAR(found[i], x[i], 1.001 * double{largest} / 254) << i << " of " << k;
      ASSERT_LE(std::abs(found[i]), largest * 1.000001F);
    }
  }
}

TEST_P(MatmulTest, ReadsWeightsAsTheyAreOrToTheNearestBf16) {
  for (const int64_t n_tokens : {1, 20, 64}) {
    const Weights w = weights(37, length(600));
    const std::vector<float> found = weights_read(w, n_tokens);
    // Half a unit in the last of 8 bits.
    const double rounding = rounds_weights(n_tokens) ? 0x1p-8 : 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const auto row = w.values.begin() + static_cast<ptrdiff_t>(i) / w.k * w.k;
      const auto [low, high] = std::minmax_element(row, row + w.k);
      const double largest = std::max(std::abs(*low), std::abs(*high));
      // A scale and a minimum may cancel, and that of an activation of 1 is rounded itself.
      ASSERT_NEAR(found[i], w.values[i], rounding * std::abs(double{w.values[i]}) + 1e-6 * largest);
    }
  }
}

TEST_P(MatmulTest, TakesAnyNumberOfTokens) {
  for (int64_t n_tokens = 1; n_tokens <= 40; ++n_tokens) {
    check(draw(1, 40), n_tokens, length(768));
  }
  for (int64_t n_tokens = 61; n_tokens <= 100; ++n_tokens) {
    check(draw(1, 40), n_tokens, length(512));
  }
}

TEST_P(MatmulTest, TakesAnyNumberOfRows) {
  for (int64_t n_rows = 1; n_rows <= 70; ++n_rows) {
    check(n_rows, draw(1, 6), length(768));
    check(n_rows, draw(7, 30), length(768));
    check(n_rows, draw(64, 100), length(256));
  }
}

TEST_P(MatmulTest, TakesAnyNumberOfElements) {
  for (const int64_t k : lengths(kernel_.form == ActivationForm::Q8 ? 1600 : 80)) {
    check(draw(1, 20), draw(1, 6), k);
    check(draw(1, 20), draw(7, 30), k);
    if (kernel_.form == ActivationForm::Q8) {
      check(draw(1, 40), draw(64, 70), k);
    }
  }
}

TEST_P(MatmulTest, TakesLongRows) {
  for (const int64_t n_tokens : {1, 3, 13, 70}) {
    check(17, n_tokens, lengths(5000).back());
    check(17, n_tokens, lengths(2400).back());
  }
  check(2, 1, 24576);  // longer than what is unpacked at a time
}

// More activations than any cache holds beside the weights.
TEST_P(MatmulTest, TakesManyTokens) {
  constexpr int64_t kElements = 512;
  constexpr int64_t kTokens = 2200;
  const Weights w = weights(19, kElements);
  const std::vector<float> x = uneven(kTokens * kElements);
  const Prepared p = prepared(x, kElements);
  expect_products(w, read_back(p), run(w, p), {}, 1e-5);
}

TEST_P(MatmulTest, IsNearTheProductOfTheActivationsThemselves) {
  constexpr int64_t kElements = 1024;
  for (const int64_t n_tokens : {1, 3, 20, 70}) {
    const Weights w = weights(20, kElements);
    const std::vector<float> x = random(n_tokens * kElements);
    // Rounding of weights to BF16 is far less than that of activations to Q8. Of normal
    // values the largest of 32 is about 2.2, and the mean magnitude 0.8; errors cancel.
    const double tolerance = kernel_.form == ActivationForm::Q8 ? 2.5 / 0.8 / 254 : 1e-5;
    expect_products_of(w.values, w, x, run(w, prepared(x, kElements)), {}, tolerance);
  }
}

// All at once as large as they get, of either sign.
TEST_P(MatmulTest, TakesTheLargestIntegers) {
  constexpr int64_t kElements = 512;
  for (const int64_t n_tokens : {1, 2, 3, 4, 20, 70}) {
    for (const float weight : {1.0F, -1.0F}) {
      for (const float value : {3.0F, -3.0F}) {
        const Weights w = stored(type_, 17, kElements, std::vector<float>(17 * kElements, weight));
        const std::vector<float> x(static_cast<size_t>(n_tokens * kElements), value);
        expect_products(w, x, run(w, prepared(x, kElements)), {}, 1e-5);
      }
    }
  }
}

TEST_P(MatmulTest, GivesZeroForZeros) {
  for (const int64_t n_tokens : {1, 2, 5, 20, 70}) {
    const int64_t k = 512;
    const std::vector<float> zeros(static_cast<size_t>(n_tokens * k));
    const Weights w = weights(20, k);
    for (const float value : run(w, prepared(zeros, k))) {
      ASSERT_EQ(value, 0.0F);
    }
    const Weights nothing = stored(type_, 20, k, std::vector<float>(size_t{20} * 512));
    for (const float value : run(nothing, prepared(random(n_tokens * k), k))) {
      ASSERT_EQ(value, 0.0F);
    }
  }
}

// A kernel may look at what lies behind a row; none of it counts, not even what is no number.
TEST_P(MatmulTest, KeepsRowsApart) {
  constexpr int64_t kRows = 9;
  for (const int64_t k : lengths(kernel_.form == ActivationForm::Q8 ? 800 : 40)) {
    const int64_t n_tokens = draw(0, 2) == 0 ? draw(5, 20) : draw(1, 4);
    Weights w = weights(kRows, k);
    const Prepared x = prepared(uneven(n_tokens * k), k);
    const std::vector<float> expected = run(w, x);
    const int64_t row = draw(0, kRows - 1);
    for (int64_t other = 0; other < kRows; ++other) {
      if (other != row) {
        std::memset(w.row(other), 0xFF, w.stride);
      }
    }
    const std::vector<float> found = run(w, x);
    for (int64_t token = 0; token < n_tokens; ++token) {
      const auto at = static_cast<size_t>(token * kRows + row);
      ASSERT_EQ(found[at], expected[at]) << "row " << row << ", " << k << " elements";
    }
  }
}

// An element that is not finite is of its token alone.
TEST_P(MatmulTest, KeepsNanAndInfinityToTheirToken) {
  constexpr int64_t kElements = 512;
  for (const int64_t n_tokens : {1, 2, 3, 5, 9, 30, 70}) {
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      const Weights w = weights(21, kElements);
      std::vector<float> x = random(n_tokens * kElements);
      const int64_t bad = draw(0, n_tokens - 1);
      x[static_cast<size_t>(bad * kElements + draw(0, kElements - 1))] = value;
      const std::vector<float> found = run(w, prepared(x, kElements));
      for (int64_t token = 0; token < n_tokens; ++token) {
        for (int64_t row = 0; row < 21; ++row) {
          const float y = found[static_cast<size_t>(token * 21 + row)];
          ASSERT_EQ(std::isfinite(y), token != bad) << y;
          if (kernel_.form == ActivationForm::Q8) {
            ASSERT_EQ(std::isnan(y), token == bad);
          }
        }
      }
    }
  }
}

TEST_P(MatmulTest, TakesActivationsOfAnyMagnitude) {
  constexpr int64_t kElements = 512;
  for (const float magnitude : {1e-45F, 1e-39F, 1e-37F, 1e-30F, 1e-10F, 1e5F, 1e10F, 1e30F}) {
    for (const int64_t n_tokens : {1, 20, 70}) {
      const Weights w = weights(20, kElements);
      std::vector<float> x = random(n_tokens * kElements);
      for (float& value : x) {
        value *= magnitude;
      }
      const std::vector<float> found = run(w, prepared(x, kElements));
      for (int64_t token = 0; token < n_tokens; ++token) {
        for (int64_t row = 0; row < 20; ++row) {
          double sum = 0;
          double size = 0;
          for (int64_t i = 0; i < kElements; ++i) {
            const double term = double{w.values[static_cast<size_t>(row * kElements + i)]} *
                                double{x[static_cast<size_t>(token * kElements + i)]};
            sum += term;
            size += std::abs(term);
          }
          // What is too small for a normal float may be lost.
          ASSERT_NEAR(found[static_cast<size_t>(token * 20 + row)], sum, 0.02 * size + 1e-33)
              << magnitude;
        }
      }
    }
  }
}

constexpr const char* kIsas[] = {"amx", "avx512", "avx2", "neon"};

std::string name_of(const ::testing::TestParamInfo<MatmulTest::ParamType>& info) {
  return std::string(std::get<0>(info.param)) + "_" + ggml_type_name(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Every, MatmulTest,
                         ::testing::Combine(::testing::ValuesIn(kIsas),
                                            ::testing::ValuesIn(kTypes)),
                         name_of);

TEST(MatmulKernels, AreNamed) {
  EXPECT_EQ(matmul_kernels_named("abacus"), nullptr);
  const MatmulKernels* const best = matmul_kernels();
  if (best != nullptr) {
    EXPECT_EQ(best, matmul_kernels_named(best->isa));
    EXPECT_EQ(best->kernel(GGML_TYPE_I32, 1).multiply, nullptr);
  }
}

}  // namespace
}  // namespace executorch_ggml
