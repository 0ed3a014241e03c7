#include "runtime/kernels/attention_kernels.h"

#include <cstdlib>
#include <cstring>

namespace executorch_ggml {

namespace baseline {
extern const AttentionKernels kAttentionKernels;
}

#if defined(__x86_64__)
namespace avx2 {
extern const AttentionKernels kAttentionKernels;
}
namespace avx512 {
extern const AttentionKernels kAttentionKernels;
}
#endif

namespace {

struct Candidate {
  const AttentionKernels* kernels;
  bool runs_here;
};

// The best first. `isa`: its name, or null for any.
const AttentionKernels* find(const char* isa) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f");
  const Candidate candidates[] = {{&avx512::kAttentionKernels, has_avx512},
                                  {&avx2::kAttentionKernels, has_avx2},
                                  {&baseline::kAttentionKernels, true}};
#else
  const Candidate candidates[] = {{&baseline::kAttentionKernels, true}};
#endif
  for (const Candidate& candidate : candidates) {
    if (candidate.runs_here && (isa == nullptr || std::strcmp(isa, candidate.kernels->isa) == 0)) {
      return candidate.kernels;
    }
  }
  return nullptr;
}

const AttentionKernels* choose() {
  const char* const wanted = std::getenv("GGML_ATTENTION_KERNELS");
  const AttentionKernels* const named = wanted == nullptr ? nullptr : find(wanted);
  return named == nullptr ? find(nullptr) : named;
}

}  // namespace

const AttentionKernels* attention_kernels() {
  static const AttentionKernels* const chosen = choose();
  return chosen;
}

const AttentionKernels* attention_kernels_named(const char* isa) { return find(isa); }

}  // namespace executorch_ggml
