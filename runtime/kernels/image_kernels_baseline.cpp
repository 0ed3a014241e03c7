// What every machine of the target runs: NEON on AArch64 (32 registers), SSE2 on x86-64 (16).
#define EG_ISA baseline
#define EG_WIDTH 4
#if defined(__aarch64__)
#define EG_ROWS 6
#else
#define EG_ROWS 3
#endif
#define EG_PANELS 1
#include "runtime/kernels/image_kernels_isa.h"
