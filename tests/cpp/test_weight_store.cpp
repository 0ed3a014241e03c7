// Named data as ggml tensors: types from the file, sharing, and what does not fit.
#include <gtest/gtest.h>

#include "runtime/weight_store.h"
#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"

namespace executorch_ggml::testing {
namespace {

bool mentions(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

// y = norm(x) * gain, w: a product's weight and a norm's, both typed by the file.
GraphWriter product_and_gain() {
  GraphWriter g;
  const ValueId x = g.input(f32({32, 2}));
  const ValueId w = g.weight({kDtypeFromFile, {32, 4}}, {"w"});
  const ValueId gain = g.weight({kDtypeFromFile, {32}}, {"gain"});
  const ValueId scaled = g.call(Op::Mul, {x, gain}, f32({32, 2}));
  g.output(g.call(Op::MulMat, {w, scaled}, f32({4, 2})));
  return g;
}

TEST(WeightStore, TakesTheTypeOfTheFile) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0}) {
    TestData data;
    data.add_as("w", type, {32, 4}, ramp(128, 0.01F));
    data.add_as("gain", type, {32}, std::vector<float>(32, 2.0F));
    const GraphWriter g = product_and_gain();
    WeightStore store;
    const Status status = WeightStore::load(g.graph, &data, store);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(store.tensors()[0]->type, type) << "products take any type";
    EXPECT_EQ(store.tensors()[0]->data, data.data("w")) << "used where it lies";
    EXPECT_EQ(store.tensors()[1]->type, GGML_TYPE_F32) << "element-wise ops want plain F32";
    const auto* gain = static_cast<const float*>(store.tensors()[1]->data);
    EXPECT_NEAR(gain[31], 2.0F, 0.01F);
  }
}

TEST(WeightStore, RunsWithAnyType) {
  const std::vector<float> values = ramp(128, 0.01F);
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                               GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1}) {
    TestData data;
    data.add_as("w", type, {32, 4}, values);
    data.add_as("gain", GGML_TYPE_F32, {32}, std::vector<float>(32, 1.0F));
    Loaded loaded = load(product_and_gain().finish(), &data);
    ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
    const TestTensor x({2, 32}, std::vector<float>(64, 1.0F));
    const TestTensor y = TestTensor::empty<float>({2, 4});
    ASSERT_TRUE(run(*loaded.delegate, {&x}, {&y}).ok());
    for (size_t i = 0; i < 4; ++i) {
      float sum = 0;
      for (size_t k = 0; k < 32; ++k) {
        sum += values[32 * i + k];
      }
      EXPECT_NEAR(y.values<float>()[i], sum, 0.05F * sum + 0.2F) << ggml_type_name(type);
    }
  }
}

TEST(WeightStore, CopiesWhatIsNotAligned) {
  GraphWriter g;
  const ValueId x = g.input(f32({4}));
  const ValueId w = g.weight(f32({4}), {"w"});
  g.output(g.call(Op::Add, {x, w}, f32({4})));
  TestData data;
  data.add("w", ramp(4), /*misalign=*/2);
  WeightStore store;
  ASSERT_TRUE(WeightStore::load(g.graph, &data, store).ok());
  EXPECT_NE(store.tensors()[0]->data, data.data("w"));
  EXPECT_TRUE(is_aligned(store.tensors()[0]->data, 32));
  EXPECT_EQ(store.stats().copied, 16U);
  EXPECT_EQ(store.stats().zero_copy, 0U);
}

TEST(WeightStore, SharesConvertedWeightsBetweenHandles) {
  TestData data;
  data.add_as("w", GGML_TYPE_Q8_0, {32, 4}, ramp(128));
  data.add_as("gain", GGML_TYPE_F16, {32}, ramp(32));
  const GraphWriter g = product_and_gain();
  WeightStore first;
  WeightStore second;
  ASSERT_TRUE(WeightStore::load(g.graph, &data, first).ok());
  ASSERT_TRUE(WeightStore::load(g.graph, &data, second).ok());
  EXPECT_EQ(first.tensors()[1]->data, second.tensors()[1]->data);
}

TEST(WeightStore, BindsTheFirstKeyThatIsThere) {
  GraphWriter g;
  const ValueId x = g.input(f32({4}));
  const ValueId w = g.weight(f32({4}), {"output.weight", "token_embd.weight"});
  g.output(g.call(Op::Add, {x, w}, f32({4})));
  TestData data;
  data.add("token_embd.weight", ramp(4));
  WeightStore store;
  ASSERT_TRUE(WeightStore::load(g.graph, &data, store).ok());
  EXPECT_EQ(store.tensors()[0]->data, data.data("token_embd.weight"));
}

TEST(WeightStore, ListsAllThatDoesNotFit) {
  GraphWriter g;
  for (int i = 0; i < 14; ++i) {
    g.weight({kDtypeFromFile, {32, 4}}, {"blk." + std::to_string(i) + ".w"});
  }
  TestData data;
  data.add_as("blk.0.w", GGML_TYPE_F32, {32, 4}, ramp(128));
  data.add_as("blk.1.w", GGML_TYPE_F32, {32, 8}, ramp(256));
  data.add("blk.2.w", ramp(5));
  WeightStore store;
  const Status status = WeightStore::load(g.graph, &data, store);
  EXPECT_EQ(status.code(), StatusCode::InvalidExternalData);
  EXPECT_TRUE(mentions(status, "13 of 14 weights")) << status.message();
  EXPECT_TRUE(mentions(status, "'blk.1.w' is f32[32, 8, 1, 1], expected [32, 4, 1, 1]"))
      << status.message();
  EXPECT_TRUE(mentions(status, "'blk.2.w' has 20 bytes")) << status.message();
  EXPECT_TRUE(mentions(status, "'blk.3.w' is missing")) << status.message();
  EXPECT_TRUE(mentions(status, "and 3 more")) << status.message();
  EXPECT_FALSE(mentions(status, "'blk.0.w'")) << status.message();
}

TEST(WeightStore, SaysWhenThereIsNoDataAtAll) {
  WeightStore store;
  const Status status = WeightStore::load(product_and_gain().graph, nullptr, store);
  EXPECT_EQ(status.code(), StatusCode::NotFound);
  EXPECT_TRUE(mentions(status, "'w' is missing; 'gain' is missing")) << status.message();
}

TEST(WeightStore, FindsWhatMustBePlainF32) {
  GraphWriter g;
  const ValueId ids = g.input(i32({2}));
  const ValueId table = g.weight({kDtypeFromFile, {32, 4}}, {"table"});
  const ValueId gain = g.weight({kDtypeFromFile, {32}}, {"gain"});
  const ValueId bias = g.weight({kDtypeFromFile, {32}}, {"bias"});
  const ValueId rows = g.call(Op::GetRows, {table, ids}, f32({32, 2}));
  const ValueId wide = g.call(Op::Reshape, {bias}, {kDtypeFromFile, {32, 1, 1}}, {32, 1, 1, 1});
  const ValueId scaled = g.call(Op::Mul, {rows, gain}, f32({32, 2}));
  g.output(g.call(Op::Add, {scaled, wide}, f32({32, 2})));
  EXPECT_EQ(weights_needing_f32(g.graph), (std::vector<bool>{false, true, true}));
}

}  // namespace
}  // namespace executorch_ggml::testing
