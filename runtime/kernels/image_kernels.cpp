#include "runtime/kernels/image_kernels.h"

#include "runtime/kernels/kernel_choice.h"
#include "runtime/platform/system_info.h"

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

// The best first.
std::span<const KernelSet<ImageKernels>> sets() {
  static const KernelSet<ImageKernels> all[] = {
#if defined(__x86_64__)
      {&avx512::kImageKernels, has_avx512()},
      {&avx2::kImageKernels, has_avx2()},
#endif
      {&baseline::kImageKernels, true},
  };
  return all;
}

}  // namespace

const ImageKernels& image_kernels() {
  static const ImageKernels& chosen = *choose_kernels(sets());
  return chosen;
}

const ImageKernels* image_kernels_named(const char* isa) { return find_kernels(sets(), isa); }

}  // namespace executorch_ggml
