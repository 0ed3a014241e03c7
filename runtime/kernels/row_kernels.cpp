#include "runtime/kernels/row_kernels.h"

#include "runtime/kernels/kernel_choice.h"
#include "runtime/platform/system_info.h"

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

// The best first.
std::span<const KernelSet<RowKernels>> sets() {
  static const KernelSet<RowKernels> all[] = {
#if defined(__x86_64__)
      {&avx512::kRowKernels, has_avx512()},
      {&avx2::kRowKernels, has_avx2()},
#endif
      {&baseline::kRowKernels, true},
  };
  return all;
}

}  // namespace

const RowKernels& row_kernels() {
  static const RowKernels& chosen = *choose_kernels(sets());
  return chosen;
}

const RowKernels* row_kernels_named(const char* isa) { return find_kernels(sets(), isa); }

}  // namespace executorch_ggml
