// Products and rotary embedding.
#include "ggml-cpu.h"
#include "runtime/op_builders.h"

namespace executorch_ggml {

ggml_tensor* build_mul_mat(OpContext& op) {
  const ggml_tensor* w = op.in(0);
  const ggml_tensor* x = op.in(1);
  if (!op.expect_rows(0) || !op.expect_f32_rows(1) ||
      !op.expect(ggml_get_type_traits_cpu(w->type)->vec_dot != nullptr,
                 "there is no product with %s", describe(*w).c_str()) ||
      !op.expect(w->ne[0] == x->ne[0] && x->ne[2] % w->ne[2] == 0 && x->ne[3] % w->ne[3] == 0,
                 "%s and %s do not fit", describe(*w).c_str(), describe(*x).c_str()) ||
      !op.expect(!ggml_is_transposed(w), "w must not be transposed")) {
    return nullptr;
  }
  // The kernels of packed weights want x as one contiguous matrix.
  ggml_tensor* packed = op.packed(0);
  const bool is_matrix = ggml_is_contiguous(x) && ggml_is_matrix(x);
  ggml_tensor* result =
      ggml_mul_mat(op.ggml(), packed != nullptr && is_matrix ? packed : op.in(0), op.in(1));
  // Sums in F32 on devices that would otherwise use F16; the CPU always does.
  ggml_prec_set_acc(result, GGML_PREC_F32);
  return result;
}

ggml_tensor* build_rope(OpContext& op) {
  const ggml_tensor* x = op.in(0);
  const ggml_tensor* positions = op.in(1);
  const ggml_tensor* factors = op.in(2);
  const int n_dims = op.as_int(params::rope::kNDims);
  const int mode = op.as_int(params::rope::kMode);
  const int original_context = op.as_int(params::rope::kOriginalContext);
  if (!op.expect_f32_rows(0) || !op.expect_type(1, {GGML_TYPE_I32}) || !op.expect_contiguous(1) ||
      !op.expect(ggml_is_vector(positions) && positions->ne[0] == x->ne[2],
                 "positions %s do not give one position for each of %s",
                 describe(*positions).c_str(), describe(*x).c_str()) ||
      !op.expect(n_dims > 0 && n_dims % 2 == 0 && n_dims <= x->ne[0],
                 "%d dimensions of %s cannot be rotated", n_dims, describe(*x).c_str()) ||
      !op.expect(
          mode == static_cast<int>(RopeMode::Normal) || mode == static_cast<int>(RopeMode::Neox),
          "unknown rope mode %d", mode)) {
    return nullptr;
  }
  if (factors != nullptr &&
      (!op.expect_f32(2) || !op.expect_contiguous(2) ||
       !op.expect(factors->ne[0] >= n_dims / 2, "freq_factors %s are fewer than %d",
                  describe(*factors).c_str(), n_dims / 2))) {
    return nullptr;
  }
  // ggml reads a factor for each pair of a row, also of those that it does not rotate.
  ggml_tensor* padded = op.in(2);
  if (factors != nullptr && factors->ne[0] < x->ne[0] / 2) {
    padded = ggml_pad(op.ggml(), padded, static_cast<int>(x->ne[0] / 2 - factors->ne[0]), 0, 0, 0);
  }
  return ggml_rope_ext(op.ggml(), op.in(0), op.in(1), padded, n_dims, mode, original_context,
                       op.param(params::rope::kFreqBase), op.param(params::rope::kFreqScale),
                       op.param(params::rope::kExtFactor), op.param(params::rope::kAttnFactor),
                       op.param(params::rope::kBetaFast), op.param(params::rope::kBetaSlow));
}

}  // namespace executorch_ggml
