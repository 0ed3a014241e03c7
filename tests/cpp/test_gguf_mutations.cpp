// Thousands of damaged GGUF files: each gives an error or a file that is sound.
//
// A crash, an endless loop, an access outside the bytes (under AddressSanitizer)
// or an allocation out of proportion fails. The mutations are the same in every
// run; a failure prints the one that caused it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <random>

#include "executorch_ggml/gguf_data_map.h"
#include "runtime/gguf_file.h"
#include "tests/cpp/gguf_builder.h"
#include "tests/cpp/temp_file.h"

namespace {

// The largest single allocation since it was last set to zero.
std::atomic<size_t> largest_allocation = 0;

void* counted_allocation(size_t size) {
  size_t seen = largest_allocation.load(std::memory_order_relaxed);
  while (size > seen && !largest_allocation.compare_exchange_weak(seen, size)) {
  }
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// GCC sees free() meet memory of operator new when it inlines these.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(size_t size) { return counted_allocation(size); }
void* operator new[](size_t size) { return counted_allocation(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace executorch_ggml {
namespace {

using testing::Field;
using testing::sample_gguf;
using testing::TempFile;

constexpr size_t kMostMemory = 256 * 1024;  // for files of about 2 KB

// Keeps the compiler from dropping reads, whose only point is that they may fault.
volatile uint64_t sink = 0;

struct Tally {
  size_t tried = 0;
  size_t accepted = 0;
};

// Everything a reader can ask of a file that was accepted.
void use(const GgufFile& file, std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    ASSERT_NE(ggml_type_info(tensor.type), nullptr);
    ASSERT_GE(tensor.n_dims, 1U);
    ASSERT_LE(tensor.n_dims, 4U);
    for (const int64_t extent : tensor.ne) ASSERT_GE(extent, 1);
    ASSERT_GT(tensor.nbytes, 0U);
    ASSERT_LE(tensor.nbytes, bytes.size());
    ASSERT_LE(tensor.offset, bytes.size() - tensor.nbytes);
    ASSERT_EQ((tensor.offset - file.data_offset()) % file.alignment(), 0U);
    ASSERT_EQ(file.find_tensor(tensor.name), &tensor);
    ASSERT_LT(tensor.name.size(), 64U);
    const std::span<const uint8_t> data = file.data(tensor);
    sum = std::accumulate(data.begin(), data.end(), sum);
  }
  for (size_t i = 0; i < file.n_keys(); ++i) {
    const std::string_view key = file.key(i);
    ASSERT_TRUE(file.has(key));
    std::string_view text;
    int64_t integer = 0;
    uint64_t wide = 0;
    double real = 0;
    bool flag = false;
    GgufArray array;
    if (file.get_string(key, text).ok()) {
      for (const char c : text) sum += static_cast<unsigned char>(c);
    }
    sum += file.get_i64(key, integer).ok() ? 1U : 0U;
    sum += file.get_u64(key, wide).ok() ? 1U : 0U;
    sum += file.get_f64(key, real).ok() ? 1U : 0U;
    sum += file.get_bool(key, flag).ok() ? 1U : 0U;
    if (!file.get_array(key, array).ok()) continue;
    ASSERT_LE(array.size(), bytes.size());
    for (uint64_t e = 0; e < array.size(); ++e) {
      sum += array.i64_at(e).has_value() ? 1U : 0U;
      sum += array.f64_at(e).has_value() ? 1U : 0U;
    }
    uint64_t strings = 0;
    array.for_each_string([&](uint64_t, std::string_view element) {
      for (const char c : element) sum += static_cast<unsigned char>(c);
      ++strings;
      return true;
    });
    ASSERT_EQ(strings, array.element_type() == GgufType::String ? array.size() : 0);
  }
  sink = sink + sum;
}

void try_file(std::span<const uint8_t> mutated, Tally& tally) {
  // A copy of the exact size, so that a read past the end is a read past the
  // allocation.
  const auto copy = std::make_unique<uint8_t[]>(mutated.size());
  std::ranges::copy(mutated, copy.get());
  const std::span<const uint8_t> bytes(copy.get(), mutated.size());

  largest_allocation = 0;
  GgufFile file;
  const Status status = GgufFile::parse(bytes, file);
  ASSERT_LE(largest_allocation.load(), kMostMemory) << status.message();
  ++tally.tried;
  if (status.ok()) {
    ++tally.accepted;
    use(file, bytes);
  } else {
    ASSERT_EQ(status.code(), StatusCode::InvalidExternalData);
    ASSERT_FALSE(status.message().empty());
    ASSERT_LE(status.message().size(), 1000U);
    for (const char c : status.message()) ASSERT_TRUE(c >= 0x20 && c < 0x7f) << status.message();
  }
  // The data map takes what the parser takes: no name here has the reserved prefix.
  std::string message;
  const auto map = GgufDataMap::from_memory({bytes.data(), bytes.size()}, message);
  ASSERT_EQ(map.ok(), status.ok()) << message;
}

template <typename T>
void put(std::vector<uint8_t>& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

TEST(GgufMutations, OfEveryBit) {
  const std::vector<uint8_t> valid = sample_gguf().build();
  const size_t header = [&] {
    GgufFile file;
    EXPECT_TRUE(GgufFile::parse(valid, file).ok());
    return file.data_offset();
  }();
  Tally tally;
  for (size_t bit = 0; bit < 8 * header; ++bit) {
    SCOPED_TRACE("bit " + std::to_string(bit));
    std::vector<uint8_t> bytes = valid;
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ (1U << (bit % 8)));
    try_file(bytes, tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(tally.tried, 8 * header);
  // A bit of a name or a value may well be another: both answers must occur.
  EXPECT_GT(tally.accepted, 100U);
  EXPECT_LT(tally.accepted, tally.tried);
}

TEST(GgufMutations, OfEveryNumber) {
  const std::vector<uint8_t> valid = sample_gguf().build();
  const std::vector<Field> fields = sample_gguf().fields();
  ASSERT_GE(fields.size(), 90U);
  const uint64_t values[] = {0,
                             1,
                             2,
                             9,
                             13,
                             31,
                             255,
                             valid.size() - 1,
                             valid.size(),
                             valid.size() + 1,
                             0x7FFF,
                             0xFFFF,
                             0x7FFFFFFF,
                             0x80000000,
                             0xFFFFFFFF,
                             uint64_t{1} << 32,
                             uint64_t{1} << 60,
                             (uint64_t{1} << 61) - 1,
                             uint64_t{1} << 62,
                             std::numeric_limits<int64_t>::max(),
                             uint64_t{1} << 63,
                             ~uint64_t{0} - 31,
                             ~uint64_t{0} - 7,
                             ~uint64_t{0}};
  Tally tally;
  for (const Field& field : fields) {
    for (const uint64_t value : values) {
      SCOPED_TRACE("value " + std::to_string(value) + " at " + std::to_string(field.offset));
      std::vector<uint8_t> bytes = valid;
      std::memcpy(bytes.data() + field.offset, &value, field.width);
      try_file(bytes, tally);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(tally.tried, 2000U);
}

// Whatever the structure: an extreme number at every position.
TEST(GgufMutations, OfEveryPosition) {
  const std::vector<uint8_t> valid = sample_gguf().build();
  Tally tally;
  for (size_t offset = 0; offset + 8 <= valid.size(); ++offset) {
    SCOPED_TRACE("offset " + std::to_string(offset));
    for (const uint64_t value : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 40}) {
      std::vector<uint8_t> wide = valid;
      put(wide, offset, value);
      try_file(wide, tally);
      std::vector<uint8_t> narrow = valid;
      put(narrow, offset, static_cast<uint32_t>(value >> 16));
      try_file(narrow, tally);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(tally.tried, 6000U);
}

TEST(GgufMutations, Random) {
  const std::vector<uint8_t> valid = sample_gguf().build();
  std::mt19937 random(20260101);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Tally tally;
  for (int round = 0; round < 6000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<uint8_t> bytes = valid;
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(bytes.size());
      switch (below(5)) {
        case 0:  // one byte
          bytes[at] = static_cast<uint8_t>(random());
          break;
        case 1: {  // a run of noise
          const size_t end = std::min(bytes.size(), at + 1 + below(16));
          for (size_t i = at; i < end; ++i) bytes[i] = static_cast<uint8_t>(random());
          break;
        }
        case 2: {  // remove a run
          const size_t end = std::min(bytes.size(), at + 1 + below(32));
          bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at),
                      bytes.begin() + static_cast<ptrdiff_t>(end));
          break;
        }
        case 3: {  // repeat a run
          const size_t end = std::min(bytes.size(), at + 1 + below(64));
          const std::vector<uint8_t> run(bytes.begin() + static_cast<ptrdiff_t>(at),
                                         bytes.begin() + static_cast<ptrdiff_t>(end));
          bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(below(bytes.size())), run.begin(),
                       run.end());
          break;
        }
        default:  // cut the end
          bytes.resize(std::max<size_t>(1, at));
          break;
      }
      if (bytes.empty()) bytes.push_back(0);
    }
    try_file(bytes, tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(tally.tried, 6000U);
}

TEST(GgufMutations, Noise) {
  std::mt19937 random(7);
  Tally tally;
  for (size_t length = 0; length < 2000; ++length) {
    SCOPED_TRACE("length " + std::to_string(length));
    std::vector<uint8_t> bytes(length);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    // Half of them get past the header.
    if (length >= 24 && length % 2 == 0) {
      const std::vector<uint8_t> start = sample_gguf().build();
      std::copy_n(start.begin(), 8, bytes.begin());
      put(bytes, 8, uint64_t{random() % 4});
      put(bytes, 16, uint64_t{random() % 4});
    }
    try_file(bytes, tally);
    if (HasFatalFailure()) return;
  }
}

// Files on disk: the mapping ends where the file ends.
TEST(GgufMutations, FilesCutOnDisk) {
  const std::vector<uint8_t> valid = sample_gguf().build();
  const TempFile temp(valid, ".gguf");
  std::string message;
  ASSERT_TRUE(GgufDataMap::load(temp.path(), message).ok()) << message;
  for (size_t length = valid.size() - 1; length > 0; length -= std::min<size_t>(length, 7)) {
    temp.resize(length);
    const auto map = GgufDataMap::load(temp.path(), message);
    ASSERT_FALSE(map.ok()) << "cut at " << length;
    EXPECT_EQ(map.error(), executorch::runtime::Error::InvalidExternalData);
    EXPECT_NE(message.find(temp.path()), std::string::npos) << message;
  }
  temp.resize(0);
  EXPECT_FALSE(GgufDataMap::load(temp.path(), message).ok());
  EXPECT_NE(message.find("is empty"), std::string::npos) << message;
}

}  // namespace
}  // namespace executorch_ggml
