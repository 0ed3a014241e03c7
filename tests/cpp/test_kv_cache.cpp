// Cache planning and what a step fills: nothing here runs a graph.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "runtime/kv_cache.h"

namespace executorch_ggml {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

State state_of(uint32_t head_dim = 4, uint32_t heads = 2, uint32_t default_capacity = 300,
               uint32_t max_capacity = 1000, uint32_t batch = 1) {
  State state{};
  state.kind = StateKind::KvCache;
  state.name = "layer.0";
  state.k_head_dim = head_dim;
  state.v_head_dim = head_dim;
  state.n_kv_heads = heads;
  state.n_batch = batch;
  state.default_capacity = default_capacity;
  state.max_capacity = max_capacity;
  return state;
}

KvConfig config_of(CacheType type = CacheType::F32, bool flash = false, int64_t capacity = 0) {
  return {type, flash, capacity, ggml_backend_cpu_buffer_type()};
}

std::unique_ptr<KvCache> make_cache(const State& state, const KvConfig& config) {
  std::unique_ptr<KvCache> cache;
  const Status status = KvCache::create(state, config, cache);
  EXPECT_TRUE(status.ok()) << status.message();
  return cache;
}

void advance(KvCache& cache, int64_t first, int64_t count) {
  KvStep step;
  const Status status = cache.plan(first, count, step);
  ASSERT_TRUE(status.ok()) << status.message();
  cache.start(step);
  cache.commit(step);
}

// Fills every row below `rows` with ones, as a graph would.
void write_ones(KvCache& cache, int64_t rows) {
  for (ggml_tensor* t : {cache.k(), cache.v()}) {
    const bool transposed = t == cache.v() && cache.v_transposed();
    auto* data = static_cast<float*>(t->data);
    for (int64_t b = 0; b < t->ne[2]; ++b) {
      for (int64_t i = 0; i < t->ne[1]; ++i) {
        for (int64_t j = 0; j < t->ne[0]; ++j) {
          const int64_t row = transposed ? j : i;
          data[(b * t->ne[1] + i) * t->ne[0] + j] = row < rows ? 1.0F : 0.0F;
        }
      }
    }
  }
}

// How many elements of k and v are not zero.
int64_t count_nonzero(const KvCache& cache) {
  int64_t count = 0;
  for (const ggml_tensor* t : {cache.k(), cache.v()}) {
    const auto* data = static_cast<const float*>(t->data);
    for (int64_t i = 0; i < ggml_nelements(t); ++i) {
      count += data[i] != 0.0F ? 1 : 0;
    }
  }
  return count;
}

TEST(KvCache, CapacityIsTheExportedLengthInBlocksUnlessAsked) {
  int64_t capacity = 0;
  ASSERT_TRUE(resolve_capacity(state_of(4, 2, 300, 1000), 0, capacity).ok());
  EXPECT_EQ(capacity, 512);
  ASSERT_TRUE(resolve_capacity(state_of(4, 2, 300, 400), 0, capacity).ok());
  EXPECT_EQ(capacity, 400);  // the model's context
  ASSERT_TRUE(resolve_capacity(state_of(), 7, capacity).ok());
  EXPECT_EQ(capacity, 7);
  const Status status = resolve_capacity(state_of(), 1001, capacity);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_NE(status.message().find("1001"), std::string::npos);
  EXPECT_NE(status.message().find("1000"), std::string::npos);
}

TEST(KvCache, LayoutFollowsTheAttentionForm) {
  const auto explicit_form = make_cache(state_of(), config_of());
  EXPECT_EQ(explicit_form->k()->ne[0], 8);
  EXPECT_EQ(explicit_form->k()->ne[1], 512);
  EXPECT_EQ(explicit_form->v()->ne[0], 512);  // V^T: what the product reads by rows
  EXPECT_EQ(explicit_form->v()->ne[1], 8);
  const auto flash = make_cache(state_of(), config_of(CacheType::F16, true));
  EXPECT_EQ(flash->v()->ne[0], 8);
  EXPECT_EQ(flash->v()->ne[1], 512);
  EXPECT_EQ(flash->bytes(), 2U * 2U * 8U * 512U);
}

TEST(KvCache, AQuantizedCacheNeedsWholeBlocksPerHead) {
  std::unique_ptr<KvCache> cache;
  const Status narrow = KvCache::create(state_of(48, 2), config_of(CacheType::Q8_0, true), cache);
  EXPECT_EQ(narrow.code(), StatusCode::Unsupported);
  EXPECT_NE(narrow.message().find("q8_0"), std::string::npos);
  EXPECT_NE(narrow.message().find("32"), std::string::npos);
  EXPECT_TRUE(KvCache::create(state_of(64, 2), config_of(CacheType::Q8_0, true), cache).ok());
  EXPECT_EQ(KvCache::create(state_of(64, 2), config_of(CacheType::Q8_0, false), cache).code(),
            StatusCode::Unsupported);
}

TEST(KvCache, AnImpossibleSizeIsAnErrorThatNamesTheBytes) {
  std::unique_ptr<KvCache> cache;
  const State huge = state_of(65536, 128, 1, 2000000000);
  const Status status = KvCache::create(huge, config_of(CacheType::F32, false, 2000000000), cache);
  EXPECT_EQ(status.code(), StatusCode::OutOfMemory);
  EXPECT_NE(status.message().find("134217728000000000 bytes"), std::string::npos)
      << status.message();
  EXPECT_EQ(cache, nullptr);
  for (const State& bad : {state_of(0, 2), state_of(4, 0), state_of(4, 2, 1, 0),
                           state_of(4, 2, 1, 10, 0), state_of(0xFFFFFFFF, 0xFFFFFFFF)}) {
    EXPECT_EQ(KvCache::create(bad, config_of(), cache).code(), StatusCode::InvalidProgram);
  }
}

TEST(KvCache, RowsReadGrowInBlocksUpToTheCapacity) {
  const auto cache = make_cache(state_of(4, 2, 300, 1000), config_of(CacheType::F32, false, 600));
  EXPECT_EQ(cache->rows_to_read(1), 256);
  EXPECT_EQ(cache->rows_to_read(256), 256);
  EXPECT_EQ(cache->rows_to_read(257), 512);
  EXPECT_EQ(cache->rows_to_read(513), 600);
  EXPECT_EQ(cache->rows_to_read(600), 600);
}

TEST(KvCache, AGapIsAnErrorThatNamesBothEnds) {
  const auto cache = make_cache(state_of(), config_of());
  advance(*cache, 0, 5);
  KvStep step;
  const Status status = cache->plan(7, 1, step);
  EXPECT_EQ(status.code(), StatusCode::InvalidState);
  EXPECT_NE(status.message().find("up to 5"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("starts at 7"), std::string::npos) << status.message();
  EXPECT_EQ(cache->used(), 5);
}

TEST(KvCache, AnOverflowLosesNothingAndSmallerCallsGoOn) {
  const auto cache = make_cache(state_of(), config_of(CacheType::F32, false, 10));
  advance(*cache, 0, 8);
  KvStep step;
  const Status status = cache->plan(8, 3, step);
  EXPECT_EQ(status.code(), StatusCode::InvalidState);
  EXPECT_NE(status.message().find("position 10"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("capacity 10"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("context"), std::string::npos) << status.message();
  EXPECT_EQ(cache->used(), 8);
  advance(*cache, 8, 2);
  EXPECT_EQ(cache->used(), 10);
  EXPECT_EQ(cache->plan(10, 1, step).code(), StatusCode::InvalidState);
  EXPECT_EQ(cache->plan(0, std::numeric_limits<int64_t>::max(), step).code(),
            StatusCode::InvalidState);
}

TEST(KvCache, PlanningAloneChangesNothing) {
  const auto cache = make_cache(state_of(), config_of());
  advance(*cache, 0, 5);
  KvStep step;
  ASSERT_TRUE(cache->plan(2, 2, step).ok());
  EXPECT_EQ(cache->used(), 5);
  EXPECT_EQ(step, (KvStep{2, 2, 256}));
}

TEST(KvCache, AnEarlierPositionOverwritesAndDropsTheRest) {
  for (const bool flash : {false, true}) {
    const auto cache = make_cache(state_of(4, 2, 300, 1000, 2), config_of(CacheType::F32, flash));
    advance(*cache, 0, 9);
    write_ones(*cache, 9);
    KvStep step;
    ASSERT_TRUE(cache->plan(3, 2, step).ok());
    EXPECT_EQ(cache->used(), 9);
    EXPECT_EQ(count_nonzero(*cache), 9 * 8 * 2 * 2);
    cache->start(step);
    // Zero before the graph reads them: a masked NaN would survive as 0 * NaN.
    EXPECT_EQ(count_nonzero(*cache), 3 * 8 * 2 * 2);
    cache->commit(step);
    EXPECT_EQ(cache->used(), 5);
  }
}

TEST(KvCache, AFailedStepKeepsWhatCameBefore) {
  for (const bool flash : {false, true}) {
    const auto cache = make_cache(state_of(), config_of(CacheType::F32, flash));
    advance(*cache, 0, 4);
    KvStep step;
    ASSERT_TRUE(cache->plan(4, 3, step).ok());
    cache->start(step);
    write_ones(*cache, 7);
    cache->rollback(step);
    EXPECT_EQ(cache->used(), 4);
    EXPECT_EQ(count_nonzero(*cache), 4 * 8 * 2);
  }
}

TEST(KvCache, TruncateAndResetClearRows) {
  const auto cache = make_cache(state_of(), config_of());
  advance(*cache, 0, 6);
  write_ones(*cache, 6);
  cache->truncate(8);
  EXPECT_EQ(cache->used(), 6);
  cache->truncate(2);
  EXPECT_EQ(cache->used(), 2);
  EXPECT_EQ(count_nonzero(*cache), 2 * 8 * 2);
  cache->reset();
  EXPECT_EQ(cache->used(), 0);
  EXPECT_EQ(count_nonzero(*cache), 0);
}

TEST(KvCache, RowsSurviveBeingReadAndWritten) {
  for (const bool flash : {false, true}) {
    const auto cache = make_cache(state_of(), config_of(CacheType::F32, flash));
    advance(*cache, 0, 3);
    write_ones(*cache, 3);
    std::vector<uint8_t> bytes(cache->used_bytes(3));
    cache->read_rows(bytes);
    // Another capacity: the rows are the same, their places are not.
    const auto other = make_cache(state_of(), config_of(CacheType::F32, flash, 9));
    ASSERT_EQ(other->used_bytes(3), bytes.size());
    other->write_rows(3, bytes);
    EXPECT_EQ(other->used(), 3);
    EXPECT_EQ(count_nonzero(*other), 3 * 8 * 2);
  }
}

TEST(KvCache, AgreementComparesEverythingThatShapesMemory) {
  const State state = state_of();
  const auto cache = make_cache(state, config_of(CacheType::F16, false));
  EXPECT_TRUE(cache->check_agrees(state, config_of(CacheType::F16, false)).ok());
  EXPECT_TRUE(cache->check_agrees(state, config_of(CacheType::F16, false, 512)).ok());
  for (const KvConfig& other : {config_of(CacheType::F32), config_of(CacheType::F16, true),
                                config_of(CacheType::F16, false, 256)}) {
    EXPECT_EQ(cache->check_agrees(state, other).code(), StatusCode::InvalidState);
  }
  const Status status = cache->check_agrees(state_of(8), config_of(CacheType::F16));
  EXPECT_EQ(status.code(), StatusCode::InvalidState);
  EXPECT_NE(status.message().find("heads of 4"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("heads of 8"), std::string::npos) << status.message();
}

TEST(Positions, MustFollowOneAnother) {
  int64_t first = -1;
  ASSERT_TRUE(first_position(std::vector<int32_t>{5, 6, 7}, "input 1", first).ok());
  EXPECT_EQ(first, 5);
  const Status jump = first_position(std::vector<int32_t>{5, 6, 8}, "input 1", first);
  EXPECT_EQ(jump.code(), StatusCode::InvalidArgument);
  EXPECT_NE(jump.message().find("element 2 is position 8, expected 7"), std::string::npos)
      << jump.message();
  EXPECT_FALSE(first_position(std::vector<int32_t>{-1, 0}, "input 1", first).ok());
  EXPECT_FALSE(first_position(std::vector<int32_t>{}, "input 1", first).ok());
  EXPECT_FALSE(first_position(std::vector<int32_t>{2147483647, -2147483647 - 1}, "x", first).ok());
}

TEST(Mask, AgreesWithTheDefinitionForEveryKindOfStep) {
  for (const int64_t window : {0, 1, 3, 100}) {
    for (const bool causal : {true, false}) {
      for (const KvStep& step : {KvStep{0, 4, 8}, KvStep{3, 2, 8}, KvStep{7, 1, 8}}) {
        std::vector<float> mask(static_cast<size_t>(step.n_kv * step.count), 42.0F);
        std::vector<ggml_fp16_t> half(mask.size(), 42);
        fill_mask(step, window, causal, mask);
        fill_mask(step, window, causal, half);
        for (int64_t i = 0; i < step.count; ++i) {
          for (int64_t j = 0; j < step.n_kv; ++j) {
            const int64_t position = step.first + i;
            const bool seen =
                (causal ? j <= position : j < step.end()) && (window == 0 || j > position - window);
            const auto at = static_cast<size_t>(i * step.n_kv + j);
            EXPECT_EQ(mask[at], seen ? 0.0F : kHidden) << "row " << i << " column " << j;
            EXPECT_EQ(ggml_fp16_to_fp32(half[at]), mask[at]);
          }
        }
      }
    }
  }
}

TEST(Ids, AddressRowsAndTransposedElements) {
  const KvStep step{10, 2, 256};
  std::vector<int64_t> rows(2);
  fill_row_ids(step, rows);
  EXPECT_EQ(rows, (std::vector<int64_t>{10, 11}));
  std::vector<int64_t> elements(6);
  fill_value_ids(step, /*channels=*/3, /*capacity=*/100, elements);
  EXPECT_EQ(elements, (std::vector<int64_t>{10, 110, 210, 11, 111, 211}));
}

}  // namespace
}  // namespace executorch_ggml
