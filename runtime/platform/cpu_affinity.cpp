#include "runtime/platform/cpu_affinity.h"

#include <algorithm>
#include <iterator>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

namespace executorch_ggml {

#if defined(__linux__)

namespace {

bool bind_to(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    CPU_SET(static_cast<size_t>(cpu), &set);
  }
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return cpus;
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

CpuBinding::CpuBinding(std::span<const int> cpus) {
  if (cpus.empty()) {
    return;
  }
  std::vector<int> before = allowed_cpus();
  std::vector<int> usable;
  std::ranges::copy_if(cpus, std::back_inserter(usable),
                       [&before](int cpu) { return std::ranges::binary_search(before, cpu); });
  if (!usable.empty() && bind_to(usable)) {
    before_ = std::move(before);
  }
}

CpuBinding::~CpuBinding() {
  if (!before_.empty()) {
    bind_to(before_);
  }
}

#else

std::vector<int> allowed_cpus() { return {}; }
CpuBinding::CpuBinding(std::span<const int> /*cpus*/) {}
CpuBinding::~CpuBinding() = default;

#endif

}  // namespace executorch_ggml
