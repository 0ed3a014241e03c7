// Arrays of ExecuTorch's scalar types to and from the F32 and I32 of a delegate.
// No value is lost: what does not fit is reported, floats are rounded to nearest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"
#include "runtime/scalar_type.h"

namespace executorch_ggml {

// Whether a conversion exists; the functions below assume that one does.
bool can_read(Scalar from, ggml_type to);
bool can_write(ggml_type from, Scalar to);

// Both return the index of the first value that does not fit, or count.
size_t read_integers(Scalar type, const void* from, int32_t* to, size_t count);
size_t write_integers(const int32_t* from, Scalar type, void* to, size_t count);

void read_floats(Scalar type, const void* from, float* to, size_t count);
void write_floats(const float* from, Scalar type, void* to, size_t count);

}  // namespace executorch_ggml
