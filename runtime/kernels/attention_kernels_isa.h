// The kernels of attention_kernels.h for one instruction set (see vector_isa.h).
#pragma once

#include "runtime/kernels/attention_kernels.h"
#include "runtime/kernels/attention_kernels_few_isa.h"
#include "runtime/kernels/attention_kernels_many_isa.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

// Rows (queries times heads) from which widening a block for all of them pays.
constexpr int64_t kMany = 12;

bool takes(ggml_type type, int64_t dim) {
  switch (type) {
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
      return dim > 0;
    case GGML_TYPE_Q8_0:
      return dim > 0 && dim % RowQ8::kBlock == 0;
    default:
      return false;
  }
}

bool supports(ggml_type k_type, ggml_type v_type, int64_t k_dim, int64_t v_dim) {
  return takes(k_type, k_dim) && takes(v_type, v_dim);
}

void attend(const AttentionTask& task) {
  if (task.n_tokens * task.n_heads >= kMany) {
    for (int64_t kv_head = 0; kv_head < task.n_kv_heads; ++kv_head) {
      attend_many(of_kv_head(task, kv_head));
    }
    return;
  }
  with_rows_of(task.k_type, [&task](auto key) {
    with_rows_of(task.v_type,
                 [&task](auto value) { attend_few<decltype(key), decltype(value)>(task); });
  });
}

void merge(const AttentionParts& parts) {
  for (int64_t row = 0; row < parts.n_rows; ++row) {
    const auto scores_of = [&](int64_t part) { return parts.scores[part * parts.n_rows + row]; };
    float most = kHidden;
    for (int64_t part = 0; part < parts.n_parts; ++part) {
      most = scores_of(part).most > most ? scores_of(part).most : most;
    }
    const Vec relative_to = reference(splat(most));
    const auto weight_of = [&](int64_t part) {
      return scores_of(part).sum * exp_of(splat(scores_of(part).most) - relative_to)[0];
    };
    float sum = 0.0F;
    for (int64_t part = 0; part < parts.n_parts; ++part) {
      sum += weight_of(part);
    }
    float* const out = parts.out + row * parts.dim;
    for (int64_t part = 0; part < parts.n_parts; ++part) {
      const float* const result = parts.results + (part * parts.n_rows + row) * parts.dim;
      const float weight = sum == 0.0F ? 0.0F : weight_of(part) / sum;
      for (int64_t i = 0; i < parts.dim; ++i) {
        out[i] = result[i] * weight + (part == 0 ? 0.0F : out[i]);
      }
    }
  }
}

size_t scratch_size(int64_t k_dim, int64_t v_dim, int64_t n_heads) {
  Room few{0};
  FewScratch{few, k_dim, v_dim, n_heads};
  Room many{0};
  ManyScratch{many, k_dim, v_dim, kQueryBlock * n_heads};
  return few.next > many.next ? few.next : many.next;
}

}  // namespace

extern const AttentionKernels kAttentionKernels;
const AttentionKernels kAttentionKernels = {.isa = EG_TEXT(EG_ISA),
                                            .supports = supports,
                                            .attend = attend,
                                            .merge = merge,
                                            .scratch_size = scratch_size};

}  // namespace EG_ISA
}  // namespace executorch_ggml
