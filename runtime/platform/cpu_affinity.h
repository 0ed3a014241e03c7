// On which CPUs threads run.
#pragma once

#include <span>
#include <vector>

namespace executorch_ggml {

// The CPUs that the calling thread may run on, in order; none where the system does not tell.
std::vector<int> allowed_cpus();

// Keeps the calling thread on these CPUs while it lives, and then gives it back what it had. Of
// CPUs that the thread may not use it takes none; if no others are named, or the system refuses,
// it stays as it is.
class CpuBinding {
 public:
  explicit CpuBinding(std::span<const int> cpus);
  ~CpuBinding();
  CpuBinding(const CpuBinding&) = delete;
  CpuBinding& operator=(const CpuBinding&) = delete;

 private:
  std::vector<int> before_;  // none: nothing to give back
};

}  // namespace executorch_ggml
