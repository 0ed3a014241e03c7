#include "runtime/weight_source.h"

#include <algorithm>
#include <cstring>

#include "executorch_ggml/tensor_descriptor.h"
#include "runtime/scalar_type.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

using executorch::runtime::NamedDataMap;

constexpr size_t kListed = 10;

struct Shape {
  ggml_type type = GGML_TYPE_COUNT;
  std::array<int64_t, 4> ne = {1, 1, 1, 1};
};

// "f32[4, 3, 1, 1]"
std::string describe(const char* type, const std::array<int64_t, 4>& ne) {
  std::string text = std::string(type) + "[";
  for (size_t i = 0; i < ne.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ne[i]);
  }
  return text + "]";
}

bool is_usable_type(uint32_t type) {
  return type < GGML_TYPE_COUNT && ggml_blck_size(static_cast<ggml_type>(type)) > 0 &&
         ggml_type_size(static_cast<ggml_type>(type)) > 0;
}

// Bytes of a tensor whose rows are whole blocks; saturates.
int64_t byte_count(const Shape& shape) {
  int64_t bytes = saturating_product(shape.ne[0] / ggml_blck_size(shape.type),
                                     static_cast<int64_t>(ggml_type_size(shape.type)));
  for (size_t i = 1; i < 4; ++i) {
    bytes = saturating_product(bytes, shape.ne[i]);
  }
  return bytes;
}

// The type and extents that a data map tells through a descriptor.
std::optional<Shape> read_descriptor(const NamedDataMap& map, const std::string& key) {
  const auto bytes = map.get_data(kTensorDescriptorPrefix + key);
  if (!bytes.ok() || bytes->size() != sizeof(TensorDescriptor)) {
    return std::nullopt;
  }
  TensorDescriptor descriptor;
  std::memcpy(&descriptor, bytes->data(), sizeof(descriptor));
  if (descriptor.magic != kTensorDescriptorMagic || descriptor.reserved != 0 ||
      !is_usable_type(descriptor.ggml_type)) {
    return std::nullopt;
  }
  Shape shape{.type = static_cast<ggml_type>(descriptor.ggml_type), .ne = {}};
  std::copy_n(descriptor.ne, 4, shape.ne.begin());
  return shape;
}

// The type of data without a descriptor: as declared, as the data map's tensor
// layout says, or F32 if the size is that of F32.
std::optional<ggml_type> find_type(const NamedDataMap& map, const std::string& key,
                                   uint8_t declared_type, const std::array<int64_t, 4>& ne,
                                   size_t size) {
  if (declared_type != kDtypeFromFile) {
    return static_cast<ggml_type>(declared_type);
  }
  if (const auto layout = map.get_tensor_layout(key); layout.ok()) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32}) {
      if (is_same_layout(type, static_cast<int>(layout->scalar_type()))) {
        return type;
      }
    }
  }
  const bool is_f32 = byte_count({.type = GGML_TYPE_F32, .ne = ne}) == static_cast<int64_t>(size);
  return is_f32 ? std::optional(GGML_TYPE_F32) : std::nullopt;
}

// The bytes under the first key that the map holds.
bool find_bytes(const Weight& weight, const NamedDataMap* map, WeightSource& out) {
  for (const std::string& key : weight.keys) {
    if (map == nullptr) {
      return false;
    }
    if (auto found = map->get_data(key); found.ok()) {
      out.bytes.emplace(std::move(found.get()));
      out.key = &key;
      return true;
    }
  }
  return false;
}

}  // namespace

void WeightComplaints::missing(const Weight& weight) {
  std::string keys;
  for (const std::string& key : weight.keys) {
    keys += (keys.empty() ? "'" : " or '") + key + "'";
  }
  add(keys + " is missing");
}

void WeightComplaints::mismatch(const std::string& text) {
  only_missing_ = false;
  add(text);
}

void WeightComplaints::add(const std::string& text) {
  if (count_++ < kListed) {
    list_ += (list_.empty() ? "" : "; ") + text;
  }
}

Status WeightComplaints::status(size_t n_weights) const {
  if (count_ == 0) {
    return {};
  }
  const std::string more =
      count_ > kListed ? "; and " + std::to_string(count_ - kListed) + " more" : "";
  return make_error(only_missing_ ? StatusCode::NotFound : StatusCode::InvalidExternalData,
                    "%zu of %zu weights are missing or do not fit the program (is this the "
                    "right data file?): %s%s",
                    count_, n_weights, list_.c_str(), more.c_str());
}

std::optional<WeightSource> find_weight(const Weight& weight, uint8_t declared_type,
                                        const std::array<int64_t, 4>& declared, bool needs_f32,
                                        const NamedDataMap* map, WeightComplaints& complaints) {
  WeightSource source;
  if (!find_bytes(weight, map, source)) {
    complaints.missing(weight);
    return std::nullopt;
  }
  const std::string name = "'" + *source.key + "'";
  const size_t size = source.bytes->size();
  Shape shape{.type = GGML_TYPE_COUNT, .ne = declared};
  if (const std::optional<Shape> described = read_descriptor(*map, *source.key)) {
    if (described->ne != declared) {
      complaints.mismatch(name + " is " + describe(ggml_type_name(described->type), described->ne) +
                          ", expected " + describe("", declared));
      return std::nullopt;
    }
    shape.type = described->type;
  } else if (const auto type = find_type(*map, *source.key, declared_type, declared, size)) {
    shape.type = *type;
  } else {
    complaints.mismatch(name + " has " + std::to_string(size) +
                        " bytes of an unknown type, expected " + describe("", declared));
    return std::nullopt;
  }

  const bool declared_f32 = declared_type == GGML_TYPE_F32;
  const bool converts = ggml_get_type_traits(shape.type)->to_float != nullptr;
  // What the program declares, it gets; a type that is left to the file bends to the
  // kernels.
  const bool is_plain = shape.type == GGML_TYPE_F32 || shape.type == GGML_TYPE_I32;
  source.to_f32 = !is_plain && (declared_f32 || (declared_type == kDtypeFromFile && needs_f32));
  const bool type_fits =
      declared_type == kDtypeFromFile || declared_type == shape.type || (declared_f32 && converts);
  if (!type_fits || (source.to_f32 && !converts)) {
    complaints.mismatch(name + " is " + ggml_type_name(shape.type) + ", expected " +
                        (declared_type == kDtypeFromFile
                             ? "floating point"
                             : ggml_type_name(static_cast<ggml_type>(declared_type))));
    return std::nullopt;
  }
  const bool whole_rows = shape.ne[0] % ggml_blck_size(shape.type) == 0;
  if (!whole_rows || byte_count(shape) != static_cast<int64_t>(size)) {
    complaints.mismatch(name + " has " + std::to_string(size) + " bytes, expected " +
                        describe(ggml_type_name(shape.type), declared) + " (" +
                        std::to_string(whole_rows ? byte_count(shape) : 0) + " bytes)");
    return std::nullopt;
  }
  source.type = shape.type;
  source.ne = shape.ne;
  return source;
}

}  // namespace executorch_ggml
