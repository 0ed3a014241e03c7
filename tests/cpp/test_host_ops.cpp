// Host-side ops: what their builders refuse, and what a call finds out as it computes.
#include <gtest/gtest.h>

#include <limits>

#include "runtime/opset.h"
#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"

namespace executorch_ggml::testing {
namespace {

constexpr auto kI64 = static_cast<int64_t>(IntType::I64);

int64_t code(auto kind) { return static_cast<int64_t>(kind); }

// One call over int32 or float arguments with the extents of its operands.
struct OneCall {
  GraphWriter g;

  OneCall(Op op, const std::vector<TensorSpec>& operands, const TensorSpec& result,
          const std::vector<Dim>& ints, std::vector<double> floats = {}) {
    std::vector<ValueId> inputs;
    for (const TensorSpec& spec : operands) {
      inputs.push_back(g.input(spec));
    }
    g.output(g.call(op, std::move(inputs), result, ints, std::move(floats)));
  }

  // Runs on int64 vectors; the error, or the values.
  Status run_integers(const std::vector<std::vector<int64_t>>& values,
                      std::vector<int64_t>& result) {
    const Loaded loaded = load(g.finish());
    if (!loaded.status.ok()) {
      return loaded.status;
    }
    std::vector<TestTensor> tensors;
    for (const std::vector<int64_t>& value : values) {
      tensors.emplace_back(std::vector<int32_t>{static_cast<int32_t>(value.size())}, value);
    }
    const TestTensor out = TestTensor::empty<int64_t>({static_cast<int32_t>(values.at(0).size())});
    std::vector<const TestTensor*> in;
    for (const TestTensor& tensor : tensors) {
      in.push_back(&tensor);
    }
    const Status status = run(*loaded.delegate, in, {&out});
    result = out.values<int64_t>();
    return status;
  }
};

void expect_error(const Status& status, const std::string& text) {
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(text), std::string::npos) << "found: " << status.message();
}

Status load_only(const OneCall& call) {
  GraphWriter g = call.g;
  return load(g.finish()).status;
}

OneCall binary(HostBinary kind, IntType type) {
  return {Op::HostBinary, {i32({2}), i32({2})}, i32({2}), {code(kind), code(type)}};
}

TEST(HostOps, IntegersWrapAsTheirTorchTypeDoes) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  const struct {
    IntType type;
    int32_t a;
    int32_t b;
    int32_t sum;
  } rows[] = {
      {IntType::I32, kMax, 1, std::numeric_limits<int32_t>::min()},
      {IntType::I16, 32767, 1, -32768},
      {IntType::I8, 127, 1, -128},
      {IntType::U8, 255, 1, 0},
      {IntType::Bool, 1, 1, 1},
  };
  for (const auto& row : rows) {
    std::vector<int64_t> sum;
    const Status status =
        binary(HostBinary::Add, row.type).run_integers({{row.a, 0}, {row.b, 0}}, sum);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sum[0], row.sum);
  }
}

TEST(HostOps, AnInt64ThatDoesNotFitIsAnError) {
  std::vector<int64_t> result;
  const int32_t max = std::numeric_limits<int32_t>::max();
  expect_error(binary(HostBinary::Mul, IntType::I64).run_integers({{max, 1}, {2, 1}}, result),
               "does not fit 32 bits");
  expect_error(binary(HostBinary::Pow, IntType::I64).run_integers({{10, 1}, {70, 1}}, result),
               "does not fit 32 bits");
}

TEST(HostOps, DivisionByZeroIsAnErrorAndTheNextCallWorks) {
  std::vector<int64_t> result;
  for (const HostBinary kind :
       {HostBinary::DivTrunc, HostBinary::DivFloor, HostBinary::Remainder, HostBinary::Fmod}) {
    expect_error(binary(kind, IntType::I32).run_integers({{7, 1}, {0, 1}}, result), "by zero");
  }
  const Status status =
      binary(HostBinary::DivFloor, IntType::I32).run_integers({{-7, 7}, {2, -2}}, result);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(result, (std::vector<int64_t>{-4, -4}));
}

TEST(HostOps, IndicesAreChecked) {
  std::vector<int64_t> result;
  OneCall gather(Op::HostGather, {i32({3}), i32({3})}, i32({3}), {});
  expect_error(gather.run_integers({{5, 6, 7}, {0, 3, 1}}, result),
               "computed index 3, allowed are 0 to 2");
  OneCall wrapped(Op::HostWrapIds, {i32({3})}, i32({3}), {3});
  EXPECT_TRUE(wrapped.run_integers({{-3, -1, 2}}, result).ok());
  EXPECT_EQ(result, (std::vector<int64_t>{0, 2, 2}));
  OneCall outside(Op::HostWrapIds, {i32({3})}, i32({3}), {3});
  expect_error(outside.run_integers({{-4, 0, 0}}, result), "computed index -4");
}

TEST(HostOps, KindsAreThoseOfTheElementType) {
  expect_error(
      load_only({Op::HostUnary, {i32({4})}, i32({4}), {code(HostUnary::Erf), kI64}, {0, 0, 0}}),
      "of i32[4, 1, 1, 1]");
  expect_error(
      load_only(
          {Op::HostBinary, {f32({4}), f32({4})}, f32({4}), {code(HostBinary::ShiftLeft), kI64}}),
      "function 19 of f32");
  expect_error(
      load_only({Op::HostReduce, {i32({4})}, i32({1}), {code(HostReduce::Var), kI64}, {1}}),
      "expected f32");
}

TEST(HostOps, OperandsMustBroadcast) {
  expect_error(
      load_only(
          {Op::HostBinary, {f32({4}), f32({3})}, f32({4}), {code(HostBinary::Maximum), kI64}}),
      "does not broadcast");
  expect_error(load_only({Op::HostWhere, {i32({4}), f32({4}), f32({2})}, f32({4}), {}}),
               "does not broadcast");
  expect_error(load_only({Op::HostWhere, {f32({4}), f32({4}), f32({4})}, f32({4}), {}}),
               "expected i32");
}

TEST(HostOps, WindowsMustStartInside) {
  expect_error(
      load_only({Op::HostPool,
                 {f32({4, 1, 1, 1})},
                 f32({9, 1, 1, 1}),
                 {code(HostPool::Max), 9, 1, 1, 2, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0}}),
      "do not give 9 results");
}

TEST(HostOps, AScatterFitsItsTarget) {
  expect_error(load_only({Op::HostScatter,
                          {f32({4, 2}), i32({3, 3}), f32({3, 3})},
                          f32({4, 2}),
                          {code(Scatter::Set)}}),
               "does not fit into");
}

}  // namespace
}  // namespace executorch_ggml::testing
