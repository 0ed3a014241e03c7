#include "runtime/kernels/image_kernels.h"

#include <cstdlib>
#include <cstring>

namespace executorch_ggml {

namespace baseline {
extern const ImageKernels kImageKernels;
}

#if defined(__x86_64__)
namespace avx2 {
extern const ImageKernels kImageKernels;
}
namespace avx512 {
extern const ImageKernels kImageKernels;
}
#endif

namespace {

struct Candidate {
  const ImageKernels* kernels;
  bool runs_here;
};

const ImageKernels& choose() {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f");
  const Candidate candidates[] = {{&avx512::kImageKernels, has_avx512},
                                  {&avx2::kImageKernels, has_avx2},
                                  {&baseline::kImageKernels, true}};
#else
  const Candidate candidates[] = {{&baseline::kImageKernels, true}};
#endif
  const char* const wanted = std::getenv("GGML_IMAGE_KERNELS");
  const ImageKernels* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (!candidate.runs_here) {
      continue;
    }
    if (wanted != nullptr && std::strcmp(wanted, candidate.kernels->isa) == 0) {
      return *candidate.kernels;
    }
    best = best == nullptr ? candidate.kernels : best;
  }
  return *best;
}

}  // namespace

const ImageKernels& image_kernels() {
  static const ImageKernels& chosen = choose();
  return chosen;
}

}  // namespace executorch_ggml
