// Attention of many queries: a block of keys and values at a time is widened once for all of
// them, and both products are register-tiled.
//
// A row is one query of one head, row = head * n_tokens + token. Scores lie [key][row], so that
// a vector holds as many rows: maxima, powers and sums need no work across lanes.
#pragma once

#include "runtime/kernels/attention_kernels_rows_isa.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

constexpr int64_t kKeys = 48;  // of a block; a multiple of every tile of keys
// Row vectors of a query panel, and vectors of a value times kTileRows rows, whose sums fit the
// registers.
constexpr int64_t kPanelVectors = EG_WIDTH == 16 ? 4 : 2;
constexpr int64_t kPanelRows = kPanelVectors * kWidth;
constexpr int64_t kTileRows = 4;  // divides every kWidth
constexpr int64_t kTileVectors = EG_WIDTH == 16 ? 4 : 2;

struct ManyScratch {
  int64_t n_rows;  // whole vectors
  int64_t v_size;  // of a value, whole vectors
  // Of a row of scores: further apart than a power of two, which would share few cache lines.
  int64_t stride;
  float* q;       // [panel][k_dim][rows of the panel], scaled
  float* k;       // [kKeys][k_dim], with room for a vector at the end
  float* v;       // [kKeys][v_size], zeros at the end of each
  float* s;       // [kKeys][stride]: scores, then weights
  float* mask;    // [kKeys][stride]
  float* out;     // [n_rows][v_size]
  float* most;    // [n_rows]
  float* sum;     // [n_rows]
  float* factor;  // [n_rows]: of what was summed before

  EG_INLINE ManyScratch(Room& room, int64_t k_dim, int64_t v_dim, int64_t rows)
      : n_rows(whole_vectors(rows)),
        v_size(whole_vectors(v_dim)),
        stride(n_rows + 16),
        q(room.take(k_dim * n_rows)),
        k(room.take(kKeys * k_dim + kWidth)),
        v(room.take(kKeys * v_size)),
        s(room.take(kKeys * stride)),
        mask(room.take(kKeys * stride)),
        out(room.take(n_rows * v_size)),
        most(room.take(n_rows)),
        sum(room.take(n_rows)),
        factor(room.take(n_rows)) {}
};

// The keys of a block: [first, first + n), and those whose value is not finite.
struct Block {
  int64_t first;
  int64_t n;
  bool masked = false;
  int64_t n_unsafe = 0;
  int64_t unsafe[kKeys] = {};
};

// --- queries ----------------------------------------------------------------------------------

void read_queries(const AttentionTask& task, const ManyScratch& s) {
  const float scale = query_scale(task);
  const int64_t rows = task.n_tokens * task.n_heads;
  for (int64_t row = 0; row < s.n_rows; ++row) {
    const int64_t panel = row / kPanelRows * kPanelRows;
    const int64_t panel_rows = smaller(kPanelRows, s.n_rows - panel);
    float* const to = s.q + panel * task.k_dim + row % kPanelRows;
    const bool fills_up = row >= rows;
    const int64_t token = fills_up ? 0 : row % task.n_tokens;
    const int64_t head = fills_up ? 0 : row / task.n_tokens;
    const float* const from = moved(task.q, static_cast<size_t>(token) * task.q_token_stride +
                                                static_cast<size_t>(head) * task.q_head_stride);
    for (int64_t i = 0; i < task.k_dim; ++i) {
      to[i * panel_rows] = from[i] * scale;
    }
  }
  for (int64_t row = 0; row < s.n_rows; ++row) {
    s.most[row] = kHidden;
    s.sum[row] = 0.0F;
  }
  for (int64_t i = 0; i < s.n_rows * s.v_size; ++i) {
    s.out[i] = 0.0F;
  }
}

// --- keys and values --------------------------------------------------------------------------

template <typename Row>
void widen_keys(const AttentionTask& task, const Block& block, float* out) {
  for (int64_t i = 0; i < block.n; ++i, out += task.k_dim) {
    const void* const row = moved(task.k, static_cast<size_t>(block.first + i) * task.k_stride);
    int64_t at = 0;
    for (; at + Row::kUnit * kWidth <= task.k_dim; at += Row::kUnit * kWidth) {
#pragma GCC unroll 8
      for (int64_t v = 0; v < Row::kUnit; ++v) {
        store(out + at + v * kWidth, Row::at(Row::from(row, at), v));
      }
    }
    if (at < task.k_dim) {  // what it writes too much, the next key replaces
      store(out + at, Row::part(Row::from(row, at), task.k_dim - at));
    }
  }
  // A tile reads whole vectors of keys; what fills it up reaches no result.
  for (int64_t i = 0; i < (kKeys - block.n) * task.k_dim; ++i) {
    out[i] = 0.0F;
  }
}

// Values that are not finite are left out (zero): add_unsafe() adds them to the rows that see
// them alone.
template <typename Row>
void widen_values(const AttentionTask& task, const ManyScratch& s, Block& block) {
  float* out = s.v;
  for (int64_t i = 0; i < block.n; ++i, out += s.v_size) {
    const void* const row = moved(task.v, static_cast<size_t>(block.first + i) * task.v_stride);
    Vec zeros{};  // NaN as soon as a value is not finite
    int64_t at = 0;
    for (; at + Row::kUnit * kWidth <= task.v_dim; at += Row::kUnit * kWidth) {
#pragma GCC unroll 8
      for (int64_t v = 0; v < Row::kUnit; ++v) {
        const Vec values = Row::at(Row::from(row, at), v);
        zeros += values * 0.0F;
        store(out + at + v * kWidth, values);
      }
    }
    if (at < task.v_dim) {
      const Vec values = Row::part(Row::from(row, at), task.v_dim - at);
      zeros += values * 0.0F;
      store(out + at, values);
    }
    if (sum_of(zeros) != 0.0F) {
      block.unsafe[block.n_unsafe++] = i;
      for (at = 0; at < s.v_size; ++at) {
        out[at] = 0.0F;
      }
    }
  }
}

// --- the mask ---------------------------------------------------------------------------------

// Reads the mask of a block and drops keys at its ends that no query sees. False: there is no
// other.
bool find_seen_keys(const AttentionTask& task, const ManyScratch& s, Block& block) {
  if (!has_mask(task)) {
    return true;
  }
  MaskLanes found;
  for (int64_t token = 0; token < task.n_tokens; ++token) {
    read_mask(task, token, block.first, block.n, found, nullptr);
  }
  if (!any_of(found.shows)) {
    return false;
  }
  block.masked = any_of(found.changes);
  if (!block.masked) {
    return true;
  }
  bool seen[kKeys] = {};
  for (int64_t token = 0; token < task.n_tokens; ++token) {
    float row[kKeys];
    read_mask(task, token, block.first, block.n, found, row);
    for (int64_t i = 0; i < block.n; ++i) {
      seen[i] |= row[i] != kHidden;
      s.mask[i * s.stride + token] = row[i];
    }
  }
  int64_t begin = 0;
  int64_t end = block.n;
  while (begin < end && !seen[begin]) {
    ++begin;
  }
  while (end > begin && !seen[end - 1]) {
    --end;
  }
  for (int64_t i = begin; i < end; ++i) {
    const float* const from = s.mask + i * s.stride;
    float* const to = s.mask + (i - begin) * s.stride;
    for (int64_t at = 0; at < task.n_tokens; ++at) {
      to[at] = from[at];
    }
    for (int64_t at = task.n_tokens; at < s.n_rows; ++at) {
      to[at] = to[at - task.n_tokens];
    }
  }
  block.first += begin;
  block.n = end - begin;
  return true;
}

// --- products ---------------------------------------------------------------------------------

// Scores of `Keys` keys and `Vectors` vectors of rows.
template <int64_t Keys, int64_t Vectors>
void score_tile(const float* q, const float* k, int64_t k_dim, float* out, int64_t stride) {
  Vec sums[size_t{Keys}][size_t{Vectors}] = {};
  for (int64_t i = 0; i < k_dim; ++i) {
    Vec rows[size_t{Vectors}];
#pragma GCC unroll 4
    for (int64_t v = 0; v < Vectors; ++v) {
      rows[v] = load(q + (i * Vectors + v) * kWidth);
    }
#pragma GCC unroll 16
    for (int64_t key = 0; key < Keys; ++key) {
      const float value = k[key * k_dim + i];
#pragma GCC unroll 4
      for (int64_t v = 0; v < Vectors; ++v) {
        sums[key][v] += rows[v] * value;
      }
    }
  }
#pragma GCC unroll 16
  for (int64_t key = 0; key < Keys; ++key) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < Vectors; ++v) {
      store(out + key * stride + v * kWidth, sums[key][v]);
    }
  }
}

template <int64_t Vectors>
EG_INLINE void score_panel(const AttentionTask& task, const ManyScratch& s, const Block& block,
                           int64_t panel) {
  constexpr int64_t kSums = EG_WIDTH == 16 ? 24 : 12;
  constexpr int64_t kTile = smaller(kSums / Vectors, 12);
  static_assert(kKeys % kTile == 0);
  for (int64_t key = 0; key < block.n; key += kTile) {
    score_tile<kTile, Vectors>(s.q + panel * task.k_dim, s.k + key * task.k_dim, task.k_dim,
                               s.s + key * s.stride + panel, s.stride);
  }
}

void multiply_queries(const AttentionTask& task, const ManyScratch& s, const Block& block) {
  for (int64_t panel = 0; panel < s.n_rows; panel += kPanelRows) {
    switch (smaller(kPanelVectors, (s.n_rows - panel) / kWidth)) {
      case 1:
        score_panel<1>(task, s, block, panel);
        break;
      case 2:
        score_panel<2>(task, s, block, panel);
        break;
#if EG_WIDTH == 16
      case 3:
        score_panel<3>(task, s, block, panel);
        break;
      default:
        score_panel<4>(task, s, block, panel);
        break;
#endif
    }
  }
}

// out[row] = factor[row] out[row] + sum over keys of s[key][row] v[key], for kTileRows rows and
// `Vectors` vectors of values.
template <int64_t Vectors>
void value_tile(const ManyScratch& s, int64_t n_keys, int64_t row, int64_t at) {
  float* const out = s.out + row * s.v_size + at;
  Vec sums[size_t{kTileRows}][size_t{Vectors}];
#pragma GCC unroll 4
  for (int64_t r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < Vectors; ++v) {
      sums[r][v] = load(out + r * s.v_size + v * kWidth) * s.factor[row + r];
    }
  }
  const float* weights = s.s + row;
  const float* values = s.v + at;
  for (int64_t key = 0; key < n_keys; ++key, weights += s.stride, values += s.v_size) {
    Vec value[size_t{Vectors}];
#pragma GCC unroll 4
    for (int64_t v = 0; v < Vectors; ++v) {
      value[v] = load(values + v * kWidth);
    }
#pragma GCC unroll 4
    for (int64_t r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
      for (int64_t v = 0; v < Vectors; ++v) {
        sums[r][v] += value[v] * weights[r];
      }
    }
  }
#pragma GCC unroll 4
  for (int64_t r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < Vectors; ++v) {
      store(out + r * s.v_size + v * kWidth, sums[r][v]);
    }
  }
}

void multiply_weights(const ManyScratch& s, const Block& block) {
  int64_t at = 0;
  for (; at + kTileVectors * kWidth <= s.v_size; at += kTileVectors * kWidth) {
    for (int64_t row = 0; row < s.n_rows; row += kTileRows) {
      value_tile<kTileVectors>(s, block.n, row, at);
    }
  }
  for (; at < s.v_size; at += kWidth) {
    for (int64_t row = 0; row < s.n_rows; row += kTileRows) {
      value_tile<1>(s, block.n, row, at);
    }
  }
}

template <typename Row>
void add_unsafe(const AttentionTask& task, const ManyScratch& s, const Block& block) {
  for (int64_t u = 0; u < block.n_unsafe; ++u) {
    const int64_t key = block.unsafe[u];
    const void* const from = moved(task.v, static_cast<size_t>(block.first + key) * task.v_stride);
    for (int64_t row = 0; row < s.n_rows; ++row) {
      const int64_t place = key * s.stride + row;
      if (block.masked && s.mask[place] == kHidden) {
        continue;
      }
      float* const out = s.out + row * s.v_size;
      const float weight = s.s[place];
      int64_t at = 0;
      for (; at + Row::kUnit * kWidth <= task.v_dim; at += Row::kUnit * kWidth) {
        for (int64_t v = 0; v < Row::kUnit; ++v) {
          float* const to = out + at + v * kWidth;
          store(to, load(to) + Row::at(Row::from(from, at), v) * weight);
        }
      }
      if (at < task.v_dim) {
        float* const to = out + at;
        store(to, load(to) + Row::part(Row::from(from, at), task.v_dim - at) * weight);
      }
    }
  }
}

// --- softmax ----------------------------------------------------------------------------------

// Scores become weights, of a vector of rows.
void weigh_rows(const AttentionTask& task, const ManyScratch& s, const Block& block, int64_t row) {
  const Vec before = load(s.most + row);
  Vec most = before;
  const bool changes = block.masked || task.softcap != 0.0F;
  for (int64_t key = 0; key < block.n; ++key) {
    float* const at = s.s + key * s.stride + row;
    Vec v = load(at);
    if (changes) {
      if (task.softcap != 0.0F) {
        v = capped(v, task.softcap);
      }
      if (block.masked) {
        const Vec mask = load(s.mask + key * s.stride + row);
        v = mask == kHidden ? mask : v + mask;  // a hidden key is none, whatever its score
      }
      store(at, v);
    }
    most = max_of(most, v);
  }
  const Vec relative_to = reference(most);
  Vec sum{};
  for (int64_t key = 0; key < block.n; ++key) {
    float* const at = s.s + key * s.stride + row;
    const Vec weight = exp_of(load(at) - relative_to);
    store(at, weight);
    sum += weight;
  }
  const Vec factor = exp_of(before - relative_to);
  store(s.factor + row, factor);
  store(s.sum + row, load(s.sum + row) * factor + sum);
  store(s.most + row, most);
}

void write_results(const AttentionTask& task, const ManyScratch& s) {
  for (int64_t row = 0; row < task.n_tokens * task.n_heads; ++row) {
    const auto token = static_cast<size_t>(row % task.n_tokens);
    const auto head = static_cast<size_t>(row / task.n_tokens);
    float* const to = moved(task.out, token * task.out_token_stride + head * task.out_head_stride);
    const float* const from = s.out + row * s.v_size;
    note_scores(task, row % task.n_tokens, row / task.n_tokens, s.most[row], s.sum[row]);
    const float factor = s.sum[row] == 0.0F ? 0.0F : 1.0F / s.sum[row];
    for (int64_t i = 0; i < task.v_dim; ++i) {
      to[i] = from[i] * factor;
    }
  }
}

void attend_many(const AttentionTask& task) {
  Room room{reinterpret_cast<uintptr_t>(task.scratch)};
  const ManyScratch s(room, task.k_dim, task.v_dim, task.n_tokens * task.n_heads);
  read_queries(task, s);
  for (int64_t first = 0; first < task.n_kv; first += kKeys) {
    Block block{.first = first, .n = smaller(kKeys, task.n_kv - first)};
    if (!find_seen_keys(task, s, block)) {
      continue;
    }
    with_rows_of(task.k_type, [&](auto row) { widen_keys<decltype(row)>(task, block, s.k); });
    with_rows_of(task.v_type, [&](auto row) { widen_values<decltype(row)>(task, s, block); });
    multiply_queries(task, s, block);
    for (int64_t row = 0; row < s.n_rows; row += kWidth) {
      weigh_rows(task, s, block, row);
    }
    multiply_weights(s, block);
    if (block.n_unsafe > 0) {
      with_rows_of(task.v_type, [&](auto row) { add_unsafe<decltype(row)>(task, s, block); });
    }
  }
  write_results(task, s);
}

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
