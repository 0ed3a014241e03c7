// Named data as ggml tensors: types from the file, sharing, and what does not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "executorch_ggml/gguf_data_map.h"
#include "runtime/weight_packing.h"
#include "runtime/weight_store.h"
#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/gguf_builder.h"
#include "tests/cpp/program_writer.h"
#include "tests/cpp/temp_file.h"

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

bool packing(ggml_type) { return true; }
bool no_packing(ggml_type) { return false; }

TEST(WeightStore, TakesTheTypeOfTheFile) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0}) {
    TestData data;
    data.add_as("w", type, {32, 4}, ramp(128, 0.01F));
    data.add_as("gain", type, {32}, std::vector<float>(32, 2.0F));
    const GraphWriter g = product_and_gain();
    WeightStore store;
    const Status status = WeightStore::load(g.graph, &data, no_packing, WeightPlace::Mapped, store);
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
  ASSERT_TRUE(WeightStore::load(g.graph, &data, no_packing, WeightPlace::Mapped, store).ok());
  EXPECT_NE(store.tensors()[0]->data, data.data("w"));
  EXPECT_TRUE(is_aligned(store.tensors()[0]->data, 32));
  EXPECT_EQ(store.stats().copied, 16U);
  EXPECT_EQ(store.stats().zero_copy, 0U);
}

// y = w * table[ids] * gain: a table of rows, a product's weight and a norm's.
GraphWriter table_product_and_gain() {
  GraphWriter g;
  const ValueId ids = g.input(i32({2}));
  const ValueId table = g.weight({kDtypeFromFile, {32, 8}}, {"table"});
  const ValueId w = g.weight({kDtypeFromFile, {32, 4}}, {"w"});
  const ValueId gain = g.weight({kDtypeFromFile, {32}}, {"gain"});
  const ValueId rows = g.call(Op::GetRows, {table, ids}, f32({32, 2}));
  const ValueId scaled = g.call(Op::Mul, {rows, gain}, f32({32, 2}));
  g.output(g.call(Op::MulMat, {w, scaled}, f32({4, 2})));
  return g;
}

bool same_bytes(const ggml_tensor& tensor, const void* bytes) {
  return std::memcmp(tensor.data, bytes, ggml_nbytes(&tensor)) == 0;
}

TEST(WeightStore, CopiesWhatIsReadWholeIntoMemoryOfItsOwn) {
  TestData data;
  data.add_as("table", GGML_TYPE_F16, {32, 8}, ramp(256));
  data.add_as("w", GGML_TYPE_Q8_0, {32, 4}, ramp(128));
  data.add_as("gain", GGML_TYPE_F32, {32}, ramp(32));
  const GraphWriter g = table_product_and_gain();
  WeightStore store;
  const Status status =
      WeightStore::load(g.graph, &data, no_packing, WeightPlace::LargePages, store);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(store.tensors()[0]->data, data.data("table")) << "rows are read where they lie";
  for (const auto& [i, key] : {std::pair<size_t, const char*>{1, "w"}, {2, "gain"}}) {
    const ggml_tensor& tensor = *store.tensors()[i];
    EXPECT_NE(tensor.data, data.data(key));
    EXPECT_TRUE(is_aligned(tensor.data, kBufferAlignment));
    EXPECT_TRUE(same_bytes(tensor, data.data(key)));
  }
  EXPECT_EQ(store.stats().in_memory, 4U * 34 + 32 * 4);
  EXPECT_EQ(store.stats().zero_copy, 256U * 2);
}

// A tied embedding: its rows are looked up, and it is the output's matrix.
TEST(WeightStore, TakesRowsFromTheCopyOfAMatrix) {
  GraphWriter g;
  const ValueId ids = g.input(i32({2}));
  const ValueId table = g.weight({kDtypeFromFile, {32, 8}}, {"embedding"});
  const ValueId w = g.weight({kDtypeFromFile, {32, 8}}, {"output", "embedding"});
  const ValueId rows = g.call(Op::GetRows, {table, ids}, f32({32, 2}));
  g.output(g.call(Op::MulMat, {w, rows}, f32({8, 2})));
  TestData data;
  data.add_as("embedding", GGML_TYPE_F16, {32, 8}, ramp(256));
  WeightStore in_memory;
  ASSERT_TRUE(
      WeightStore::load(g.graph, &data, no_packing, WeightPlace::LargePages, in_memory).ok());
  for (const ggml_tensor* tensor : in_memory.tensors()) {
    EXPECT_NE(tensor->data, data.data("embedding"));
    EXPECT_TRUE(same_bytes(*tensor, data.data("embedding")));
  }
  EXPECT_EQ(in_memory.stats().zero_copy, 0U);

  const TempFile file(GgufBuilder().tensor("embedding", GGML_TYPE_F16, {32, 8}).build(), ".gguf");
  std::string message;
  const auto map = GgufDataMap::load(file.path(), message);
  ASSERT_TRUE(map.ok()) << message;
  WeightStore store;
  ASSERT_TRUE(
      WeightStore::load(g.graph, map->get(), no_packing, WeightPlace::LargePages, store).ok());
  EXPECT_EQ(store.tensors()[0]->data, store.tensors()[1]->data) << "one copy of a file's bytes";
}

TEST(WeightStore, SharesCopiesOfAMappedFile) {
  const TempFile file(GgufBuilder()
                          .tensor("table", GGML_TYPE_F16, {32, 8})
                          .tensor("w", GGML_TYPE_Q8_0, {32, 4})
                          .tensor("gain", GGML_TYPE_F32, {32})
                          .build(),
                      ".gguf");
  std::string message;
  const auto map = GgufDataMap::load(file.path(), message);
  ASSERT_TRUE(map.ok()) << message;
  const GraphWriter g = table_product_and_gain();
  WeightStore mapped;
  WeightStore second;
  {
    WeightStore first;
    ASSERT_TRUE(
        WeightStore::load(g.graph, map->get(), no_packing, WeightPlace::Mapped, mapped).ok());
    ASSERT_TRUE(
        WeightStore::load(g.graph, map->get(), no_packing, WeightPlace::LargePages, first).ok());
    ASSERT_TRUE(
        WeightStore::load(g.graph, map->get(), no_packing, WeightPlace::LargePages, second).ok());
    EXPECT_EQ(first.tensors()[0]->data, mapped.tensors()[0]->data);
    for (const size_t i : {1U, 2U}) {
      EXPECT_NE(first.tensors()[i]->data, mapped.tensors()[i]->data);
      EXPECT_EQ(first.tensors()[i]->data, second.tensors()[i]->data) << "one copy for both";
    }
  }
  // The first handle's memory stays while the second uses it.
  for (const size_t i : {1U, 2U}) {
    EXPECT_TRUE(same_bytes(*second.tensors()[i], mapped.tensors()[i]->data));
  }
  file.resize(200);
  WeightStore torn;
  const Status status =
      WeightStore::load(g.graph, map->get(), no_packing, WeightPlace::LargePages, torn);
  EXPECT_FALSE(status.ok()) << "a file that was shortened";
}

TEST(WeightStore, SharesConvertedWeightsBetweenHandles) {
  TestData data;
  data.add_as("w", GGML_TYPE_Q8_0, {32, 4}, ramp(128));
  data.add_as("gain", GGML_TYPE_F16, {32}, ramp(32));
  const GraphWriter g = product_and_gain();
  WeightStore first;
  WeightStore second;
  ASSERT_TRUE(WeightStore::load(g.graph, &data, packing, WeightPlace::Mapped, first).ok());
  ASSERT_TRUE(WeightStore::load(g.graph, &data, packing, WeightPlace::Mapped, second).ok());
  EXPECT_EQ(first.tensors()[1]->data, second.tensors()[1]->data);
}

// Blocks whose sizes fit every CPU's packed kernels.
GraphWriter wide_product() {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 40, 0, 0);
  const ValueId x = g.input(f32({256, n}));
  const ValueId w = g.weight({kDtypeFromFile, {256, 64}}, {"w"});
  g.output(g.call(Op::MulMat, {w, x}, f32({64, n})));
  return g;
}

TEST(WeightStore, PackedProductsEqualPlainOnes) {
  for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,
                               GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K}) {
    std::vector<float> values(256 * 64);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int>(i * 2654435761U % 257) - 128) / 128;
    }
    TestData data;
    data.add_as("w", type, {256, 64}, values);
    for (const int32_t n : {1, 3, 40}) {
      const TestTensor x({n, 256}, ramp(static_cast<size_t>(256 * n), 0.001F, -1));
      std::vector<std::vector<float>> results;
      for (const bool pack : {false, true}) {
        RuntimeOptions options;
        options.pack_weights = pack;
        options.kernels = KernelChoice::Ggml;
        options.n_threads = 2;
        Loaded loaded = load(wide_product().finish(), &data, options);
        ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
        EXPECT_EQ(loaded.delegate->weights().stats().packed > 0,
                  pack && find_packed_layout(type, {256, 64, 1, 1}) != nullptr);
        const TestTensor y = TestTensor::empty<float>({40, 64});
        const Status status = run(*loaded.delegate, {&x}, {&y});
        ASSERT_TRUE(status.ok()) << status.message();
        results.push_back(y.values<float>());
      }
      // Both round x to 8 bits a block, in blocks that may differ.
      for (size_t i = 0; i < results[0].size(); ++i) {
        EXPECT_NEAR(results[0][i], results[1][i], 0.02F * std::abs(results[0][i]) + 0.15F)
            << ggml_type_name(type) << " n " << n << " element " << i;
      }
    }
  }
}

TEST(WeightStore, SharesPackedWeightsBetweenHandles) {
  TestData data;
  data.add_as("w", GGML_TYPE_Q8_0, {256, 64}, ramp(256 * 64, 0.001F));
  const GraphWriter g = wide_product();
  WeightStore first;
  WeightStore second;
  ASSERT_TRUE(WeightStore::load(g.graph, &data, packing, WeightPlace::Mapped, first).ok());
  ASSERT_TRUE(WeightStore::load(g.graph, &data, packing, WeightPlace::Mapped, second).ok());
  EXPECT_EQ(first.tensors()[0]->data, data.data("w")) << "the plain form stays where it is";
  if (first.packed()[0] == nullptr) {
    GTEST_SKIP() << "this CPU has no packed layout for q8_0";
  }
  EXPECT_EQ(first.packed()[0]->data, second.packed()[0]->data);
  EXPECT_NE(first.packed()[0]->data, first.tensors()[0]->data);
}

TEST(WeightStore, BindsTheFirstKeyThatIsThere) {
  GraphWriter g;
  const ValueId x = g.input(f32({4}));
  const ValueId w = g.weight(f32({4}), {"output.weight", "token_embd.weight"});
  g.output(g.call(Op::Add, {x, w}, f32({4})));
  TestData data;
  data.add("token_embd.weight", ramp(4));
  WeightStore store;
  ASSERT_TRUE(WeightStore::load(g.graph, &data, no_packing, WeightPlace::Mapped, store).ok());
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
  const Status status = WeightStore::load(g.graph, &data, no_packing, WeightPlace::Mapped, store);
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
  const Status status =
      WeightStore::load(product_and_gain().graph, nullptr, packing, WeightPlace::Mapped, store);
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
