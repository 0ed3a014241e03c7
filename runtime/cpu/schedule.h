// Which works may run side by side.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/cpu/work.h"

namespace executorch_ggml {

// The works of one step: none reads or writes what another one writes.
struct Step {
  std::vector<Work*> works;
  // Tasks of all works; 1 where one thread runs them all, as they are too little to share.
  uint32_t n_tasks = 0;
};

// Each work goes to the first step in which everything before it that touches the same memory
// is done: works that share memory keep the order of the list.
std::vector<Step> schedule(std::span<const std::unique_ptr<Work>> works, int n_threads);

}  // namespace executorch_ggml
