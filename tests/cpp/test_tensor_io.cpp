// Conversions and index checks at the border of a delegate.
#include <gtest/gtest.h>

#include <limits>

#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"

namespace executorch_ggml::testing {
namespace {

using executorch::aten::BFloat16;
using executorch::aten::Half;

constexpr int8_t kShort = 2;
constexpr int8_t kByte = 0;
constexpr int8_t kBFloat16 = 15;

bool mentions(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

// A program whose output is its input, through a cast to F32 and back for integers.
std::vector<uint8_t> passthrough(uint8_t dtype, int8_t in, int8_t out) {
  GraphWriter g;
  const ValueId x = g.input({dtype, {4}}, in);
  g.output(x, out);
  return g.finish();
}

template <typename In, typename Out>
std::vector<Out> convert(uint8_t dtype, int8_t in, int8_t out, const std::vector<In>& values,
                         Status* status = nullptr) {
  Loaded loaded = load(passthrough(dtype, in, out));
  EXPECT_TRUE(loaded.status.ok()) << loaded.status.message();
  if (!loaded.status.ok()) {
    return {};
  }
  const TestTensor input({4}, values);
  const TestTensor output = TestTensor::empty<Out>({4});
  const Status result = run(*loaded.delegate, {&input}, {&output});
  if (status != nullptr) {
    *status = result;
  } else {
    EXPECT_TRUE(result.ok()) << result.message();
  }
  return result.ok() ? output.values<Out>() : std::vector<Out>{};
}

TEST(TensorIo, WidensIntegersExactly) {
  EXPECT_EQ((convert<int16_t, int64_t>(kI32, kShort, kLong, {-32768, 0, 1, 32767})),
            (std::vector<int64_t>{-32768, 0, 1, 32767}));
  EXPECT_EQ((convert<uint8_t, int32_t>(kI32, kByte, kInt, {0, 1, 128, 255})),
            (std::vector<int32_t>{0, 1, 128, 255}));
  EXPECT_EQ((convert<bool, int64_t>(kI32, kBool, kLong, {true, false, true, true})),
            (std::vector<int64_t>{1, 0, 1, 1}));
}

TEST(TensorIo, RefusesIntegersThatDoNotFit) {
  const int64_t beyond = int64_t{std::numeric_limits<int32_t>::max()} + 1;
  Status status;
  convert<int64_t, int64_t>(kI32, kLong, kLong, {1, 2, beyond, 3}, &status);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_TRUE(mentions(status, "input 0: element 2 is 2147483648")) << status.message();

  convert<int32_t, int16_t>(kI32, kInt, kShort, {1, 2, 3, 40000}, &status);
  EXPECT_TRUE(mentions(status, "40000 does not fit int16")) << status.message();
  convert<int32_t, uint8_t>(kI32, kInt, kByte, {1, -1, 3, 4}, &status);
  EXPECT_TRUE(mentions(status, "-1 does not fit uint8")) << status.message();
  convert<int32_t, bool>(kI32, kInt, kBool, {1, 0, 2, 1}, &status);
  EXPECT_TRUE(mentions(status, "2 does not fit bool")) << status.message();
}

TEST(TensorIo, WidensHalvesExactlyAndRoundsResultsToNearest) {
  const std::vector<float> values = {1.0F, -0.333251953125F, 65504.0F, 6.103515625e-05F};
  std::vector<Half> halves(values.begin(), values.end());
  EXPECT_EQ((convert<Half, float>(kF32, kHalf, kFloat, halves)), values);
  const std::vector<float> brain = {1.0F, -2.5F, 3.0e38F, 0.0078125F};
  std::vector<BFloat16> brains(brain.begin(), brain.end());
  const std::vector<float> widened = convert<BFloat16, float>(kF32, kBFloat16, kFloat, brains);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(widened[i], static_cast<float>(brains[i]));
  }
  const std::vector<float> between = {1.0F / 3, 2049.0F, -1.0009765625F, 0.1F};
  const std::vector<Half> rounded = convert<float, Half>(kF32, kFloat, kHalf, between);
  const std::vector<BFloat16> brained = convert<float, BFloat16>(kF32, kFloat, kBFloat16, between);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(static_cast<float>(rounded[i]), static_cast<float>(Half(between[i])));
    EXPECT_EQ(static_cast<float>(brained[i]), static_cast<float>(BFloat16(between[i])));
  }
}

TEST(TensorIo, RefusesConversionsThatWouldLoseValuesAtLoad) {
  const Loaded loaded = load(passthrough(kF32, kFloat, kLong));
  EXPECT_FALSE(loaded.status.ok());
}

std::vector<uint8_t> embedding() {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 8, 0, 0);
  const ValueId ids = g.input(i32({n}));
  const ValueId table = g.weight(f32({2, 5}), {"table"});
  const ValueId flat = g.call(Op::Reshape, {ids}, i32({n}), {n, 1, 1, 1});
  g.output(g.call(Op::GetRows, {table, flat}, f32({2, n})));
  return g.finish();
}

TEST(TensorIo, ChecksRowIndicesOfInputsBeforeCompute) {
  TestData data;
  data.add("table", ramp(10));
  Loaded loaded = load(embedding(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor y = TestTensor::empty<float>({8, 2});
  for (const int64_t bad : {int64_t{-1}, int64_t{5}, int64_t{1000000}}) {
    const TestTensor ids({3}, std::vector<int64_t>{0, 4, bad});
    const Status status = run(*loaded.delegate, {&ids}, {&y});
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_TRUE(mentions(status, "input 0: element 2 is " + std::to_string(bad)))
        << status.message();
    EXPECT_TRUE(mentions(status, "allowed are 0 to 4")) << status.message();
  }
  const TestTensor good({3}, std::vector<int64_t>{0, 4, 2});
  ASSERT_TRUE(run(*loaded.delegate, {&good}, {&y}).ok());
  EXPECT_EQ(y.values<float>(), (std::vector<float>{0, 1, 8, 9, 4, 5}));
}

TEST(TensorIo, ChecksRowIndicesThatTheGraphComputes) {
  // ids = int(x): only the graph knows them.
  GraphWriter g;
  const ValueId x = g.input(f32({3}));
  const ValueId ids = g.call(Op::Cast, {x}, i32({3}), {kI32});
  const ValueId table = g.weight(f32({2, 5}), {"table"});
  g.output(g.call(Op::GetRows, {table, ids}, f32({2, 3})));
  TestData data;
  data.add("table", ramp(10));
  Loaded loaded = load(g.finish(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor y = TestTensor::empty<float>({3, 2});
  const TestTensor bad({3}, std::vector<float>{1, 7, 2});
  Status status = run(*loaded.delegate, {&bad}, {&y});
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_TRUE(mentions(status, "computed index 7, allowed are 0 to 4")) << status.message();
  const TestTensor good({3}, std::vector<float>{1, 4, 0});
  ASSERT_TRUE(run(*loaded.delegate, {&good}, {&y}).ok());
  EXPECT_EQ(y.values<float>(), (std::vector<float>{2, 3, 8, 9, 0, 1}));
}

TEST(TensorIo, ReadsSymbolsFromElements) {
  // A row of a table picked by an integer input: the symbol is part of the key.
  GraphWriter g;
  const Dim row = g.element_symbol("row", 0, 4, 0, 0);
  g.input(i32({1}));
  const ValueId table = g.weight(f32({2, 5}), {"table"});
  const ValueId picked = g.call(Op::View, {table}, f32({2}), {2, 1, 1, 1, 2, 2, 2, g.mul(row, 2)});
  g.output(g.call(Op::Scale, {picked}, f32({2}), {}, {1, 0}));
  TestData data;
  data.add("table", ramp(10));
  Loaded loaded = load(g.finish(), &data);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor y = TestTensor::empty<float>({2});
  for (const int64_t r : {int64_t{3}, int64_t{0}, int64_t{3}}) {
    const TestTensor index({1}, std::vector<int64_t>{r});
    ASSERT_TRUE(run(*loaded.delegate, {&index}, {&y}).ok());
    EXPECT_EQ(y.values<float>(), ramp(2, 1, static_cast<float>(2 * r)));
  }
  EXPECT_EQ(loaded.delegate->graph_cache().stats().misses, 2U);
  const TestTensor index({1}, std::vector<int64_t>{5});
  const Status status = run(*loaded.delegate, {&index}, {&y});
  EXPECT_TRUE(mentions(status, "the value of element 0 is 5, allowed are 0 to 4"))
      << status.message();
}

TEST(TensorIo, TakesIntegersThatAreNoTensors) {
  GraphWriter g;
  const ValueId n = g.input(i32({1}), kLong, {});
  g.output(n, kLong, {});
  Loaded loaded = load(g.finish());
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor y = TestTensor::empty<int64_t>({});
  et::EValue input(int64_t{41});
  et::EValue output = y.evalue();
  et::EValue* args[] = {&input, &output};
  ASSERT_TRUE(loaded.delegate->execute({args, 2}, nullptr).ok());
  EXPECT_EQ(y.values<int64_t>(), std::vector<int64_t>{41});
}

TEST(TensorIo, ChecksThatTwoInputsAgreeOnASymbol) {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 8, 0, 0);
  const ValueId a = g.input(f32({2, n}));
  const ValueId b = g.input(f32({2, n}));
  g.output(g.call(Op::Add, {a, b}, f32({2, n})));
  Loaded loaded = load(g.finish());
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor three({3, 2}, ramp(6));
  const TestTensor four({4, 2}, ramp(8));
  const TestTensor y = TestTensor::empty<float>({8, 2});
  const Status status = run(*loaded.delegate, {&three, &four}, {&y});
  EXPECT_TRUE(mentions(status, "input 1 has shape [4, 2], expected [3, 2]")) << status.message();
}

TEST(TensorIo, DividesAndShiftsSymbols) {
  // n blocks of 4 rows and one more: sizes 5, 9, 13.
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 3, 0, 0, /*offset=*/1, /*divisor=*/4);
  const Dim rows = g.add(g.mul(n, 4), 1);
  const ValueId x = g.input(f32({rows}));
  g.output(g.call(Op::Sqr, {x}, f32({rows})));
  Loaded loaded = load(g.finish());
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  const TestTensor y = TestTensor::empty<float>({13});
  const TestTensor nine({9}, ramp(9));
  EXPECT_TRUE(run(*loaded.delegate, {&nine}, {&y}).ok());
  const TestTensor ten({10}, ramp(10));
  Status status = run(*loaded.delegate, {&ten}, {&y});
  EXPECT_TRUE(mentions(status, "is 10, expected 1 plus a multiple of 4")) << status.message();
  const TestTensor many({17}, ramp(17));
  status = run(*loaded.delegate, {&many}, {&y});
  EXPECT_TRUE(mentions(status, "is 17, allowed are 5 to 13")) << status.message();
}

}  // namespace
}  // namespace executorch_ggml::testing
