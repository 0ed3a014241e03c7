#include "runtime/cpu/schedule.h"

#include <algorithm>

namespace executorch_ggml {
namespace {

// A work is compared with as many before it; those further back are in earlier steps anyway.
constexpr size_t kWindow = 48;
// Waking another thread for fewer elements than these takes longer than computing them.
constexpr int64_t kWorthSharing = 16384;

bool overlap(const std::vector<MemoryRange>& a, const std::vector<MemoryRange>& b) {
  return std::ranges::any_of(a, [&b](const MemoryRange& one) {
    return std::ranges::any_of(b, [&one](const MemoryRange& other) { return one.overlaps(other); });
  });
}

bool depends(const Work& later, const Work& earlier) {
  return overlap(later.reads, earlier.writes) || overlap(later.writes, earlier.reads) ||
         overlap(later.writes, earlier.writes);
}

}  // namespace

std::vector<Step> schedule(std::span<const std::unique_ptr<Work>> works, int n_threads) {
  std::vector<size_t> step_of(works.size());
  std::vector<Step> steps;
  size_t settled = 0;  // the first step that may still be joined
  for (size_t i = 0; i < works.size(); ++i) {
    if (i >= kWindow) {
      settled = std::max(settled, step_of[i - kWindow] + 1);
    }
    size_t step = settled;
    for (size_t j = i > kWindow ? i - kWindow : 0; j < i; ++j) {
      if (step_of[j] >= step && depends(*works[i], *works[j])) {
        step = step_of[j] + 1;
      }
    }
    step_of[i] = step;
    steps.resize(std::max(steps.size(), step + 1));
    steps[step].works.push_back(works[i].get());
  }
  for (Step& step : steps) {
    int64_t elements = 0;
    for (const Work* work : step.works) {
      step.n_tasks += work->n_tasks;
      elements += work->elements;
    }
    // There may be nothing to do at all.
    if (elements < kWorthSharing || n_threads == 1 || step.n_tasks == 0) {
      step.n_tasks = 1;
    }
  }
  return steps;
}

}  // namespace executorch_ggml
