// x86-64 with AVX2 and FMA.
#if defined(__x86_64__)
#define EG_ISA avx2
#define EG_WIDTH 8
#define EG_ROWS 6
#define EG_PANELS 1
#include "runtime/kernels/image_kernels_isa.h"
#endif
