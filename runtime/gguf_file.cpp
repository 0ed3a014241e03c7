#include "runtime/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

namespace executorch_ggml {
namespace {

static_assert(std::endian::native == std::endian::little,
              "GGUF data is little-endian and is used in place");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr size_t kDefaultAlignment = 32;
constexpr uint32_t kMaxAlignment = 1U << 20;
constexpr size_t kMaxNameLength = 63;  // GGML_MAX_NAME less its NUL
constexpr size_t kMaxKeyLength = 65535;
constexpr uint32_t kMaxDims = 4;

// The least that one record takes, which bounds a count by the bytes left.
constexpr size_t kMinKeyBytes = 8 + 1 + 4 + 1;             // length, key, type, value
constexpr size_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // length, name, n_dims, ne, type, offset
constexpr size_t kStringLengthBytes = 8;

constexpr StatusCode kMalformed = StatusCode::InvalidExternalData;

template <typename T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

// One forward pass. position_ never passes the end of bytes_.
class GgufParser {
 public:
  explicit GgufParser(std::span<const uint8_t> bytes) { file_.bytes_ = bytes; }

  Status run() {
    EG_RETURN_IF_ERROR(parse_header());
    EG_RETURN_IF_ERROR(parse_metadata());
    EG_RETURN_IF_ERROR(read_alignment());
    EG_RETURN_IF_ERROR(parse_tensors());
    EG_RETURN_IF_ERROR(place_tensors());
    return {};
  }

  GgufFile take() { return std::move(file_); }

 private:
  size_t remaining() const { return file_.bytes_.size() - position_; }
  const uint8_t* here() const { return file_.bytes_.data() + position_; }

  Status truncated(const std::string& what, uint64_t needed) const {
    return make_error(kMalformed,
                      "file ends at byte %zu in %s, which starts at byte %zu and needs %" PRIu64
                      " bytes; the file is truncated or corrupt",
                      file_.bytes_.size(), what.c_str(), position_, needed);
  }

  template <typename T, typename What>
  Status read(T& out, const What& what) {
    if (remaining() < sizeof(T)) return truncated(what(), sizeof(T));
    out = load<T>(here());
    position_ += sizeof(T);
    return {};
  }

  // `what` is a function, so that the happy path formats nothing.
  template <typename What>
  Status read_string(std::string_view& out, const What& what) {
    uint64_t length = 0;
    EG_RETURN_IF_ERROR(read(length, what));
    if (length > remaining()) return truncated(what(), length);
    out = {reinterpret_cast<const char*>(here()), static_cast<size_t>(length)};
    position_ += static_cast<size_t>(length);
    return {};
  }

  Status parse_header() {
    const auto what = [] { return std::string("the header"); };
    uint32_t magic = 0;
    EG_RETURN_IF_ERROR(read(magic, what));
    if (magic != kMagic) {
      const std::string_view start(reinterpret_cast<const char*>(file_.bytes_.data()),
                                   sizeof(magic));
      return make_error(kMalformed, "not a GGUF file: it starts with '%s', expected 'GGUF'",
                        printable(start).c_str());
    }
    EG_RETURN_IF_ERROR(read(file_.version_, what));
    const uint32_t version = file_.version_;
    // A small version whose bytes are swapped has only its high byte set.
    if (version != 0 && (version & 0xFFFF) == 0) {
      return make_error(
          kMalformed,
          "a big-endian GGUF file (its version reads 0x%08" PRIx32
          "); only little-endian files are supported: convert it with gguf-convert-endian",
          version);
    }
    if (version < 2 || version > 3) {
      return make_error(kMalformed, "GGUF version %" PRIu32 " is not supported, expected 2 or 3%s",
                        version,
                        version == 1 ? "; convert the model again with a current llama.cpp" : "");
    }
    EG_RETURN_IF_ERROR(read(n_tensors_, what));
    EG_RETURN_IF_ERROR(read(n_keys_, what));
    EG_RETURN_IF_ERROR(check_count("metadata keys", n_keys_, kMinKeyBytes));
    return check_count("tensors", n_tensors_, kMinTensorBytes);
  }

  Status check_count(const char* of_what, uint64_t count, size_t least_bytes) const {
    if (count > remaining() / least_bytes || count > std::numeric_limits<uint32_t>::max()) {
      return make_error(kMalformed,
                        "the header counts %" PRIu64
                        " %s, but the %zu bytes left hold at most %zu; the file is truncated or "
                        "corrupt",
                        count, of_what, remaining(), remaining() / least_bytes);
    }
    return {};
  }

  std::string key_label(uint64_t index, std::string_view key) const {
    return "metadata key " + std::to_string(index) +
           (key.empty() ? "" : " '" + printable(key) + "'");
  }

  static bool known(uint32_t type) { return type <= static_cast<uint32_t>(GgufType::F64); }

  Status parse_metadata() {
    for (uint64_t i = 0; i < n_keys_; ++i) EG_RETURN_IF_ERROR(parse_entry(i));

    std::vector<uint32_t>& order = file_.entries_by_key_;
    order.resize(file_.entries_.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto key_of = [this](uint32_t i) -> std::string_view { return file_.entries_[i].key; };
    std::ranges::sort(order, {}, key_of);
    const auto duplicate = std::ranges::adjacent_find(order, {}, key_of);
    if (duplicate != order.end()) {
      return make_error(kMalformed, "metadata key '%s' occurs twice",
                        printable(key_of(*duplicate)).c_str());
    }
    return {};
  }

  Status parse_entry(uint64_t index) {
    GgufFile::Entry entry = {};
    const auto what = [&] { return key_label(index, entry.key); };
    const size_t start = position_;
    std::string_view key;
    EG_RETURN_IF_ERROR(read_string(key, what));
    entry.key = key;
    if (entry.key.empty() || entry.key.size() > kMaxKeyLength || !is_text(entry.key)) {
      return make_error(kMalformed,
                        "%s at byte %zu has a bad name (%zu bytes); expected 1 to %zu bytes of "
                        "UTF-8 without NUL",
                        what().c_str(), start, entry.key.size(), kMaxKeyLength);
    }
    uint32_t type = 0;
    EG_RETURN_IF_ERROR(read(type, what));
    if (!known(type)) {
      return make_error(kMalformed,
                        "%s has unknown value type %" PRIu32 "; types 0 to 12 are known",
                        what().c_str(), type);
    }
    entry.type = static_cast<GgufType>(type);
    entry.element_type = entry.type;

    if (entry.type == GgufType::Array) {
      EG_RETURN_IF_ERROR(parse_array(what, entry));
    } else if (entry.type == GgufType::String) {
      std::string_view text;
      EG_RETURN_IF_ERROR(read_string(text, what));
      entry.nbytes = text.size();
      entry.offset = position_ - entry.nbytes;
    } else {
      entry.nbytes = gguf_type_size(entry.type);
      if (remaining() < entry.nbytes) return truncated(what(), entry.nbytes);
      if (entry.type == GgufType::Bool && *here() > 1) {
        return make_error(kMalformed, "%s is a bool of value %u, expected 0 or 1", what().c_str(),
                          static_cast<unsigned>(*here()));
      }
      entry.offset = position_;
      position_ += entry.nbytes;
    }
    file_.entries_.push_back(std::move(entry));
    return {};
  }

  template <typename What>
  Status parse_array(const What& what, GgufFile::Entry& entry) {
    uint32_t type = 0;
    EG_RETURN_IF_ERROR(read(type, what));
    if (!known(type)) {
      return make_error(kMalformed,
                        "%s is an array of unknown type %" PRIu32 "; types 0 to 12 are known",
                        what().c_str(), type);
    }
    entry.element_type = static_cast<GgufType>(type);
    if (entry.element_type == GgufType::Array) {
      return make_error(kMalformed, "%s is an array of arrays, which is not supported",
                        what().c_str());
    }
    EG_RETURN_IF_ERROR(read(entry.length, what));
    entry.offset = position_;

    const bool strings = entry.element_type == GgufType::String;
    const size_t width = strings ? kStringLengthBytes : gguf_type_size(entry.element_type);
    if (entry.length > remaining() / width) {
      return make_error(kMalformed,
                        "%s is an array of %" PRIu64
                        " elements, but the %zu bytes left hold at most %zu; the file is truncated "
                        "or corrupt",
                        what().c_str(), entry.length, remaining(), remaining() / width);
    }
    const auto length = static_cast<size_t>(entry.length);
    if (strings) {
      for (size_t i = 0; i < length; ++i) {
        if (remaining() < kStringLengthBytes) return truncated(what(), kStringLengthBytes);
        const auto text_length = load<uint64_t>(here());
        position_ += kStringLengthBytes;
        if (text_length > remaining()) return truncated(what(), text_length);
        position_ += static_cast<size_t>(text_length);
      }
    } else {
      position_ += length * width;
    }
    entry.nbytes = position_ - entry.offset;
    return {};
  }

  Status read_alignment() {
    constexpr std::string_view kKey = "general.alignment";
    file_.alignment_ = kDefaultAlignment;
    const GgufFile::Entry* entry = file_.find(kKey);
    if (entry == nullptr) return {};
    if (entry->type != GgufType::U32) {
      return make_error(kMalformed, "metadata key 'general.alignment' is of type %s, expected u32",
                        gguf_type_name(entry->type));
    }
    const auto alignment = load<uint32_t>(file_.bytes_.data() + entry->offset);
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
      return make_error(kMalformed,
                        "general.alignment is %" PRIu32
                        ", expected a power of two of at most %" PRIu32,
                        alignment, kMaxAlignment);
    }
    file_.alignment_ = alignment;
    return {};
  }

  std::string tensor_label(uint64_t index, std::string_view name) const {
    return name.empty() ? "tensor " + std::to_string(index) : "tensor '" + printable(name) + "'";
  }

  Status parse_tensors() {
    for (uint64_t i = 0; i < n_tensors_; ++i) EG_RETURN_IF_ERROR(parse_tensor(i));

    std::vector<uint32_t>& order = file_.tensors_by_name_;
    order.resize(file_.tensors_.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto name_of = [this](uint32_t i) -> std::string_view { return file_.tensors_[i].name; };
    std::ranges::sort(order, {}, name_of);
    const auto duplicate = std::ranges::adjacent_find(order, {}, name_of);
    if (duplicate != order.end()) {
      return make_error(kMalformed, "tensor '%s' occurs twice",
                        printable(name_of(*duplicate)).c_str());
    }
    return {};
  }

  Status parse_tensor(uint64_t index) {
    GgufTensor tensor = {};
    tensor.ne = {1, 1, 1, 1};
    const auto what = [&] { return tensor_label(index, tensor.name); };
    const size_t start = position_;
    std::string_view name;
    EG_RETURN_IF_ERROR(read_string(name, what));
    tensor.name = name;
    if (tensor.name.empty() || tensor.name.size() > kMaxNameLength || !is_text(tensor.name)) {
      return make_error(kMalformed,
                        "%s at byte %zu has a bad name (%zu bytes); expected 1 to %zu bytes of "
                        "UTF-8 without NUL",
                        what().c_str(), start, tensor.name.size(), kMaxNameLength);
    }
    EG_RETURN_IF_ERROR(read(tensor.n_dims, what));
    if (tensor.n_dims < 1 || tensor.n_dims > kMaxDims) {
      return make_error(kMalformed, "%s has %" PRIu32 " dimensions, expected 1 to %" PRIu32,
                        what().c_str(), tensor.n_dims, kMaxDims);
    }
    for (uint32_t d = 0; d < tensor.n_dims; ++d) {
      EG_RETURN_IF_ERROR(read(tensor.ne[d], what));
      if (tensor.ne[d] < 1) {
        return make_error(kMalformed,
                          "%s has extent %" PRId64 " in dimension %" PRIu32 ", expected at least 1",
                          what().c_str(), tensor.ne[d], d);
      }
    }
    EG_RETURN_IF_ERROR(read(tensor.type, what));
    EG_RETURN_IF_ERROR(check_size(what, tensor));
    uint64_t offset = 0;  // from data_offset, which is known only at the end
    EG_RETURN_IF_ERROR(read(offset, what));
    if (offset % file_.alignment_ != 0) {
      return make_error(kMalformed, "%s has data offset %" PRIu64 ", expected a multiple of %zu",
                        what().c_str(), offset, file_.alignment_);
    }
    if (offset > std::numeric_limits<size_t>::max() / 2) {
      return make_error(kMalformed,
                        "%s has data offset %" PRIu64 ", far past the end of the file (%zu bytes)",
                        what().c_str(), offset, file_.bytes_.size());
    }
    tensor.offset = static_cast<size_t>(offset);
    file_.tensors_.push_back(std::move(tensor));
    return {};
  }

  // Fills nbytes from the type and the extents.
  template <typename What>
  Status check_size(const What& what, GgufTensor& tensor) const {
    const GgmlTypeInfo* info = ggml_type_info(tensor.type);
    if (info == nullptr) {
      const char* removed = removed_ggml_type_name(tensor.type);
      if (removed != nullptr) {
        return make_error(kMalformed,
                          "%s has type %s (%" PRIu32
                          "), which ggml has removed; quantize the model again",
                          what().c_str(), removed, tensor.type);
      }
      return make_error(kMalformed, "%s has unknown ggml type %" PRIu32, what().c_str(),
                        tensor.type);
    }
    if (tensor.ne[0] % info->block_size != 0) {
      return make_error(kMalformed,
                        "%s has rows of %" PRId64
                        " elements; type %s needs a multiple of its block of %" PRIu32,
                        what().c_str(), tensor.ne[0], info->name, info->block_size);
    }
    // Limits keep elements within int64_t and bytes within half the address
    // space, so that adding offsets cannot wrap.
    constexpr uint64_t kMaxElements = std::numeric_limits<int64_t>::max();
    constexpr uint64_t kMaxBytes = std::numeric_limits<size_t>::max() / 2;
    uint64_t elements = 1;
    for (const int64_t extent : tensor.ne) {
      const auto factor = static_cast<uint64_t>(extent);
      if (elements > kMaxElements / factor) return too_large(what, tensor);
      elements *= factor;
    }
    const uint64_t blocks = elements / info->block_size;
    if (blocks > kMaxBytes / info->type_size) return too_large(what, tensor);
    tensor.nbytes = static_cast<size_t>(blocks * info->type_size);
    return {};
  }

  template <typename What>
  Status too_large(const What& what, const GgufTensor& tensor) const {
    return make_error(kMalformed,
                      "the size of %s overflows: extents %" PRId64 " x %" PRId64 " x %" PRId64
                      " x %" PRId64,
                      what().c_str(), tensor.ne[0], tensor.ne[1], tensor.ne[2], tensor.ne[3]);
  }

  // Makes offsets relative to the file, within it and apart from each other.
  Status place_tensors() {
    const size_t size = file_.bytes_.size();
    const size_t padding = (file_.alignment_ - position_ % file_.alignment_) % file_.alignment_;
    file_.data_offset_ = position_ + padding;
    if (file_.tensors_.empty()) {
      file_.data_offset_ = std::min(file_.data_offset_, size);
      return {};
    }
    for (GgufTensor& tensor : file_.tensors_) {
      // The sum of the two halves and a position in the file fits uint64_t.
      const uint64_t begin = uint64_t{file_.data_offset_} + tensor.offset;
      const uint64_t end = begin + tensor.nbytes;
      if (end < begin || end > size) {
        return make_error(kMalformed,
                          "file ends at byte %zu, but tensor '%s' needs bytes %" PRIu64
                          " to %" PRIu64 "; the file is truncated or corrupt",
                          size, printable(tensor.name).c_str(), begin, end);
      }
      tensor.offset = static_cast<size_t>(begin);
    }
    std::vector<uint32_t> order(file_.tensors_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [this](uint32_t i) { return file_.tensors_[i].offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor& before = file_.tensors_[order[i - 1]];
      const GgufTensor& after = file_.tensors_[order[i]];
      if (after.offset - before.offset < before.nbytes) {
        return make_error(kMalformed, "tensors '%s' and '%s' overlap at byte %zu",
                          printable(before.name).c_str(), printable(after.name).c_str(),
                          after.offset);
      }
    }
    return {};
  }

  GgufFile file_;
  size_t position_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t n_keys_ = 0;
};

Status GgufFile::parse(std::span<const uint8_t> bytes, GgufFile& out) {
  GgufParser parser(bytes);
  EG_RETURN_IF_ERROR(parser.run());
  out = parser.take();
  return {};
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto name_of = [this](uint32_t i) -> std::string_view { return tensors_[i].name; };
  const auto found = std::ranges::lower_bound(tensors_by_name_, name, {}, name_of);
  if (found == tensors_by_name_.end() || name_of(*found) != name) return nullptr;
  return &tensors_[*found];
}

}  // namespace executorch_ggml
