// Rows by index, and writes into states.
#include "ggml-cpu.h"
#include "runtime/op_builders.h"

namespace executorch_ggml {
namespace {

// Whether ggml's CPU kernels read rows of this type as floats.
bool is_row_source(ggml_type type) {
  return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ||
         type == GGML_TYPE_I32 ||
         (ggml_is_quantized(type) && ggml_get_type_traits(type)->to_float != nullptr);
}

// Whether they write floats as rows of this type.
bool is_row_target(ggml_type type) {
  return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ||
         (ggml_is_quantized(type) && ggml_get_type_traits_cpu(type)->from_float != nullptr);
}

}  // namespace

ggml_tensor* build_get_rows(OpContext& op) {
  ggml_tensor* table = op.in(0);
  const ggml_tensor* ids = op.in(1);
  if (!op.expect(is_row_source(table->type), "rows of %s cannot be read",
                 describe(*table).c_str()) ||
      !op.expect_rows(0) || !op.expect_type(1, {GGML_TYPE_I32}) ||
      !op.expect(table->ne[2] == ids->ne[1] && table->ne[3] == ids->ne[2] && ids->ne[3] == 1,
                 "ids %s do not fit table %s", describe(*ids).c_str(), describe(*table).c_str())) {
    return nullptr;
  }
  return ggml_get_rows(op.ggml(), table, op.checked_ids(1, table->ne[1]));
}

ggml_tensor* build_set_rows(OpContext& op) {
  ggml_tensor* state = op.in(0);
  ggml_tensor* x = op.in(1);
  const ggml_tensor* ids = op.in(2);
  if (!op.expect(is_row_target(state->type) && ggml_is_contiguous_rows(state),
                 "rows of %s cannot be written", describe(*state).c_str()) ||
      !op.expect_type(1, {GGML_TYPE_F32}) ||
      !op.expect(ggml_is_contiguous_rows(x), "x must have contiguous rows") ||
      !op.expect_type(2, {GGML_TYPE_I32}) ||
      !op.expect(state->ne[0] == x->ne[0] && state->ne[2] == x->ne[2] && state->ne[3] == x->ne[3] &&
                     x->ne[1] == ids->ne[0] && x->ne[2] % ids->ne[1] == 0 &&
                     x->ne[3] % ids->ne[2] == 0 && ids->ne[3] == 1,
                 "rows %s at %s do not fit %s", describe(*x).c_str(), describe(*ids).c_str(),
                 describe(*state).c_str())) {
    return nullptr;
  }
  return ggml_set_rows(op.ggml(), state, x, op.checked_ids(2, state->ne[1]));
}

ggml_tensor* build_assign(OpContext& op) {
  ggml_tensor* state = op.in(0);
  ggml_tensor* x = op.in(1);
  const auto is_float = [](ggml_type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
  };
  if (!op.expect(state->type == x->type || (is_float(state->type) && is_float(x->type)),
                 "%s cannot be written to %s", describe(*x).c_str(), describe(*state).c_str()) ||
      !op.expect(ggml_are_same_shape(state, x), "%s does not fit state %s", describe(*x).c_str(),
                 describe(*state).c_str())) {
    return nullptr;
  }
  return ggml_cpy(op.ggml(), x, state);
}

}  // namespace executorch_ggml
