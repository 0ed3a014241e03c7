// On which CPUs threads run.
#pragma once

#include <compare>
#include <span>
#include <vector>

namespace executorch_ggml {

// Where the threads of a pool stay: each on one of these CPUs if there are enough, else all on all
// of them; with none, anywhere.
struct CpuPlacement {
  std::vector<int> cpus;
  bool always = false;  // else only where it pays: see TaskProgram::stores_apart

  friend auto operator<=>(const CpuPlacement&, const CpuPlacement&) = default;
};

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
