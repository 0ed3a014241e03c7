// Weights: named data as ggml tensors.
//
// Data that is aligned for ggml is used where it lies (a mapped file), if it is not to lie in
// large pages; other data is copied once. A weight's type is what the program declares or, where it
// declares none, what the file says; weights that ggml's kernels want as plain
// F32 (norm weights, biases, rope factors) are converted at load when the file has
// another type. A quantized weight has a second form for products where the CPU has
// a faster layout for it (weight_packing.h). Data and copies are shared between the
// handles that use the same bytes, and freed with the last of them.
#pragma once

#include <executorch/runtime/core/named_data_map.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ggml-cpp.h"
#include "runtime/program.h"
#include "runtime/status.h"

namespace executorch_ggml {

// Which of Graph::weights must be plain F32 whatever the file holds: all that are
// used otherwise than as the first operand of a product, as a table of rows, or
// in a cast.
std::vector<bool> weights_needing_f32(const Graph& graph);

// The bytes of one weight, shared between handles.
class WeightData;
struct WeightSource;  // runtime/weight_source.h

// Where weights are kept that need no other form.
enum class WeightPlace : uint8_t {
  Mapped,      // where the data map has them
  LargePages,  // those that a call reads whole in memory of the handle, in large pages
};

class WeightStore {
 public:
  struct Stats {
    size_t zero_copy = 0;  // bytes used where the data map has them
    size_t copied = 0;     // bytes that were not aligned
    size_t in_memory = 0;  // bytes copied into large pages, or so already
    size_t converted = 0;  // bytes that were converted to F32
    size_t packed = 0;     // bytes that products read in a layout of their own
  };

  // `data` may be null for a program without weights and is not kept. `packs` allows
  // packed forms of a type, which take as much memory again.
  // NotFound or InvalidExternalData lists the weights that are missing or do not
  // fit (the first ten, and how many in all).
  static Status load(const Graph& graph, const executorch::runtime::NamedDataMap* data,
                     const std::function<bool(ggml_type)>& packs, WeightPlace place,
                     WeightStore& out);

  // As Graph::weights; named, with data.
  std::span<ggml_tensor* const> tensors() const { return tensors_; }
  // The same for products, null where there is no packed form.
  std::span<ggml_tensor* const> packed() const { return packed_; }
  const Stats& stats() const { return stats_; }

 private:
  // The weights' tensors, with the sources' data or copies of it.
  Status bind(const Graph& graph, WeightPlace place, std::vector<WeightSource> sources);
  Status pack(size_t weight);

  ggml_context_ptr context_;

  std::vector<ggml_tensor*> tensors_;
  std::vector<ggml_tensor*> packed_;
  std::vector<std::shared_ptr<const WeightData>> data_;
  Stats stats_;
};

// The bytes of a key, for a state's first content.
Status read_named_data(const executorch::runtime::NamedDataMap* data, const std::string& key,
                       std::vector<uint8_t>& out);

}  // namespace executorch_ggml
