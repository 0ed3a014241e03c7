// x86-64 with AVX-512F.
#if defined(__x86_64__)
#define EG_ISA avx512
#define EG_WIDTH 16
#define EG_ROWS 8
#define EG_PANELS 3
#include "runtime/kernels/image_kernels_isa.h"
#endif
