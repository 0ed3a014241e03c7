// GgufDataMap: a GGUF file as ExecuTorch named data, alone and merged.
#include <executorch/extension/named_data_map/merged_data_map.h>
#include <executorch/runtime/executor/merged_data_map.h>
#include <executorch/runtime/platform/runtime.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "executorch_ggml/gguf_data_map.h"
#include "tests/cpp/gguf_builder.h"
#include "tests/cpp/temp_file.h"

namespace executorch_ggml {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::Error;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Span;
using testing::GgufBuilder;
using testing::sample_gguf;
using testing::TempFile;

class GgufDataMapTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { executorch::runtime::runtime_init(); }
};

// A loaded map over bytes that live as long.
struct Memory {
  explicit Memory(GgufBuilder builder) : bytes(builder.build()) {
    auto loaded = GgufDataMap::from_memory({bytes.data(), bytes.size()}, message);
    if (loaded.ok()) map = std::move(loaded.get());
  }
  std::vector<uint8_t> bytes;
  std::string message;
  std::unique_ptr<GgufDataMap> map;
};

std::vector<uint8_t> read(const NamedDataMap& map, std::string_view key) {
  auto data = map.get_data(key);
  EXPECT_TRUE(data.ok()) << key;
  if (!data.ok()) return {};
  const auto* begin = static_cast<const uint8_t*>(data->data());
  return {begin, begin + data->size()};
}

TensorDescriptor descriptor_of(const NamedDataMap& map, const std::string& name) {
  TensorDescriptor descriptor = {};
  auto data = map.get_data(kTensorDescriptorPrefix + name);
  EXPECT_TRUE(data.ok()) << name;
  if (!data.ok()) return descriptor;
  EXPECT_EQ(data->size(), sizeof(descriptor));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data->data()) % alignof(TensorDescriptor), 0U);
  std::memcpy(&descriptor, data->data(), sizeof(descriptor));
  return descriptor;
}

void expect_layout(const NamedDataMap& map, std::string_view key, ScalarType type,
                   const std::vector<int32_t>& sizes) {
  const auto layout = map.get_tensor_layout(key);
  ASSERT_TRUE(layout.ok()) << key;
  EXPECT_EQ(layout->scalar_type(), type) << key;
  EXPECT_EQ(std::vector<int32_t>(layout->sizes().begin(), layout->sizes().end()), sizes) << key;
  ASSERT_EQ(layout->dim_order().size(), sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) EXPECT_EQ(layout->dim_order()[d], d);
  auto data = map.get_data(key);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(layout->nbytes(), data->size()) << key;
}

TEST_F(GgufDataMapTest, GivesBytesInPlace) {
  const Memory memory(sample_gguf());
  ASSERT_NE(memory.map, nullptr) << memory.message;
  auto data = memory.map->get_data("blk.0.attn_q.weight");
  ASSERT_TRUE(data.ok());
  const auto* begin = static_cast<const uint8_t*>(data->data());
  EXPECT_GE(begin, memory.bytes.data());
  EXPECT_LE(begin + data->size(), memory.bytes.data() + memory.bytes.size());
  EXPECT_EQ(data->size(), 288U);
  data->Free();  // frees nothing
  EXPECT_EQ(read(*memory.map, "blk.0.attn_q.weight").size(), 288U);
}

TEST_F(GgufDataMapTest, DescribesTensors) {
  const Memory memory(sample_gguf());
  ASSERT_NE(memory.map, nullptr);
  const TensorDescriptor query = descriptor_of(*memory.map, "blk.0.attn_q.weight");
  EXPECT_EQ(std::memcmp(&query.magic, "GGTD", 4), 0);
  EXPECT_EQ(query.magic, kTensorDescriptorMagic);
  EXPECT_EQ(query.ggml_type, 12U);
  EXPECT_EQ(query.n_dims, 2U);
  EXPECT_EQ(query.reserved, 0U);
  EXPECT_EQ(query.ne[0], 256);
  EXPECT_EQ(query.ne[1], 2);
  EXPECT_EQ(query.ne[2], 1);
  EXPECT_EQ(query.ne[3], 1);
  const TensorDescriptor conv = descriptor_of(*memory.map, "blk.0.conv.weight");
  EXPECT_EQ(conv.n_dims, 4U);
  EXPECT_EQ(conv.ne[2], 5);
  expect_layout(*memory.map, "ggml.tensor:blk.0.conv.weight", ScalarType::Byte, {48});
}

TEST_F(GgufDataMapTest, GivesLayoutsInTorchOrder) {
  const Memory memory(sample_gguf());
  ASSERT_NE(memory.map, nullptr);
  const NamedDataMap& map = *memory.map;
  expect_layout(map, "blk.0.attn_norm.weight", ScalarType::Float, {7});
  expect_layout(map, "blk.0.conv.weight", ScalarType::Half, {2, 5, 2, 3});
  expect_layout(map, "blk.0.ids", ScalarType::Int, {2, 2, 2});
  // Quantized: rows of bytes. 64 elements of Q8_0 are 2 blocks of 34 bytes.
  expect_layout(map, "token_embd.weight", ScalarType::Byte, {3, 68});
  expect_layout(map, "blk.0.attn_q.weight", ScalarType::Byte, {2, 144});

  GgufBuilder plain;
  plain.tensor("bf16", 30, {4, 2})
      .tensor("i8", 24, {3})
      .tensor("i16", 25, {3})
      .tensor("i64", 27, {3})
      .tensor("f64", 28, {3});
  const Memory others(plain);
  ASSERT_NE(others.map, nullptr);
  expect_layout(*others.map, "bf16", ScalarType::BFloat16, {2, 4});
  expect_layout(*others.map, "i8", ScalarType::Char, {3});
  expect_layout(*others.map, "i16", ScalarType::Short, {3});
  expect_layout(*others.map, "i64", ScalarType::Long, {3});
  expect_layout(*others.map, "f64", ScalarType::Double, {3});
}

// Sizes are int32 in ExecuTorch; the bytes and the descriptor have no such limit.
TEST_F(GgufDataMapTest, LeavesOutLayoutsThatOverflow) {
  constexpr int64_t kLength = (int64_t{1} << 31) + 32;
  GgufBuilder builder;
  builder.tensor("long", 24, {kLength}, 0);
  const std::vector<uint8_t> header = builder.build();
  const size_t size = header.size() + static_cast<size_t>(kLength);
  // Address space only: the data is never touched.
  void* reserved = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(reserved, MAP_FAILED);
  std::memcpy(reserved, header.data(), header.size());
  {
    std::string message;
    const auto map =
        GgufDataMap::from_memory({static_cast<const uint8_t*>(reserved), size}, message);
    ASSERT_TRUE(map.ok()) << message;
    EXPECT_EQ((*map)->get_tensor_layout("long").error(), Error::NotSupported);
    EXPECT_EQ(descriptor_of(**map, "long").ne[0], kLength);
    auto data = (*map)->get_data("long");
    ASSERT_TRUE(data.ok());
    EXPECT_EQ(data->size(), static_cast<size_t>(kLength));
  }
  ::munmap(reserved, size);
}

TEST_F(GgufDataMapTest, UnknownKeysAreNotFound) {
  const Memory memory(sample_gguf());
  ASSERT_NE(memory.map, nullptr);
  uint8_t byte = 0;
  for (const std::string_view key : {"", "blk.0", "blk.0.attn_q.weight ", "ggml.tensor:",
                                     "ggml.tensor:blk.0", "ggml.tensor:ggml.tensor:blk.0.ids"}) {
    EXPECT_EQ(memory.map->get_data(key).error(), Error::NotFound) << key;
    EXPECT_EQ(memory.map->get_tensor_layout(key).error(), Error::NotFound) << key;
    EXPECT_EQ(memory.map->load_data_into(key, &byte, 1), Error::NotFound) << key;
  }
}

TEST_F(GgufDataMapTest, CopiesOnRequest) {
  const Memory memory(sample_gguf());
  ASSERT_NE(memory.map, nullptr);
  const std::vector<uint8_t> expected = read(*memory.map, "blk.0.attn_norm.weight");
  ASSERT_EQ(expected.size(), 28U);
  std::vector<uint8_t> copy(28);
  EXPECT_EQ(memory.map->load_data_into("blk.0.attn_norm.weight", copy.data(), 28), Error::Ok);
  EXPECT_EQ(copy, expected);
  EXPECT_EQ(memory.map->load_data_into("blk.0.attn_norm.weight", copy.data(), 29),
            Error::InvalidArgument);
  EXPECT_EQ(memory.map->load_data_into("blk.0.attn_norm.weight", nullptr, 28),
            Error::InvalidArgument);
}

TEST_F(GgufDataMapTest, ListsBothKindsOfKeys) {
  const Memory memory(sample_gguf());
  ASSERT_NE(memory.map, nullptr);
  ASSERT_EQ(memory.map->get_num_keys().get(), 10U);
  std::set<std::string> keys;
  for (uint32_t i = 0; i < 10; ++i) {
    const auto key = memory.map->get_key(i);
    ASSERT_TRUE(key.ok());
    EXPECT_EQ(*key, memory.map->get_key(i).get()) << "pointers stay the same";
    keys.insert(*key);
    EXPECT_TRUE(memory.map->get_data(*key).ok()) << *key;
  }
  EXPECT_EQ(keys.size(), 10U);
  EXPECT_TRUE(keys.contains("token_embd.weight"));
  EXPECT_TRUE(keys.contains("ggml.tensor:token_embd.weight"));
  EXPECT_EQ(memory.map->get_key(10).error(), Error::InvalidArgument);
}

TEST_F(GgufDataMapTest, AnswersQuestionsOfPrograms) {
  const Memory memory(sample_gguf());
  ASSERT_NE(memory.map, nullptr);
  EXPECT_EQ(memory.map->architecture(), "llama");
  EXPECT_EQ(memory.map->name(), "tiny");
  EXPECT_EQ(memory.map->context_length(), 2048);
  EXPECT_EQ(memory.map->bos_token_id(), 1);
  EXPECT_EQ(memory.map->eos_token_id(), 2);
  EXPECT_EQ(memory.map->metadata_f64("llama.rope.freq_base"), 10000.0);
  EXPECT_EQ(memory.map->metadata_bool("t.bool"), true);
  EXPECT_EQ(memory.map->metadata_i64("general.name"), std::nullopt);
  EXPECT_EQ(memory.map->metadata_string("t.bool"), std::nullopt);
  EXPECT_EQ(memory.map->n_tensors(), 5U);
  EXPECT_EQ(memory.map->file_size(), memory.bytes.size());

  GgufBuilder silent;
  silent.tensor("w", 0, {1});
  const Memory little(silent);
  ASSERT_NE(little.map, nullptr);
  EXPECT_EQ(little.map->architecture(), std::nullopt);
  EXPECT_EQ(little.map->context_length(), std::nullopt);
  EXPECT_EQ(little.map->eos_token_id(), std::nullopt);
}

TEST_F(GgufDataMapTest, RefusesNamesOfDescriptors) {
  GgufBuilder builder;
  builder.tensor("w", 0, {1}).tensor("ggml.tensor:w", 0, {1});
  const Memory memory(builder);
  EXPECT_EQ(memory.map, nullptr);
  EXPECT_NE(memory.message.find("reserved"), std::string::npos) << memory.message;
}

TEST_F(GgufDataMapTest, LoadsFromDiskAndNamesTheFile) {
  std::string message;
  {
    const TempFile temp(sample_gguf().build(), ".gguf");
    const auto map = GgufDataMap::load(temp.path());
    ASSERT_TRUE(map.ok());
    EXPECT_EQ((*map)->architecture(), "llama");
    const Memory memory(sample_gguf());
    EXPECT_EQ(read(**map, "blk.0.conv.weight"), read(*memory.map, "blk.0.conv.weight"));
  }
  EXPECT_EQ(GgufDataMap::load("/no/such.gguf", message).error(), Error::AccessFailed);
  EXPECT_EQ(message, "cannot open '/no/such.gguf': No such file or directory");
  EXPECT_EQ(GgufDataMap::load("", message).error(), Error::AccessFailed);
  EXPECT_EQ(message, "the path of the GGUF file is empty");

  const std::vector<uint8_t> zip = {'P', 'K', 3, 4, 0, 0, 0, 0};
  const TempFile other(zip, ".gguf");
  EXPECT_EQ(GgufDataMap::load(other.path(), message).error(), Error::InvalidExternalData);
  EXPECT_EQ(message, "GGUF file '" + other.path() +
                         "': not a GGUF file: it starts with 'PK\\x03\\x04', expected 'GGUF'");
}

// Reading lost pages of a mapping would kill the process.
TEST_F(GgufDataMapTest, RefusesDataOfAFileCutWhileInUse) {
  const TempFile temp(sample_gguf().build(), ".gguf");
  const auto map = GgufDataMap::load(temp.path());
  ASSERT_TRUE(map.ok());
  ASSERT_TRUE((*map)->get_data("blk.0.ids").ok());
  temp.resize(1);
  EXPECT_EQ((*map)->get_data("blk.0.ids").error(), Error::InvalidExternalData);
  std::array<uint8_t, 4> buffer = {};
  EXPECT_EQ((*map)->load_data_into("blk.0.ids", buffer.data(), 4), Error::InvalidExternalData);
  EXPECT_EQ((*map)->architecture(), std::nullopt);
  // What was copied stays.
  EXPECT_EQ(descriptor_of(**map, "blk.0.ids").ne[0], 2);
  EXPECT_STREQ((*map)->get_key(0).get(), "token_embd.weight");
}

TEST_F(GgufDataMapTest, MergesWithExecuTorchsMaps) {
  const Memory first(sample_gguf());
  GgufBuilder more;
  more.tensor("mmproj.weight", 1, {8, 2});
  const Memory second(more);
  ASSERT_NE(first.map, nullptr);
  ASSERT_NE(second.map, nullptr);

  // As Module merges data files, and as Method merges them with the program's.
  std::array<const NamedDataMap*, 2> maps = {first.map.get(), second.map.get()};
  auto files =
      executorch::extension::merged_data_map::MergedDataMap::load({maps.data(), maps.size()});
  ASSERT_TRUE(files.ok());
  GgufBuilder inside;
  inside.tensor("constant", 0, {4});
  const Memory program(inside);
  ASSERT_NE(program.map, nullptr);
  auto all = executorch::runtime::internal::MergedDataMap::load(&files.get(), program.map.get());
  ASSERT_TRUE(all.ok());

  EXPECT_EQ(all->get_num_keys().get(), 14U);
  EXPECT_EQ(read(*all, "blk.0.attn_q.weight"), read(*first.map, "blk.0.attn_q.weight"));
  EXPECT_EQ(read(*all, "mmproj.weight"), read(*second.map, "mmproj.weight"));
  EXPECT_EQ(read(*all, "constant"), read(*program.map, "constant"));
  EXPECT_EQ(descriptor_of(*all, "token_embd.weight").ggml_type, 8U);
  EXPECT_EQ(descriptor_of(*all, "mmproj.weight").ggml_type, 1U);
  EXPECT_EQ(descriptor_of(*all, "constant").ne[0], 4);
  expect_layout(*all, "mmproj.weight", ScalarType::Half, {2, 8});
  EXPECT_EQ(all->get_data("absent").error(), Error::NotFound);
  for (uint32_t i = 0; i < 14; ++i) {
    const auto key = all->get_key(i);
    ASSERT_TRUE(key.ok());
    EXPECT_TRUE(all->get_data(*key).ok()) << *key;
  }
}

TEST_F(GgufDataMapTest, MergingFindsNamesInBothFiles) {
  const Memory first(sample_gguf());
  const Memory second(sample_gguf());
  std::array<const NamedDataMap*, 2> maps = {first.map.get(), second.map.get()};
  EXPECT_FALSE(
      executorch::extension::merged_data_map::MergedDataMap::load({maps.data(), maps.size()}).ok());
  EXPECT_FALSE(
      executorch::runtime::internal::MergedDataMap::load(first.map.get(), second.map.get()).ok());
}

TEST_F(GgufDataMapTest, IsReadFromManyThreads) {
  const TempFile temp(sample_gguf().build(), ".gguf");
  const auto map = GgufDataMap::load(temp.path());
  ASSERT_TRUE(map.ok());
  const std::vector<uint8_t> expected = read(**map, "blk.0.conv.weight");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        auto data = (*map)->get_data("blk.0.conv.weight");
        if (!data.ok() || data->size() != expected.size() ||
            std::memcmp(data->data(), expected.data(), expected.size()) != 0 ||
            !(*map)->get_tensor_layout("token_embd.weight").ok() ||
            (*map)->architecture() != "llama") {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace executorch_ggml
