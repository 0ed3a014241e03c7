#include "runtime/kernels/row_kernels.h"

#include <cstdlib>
#include <cstring>

namespace executorch_ggml {

namespace baseline {
extern const RowKernels kRowKernels;
}

#if defined(__x86_64__)
namespace avx2 {
extern const RowKernels kRowKernels;
}
namespace avx512 {
extern const RowKernels kRowKernels;
}
#endif

namespace {

struct Candidate {
  const RowKernels* kernels;
  bool runs_here;
};

// The best first. `isa`: its name, or null for any.
const RowKernels* find(const char* isa) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f");
  const Candidate candidates[] = {{&avx512::kRowKernels, has_avx512},
                                  {&avx2::kRowKernels, has_avx2},
                                  {&baseline::kRowKernels, true}};
#else
  const Candidate candidates[] = {{&baseline::kRowKernels, true}};
#endif
  for (const Candidate& candidate : candidates) {
    if (candidate.runs_here && (isa == nullptr || std::strcmp(isa, candidate.kernels->isa) == 0)) {
      return candidate.kernels;
    }
  }
  return nullptr;
}

const RowKernels& choose() {
  const char* const wanted = std::getenv("GGML_ROW_KERNELS");
  const RowKernels* const named = wanted == nullptr ? nullptr : find(wanted);
  return named == nullptr ? *find(nullptr) : *named;
}

}  // namespace

const RowKernels& row_kernels() {
  static const RowKernels& chosen = choose();
  return chosen;
}

const RowKernels* row_kernels_named(const char* isa) { return find(isa); }

}  // namespace executorch_ggml
