// Makes GGUF files in memory, valid or wrong on purpose.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/gguf_types.h"

namespace executorch_ggml::testing {

// Where a fixed-size number lies in the built file.
struct Field {
  size_t offset;
  size_t width;
};

class GgufBuilder {
 public:
  // Written as they are.
  std::string magic = "GGUF";
  uint32_t version = 3;
  size_t alignment = 32;  // of the layout; the key is the caller's to add
  std::optional<uint64_t> n_tensors;
  std::optional<uint64_t> n_keys;
  size_t missing_bytes = 0;  // cut off the end

  template <typename T>
  GgufBuilder& number(std::string_view key, GgufType type, T value) {
    begin_key(key, type);
    put(keys_, value);
    return *this;
  }
  GgufBuilder& u32(std::string_view key, uint32_t value) {
    return number(key, GgufType::U32, value);
  }
  GgufBuilder& string(std::string_view key, std::string_view value) {
    begin_key(key, GgufType::String);
    put_string(keys_, value);
    return *this;
  }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, GgufType::String, values.size());
    for (const std::string& value : values) put_string(keys_, value);
    return *this;
  }
  template <typename T>
  GgufBuilder& numbers(std::string_view key, GgufType type, const std::vector<T>& values) {
    begin_array(key, type, values.size());
    for (const T& value : values) put(keys_, value);
    return *this;
  }
  // Any type numbers and count, with no elements after them.
  GgufBuilder& raw_array(std::string_view key, uint32_t type, uint64_t count) {
    begin_key(key, GgufType::Array);
    put(keys_, type);
    put(keys_, count);
    return *this;
  }
  GgufBuilder& raw_key(std::string_view key, uint32_t type, const std::vector<uint8_t>& value) {
    begin_key(key, static_cast<GgufType>(type));
    keys_.bytes.insert(keys_.bytes.end(), value.begin(), value.end());
    return *this;
  }

  // `offset`: instead of the next free aligned place. The data is a counter.
  GgufBuilder& tensor(std::string_view name, uint32_t type, const std::vector<int64_t>& ne,
                      std::optional<uint64_t> offset = std::nullopt) {
    ++n_tensors_;
    put_string(tensors_, name);
    put(tensors_, static_cast<uint32_t>(ne.size()));
    uint64_t elements = 1;
    for (const int64_t extent : ne) {
      put(tensors_, extent);
      elements *= static_cast<uint64_t>(extent);
    }
    put(tensors_, type);
    put(tensors_, offset.value_or(data_size_));
    const GgmlTypeInfo* info = ggml_type_info(type);
    if (info == nullptr) return *this;
    const uint64_t nbytes = elements / info->block_size * info->type_size;
    constexpr uint64_t kMostData = 1 << 20;  // sizes forged to be huge get no data
    if (!offset.has_value() && nbytes <= kMostData) {
      data_size_ += nbytes;
      last_data_ = data_size_;
      data_size_ = (data_size_ + alignment - 1) / alignment * alignment;
    }
    return *this;
  }

  std::vector<uint8_t> build() { return assemble().bytes; }

  std::vector<Field> fields() { return assemble().fields; }

 private:
  struct Part {
    std::vector<uint8_t> bytes;
    std::vector<Field> fields;
  };

  template <typename T>
  static void put(Part& part, T value) {
    const size_t at = part.bytes.size();
    part.fields.push_back({at, sizeof(value)});
    part.bytes.resize(at + sizeof(value));
    std::memcpy(part.bytes.data() + at, &value, sizeof(value));
  }
  static void put_text(Part& part, std::string_view text) {
    part.bytes.insert(part.bytes.end(), text.begin(), text.end());
  }
  static void put_string(Part& part, std::string_view text) {
    put(part, static_cast<uint64_t>(text.size()));
    put_text(part, text);
  }
  void begin_key(std::string_view key, GgufType type) {
    ++n_keys_;
    put_string(keys_, key);
    put(keys_, static_cast<uint32_t>(type));
  }
  void begin_array(std::string_view key, GgufType type, size_t count) {
    raw_array(key, static_cast<uint32_t>(type), count);
  }
  static void append(Part& to, const Part& from) {
    for (const Field& field : from.fields) {
      to.fields.push_back({to.bytes.size() + field.offset, field.width});
    }
    to.bytes.insert(to.bytes.end(), from.bytes.begin(), from.bytes.end());
  }

  Part assemble() const {
    Part file;
    put_text(file, magic);
    put(file, version);
    put(file, n_tensors.value_or(n_tensors_));
    put(file, n_keys.value_or(n_keys_));
    append(file, keys_);
    append(file, tensors_);
    if (n_tensors_ > 0) {
      while (file.bytes.size() % alignment != 0) file.bytes.push_back(0);
    }
    for (size_t i = 0; i < last_data_; ++i) file.bytes.push_back(static_cast<uint8_t>(i));
    file.bytes.resize(file.bytes.size() - missing_bytes);
    return file;
  }

  Part keys_;
  Part tensors_;
  uint64_t n_keys_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t data_size_ = 0;  // padded to the alignment
  uint64_t last_data_ = 0;  // where the last tensor ends
};

// A small model's worth of everything: each value type, arrays, and tensors of
// one to four dimensions, plain and quantized.
inline GgufBuilder sample_gguf() {
  GgufBuilder file;
  file.string("general.architecture", "llama")
      .string("general.name", "tiny")
      .u32("general.alignment", 32)
      .u32("llama.context_length", 2048)
      .number("llama.rope.freq_base", GgufType::F32, 10000.0F)
      .number("t.u8", GgufType::U8, uint8_t{200})
      .number("t.i8", GgufType::I8, int8_t{-5})
      .number("t.u16", GgufType::U16, uint16_t{60000})
      .number("t.i16", GgufType::I16, int16_t{-300})
      .number("t.i32", GgufType::I32, int32_t{-70000})
      .number("t.u64", GgufType::U64, ~uint64_t{0})
      .number("t.i64", GgufType::I64, int64_t{-5000000000})
      .number("t.f64", GgufType::F64, 0.125)
      .number("t.bool", GgufType::Bool, uint8_t{1})
      .strings("tokenizer.ggml.tokens", {"<s>", "</s>", "", "hello"})
      .numbers<int32_t>("tokenizer.ggml.token_type", GgufType::I32, {3, 3, 1, -1})
      .numbers<float>("tokenizer.ggml.scores", GgufType::F32, {0.5F, -1.0F})
      .u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 2)
      .tensor("token_embd.weight", 8, {64, 3})       // Q8_0
      .tensor("blk.0.attn_norm.weight", 0, {7})      // F32
      .tensor("blk.0.attn_q.weight", 12, {256, 2})   // Q4_K
      .tensor("blk.0.conv.weight", 1, {3, 2, 5, 2})  // F16
      .tensor("blk.0.ids", 26, {2, 2, 2});           // I32
  return file;
}

}  // namespace executorch_ggml::testing
