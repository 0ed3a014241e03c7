// x86-64 with AVX2, FMA and F16C.
#if defined(__x86_64__)
#define EG_ISA avx2
#include "runtime/kernels/matmul_kernels_vec8_avx2.h"
// After the vectors that it uses.
#include "runtime/kernels/matmul_kernels_vec8_isa.h"
#endif
