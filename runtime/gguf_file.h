// A GGUF file (versions 2 and 3, little-endian), parsed from bytes in memory.
//
// After parse() returns Ok everything it reports is true of the bytes: tensors
// lie inside the file, aligned and apart from each other, their types are known
// and their sizes do not overflow. Metadata arrays are stepped over, not copied,
// so a vocabulary of 150k tokens costs a walk over its lengths. No ggml here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/gguf_types.h"
#include "runtime/status.h"

namespace executorch_ggml {

// A metadata array, read on demand.
class GgufArray {
 public:
  GgufArray() = default;
  GgufArray(GgufType element_type, uint64_t size, std::span<const uint8_t> bytes)
      : element_type_(element_type), size_(size), bytes_(bytes) {}

  GgufType element_type() const { return element_type_; }
  uint64_t size() const { return size_; }

  // Element `index` of an array of integers or bools (i64: of any integer type
  // whose value fits), or of numbers (f64: integers and floats). Absent when the
  // index or the element type does not allow it.
  std::optional<int64_t> i64_at(uint64_t index) const;
  std::optional<double> f64_at(uint64_t index) const;

  // Calls visit(index, text) for each string in order; stops where it returns
  // false. Nothing is called for an array of another type.
  template <typename Visit>
  void for_each_string(Visit&& visit) const {
    size_t position = 0;
    for (uint64_t index = 0; index < size_; ++index) {
      const std::optional<std::string_view> text = next_string(position);
      if (!text.has_value() || !visit(index, *text)) return;
    }
  }

 private:
  std::optional<std::string_view> next_string(size_t& position) const;

  GgufType element_type_ = GgufType::U8;
  uint64_t size_ = 0;
  std::span<const uint8_t> bytes_;
};

// Names are copied: a lookup must not depend on a file that may be cut meanwhile.
struct GgufTensor {
  std::string name;           // 1 to 63 bytes of UTF-8, without NUL
  uint32_t type;              // enum ggml_type
  uint32_t n_dims;            // 1 to 4
  std::array<int64_t, 4> ne;  // ggml order, each at least 1
  size_t offset;              // from the start of the file
  size_t nbytes;
};

class GgufFile {
 public:
  // `bytes` must outlive `out`, which refers to them. On an error `out` is left
  // as it was; the message names the offset, the key or the tensor.
  static Status parse(std::span<const uint8_t> bytes, GgufFile& out);

  uint32_t version() const { return version_; }
  size_t alignment() const { return alignment_; }
  size_t data_offset() const { return data_offset_; }  // where tensor data starts
  std::span<const uint8_t> bytes() const { return bytes_; }

  // In the file's order.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;
  std::span<const uint8_t> data(const GgufTensor& tensor) const {
    return bytes_.subspan(tensor.offset, tensor.nbytes);
  }

  size_t n_keys() const { return entries_.size(); }
  std::string_view key(size_t index) const { return entries_[index].key; }
  GgufType type(size_t index) const { return entries_[index].type; }

  // Metadata by key. NotFound when the file lacks the key; InvalidExternalData
  // when it holds another type, or an integer that does not fit.
  // get_i64, get_u64: from any integer type. get_f64: from any number.
  bool has(std::string_view key) const { return find(key) != nullptr; }
  Status get_string(std::string_view key, std::string_view& out) const;
  Status get_i64(std::string_view key, int64_t& out) const;
  Status get_u64(std::string_view key, uint64_t& out) const;
  Status get_f64(std::string_view key, double& out) const;
  Status get_bool(std::string_view key, bool& out) const;
  Status get_array(std::string_view key, GgufArray& out) const;

 private:
  friend class GgufParser;

  struct Entry {
    std::string key;
    GgufType type;
    GgufType element_type;  // of an array
    uint64_t length;        // of an array: elements
    size_t offset;          // of the value's bytes (a string's text, an array's elements)
    size_t nbytes;
  };

  const Entry* find(std::string_view key) const;
  Status require(std::string_view key, const Entry*& entry) const;

  std::span<const uint8_t> bytes_;
  uint32_t version_ = 0;
  size_t alignment_ = 0;
  size_t data_offset_ = 0;
  std::vector<Entry> entries_;
  std::vector<GgufTensor> tensors_;
  // Indices in the order of keys and names. Sorted rather than hashed: a file
  // made to collide cannot make the search for duplicates quadratic.
  std::vector<uint32_t> entries_by_key_;
  std::vector<uint32_t> tensors_by_name_;
};

}  // namespace executorch_ggml
