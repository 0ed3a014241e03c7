// Host-side ops: what each kernel may be given.
#include "runtime/op_builders.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

// The call's parameters, evaluated.
HostParams params_of(const OpContext& op) {
  HostParams params;
  for (size_t i = 0; i < op.call().ints.size(); ++i) {
    params.ints.push_back(op.dim(i));
  }
  for (size_t i = 0; i < op.call().floats.size(); ++i) {
    params.floats.push_back(op.param(i));
  }
  return params;
}

bool expect_value(OpContext& op, size_t operand) {
  return op.expect_type(operand, {GGML_TYPE_F32, GGML_TYPE_I32});
}

// Whether operand i broadcasts to `ne`, from dim `first` on.
bool expect_broadcast(OpContext& op, size_t operand, const std::array<int64_t, 4>& ne,
                      size_t first = 0) {
  const ggml_tensor& t = *op.in(operand);
  for (size_t i = first; i < 4; ++i) {
    if (!op.expect(t.ne[i] == ne[i] || t.ne[i] == 1, "%s does not broadcast to the result",
                   describe(t).c_str())) {
      return false;
    }
  }
  return true;
}

bool expect_enum(OpContext& op, size_t param) {
  const IntParam& info = find_op(static_cast<uint16_t>(op.call().op))->ints[param];
  const int64_t value = op.dim(param);
  bool known = false;
  for (const uint8_t allowed : info.values) {
    known = known || value == allowed;
  }
  return op.expect(known, "unknown %s %lld", info.name, static_cast<long long>(value));
}

bool is_integer_unary(HostUnary kind) {
  return kind == HostUnary::Sign || kind == HostUnary::Abs || kind == HostUnary::Neg ||
         kind == HostUnary::BitwiseNot || kind == HostUnary::LogicalNot;
}

// Whether a function of two values is defined for the element type.
bool is_defined(HostBinary kind, ggml_type type) {
  switch (kind) {
    case HostBinary::Add:
    case HostBinary::Sub:
    case HostBinary::Mul:
    case HostBinary::BitwiseAnd:
    case HostBinary::BitwiseOr:
    case HostBinary::BitwiseXor:
    case HostBinary::ShiftLeft:
    case HostBinary::ShiftRight:
      return type == GGML_TYPE_I32;
    case HostBinary::Fmax:
    case HostBinary::Fmin:
    case HostBinary::Atan2:
    case HostBinary::Hypot:
    case HostBinary::Copysign:
    case HostBinary::Xlogy:
      return type == GGML_TYPE_F32;
    default:
      return true;
  }
}

// A call with one operand of either type whose result has declared extents `ne`.
bool expect_same_extents(OpContext& op, size_t first = 0) {
  const std::array<int64_t, 4> ne = op.declared();
  for (size_t i = first; i < 4; ++i) {
    if (!op.expect(op.in(0)->ne[i] == ne[i], "%s does not give the declared result",
                   describe(*op.in(0)).c_str())) {
      return false;
    }
  }
  return true;
}

// Four operands at most.
ggml_tensor* make(OpContext& op, HostKernel kernel, ggml_type type, HostParams params) {
  std::array<ggml_tensor*, 4> operands{};
  const size_t n = op.call().inputs.size();
  for (size_t i = 0; i < n; ++i) {
    operands[i] = op.in(i);
  }
  return op.host_op(kernel, type, op.declared(), std::span(operands).first(n), std::move(params));
}

}  // namespace

ggml_tensor* build_host_unary(OpContext& op) {
  using namespace params::host_unary;
  if (!expect_enum(op, kKind) || !expect_enum(op, kType) || !expect_value(op, 0) ||
      !expect_same_extents(op)) {
    return nullptr;
  }
  const auto kind = static_cast<HostUnary>(op.dim(kKind));
  const ggml_type type = op.in(0)->type;
  if (!op.expect(type == GGML_TYPE_F32 ? kind != HostUnary::BitwiseNot : is_integer_unary(kind),
                 "function %lld of %s", static_cast<long long>(op.dim(kKind)),
                 describe(*op.in(0)).c_str())) {
    return nullptr;
  }
  const bool is_predicate = kind >= HostUnary::LogicalNot;
  return make(op, host_unary, is_predicate ? GGML_TYPE_I32 : type, params_of(op));
}

ggml_tensor* build_host_binary(OpContext& op) {
  using namespace params::host_binary;
  if (!expect_enum(op, kKind) || !expect_enum(op, kType) || !expect_value(op, 0) ||
      !op.expect_type(1, {op.in(0)->type}) || !expect_broadcast(op, 0, op.declared()) ||
      !expect_broadcast(op, 1, op.declared())) {
    return nullptr;
  }
  const auto kind = static_cast<HostBinary>(op.dim(kKind));
  const ggml_type type = op.in(0)->type;
  if (!op.expect(is_defined(kind, type), "function %lld of %s",
                 static_cast<long long>(op.dim(kKind)), describe(*op.in(0)).c_str())) {
    return nullptr;
  }
  return make(op, host_binary, kind >= HostBinary::Eq ? GGML_TYPE_I32 : type, params_of(op));
}

ggml_tensor* build_host_where(OpContext& op) {
  const std::array<int64_t, 4> ne = op.declared();
  if (!op.expect_type(0, {GGML_TYPE_I32}) || !expect_value(op, 1) ||
      !op.expect_type(2, {op.in(1)->type}) || !expect_broadcast(op, 0, ne) ||
      !expect_broadcast(op, 1, ne) || !expect_broadcast(op, 2, ne)) {
    return nullptr;
  }
  return make(op, host_where, op.in(1)->type, {});
}

ggml_tensor* build_host_convert(OpContext& op) {
  if (!expect_enum(op, params::host_convert::kTo) || !expect_value(op, 0) ||
      !expect_same_extents(op)) {
    return nullptr;
  }
  return make(op, host_convert, GGML_TYPE_I32, params_of(op));
}

ggml_tensor* build_host_round(OpContext& op) {
  const int64_t dtype = op.dim(params::host_round::kDtype);
  if (!op.expect_f32(0) || !expect_same_extents(op) ||
      !op.expect(dtype == GGML_TYPE_F16 || dtype == GGML_TYPE_BF16,
                 "values are rounded to F16 or BF16, not to type %lld",
                 static_cast<long long>(dtype))) {
    return nullptr;
  }
  return make(op, host_round, GGML_TYPE_F32, params_of(op));
}

ggml_tensor* build_host_reduce(OpContext& op) {
  using namespace params::host_reduce;
  if (!expect_enum(op, kKind) || !expect_enum(op, kType) || !expect_value(op, 0) ||
      !expect_same_extents(op, /*first=*/1) ||
      !op.expect(op.declared()[0] == 1, "the result has one element a row")) {
    return nullptr;
  }
  const auto kind = static_cast<HostReduce>(op.dim(kKind));
  const bool is_float_only =
      kind == HostReduce::Var || kind == HostReduce::Logsumexp || kind == HostReduce::Norm;
  if (is_float_only && !op.expect_f32(0)) {
    return nullptr;
  }
  const bool is_index = kind == HostReduce::Argmax || kind == HostReduce::Argmin ||
                        kind == HostReduce::Any || kind == HostReduce::All;
  return make(op, host_reduce, is_index ? GGML_TYPE_I32 : op.in(0)->type, params_of(op));
}

ggml_tensor* build_host_scan(OpContext& op) {
  using namespace params::host_scan;
  if (!expect_enum(op, kKind) || !expect_enum(op, kType) || !expect_value(op, 0) ||
      !expect_same_extents(op)) {
    return nullptr;
  }
  const auto kind = static_cast<HostScan>(op.dim(kKind));
  if (kind == HostScan::Logsumexp && !op.expect_f32(0)) {
    return nullptr;
  }
  const bool is_index = kind == HostScan::Argmax || kind == HostScan::Argmin;
  return make(op, host_scan, is_index ? GGML_TYPE_I32 : op.in(0)->type, params_of(op));
}

ggml_tensor* build_host_argsort(OpContext& op) {
  if (!expect_value(op, 0) || !expect_same_extents(op)) {
    return nullptr;
  }
  return make(op, host_argsort, GGML_TYPE_I32, params_of(op));
}

ggml_tensor* build_host_gather(OpContext& op) {
  const std::array<int64_t, 4> ne = op.declared();
  if (!expect_value(op, 0) || !op.expect_type(1, {GGML_TYPE_I32}) ||
      !expect_broadcast(op, 0, ne, /*first=*/1) || !expect_broadcast(op, 1, ne) ||
      !op.expect(op.in(1)->ne[0] == ne[0], "a row has one element for each index")) {
    return nullptr;
  }
  return make(op, host_gather, op.in(0)->type, {.limit = op.in(0)->ne[0]});
}

ggml_tensor* build_host_scatter(OpContext& op) {
  if (!expect_enum(op, params::host_scatter::kMode) || !expect_value(op, 0) ||
      !op.expect_type(1, {GGML_TYPE_I32}) || !op.expect_type(2, {op.in(0)->type}) ||
      !expect_same_extents(op)) {
    return nullptr;
  }
  const ggml_tensor& src = *op.in(2);
  const std::array<int64_t, 4> covered = {src.ne[0], src.ne[1], src.ne[2], src.ne[3]};
  const ggml_tensor& x = *op.in(0);
  if (!expect_broadcast(op, 1, covered) ||
      !op.expect(src.ne[1] <= x.ne[1] && src.ne[2] <= x.ne[2] && src.ne[3] <= x.ne[3],
                 "%s does not fit into %s", describe(src).c_str(), describe(x).c_str())) {
    return nullptr;
  }
  HostParams params = params_of(op);
  params.limit = x.ne[0];
  return make(op, host_scatter, x.type, std::move(params));
}

ggml_tensor* build_host_wrap_ids(OpContext& op) {
  const int64_t limit = op.dim(params::host_wrap_ids::kLimit);
  if (!op.expect_type(0, {GGML_TYPE_I32}) || !expect_same_extents(op) ||
      !op.expect(0 < limit && limit <= INT32_MAX, "limit %lld", static_cast<long long>(limit))) {
    return nullptr;
  }
  return make(op, host_wrap_ids, GGML_TYPE_I32, {.limit = limit});
}

ggml_tensor* build_host_iota(OpContext& op) {
  return make(op, host_iota, GGML_TYPE_I32, params_of(op));
}

ggml_tensor* build_host_pool(OpContext& op) {
  using namespace params::host_pool;
  if (!expect_enum(op, kKind) || !op.expect_f32(0)) {
    return nullptr;
  }
  const std::array<int64_t, 4> ne = op.declared();
  const ggml_tensor& x = *op.in(0);
  HostParams params = params_of(op);
  if (!op.expect(x.ne[3] == ne[3], "planes of %s", describe(x).c_str())) {
    return nullptr;
  }
  for (size_t i = 0; i < 3; ++i) {
    const int64_t kernel = params.ints[kKernel0 + i];
    const int64_t stride = params.ints[kStride0 + i];
    const int64_t padding = params.ints[kPadding0 + i];
    const int64_t dilation = params.ints[kDilation0 + i];
    const bool adaptive = params.ints[kAdaptive] != 0;
    const bool starts_inside =
        adaptive || saturating_product(ne[i] - 1, stride) - padding < x.ne[i];
    if (!op.expect(ne[i] == params.ints[kNe0 + i] && kernel > 0 && stride > 0 && padding >= 0 &&
                       dilation > 0,
                   "kernel, stride and dilation must be positive, padding not negative") ||
        !op.expect(starts_inside, "windows of %lld over %s do not give %lld results",
                   static_cast<long long>(kernel), describe(x).c_str(),
                   static_cast<long long>(ne[i]))) {
      return nullptr;
    }
  }
  const bool is_index = op.dim(kKind) == static_cast<int64_t>(HostPool::MaxIndex);
  return make(op, host_pool, is_index ? GGML_TYPE_I32 : GGML_TYPE_F32, std::move(params));
}

ggml_tensor* build_host_resize(OpContext& op) {
  using namespace params::host_resize;
  if (!expect_enum(op, kKind) || !op.expect_f32(0)) {
    return nullptr;
  }
  const std::array<int64_t, 4> ne = op.declared();
  const ggml_tensor& x = *op.in(0);
  const int64_t rank = op.dim(kRank);
  if (!op.expect(1 <= rank && rank <= 3 && x.ne[3] == ne[3], "rank %lld of %s",
                 static_cast<long long>(rank), describe(x).c_str())) {
    return nullptr;
  }
  for (size_t i = 0; i < 3; ++i) {
    const bool resized = static_cast<int64_t>(i) < rank;
    const float step = op.param(kStep0 + i);
    // Steps that stay on the input: windows that grow with them add up to its size.
    const bool on_input =
        step >= 0.0F && step * static_cast<float>(ne[i] - 1) <= static_cast<float>(x.ne[i]);
    if (!op.expect(ne[i] == op.dim(kNe0 + i) && (resized || ne[i] == x.ne[i]) && on_input,
                   "%s does not give the declared result", describe(x).c_str())) {
      return nullptr;
    }
  }
  return make(op, host_resize, GGML_TYPE_F32, params_of(op));
}

ggml_tensor* build_host_grid_sample(OpContext& op) {
  using namespace params::host_grid_sample;
  if (!expect_enum(op, kMode) || !expect_enum(op, kPadding) || !op.expect_f32(0) ||
      !op.expect_f32(1)) {
    return nullptr;
  }
  const std::array<int64_t, 4> ne = op.declared();
  const ggml_tensor& x = *op.in(0);
  const ggml_tensor& grid = *op.in(1);
  if (!op.expect(grid.ne[0] == 2 && grid.ne[1] == ne[0] && grid.ne[2] == ne[1] &&
                     grid.ne[3] == ne[3] && x.ne[2] == ne[2] && x.ne[3] == ne[3],
                 "grid %s does not fit %s", describe(grid).c_str(), describe(x).c_str())) {
    return nullptr;
  }
  return make(op, host_grid_sample, GGML_TYPE_F32, params_of(op));
}

ggml_tensor* build_host_recurrent(OpContext& op) {
  using namespace params::host_recurrent;
  if (!expect_enum(op, kKind) || !op.expect_f32(0) || !op.expect_f32(1) || !op.expect_f32(2) ||
      !op.expect_f32(3) || !op.expect_contiguous(1) || !op.expect_contiguous(2)) {
    return nullptr;
  }
  const auto kind = static_cast<Recurrence>(op.dim(kKind));
  const int64_t n_gates = kind == Recurrence::Lstm ? 4 : kind == Recurrence::Gru ? 3 : 1;
  const int64_t n_states = kind == Recurrence::Lstm ? 2 : 1;
  const std::array<int64_t, 4> ne = op.declared();
  const std::array<int64_t, 4> gates = {n_gates * ne[0], ne[1] - n_states + 1, ne[2], 1};
  const std::array<std::array<int64_t, 4>, 4> expected = {
      {gates, {ne[0], gates[0], 1, 1}, {gates[0], 1, 1, 1}, {ne[0], n_states, ne[2], 1}}};
  for (size_t i = 0; i < 4; ++i) {
    for (size_t axis = 0; axis < 4; ++axis) {
      if (!op.expect(op.in(i)->ne[axis] == expected[i][axis] && ne[3] == 1,
                     "%s does not fit a state of %lld", describe(*op.in(i)).c_str(),
                     static_cast<long long>(ne[0]))) {
        return nullptr;
      }
    }
  }
  return make(op, host_recurrent, GGML_TYPE_F32, params_of(op));
}

}  // namespace executorch_ggml
