#include "runtime/weight_store.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "runtime/aligned_buffer.h"
#include "runtime/platform/mmap.h"
#include "runtime/shared_by_key.h"
#include "runtime/symexpr.h"
#include "runtime/weight_packing.h"
#include "runtime/weight_region.h"
#include "runtime/weight_source.h"

namespace executorch_ggml {

using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;

// Data where it lies, a copy of it, or another form of it; what is shared keeps its source,
// whose address is its name.
class WeightData {
 public:
  explicit WeightData(FreeableBuffer&& source) : source_(std::move(source)) {}
  explicit WeightData(AlignedBuffer&& copy) : copy_(std::move(copy)) {}
  // In memory of several weights.
  WeightData(FreeableBuffer&& source, std::shared_ptr<const AlignedBuffer> region, const void* data)
      : source_(std::move(source)), region_(std::move(region)), region_data_(data) {}
  WeightData(FreeableBuffer&& source, AlignedBuffer&& converted)
      : source_(std::move(source)), copy_(std::move(converted)) {}
  WeightData(std::shared_ptr<const WeightData> source, ggml_backend_buffer_ptr&& packed)
      : origin_(std::move(source)), packed_(std::move(packed)) {}

  const void* data() const {
    if (region_ != nullptr) {
      return region_data_;
    }
    return copy_.data() != nullptr ? copy_.data() : source_.data();
  }
  const ggml_backend_buffer_ptr& packed() const { return packed_; }

 private:
  FreeableBuffer source_;
  AlignedBuffer copy_;
  std::shared_ptr<const AlignedBuffer> region_;
  const void* region_data_ = nullptr;
  std::shared_ptr<const WeightData> origin_;
  ggml_backend_buffer_ptr packed_;
};

namespace {

// ggml's CPU kernels load unaligned (rows of 34-byte blocks never are aligned), and
// ExecuTorch's data loaders guarantee no more for what they read into memory.
constexpr size_t kZeroCopyAlignment = 16;

enum class Treatment { ZeroCopy, ToF32, Packed, InMemory };

// Live data of the process, by source and treatment. An entry's source stays
// alive with it, so an address cannot come to mean something else; a plain copy
// would hold its memory twice and is not shared.
using SharedKey = std::tuple<const void*, size_t, ggml_type, Treatment>;

SharedByKey<SharedKey, const WeightData>& shared_data() {
  static SharedByKey<SharedKey, const WeightData> instance;
  return instance;
}

// Whether a copy of the source's data is shared, by other weights and handles: where its address
// names it. A source in a mapped file is kept, and costs nothing.
bool is_shared(const WeightSource& source) {
  return MappedFile::holds(source.bytes->data(), source.bytes->size());
}

SharedKey copy_key(const WeightSource& source) {
  return {source.bytes->data(), source.bytes->size(), source.type, Treatment::InMemory};
}

// The place of a copy of the source's data in the region.
Status add_copy(WeightRegion& region, WeightSource& source, WeightStore::Stats& stats,
                std::shared_ptr<const WeightData>& out) {
  const void* const bytes = source.bytes->data();
  const size_t size = source.bytes->size();
  stats.in_memory += size;
  const auto make = [&](FreeableBuffer&& kept) {
    uint8_t* const data = region.add(bytes, size);
    return std::make_shared<const WeightData>(std::move(kept), region.memory(), data);
  };
  if (!is_shared(source)) {
    out = make(FreeableBuffer());
    return {};
  }
  return shared_data().get(copy_key(source), out,
                           [&](std::shared_ptr<const WeightData>& made) -> Status {
                             made = make(std::move(*source.bytes));
                             return {};
                           });
}

// The source's data in the form that is used, shared with other handles.
Status share(WeightSource&& source, WeightStore::Stats& stats,
             std::shared_ptr<const WeightData>& out) {
  const size_t size = source.bytes->size();
  if (!source.to_f32 && !is_aligned(source.bytes->data(), kZeroCopyAlignment)) {
    AlignedBuffer copy;
    if (!copy.reserve(size)) {
      return make_error(StatusCode::OutOfMemory, "no memory for %zu bytes of weights", size);
    }
    std::memcpy(copy.data(), source.bytes->data(), size);
    out = std::make_shared<const WeightData>(std::move(copy));
    stats.copied += size;
    return {};
  }
  const SharedKey key{source.bytes->data(), size, source.type,
                      source.to_f32 ? Treatment::ToF32 : Treatment::ZeroCopy};
  const auto make = [&source](std::shared_ptr<const WeightData>& made) -> Status {
    AlignedBuffer converted;
    if (source.to_f32) {
      const int64_t count = source.ne[0] * source.ne[1] * source.ne[2] * source.ne[3];
      const size_t bytes = static_cast<size_t>(count) * sizeof(float);
      if (!converted.reserve(bytes)) {
        return make_error(StatusCode::OutOfMemory, "no memory for %zu bytes of weights", bytes);
      }
      ggml_get_type_traits(source.type)
          ->to_float(source.bytes->data(), static_cast<float*>(converted.data()), count);
    }
    made = std::make_shared<const WeightData>(std::move(*source.bytes), std::move(converted));
    return {};
  };
  EG_RETURN_IF_ERROR(shared_data().get(key, out, make));
  (source.to_f32 ? stats.converted : stats.zero_copy) += size;
  return {};
}

// Of what is known of each value, the weights'.
std::vector<bool> of_weights(const Graph& graph, const std::vector<bool>& of_values) {
  std::vector<bool> result;
  for (const Weight& weight : graph.weights) {
    result.push_back(of_values[weight.value]);
  }
  return result;
}

// Whether each of Graph::weights is the first operand of a product.
std::vector<bool> weights_in_products(const Graph& graph) {
  std::vector<bool> in_product(graph.values.size(), false);
  for (const Call& call : graph.calls) {
    if (call.op == Op::MulMat) {
      in_product[call.inputs[0]] = true;
    }
  }
  return of_weights(graph, in_product);
}

// Whether each of Graph::weights is read whole by a call: not those that are but tables of rows.
std::vector<bool> weights_read_whole(const Graph& graph) {
  std::vector<bool> read_whole(graph.values.size(), false);
  for (const Call& call : graph.calls) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i] != kAbsent && !(call.op == Op::GetRows && i == 0)) {
        read_whole[call.inputs[i]] = true;
      }
    }
  }
  return of_weights(graph, read_whole);
}

// The extents of a weight, which no symbol may shape.
Status constant_extents(const Weight& weight, const Value& value, std::span<const Interval> ranges,
                        std::array<int64_t, 4>& out) {
  for (size_t d = 0; d < 4; ++d) {
    const Interval& range = ranges[value.ne[d]];
    if (!range.is_constant()) {
      return make_error(StatusCode::InvalidProgram, "weight '%s' has no constant shape",
                        weight.keys[0].c_str());
    }
    out[d] = range.lo;
  }
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
  std::shared_ptr<const WeightData> data;
  const auto make = [&](std::shared_ptr<const WeightData>& made) -> Status {
    ggml_backend_buffer_ptr packed;
    EG_RETURN_IF_ERROR(pack_weight(layout, *tensor, plain.data, packed));
    made = std::make_shared<const WeightData>(data_[weight], std::move(packed));
    return {};
  };
  EG_RETURN_IF_ERROR(shared_data().get(key, data, make));
  use_packed(data->packed(), *tensor);
  stats_.packed += ggml_nbytes(&plain);
  packed_[weight] = tensor;
  data_.push_back(std::move(data));
  return {};
}

Status WeightStore::bind(const Graph& graph, WeightPlace place, std::vector<WeightSource> sources) {
  // The bytes that are copied: a table of rows is, too, where it is a product's matrix as well.
  const std::vector<bool> read_whole = weights_read_whole(graph);
  std::set<const void*> copied;
  for (size_t i = 0; i < sources.size() && place == WeightPlace::LargePages; ++i) {
    if (read_whole[i]) {
      copied.insert(sources[i].bytes->data());
    }
  }
  const auto is_copied = [&copied](const WeightSource& source) {
    return !source.to_f32 && copied.contains(source.bytes->data());
  };
  size_t size = 0;
  std::set<SharedKey> counted;
  for (const WeightSource& source : sources) {
    const bool is_new =
        is_copied(source) && (!is_shared(source) || counted.insert(copy_key(source)).second);
    size += is_new ? aligned_size(source.bytes->size()) : 0;
  }
  // Another handle is not to find copies before they are made, nor where that failed.
  static std::mutex copying;
  std::unique_lock lock(copying, std::defer_lock);
  if (!copied.empty()) {
    lock.lock();
  }
  WeightRegion region;
  EG_RETURN_IF_ERROR(region.reserve(size));
  for (WeightSource& source : sources) {
    const ggml_type type = source.to_f32 ? GGML_TYPE_F32 : source.type;
    ggml_tensor* tensor = ggml_new_tensor(context_.get(), type, 4, source.ne.data());
    // Never empty: ggml would name leaves while building, and weights are shared.
    ggml_format_name(tensor, "w:%s", source.key->c_str());
    std::shared_ptr<const WeightData> data;
    Status status = is_copied(source) ? add_copy(region, source, stats_, data)
                                      : share(std::move(source), stats_, data);
    if (!status.ok()) {
      data_.clear();
      return status;
    }
    tensor->data = const_cast<void*>(data->data());
    tensors_.push_back(tensor);
    data_.push_back(std::move(data));
  }
  Status status = region.fill();
  if (!status.ok()) {
    data_.clear();
  }
  return status;
}

Status WeightStore::load(const Graph& graph, const NamedDataMap* map,
                         const std::function<bool(ggml_type)>& packs, WeightPlace place,
                         WeightStore& out) {
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

  WeightComplaints complaints;
  std::vector<WeightSource> sources;
  for (size_t i = 0; i < n_weights; ++i) {
    const Weight& weight = graph.weights[i];
    const Value& value = graph.values[weight.value];
    std::array<int64_t, 4> ne{};
    EG_RETURN_IF_ERROR(constant_extents(weight, value, ranges, ne));
    std::optional<WeightSource> source =
        find_weight(weight, value.dtype, ne, needs_f32[i], map, complaints);
    if (source) {
      sources.push_back(*std::move(source));
    }
  }
  EG_RETURN_IF_ERROR(complaints.status(n_weights));

  EG_RETURN_IF_ERROR(out.bind(graph, place, std::move(sources)));
  out.packed_.assign(n_weights, nullptr);
  const std::vector<bool> in_product = weights_in_products(graph);
  for (size_t i = 0; i < n_weights; ++i) {
    if (in_product[i] && packs(out.tensors_[i]->type)) {
      EG_RETURN_IF_ERROR(out.pack(i));
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
