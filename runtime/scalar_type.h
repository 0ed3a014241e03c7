// ExecuTorch's scalar type codes, for the layers that do not know ExecuTorch.
// tensor_io.cpp asserts that they are the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"

namespace executorch_ggml {

enum class Scalar : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  Bool = 11,
  BFloat16 = 15,
};

// The name torch uses, or "?".
constexpr const char* scalar_name(int code) {
  switch (static_cast<Scalar>(code)) {
    case Scalar::Byte:
      return "uint8";
    case Scalar::Char:
      return "int8";
    case Scalar::Short:
      return "int16";
    case Scalar::Int:
      return "int32";
    case Scalar::Long:
      return "int64";
    case Scalar::Half:
      return "float16";
    case Scalar::Float:
      return "float32";
    case Scalar::Double:
      return "float64";
    case Scalar::Bool:
      return "bool";
    case Scalar::BFloat16:
      return "bfloat16";
  }
  return "?";
}

// Whether a tensor of this ggml type has the bytes of that scalar type.
constexpr bool is_same_layout(ggml_type type, int scalar) {
  switch (static_cast<Scalar>(scalar)) {
    case Scalar::Float:
      return type == GGML_TYPE_F32;
    case Scalar::Int:
      return type == GGML_TYPE_I32;
    case Scalar::Half:
      return type == GGML_TYPE_F16;
    case Scalar::BFloat16:
      return type == GGML_TYPE_BF16;
    default:
      return false;
  }
}

}  // namespace executorch_ggml
