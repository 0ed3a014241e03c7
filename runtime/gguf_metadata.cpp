// What GgufFile and GgufArray answer about metadata values.
#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/gguf_file.h"

namespace executorch_ggml {
namespace {

constexpr StatusCode kMalformed = StatusCode::InvalidExternalData;
constexpr size_t kStringLengthBytes = 8;

template <typename T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// An integer of any width: the value as u64 and whether it is negative.
struct Integer {
  uint64_t bits;
  bool negative;
};

template <typename T>
Integer load_integer(const uint8_t* from) {
  const T value = load<T>(from);
  if constexpr (std::is_signed_v<T>) {
    return {static_cast<uint64_t>(static_cast<int64_t>(value)), value < 0};
  } else {
    return {static_cast<uint64_t>(value), false};
  }
}

std::optional<Integer> integer_at(GgufType type, const uint8_t* from) {
  switch (type) {
    case GgufType::U8:
      return load_integer<uint8_t>(from);
    case GgufType::I8:
      return load_integer<int8_t>(from);
    case GgufType::U16:
      return load_integer<uint16_t>(from);
    case GgufType::I16:
      return load_integer<int16_t>(from);
    case GgufType::U32:
      return load_integer<uint32_t>(from);
    case GgufType::I32:
      return load_integer<int32_t>(from);
    case GgufType::U64:
      return load_integer<uint64_t>(from);
    case GgufType::I64:
      return load_integer<int64_t>(from);
    case GgufType::F32:
    case GgufType::F64:
    case GgufType::Bool:
    case GgufType::String:
    case GgufType::Array:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<int64_t> as_i64(const Integer& value) {
  if (!value.negative && value.bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value.bits);
}

std::optional<double> number_at(GgufType type, const uint8_t* from) {
  if (type == GgufType::F32) return static_cast<double>(load<float>(from));
  if (type == GgufType::F64) return load<double>(from);
  const std::optional<Integer> integer = integer_at(type, from);
  if (!integer.has_value()) return std::nullopt;
  return integer->negative ? static_cast<double>(static_cast<int64_t>(integer->bits))
                           : static_cast<double>(integer->bits);
}

}  // namespace

std::optional<int64_t> GgufArray::i64_at(uint64_t index) const {
  if (index >= size_) return std::nullopt;
  const size_t width = gguf_type_size(element_type_);
  if (width == 0) return std::nullopt;
  const uint8_t* from = bytes_.data() + static_cast<size_t>(index) * width;
  if (element_type_ == GgufType::Bool) return *from != 0 ? 1 : 0;
  const std::optional<Integer> value = integer_at(element_type_, from);
  return value.has_value() ? as_i64(*value) : std::nullopt;
}

std::optional<double> GgufArray::f64_at(uint64_t index) const {
  if (index >= size_) return std::nullopt;
  const size_t width = gguf_type_size(element_type_);
  if (width == 0) return std::nullopt;
  return number_at(element_type_, bytes_.data() + static_cast<size_t>(index) * width);
}

// Checks again what parse() has checked: the bytes may be a file that another
// process writes to.
std::optional<std::string_view> GgufArray::next_string(size_t& position) const {
  if (element_type_ != GgufType::String) return std::nullopt;
  if (bytes_.size() - position < kStringLengthBytes) return std::nullopt;
  const auto length = load<uint64_t>(bytes_.data() + position);
  position += kStringLengthBytes;
  if (length > bytes_.size() - position) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + position),
                              static_cast<size_t>(length));
  position += text.size();
  return text;
}

const GgufFile::Entry* GgufFile::find(std::string_view key) const {
  const auto key_of = [this](uint32_t i) -> std::string_view { return entries_[i].key; };
  const auto found = std::ranges::lower_bound(entries_by_key_, key, {}, key_of);
  if (found == entries_by_key_.end() || key_of(*found) != key) return nullptr;
  return &entries_[*found];
}

Status GgufFile::require(std::string_view key, const Entry*& entry) const {
  entry = find(key);
  if (entry != nullptr) return {};
  return make_error(StatusCode::NotFound, "the GGUF file has no metadata key '%s'",
                    printable(key).c_str());
}

namespace {

Status wrong_type(std::string_view key, GgufType type, const char* expected) {
  return make_error(kMalformed, "GGUF metadata key '%s' is of type %s, expected %s",
                    printable(key).c_str(), gguf_type_name(type), expected);
}

}  // namespace

Status GgufFile::get_string(std::string_view key, std::string_view& out) const {
  const Entry* entry = nullptr;
  EG_RETURN_IF_ERROR(require(key, entry));
  if (entry->type != GgufType::String) return wrong_type(key, entry->type, "string");
  out = {reinterpret_cast<const char*>(bytes_.data() + entry->offset), entry->nbytes};
  return {};
}

Status GgufFile::get_i64(std::string_view key, int64_t& out) const {
  const Entry* entry = nullptr;
  EG_RETURN_IF_ERROR(require(key, entry));
  const std::optional<Integer> value = integer_at(entry->type, bytes_.data() + entry->offset);
  if (!value.has_value()) return wrong_type(key, entry->type, "an integer");
  const std::optional<int64_t> result = as_i64(*value);
  if (!result.has_value()) {
    return make_error(kMalformed, "GGUF metadata key '%s' is %" PRIu64 ", which does not fit int64",
                      printable(key).c_str(), value->bits);
  }
  out = *result;
  return {};
}

Status GgufFile::get_u64(std::string_view key, uint64_t& out) const {
  const Entry* entry = nullptr;
  EG_RETURN_IF_ERROR(require(key, entry));
  const std::optional<Integer> value = integer_at(entry->type, bytes_.data() + entry->offset);
  if (!value.has_value()) return wrong_type(key, entry->type, "an integer");
  if (value->negative) {
    return make_error(kMalformed, "GGUF metadata key '%s' is %" PRId64 ", expected at least 0",
                      printable(key).c_str(), static_cast<int64_t>(value->bits));
  }
  out = value->bits;
  return {};
}

Status GgufFile::get_f64(std::string_view key, double& out) const {
  const Entry* entry = nullptr;
  EG_RETURN_IF_ERROR(require(key, entry));
  const std::optional<double> value = number_at(entry->type, bytes_.data() + entry->offset);
  if (!value.has_value()) return wrong_type(key, entry->type, "a number");
  out = *value;
  return {};
}

Status GgufFile::get_bool(std::string_view key, bool& out) const {
  const Entry* entry = nullptr;
  EG_RETURN_IF_ERROR(require(key, entry));
  if (entry->type != GgufType::Bool) return wrong_type(key, entry->type, "bool");
  out = bytes_[entry->offset] != 0;
  return {};
}

Status GgufFile::get_array(std::string_view key, GgufArray& out) const {
  const Entry* entry = nullptr;
  EG_RETURN_IF_ERROR(require(key, entry));
  if (entry->type != GgufType::Array) return wrong_type(key, entry->type, "array");
  out = {entry->element_type, entry->length, bytes_.subspan(entry->offset, entry->nbytes)};
  return {};
}

}  // namespace executorch_ggml
