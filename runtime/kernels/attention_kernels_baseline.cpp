// What every machine of the target runs: NEON on AArch64, SSE2 on x86-64.
#define EG_ISA baseline
#define EG_WIDTH 4
#include "runtime/kernels/attention_kernels_isa.h"
