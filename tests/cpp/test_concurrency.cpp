// Handles on threads of their own: shared pools and weights, no shared mistakes.
// Also built with ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "runtime/thread_pool.h"
#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"

namespace executorch_ggml::testing {
namespace {

// y = (x w^T) * gain with a weight that is converted at load and shared.
std::vector<uint8_t> program() {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 16, 0, 0);
  const ValueId x = g.input(f32({64, n}));
  const ValueId w = g.weight({kDtypeFromFile, {64, 32}}, {"w"});
  const ValueId gain = g.weight({kDtypeFromFile, {32}}, {"gain"});
  const ValueId product = g.call(Op::MulMat, {w, x}, f32({32, n}));
  g.output(g.call(Op::Mul, {product, gain}, f32({32, n})));
  return g.finish();
}

TEST(Concurrency, HandlesRunSideBySide) {
  TestData data;
  std::vector<float> identity(64 * 32, 0.0F);
  for (size_t i = 0; i < 32; ++i) {
    identity[64 * i + i] = 1;
  }
  data.add_as("w", GGML_TYPE_F16, {64, 32}, identity);
  data.add_as("gain", GGML_TYPE_F16, {32}, std::vector<float>(32, 2.0F));
  const std::vector<uint8_t> blob = program();

  constexpr int kThreads = 4;
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      RuntimeOptions options;
      options.n_threads = 1 + t % 2;  // pools are shared in pairs
      Loaded loaded = load(blob, &data, options);
      if (!loaded.status.ok()) {
        ++failures;
        return;
      }
      for (int32_t i = 0; i < 40; ++i) {
        const int32_t n = 1 + (i + t) % 16;
        const std::vector<float> values =
            ramp(static_cast<size_t>(64 * n), 1, static_cast<float>(t));
        const TestTensor x({n, 64}, values);
        const TestTensor y = TestTensor::empty<float>({16, 32});
        if (!run(*loaded.delegate, {&x}, {&y}).ok()) {
          ++failures;
          return;
        }
        const std::vector<float> found = y.values<float>();
        for (size_t r = 0; r < static_cast<size_t>(n); ++r) {
          for (size_t c = 0; c < 32; ++c) {
            failures += found[32 * r + c] != 2 * values[64 * r + c] ? 1 : 0;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, 0);
}

TEST(Concurrency, OneHandleSerializesItsCallers) {
  TestData data;
  data.add_as("w", GGML_TYPE_F32, {64, 32}, ramp(64 * 32, 0.001F));
  data.add_as("gain", GGML_TYPE_F32, {32}, std::vector<float>(32, 1.0F));
  Loaded loaded = load(program(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor x({2, 64}, ramp(128));
  const TestTensor expected = TestTensor::empty<float>({2, 32});
  ASSERT_TRUE(run(*loaded.delegate, {&x}, {&expected}).ok());
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const TestTensor y = TestTensor::empty<float>({2, 32});
        const bool same =
            run(*loaded.delegate, {&x}, {&y}).ok() && y.values<float>() == expected.values<float>();
        failures += same ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, 0);
}

TEST(Concurrency, PoolsAreSharedByThreadCountAndRefuseNonsense) {
  std::shared_ptr<ThreadPool> a;
  std::shared_ptr<ThreadPool> b;
  std::shared_ptr<ThreadPool> c;
  using Between = ThreadPool::Between;
  ASSERT_TRUE(ThreadPool::acquire(2, Between::Poll, a).ok());
  ASSERT_TRUE(ThreadPool::acquire(2, Between::Poll, b).ok());
  ASSERT_TRUE(ThreadPool::acquire(1, Between::Poll, c).ok());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_FALSE(ThreadPool::acquire(0, Between::Poll, c).ok());
  EXPECT_FALSE(ThreadPool::acquire(1 << 20, Between::Poll, c).ok());
}

}  // namespace
}  // namespace executorch_ggml::testing
