#include "runtime/graph_cache.h"

#include <algorithm>

#include "runtime/platform/huge_pages.h"
#include "runtime/platform/system_info.h"

namespace executorch_ggml {
namespace {

// Bytes of all results in a graph, as if none shared memory.
uint64_t bytes_without_reuse(ggml_cgraph* graph) {
  uint64_t bytes = 0;
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    const ggml_tensor* node = ggml_graph_node(graph, i);
    bytes += node->view_src == nullptr ? ggml_nbytes(node) : 0;
  }
  return bytes;
}

}  // namespace

GraphCache::GraphCache(size_t capacity, ggml_backend_buffer_type_t buffer_type)
    : capacity_(capacity), buffer_type_(buffer_type), allocator_(ggml_gallocr_new(buffer_type)) {}

// An allocation beyond the machine's memory may well succeed, and end the process
// once it is written.
Status GraphCache::check_fits_machine(ggml_cgraph* graph) const {
  const uint64_t memory = physical_memory_bytes();
  if (memory == 0 || bytes_without_reuse(graph) <= memory) {
    return {};
  }
  const ggml_gallocr_ptr measure(ggml_gallocr_new(buffer_type_));
  size_t needed = 0;
  ggml_gallocr_reserve_n_size(measure.get(), graph, nullptr, nullptr, &needed);
  if (needed <= memory) {
    return {};
  }
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  return make_error(StatusCode::OutOfMemory,
                    "intermediate results need %.1f GiB, this machine has %.1f GiB",
                    static_cast<double>(needed) / kGiB, static_cast<double>(memory) / kGiB);
}

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
  EG_RETURN_IF_ERROR(check_fits_machine(plan.graph));
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

// Before the buffer is used for the first time; a graph's results tell where it is.
void GraphCache::advise_huge_pages(const Plan& plan) {
  if (plan.graph == nullptr || buffer_bytes() == advised_bytes_) {
    return;
  }
  advised_bytes_ = buffer_bytes();
  for (int i = 0; i < ggml_graph_n_nodes(plan.graph); ++i) {
    ggml_backend_buffer_t buffer = ggml_graph_node(plan.graph, i)->buffer;
    if (buffer != nullptr && ggml_backend_buffer_is_host(buffer) &&
        ggml_backend_buffer_get_size(buffer) == advised_bytes_) {
      prefer_huge_pages(ggml_backend_buffer_get_base(buffer), advised_bytes_);
      return;
    }
  }
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
  advise_huge_pages(plan->plan);
  plans_.push_front(std::move(plan));
  out = plans_.front().get();
  return {};
}

}  // namespace executorch_ggml
