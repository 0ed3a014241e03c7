#include "runtime/scalar_convert.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace executorch_ggml {
namespace {

bool is_integer(Scalar scalar) {
  switch (scalar) {
    case Scalar::Byte:
    case Scalar::Char:
    case Scalar::Short:
    case Scalar::Int:
    case Scalar::Long:
    case Scalar::Bool:
      return true;
    case Scalar::Half:
    case Scalar::Float:
    case Scalar::Double:
    case Scalar::BFloat16:
      return false;
  }
  return false;
}

template <typename T>
void widen(const void* from, int32_t* to, size_t count) {
  const T* values = static_cast<const T*>(from);
  std::copy_n(values, count, to);
}

template <typename T>
size_t narrow(const int32_t* from, void* to, size_t count) {
  T* values = static_cast<T*>(to);
  for (size_t i = 0; i < count; ++i) {
    if (from[i] < std::numeric_limits<T>::min() || from[i] > std::numeric_limits<T>::max()) {
      return i;
    }
    values[i] = static_cast<T>(from[i]);
  }
  return count;
}

}  // namespace

bool can_read(Scalar from, ggml_type to) {
  if (to == GGML_TYPE_I32) {
    return is_integer(from);
  }
  return to == GGML_TYPE_F32 &&
         (from == Scalar::Float || from == Scalar::Half || from == Scalar::BFloat16);
}

bool can_write(ggml_type from, Scalar to) {
  switch (from) {
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
      return to == Scalar::Float || to == Scalar::Half || to == Scalar::BFloat16 ||
             to == Scalar::Double;
    case GGML_TYPE_I32:
      return is_integer(to);
    default:
      return false;
  }
}

size_t read_integers(Scalar type, const void* from, int32_t* to, size_t count) {
  switch (type) {
    case Scalar::Byte:
      widen<uint8_t>(from, to, count);
      return count;
    case Scalar::Char:
      widen<int8_t>(from, to, count);
      return count;
    case Scalar::Short:
      widen<int16_t>(from, to, count);
      return count;
    case Scalar::Bool: {
      const uint8_t* values = static_cast<const uint8_t*>(from);
      std::transform(values, values + count, to, [](uint8_t value) { return value != 0 ? 1 : 0; });
      return count;
    }
    case Scalar::Long: {
      const int64_t* values = static_cast<const int64_t*>(from);
      for (size_t i = 0; i < count; ++i) {
        to[i] = static_cast<int32_t>(values[i]);
        if (to[i] != values[i]) {
          return i;
        }
      }
      return count;
    }
    default:
      std::memcpy(to, from, count * sizeof(int32_t));
      return count;
  }
}

void read_floats(Scalar type, const void* from, float* to, size_t count) {
  const auto n = static_cast<int64_t>(count);
  if (type == Scalar::Half) {
    ggml_fp16_to_fp32_row(static_cast<const ggml_fp16_t*>(from), to, n);
  } else if (type == Scalar::BFloat16) {
    ggml_bf16_to_fp32_row(static_cast<const ggml_bf16_t*>(from), to, n);
  } else {
    std::memcpy(to, from, count * sizeof(float));
  }
}

size_t write_integers(const int32_t* from, Scalar type, void* to, size_t count) {
  switch (type) {
    case Scalar::Byte:
      return narrow<uint8_t>(from, to, count);
    case Scalar::Char:
      return narrow<int8_t>(from, to, count);
    case Scalar::Short:
      return narrow<int16_t>(from, to, count);
    case Scalar::Long:
      std::copy_n(from, count, static_cast<int64_t*>(to));
      return count;
    case Scalar::Bool: {
      bool* values = static_cast<bool*>(to);
      for (size_t i = 0; i < count; ++i) {
        if (from[i] != 0 && from[i] != 1) {
          return i;
        }
        values[i] = from[i] == 1;
      }
      return count;
    }
    default:
      std::memcpy(to, from, count * sizeof(int32_t));
      return count;
  }
}

void write_floats(const float* from, Scalar type, void* to, size_t count) {
  const auto n = static_cast<int64_t>(count);
  if (type == Scalar::Half) {
    ggml_fp32_to_fp16_row(from, static_cast<ggml_fp16_t*>(to), n);
  } else if (type == Scalar::BFloat16) {
    ggml_fp32_to_bf16_row(from, static_cast<ggml_bf16_t*>(to), n);
  } else if (type == Scalar::Double) {
    std::copy_n(from, count, static_cast<double*>(to));
  } else {
    std::memcpy(to, from, count * sizeof(float));
  }
}

}  // namespace executorch_ggml
