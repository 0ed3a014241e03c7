// Products of F32, F16 and BF16 weights with activations in F32.
//
// Nothing inline from the standard library here: see matmul_kernels_avx512.h.
#pragma once

#include "runtime/kernels/matmul_kernels_avx512.h"

namespace executorch_ggml::avx512 {
namespace {

// How weights are stored: `load` widens the first of 16, as many as the mask says; the others
// are zeros.

struct F32 {
  using Stored = float;
  static EG_INLINE __m512 load(const float* p) { return _mm512_loadu_ps(p); }
  static EG_INLINE __m512 load(const float* p, __mmask16 mask) {
    return _mm512_maskz_loadu_ps(mask, p);
  }
};

struct F16 {
  using Stored = uint16_t;
  static EG_INLINE __m512 load(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static EG_INLINE __m512 load(const uint16_t* p, __mmask16 mask) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p));
  }
};

struct BF16 {
  using Stored = uint16_t;
  static EG_INLINE __m512 load(const uint16_t* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static EG_INLINE __m512 load(const uint16_t* p, __mmask16 mask) {
    return widen(_mm256_maskz_loadu_epi16(mask, p));
  }

 private:
  static EG_INLINE __m512 widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
};

constexpr int64_t float_row_size(int64_t k) { return odd_lines(k * int64_t{sizeof(float)}); }

EG_INLINE const float* floats_of(const MatmulTask& t, int64_t token) {
  const auto* const row = static_cast<const uint8_t*>(t.x) + token * float_row_size(t.k);
  return reinterpret_cast<const float*>(row);
}

// `kRows` rows times `kTokens` tokens.
template <class Element, int kRows, int kTokens>
void float_dots(const MatmulTask& t, int64_t row) {
  // As many sums as are under way at a time.
  constexpr int kSums = kRows * kTokens >= 8 ? 1 : kRows * kTokens > 1 ? 2 : 4;
  const float* x[size_t{kTokens}];
  for (int i = 0; i < kTokens; ++i) {
    x[i] = floats_of(t, i);
  }
  const typename Element::Stored* w[size_t{kRows}];
  for (int r = 0; r < kRows; ++r) {
    w[r] = reinterpret_cast<const typename Element::Stored*>(row_of(t, row + r));
  }
  Ahead ahead(row_of(t, row), kRows * t.row_stride);
  __m512 sums[size_t{kSums}][size_t{kTokens}][size_t{kRows}];
  for (int s = 0; s < kSums; ++s) {
    for (int i = 0; i < kTokens; ++i) {
      for (int r = 0; r < kRows; ++r) {
        sums[s][i][r] = _mm512_setzero_ps();
      }
    }
  }
  int64_t k = 0;
  const auto step = [&](int s, const auto load) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m512 weights = load(w[r] + k);
#pragma GCC unroll 4
      for (int i = 0; i < kTokens; ++i) {
        sums[s][i][r] = _mm512_fmadd_ps(weights, _mm512_load_ps(x[i] + k), sums[s][i][r]);
      }
    }
    k += 16;
  };
  const auto whole = [](const auto* p) __attribute__((always_inline)) { return Element::load(p); };
  constexpr int64_t kStep = 16 * kSums;
  while (k + kStep <= t.k) {
    constexpr size_t kBytes = kStep * sizeof(typename Element::Stored);
    if constexpr (kRows > 1) {
      ahead.advance(kRows * kBytes);
    } else {
      fetch_page_start(w[0] + k, kBytes);
    }
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) {
      step(s, whole);
    }
  }
  while (k < t.k) {
    const __mmask16 mask = first_lanes(t.k - k);
    step(0,
         [mask](const auto* p) __attribute__((always_inline)) { return Element::load(p, mask); });
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTokens; ++i) {
    for (int s = 1; s < kSums; ++s) {
      for (int r = 0; r < kRows; ++r) {
        sums[0][i][r] = _mm512_add_ps(sums[0][i][r], sums[s][i][r]);
      }
    }
    store_sums<kRows>(t, sums[0][i], row, i);
  }
}

// Rows that are decoded at a time, two panels: [element][row].
constexpr int64_t kFloatRows = 2 * kPanelRows;
constexpr int64_t kFloatChunk = 1024;

template <class Element>
void decode_floats(const MatmulTask& t, int64_t row, int64_t first, int64_t n) {
  for (int64_t panel = 0; panel < 2 && row + panel * kPanelRows < t.n_rows; ++panel) {
    float* to = static_cast<float*>(t.scratch) + panel * kPanelRows;
    const uint8_t* w[size_t{kPanelRows}];
    panel_rows(t, row + panel * kPanelRows, w);
    for (int64_t at = 0; at < n; at += 16) {
      __m512i rows[16];
      const __mmask16 mask = first_lanes(n - at);
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) {
        const auto* const stored =
            reinterpret_cast<const typename Element::Stored*>(w[r]) + first + at;
        rows[r] = _mm512_castps_si512(Element::load(stored, mask));
        fetch_after(t, stored, 16 * sizeof(*stored), kFloatRows);
      }
      __m512i columns[16];
      transpose(rows, columns);
      for (int i = 0; i < 16 && at + i < n; ++i, to += kFloatRows) {
        _mm512_store_si512(to, columns[i]);
      }
    }
  }
}

template <int kPanels, int kTokens>
void float_tile(const MatmulTask& t, int64_t row, int64_t token, int64_t n_tokens, int64_t first,
                int64_t n) {
  const float* x[size_t{kTokens}];
  for (int i = 0; i < kTokens; ++i) {
    x[i] = floats_of(t, token + (i < n_tokens ? i : n_tokens - 1)) + first;
  }
  __m512 sums[size_t{kPanels}][size_t{kTokens}];
  for (int p = 0; p < kPanels; ++p) {
    for (int i = 0; i < kTokens; ++i) {
      sums[p][i] = _mm512_setzero_ps();
    }
  }
  const float* w = static_cast<const float*>(t.scratch);
  for (int64_t k = 0; k < n; ++k, w += kFloatRows) {
    __m512 weights[size_t{kPanels}];
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      weights[p] = _mm512_load_ps(w + p * kPanelRows);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kTokens; ++i) {
      const __m512 value = _mm512_set1_ps(x[i][k]);
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) {
        sums[p][i] = _mm512_fmadd_ps(weights[p], value, sums[p][i]);
      }
    }
  }
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
    store_tile<kTokens>(t, sums[p], row + p * kPanelRows, token, n_tokens);
  }
}

template <class Element>
struct FloatProduct {
  static constexpr int64_t kRows = kFloatRows;
  static constexpr int64_t kChunk = kFloatChunk;
  static constexpr int64_t token_size(int64_t k) { return float_row_size(k); }
  static constexpr int kManyRows = 2;
  static constexpr int64_t kTokenBytes = kChunk * int64_t{sizeof(float)};

  // Rows are read as they lie, at the rate of a mere read.
  static EG_INLINE void one_token(const MatmulTask& t) { all_dots<FloatProduct, 1, 1>(t); }
  template <int kDotRows, int kTokens>
  static EG_INLINE void dots(const MatmulTask& t, int64_t row) {
    float_dots<Element, kDotRows, kTokens>(t, row);
  }
  static EG_INLINE void decode(const MatmulTask& t, int64_t row, int64_t first, int64_t n) {
    decode_floats<Element>(t, row, first, n);
  }
  template <int kTokens>
  static EG_INLINE void tile(const MatmulTask& t, int64_t row, int64_t token, int64_t n_tokens,
                             int64_t first, int64_t n) {
    if (t.n_rows - row > kPanelRows) {
      float_tile<2, kTokens>(t, row, token, n_tokens, first, n);
    } else {
      float_tile<1, kTokens>(t, row, token, n_tokens, first, n);
    }
  }
};

}  // namespace
}  // namespace executorch_ggml::avx512
