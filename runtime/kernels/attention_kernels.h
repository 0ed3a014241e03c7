// Attention over cached keys and values, and over keys and values of any strides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"

namespace executorch_ggml {

// What the scores of a query and head that were seen came to: the largest one, -inf without any,
// and the sum of exp(score - largest).
struct AttentionScores {
  float most;
  float sum;
};

// Queries [first_token, first_token + n_tokens) of the `n_heads` query heads that share one head
// of keys and values (GQA: each key is read once for all of them), or of several such groups.
//
// out = softmax(softcap(scale * q k) + mask) v, computed in F32 with a running maximum.
// A query that sees no key (a mask of -inf alone) gives zeros. NaN stays NaN.
struct AttentionTask {
  const float* q;  // of the first query and head; elements adjacent
  size_t q_token_stride;
  size_t q_head_stride;  // bytes
  const void* k;         // key 0 of the head; elements adjacent
  const void* v;
  size_t k_stride;  // bytes from one position to the next
  size_t v_stride;
  ggml_type k_type;  // F32, F16 or Q8_0
  ggml_type v_type;
  int64_t k_dim;  // elements of a key
  int64_t v_dim;
  int64_t n_kv;
  const ggml_fp16_t* mask;  // of the first query: [n_tokens][mask_stride]; null: all are seen
  const float* mask_f32;    // the same in F32; at most one of the two is given
  int64_t mask_stride;      // elements
  float scale;
  float softcap;  // 0: none
  float* out;     // of the first query and head
  size_t out_token_stride;
  size_t out_head_stride;  // bytes
  int64_t n_tokens;
  int64_t n_heads;
  void* scratch;  // scratch_size() bytes of this thread alone, aligned to 64
  // More heads of keys and values, each with the next n_heads query heads. Few queries are
  // answered for all of them block by block, so that a cache [position][head] is read in longer
  // pieces. Zero strides and one head otherwise.
  int64_t n_kv_heads = 1;
  size_t k_head_stride = 0;  // bytes
  size_t v_head_stride = 0;
  // For merge(), of a task that sees a part of the keys: [n_tokens][heads of the task], tokens
  // scores_stride apart.
  AttentionScores* scores = nullptr;
  int64_t scores_stride = 0;
};

// The results of tasks that differ in their keys alone.
struct AttentionParts {
  const float* results;           // [n_parts][n_rows][dim]
  const AttentionScores* scores;  // [n_parts][n_rows]
  int64_t n_parts;
  int64_t n_rows;
  int64_t dim;
  float* out;  // [n_rows][dim]
};

// Queries are shared out in blocks of this many, the last one excepted.
inline constexpr int64_t kQueryBlock = 32;

struct AttentionKernels {
  const char* isa;
  bool (*supports)(ggml_type k_type, ggml_type v_type, int64_t k_dim, int64_t v_dim);
  void (*attend)(const AttentionTask& task);
  // The result of a task that sees the keys of all parts.
  void (*merge)(const AttentionParts& parts);
  // For tasks of at most kQueryBlock queries. n_heads: query heads of the task, of all groups.
  size_t (*scratch_size)(int64_t k_dim, int64_t v_dim, int64_t n_heads);
};

// The best set that this machine runs, see kernel_choice.h; "baseline" runs everywhere.
const AttentionKernels* attention_kernels();
const AttentionKernels* attention_kernels_named(const char* isa);

}  // namespace executorch_ggml
