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

// The best first. `isa`: its name, or null for any.
const ImageKernels* find(const char* isa) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f");
  const Candidate candidates[] = {{&avx512::kImageKernels, has_avx512},
                                  {&avx2::kImageKernels, has_avx2},
                                  {&baseline::kImageKernels, true}};
#else
  const Candidate candidates[] = {{&baseline::kImageKernels, true}};
#endif
  for (const Candidate& candidate : candidates) {
    if (candidate.runs_here && (isa == nullptr || std::strcmp(isa, candidate.kernels->isa) == 0)) {
      return candidate.kernels;
    }
  }
  return nullptr;
}

const ImageKernels& choose() {
  const char* const wanted = std::getenv("GGML_IMAGE_KERNELS");
  const ImageKernels* const named = wanted == nullptr ? nullptr : find(wanted);
  return named == nullptr ? *find(nullptr) : *named;
}

}  // namespace

const ImageKernels& image_kernels() {
  static const ImageKernels& chosen = choose();
  return chosen;
}

const ImageKernels* image_kernels_named(const char* isa) { return find(isa); }

}  // namespace executorch_ggml
