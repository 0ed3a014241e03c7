// Built graphs by the numbers that shape them: symbol values, then what the
// session adds. A few plans are kept, least recently used dropped first.
//
// All plans of a handle share one buffer for their intermediates, which is
// reserved for the largest graph at load: they run one at a time. Should a graph
// need more, the buffer grows and the other plans, which point into the old one,
// are dropped.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "ggml-cpp.h"
#include "runtime/executor.h"
#include "runtime/plan.h"
#include "runtime/status.h"

namespace executorch_ggml {

struct CachedPlan {
  std::vector<int64_t> key;
  Plan plan;
  std::unique_ptr<Execution> execution;  // null when there is nothing to compute
};

class GraphCache {
 public:
  struct Stats {
    uint64_t hits = 0;
    uint64_t misses = 0;
  };

  // With capacity 0 nothing is found again: every call builds.
  GraphCache(size_t capacity, ggml_backend_buffer_type_t buffer_type);

  // The plan for `key`, or null; counts a hit or a miss.
  CachedPlan* find(std::span<const int64_t> key);

  // Gives a new plan its memory and keeps it. The result is valid until the next
  // insert() or clear(). `execution` is for the caller to fill.
  Status insert(std::unique_ptr<CachedPlan> plan, CachedPlan*& out);

  // Makes the buffer large enough for `plan`'s graph.
  Status reserve(const Plan& plan);

  void clear() { plans_.clear(); }
  size_t size() const { return plans_.size(); }
  size_t buffer_bytes() const;
  const Stats& stats() const { return stats_; }

 private:
  Status check_fits_machine(ggml_cgraph* graph) const;
  void advise_huge_pages(const Plan& plan);

  size_t capacity_;
  ggml_backend_buffer_type_t buffer_type_;
  ggml_gallocr_ptr allocator_;
  size_t advised_bytes_ = 0;  // of the buffer that has large pages, if it takes some
  std::list<std::unique_ptr<CachedPlan>> plans_;  // most recently used first
  Stats stats_;
};

}  // namespace executorch_ggml
