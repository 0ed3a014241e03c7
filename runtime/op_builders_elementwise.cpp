// Element-wise ops.
#include "runtime/op_builders.h"

namespace executorch_ggml {
namespace {

ggml_unary_op to_ggml(Unary kind) {
  switch (kind) {
    case Unary::Abs:
      return GGML_UNARY_OP_ABS;
    case Unary::Sgn:
      return GGML_UNARY_OP_SGN;
    case Unary::Neg:
      return GGML_UNARY_OP_NEG;
    case Unary::Step:
      return GGML_UNARY_OP_STEP;
    case Unary::Tanh:
      return GGML_UNARY_OP_TANH;
    case Unary::Elu:
      return GGML_UNARY_OP_ELU;
    case Unary::Relu:
      return GGML_UNARY_OP_RELU;
    case Unary::Sigmoid:
      return GGML_UNARY_OP_SIGMOID;
    case Unary::Gelu:
      return GGML_UNARY_OP_GELU;
    case Unary::GeluQuick:
      return GGML_UNARY_OP_GELU_QUICK;
    case Unary::Silu:
      return GGML_UNARY_OP_SILU;
    case Unary::Hardswish:
      return GGML_UNARY_OP_HARDSWISH;
    case Unary::Hardsigmoid:
      return GGML_UNARY_OP_HARDSIGMOID;
    case Unary::Exp:
      return GGML_UNARY_OP_EXP;
    case Unary::Expm1:
      return GGML_UNARY_OP_EXPM1;
    case Unary::Softplus:
      return GGML_UNARY_OP_SOFTPLUS;
    case Unary::GeluErf:
      return GGML_UNARY_OP_GELU_ERF;
    case Unary::Floor:
      return GGML_UNARY_OP_FLOOR;
    case Unary::Ceil:
      return GGML_UNARY_OP_CEIL;
    case Unary::Round:
      return GGML_UNARY_OP_ROUND;
    case Unary::Trunc:
      return GGML_UNARY_OP_TRUNC;
  }
  return GGML_UNARY_OP_COUNT;
}

ggml_glu_op to_ggml(Glu kind) {
  switch (kind) {
    case Glu::Reglu:
      return GGML_GLU_OP_REGLU;
    case Glu::Geglu:
      return GGML_GLU_OP_GEGLU;
    case Glu::Swiglu:
      return GGML_GLU_OP_SWIGLU;
    case Glu::GegluErf:
      return GGML_GLU_OP_GEGLU_ERF;
    case Glu::GegluQuick:
      return GGML_GLU_OP_GEGLU_QUICK;
  }
  return GGML_GLU_OP_COUNT;
}

// A function of our own in place of ggml's: those lose a NaN.
ggml_tensor* host_function(OpContext& op, HostUnary kind, float p = 0, float q = 0) {
  std::array<ggml_tensor*, 1> x = {op.in(0)};
  const std::array<int64_t, 4> ne = {x[0]->ne[0], x[0]->ne[1], x[0]->ne[2], x[0]->ne[3]};
  return op.host_op(host_unary, GGML_TYPE_F32, ne, x,
                    {.ints = {static_cast<int64_t>(kind), 0}, .floats = {p, q, 0}});
}

// The kernels index dims 2 and 3 through a row count, so only rows may be apart.
ggml_tensor* with_packed_rows(OpContext& op, ggml_tensor* x) {
  return ggml_is_contiguous_1(x) ? x : ggml_cont(op.ggml(), x);
}

}  // namespace

ggml_tensor* build_binary(OpContext& op) {
  ggml_tensor* a = op.in(0);
  ggml_tensor* b = op.in(1);
  if (!op.expect_f32_rows(0) || !op.expect_f32(1) ||
      !op.expect(ggml_can_repeat(b, a), "%s does not broadcast to %s", describe(*b).c_str(),
                 describe(*a).c_str())) {
    return nullptr;
  }
  if (op.call().op == Op::Add) {
    return ggml_add(op.ggml(), a, b);
  }
  if (op.call().op == Op::Sub) {
    return ggml_sub(op.ggml(), a, b);
  }
  return op.call().op == Op::Mul ? ggml_mul(op.ggml(), a, b) : ggml_div(op.ggml(), a, b);
}

ggml_tensor* build_scale(OpContext& op) {
  if (!op.expect_f32(0) || !op.expect_contiguous(0)) {
    return nullptr;
  }
  // ggml_scale asserts the strides of dims of extent 1 too, which a view may have
  // as it likes; a reshape sets them.
  ggml_tensor* x = ggml_reshape(op.ggml(), op.in(0), op.in(0));
  return ggml_scale_bias(op.ggml(), x, op.param(params::scale::kScale),
                         op.param(params::scale::kBias));
}

ggml_tensor* build_clamp(OpContext& op) {
  if (!op.expect_f32(0) || !op.expect_contiguous(0)) {
    return nullptr;
  }
  return host_function(op, HostUnary::Clamp, op.param(params::clamp::kMin),
                       op.param(params::clamp::kMax));
}

ggml_tensor* build_math(OpContext& op) {
  if (!op.expect_type(0, {GGML_TYPE_F32, GGML_TYPE_F16}) || !op.expect_rows(0)) {
    return nullptr;
  }
  ggml_tensor* x = op.in(0);
  if (op.call().op == Op::Sqr) {
    return ggml_sqr(op.ggml(), x);
  }
  if (op.call().op == Op::Sqrt) {
    return ggml_sqrt(op.ggml(), x);
  }
  if (op.call().op == Op::Log) {
    return ggml_log(op.ggml(), x);
  }
  return op.call().op == Op::Sin ? ggml_sin(op.ggml(), x) : ggml_cos(op.ggml(), x);
}

ggml_tensor* build_unary(OpContext& op) {
  const int64_t code = op.dim(params::unary::kKind);
  const ggml_unary_op kind =
      0 <= code && code <= UINT8_MAX ? to_ggml(static_cast<Unary>(code)) : GGML_UNARY_OP_COUNT;
  if (!op.expect_type(0, {GGML_TYPE_F32, GGML_TYPE_F16}) || !op.expect_rows(0) ||
      !op.expect(kind != GGML_UNARY_OP_COUNT, "unknown function %lld",
                 static_cast<long long>(code))) {
    return nullptr;
  }
  if (op.in(0)->type == GGML_TYPE_F32) {
    if (kind == GGML_UNARY_OP_RELU) {
      return host_function(op, HostUnary::Relu);
    }
    if (kind == GGML_UNARY_OP_HARDSIGMOID) {
      return host_function(op, HostUnary::Hardsigmoid);
    }
  }
  return ggml_unary(op.ggml(), op.in(0), kind);
}

ggml_tensor* build_leaky_relu(OpContext& op) {
  if (!op.expect_f32(0) || !op.expect_contiguous(0)) {
    return nullptr;
  }
  return host_function(op, HostUnary::LeakyRelu, op.param(params::leaky_relu::kNegativeSlope));
}

ggml_tensor* build_glu(OpContext& op) {
  const int64_t code = op.dim(params::glu::kKind);
  const ggml_glu_op kind =
      0 <= code && code <= UINT8_MAX ? to_ggml(static_cast<Glu>(code)) : GGML_GLU_OP_COUNT;
  if (!op.expect_f32_rows(0) || !op.expect_f32_rows(1) ||
      !op.expect(ggml_are_same_shape(op.in(0), op.in(1)), "%s and %s differ",
                 describe(*op.in(0)).c_str(), describe(*op.in(1)).c_str()) ||
      !op.expect(kind != GGML_GLU_OP_COUNT, "unknown gated unit %lld",
                 static_cast<long long>(code))) {
    return nullptr;
  }
  return ggml_glu_split(op.ggml(), with_packed_rows(op, op.in(0)), with_packed_rows(op, op.in(1)),
                        kind);
}

}  // namespace executorch_ggml
