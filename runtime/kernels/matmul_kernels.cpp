#include "runtime/kernels/matmul_kernels.h"

#include <cstdlib>
#include <cstring>

#include "runtime/platform/amx_tiles.h"
#include "runtime/platform/system_info.h"

namespace executorch_ggml {

#if defined(__x86_64__)
namespace amx {
extern const MatmulKernels kMatmulKernels;
}
namespace avx512 {
extern const MatmulKernels kMatmulKernels;
}
namespace avx2 {
extern const MatmulKernels kMatmulKernels;
}
#elif defined(__aarch64__)
namespace neon {
extern const MatmulKernels kMatmulKernels;
}
#endif

namespace {

struct Candidate {
  const MatmulKernels* kernels;
  bool runs_here;
};

// The best first. `isa`: its name, or null for any.
const MatmulKernels* find([[maybe_unused]] const char* isa) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  const bool has_avx512 =
      has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni");
  const Candidate candidates[] = {{&amx::kMatmulKernels, has_avx512 && request_bf16_tiles()},
                                  {&avx512::kMatmulKernels, has_avx512},
                                  {&avx2::kMatmulKernels, has_avx2}};
#elif defined(__aarch64__)
  const Candidate candidates[] = {{&neon::kMatmulKernels, has_arm_dot_product()}};
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  for (const Candidate& candidate : candidates) {
    if (candidate.runs_here && (isa == nullptr || std::strcmp(isa, candidate.kernels->isa) == 0)) {
      return candidate.kernels;
    }
  }
#endif
  return nullptr;
}

const MatmulKernels* choose() {
  const char* const wanted = std::getenv("GGML_MATMUL_KERNELS");
  const MatmulKernels* const named = wanted == nullptr ? nullptr : find(wanted);
  return named == nullptr ? find(nullptr) : named;
}

}  // namespace

const MatmulKernels* matmul_kernels() {
  static const MatmulKernels* const chosen = choose();
  return chosen;
}

const MatmulKernels* matmul_kernels_named(const char* isa) { return find(isa); }

}  // namespace executorch_ggml
