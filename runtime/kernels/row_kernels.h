// The small operations around products and attention, one row of floats at a time.
#pragma once

#include <cstdint>

#include "ggml.h"

namespace executorch_ggml {

struct RowKernels {
  const char* isa;
  // out = x / sqrt(mean(x^2) + eps) * weight; weight may be null; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* out);
  // out = (x - mean) / sqrt(var + eps), no affine part; out may be x.
  void (*layer_norm)(const float* x, float eps, int64_t n, float* out);
  // out = a + b, a * b; out may be either.
  void (*add)(const float* a, const float* b, int64_t n, float* out);
  void (*mul)(const float* a, const float* b, int64_t n, float* out);
  void (*scale)(const float* x, float factor, float offset, int64_t n, float* out);
  // out = silu(gate) * up, gelu(gate) * up with the tanh form; out may be either.
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);
  void (*geglu)(const float* gate, const float* up, int64_t n, float* out);
  void (*silu)(const float* x, int64_t n, float* out);
  // erf form within 2 eps of the exact value over [-10, 10], and the tanh form.
  void (*gelu_erf)(const float* x, int64_t n, float* out);
  void (*gelu)(const float* x, int64_t n, float* out);
  // softmax(x * scale + mask); mask may be null; a row that is -inf alone gives NaN as torch does.
  void (*softmax)(const float* x, const float* mask, float scale, int64_t n, float* out);
  // Rotates pairs by angles whose cosines and sines are given, n_dims / 2 of each; elements from
  // n_dims to n are copied. neox: pairs (i, i + n_dims / 2), else (2 i, 2 i + 1). out may be x.
  void (*rope)(const float* x, const float* cosines, const float* sines, int64_t n_dims, int64_t n,
               bool neox, float* out);
  // F32 to F16, round to nearest even.
  void (*to_f16)(const float* x, int64_t n, ggml_fp16_t* out);
  // out[i * n_planes + p] = x[p * stride + i], for 2 to 4 planes of n elements; any bits.
  void (*interleave)(const float* x, int64_t stride, int64_t n_planes, int64_t n, float* out);
};

// The best set that this machine runs, see kernel_choice.h; "baseline" runs everywhere.
const RowKernels& row_kernels();
const RowKernels* row_kernels_named(const char* isa);

}  // namespace executorch_ggml
