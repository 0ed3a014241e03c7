// What the machine offers. The files of platform/ are the only ones that name an
// operating system.
#pragma once

#include <cstdint>

namespace executorch_ggml {

// Physical cores among the processors that this process may run on; hardware
// threads of one core count once. At least 1.
int physical_core_count();

// Bytes of main memory; 0 when the system does not tell.
uint64_t physical_memory_bytes();

// Most main memory that this process held at a time, mapped files that were read
// included, in bytes; 0 when the system does not tell.
uint64_t peak_memory_bytes();

// Whether this is x86-64 with AVX2, FMA and F16C; with AVX-512F besides; and with its BW, DQ, VL
// and VNNI.
bool has_avx2();
bool has_avx512();
bool has_avx512_vnni();

// Whether this is AArch64 with the dot product instructions.
bool has_arm_dot_product();

}  // namespace executorch_ggml
