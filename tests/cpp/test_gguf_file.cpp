// GgufFile: what a valid file says, and how each kind of wrong file is refused.
#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "runtime/gguf_file.h"
#include "tests/cpp/gguf_builder.h"

namespace executorch_ggml {
namespace {

using testing::GgufBuilder;
using testing::sample_gguf;

// The error of a file that must be refused.
std::string refusal(const std::vector<uint8_t>& bytes) {
  GgufFile file;
  const Status status = GgufFile::parse(bytes, file);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::InvalidExternalData);
  EXPECT_TRUE(file.tensors().empty()) << "an error must leave the result untouched";
  return status.message();
}

// The message holds each of the parts.
#define EXPECT_REFUSED(bytes, ...)                        \
  do {                                                    \
    const std::string message_ = refusal(bytes);          \
    for (const char* part_ : {__VA_ARGS__}) {             \
      EXPECT_NE(message_.find(part_), std::string::npos)  \
          << "'" << part_ << "' is not in: " << message_; \
    }                                                     \
  } while (0)

TEST(GgufFile, ReadsEveryValueType) {
  const std::vector<uint8_t> bytes = sample_gguf().build();
  GgufFile file;
  const Status status = GgufFile::parse(bytes, file);
  ASSERT_TRUE(status.ok()) << status.message();

  EXPECT_EQ(file.version(), 3U);
  EXPECT_EQ(file.alignment(), 32U);
  EXPECT_EQ(file.n_keys(), 19U);
  EXPECT_EQ(file.key(0), "general.architecture");
  EXPECT_EQ(file.type(2), GgufType::U32);

  std::string_view text;
  ASSERT_TRUE(file.get_string("general.architecture", text).ok());
  EXPECT_EQ(text, "llama");

  const std::pair<const char*, int64_t> integers[] = {{"t.u8", 200},
                                                      {"t.i8", -5},
                                                      {"t.u16", 60000},
                                                      {"t.i16", -300},
                                                      {"t.i32", -70000},
                                                      {"t.i64", -5000000000},
                                                      {"llama.context_length", 2048}};
  for (const auto& [key, expected] : integers) {
    int64_t value = 0;
    ASSERT_TRUE(file.get_i64(key, value).ok()) << key;
    EXPECT_EQ(value, expected) << key;
    double real = 0;
    ASSERT_TRUE(file.get_f64(key, real).ok()) << key;
    EXPECT_EQ(real, static_cast<double>(expected)) << key;
  }
  uint64_t wide = 0;
  ASSERT_TRUE(file.get_u64("t.u64", wide).ok());
  EXPECT_EQ(wide, ~uint64_t{0});
  double real = 0;
  ASSERT_TRUE(file.get_f64("t.f64", real).ok());
  EXPECT_EQ(real, 0.125);
  ASSERT_TRUE(file.get_f64("llama.rope.freq_base", real).ok());
  EXPECT_EQ(real, 10000.0);
  bool flag = false;
  ASSERT_TRUE(file.get_bool("t.bool", flag).ok());
  EXPECT_TRUE(flag);
}

TEST(GgufFile, SaysWhyAValueCannotBeGiven) {
  const std::vector<uint8_t> bytes = sample_gguf().build();
  GgufFile file;
  ASSERT_TRUE(GgufFile::parse(bytes, file).ok());
  int64_t integer = 77;
  uint64_t wide = 77;
  double real = 77;
  bool flag = true;
  std::string_view text = "untouched";
  GgufArray array;

  EXPECT_EQ(file.get_i64("no.such.key", integer).code(), StatusCode::NotFound);
  EXPECT_FALSE(file.has("no.such.key"));
  EXPECT_EQ(file.get_i64("general.name", integer).message(),
            "GGUF metadata key 'general.name' is of type string, expected an integer");
  EXPECT_EQ(file.get_i64("t.f64", integer).code(), StatusCode::InvalidExternalData);
  EXPECT_EQ(file.get_i64("t.u64", integer).code(), StatusCode::InvalidExternalData);
  EXPECT_EQ(file.get_u64("t.i8", wide).message(),
            "GGUF metadata key 't.i8' is -5, expected at least 0");
  EXPECT_FALSE(file.get_f64("t.bool", real).ok());
  EXPECT_FALSE(file.get_bool("t.u8", flag).ok());
  EXPECT_FALSE(file.get_string("t.u8", text).ok());
  EXPECT_FALSE(file.get_array("t.u8", array).ok());
  EXPECT_EQ(integer, 77);
  EXPECT_EQ(wide, 77U);
  EXPECT_EQ(real, 77);
  EXPECT_EQ(text, "untouched");
}

TEST(GgufFile, ReadsArraysOnDemand) {
  const std::vector<uint8_t> bytes = sample_gguf().build();
  GgufFile file;
  ASSERT_TRUE(GgufFile::parse(bytes, file).ok());

  GgufArray tokens;
  ASSERT_TRUE(file.get_array("tokenizer.ggml.tokens", tokens).ok());
  EXPECT_EQ(tokens.element_type(), GgufType::String);
  EXPECT_EQ(tokens.size(), 4U);
  std::vector<std::string> seen;
  tokens.for_each_string([&](uint64_t index, std::string_view text) {
    EXPECT_EQ(index, seen.size());
    seen.emplace_back(text);
    return true;
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"<s>", "</s>", "", "hello"}));
  size_t visits = 0;
  tokens.for_each_string([&](uint64_t, std::string_view) { return ++visits < 2; });
  EXPECT_EQ(visits, 2U);
  EXPECT_FALSE(tokens.i64_at(0).has_value());

  GgufArray types;
  ASSERT_TRUE(file.get_array("tokenizer.ggml.token_type", types).ok());
  EXPECT_EQ(types.i64_at(0), 3);
  EXPECT_EQ(types.i64_at(3), -1);
  EXPECT_EQ(types.f64_at(3), -1.0);
  EXPECT_FALSE(types.i64_at(4).has_value());
  types.for_each_string([](uint64_t, std::string_view) {
    ADD_FAILURE() << "not strings";
    return true;
  });

  GgufArray scores;
  ASSERT_TRUE(file.get_array("tokenizer.ggml.scores", scores).ok());
  EXPECT_EQ(scores.f64_at(0), 0.5);
  EXPECT_FALSE(scores.i64_at(0).has_value());
}

TEST(GgufFile, PlacesTensors) {
  const std::vector<uint8_t> bytes = sample_gguf().build();
  GgufFile file;
  ASSERT_TRUE(GgufFile::parse(bytes, file).ok());
  ASSERT_EQ(file.tensors().size(), 5U);
  EXPECT_EQ(file.data_offset() % 32, 0U);

  const GgufTensor* query = file.find_tensor("blk.0.attn_q.weight");
  ASSERT_NE(query, nullptr);
  EXPECT_EQ(query, &file.tensors()[2]);
  EXPECT_EQ(query->type, 12U);
  EXPECT_EQ(query->n_dims, 2U);
  EXPECT_EQ(query->ne, (std::array<int64_t, 4>{256, 2, 1, 1}));
  EXPECT_EQ(query->nbytes, 288U);
  EXPECT_EQ(query->offset % 32, 0U);

  // The builder numbers the data bytes, so a tensor's first byte tells its place.
  for (const GgufTensor& tensor : file.tensors()) {
    const std::span<const uint8_t> data = file.data(tensor);
    EXPECT_EQ(data.size(), tensor.nbytes);
    EXPECT_EQ(data.front(), static_cast<uint8_t>(tensor.offset - file.data_offset()));
  }
  const GgufTensor& last = file.tensors().back();
  EXPECT_EQ(last.offset + last.nbytes, bytes.size());
  EXPECT_EQ(file.find_tensor("blk.0.attn"), nullptr);
  EXPECT_EQ(file.find_tensor(""), nullptr);
}

// The same file through ggml's own reader.
TEST(GgufFile, AgreesWithGgml) {
  const std::vector<uint8_t> bytes = [] {
    GgufBuilder builder = sample_gguf();
    std::vector<uint8_t> built = builder.build();
    built.resize((built.size() + 31) / 32 * 32);  // ggml wants the last padding too
    return built;
  }();
  GgufFile file;
  ASSERT_TRUE(GgufFile::parse(bytes, file).ok());
  const gguf_init_params params = {.no_alloc = true, .ctx = nullptr};
  const std::unique_ptr<gguf_context, decltype(&gguf_free)> peer(
      gguf_init_from_buffer(bytes.data(), bytes.size(), params), gguf_free);
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(static_cast<size_t>(gguf_get_n_kv(peer.get())), file.n_keys());
  EXPECT_EQ(gguf_get_data_offset(peer.get()), file.data_offset());
  ASSERT_EQ(static_cast<size_t>(gguf_get_n_tensors(peer.get())), file.tensors().size());
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const GgufTensor& tensor = file.tensors()[i];
    const auto id = static_cast<int64_t>(i);
    EXPECT_EQ(gguf_get_tensor_name(peer.get(), id), tensor.name);
    EXPECT_EQ(static_cast<uint32_t>(gguf_get_tensor_type(peer.get(), id)), tensor.type);
    EXPECT_EQ(gguf_get_tensor_offset(peer.get(), id) + file.data_offset(), tensor.offset);
    EXPECT_EQ(gguf_get_tensor_size(peer.get(), id), tensor.nbytes);
  }
}

TEST(GgufFile, KnowsEveryGgmlType) {
  for (uint32_t type = 0; type < GGML_TYPE_COUNT; ++type) {
    const auto id = static_cast<ggml_type>(type);
    const GgmlTypeInfo* info = ggml_type_info(type);
    if (ggml_blck_size(id) == 0) {
      EXPECT_EQ(info, nullptr) << type;
      EXPECT_NE(removed_ggml_type_name(type), nullptr) << type;
      continue;
    }
    ASSERT_NE(info, nullptr) << ggml_type_name(id);
    EXPECT_EQ(removed_ggml_type_name(type), nullptr);
    EXPECT_STRCASEEQ(info->name, ggml_type_name(id));
    EXPECT_EQ(static_cast<int64_t>(info->block_size), ggml_blck_size(id)) << info->name;
    EXPECT_EQ(info->type_size, ggml_type_size(id)) << info->name;
  }
  EXPECT_EQ(ggml_type_info(GGML_TYPE_COUNT), nullptr);
  EXPECT_EQ(ggml_type_info(0xFFFFFFFF), nullptr);
}

TEST(GgufFile, AcceptsVersion2AndOtherAlignments) {
  GgufBuilder two = sample_gguf();
  two.version = 2;
  GgufFile file;
  const std::vector<uint8_t> old_bytes = two.build();
  ASSERT_TRUE(GgufFile::parse(old_bytes, file).ok());
  EXPECT_EQ(file.version(), 2U);

  GgufBuilder wide;
  wide.alignment = 4096;
  wide.u32("general.alignment", 4096).tensor("a", 0, {1}).tensor("b", 0, {1});
  const std::vector<uint8_t> wide_bytes = wide.build();
  ASSERT_TRUE(GgufFile::parse(wide_bytes, file).ok());
  EXPECT_EQ(file.tensors()[1].offset, 8192U);

  GgufBuilder narrow;
  narrow.alignment = 1;
  narrow.u32("general.alignment", 1).tensor("a", 24, {3}).tensor("b", 24, {2});
  const std::vector<uint8_t> narrow_bytes = narrow.build();
  ASSERT_TRUE(GgufFile::parse(narrow_bytes, file).ok());
  EXPECT_EQ(file.tensors()[1].offset, file.data_offset() + 3);
}

TEST(GgufFile, AcceptsAFileWithoutTensors) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  const std::vector<uint8_t> bytes = builder.build();
  GgufFile file;
  ASSERT_TRUE(GgufFile::parse(bytes, file).ok());
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_LE(file.data_offset(), bytes.size());
}

TEST(GgufFileRefuses, WrongMagicVersionAndByteOrder) {
  EXPECT_REFUSED({}, "file ends at byte 0 in the header");
  GgufBuilder file = sample_gguf();
  file.magic = "GG\nF";
  EXPECT_REFUSED(file.build(), "not a GGUF file", "'GG\\x0aF'", "expected 'GGUF'");
  file.magic = "GGUF";
  file.version = 1;
  EXPECT_REFUSED(file.build(), "version 1 is not supported", "convert the model again");
  file.version = 4;
  EXPECT_REFUSED(file.build(), "version 4 is not supported, expected 2 or 3");
  file.version = 0;
  EXPECT_REFUSED(file.build(), "version 0");
  file.version = 0x03000000;
  EXPECT_REFUSED(file.build(), "big-endian");
}

TEST(GgufFileRefuses, HugeCountsAndLengths) {
  GgufBuilder file = sample_gguf();
  file.n_keys = ~uint64_t{0};
  EXPECT_REFUSED(file.build(), "counts 18446744073709551615 metadata keys", "hold at most");
  file.n_keys.reset();
  file.n_tensors = uint64_t{1} << 60;
  EXPECT_REFUSED(file.build(), "counts 1152921504606846976 tensors");

  GgufBuilder array;
  array.raw_array("a", static_cast<uint32_t>(GgufType::F64), uint64_t{1} << 61);
  EXPECT_REFUSED(array.build(), "metadata key 0 'a'", "2305843009213693952 elements");
  GgufBuilder strings;
  strings.raw_array("a", static_cast<uint32_t>(GgufType::String), 1);
  EXPECT_REFUSED(strings.build(), "array of 1 elements", "hold at most 0");
  GgufBuilder text;
  text.raw_key("s", static_cast<uint32_t>(GgufType::String),
               {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF});
  EXPECT_REFUSED(text.build(), "'s'", "needs 18446744073709551615 bytes");
}

TEST(GgufFileRefuses, BadMetadata) {
  GgufBuilder twice;
  twice.u32("k", 1).u32("other", 2).u32("k", 3);
  EXPECT_REFUSED(twice.build(), "metadata key 'k' occurs twice");

  GgufBuilder unknown;
  unknown.raw_key("k", 13, std::vector<uint8_t>(8));
  EXPECT_REFUSED(unknown.build(), "'k' has unknown value type 13");
  GgufBuilder unknown_elements;
  unknown_elements.raw_array("k", 99, 0);
  EXPECT_REFUSED(unknown_elements.build(), "array of unknown type 99");
  GgufBuilder nested;
  nested.raw_array("k", static_cast<uint32_t>(GgufType::Array), 0);
  EXPECT_REFUSED(nested.build(), "array of arrays");

  GgufBuilder unnamed;
  unnamed.u32("", 1);
  EXPECT_REFUSED(unnamed.build(), "metadata key 0 at byte 24 has a bad name (0 bytes)");
  GgufBuilder binary;
  binary.u32("a\xff", 1);
  EXPECT_REFUSED(binary.build(), "'a\\xff'", "UTF-8");
  GgufBuilder zero;
  zero.u32(std::string_view("a\0b", 3), 1);
  EXPECT_REFUSED(zero.build(), "NUL");

  GgufBuilder flag;
  flag.number("f", GgufType::Bool, uint8_t{2});
  EXPECT_REFUSED(flag.build(), "bool of value 2");
}

TEST(GgufFileRefuses, BadAlignment) {
  for (const uint32_t alignment : {0U, 3U, 48U, 1U << 21, 0xFFFFFFFFU}) {
    GgufBuilder file;
    file.u32("general.alignment", alignment).tensor("a", 0, {1});
    EXPECT_REFUSED(file.build(), "general.alignment is", "power of two");
  }
  GgufBuilder type;
  type.number("general.alignment", GgufType::U64, uint64_t{32}).tensor("a", 0, {1});
  EXPECT_REFUSED(type.build(), "general.alignment", "of type u64, expected u32");
}

TEST(GgufFileRefuses, BadTensorNames) {
  GgufBuilder twice;
  twice.tensor("w", 0, {1}).tensor("v", 0, {1}).tensor("w", 0, {1});
  EXPECT_REFUSED(twice.build(), "tensor 'w' occurs twice");
  GgufBuilder longest;
  longest.tensor(std::string(63, 'n'), 0, {1});
  GgufFile file;
  const std::vector<uint8_t> bytes = longest.build();
  EXPECT_TRUE(GgufFile::parse(bytes, file).ok());
  GgufBuilder overlong;
  overlong.tensor(std::string(64, 'n'), 0, {1});
  EXPECT_REFUSED(overlong.build(), "bad name (64 bytes)", "1 to 63 bytes");
  GgufBuilder unnamed;
  unnamed.tensor("", 0, {1});
  EXPECT_REFUSED(unnamed.build(), "tensor 0", "bad name");
  for (const std::string_view bad :
       {std::string_view("a\0", 2), std::string_view("\xc0\xaf"), std::string_view("\xed\xa0\x80"),
        std::string_view("\xf4\x90\x80\x80"), std::string_view("\xe2\x82"),
        std::string_view("\x80")}) {
    GgufBuilder builder;
    builder.tensor(bad, 0, {1});
    EXPECT_REFUSED(builder.build(), "bad name");
  }
  GgufBuilder unicode;
  unicode.tensor("\xe2\x82\xac\xf0\x9f\x98\x80", 0, {1});
  const std::vector<uint8_t> unicode_bytes = unicode.build();
  EXPECT_TRUE(GgufFile::parse(unicode_bytes, file).ok());
}

TEST(GgufFileRefuses, BadShapes) {
  GgufBuilder scalar;
  scalar.tensor("w", 0, {});
  EXPECT_REFUSED(scalar.build(), "'w' has 0 dimensions, expected 1 to 4");
  GgufBuilder five;
  five.tensor("w", 0, {1, 1, 1, 1, 1});
  EXPECT_REFUSED(five.build(), "5 dimensions");
  GgufBuilder zero;
  zero.tensor("w", 0, {4, 0});
  EXPECT_REFUSED(zero.build(), "extent 0 in dimension 1");
  GgufBuilder negative;
  negative.tensor("w", 0, {-4}, 0);
  EXPECT_REFUSED(negative.build(), "extent -4 in dimension 0");
  constexpr int64_t kHalf = int64_t{1} << 32;
  GgufBuilder elements;
  elements.tensor("w", 24, {kHalf, kHalf}, 0);
  EXPECT_REFUSED(elements.build(), "size of tensor 'w' overflows", "4294967296 x 4294967296");
  GgufBuilder nbytes;
  nbytes.tensor("w", 28, {int64_t{1} << 61}, 0);
  EXPECT_REFUSED(nbytes.build(), "overflows");
}

TEST(GgufFileRefuses, BadTypes) {
  GgufBuilder blocks;
  blocks.tensor("w", 8, {48}, 0);
  EXPECT_REFUSED(blocks.build(), "rows of 48 elements", "Q8_0", "block of 32");
  GgufBuilder unknown;
  unknown.tensor("w", 43, {32});
  EXPECT_REFUSED(unknown.build(), "unknown ggml type 43");
  for (const uint32_t type : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U}) {
    GgufBuilder removed;
    removed.tensor("w", type, {32});
    EXPECT_REFUSED(removed.build(), removed_ggml_type_name(type), "ggml has removed");
  }
}

TEST(GgufFileRefuses, BadOffsets) {
  GgufBuilder unaligned;
  unaligned.tensor("w", 0, {8}, 8);
  EXPECT_REFUSED(unaligned.build(), "data offset 8, expected a multiple of 32");
  GgufBuilder outside;
  outside.tensor("a", 0, {64}).tensor("w", 0, {8}, 1 << 20);
  EXPECT_REFUSED(outside.build(), "file ends at byte", "tensor 'w' needs bytes");
  GgufBuilder wrapping;
  wrapping.tensor("a", 0, {64}).tensor("w", 0, {8}, ~uint64_t{31});
  EXPECT_REFUSED(wrapping.build(), "far past the end");
  GgufBuilder large;
  large.tensor("a", 0, {64}).tensor("w", 24, {int64_t{1} << 62}, (uint64_t{1} << 63) - 32);
  EXPECT_REFUSED(large.build(), "file ends at byte");
  GgufBuilder overlap;
  overlap.tensor("a", 0, {64}).tensor("w", 0, {8}, 32);
  EXPECT_REFUSED(overlap.build(), "tensors 'a' and 'w' overlap");
  GgufBuilder same;
  same.tensor("a", 0, {8}).tensor("w", 0, {8}, 0);
  EXPECT_REFUSED(same.build(), "overlap");
}

TEST(GgufFileRefuses, TruncationAtEveryByte) {
  const std::vector<uint8_t> bytes = sample_gguf().build();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    const std::string message = refusal(cut);
    EXPECT_TRUE(message.find("file ends at byte") != std::string::npos ||
                message.find("truncated") != std::string::npos)
        << "cut at " << length << ": " << message;
  }
}

// A step over the lengths, not a copy: the bound leaves room for sanitizers.
TEST(GgufFile, StepsOverALargeVocabulary) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 150000; ++i) tokens.push_back("token" + std::to_string(i));
  GgufBuilder builder;
  builder.strings("tokenizer.ggml.tokens", tokens).tensor("w", 0, {4});
  const std::vector<uint8_t> bytes = builder.build();
  const auto start = std::chrono::steady_clock::now();
  GgufFile file;
  ASSERT_TRUE(GgufFile::parse(bytes, file).ok());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", std::to_string(elapsed.count() * 1e3));
  EXPECT_LT(elapsed.count(), 0.5);
  GgufArray array;
  ASSERT_TRUE(file.get_array("tokenizer.ggml.tokens", array).ok());
  EXPECT_EQ(array.size(), tokens.size());
}

}  // namespace
}  // namespace executorch_ggml
