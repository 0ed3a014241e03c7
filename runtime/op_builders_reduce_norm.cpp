// Reductions, norms and softmax.
#include "runtime/op_builders.h"

namespace executorch_ggml {

ggml_tensor* build_reduce_rows(OpContext& op) {
  if (!op.expect_f32_rows(0)) {
    return nullptr;
  }
  return op.call().op == Op::SumRows ? ggml_sum_rows(op.ggml(), op.in(0))
                                     : ggml_mean(op.ggml(), op.in(0));
}

ggml_tensor* build_sum(OpContext& op) {
  return op.expect_f32_rows(0) ? ggml_sum(op.ggml(), op.in(0)) : nullptr;
}

ggml_tensor* build_argmax(OpContext& op) {
  const ggml_tensor* x = op.in(0);
  if (!op.expect_f32(0) || !op.expect_contiguous(0) ||
      !op.expect(ggml_is_matrix(x) && x->ne[0] <= INT32_MAX, "%s is no matrix",
                 describe(*x).c_str())) {
    return nullptr;
  }
  // Our kernel in place of ggml's: that one gives the last of equal maxima, and no NaN.
  std::array<ggml_tensor*, 1> operands = {op.in(0)};
  ggml_tensor* found =
      op.host_op(host_reduce, GGML_TYPE_I32, {1, x->ne[1], 1, 1}, operands,
                 {.ints = {static_cast<int64_t>(HostReduce::Argmax), 0}, .floats = {0}});
  return ggml_reshape_1d(op.ggml(), found, x->ne[1]);
}

ggml_tensor* build_cumsum(OpContext& op) {
  return op.expect_f32_rows(0) ? ggml_cumsum(op.ggml(), op.in(0)) : nullptr;
}

ggml_tensor* build_norm(OpContext& op) {
  const float eps = op.param(0);
  if (!op.expect_f32_rows(0) ||
      !op.expect(eps >= 0.0F, "eps %g is negative", static_cast<double>(eps))) {
    return nullptr;
  }
  if (op.call().op == Op::Norm) {
    return ggml_norm(op.ggml(), op.in(0), eps);
  }
  return op.call().op == Op::RmsNorm ? ggml_rms_norm(op.ggml(), op.in(0), eps)
                                     : ggml_l2_norm(op.ggml(), op.in(0), eps);
}

ggml_tensor* build_group_norm(OpContext& op) {
  const ggml_tensor* x = op.in(0);
  const int n_groups = op.as_int(params::group_norm::kNGroups);
  const float eps = op.param(params::group_norm::kEps);
  if (!op.expect_f32(0) || !op.expect_contiguous(0) ||
      !op.expect(n_groups > 0 && x->ne[2] % n_groups == 0, "%lld channels are not in %d groups",
                 static_cast<long long>(x->ne[2]), n_groups) ||
      !op.expect(eps >= 0.0F, "eps %g is negative", static_cast<double>(eps))) {
    return nullptr;
  }
  return ggml_group_norm(op.ggml(), op.in(0), n_groups, eps);
}

ggml_tensor* build_soft_max(OpContext& op) {
  const ggml_tensor* x = op.in(0);
  const ggml_tensor* mask = op.in(1);
  if (!op.expect_f32(0) || !op.expect_contiguous(0)) {
    return nullptr;
  }
  if (mask != nullptr &&
      (!op.expect_type(1, {GGML_TYPE_F32, GGML_TYPE_F16}) || !op.expect_contiguous(1) ||
       !op.expect(mask->ne[0] == x->ne[0] && mask->ne[1] >= x->ne[1] &&
                      x->ne[2] % mask->ne[2] == 0 && x->ne[3] % mask->ne[3] == 0,
                  "mask %s does not fit %s", describe(*mask).c_str(), describe(*x).c_str()))) {
    return nullptr;
  }
  return ggml_soft_max_ext(op.ggml(), op.in(0), op.in(1), op.param(params::soft_max::kScale),
                           /*max_bias=*/0.0F);
}

}  // namespace executorch_ggml
