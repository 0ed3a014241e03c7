// What is computed row by row: norms, softmax, activations, sums and products of elements.
#include <utility>

#include "runtime/cpu/row_works.h"

namespace executorch_ggml {
namespace {

bool is_row_vector(const ggml_tensor& t, int64_t n) {
  return has_f32_rows(t) && t.ne[0] == n && row_count(t) == 1;
}

// b broadcasts to a along rows, as ggml repeats it.
bool repeats_to(const ggml_tensor& b, const ggml_tensor& a) {
  return b.ne[0] == a.ne[0] && a.ne[1] % b.ne[1] == 0 && a.ne[2] % b.ne[2] == 0 &&
         a.ne[3] % b.ne[3] == 0;
}

// Whether a row of `result` may be written as soon as the same row of x was read.
bool keeps_rows_apart(const WorkList& list, const ggml_tensor& x, const ggml_tensor& result) {
  const MemoryRange read = list.range(x);
  const MemoryRange written = list.range(result);
  return !read.overlaps(written) ||
         (read.begin == written.begin && ggml_are_same_stride(&x, &result));
}

}  // namespace

int make_norm(WorkList& list, int i) {
  const GraphNodes& nodes = list.nodes();
  const ggml_tensor& norm = nodes.at(i);
  if ((norm.op != GGML_OP_RMS_NORM && norm.op != GGML_OP_NORM) || !has_f32_rows(*norm.src[0]) ||
      !has_f32_rows(norm)) {
    return -1;
  }
  const ggml_tensor& x = *norm.src[0];
  const RowKernels& kernels = *list.kernels().rows;
  const float eps = float_param(norm, 0);
  const int64_t n = norm.ne[0];
  if (norm.op == GGML_OP_NORM) {
    add_rows(list, i, norm, {&x},
             [&kernels, &x, &norm, eps, n](const RowAt& at, const WorkMemory&) {
               kernels.layer_norm(f32_row(x, at), eps, n, f32_row(norm, at));
             });
    return i;
  }
  const ggml_tensor* weight = nullptr;
  int last = i;
  if (const int reader = nodes.next(i); nodes.feeds_only_next(i)) {
    const ggml_tensor& product = nodes.at(reader);
    const bool scales = product.op == GGML_OP_MUL && has_f32_rows(product);
    const ggml_tensor* other = product.src[0] == &norm ? product.src[1] : product.src[0];
    if (scales && is_row_vector(*other, n) && ggml_are_same_shape(&product, &norm) &&
        !list.range(*other).overlaps(list.range(product)) && keeps_rows_apart(list, x, product)) {
      weight = other;
      last = reader;
    }
  }
  const ggml_tensor& result = nodes.at(last);
  add_rows(list, last, result, {&x, weight},
           [&kernels, &x, &result, weight, eps, n](const RowAt& at, const WorkMemory&) {
             const float* w = weight == nullptr ? nullptr : static_cast<const float*>(weight->data);
             kernels.rms_norm(f32_row(x, at), w, eps, n, f32_row(result, at));
           });
  return last;
}

int make_softmax(WorkList& list, int i) {
  const ggml_tensor& node = list.nodes().at(i);
  if (node.op != GGML_OP_SOFT_MAX) {
    return -1;
  }
  const ggml_tensor& x = *node.src[0];
  const ggml_tensor* const mask = node.src[1];
  const float max_bias = float_param(node, 1);
  if (max_bias != 0.0F || node.src[2] != nullptr || !has_f32_rows(x) || !has_f32_rows(node) ||
      (mask != nullptr && mask->type != GGML_TYPE_F16 && !has_f32_rows(*mask))) {
    return -1;
  }
  const RowKernels& kernels = *list.kernels().rows;
  const float scale = float_param(node, 0);
  const int64_t n = node.ne[0];
  const bool widens = mask != nullptr && mask->type == GGML_TYPE_F16;
  add_rows(
      list, i, node, {&x, mask},
      [&kernels, &x, &node, mask, scale, n, widens](const RowAt& at, const WorkMemory& memory) {
        const float* row = nullptr;
        if (widens) {
          auto* const wide = reinterpret_cast<float*>(memory.thread);
          ggml_fp16_to_fp32_row(reinterpret_cast<const ggml_fp16_t*>(row_data(*mask, at)), wide, n);
          row = wide;
        } else if (mask != nullptr) {
          row = f32_row(*mask, at);
        }
        kernels.softmax(f32_row(x, at), row, scale, n, f32_row(node, at));
      },
      widens ? static_cast<size_t>(n) * sizeof(float) : 0);
  return i;
}

int make_activation(WorkList& list, int i) {
  const ggml_tensor& node = list.nodes().at(i);
  const RowKernels& kernels = *list.kernels().rows;
  if ((node.op != GGML_OP_UNARY && node.op != GGML_OP_GLU) || !has_f32_rows(*node.src[0]) ||
      !has_f32_rows(node)) {
    return -1;
  }
  const ggml_tensor& x = *node.src[0];
  const int64_t n = node.ne[0];
  if (node.op == GGML_OP_UNARY) {
    void (*run)(const float*, int64_t, float*) = nullptr;
    switch (ggml_get_unary_op(&node)) {
      case GGML_UNARY_OP_SILU:
        run = kernels.silu;
        break;
      case GGML_UNARY_OP_GELU:
        run = kernels.gelu;
        break;
      case GGML_UNARY_OP_GELU_ERF:
        run = kernels.gelu_erf;
        break;
      default:
        return -1;
    }
    add_rows(list, i, node, {&x}, [&x, &node, run, n](const RowAt& at, const WorkMemory&) {
      run(f32_row(x, at), n, f32_row(node, at));
    });
    return i;
  }
  void (*run)(const float*, const float*, int64_t, float*) = nullptr;
  switch (ggml_get_glu_op(&node)) {
    case GGML_GLU_OP_SWIGLU:
      run = kernels.swiglu;
      break;
    case GGML_GLU_OP_GEGLU:
      run = kernels.geglu;
      break;
    default:
      return -1;
  }
  // Gate and value are two tensors, or the halves of one, in either order.
  const ggml_tensor* const up = node.src[1];
  if (up != nullptr && !has_f32_rows(*up)) {
    return -1;
  }
  const bool swapped = node.op_params[1] != 0;
  add_rows(list, i, node, {&x, up},
           [&x, &node, up, swapped, run, n](const RowAt& at, const WorkMemory&) {
             const float* gate = f32_row(x, at);
             const float* value = up == nullptr ? gate + n : f32_row(*up, at);
             if (up == nullptr && swapped) {
               std::swap(gate, value);
             }
             run(gate, value, n, f32_row(node, at));
           });
  return i;
}

int make_arithmetic(WorkList& list, int i) {
  const ggml_tensor& node = list.nodes().at(i);
  const RowKernels& kernels = *list.kernels().rows;
  const int64_t n = node.ne[0];
  if (node.op == GGML_OP_SCALE && has_f32_rows(*node.src[0]) && has_f32_rows(node)) {
    const ggml_tensor& x = *node.src[0];
    const float factor = float_param(node, 0);
    const float offset = float_param(node, 1);
    add_rows(list, i, node, {&x},
             [&kernels, &x, &node, factor, offset, n](const RowAt& at, const WorkMemory&) {
               kernels.scale(f32_row(x, at), factor, offset, n, f32_row(node, at));
             });
    return i;
  }
  if ((node.op != GGML_OP_ADD && node.op != GGML_OP_MUL) || !has_f32_rows(node) ||
      !has_f32_rows(*node.src[0]) || !has_f32_rows(*node.src[1])) {
    return -1;
  }
  const ggml_tensor& a = *node.src[0];
  const ggml_tensor& b = *node.src[1];
  // A small b that the result replaces would be read again after it was.
  if (!repeats_to(b, a) ||
      (!ggml_are_same_shape(&a, &b) && list.range(b).overlaps(list.range(node)))) {
    return -1;
  }
  const auto run = node.op == GGML_OP_ADD ? kernels.add : kernels.mul;
  add_rows(list, i, node, {&a, &b}, [&a, &b, &node, run, n](const RowAt& at, const WorkMemory&) {
    run(f32_row(a, at), f32_row(b, at), n, f32_row(node, at));
  });
  return i;
}

}  // namespace executorch_ggml
