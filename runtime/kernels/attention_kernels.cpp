#include "runtime/kernels/attention_kernels.h"

#include "runtime/kernels/kernel_choice.h"
#include "runtime/platform/system_info.h"

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

// The best first.
std::span<const KernelSet<AttentionKernels>> sets() {
  static const KernelSet<AttentionKernels> all[] = {
#if defined(__x86_64__)
      {&avx512::kAttentionKernels, has_avx512()},
      {&avx2::kAttentionKernels, has_avx2()},
#endif
      {&baseline::kAttentionKernels, true},
  };
  return all;
}

}  // namespace

const AttentionKernels* attention_kernels() {
  static const AttentionKernels* const chosen = choose_kernels(sets());
  return chosen;
}

const AttentionKernels* attention_kernels_named(const char* isa) {
  return find_kernels(sets(), isa);
}

}  // namespace executorch_ggml
