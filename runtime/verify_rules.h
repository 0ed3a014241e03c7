// Tables behind verify.cpp: which types and parameters a program may name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/gguf_types.h"
#include "runtime/opset.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {

// The element type with this number (enum ggml_type), or nullptr if a program may
// not name it: unknown, or a format of activations inside ggml (Q8_1, Q8_K), with
// which it cannot multiply.
const GgmlTypeInfo* program_dtype(int64_t dtype);
std::string program_dtype_name(uint8_t dtype);

// A scalar type of ExecuTorch that can be an argument, and the element type that
// its values have inside a program. All integers are I32 there: a value that does
// not fit is an error when the input is read.
struct ScalarTypeInfo {
  int8_t code;
  const char* name;
  bool is_integer;
  uint8_t dtype;
};

// nullptr: no such type, or one that cannot be an argument.
const ScalarTypeInfo* find_scalar_type(int8_t code);

// What integer parameter `param` of an op may be, when it is a constant. ggml takes
// these for granted: outside of them it aborts or divides by zero.
Interval int_param_range(const OpInfo& info, size_t param);

}  // namespace executorch_ggml
