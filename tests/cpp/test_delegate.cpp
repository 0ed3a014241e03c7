// A delegate from blob to numbers: arguments, shapes, the graph cache, weights.
#include <executorch/runtime/backend/interface.h>
#include <gtest/gtest.h>

#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"

namespace executorch_ggml::testing {
namespace {

// y = leaky_relu(x w^T + b, 0.1) for x [n, 4], w [3, 4], n up to 8.
std::vector<uint8_t> linear_leaky_relu() {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 8, 0, 0);
  const ValueId x = g.input(f32({4, n}));
  const ValueId w = g.weight(f32({4, 3}), {"w"});
  const ValueId b = g.weight(f32({3}), {"b"});
  const ValueId product = g.call(Op::MulMat, {w, x}, f32({3, n}));
  const ValueId sum = g.call(Op::Add, {product, b}, f32({3, n}));
  g.output(g.call(Op::LeakyRelu, {sum}, f32({3, n}), {}, {0.1}));
  return g.finish();
}

TestData linear_data() {
  TestData data;
  data.add("w", std::vector<float>{1, 2, 3, 4, -1, 0, 1, 0, 0, 0, 0, -2});
  data.add("b", std::vector<float>{0.5F, -0.25F, 1});
  return data;
}

std::vector<float> linear_expected(const std::vector<float>& x) {
  const std::vector<float> w = {1, 2, 3, 4, -1, 0, 1, 0, 0, 0, 0, -2};
  const std::vector<float> b = {0.5F, -0.25F, 1};
  std::vector<float> y;
  for (size_t row = 0; row < x.size() / 4; ++row) {
    for (size_t o = 0; o < 3; ++o) {
      float sum = b[o];
      for (size_t i = 0; i < 4; ++i) {
        sum += w[4 * o + i] * x[4 * row + i];
      }
      y.push_back(sum >= 0 ? sum : 0.1F * sum);
    }
  }
  return y;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-5F * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

bool mentions(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

TEST(Delegate, ComputesLinearAndLeakyRelu) {
  const TestData data = linear_data();
  Loaded loaded = load(linear_leaky_relu(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const std::vector<float> values = ramp(8, 0.5F, -2);
  const TestTensor x({2, 4}, values);
  const TestTensor y = TestTensor::empty<float>({2, 3});
  const Status status = run(*loaded.delegate, {&x}, {&y});
  ASSERT_TRUE(status.ok()) << status.message();
  expect_near(y.values<float>(), linear_expected(values));
}

TEST(Delegate, RunsThroughTheRegisteredBackend) {
  et::runtime_init();
  et::BackendInterface* backend = et::get_backend_class("GgmlBackend");
  ASSERT_NE(backend, nullptr);
  ASSERT_TRUE(backend->is_available());
  const TestData data = linear_data();
  const std::vector<uint8_t> blob = linear_leaky_relu();
  et::FreeableBuffer processed(blob.data(), blob.size(), nullptr);
  et::BackendInitContext context(nullptr, nullptr, "forward", &data);
  const auto handle = backend->init(context, &processed, {});
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(processed.size(), 0U) << "the blob is freed once it is parsed";
  const std::vector<float> values = ramp(4);
  const TestTensor x({1, 4}, values);
  const TestTensor y = TestTensor::empty<float>({1, 3});
  et::EValue args[] = {x.evalue(), y.evalue()};
  et::EValue* pointers[] = {&args[0], &args[1]};
  et::BackendExecutionContext execution;
  EXPECT_EQ(backend->execute(execution, handle.get(), {pointers, 2}), et::Error::Ok);
  expect_near(y.values<float>(), linear_expected(values));
  backend->destroy(handle.get());
}

TEST(Delegate, RefusesGarbageWithAnError) {
  et::runtime_init();
  const std::vector<uint8_t> blob(64, 0x5A);
  et::FreeableBuffer processed(blob.data(), blob.size(), nullptr);
  et::BackendInitContext context(nullptr);
  const auto handle = et::get_backend_class("GgmlBackend")->init(context, &processed, {});
  EXPECT_EQ(handle.error(), et::Error::DelegateInvalidCompatibility);
}

TEST(Delegate, FollowsASymbolAndCachesItsGraphs) {
  const TestData data = linear_data();
  Loaded loaded = load(linear_leaky_relu(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  for (const int32_t n : {4, 1, 4, 8, 1}) {
    const std::vector<float> values = ramp(static_cast<size_t>(4 * n), 0.25F, -3);
    const TestTensor x({n, 4}, values);
    const TestTensor y = TestTensor::empty<float>({8, 3});
    const Status status = run(*loaded.delegate, {&x}, {&y});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(y.sizes(), (std::vector<int32_t>{n, 3}));
    expect_near(y.values<float>(), linear_expected(values));
  }
  EXPECT_EQ(loaded.delegate->graph_cache().stats().misses, 3U);
  EXPECT_EQ(loaded.delegate->graph_cache().stats().hits, 2U);
}

TEST(Delegate, ReservesForTheLargestInputAtLoad) {
  const TestData data = linear_data();
  Loaded loaded = load(linear_leaky_relu(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const size_t reserved = loaded.delegate->graph_cache().buffer_bytes();
  EXPECT_GT(reserved, 0U);
  for (const int32_t n : {1, 8, 3}) {
    const TestTensor x({n, 4}, ramp(static_cast<size_t>(4 * n)));
    const TestTensor y = TestTensor::empty<float>({8, 3});
    ASSERT_TRUE(run(*loaded.delegate, {&x}, {&y}).ok());
  }
  EXPECT_EQ(loaded.delegate->graph_cache().buffer_bytes(), reserved);
}

TEST(Delegate, BuildsEveryTimeWithoutAGraphCache) {
  const TestData data = linear_data();
  RuntimeOptions options;
  options.graph_cache = false;
  Loaded loaded = load(linear_leaky_relu(), &data, options);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  for (int i = 0; i < 3; ++i) {
    const std::vector<float> values = ramp(4);
    const TestTensor x({1, 4}, values);
    const TestTensor y = TestTensor::empty<float>({1, 3});
    ASSERT_TRUE(run(*loaded.delegate, {&x}, {&y}).ok());
    expect_near(y.values<float>(), linear_expected(values));
  }
  EXPECT_EQ(loaded.delegate->graph_cache().stats().hits, 0U);
  EXPECT_EQ(loaded.delegate->graph_cache().stats().misses, 3U);
}

TEST(Delegate, NamesTheInputThatDoesNotFit) {
  const TestData data = linear_data();
  Loaded loaded = load(linear_leaky_relu(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor y = TestTensor::empty<float>({8, 3});

  const TestTensor too_long({9, 4}, ramp(36));
  Status status = run(*loaded.delegate, {&too_long}, {&y});
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_TRUE(mentions(status, "input 0")) << status.message();
  EXPECT_TRUE(mentions(status, "is 9, allowed are 1 to 8")) << status.message();

  const TestTensor wrong_width({2, 5}, ramp(10));
  status = run(*loaded.delegate, {&wrong_width}, {&y});
  EXPECT_TRUE(mentions(status, "input 0 has shape [2, 5], expected [2, 4]")) << status.message();

  const TestTensor wrong_rank({4}, ramp(4));
  status = run(*loaded.delegate, {&wrong_rank}, {&y});
  EXPECT_TRUE(mentions(status, "expected 2 dimensions")) << status.message();

  const TestTensor wrong_type({1, 4}, std::vector<int64_t>{1, 2, 3, 4});
  status = run(*loaded.delegate, {&wrong_type}, {&y});
  EXPECT_TRUE(mentions(status, "input 0 is int64, expected float32")) << status.message();

  TestTensor wrong_order({2, 4}, ramp(8));
  wrong_order.set_dim_order({1, 0});
  status = run(*loaded.delegate, {&wrong_order}, {&y});
  EXPECT_TRUE(mentions(status, "order of dimensions")) << status.message();

  const TestTensor small = TestTensor::empty<float>({2, 3});
  const TestTensor x({4, 4}, ramp(16));
  status = run(*loaded.delegate, {&x}, {&small});
  EXPECT_TRUE(mentions(status, "output 0 needs shape [4, 3]")) << status.message();

  status = run(*loaded.delegate, {&x, &x}, {&y});
  EXPECT_TRUE(mentions(status, "expected 1 inputs and 1 outputs")) << status.message();

  // The delegate stays usable.
  ASSERT_TRUE(run(*loaded.delegate, {&x}, {&y}).ok());
  expect_near(y.values<float>(), linear_expected(ramp(16)));
}

TEST(Delegate, ComputesIntoTheCallersMemoryAndFollowsIt) {
  // The output is a reshape of the product and is read by another op: the product's
  // memory is ExecuTorch's, and every view of it must follow from call to call.
  GraphWriter g;
  const ValueId x = g.input(f32({4, 2}));
  const ValueId w = g.weight(f32({4, 6}), {"w"});
  const ValueId product = g.call(Op::MulMat, {w, x}, f32({6, 2}));
  const ValueId shaped = g.call(Op::Reshape, {product}, f32({3, 4}), {3, 4, 1, 1});
  const ValueId doubled = g.call(Op::Scale, {shaped}, f32({3, 4}), {}, {2.0, 0.0});
  g.output(shaped);
  g.output(doubled);
  TestData data;
  data.add("w", ramp(24));
  Loaded loaded = load(g.finish(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();

  // The next tensors lie elsewhere, and some are not aligned.
  for (const size_t misalign : {0UL, 4UL, 0UL, 12UL}) {
    const TestTensor input({2, 4}, ramp(8, 1, static_cast<float>(misalign)), misalign);
    const TestTensor a = TestTensor::empty<float>({4, 3}, misalign);
    const TestTensor b = TestTensor::empty<float>({4, 3}, misalign);
    ASSERT_TRUE(run(*loaded.delegate, {&input}, {&a, &b}).ok());
    std::vector<float> expected;
    const std::vector<float> rows = input.values<float>();
    for (size_t r = 0; r < 2; ++r) {
      for (size_t o = 0; o < 6; ++o) {
        float sum = 0;
        for (size_t i = 0; i < 4; ++i) {
          sum += static_cast<float>(4 * o + i) * rows[4 * r + i];
        }
        expected.push_back(sum);
      }
    }
    expect_near(a.values<float>(), expected);
    for (float& value : expected) {
      value *= 2;
    }
    expect_near(b.values<float>(), expected);
  }
  EXPECT_EQ(loaded.delegate->graph_cache().stats().misses, 1U);
}

TEST(Delegate, FillsOutputsThatAreInputsWeightsOrTwins) {
  GraphWriter g;
  const ValueId x = g.input(f32({3}));
  const ValueId ids = g.input(i32({3}));
  const ValueId w = g.weight(f32({3}), {"w"});
  const ValueId sum = g.call(Op::Add, {x, w}, f32({3}));
  g.output(sum);
  g.output(sum);
  g.output(x);
  g.output(w);
  g.output(ids);
  TestData data;
  data.add("w", ramp(3, 10));
  Loaded loaded = load(g.finish(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor input({3}, ramp(3));
  const TestTensor numbers({3}, std::vector<int64_t>{-7, 0, 1 << 30});
  const TestTensor a = TestTensor::empty<float>({3});
  const TestTensor b = TestTensor::empty<float>({3});
  const TestTensor c = TestTensor::empty<float>({3});
  const TestTensor d = TestTensor::empty<float>({3});
  const TestTensor e = TestTensor::empty<int64_t>({3});
  const Status status = run(*loaded.delegate, {&input, &numbers}, {&a, &b, &c, &d, &e});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(a.values<float>(), (std::vector<float>{0, 11, 22}));
  EXPECT_EQ(b.values<float>(), a.values<float>());
  EXPECT_EQ(c.values<float>(), ramp(3));
  EXPECT_EQ(d.values<float>(), ramp(3, 10));
  EXPECT_EQ(e.values<int64_t>(), numbers.values<int64_t>());
}

TEST(Delegate, RunsAProgramWithoutCalls) {
  GraphWriter g;
  const ValueId x = g.input(f32({2, 2}));
  g.output(x);
  Loaded loaded = load(g.finish());
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor input({2, 2}, ramp(4));
  const TestTensor output = TestTensor::empty<float>({2, 2});
  ASSERT_TRUE(run(*loaded.delegate, {&input}, {&output}).ok());
  EXPECT_EQ(output.values<float>(), ramp(4));
}

TEST(Delegate, WritesViewsThatAreNotContiguous) {
  GraphWriter g;
  const ValueId x = g.input(f32({3, 2}));
  const ValueId doubled = g.call(Op::Scale, {x}, f32({3, 2}), {}, {2.0, 0.0});
  g.output(g.call(Op::Permute, {doubled}, f32({2, 3}), {1, 0, 2, 3}));
  Loaded loaded = load(g.finish());
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor input({2, 3}, ramp(6));
  const TestTensor output = TestTensor::empty<float>({3, 2});
  ASSERT_TRUE(run(*loaded.delegate, {&input}, {&output}).ok());
  EXPECT_EQ(output.values<float>(), (std::vector<float>{0, 6, 2, 8, 4, 10}));
}

TEST(Delegate, KeepsStateBetweenCallsAndReadsBeforeWrites) {
  // old = buffer; buffer = x; view = first half of the old content, read after the
  // write in program order: values are in single assignment.
  GraphWriter g;
  const ValueId x = g.input(f32({4}));
  const ValueId buffer = g.buffer(f32({4}), "buffer", "initial");
  const ValueId half = g.call(Op::View, {buffer}, f32({2}), {2, 1, 1, 1, 4, 4, 4, 0});
  const ValueId written = g.call(Op::Assign, {buffer, x}, f32({4}));
  g.output(buffer);
  g.output(g.call(Op::Scale, {half}, f32({2}), {}, {10, 0}));
  g.output(g.call(Op::Scale, {written}, f32({4}), {}, {1, 0}));
  TestData data;
  data.add("initial", ramp(4, 1, 1));
  Loaded loaded = load(g.finish(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const auto content = [](int call) {
    return call == 0 ? ramp(4, 1, 1) : ramp(4, 2, static_cast<float>(10 * call));
  };
  for (int i = 0; i < 3; ++i) {
    const std::vector<float> held = content(i);
    const std::vector<float> next = content(i + 1);
    const TestTensor input({4}, next);
    const TestTensor old = TestTensor::empty<float>({4});
    const TestTensor scaled = TestTensor::empty<float>({2});
    const TestTensor now = TestTensor::empty<float>({4});
    const Status status = run(*loaded.delegate, {&input}, {&old, &scaled, &now});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(old.values<float>(), held);
    EXPECT_EQ(scaled.values<float>(), (std::vector<float>{10 * held[0], 10 * held[1]}));
    EXPECT_EQ(now.values<float>(), next);
  }
}

TEST(Delegate, WritesRowsOfAState) {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 4, 0, 0);
  const ValueId x = g.input(f32({2, n}));
  const ValueId ids = g.input(i32({n}));
  const ValueId rows = g.buffer(f32({2, 5}), "rows");
  const ValueId written = g.call(Op::SetRows, {rows, x, ids}, f32({2, 5}));
  g.output(g.call(Op::Scale, {written}, f32({2, 5}), {}, {1, 0}));
  Loaded loaded = load(g.finish());
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor all = TestTensor::empty<float>({5, 2});
  const TestTensor two({2, 2}, ramp(4, 1, 1));
  const TestTensor where({2}, std::vector<int64_t>{4, 1});
  ASSERT_TRUE(run(*loaded.delegate, {&two, &where}, {&all}).ok());
  EXPECT_EQ(all.values<float>(), (std::vector<float>{0, 0, 3, 4, 0, 0, 0, 0, 1, 2}));
  const TestTensor outside({2}, std::vector<int64_t>{4, 5});
  const Status status = run(*loaded.delegate, {&two, &outside}, {&all});
  EXPECT_TRUE(mentions(status, "input 1: element 1 is 5, allowed are 0 to 4")) << status.message();
  const TestTensor one({1, 2}, ramp(2, 1, 8));
  const TestTensor first({1}, std::vector<int64_t>{0});
  ASSERT_TRUE(run(*loaded.delegate, {&one, &first}, {&all}).ok());
  EXPECT_EQ(all.values<float>(), (std::vector<float>{8, 9, 3, 4, 0, 0, 0, 0, 1, 2}));
}

TEST(Delegate, AppliesMaxTokensPerCall) {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 64, 0, 0);
  const ValueId x = g.input(f32({16, 2, n}));
  const ValueId positions = g.input(i32({n}));
  const int64_t state = g.kv_cache("layer", 16, 2, 256, 256);
  g.output(g.call(Op::UpdateAndAttend, {x, x, x, positions, kAbsent, kAbsent, kAbsent},
                  f32({16, 2, n}), {state, 1, 1}, {0.25, 0.0}));
  RuntimeOptions options;
  options.max_tokens_per_call = 4;
  Loaded loaded = load(g.finish(), nullptr, options);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const auto step = [&](int32_t count) {
    const TestTensor input({count, 2, 16}, ramp(static_cast<size_t>(32 * count), 0.01F));
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<int64_t>(i);
    }
    const TestTensor where({count}, numbers);
    const TestTensor output = TestTensor::empty<float>({64, 2, 16});
    return run(*loaded.delegate, {&input, &where}, {&output});
  };
  EXPECT_TRUE(step(4).ok());
  const Status status = step(5);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_TRUE(mentions(status, "max_tokens_per_call")) << status.message();
}

}  // namespace
}  // namespace executorch_ggml::testing
