#include "runtime/graph_cache.h"

#include <algorithm>

namespace executorch_ggml {

GraphCache::GraphCache(size_t capacity, ggml_backend_buffer_type_t buffer_type)
    : capacity_(capacity), allocator_(ggml_gallocr_new(buffer_type)) {}

size_t GraphCache::buffer_bytes() const {
  return ggml_gallocr_get_buffer_size(allocator_.get(), 0);
}

CachedPlan* GraphCache::find(std::span<const int64_t> key) {
  if (capacity_ > 0) {
    for (auto entry = plans_.begin(); entry != plans_.end(); ++entry) {
      if (std::ranges::equal((*entry)->key, key)) {
        plans_.splice(plans_.begin(), plans_, entry);
        ++stats_.hits;
        return plans_.front().get();
      }
    }
  }
  ++stats_.misses;
  return nullptr;
}

Status GraphCache::reserve(const Plan& plan) {
  if (plan.graph == nullptr) {
    return {};
  }
  // Always lays the graph out anew: ggml would take the layout of the graph before
  // it for any graph with as many nodes and no larger tensors.
  const size_t before = buffer_bytes();
  const bool reserved = ggml_gallocr_reserve(allocator_.get(), plan.graph);
  if (!reserved || buffer_bytes() != before) {
    clear();  // they point into the buffer that was freed
  }
  return reserved ? Status()
                  : make_error(StatusCode::OutOfMemory,
                               "no memory for the intermediate results of a graph");
}

Status GraphCache::insert(std::unique_ptr<CachedPlan> plan, CachedPlan*& out) {
  while (!plans_.empty() && plans_.size() >= std::max<size_t>(capacity_, 1)) {
    plans_.pop_back();
  }
  EG_RETURN_IF_ERROR(reserve(plan->plan));
  if (plan->plan.graph != nullptr &&
      !ggml_gallocr_alloc_graph(allocator_.get(), plan->plan.graph)) {
    return make_error(StatusCode::OutOfMemory, "no memory for the intermediate results of a graph");
  }
  plans_.push_front(std::move(plan));
  out = plans_.front().get();
  return {};
}

}  // namespace executorch_ggml
