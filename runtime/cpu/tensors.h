// Where the rows of a tensor are, and what its parameters say.
#pragma once

#include <cstdint>
#include <cstring>

#include "ggml.h"

namespace executorch_ggml {

inline int64_t row_count(const ggml_tensor& t) { return t.ne[1] * t.ne[2] * t.ne[3]; }

struct RowAt {
  int64_t i1;
  int64_t i2;
  int64_t i3;
};

inline RowAt row_at(const ggml_tensor& t, int64_t row) {
  return {row % t.ne[1], row / t.ne[1] % t.ne[2], row / (t.ne[1] * t.ne[2])};
}

// The row of t at a place of a tensor that t broadcasts to.
inline char* row_data(const ggml_tensor& t, const RowAt& at) {
  const auto offset = [](int64_t i, int64_t extent, size_t stride) {
    return static_cast<size_t>(i < extent ? i : i % extent) * stride;
  };
  return static_cast<char*>(t.data) + offset(at.i1, t.ne[1], t.nb[1]) +
         offset(at.i2, t.ne[2], t.nb[2]) + offset(at.i3, t.ne[3], t.nb[3]);
}

inline float* f32_row(const ggml_tensor& t, const RowAt& at) {
  return reinterpret_cast<float*>(row_data(t, at));
}

inline bool has_f32_rows(const ggml_tensor& t) {
  return t.type == GGML_TYPE_F32 && t.nb[0] == sizeof(float);
}

// A node that gives another view of its operand.
inline bool is_view(const ggml_tensor& t) {
  return t.op == GGML_OP_NONE || t.op == GGML_OP_RESHAPE || t.op == GGML_OP_VIEW ||
         t.op == GGML_OP_PERMUTE || t.op == GGML_OP_TRANSPOSE;
}

inline const ggml_tensor* root_of(const ggml_tensor& t) {
  return t.view_src != nullptr ? t.view_src : &t;
}

inline float float_param(const ggml_tensor& node, size_t i) {
  float value = 0;
  std::memcpy(&value, &node.op_params[i], sizeof(value));
  return value;
}

}  // namespace executorch_ggml
