// Views and copies: reshape, permute, view, cont, cast, repeat, concat, pad.
#include <algorithm>

#include "runtime/op_builders.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

bool expect_plain(OpContext& op, size_t operand) {
  const ggml_tensor* x = op.in(operand);
  return op.expect(ggml_blck_size(x->type) == 1,
                   "%s is quantized; its elements cannot be addressed one by one",
                   describe(*x).c_str());
}

// The four extents at parameters 0..3; they are those of the result, which the
// graph builder has checked.
std::array<int64_t, 4> extents_param(const OpContext& op) {
  return {op.dim(0), op.dim(1), op.dim(2), op.dim(3)};
}

bool expect_declared(OpContext& op, const std::array<int64_t, 4>& ne) {
  return op.expect(ne == op.declared(), "parameters and declared result differ");
}

}  // namespace

ggml_tensor* build_reshape(OpContext& op) {
  ggml_tensor* x = op.in(0);
  const std::array<int64_t, 4> ne = extents_param(op);
  if (!op.expect_contiguous(0) || !expect_declared(op, ne)) {
    return nullptr;
  }
  int64_t count = 1;
  for (const int64_t extent : ne) {
    if (!op.expect(extent > 0, "extent %lld must be positive", static_cast<long long>(extent))) {
      return nullptr;
    }
    count = saturating_product(count, extent);
  }
  if (!op.expect(count == ggml_nelements(x), "%s has another number of elements than the result",
                 describe(*x).c_str()) ||
      !op.expect(ne[0] % ggml_blck_size(x->type) == 0,
                 "%s cannot be cut into rows of %lld elements", describe(*x).c_str(),
                 static_cast<long long>(ne[0]))) {
    return nullptr;
  }
  return ggml_reshape_4d(op.ggml(), x, ne[0], ne[1], ne[2], ne[3]);
}

ggml_tensor* build_permute(OpContext& op) {
  const std::array<int64_t, 4> axes = extents_param(op);
  std::array<int64_t, 4> sorted = axes;
  std::ranges::sort(sorted);
  if (!op.expect(sorted == std::array<int64_t, 4>{0, 1, 2, 3}, "axes are no permutation") ||
      !expect_plain(op, 0)) {
    return nullptr;
  }
  ggml_tensor* result =
      ggml_permute(op.ggml(), op.in(0), op.as_int(0), op.as_int(1), op.as_int(2), op.as_int(3));
  if (result->ne[0] == 1) {
    // No kernel steps along an extent of 1, but some look at its stride all the same.
    result->nb[0] = ggml_type_size(result->type);
  }
  return result;
}

ggml_tensor* build_view(OpContext& op) {
  ggml_tensor* x = op.in(0);
  const std::array<int64_t, 4> ne = extents_param(op);
  const std::array<int64_t, 4> strides = {1, op.dim(params::view::kStride1),
                                          op.dim(params::view::kStride2),
                                          op.dim(params::view::kStride3)};
  const int64_t offset = op.dim(params::view::kOffset);
  if (!expect_plain(op, 0) || !expect_declared(op, ne)) {
    return nullptr;
  }
  // Within the memory that x spans, and, as ggml asserts, with room for as many
  // bytes as a contiguous tensor of these extents would take.
  const int64_t type_size = static_cast<int64_t>(ggml_type_size(x->type));
  const int64_t span = static_cast<int64_t>(ggml_nbytes(x)) / type_size;
  int64_t count = 1;
  int64_t last = 0;
  bool valid = offset >= 0 && offset < span;
  for (size_t i = 0; i < 4; ++i) {
    valid = valid && ne[i] > 0 && strides[i] >= 0;
    if (valid) {
      count = saturating_product(count, ne[i]);
      const int64_t reach = saturating_product(ne[i] - 1, strides[i]);
      valid = reach < span;  // so that the sum cannot overflow
      last += valid ? reach : 0;
    }
  }
  valid = valid && last < span - offset;
  if (!op.expect(valid && count <= span - offset,
                 "a view of [%lld, %lld, %lld, %lld] with strides [%lld, %lld, %lld] at %lld "
                 "does not lie within %s (%lld elements)",
                 static_cast<long long>(ne[0]), static_cast<long long>(ne[1]),
                 static_cast<long long>(ne[2]), static_cast<long long>(ne[3]),
                 static_cast<long long>(strides[1]), static_cast<long long>(strides[2]),
                 static_cast<long long>(strides[3]), static_cast<long long>(offset),
                 describe(*x).c_str(), static_cast<long long>(span))) {
    return nullptr;
  }
  const auto bytes = [&](int64_t elements) {
    return static_cast<size_t>(elements) * static_cast<size_t>(type_size);
  };
  return ggml_view_4d(op.ggml(), x, ne[0], ne[1], ne[2], ne[3], bytes(strides[1]),
                      bytes(strides[2]), bytes(strides[3]), bytes(offset));
}

ggml_tensor* build_cont(OpContext& op) {
  return expect_plain(op, 0) ? ggml_cont(op.ggml(), op.in(0)) : nullptr;
}

ggml_tensor* build_cast(OpContext& op) {
  ggml_tensor* x = op.in(0);
  const int code = op.as_int(params::cast::kDtype);
  const auto is_float = [](int type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
  };
  const bool from_float = is_float(x->type);
  const bool from_quantized = ggml_is_quantized(x->type) && ggml_is_contiguous(x);
  const bool supported = (is_float(code) && (from_float || from_quantized)) ||
                         (code == GGML_TYPE_F32 && x->type == GGML_TYPE_I32) ||
                         (code == GGML_TYPE_I32 && x->type == GGML_TYPE_F32);
  if (!op.expect(supported, "%s cannot be cast to ggml type %d", describe(*x).c_str(), code)) {
    return nullptr;
  }
  const auto target = static_cast<ggml_type>(code);
  if (from_quantized && target != GGML_TYPE_F32) {
    x = ggml_cast(op.ggml(), x, GGML_TYPE_F32);  // ggml dequantizes to F32 only
  }
  return ggml_cast(op.ggml(), x, target);
}

ggml_tensor* build_repeat(OpContext& op) {
  const ggml_tensor* x = op.in(0);
  const std::array<int64_t, 4> ne = extents_param(op);
  if (!op.expect_type(
          0, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32, GGML_TYPE_I16}) ||
      !op.expect_rows(0) || !expect_declared(op, ne)) {
    return nullptr;
  }
  for (size_t i = 0; i < 4; ++i) {
    if (!op.expect(ne[i] % x->ne[i] == 0, "%s does not repeat to %lld in dimension %zu",
                   describe(*x).c_str(), static_cast<long long>(ne[i]), i)) {
      return nullptr;
    }
  }
  return ggml_repeat_4d(op.ggml(), op.in(0), ne[0], ne[1], ne[2], ne[3]);
}

ggml_tensor* build_concat(OpContext& op) {
  ggml_tensor* a = op.in(0);
  ggml_tensor* b = op.in(1);
  const int64_t axis = op.dim(params::concat::kAxis);
  if (!op.expect(0 <= axis && axis < 4, "axis %lld is outside 0..3",
                 static_cast<long long>(axis)) ||
      !expect_plain(op, 0) ||
      !op.expect(a->type == b->type, "%s and %s differ in type", describe(*a).c_str(),
                 describe(*b).c_str()) ||
      !op.expect_type(0, {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32,
                          GGML_TYPE_I16, GGML_TYPE_I8})) {
    return nullptr;
  }
  for (int64_t i = 0; i < 4; ++i) {
    if (!op.expect(i == axis || a->ne[i] == b->ne[i], "%s and %s do not fit along axis %lld",
                   describe(*a).c_str(), describe(*b).c_str(), static_cast<long long>(axis))) {
      return nullptr;
    }
  }
  return ggml_concat(op.ggml(), a, b, static_cast<int>(axis));
}

ggml_tensor* build_pad(OpContext& op) {
  const ggml_tensor* x = op.in(0);
  if (!op.expect_f32_rows(0)) {
    return nullptr;
  }
  std::array<int, 8> amounts{};
  const std::array<int64_t, 4> ne = op.declared();
  for (size_t i = 0; i < amounts.size(); ++i) {
    amounts[i] = op.as_int(i);
    if (!op.expect(amounts[i] >= 0, "padding %d is negative", amounts[i])) {
      return nullptr;
    }
  }
  for (size_t i = 0; i < 4; ++i) {
    if (!op.expect(ne[i] == x->ne[i] + amounts[2 * i] + amounts[2 * i + 1],
                   "%s does not pad to the declared result", describe(*x).c_str())) {
      return nullptr;
    }
  }
  return ggml_pad_ext(op.ggml(), op.in(0), amounts[0], amounts[1], amounts[2], amounts[3],
                      amounts[4], amounts[5], amounts[6], amounts[7]);
}

}  // namespace executorch_ggml
