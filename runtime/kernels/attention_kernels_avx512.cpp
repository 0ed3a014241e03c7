// x86-64 with AVX-512F.
#if defined(__x86_64__)
#define EG_ISA avx512
#define EG_WIDTH 16
#include "runtime/kernels/attention_kernels_isa.h"
#endif
