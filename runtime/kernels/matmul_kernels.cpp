#include "runtime/kernels/matmul_kernels.h"

#include "runtime/kernels/kernel_choice.h"
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

// The best first.
std::span<const KernelSet<MatmulKernels>> sets() {
#if defined(__x86_64__)
  static const KernelSet<MatmulKernels> all[] = {
      {&amx::kMatmulKernels, has_avx512_vnni() && request_bf16_tiles()},
      {&avx512::kMatmulKernels, has_avx512_vnni()},
      {&avx2::kMatmulKernels, has_avx2()},
  };
  return all;
#elif defined(__aarch64__)
  static const KernelSet<MatmulKernels> all[] = {{&neon::kMatmulKernels, has_arm_dot_product()}};
  return all;
#else
  return {};
#endif
}

}  // namespace

const MatmulKernels* matmul_kernels() {
  static const MatmulKernels* const chosen = choose_kernels(sets());
  return chosen;
}

const MatmulKernels* matmul_kernels_named(const char* isa) { return find_kernels(sets(), isa); }

}  // namespace executorch_ggml
