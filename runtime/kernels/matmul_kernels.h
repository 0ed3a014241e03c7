// Products of weights with activations. Weights are read as ggml stores them, row by row, so a
// mapped file is used where it lies.
//
// Activations are prepared once and serve every matrix that reads them. The kernels are compiled
// once for each instruction set and chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"

namespace executorch_ggml {

// The form in which a weight type's product reads activations.
enum class ActivationForm : uint8_t {
  F32,   // as they are
  Q8,    // int8 with a scale for every 32 (scale = largest magnitude / 127)
  BF16,  // rounded to BF16, as the weights then are
};

// y[token * y_stride + row] = dot(weight row, token's activations) + bias[row]
//                             + residual[token * y_stride + row]
struct MatmulTask {
  const void* w;      // the first row
  size_t row_stride;  // bytes
  int64_t n_rows;
  int64_t k;      // elements of a row, whole blocks of the weight type
  const void* x;  // n_tokens prepared rows, prepared_size(form, k) bytes each, aligned to 64
  int64_t n_tokens;
  float* y;
  int64_t y_stride;       // floats
  const float* bias;      // of the first row, or null
  const float* residual;  // beside y (may be y itself), or null
  void* scratch;          // scratch_size(type, k) bytes of this thread alone, aligned to 64
};

// Rows of a weight are shared out in multiples of this, the last share excepted.
inline constexpr int64_t kRowGroup = 16;

// The tokens of a product may be multiplied in parts, of at least so many.
inline constexpr int64_t kLeastTokens = 32;

struct MatmulKernel {
  void (*multiply)(const MatmulTask& task) = nullptr;  // null: not supported
  ActivationForm form = ActivationForm::F32;
};

struct MatmulKernels {
  const char* isa;
  // Of a product of so many tokens.
  MatmulKernel (*kernel)(ggml_type type, int64_t n_tokens);
  // Bytes of a prepared row of k activations, a multiple of 64. But for F32, k is a multiple of 32.
  size_t (*prepared_size)(ActivationForm form, int64_t k);
  void (*prepare)(ActivationForm form, const float* x, int64_t k, void* prepared);
  size_t (*scratch_size)(ggml_type type, int64_t k);
};

// The best set that this machine runs, see kernel_choice.h; null if there is none for it.
const MatmulKernels* matmul_kernels();

// The set of this name ("amx", "avx512", "avx2", "neon"); null if this machine does not run it.
const MatmulKernels* matmul_kernels_named(const char* isa);

}  // namespace executorch_ggml
