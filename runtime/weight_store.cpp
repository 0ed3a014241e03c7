#include "runtime/weight_store.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "runtime/aligned_buffer.h"
#include "runtime/include/executorch_ggml/tensor_descriptor.h"
#include "runtime/scalar_type.h"
#include "runtime/symexpr.h"
#include "runtime/weight_packing.h"

namespace executorch_ggml {

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;

// Data where it lies, a copy of it, or another form of it; a form that is shared keeps
// its source, whose address is its name.
class WeightData {
 public:
  explicit WeightData(FreeableBuffer&& source) : source_(std::move(source)) {}
  explicit WeightData(AlignedBuffer&& copy) : copy_(std::move(copy)) {}
  WeightData(FreeableBuffer&& source, AlignedBuffer&& converted)
      : source_(std::move(source)), copy_(std::move(converted)) {}
  WeightData(std::shared_ptr<const WeightData> source, ggml_backend_buffer_ptr&& packed)
      : origin_(std::move(source)), packed_(std::move(packed)) {}

  const void* data() const { return copy_.data() != nullptr ? copy_.data() : source_.data(); }
  const ggml_backend_buffer_ptr& packed() const { return packed_; }

 private:
  FreeableBuffer source_;
  AlignedBuffer copy_;
  std::shared_ptr<const WeightData> origin_;
  ggml_backend_buffer_ptr packed_;
};

namespace {

// ggml's CPU kernels load unaligned (rows of 34-byte blocks never are aligned), and
// ExecuTorch's data loaders guarantee no more for what they read into memory.
constexpr size_t kZeroCopyAlignment = 16;
constexpr size_t kListed = 10;

enum class Treatment { ZeroCopy, Copy, ToF32, Packed };

// Live data of the process, by source and treatment. An entry's source stays
// alive with it, so an address cannot come to mean something else; a plain copy
// would hold its memory twice and is not shared.
using SharedKey = std::tuple<const void*, size_t, ggml_type, Treatment>;
struct SharedData {
  std::mutex mutex;
  std::map<SharedKey, std::weak_ptr<const WeightData>> entries;

  // The entry of a key, with `mutex` held; forgets what is gone.
  std::weak_ptr<const WeightData>& entry(const SharedKey& key) {
    std::erase_if(entries, [](const auto& e) { return e.second.expired(); });
    return entries[key];
  }
};

SharedData& shared_data() {
  static SharedData instance;
  return instance;
}

struct Shape {
  ggml_type type = GGML_TYPE_COUNT;
  std::array<int64_t, 4> ne = {1, 1, 1, 1};
};

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

// The type that a tensor layout tells.
std::optional<ggml_type> read_layout_type(const NamedDataMap& map, const std::string& key) {
  const auto layout = map.get_tensor_layout(key);
  if (!layout.ok()) {
    return std::nullopt;
  }
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32}) {
    if (is_same_layout(type, static_cast<int>(layout->scalar_type()))) {
      return type;
    }
  }
  return std::nullopt;
}

// Collects what is wrong with the weights, so that one message tells all.
class Complaints {
 public:
  void missing(const Weight& weight) {
    std::string keys;
    for (const std::string& key : weight.keys) {
      keys += (keys.empty() ? "'" : " or '") + key + "'";
    }
    add(keys + " is missing");
  }
  void mismatch(const std::string& text) {
    only_missing_ = false;
    add(text);
  }
  Status status(size_t n_weights) const {
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

 private:
  void add(const std::string& text) {
    if (count_++ < kListed) {
      list_ += (list_.empty() ? "" : "; ") + text;
    }
  }
  std::string list_;
  size_t count_ = 0;
  bool only_missing_ = true;
};

// The source as it will be used: `type` is its own, `as_f32` asks for conversion.
Status share(FreeableBuffer&& source, const Shape& shape, bool as_f32, WeightStore::Stats& stats,
             std::shared_ptr<const WeightData>& out) {
  const bool convert = as_f32 && shape.type != GGML_TYPE_F32;
  const Treatment treatment = convert                                         ? Treatment::ToF32
                              : is_aligned(source.data(), kZeroCopyAlignment) ? Treatment::ZeroCopy
                                                                              : Treatment::Copy;
  const size_t size = source.size();
  if (treatment == Treatment::Copy) {
    AlignedBuffer copy;
    if (!copy.reserve(size)) {
      return make_error(StatusCode::OutOfMemory, "no memory for %zu bytes of weights", size);
    }
    std::memcpy(copy.data(), source.data(), size);
    out = std::make_shared<const WeightData>(std::move(copy));
    stats.copied += size;
    return {};
  }
  const SharedKey key{source.data(), size, shape.type, treatment};
  const std::lock_guard lock(shared_data().mutex);
  std::weak_ptr<const WeightData>& slot = shared_data().entry(key);
  out = slot.lock();
  if (out == nullptr) {
    AlignedBuffer converted;
    if (convert) {
      const int64_t count = shape.ne[0] * shape.ne[1] * shape.ne[2] * shape.ne[3];
      const size_t bytes = static_cast<size_t>(count) * sizeof(float);
      if (!converted.reserve(bytes)) {
        return make_error(StatusCode::OutOfMemory, "no memory for %zu bytes of weights", bytes);
      }
      ggml_get_type_traits(shape.type)
          ->to_float(source.data(), static_cast<float*>(converted.data()), count);
    }
    out = std::make_shared<const WeightData>(std::move(source), std::move(converted));
    slot = out;
  }
  (convert ? stats.converted : stats.zero_copy) += size;
  return {};
}

}  // namespace

std::vector<bool> weights_needing_f32(const Graph& graph) {
  // A value's weight, through reshapes that keep its rows whole.
  std::vector<uint32_t> weight_of(graph.values.size(), kAbsent);
  for (uint32_t i = 0; i < graph.weights.size(); ++i) {
    weight_of[graph.weights[i].value] = i;
  }
  std::vector<bool> needs(graph.weights.size(), false);
  for (const Call& call : graph.calls) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const uint32_t weight = call.inputs[i] == kAbsent ? kAbsent : weight_of[call.inputs[i]];
      if (weight == kAbsent) {
        continue;
      }
      const bool takes_any_type =
          i == 0 && (call.op == Op::MulMat || call.op == Op::GetRows || call.op == Op::Cast);
      const bool keeps_rows = call.op == Op::Reshape && graph.values[call.inputs[0]].ne[0] ==
                                                            graph.values[call.outputs[0]].ne[0];
      if (keeps_rows) {
        weight_of[call.outputs[0]] = weight;
      } else if (!takes_any_type) {
        needs[weight] = true;
      }
    }
  }
  for (const Argument& output : graph.outputs) {
    if (weight_of[output.value] != kAbsent) {
      needs[weight_of[output.value]] = true;
    }
  }
  return needs;
}

// Whether each of Graph::weights is the first operand of a product.
static std::vector<bool> weights_in_products(const Graph& graph) {
  std::vector<bool> in_product(graph.values.size(), false);
  for (const Call& call : graph.calls) {
    if (call.op == Op::MulMat) {
      in_product[call.inputs[0]] = true;
    }
  }
  std::vector<bool> result;
  for (const Weight& weight : graph.weights) {
    result.push_back(in_product[weight.value]);
  }
  return result;
}

Status WeightStore::pack(size_t weight) {
  const ggml_tensor& plain = *tensors_[weight];
  const std::array<int64_t, 4> ne = {plain.ne[0], plain.ne[1], plain.ne[2], plain.ne[3]};
  const ggml_backend_buffer_type_t layout = find_packed_layout(plain.type, ne);
  if (layout == nullptr) {
    return {};
  }
  ggml_tensor* tensor = ggml_new_tensor(context_.get(), plain.type, 4, plain.ne);
  ggml_format_name(tensor, "p:%s", plain.name);
  // Shared where the plain data is: a copy of this handle's own has its own address.
  const SharedKey key{plain.data, ggml_nbytes(&plain), plain.type, Treatment::Packed};
  const std::lock_guard lock(shared_data().mutex);
  std::weak_ptr<const WeightData>& slot = shared_data().entry(key);
  std::shared_ptr<const WeightData> data = slot.lock();
  if (data == nullptr) {
    ggml_backend_buffer_ptr packed;
    EG_RETURN_IF_ERROR(pack_weight(layout, *tensor, plain.data, packed));
    data = std::make_shared<const WeightData>(data_[weight], std::move(packed));
    slot = data;
  }
  use_packed(data->packed(), *tensor);
  stats_.packed += ggml_nbytes(&plain);
  packed_[weight] = tensor;
  data_.push_back(std::move(data));
  return {};
}

Status WeightStore::load(const Graph& graph, const NamedDataMap* map, bool pack, WeightStore& out) {
  const size_t n_weights = graph.weights.size();
  const ggml_init_params params = {
      .mem_size = (2 * n_weights + 1) * ggml_tensor_overhead(),
      .mem_buffer = nullptr,
      .no_alloc = true,
  };
  out = {};
  out.context_.reset(ggml_init(params));
  if (out.context_ == nullptr) {
    return make_error(StatusCode::OutOfMemory, "no memory for %zu weight descriptors", n_weights);
  }
  const std::vector<bool> needs_f32 = weights_needing_f32(graph);
  std::vector<Interval> ranges;
  EG_RETURN_IF_ERROR(bounds(graph.exprs, graph.symbols, ranges));

  Complaints complaints;
  for (size_t i = 0; i < n_weights; ++i) {
    const Weight& weight = graph.weights[i];
    const Value& value = graph.values[weight.value];
    std::array<int64_t, 4> declared{};
    for (size_t d = 0; d < 4; ++d) {
      const Interval& range = ranges[value.ne[d]];
      if (!range.is_constant()) {
        return make_error(StatusCode::InvalidProgram, "weight '%s' has no constant shape",
                          weight.keys[0].c_str());
      }
      declared[d] = range.lo;
    }

    std::optional<FreeableBuffer> bytes;
    const std::string* key = nullptr;
    for (const std::string& candidate : weight.keys) {
      if (auto found = map != nullptr
                           ? map->get_data(candidate)
                           : executorch::runtime::Result<FreeableBuffer>(Error::NotFound);
          found.ok()) {
        bytes.emplace(std::move(found.get()));
        key = &candidate;
        break;
      }
    }
    if (!bytes) {
      complaints.missing(weight);
      continue;
    }

    const std::optional<Shape> described = read_descriptor(*map, *key);
    Shape shape{.type = GGML_TYPE_COUNT, .ne = declared};
    if (described) {
      if (described->ne != declared) {
        complaints.mismatch("'" + *key + "' is " +
                            describe(ggml_type_name(described->type), described->ne) +
                            ", expected " + describe("", declared));
        continue;
      }
      shape.type = described->type;
    } else if (value.dtype != kDtypeFromFile) {
      shape.type = static_cast<ggml_type>(value.dtype);
    } else if (const auto type = read_layout_type(*map, *key)) {
      shape.type = *type;
    } else if (Shape f32{.type = GGML_TYPE_F32, .ne = declared};
               byte_count(f32) == static_cast<int64_t>(bytes->size())) {
      shape.type = GGML_TYPE_F32;
    } else {
      complaints.mismatch("'" + *key + "' has " + std::to_string(bytes->size()) +
                          " bytes of an unknown type, expected " + describe("", declared));
      continue;
    }

    const bool declared_f32 = value.dtype == GGML_TYPE_F32;
    const bool convert = shape.type != GGML_TYPE_F32 && (needs_f32[i] || declared_f32) &&
                         shape.type != GGML_TYPE_I32;
    const bool is_float_data = ggml_get_type_traits(shape.type)->to_float != nullptr;
    const bool type_fits = value.dtype == kDtypeFromFile || value.dtype == shape.type ||
                           (declared_f32 && is_float_data);
    if (!type_fits || (convert && !is_float_data)) {
      complaints.mismatch("'" + *key + "' is " + ggml_type_name(shape.type) + ", expected " +
                          (value.dtype == kDtypeFromFile
                               ? "floating point"
                               : ggml_type_name(static_cast<ggml_type>(value.dtype))));
      continue;
    }
    const bool whole_rows = shape.ne[0] % ggml_blck_size(shape.type) == 0;
    if (!whole_rows || byte_count(shape) != static_cast<int64_t>(bytes->size())) {
      complaints.mismatch("'" + *key + "' has " + std::to_string(bytes->size()) +
                          " bytes, expected " + describe(ggml_type_name(shape.type), declared) +
                          " (" + std::to_string(whole_rows ? byte_count(shape) : 0) + " bytes)");
      continue;
    }
    std::shared_ptr<const WeightData> data;
    EG_RETURN_IF_ERROR(share(std::move(*bytes), shape, convert, out.stats_, data));
    ggml_tensor* tensor = ggml_new_tensor(out.context_.get(), convert ? GGML_TYPE_F32 : shape.type,
                                          4, declared.data());
    // Never empty: ggml would name leaves while building, and weights are shared.
    ggml_format_name(tensor, "w:%s", key->c_str());
    tensor->data = const_cast<void*>(data->data());
    out.tensors_.push_back(tensor);
    out.data_.push_back(std::move(data));
  }
  EG_RETURN_IF_ERROR(complaints.status(n_weights));
  out.packed_.assign(n_weights, nullptr);
  if (pack) {
    const std::vector<bool> in_product = weights_in_products(graph);
    for (size_t i = 0; i < n_weights; ++i) {
      if (in_product[i]) {
        EG_RETURN_IF_ERROR(out.pack(i));
      }
    }
  }
  return {};
}

Status read_named_data(const NamedDataMap* map, const std::string& key, std::vector<uint8_t>& out) {
  if (map == nullptr) {
    return make_error(StatusCode::NotFound, "'%s' is missing: no named data was given",
                      key.c_str());
  }
  const auto bytes = map->get_data(key);
  if (!bytes.ok()) {
    return make_error(StatusCode::NotFound, "'%s' is missing from the named data", key.c_str());
  }
  const auto* begin = static_cast<const uint8_t*>(bytes->data());
  out.assign(begin, begin + bytes->size());
  return {};
}

}  // namespace executorch_ggml
