// x86-64 with AVX2, FMA and F16C.
#if defined(__x86_64__)
#define EG_ISA avx2
#define EG_WIDTH 8
#include "runtime/kernels/attention_kernels_isa.h"
#endif
