// update_and_attend and attention against a naive float reference, through the
// whole delegate: session, graph cache, fills, compute, commit.
#include <executorch/extension/tensor/tensor_ptr_maker.h>
#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "runtime/delegate.h"
#include "tests/cpp/program_writer.h"
#include "tests/cpp/random_values.h"

namespace executorch_ggml {
namespace {

using executorch::runtime::EValue;
using testing::Dim;
using testing::f32;
using testing::GraphWriter;
using testing::i32;

struct Shape {
  uint32_t head_dim = 8;
  uint32_t v_head_dim = 8;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t batch = 1;
  uint32_t window = 0;
  double softcap = 0;
  bool causal = true;
  uint32_t max_capacity = 1024;

  size_t q_row() const { return size_t{head_dim} * heads; }
  size_t k_row() const { return size_t{head_dim} * kv_heads; }
  size_t v_row() const { return size_t{v_head_dim} * kv_heads; }
  size_t out_row() const { return size_t{v_head_dim} * heads; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(head_dim)); }
};

// Two layers that share their positions; the second one sees the same q, k and v
// but keeps its own cache. Output: the sum of both.
std::vector<uint8_t> cache_program(const Shape& s) {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 64, /*input=*/0, /*dim=*/1);
  const auto spec = [&](uint32_t d, uint32_t h) { return f32({d, h, n, s.batch}); };
  const auto input = [&](uint32_t d, uint32_t h) {
    return g.input(spec(d, h), testing::kFloat, {s.batch, n, h, d});
  };
  const ValueId q = input(s.head_dim, s.heads);
  const ValueId k = input(s.head_dim, s.kv_heads);
  const ValueId v = input(s.v_head_dim, s.kv_heads);
  const ValueId positions = g.input(i32({n}));
  ValueId sum = kAbsent;
  for (const char* name : {"layer.0", "layer.1"}) {
    const int64_t state =
        g.kv_cache(name, s.head_dim, s.kv_heads, 16, s.max_capacity, s.batch, s.window);
    g.graph.states.back().v_head_dim = s.v_head_dim;
    const ValueId y =
        g.call(Op::UpdateAndAttend, {q, k, v, positions}, spec(s.v_head_dim, s.heads),
               {state, s.causal ? 1 : 0, 1}, {static_cast<double>(s.scale()), s.softcap});
    sum = sum == kAbsent ? y : g.call(Op::Add, {sum, y}, spec(s.v_head_dim, s.heads));
  }
  g.output(sum, testing::kFloat, {s.batch, n, s.heads, s.v_head_dim});
  return g.finish();
}

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  return testing::normal_values(static_cast<int64_t>(count), engine);
}

// q, k and v of a whole sequence, [batch][position][head][dim].
struct Sequence {
  Shape shape;
  int64_t length = 0;
  std::vector<float> q, k, v;

  Sequence(const Shape& s, int64_t n, uint32_t seed = 1)
      : shape(s),
        length(n),
        q(random_values(s.q_row() * static_cast<size_t>(n) * s.batch, seed)),
        k(random_values(s.k_row() * static_cast<size_t>(n) * s.batch, seed + 1)),
        v(random_values(s.v_row() * static_cast<size_t>(n) * s.batch, seed + 2)) {}

  std::vector<float> slice(const std::vector<float>& from, size_t row, int64_t first,
                           int64_t count) const {
    std::vector<float> out;
    for (size_t b = 0; b < shape.batch; ++b) {
      const size_t start = (b * static_cast<size_t>(length) + static_cast<size_t>(first)) * row;
      const auto begin = from.begin() + static_cast<ptrdiff_t>(start);
      out.insert(out.end(), begin,
                 begin + static_cast<ptrdiff_t>(static_cast<size_t>(count) * row));
    }
    return out;
  }

  // softmax(softcap(scale q k)) v in double, for the queries [first, first + count)
  // when the cache ends at `end`; twice, for the two layers.
  std::vector<float> reference(int64_t first, int64_t count, int64_t end) const {
    const Shape& s = shape;
    std::vector<float> out;
    for (size_t b = 0; b < s.batch; ++b) {
      for (int64_t i = first; i < first + count; ++i) {
        for (size_t h = 0; h < s.heads; ++h) {
          const size_t g = h / (s.heads / s.kv_heads);
          std::vector<double> weights;
          const int64_t last = s.causal ? i : end - 1;
          const int64_t begin = s.window > 0 ? std::max<int64_t>(0, i - s.window + 1) : 0;
          for (int64_t j = begin; j <= last; ++j) {
            double dot = 0;
            for (size_t d = 0; d < s.head_dim; ++d) {
              dot += static_cast<double>(at(q, s.q_row(), b, i, h * s.head_dim + d)) *
                     static_cast<double>(at(k, s.k_row(), b, j, g * s.head_dim + d));
            }
            dot *= static_cast<double>(s.scale());
            weights.push_back(s.softcap > 0 ? s.softcap * std::tanh(dot / s.softcap) : dot);
          }
          const double top = *std::max_element(weights.begin(), weights.end());
          double total = 0;
          for (double& w : weights) {
            w = std::exp(w - top);
            total += w;
          }
          for (size_t d = 0; d < s.v_head_dim; ++d) {
            double mixed = 0;
            for (int64_t j = begin; j <= last; ++j) {
              mixed += weights[static_cast<size_t>(j - begin)] *
                       static_cast<double>(at(v, s.v_row(), b, j, g * s.v_head_dim + d));
            }
            out.push_back(static_cast<float>(2 * mixed / total));
          }
        }
      }
    }
    return out;
  }

 private:
  float at(const std::vector<float>& from, size_t row, size_t b, int64_t i, size_t c) const {
    return from[(b * static_cast<size_t>(length) + static_cast<size_t>(i)) * row + c];
  }
};

RuntimeOptions options_of(CacheType type, bool flash, int64_t context = 0, int n_threads = 1) {
  RuntimeOptions options;
  options.n_threads = n_threads;
  options.cache_type = type;
  options.flash_attention = flash;
  options.context = context;
  return options;
}

class Attention : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { executorch::runtime::runtime_init(); }
};

std::unique_ptr<Delegate> load(const std::vector<uint8_t>& blob, const RuntimeOptions& options) {
  LoadRequest request;
  request.blob = blob;
  request.options = options;
  std::unique_ptr<Delegate> delegate;
  const Status status = Delegate::load(request, delegate);
  EXPECT_TRUE(status.ok()) << status.message();
  return delegate;
}

// Runs positions [first, first + count) of the sequence.
Status run(Delegate& delegate, const Sequence& seq, int64_t first, int64_t count,
           std::vector<float>& out) {
  using executorch::aten::ScalarType;
  using executorch::extension::from_blob;
  const Shape& s = seq.shape;
  const auto n = static_cast<int32_t>(count);
  const auto batch = static_cast<int32_t>(s.batch);
  std::vector<float> q = seq.slice(seq.q, s.q_row(), first, count);
  std::vector<float> k = seq.slice(seq.k, s.k_row(), first, count);
  std::vector<float> v = seq.slice(seq.v, s.v_row(), first, count);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < count; ++i) {
    positions.push_back(first + i);
  }
  out.assign(s.out_row() * static_cast<size_t>(count) * s.batch,
             std::numeric_limits<float>::quiet_NaN());
  const auto heads = static_cast<int32_t>(s.heads);
  const auto kv_heads = static_cast<int32_t>(s.kv_heads);
  const auto d = static_cast<int32_t>(s.head_dim);
  const auto dv = static_cast<int32_t>(s.v_head_dim);
  auto tq = from_blob(q.data(), {batch, n, heads, d});
  auto tk = from_blob(k.data(), {batch, n, kv_heads, d});
  auto tv = from_blob(v.data(), {batch, n, kv_heads, dv});
  auto tp = from_blob(positions.data(), {n}, ScalarType::Long);
  auto to = from_blob(out.data(), {batch, n, heads, dv});
  EValue values[] = {EValue(*tq), EValue(*tk), EValue(*tv), EValue(*tp), EValue(*to)};
  EValue* args[] = {&values[0], &values[1], &values[2], &values[3], &values[4]};
  return delegate.execute({args, 5}, nullptr);
}

std::vector<float> run_ok(Delegate& delegate, const Sequence& seq, int64_t first, int64_t count) {
  std::vector<float> out;
  const Status status = run(delegate, seq, first, count, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

float max_error(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float error = std::abs(a[i] - b[i]);
    worst = std::isnan(error) ? std::numeric_limits<float>::infinity() : std::max(worst, error);
  }
  return worst;
}

// Outputs are sums of two averages of unit normals, so errors are about absolute.
// F32: rounding of sums over some dozen terms. F16: keys, queries and values are
// rounded to 11 bits; flash attention with F16 values also sums them in F16.
// Q8_0: values up to 3 in steps of 3 / 127, so each value is off by up to 0.012 and,
// with keys and queries rounded alike, a score by up to 0.04; twice that for two
// layers.
float tolerance(CacheType type, bool flash) {
  switch (type) {
    case CacheType::F32:
      return 2e-5F;
    case CacheType::F16:
      return flash ? 1e-2F : 5e-3F;
    case CacheType::Q8_0:
      return 0.1F;
  }
  return 0;
}

struct Form {
  CacheType type;
  bool flash;
};

const Form kForms[] = {{CacheType::F32, false},
                       {CacheType::F16, false},
                       {CacheType::F32, true},
                       {CacheType::F16, true},
                       {CacheType::Q8_0, true}};

std::string name_of(const Form& form) {
  return std::string(cache_type_name(form.type)) + (form.flash ? " flash" : " explicit");
}

std::vector<Shape> shapes() {
  return {
      {},
      {.heads = 6, .kv_heads = 6},
      {.heads = 9, .kv_heads = 3},
      {.heads = 8, .kv_heads = 1},
      {.v_head_dim = 16},
      {.batch = 2},
      {.window = 3},
      {.softcap = 2.0},
      {.causal = false},
      {.head_dim = 64, .v_head_dim = 64, .heads = 2, .kv_heads = 1},
  };
}

TEST_F(Attention, PrefillDecodeAndChunksMatchTheReferenceInEveryForm) {
  for (const Form& form : kForms) {
    for (Shape shape : shapes()) {
      if (form.type == CacheType::Q8_0) {  // whole blocks per head
        shape.head_dim = shape.v_head_dim = 32;
      }
      SCOPED_TRACE(name_of(form) + ", heads " + std::to_string(shape.heads) + "/" +
                   std::to_string(shape.kv_heads) + ", batch " + std::to_string(shape.batch) +
                   ", window " + std::to_string(shape.window) + ", causal " +
                   std::to_string(shape.causal) + ", softcap " + std::to_string(shape.softcap));
      const Sequence seq(shape, 50);
      const float limit = tolerance(form.type, form.flash);
      // Heads that threads cannot share evenly are computed from parts of the keys.
      for (const int n_threads : {1, 5}) {
        const auto delegate =
            load(cache_program(shape), options_of(form.type, form.flash, 0, n_threads));
        ASSERT_NE(delegate, nullptr);
        for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{
                 {0, 17}, {17, 1}, {18, 1}, {19, 5}, {24, 20}, {44, 1}, {45, 4}, {49, 1}}) {
          EXPECT_LE(max_error(run_ok(*delegate, seq, first, count),
                              seq.reference(first, count, first + count)),
                    limit)
              << "positions " << first << " +" << count << ", " << n_threads << " threads";
        }
      }
    }
  }
}

TEST_F(Attention, OneCallChunksAndSingleTokensAgree) {
  for (const Form& form : {kForms[0], kForms[1]}) {
    const Shape shape;
    const Sequence seq(shape, 40);
    const auto whole = load(cache_program(shape), options_of(form.type, form.flash));
    const auto chunks = load(cache_program(shape), options_of(form.type, form.flash));
    const auto single = load(cache_program(shape), options_of(form.type, form.flash));
    const std::vector<float> all = run_ok(*whole, seq, 0, 40);
    std::vector<float> in_chunks;
    std::vector<float> one_by_one;
    for (int64_t i = 0; i < 40; i += 8) {
      const std::vector<float> part = run_ok(*chunks, seq, i, 8);
      in_chunks.insert(in_chunks.end(), part.begin(), part.end());
    }
    for (int64_t i = 0; i < 40; ++i) {
      const std::vector<float> part = run_ok(*single, seq, i, 1);
      one_by_one.insert(one_by_one.end(), part.begin(), part.end());
    }
    // The sums run over the same 256 rows in other groupings: rounding only.
    EXPECT_LE(max_error(in_chunks, all), 1e-5F) << name_of(form);
    EXPECT_LE(max_error(one_by_one, all), 1e-5F) << name_of(form);
  }
}

TEST_F(Attention, TheGraphStaysTheSameUntilTheNextBlockOfRows) {
  const Shape shape;
  const Sequence seq(shape, 300);
  const auto delegate = load(cache_program(shape), options_of(CacheType::F16, false, 512));
  for (int64_t i = 0; i < 250; i += 50) {
    run_ok(*delegate, seq, i, 50);
  }
  const auto before = delegate->graph_cache().stats();
  EXPECT_EQ(before.misses, 1U);
  for (int64_t i = 250; i < 270; ++i) {
    EXPECT_LE(max_error(run_ok(*delegate, seq, i, 1), seq.reference(i, 1, i + 1)),
              tolerance(CacheType::F16, false));
  }
  // One plan for one token with 256 rows, one with 512.
  EXPECT_EQ(delegate->graph_cache().stats().misses, before.misses + 2);
  EXPECT_EQ(delegate->graph_cache().stats().hits, before.hits + 18);
}

TEST_F(Attention, CapacityThatIsNoMultipleOfABlockIsUsedToItsEnd) {
  const Shape shape;
  const Sequence seq(shape, 64);
  const auto delegate = load(cache_program(shape), options_of(CacheType::F32, false, 37));
  run_ok(*delegate, seq, 0, 36);
  EXPECT_LE(max_error(run_ok(*delegate, seq, 36, 1), seq.reference(36, 1, 37)), 2e-5F);
}

TEST_F(Attention, OverflowAndGapsAreErrorsAfterWhichTheSessionGoesOn) {
  const Shape shape;
  const Sequence seq(shape, 64);
  const auto delegate = load(cache_program(shape), options_of(CacheType::F32, false, 20));
  run_ok(*delegate, seq, 0, 18);
  std::vector<float> out;
  const Status overflow = run(*delegate, seq, 18, 3, out);
  EXPECT_EQ(overflow.code(), StatusCode::InvalidState);
  EXPECT_NE(overflow.message().find("position 20 is past the capacity 20"), std::string::npos)
      << overflow.message();
  const Status gap = run(*delegate, seq, 19, 1, out);
  EXPECT_EQ(gap.code(), StatusCode::InvalidState);
  EXPECT_LE(max_error(run_ok(*delegate, seq, 18, 2), seq.reference(18, 2, 20)), 2e-5F);
  EXPECT_EQ(run(*delegate, seq, 20, 1, out).code(), StatusCode::InvalidState);
  // Going back is how a full cache is used again.
  EXPECT_LE(max_error(run_ok(*delegate, seq, 10, 4), seq.reference(10, 4, 14)), 2e-5F);
}

TEST_F(Attention, GoingBackReplacesWhatFollowed) {
  for (const Form& form : kForms) {
    Shape shape;
    shape.head_dim = shape.v_head_dim = 32;
    const Sequence first(shape, 40, 1);
    Sequence second(shape, 40, 50);
    // The second sequence begins as the first did.
    const auto begin_as_first = [](std::vector<float>& to, const std::vector<float>& from,
                                   size_t row) { std::copy_n(from.begin(), row * 5, to.begin()); };
    begin_as_first(second.k, first.k, shape.k_row());
    begin_as_first(second.v, first.v, shape.v_row());
    const auto delegate = load(cache_program(shape), options_of(form.type, form.flash));
    run_ok(*delegate, first, 0, 30);
    EXPECT_LE(max_error(run_ok(*delegate, second, 5, 3), second.reference(5, 3, 8)),
              tolerance(form.type, form.flash))
        << name_of(form);
    std::vector<float> out;
    EXPECT_EQ(run(*delegate, first, 30, 1, out).code(), StatusCode::InvalidState);
  }
}

TEST_F(Attention, NanInDroppedRowsDoesNotComeBack) {
  for (const Form& form : kForms) {
    Shape shape;
    shape.head_dim = shape.v_head_dim = 32;
    Sequence poisoned(shape, 20);
    const auto delegate = load(cache_program(shape), options_of(form.type, form.flash));
    const Sequence seq(shape, 20);
    std::fill(poisoned.k.begin(), poisoned.k.end(), std::numeric_limits<float>::quiet_NaN());
    std::fill(poisoned.v.begin(), poisoned.v.end(), std::numeric_limits<float>::quiet_NaN());
    run_ok(*delegate, seq, 0, 5);
    run_ok(*delegate, poisoned, 5, 10);
    EXPECT_LE(max_error(run_ok(*delegate, seq, 5, 1), seq.reference(5, 1, 6)),
              tolerance(form.type, form.flash))
        << name_of(form);
  }
}

TEST_F(Attention, SessionsAreIndependentAndNamedOnesAreShared) {
  const Shape shape;
  const Sequence a(shape, 20, 1);
  const Sequence b(shape, 20, 9);
  const std::vector<uint8_t> blob = cache_program(shape);
  const auto first = load(blob, options_of(CacheType::F32, false));
  const auto second = load(blob, options_of(CacheType::F32, false));
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_LE(max_error(run_ok(*first, a, i, 1), a.reference(i, 1, i + 1)), 2e-5F);
    EXPECT_LE(max_error(run_ok(*second, b, i, 1), b.reference(i, 1, i + 1)), 2e-5F);
  }
  RuntimeOptions shared = options_of(CacheType::F32, false);
  shared.session = "attention-test";
  const auto prefill = load(blob, shared);
  const auto decode = load(blob, shared);
  run_ok(*prefill, a, 0, 10);
  EXPECT_LE(max_error(run_ok(*decode, a, 10, 1), a.reference(10, 1, 11)), 2e-5F);
  Session::find("attention-test")->reset();
  EXPECT_LE(max_error(run_ok(*decode, b, 0, 4), b.reference(0, 4, 4)), 2e-5F);
}

TEST_F(Attention, AForkedConversationContinuesFromTheSamePoint) {
  const Shape shape;
  const Sequence seq(shape, 20);
  const std::vector<uint8_t> blob = cache_program(shape);
  RuntimeOptions options = options_of(CacheType::F16, false);
  options.session = "fork-source";
  const auto source = load(blob, options);
  options.session = "fork-target";
  const auto target = load(blob, options);
  run_ok(*source, seq, 0, 12);
  ASSERT_TRUE(Session::fork(*Session::find("fork-source"), *Session::find("fork-target")).ok());
  EXPECT_EQ(run_ok(*source, seq, 12, 3), run_ok(*target, seq, 12, 3));
}

TEST_F(Attention, CallsOnOneSessionFromManyThreadsWaitForOneAnother) {
  const Shape shape;
  const Sequence seq(shape, 20);
  const std::vector<uint8_t> blob = cache_program(shape);
  RuntimeOptions options = options_of(CacheType::F32, false);
  options.session = "threads";
  std::vector<std::unique_ptr<Delegate>> delegates;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    delegates.push_back(load(blob, options));
  }
  const std::vector<float> expected = seq.reference(0, 20, 20);
  for (const auto& delegate : delegates) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        // Each call begins anew, so any order of whole calls gives this result.
        EXPECT_LE(max_error(run_ok(*delegate, seq, 0, 20), expected), 2e-5F);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(Attention, PositionsThatDoNotFollowOneAnotherNameTheInput) {
  const Shape shape;
  const auto delegate = load(cache_program(shape), options_of(CacheType::F32, false));
  using executorch::extension::from_blob;
  std::vector<float> q(shape.q_row() * 2), k(shape.k_row() * 2), v(shape.v_row() * 2),
      out(shape.out_row() * 2);
  std::vector<int64_t> positions = {0, 2};
  auto tq = from_blob(q.data(), {1, 2, 4, 8});
  auto tk = from_blob(k.data(), {1, 2, 2, 8});
  auto tv = from_blob(v.data(), {1, 2, 2, 8});
  auto tp = from_blob(positions.data(), {2}, executorch::aten::ScalarType::Long);
  auto to = from_blob(out.data(), {1, 2, 4, 8});
  EValue values[] = {EValue(*tq), EValue(*tk), EValue(*tv), EValue(*tp), EValue(*to)};
  EValue* args[] = {&values[0], &values[1], &values[2], &values[3], &values[4]};
  const Status status = delegate->execute({args, 5}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_NE(status.message().find("input 3"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("element 1 is position 2, expected 1"), std::string::npos);
}

TEST_F(Attention, WhatThisVersionCannotDoIsRefusedAtLoad) {
  using Edit = void (*)(Graph&);
  const std::pair<const char*, Edit> cases[] = {
      {"mask", [](Graph& g) { g.calls[0].inputs.push_back(g.inputs[0].value); }},
      {"sink", [](Graph& g) { g.calls[0].inputs.insert(g.calls[0].inputs.end(), {kAbsent, 0}); }},
      {"sequence",
       [](Graph& g) { g.calls[0].inputs.insert(g.calls[0].inputs.end(), {kAbsent, kAbsent, 0}); }},
      {"two calls", [](Graph& g) { g.calls[1].ints[0] = g.calls[0].ints[0]; }},
      {"without an update",
       [](Graph& g) {
         g.exprs.push_back({ExprOp::Const, 0, 0, 0});
         g.calls[0].ints[2] = static_cast<ExprId>(g.exprs.size() - 1);
       }},
  };
  for (const auto& [word, edit] : cases) {
    Program program;
    ASSERT_TRUE(parse_program(cache_program({}), program).ok());
    edit(program.graphs[0]);
    LoadRequest request;
    const std::vector<uint8_t> blob = testing::write_program(program);
    request.blob = blob;
    request.options = options_of(CacheType::F32, false);
    std::unique_ptr<Delegate> delegate;
    const Status status = Delegate::load(request, delegate);
    EXPECT_EQ(status.code(), StatusCode::Unsupported) << word << ": " << status.message();
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
}

// --- attention without a cache ---------------------------------------------------

std::vector<uint8_t> plain_program(const Shape& s, int64_t nq, int64_t nk, bool with_mask) {
  GraphWriter g;
  const ValueId q = g.input(f32({s.head_dim, s.heads, nq}));
  const ValueId k = g.input(f32({s.head_dim, s.kv_heads, nk}));
  const ValueId v = g.input(f32({s.v_head_dim, s.kv_heads, nk}));
  const ValueId mask = with_mask ? g.input(f32({nk, nq})) : kAbsent;
  g.output(g.call(Op::Attention, {q, k, v, mask}, f32({s.v_head_dim, s.heads, nq}),
                  {s.causal ? 1 : 0}, {static_cast<double>(s.scale())}),
           testing::kFloat, {nq, s.heads, s.v_head_dim});
  return g.finish();
}

TEST_F(Attention, WithoutACacheMatchesTheReferenceInEveryForm) {
  using executorch::extension::from_blob;
  for (const bool flash : {false, true}) {
    for (const bool with_mask : {false, true}) {
      for (const bool causal : {false, true}) {
        for (const auto& [nq, nk] :
             std::vector<std::pair<int64_t, int64_t>>{{1, 9}, {4, 9}, {9, 9}}) {
          SCOPED_TRACE(std::string(flash ? "flash" : "explicit") + ", mask " +
                       std::to_string(with_mask) + ", causal " + std::to_string(causal) +
                       ", queries " + std::to_string(nq));
          Shape shape{.heads = 6, .kv_heads = 3, .causal = causal};
          const Sequence seq(shape, nk);
          const auto delegate =
              load(plain_program(shape, nq, nk, with_mask), options_of(CacheType::F32, flash));
          ASSERT_NE(delegate, nullptr);
          std::vector<float> q = seq.slice(seq.q, shape.q_row(), nk - nq, nq);
          std::vector<float> k = seq.k;
          std::vector<float> v = seq.v;
          // Hides key 0 from all but leaves the rest as it is.
          std::vector<float> mask(static_cast<size_t>(nq * nk), 0.0F);
          for (int64_t i = 0; i < nq; ++i) {
            mask[static_cast<size_t>(i * nk)] = i + nk - nq == 0 ? 0.0F : -1e9F;
          }
          std::vector<float> out(shape.out_row() * static_cast<size_t>(nq));
          const auto size = [](int64_t n) { return static_cast<int32_t>(n); };
          auto tq = from_blob(q.data(), {size(nq), 6, 8});
          auto tk = from_blob(k.data(), {size(nk), 3, 8});
          auto tv = from_blob(v.data(), {size(nk), 3, 8});
          auto tm = from_blob(mask.data(), {size(nq), size(nk)});
          auto to = from_blob(out.data(), {size(nq), 6, 8});
          std::vector<EValue> values = {EValue(*tq), EValue(*tk), EValue(*tv)};
          if (with_mask) {
            values.emplace_back(*tm);
          }
          values.emplace_back(*to);
          std::vector<EValue*> args;
          for (EValue& value : values) {
            args.push_back(&value);
          }
          const Status status = delegate->execute({args.data(), args.size()}, nullptr);
          ASSERT_TRUE(status.ok()) << status.message();
          // A key of weight zero is one that the reference never sees.
          Sequence expected = seq;
          std::vector<float> reference;
          if (with_mask) {
            // Key 0 hidden: queries after the first see a window that excludes it.
            for (int64_t i = nk - nq; i < nk; ++i) {
              Sequence masked = seq;
              masked.shape.window =
                  static_cast<uint32_t>(i == 0 ? (causal ? 1 : nk) : std::min<int64_t>(i, nk));
              const std::vector<float> row = masked.reference(i, 1, nk);
              reference.insert(reference.end(), row.begin(), row.end());
            }
          } else {
            reference = expected.reference(nk - nq, nq, nk);
          }
          for (float& value : out) {
            value *= 2;  // the reference is that of two layers
          }
          EXPECT_LE(max_error(out, reference), 2e-5F);
        }
      }
    }
  }
}

TEST_F(Attention, AQueryThatSeesNoKeyGivesZeroInEveryForm) {
  using executorch::extension::from_blob;
  constexpr int32_t kQueries = 3;
  constexpr int32_t kKeys = 5;
  for (const bool flash : {false, true}) {
    SCOPED_TRACE(flash ? "flash" : "explicit");
    const Shape shape{.heads = 6, .kv_heads = 3, .causal = false};
    const Sequence seq(shape, kKeys);
    const auto delegate =
        load(plain_program(shape, kQueries, kKeys, true), options_of(CacheType::F32, flash));
    ASSERT_NE(delegate, nullptr);
    std::vector<float> q = seq.slice(seq.q, shape.q_row(), 0, kQueries);
    std::vector<float> k = seq.k;
    std::vector<float> v = seq.v;
    std::vector<float> mask(static_cast<size_t>(kQueries * kKeys), 0.0F);
    std::fill_n(mask.begin() + kKeys, kKeys, -INFINITY);  // the second query
    std::vector<float> out(shape.out_row() * kQueries, 7.0F);
    auto tq = from_blob(q.data(), {kQueries, 6, 8});
    auto tk = from_blob(k.data(), {kKeys, 3, 8});
    auto tv = from_blob(v.data(), {kKeys, 3, 8});
    auto tm = from_blob(mask.data(), {kQueries, kKeys});
    auto to = from_blob(out.data(), {kQueries, 6, 8});
    std::vector<EValue> values = {EValue(*tq), EValue(*tk), EValue(*tv), EValue(*tm), EValue(*to)};
    std::vector<EValue*> args;
    for (EValue& value : values) {
      args.push_back(&value);
    }
    const Status status = delegate->execute({args.data(), args.size()}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    const size_t row = shape.out_row();
    for (size_t i = 0; i < out.size(); ++i) {
      if (i / row == 1) {
        EXPECT_EQ(out[i], 0.0F) << i;
      } else {
        EXPECT_TRUE(std::isfinite(out[i]) && out[i] != 0.0F) << i;
      }
    }
  }
}

}  // namespace
}  // namespace executorch_ggml
