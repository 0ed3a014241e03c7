// Attention of few queries, above all of one: every key and value is read once from memory for
// all heads, a block of positions at a time, and widened in registers.
#pragma once

#include "runtime/kernels/attention_kernels_rows_isa.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

constexpr int64_t kPositions = 64;  // of a block
constexpr int64_t kMostHeads = 4;   // whose sums fit the registers together

// Positions of a block that a query sees, filled up to whole vectors with the last one.
struct Seen {
  int64_t n = 0;
  size_t positions[kPositions];
  float bias[kPositions];  // of the mask, -inf in what fills up
};

struct FewScratch {
  int64_t k_size;  // of a query, whole vectors
  int64_t v_size;
  float* q;        // [head][k_size], scaled, zeros at the end
  float* out;      // [head][v_size]
  float* scores;   // [head][kPositions]
  float* most;     // [head]
  float* sum;      // [head]
  float* partial;  // [kMostHeads][kWidth][kWidth]
  float* scales;   // [block of a row][kPositions], of RowQ8
  float* weights;  // [head][block of a row][kPositions]: scores times scales

  EG_INLINE FewScratch(Room& room, int64_t k_dim, int64_t v_dim, int64_t n_heads)
      : k_size(whole_vectors(k_dim)),
        v_size(whole_vectors(v_dim)),
        q(room.take(n_heads * k_size)),
        out(room.take(n_heads * v_size)),
        scores(room.take(n_heads * kPositions)),
        most(room.take(n_heads)),
        sum(room.take(n_heads)),
        partial(room.take(kMostHeads * kWidth * kWidth)),
        scales(room.take(n_blocks(k_dim, v_dim) * kPositions)),
        weights(room.take(kMostHeads * n_blocks(k_dim, v_dim) * kPositions)) {}

  static EG_INLINE int64_t n_blocks(int64_t k_dim, int64_t v_dim) {
    return ((k_dim > v_dim ? k_dim : v_dim) + RowQ8::kBlock - 1) / RowQ8::kBlock;
  }
};

EG_INLINE void find_seen(const AttentionTask& task, int64_t token, int64_t first, int64_t n,
                         Seen& seen) {
  float mask[kPositions];
  MaskLanes found;
  if (has_mask(task)) {
    read_mask(task, token, first, n, found, mask);
  }
  if (!any_of(found.changes)) {
    for (int64_t i = 0; i < n; ++i) {
      seen.positions[i] = static_cast<size_t>(first + i);
      seen.bias[i] = 0.0F;
    }
    seen.n = n;
  } else {
    seen.n = 0;
    for (int64_t i = 0; i < n; ++i) {
      seen.positions[seen.n] = static_cast<size_t>(first + i);
      seen.bias[seen.n] = mask[i];
      seen.n += mask[i] == kHidden ? 0 : 1;
    }
  }
  for (int64_t i = seen.n; seen.n > 0 && i < whole_vectors(seen.n); ++i) {
    seen.positions[i] = seen.positions[seen.n - 1];
    seen.bias[i] = kHidden;
  }
}

// The scales of the rows of all seen positions, and of what fills up.
template <typename Row>
EG_INLINE void read_scales(const void* rows, size_t stride, int64_t dim, const Seen& seen,
                           float* out) {
  if constexpr (Row::kScaled) {
    const int64_t n = whole_vectors(seen.n);
    ggml_fp16_t halves[kPositions];
    for (int64_t at = 0; at < dim; at += Row::kBlock, out += kPositions) {
      const void* const first = Row::from(rows, at);
      for (int64_t i = 0; i < n; ++i) {
        halves[i] = Row::scale(moved(first, seen.positions[i] * stride));
      }
      for (int64_t i = 0; i < n; i += kWidth) {
        store(out + i, load_f16(halves + i));
      }
    }
  }
}

// scores[head][i] = q[head] k[seen position i]
template <typename Row, int64_t Heads>
void multiply_keys(const AttentionTask& task, const Seen& seen, const FewScratch& s, int64_t head) {
  constexpr int64_t kRows = EG_WIDTH == 16 ? 4 : 2;  // at a time
  const float* const q = s.q + head * s.k_size;
  const size_t v_bytes = row_bytes(task.v_type, task.v_dim);
  read_scales<Row>(task.k, task.k_stride, task.k_dim, seen, s.scales);
  for (int64_t first = 0; first < seen.n; first += kWidth) {
    for (int64_t i = 0; i < kWidth; i += kRows) {
      const void* rows[kRows];
      for (int64_t r = 0; r < kRows; ++r) {
        const size_t position = seen.positions[first + i + r];
        rows[r] = moved(task.k, position * task.k_stride);
        prefetch_row(moved(task.v, position * task.v_stride), v_bytes);
      }
      Vec sums[size_t{kRows}][size_t{Heads}] = {};
      const auto step = [&](int64_t at, auto key_at) {
        Vec keys[kRows];
#pragma GCC unroll 4
        for (int64_t r = 0; r < kRows; ++r) {
          keys[r] = key_at(rows[r]);
          if constexpr (Row::kScaled) {
            keys[r] *= s.scales[at / Row::kBlock * kPositions + first + i + r];
          }
        }
#pragma GCC unroll 4
        for (int64_t h = 0; h < Heads; ++h) {
          const Vec query = load(q + h * s.k_size + at);
#pragma GCC unroll 4
          for (int64_t r = 0; r < kRows; ++r) {
            sums[r][h] += query * keys[r];
          }
        }
      };
      int64_t at = 0;
      for (; at + Row::kUnit * kWidth <= task.k_dim; at += Row::kUnit * kWidth) {
#pragma GCC unroll 8
        for (int64_t v = 0; v < Row::kUnit; ++v) {
          step(at + v * kWidth,
               [at, v](const void* row) { return Row::unscaled(Row::from(row, at), v); });
        }
      }
      if (at < task.k_dim) {
        const int64_t left = task.k_dim - at;
        step(at, [at, left](const void* row) { return Row::part(Row::from(row, at), left); });
      }
#pragma GCC unroll 4
      for (int64_t h = 0; h < Heads; ++h) {
#pragma GCC unroll 4
        for (int64_t r = 0; r < kRows; ++r) {
          store(s.partial + (h * kWidth + i + r) * kWidth, sums[r][h]);
        }
      }
    }
    for (int64_t h = 0; h < Heads; ++h) {
      store(s.scores + (head + h) * kPositions + first,
            sums_of<kWidth>(s.partial + h * kWidth * kWidth));
    }
  }
}

// Scores become weights; the factor that what was summed before is to be multiplied with.
EG_INLINE float weigh(const AttentionTask& task, const Seen& seen, const FewScratch& s,
                      int64_t head) {
  float* const scores = s.scores + head * kPositions;
  Vec most = splat(s.most[head]);
  for (int64_t i = 0; i < seen.n; i += kWidth) {
    Vec v = load(scores + i);
    if (task.softcap != 0.0F) {
      v = capped(v, task.softcap);
    }
    const Vec bias = load(seen.bias + i);
    v = bias == kHidden ? bias : v + bias;  // what fills up is no key, whatever its score
    store(scores + i, v);
    most = max_of(most, v);
  }
  most = splat(largest_of(most));
  const Vec relative_to = reference(most);
  Vec sum{};
  for (int64_t i = 0; i < seen.n; i += kWidth) {
    const Vec weight = exp_of(load(scores + i) - relative_to);
    store(scores + i, weight);
    sum += weight;
  }
  const float factor = exp_of(splat(s.most[head]) - relative_to)[0];
  s.sum[head] = s.sum[head] * factor + sum_of(sum);
  s.most[head] = most[0];
  return factor;
}

// What add_values() adds: weights[h * stride + i] times the value of seen position i. The weights
// of scaled rows are [block of the value][kPositions] for each head.
struct Addends {
  const float* weights;
  int64_t stride;
  float* out;         // of the first head and element
  size_t prefetched;  // bytes of the key kPositions further on
  int64_t at;         // the first element
};

// out[h] = factors[h] out[h] + addends, `Vectors` of each value, which `value_at` takes.
template <typename Row, int64_t Heads, int64_t Vectors, typename ValueAt>
EG_INLINE void add_values(const AttentionTask& task, const Seen& seen, const FewScratch& s,
                          const float* factors, const Addends& a, ValueAt value_at) {
  Vec sums[size_t{Heads}][size_t{Vectors}];
#pragma GCC unroll 4
  for (int64_t h = 0; h < Heads; ++h) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < Vectors; ++v) {
      sums[h][v] = load(a.out + h * s.v_size + v * kWidth) * factors[h];
    }
  }
  for (int64_t i = 0; i < seen.n; ++i) {
    const void* const place = Row::from(moved(task.v, seen.positions[i] * task.v_stride), a.at);
    prefetch_row(moved(task.k, (seen.positions[i] + kPositions) * task.k_stride), a.prefetched);
#pragma GCC unroll 8
    for (int64_t v = 0; v < Vectors; ++v) {
      const Vec values = value_at(place, v);
      const float* const weights =
          a.weights + (Row::kScaled ? v * kWidth / RowQ8::kBlock * kPositions : 0);
#pragma GCC unroll 4
      for (int64_t h = 0; h < Heads; ++h) {
        sums[h][v] += values * weights[h * a.stride + i];
      }
    }
  }
#pragma GCC unroll 4
  for (int64_t h = 0; h < Heads; ++h) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < Vectors; ++v) {
      store(a.out + h * s.v_size + v * kWidth, sums[h][v]);
    }
  }
}

// weights[head][block][i] = scores[head][i] scales[block][i]
template <typename Row, int64_t Heads>
EG_INLINE void scale_weights(const AttentionTask& task, const Seen& seen, const FewScratch& s,
                             int64_t head) {
  read_scales<Row>(task.v, task.v_stride, task.v_dim, seen, s.scales);
  float* out = s.weights;
  for (int64_t h = 0; h < Heads; ++h) {
    const float* const scores = s.scores + (head + h) * kPositions;
    const float* scales = s.scales;
    for (int64_t at = 0; at < task.v_dim; at += RowQ8::kBlock) {
      for (int64_t i = 0; i < seen.n; i += kWidth) {
        store(out + i, load(scores + i) * load(scales + i));
      }
      out += kPositions;
      scales += kPositions;
    }
  }
}

template <typename Row, int64_t Heads>
void multiply_values(const AttentionTask& task, const Seen& seen, const FewScratch& s, int64_t head,
                     const float* factors) {
  constexpr int64_t kSums = EG_WIDTH == 16 ? 24 : 8;
  constexpr int64_t kFitting = kSums / Heads >= 8 ? 8 : (kSums / Heads >= 4 ? 4 : 2);
  constexpr int64_t kVectors = kFitting > Row::kUnit ? kFitting : Row::kUnit;
  if constexpr (Row::kScaled) {
    scale_weights<Row, Heads>(task, seen, s, head);
  }
  const auto addends = [&](int64_t at) {
    Addends a{.weights = s.scores + head * kPositions,
              .stride = kPositions,
              .out = s.out + head * s.v_size + at,
              .prefetched = at == 0 ? row_bytes(task.k_type, task.k_dim) : 0,
              .at = at};
    if constexpr (Row::kScaled) {
      a.weights = s.weights + at / RowQ8::kBlock * kPositions;
      a.stride = task.v_dim / RowQ8::kBlock * kPositions;
    }
    return a;
  };
  constexpr auto kWhole = [](const void* place, int64_t v) { return Row::unscaled(place, v); };
  int64_t at = 0;
  for (; at + kVectors * kWidth <= task.v_dim; at += kVectors * kWidth) {
    add_values<Row, Heads, kVectors>(task, seen, s, factors, addends(at), kWhole);
  }
  for (; at + Row::kUnit * kWidth <= task.v_dim; at += Row::kUnit * kWidth) {
    add_values<Row, Heads, Row::kUnit>(task, seen, s, factors, addends(at), kWhole);
  }
  if (at < task.v_dim) {
    const int64_t left = task.v_dim - at;
    add_values<Row, Heads, 1>(
        task, seen, s, factors, addends(at),
        [left](const void* place, int64_t) { return Row::part(place, left); });
  }
}

template <typename KeyRow, typename ValueRow, int64_t Heads>
void attend_block(const AttentionTask& task, const Seen& seen, const FewScratch& s, int64_t head) {
  multiply_keys<KeyRow, Heads>(task, seen, s, head);
  float factors[size_t{Heads}];
  for (int64_t h = 0; h < Heads; ++h) {
    factors[h] = weigh(task, seen, s, head + h);
  }
  multiply_values<ValueRow, Heads>(task, seen, s, head, factors);
}

EG_INLINE void read_query(const AttentionTask& task, int64_t token, const FewScratch& s) {
  const float scale = query_scale(task);
  for (int64_t h = 0; h < task.n_heads * task.n_kv_heads; ++h) {
    const float* const from = moved(task.q, static_cast<size_t>(token) * task.q_token_stride +
                                                static_cast<size_t>(h) * task.q_head_stride);
    for (int64_t i = 0; i < s.k_size; ++i) {
      s.q[h * s.k_size + i] = i < task.k_dim ? from[i] * scale : 0.0F;
    }
    for (int64_t i = 0; i < s.v_size; ++i) {
      s.out[h * s.v_size + i] = 0.0F;
    }
    s.most[h] = kHidden;
    s.sum[h] = 0.0F;
  }
}

EG_INLINE void write_result(const AttentionTask& task, int64_t token, const FewScratch& s) {
  for (int64_t h = 0; h < task.n_heads * task.n_kv_heads; ++h) {
    float* const to = moved(task.out, static_cast<size_t>(token) * task.out_token_stride +
                                          static_cast<size_t>(h) * task.out_head_stride);
    note_scores(task, token, h, s.most[h], s.sum[h]);
    const float factor = s.sum[h] == 0.0F ? 0.0F : 1.0F / s.sum[h];
    for (int64_t i = 0; i < task.v_dim; ++i) {
      to[i] = s.out[h * s.v_size + i] * factor;
    }
  }
}

// The query heads from `first` that share the keys and values of `task`.
template <typename KeyRow, typename ValueRow>
EG_INLINE void attend_group(const AttentionTask& task, const Seen& seen, const FewScratch& s,
                            int64_t first) {
  int64_t head = first;
  const int64_t end = first + task.n_heads;
  for (; head + kMostHeads <= end; head += kMostHeads) {
    attend_block<KeyRow, ValueRow, kMostHeads>(task, seen, s, head);
  }
  switch (end - head) {
    case 3:
      return attend_block<KeyRow, ValueRow, 3>(task, seen, s, head);
    case 2:
      return attend_block<KeyRow, ValueRow, 2>(task, seen, s, head);
    case 1:
      return attend_block<KeyRow, ValueRow, 1>(task, seen, s, head);
    default:
      return;
  }
}

template <typename KeyRow, typename ValueRow>
void attend_few(const AttentionTask& task) {
  Room room{reinterpret_cast<uintptr_t>(task.scratch)};
  const FewScratch s(room, task.k_dim, task.v_dim, task.n_heads * task.n_kv_heads);
  for (int64_t token = 0; token < task.n_tokens; ++token) {
    read_query(task, token, s);
    for (int64_t first = 0; first < task.n_kv; first += kPositions) {
      Seen seen;
      find_seen(task, token, first, smaller(kPositions, task.n_kv - first), seen);
      for (int64_t group = 0; seen.n > 0 && group < task.n_kv_heads; ++group) {
        attend_group<KeyRow, ValueRow>(of_kv_head(task, group), seen, s, group * task.n_heads);
      }
    }
    write_result(task, token, s);
  }
}

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
