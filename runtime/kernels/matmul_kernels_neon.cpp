// AArch64 with the dot product instructions (most cores from Armv8.2 on).
#if defined(__aarch64__)
#define EG_ISA neon
#include "runtime/kernels/matmul_kernels_vec8_neon.h"
// After the vectors that it uses.
#include "runtime/kernels/matmul_kernels_vec8_isa.h"
#endif
