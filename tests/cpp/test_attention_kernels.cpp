// Attention against the same in double precision, for every instruction set that this machine
// runs: every element type, mask, rest of a block and of a vector, and what must not be seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ggml.h"
#include "runtime/kernels/attention_kernels.h"
#include "tests/cpp/random_values.h"

namespace executorch_ggml {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kEps = std::numeric_limits<float>::epsilon();
constexpr float kUntouched = 4711.0F;

using Floats = std::vector<float>;

enum class Mask { None, Causal, Window, Random };

// The keys or the values of one head among others in a cache: rows with anything between them.
class Cache {
 public:
  Cache() = default;
  Cache(ggml_type type, int64_t dim, int64_t gap)
      : type_(type), dim_(dim), stride_(ggml_row_size(type, dim) + static_cast<size_t>(gap)) {}

  void append(const Floats& row) {
    const size_t start = bytes_.size();
    bytes_.resize(start + stride_, std::byte{0xFF});
    ggml_quantize_chunk(type_, row.data(), bytes_.data() + start, 0, 1, dim_, nullptr);
    Floats widened = row;
    if (type_ != GGML_TYPE_F32) {
      ggml_get_type_traits(type_)->to_float(bytes_.data() + start, widened.data(), dim_);
    }
    rows_.push_back(widened);
  }
  // Without the gap behind the last row, so that a sanitizer sees any read beyond it.
  void finish() {
    if (!rows_.empty()) {
      bytes_.resize(bytes_.size() - stride_ + ggml_row_size(type_, dim_));
    }
    bytes_.shrink_to_fit();
  }
  const std::byte* data() const { return bytes_.data(); }
  size_t stride() const { return stride_; }
  double at(int64_t row, int64_t i) const {
    return double{rows_[static_cast<size_t>(row)][static_cast<size_t>(i)]};
  }

 private:
  ggml_type type_ = GGML_TYPE_F32;
  int64_t dim_ = 0;
  size_t stride_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<Floats> rows_;  // as they are stored
};

// With scratch memory of just the size that the task needs.
void attend(const AttentionKernels& kernels, AttentionTask task) {
  const size_t size = kernels.scratch_size(task.k_dim, task.v_dim, task.n_heads * task.n_kv_heads);
  const std::unique_ptr<void, decltype(&std::free)> scratch(
      std::aligned_alloc(64, (size + 63) / 64 * 64), std::free);
  std::memset(scratch.get(), 0xFF, size);  // NaN: what is not written is not to be read
  task.scratch = scratch.get();
  kernels.attend(task);
}

struct Shape {
  int64_t n_kv = 64;
  int64_t n_tokens = 1;
  int64_t n_heads = 1;
  int64_t k_dim = 64;
  int64_t v_dim = 64;
  ggml_type k_type = GGML_TYPE_F16;
  ggml_type v_type = GGML_TYPE_F16;
  Mask mask = Mask::None;
  bool mask_is_f16 = true;
  float scale = 0.125F;
  float softcap = 0.0F;
};

// Everything of a task, [token][head] for queries and results.
struct Attention {
  Shape shape;
  int64_t q_gap = 0;  // floats between heads
  int64_t out_gap = 0;
  Floats q{};
  Cache k{};
  Cache v{};
  int64_t mask_stride = 0;
  Floats mask{};  // empty: none

  int64_t n_rows() const { return shape.n_tokens * shape.n_heads; }
  float mask_at(int64_t token, int64_t key) const {
    return mask.empty() ? 0.0F : mask[static_cast<size_t>(token * mask_stride + key)];
  }
  double query(int64_t row, int64_t i) const {
    return double{q[static_cast<size_t>(row * (shape.k_dim + q_gap) + i)]};
  }

  Floats run(const AttentionKernels& kernels) const { return run(kernels, 0, shape.n_kv); }

  // From the keys between each two of `bounds`, and these results merged.
  Floats run_in_parts(const AttentionKernels& kernels, const std::vector<int64_t>& bounds) const {
    const size_t n_parts = bounds.size() - 1;
    Floats results;
    std::vector<AttentionScores> scores(n_parts * static_cast<size_t>(n_rows()));
    for (size_t part = 0; part < n_parts; ++part) {
      const Floats result = run(kernels, bounds[part], bounds[part + 1],
                                scores.data() + part * static_cast<size_t>(n_rows()));
      results.insert(results.end(), result.begin(), result.end());
    }
    Floats out(results.size() / n_parts, kUntouched);
    kernels.merge({.results = results.data(),
                   .scores = scores.data(),
                   .n_parts = static_cast<int64_t>(n_parts),
                   .n_rows = n_rows(),
                   .dim = shape.v_dim + out_gap,
                   .out = out.data()});
    return out;
  }

  // From the keys [first, end) alone.
  Floats run(const AttentionKernels& kernels, int64_t first, int64_t end,
             AttentionScores* scores = nullptr) const {
    std::vector<ggml_fp16_t> halves(mask.size());
    ggml_fp32_to_fp16_row(mask.data(), halves.data(), static_cast<int64_t>(mask.size()));
    const int64_t out_size = shape.v_dim + out_gap;
    Floats out(static_cast<size_t>(n_rows() * out_size), kUntouched);
    AttentionTask task{};
    task.q = q.data();
    task.q_head_stride = static_cast<size_t>(shape.k_dim + q_gap) * sizeof(float);
    task.q_token_stride = task.q_head_stride * static_cast<size_t>(shape.n_heads);
    task.k = k.data() + static_cast<size_t>(first) * k.stride();
    task.v = v.data() + static_cast<size_t>(first) * v.stride();
    task.k_stride = k.stride();
    task.v_stride = v.stride();
    task.k_type = shape.k_type;
    task.v_type = shape.v_type;
    task.k_dim = shape.k_dim;
    task.v_dim = shape.v_dim;
    task.n_kv = end - first;
    if (!mask.empty()) {
      task.mask = shape.mask_is_f16 ? halves.data() + first : nullptr;
      task.mask_f32 = shape.mask_is_f16 ? nullptr : mask.data() + first;
    }
    task.mask_stride = mask_stride;
    task.scale = shape.scale;
    task.softcap = shape.softcap;
    task.out = out.data();
    task.out_head_stride = static_cast<size_t>(out_size) * sizeof(float);
    task.out_token_stride = task.out_head_stride * static_cast<size_t>(shape.n_heads);
    task.n_tokens = shape.n_tokens;
    task.n_heads = shape.n_heads;
    task.scores = scores;
    task.scores_stride = shape.n_heads;
    attend(kernels, task);
    return out;
  }

  // What a row is to give; the tolerance comes of how its scores are rounded: an absolute error
  // of a score is a relative one of its weight, and grows with the terms that the score sums.
  void expect_row(const Floats& found, int64_t row) const {
    const int64_t token = row / shape.n_heads;
    std::vector<double> scores;
    std::vector<int64_t> keys;
    double most = -std::numeric_limits<double>::infinity();
    double size = 0;
    for (int64_t key = 0; key < shape.n_kv; ++key) {
      const double bias = double{mask_at(token, key)};
      if (bias == -std::numeric_limits<double>::infinity()) {
        continue;
      }
      double dot = 0;
      double terms = 0;
      for (int64_t i = 0; i < shape.k_dim; ++i) {
        const double term = query(row, i) * k.at(key, i) * double{shape.scale};
        dot += term;
        terms += std::abs(term);
      }
      const double cap = double{shape.softcap};
      scores.push_back((cap == 0 ? dot : cap * std::tanh(dot / cap)) + bias);
      keys.push_back(key);
      most = std::max(most, scores.back());
      size = std::max(size, terms + std::abs(bias));
    }
    double sum = 0;
    for (double& score : scores) {
      score = std::exp(score - most);
      sum += score;
    }
    const int64_t out_size = shape.v_dim + out_gap;
    for (int64_t i = 0; i < out_size; ++i) {
      const float result = found[static_cast<size_t>(row * out_size + i)];
      if (i >= shape.v_dim) {
        ASSERT_EQ(result, kUntouched);
        continue;
      }
      double expected = 0;
      double magnitude = 0;
      for (size_t at = 0; at < keys.size(); ++at) {
        const double term = scores[at] / sum * v.at(keys[at], i);
        expected += term;
        magnitude += std::abs(term);
      }
      ASSERT_NEAR(result, expected, (16 + 4 * size) * kEps * magnitude)
          << "element " << i << " of row " << row << ": " << describe();
    }
  }
  void expect_right(const Floats& found) const {
    for (int64_t row = 0; row < n_rows(); ++row) {
      expect_row(found, row);
    }
  }
  bool is_nan(const Floats& found, int64_t row) const {
    const auto start = found.begin() + row * (shape.v_dim + out_gap);
    return std::all_of(start, start + shape.v_dim, [](float value) { return std::isnan(value); });
  }
  std::string describe() const {
    return std::to_string(shape.n_kv) + " keys of " + std::to_string(shape.k_dim) + ", values of " +
           std::to_string(shape.v_dim) + ", " + std::to_string(shape.n_tokens) + " tokens, " +
           std::to_string(shape.n_heads) + " heads, types " + ggml_type_name(shape.k_type) + ", " +
           ggml_type_name(shape.v_type) + ", mask " + std::to_string(static_cast<int>(shape.mask));
  }
};

class Attentions : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = attention_kernels_named(GetParam());
    if (kernels_ == nullptr) {
      GTEST_SKIP() << "this machine does not run " << GetParam();
    }
  }

  int64_t draw(int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(engine_);
  }

  Floats random(int64_t n) { return testing::normal_values(n, engine_); }

  float draw_mask(const Shape& shape, int64_t token, int64_t key) {
    const int64_t position = shape.n_kv - shape.n_tokens + token;
    switch (shape.mask) {
      case Mask::Causal:
        return key <= position ? 0.0F : -kInfinity;
      case Mask::Window:
        return key <= position && key > position - 20 ? 0.0F : -kInfinity;
      default:
        return draw(0, 2) == 0 ? -kInfinity : static_cast<float>(draw(-8, 8)) / 4.0F;
    }
  }

  // A key of each position in `poisoned` is not finite, and its value as well.
  Attention make(const Shape& shape, const std::vector<int64_t>& poisoned = {}) {
    Attention a{.shape = shape, .q_gap = draw(0, 3), .out_gap = draw(0, 3)};
    a.q = random(a.n_rows() * (shape.k_dim + a.q_gap));
    a.k = Cache(shape.k_type, shape.k_dim, 4 * draw(0, 9));
    a.v = Cache(shape.v_type, shape.v_dim, 4 * draw(0, 9));
    for (int64_t key = 0; key < shape.n_kv; ++key) {
      Floats k = random(shape.k_dim);
      Floats v = random(shape.v_dim);
      if (std::find(poisoned.begin(), poisoned.end(), key) != poisoned.end()) {
        std::fill(k.begin(), k.end(), key % 2 == 0 ? kNan : kInfinity);
        std::fill(v.begin(), v.end(), key % 2 == 0 ? kInfinity : kNan);
      }
      a.k.append(k);
      a.v.append(v);
    }
    a.k.finish();
    a.v.finish();
    if (shape.mask != Mask::None) {
      a.mask_stride = shape.n_kv + draw(0, 5);
      a.mask.assign(static_cast<size_t>((shape.n_tokens - 1) * a.mask_stride + shape.n_kv), kNan);
      for (int64_t token = 0; token < shape.n_tokens; ++token) {
        for (int64_t key = 0; key < shape.n_kv; ++key) {
          a.mask[static_cast<size_t>(token * a.mask_stride + key)] = draw_mask(shape, token, key);
        }
      }
    }
    return a;
  }

  void check(const Shape& shape) {
    const Attention a = make(shape);
    a.expect_right(a.run(*kernels_));
  }

  // Shapes of both forms: one token or a few, and blocks of them.
  std::vector<Shape> forms() const {
    return {{.n_tokens = 1, .n_heads = 2},
            {.n_tokens = 2, .n_heads = 3},
            {.n_tokens = 7, .n_heads = 2},
            {.n_tokens = 32, .n_heads = 2}};
  }

  const AttentionKernels* kernels_ = nullptr;

 private:
  std::mt19937 engine_{20};
};

constexpr ggml_type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0};
constexpr Mask kMasks[] = {Mask::None, Mask::Causal, Mask::Window, Mask::Random};

TEST_P(Attentions, TakeAnyNumberOfKeys) {
  for (int64_t n_kv = 1; n_kv <= 200; n_kv += n_kv < 70 ? 1 : 13) {
    for (Shape shape : forms()) {
      shape.n_kv = n_kv;
      shape.k_dim = 32;
      shape.v_dim = 32;
      shape.mask = kMasks[draw(0, 3)];
      shape.mask_is_f16 = draw(0, 1) == 0;
      check(shape);
    }
  }
}

TEST_P(Attentions, TakeAnySizeOfKeysAndValues) {
  for (int64_t dim = 1; dim <= 140; dim += dim < 70 ? 1 : 10) {
    for (Shape shape : forms()) {
      for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        shape.n_kv = draw(1, 60);
        shape.k_type = type;
        shape.v_type = type;
        shape.k_dim = dim;
        shape.v_dim = draw(1, 140);
        check(shape);
      }
    }
  }
}

TEST_P(Attentions, TakeAnyNumberOfTokensAndHeads) {
  for (int64_t n_heads = 1; n_heads <= 9; ++n_heads) {
    for (const int64_t n_tokens : {1, 2, 3, 5, 11, 16, 17, 31, 32}) {
      check({.n_kv = draw(n_tokens, 150),
             .n_tokens = n_tokens,
             .n_heads = n_heads,
             .k_dim = 32,
             .v_dim = 64,
             .mask = kMasks[draw(0, 3)]});
    }
  }
}

TEST_P(Attentions, TakeEveryTypeMaskAndCap) {
  for (const ggml_type k_type : kTypes) {
    for (const ggml_type v_type : kTypes) {
      for (const Mask mask : kMasks) {
        for (Shape shape : forms()) {
          shape.n_kv = 130;
          shape.k_type = k_type;
          shape.v_type = v_type;
          shape.mask = mask;
          shape.mask_is_f16 = draw(0, 1) == 0;
          shape.softcap = draw(0, 1) == 0 ? 0.0F : 2.0F;
          check(shape);
        }
      }
    }
  }
}

TEST_P(Attentions, TakeTheHeadsOfRealModels) {
  for (const ggml_type type : kTypes) {
    check({.n_kv = 300, .n_heads = 2, .k_dim = 128, .v_dim = 128, .k_type = type, .v_type = type});
    check({.n_kv = 300, .n_heads = 3, .k_type = type, .v_type = type});
    check({.n_kv = 100,
           .n_tokens = 32,
           .n_heads = 4,
           .k_dim = 256,
           .v_dim = 256,
           .k_type = type,
           .v_type = type,
           .mask = Mask::Causal});
    check({.n_kv = 100, .n_heads = 16, .k_dim = 192, .v_dim = 128, .k_type = type, .v_type = type});
  }
}

// As if one after another.
TEST_P(Attentions, TakeSeveralHeadsOfKeysAtOnce) {
  constexpr int64_t kKvHeads = 3;
  constexpr int64_t kDim = 32;
  for (const ggml_type type : kTypes) {
    for (Shape shape : forms()) {
      shape.n_kv = 150;
      shape.k_dim = kKvHeads * kDim;  // the heads' keys beside each other
      shape.v_dim = kKvHeads * kDim;
      shape.k_type = type;
      shape.v_type = type;
      const Attention a = make(shape);
      const int64_t n_heads = kKvHeads * shape.n_heads;
      const Floats q = random(shape.n_tokens * n_heads * kDim);
      Floats together(q.size(), kUntouched);
      Floats alone(q.size(), kUntouched);
      AttentionTask task{};
      task.q = q.data();
      task.q_head_stride = task.out_head_stride = kDim * sizeof(float);
      task.q_token_stride = task.out_token_stride = static_cast<size_t>(n_heads) * kDim * 4;
      task.k = a.k.data();
      task.v = a.v.data();
      task.k_stride = a.k.stride();
      task.v_stride = a.v.stride();
      task.k_type = task.v_type = type;
      task.k_dim = task.v_dim = kDim;
      task.n_kv = shape.n_kv;
      task.scale = shape.scale;
      task.out = together.data();
      task.n_tokens = shape.n_tokens;
      task.n_heads = shape.n_heads;
      task.n_kv_heads = kKvHeads;
      task.k_head_stride = task.v_head_stride = ggml_row_size(type, kDim);
      attend(*kernels_, task);
      task.n_kv_heads = 1;
      for (int64_t head = 0; head < kKvHeads; ++head) {
        const auto offset = static_cast<size_t>(head) * task.k_head_stride;
        task.k = a.k.data() + offset;
        task.v = a.v.data() + offset;
        task.q = q.data() + head * shape.n_heads * kDim;
        task.out = alone.data() + head * shape.n_heads * kDim;
        attend(*kernels_, task);
      }
      ASSERT_EQ(together, alone) << a.describe();
    }
  }
}

// Also of parts without keys, or that see none.
TEST_P(Attentions, MergePartsOfTheKeys) {
  for (const Mask mask : kMasks) {
    for (Shape shape : forms()) {
      for (const float softcap : {0.0F, 3.0F}) {
        shape.n_kv = 150;
        shape.mask = mask;
        shape.softcap = softcap;
        Attention a = make(shape);
        a.out_gap = 0;
        a.expect_right(a.run_in_parts(*kernels_, {0, 150}));
        a.expect_right(a.run_in_parts(*kernels_, {0, 0, 1, 70, 70, 96, 150, 150}));
        a.expect_right(a.run_in_parts(*kernels_, {0, 16, 32, 48, 64, 80, 96, 112, 128, 150}));
      }
    }
  }
}

TEST_P(Attentions, MergePartsThatSeeNothingOrNan) {
  for (Shape shape : forms()) {
    shape.n_kv = 100;
    shape.mask = Mask::Causal;
    Attention a = make(shape, {20});
    a.out_gap = 0;
    Floats found = a.run_in_parts(*kernels_, {0, 50, 100});
    for (int64_t row = 0; row < a.n_rows(); ++row) {
      ASSERT_TRUE(a.is_nan(found, row)) << row << ": " << a.describe();
    }
    std::fill(a.mask.begin(), a.mask.end(), -kInfinity);
    found = a.run_in_parts(*kernels_, {0, 50, 100});
    ASSERT_TRUE(std::all_of(found.begin(), found.end(), [](float value) { return value == 0; }));
  }
}

// Large scores leave one key; small ones underflow beside it.
TEST_P(Attentions, TakeScoresOfAnySize) {
  for (const float scale : {0.0F, 1e-30F, 1.0F, 30.0F, 1e4F, 1e30F}) {
    for (Shape shape : forms()) {
      for (const float cap : {0.0F, 50.0F}) {
        shape.scale = scale;
        shape.softcap = cap;
        shape.mask = Mask::Causal;
        const Attention a = make(shape);
        const Floats found = a.run(*kernels_);
        for (const float value : found) {
          ASSERT_TRUE(std::isfinite(value)) << scale;
        }
        if (scale <= 30.0F) {
          a.expect_right(found);
        }
      }
    }
  }
}

TEST_P(Attentions, NeverReadWhatIsMasked) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
    for (Shape shape : forms()) {
      for (const bool f16 : {true, false}) {
        shape.n_kv = 150;
        shape.k_type = type;
        shape.v_type = type;
        shape.mask = Mask::Random;
        shape.mask_is_f16 = f16;
        const std::vector<int64_t> hidden = {0, 1, 47, 48, 63, 64, 65, 100, 149};
        Attention a = make(shape, hidden);
        for (int64_t token = 0; token < shape.n_tokens; ++token) {
          for (const int64_t key : hidden) {
            a.mask[static_cast<size_t>(token * a.mask_stride + key)] = -kInfinity;
          }
        }
        a.expect_right(a.run(*kernels_));
      }
    }
  }
}

// A key that is seen by the last token alone makes the others no less right.
TEST_P(Attentions, KeepNanToTheRowsThatSeeIt) {
  for (Shape shape : forms()) {
    for (const int64_t poisoned : {shape.n_kv - 1, shape.n_kv - 2}) {
      for (const bool key_is_finite : {true, false}) {
        shape.mask = Mask::Causal;
        Attention a = make(shape, {poisoned});
        if (key_is_finite) {
          a.k = make(shape).k;
        }
        const Floats found = a.run(*kernels_);
        for (int64_t row = 0; row < a.n_rows(); ++row) {
          if (std::isinf(a.mask_at(row / shape.n_heads, poisoned))) {
            a.expect_row(found, row);
          } else if (key_is_finite && std::isinf(a.v.at(poisoned, 0))) {
            ASSERT_EQ(found[static_cast<size_t>(row * (shape.v_dim + a.out_gap))], kInfinity);
          } else {
            ASSERT_TRUE(a.is_nan(found, row)) << row << ": " << a.describe();
          }
        }
      }
    }
  }
}

TEST_P(Attentions, KeepNanOfQueries) {
  for (const Shape& shape : forms()) {
    Attention a = make(shape);
    const int64_t poisoned = a.n_rows() - 1;
    a.q[static_cast<size_t>(poisoned * (shape.k_dim + a.q_gap) + shape.k_dim - 1)] = kNan;
    const Floats found = a.run(*kernels_);
    for (int64_t row = 0; row < poisoned; ++row) {
      a.expect_row(found, row);
    }
    ASSERT_TRUE(a.is_nan(found, poisoned)) << a.describe();
  }
}

TEST_P(Attentions, GiveZerosWhereNothingIsSeen) {
  for (Shape shape : forms()) {
    for (const int64_t n_kv : {1, 64, 100}) {
      shape.n_kv = n_kv;
      shape.mask = Mask::Random;
      Attention a = make(shape);
      const int64_t token = shape.n_tokens - 1;
      for (int64_t key = 0; key < n_kv; ++key) {
        a.mask[static_cast<size_t>(token * a.mask_stride + key)] = -kInfinity;
      }
      const Floats found = a.run(*kernels_);
      for (int64_t row = 0; row < a.n_rows(); ++row) {
        const auto start = found.begin() + row * (shape.v_dim + a.out_gap);
        if (row / shape.n_heads == token) {
          ASSERT_TRUE(
              std::all_of(start, start + shape.v_dim, [](float value) { return value == 0; }));
        } else if (n_kv > 1) {
          a.expect_row(found, row);
        }
      }
    }
  }
}

// A score of -inf that no mask hides has no weight.
TEST_P(Attentions, GiveNoWeightToAScoreOfMinusInfinity) {
  for (const Shape& shape : forms()) {
    Attention a = make(shape, {3});  // a key of infinities
    std::fill(a.q.begin(), a.q.end(), -0.5F);
    a.v = make(shape).v;
    const Floats found = a.run(*kernels_);
    for (const float value : found) {
      ASSERT_TRUE(std::isfinite(value)) << a.describe();
    }
  }
}

TEST_P(Attentions, SayWhatTheySupport) {
  EXPECT_TRUE(kernels_->supports(GGML_TYPE_F16, GGML_TYPE_F32, 1, 77));
  EXPECT_TRUE(kernels_->supports(GGML_TYPE_Q8_0, GGML_TYPE_F16, 64, 7));
  EXPECT_FALSE(kernels_->supports(GGML_TYPE_Q8_0, GGML_TYPE_F16, 48, 64));
  EXPECT_FALSE(kernels_->supports(GGML_TYPE_F16, GGML_TYPE_Q8_0, 64, 48));
  EXPECT_FALSE(kernels_->supports(GGML_TYPE_Q4_0, GGML_TYPE_F16, 64, 64));
  EXPECT_FALSE(kernels_->supports(GGML_TYPE_F16, GGML_TYPE_BF16, 64, 64));
}

constexpr const char* kIsas[] = {"baseline", "avx2", "avx512"};

std::string name_of(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Every, Attentions, ::testing::ValuesIn(kIsas), name_of);

TEST(AttentionKernels, AreNamed) {
  ASSERT_NE(attention_kernels_named("baseline"), nullptr);
  EXPECT_STREQ(attention_kernels_named("baseline")->isa, "baseline");
  EXPECT_EQ(attention_kernels_named("abacus"), nullptr);
  EXPECT_EQ(attention_kernels(), attention_kernels_named(attention_kernels()->isa));
}

}  // namespace
}  // namespace executorch_ggml
