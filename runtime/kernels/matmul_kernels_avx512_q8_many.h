// Products of quantised weights with many tokens, for AVX-512 with VNNI: sixteen rows are decoded
// into a panel, which tiles of tokens then share. Which of the kernels for few and for many a
// number of tokens takes, Q8Product says.
#pragma once

#include "runtime/kernels/matmul_kernels_avx512_q8.h"

namespace executorch_ggml::avx512 {
namespace {

// A group of 16 weight rows, as the tiles read it: each register holds four successive bytes of
// every row.
struct alignas(64) PanelGroup {
  uint8_t q[32][16][4];  // plus what decode_q8 adds
  float scale[8][16];    // of each block, or of each half of a block
  float min[4][16];
};

constexpr int kPanelOffset = 128;  // see Q8Block::offset
constexpr int64_t kQ8Chunk = 2048;

constexpr int64_t n_groups(int64_t k) { return (k + kGroup - 1) / kGroup; }

// The elements 0, 4, 8 and 12 of 16 rows.
EG_INLINE void transpose_lanes(const __m512 in[16], float* const out[4]) {
  __m512i rows[16];
  __m512i columns[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    rows[i] = _mm512_castps_si512(in[i]);
  }
  transpose(rows, columns);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm512_store_si512(out[i], columns[4 * i]);
  }
}

// Decodes 16 rows of the `n` elements from `first`, a multiple of 256. To the integers of types
// without minima `kPlus` is added.
template <class Type, int kPlus>
void decode_q8(const MatmulTask& t, int64_t row, int64_t first, int64_t n) {
  constexpr int64_t kUnit = Type::kGroups * kGroup;
  constexpr int kAdded = Type::kMin == 0 ? kPlus - Type::kOffset : 0;
  PanelGroup* panel = static_cast<PanelGroup*>(t.scratch);
  const uint8_t* w[size_t{kPanelRows}];
  panel_rows(t, row, w);
  for (int64_t r = 0; r < kPanelRows; ++r) {
    w[r] += static_cast<size_t>(first / kUnit) * Type::kBytes;
  }
  for (int64_t at = 0; at < n; at += kUnit) {
    alignas(64) uint8_t padded[size_t{kPanelRows}][padded_size<Type>()];
    if (ends_within<Type>(n) && at + kUnit > n) {
      for (int64_t r = 0; r < kPanelRows; ++r) {
        pad<Type>(w[r], n - at, padded[r]);
        w[r] = padded[r];
      }
    }
    for (int g = 0; g < Type::kGroups; ++g, ++panel) {
      __m512i q[2][size_t{kPanelRows}];
      __m512 scales[size_t{kPanelRows}];
      __m512 spread[2][size_t{kPanelRows}];
      for (int64_t r = 0; r < kPanelRows; ++r) {
        __m512i both[2];
        Type::quants(w[r], g, both);
        q[0][r] = _mm512_add_epi8(both[0], _mm512_set1_epi8(kAdded));
        q[1][r] = _mm512_add_epi8(both[1], _mm512_set1_epi8(kAdded));
        scales[r] = Type::scales(w[r]);
        spread[0][r] = Type::spread(scales[r], g, 0);
        if constexpr (Type::kSplit) {
          spread[1][r] = Type::spread(scales[r], g, 1);
        }
      }
      for (int i = 0; i < 2; ++i) {
        __m512i columns[16];
        transpose(q[i], columns);
        for (int c = 0; c < 16; ++c) {
          const int place =
              Type::kSplit ? 16 * (c / 4 % 2) + 4 * (2 * i + c / 8) + c % 4 : 16 * i + c;
          _mm512_store_si512(panel->q[place], columns[c]);
        }
      }
      float (*const scale)[16] = panel->scale;
      if constexpr (Type::kSplit) {
        float* const of_first[4] = {scale[0], scale[4], scale[1], scale[5]};
        float* const of_second[4] = {scale[2], scale[6], scale[3], scale[7]};
        transpose_lanes(spread[0], of_first);
        transpose_lanes(spread[1], of_second);
      } else {
        float* const all[4] = {scale[0], scale[1], scale[2], scale[3]};
        transpose_lanes(spread[0], all);
      }
      if constexpr (Type::kMin != 0) {
        const int min = 8 + 4 * g;
        const __m512i places = lane_numbers(min, min + 1, min + 2, min + 3);
        for (int64_t r = 0; r < kPanelRows; ++r) {
          spread[0][r] = _mm512_permutexvar_ps(places, scales[r]);
        }
        float* const all[4] = {panel->min[0], panel->min[1], panel->min[2], panel->min[3]};
        transpose_lanes(spread[0], all);
      }
    }
    for (int64_t r = 0; r < kPanelRows; ++r) {
      fetch_after(t, w[r], Type::kBytes, kPanelRows);
      w[r] += Type::kBytes;
    }
  }
}

EG_INLINE __m512i spread4(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

// `kTokens` tokens, of which `n_tokens` are there (the last one stands for the others), times a
// panel.
template <int kMin, bool kSplit, int kTokens>
void q8_tile(const MatmulTask& t, int64_t row, int64_t token, int64_t n_tokens, int64_t first,
             int64_t n) {
  const Q8Block* x[size_t{kTokens}];
  for (int i = 0; i < kTokens; ++i) {
    x[i] = token_of(t, token + (i < n_tokens ? i : n_tokens - 1)) + first / kQ8Elements;
  }
  __m512 sums[size_t{kTokens}];
  for (int i = 0; i < kTokens; ++i) {
    sums[i] = _mm512_setzero_ps();
  }
  const PanelGroup* panel = static_cast<const PanelGroup*>(t.scratch);
  for (int64_t g = 0; g < n_groups(n); ++g, ++panel) {
    const int64_t at = g / 2;
    const int64_t half = g % 2;
    for (int b = 0; b < kGroupBlocks; ++b) {
      const int64_t block = half * kGroupBlocks + b;
      __m512i n_low[size_t{kTokens}];
#pragma GCC unroll 16
      for (int i = 0; i < kTokens; ++i) {
        n_low[i] = kMin != 0 ? _mm512_setzero_si512()
                             : _mm512_set1_epi32(kSplit ? x[i][at].offset_low[block]
                                                        : x[i][at].offset[block]);
      }
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const __m512i w = _mm512_load_si512(panel->q[4 * b + j]);
#pragma GCC unroll 16
        for (int i = 0; i < kTokens; ++i) {
          const int8_t* const q = x[i][at].q + half * kGroup + 4 * (4 * b + j);
          n_low[i] = _mm512_dpbusd_epi32(n_low[i], w, spread4(q));
        }
      }
      __m512 products[size_t{kTokens}];
      if constexpr (kSplit) {
        const __m512 scale = _mm512_load_ps(panel->scale[b]);
#pragma GCC unroll 16
        for (int i = 0; i < kTokens; ++i) {
          products[i] = _mm512_mul_ps(_mm512_cvtepi32_ps(n_low[i]), scale);
          n_low[i] = _mm512_sub_epi32(_mm512_set1_epi32(x[i][at].offset[block]),
                                      _mm512_set1_epi32(x[i][at].offset_low[block]));
        }
      }
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const __m512i w = _mm512_load_si512(panel->q[16 + 4 * b + j]);
#pragma GCC unroll 16
        for (int i = 0; i < kTokens; ++i) {
          const int8_t* const q = x[i][at].q + half * kGroup + 64 + 4 * (4 * b + j);
          n_low[i] = _mm512_dpbusd_epi32(n_low[i], w, spread4(q));
        }
      }
      const __m512 scale = _mm512_load_ps(panel->scale[kSplit ? 4 + b : b]);
      if constexpr (kSplit) {
#pragma GCC unroll 16
        for (int i = 0; i < kTokens; ++i) {
          products[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(n_low[i]), scale, products[i]);
          sums[i] = _mm512_fmadd_ps(products[i], _mm512_set1_ps(x[i][at].scale[block]), sums[i]);
        }
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < kTokens; ++i) {
          const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x[i][at].scale[block]));
          sums[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(n_low[i]), both, sums[i]);
        }
      }
      if constexpr (kMin != 0) {
        const __m512 min = _mm512_load_ps(panel->min[b]);
#pragma GCC unroll 16
        for (int i = 0; i < kTokens; ++i) {
          const __m512 sum = _mm512_set1_ps(x[i][at].scaled_sum[block]);
          sums[i] =
              kMin > 0 ? _mm512_fmadd_ps(min, sum, sums[i]) : _mm512_fnmadd_ps(min, sum, sums[i]);
        }
      }
    }
  }
  store_tile<kTokens>(t, sums, row, token, n_tokens);
}

template <class Type>
struct Q8Product {
  static constexpr int64_t kRows = kPanelRows;
  static constexpr int64_t kChunk = kQ8Chunk;
  static constexpr int64_t token_size(int64_t k) { return q8_row_size(k); }
  static constexpr int kManyRows = Type::kQuads ? 4 : 2;
  static constexpr int64_t kTokenBytes = kChunk / kQ8Elements * int64_t{sizeof(Q8Block)};

  static EG_INLINE void one_token(const MatmulTask& t) { all_dots<Q8Product, 4, 1>(t); }
  template <int kDotRows, int kTokens>
  static EG_INLINE void dots(const MatmulTask& t, int64_t row) {
    if constexpr (Type::kQuads && kDotRows == 4) {
      quad_dots<Type, kTokens>(t, row);
    } else {
      q8_dots<Type, kDotRows, kTokens>(t, row);
    }
  }
  static EG_INLINE void decode(const MatmulTask& t, int64_t row, int64_t first, int64_t n) {
    decode_q8<Type, kPanelOffset>(t, row, first, n);
  }
  template <int kTokens>
  static EG_INLINE void tile(const MatmulTask& t, int64_t row, int64_t token, int64_t n_tokens,
                             int64_t first, int64_t n) {
    q8_tile<Type::kMin, Type::kSplit, kTokens>(t, row, token, n_tokens, first, n);
  }
};

}  // namespace
}  // namespace executorch_ggml::avx512
