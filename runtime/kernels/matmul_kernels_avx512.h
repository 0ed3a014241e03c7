// Products of weights for AVX-512 with VNNI: what all weight types share.
//
// Nothing inline from the standard library here: the linker could take this file's copy,
// compiled for a newer machine, for the whole program.
#pragma once

// GCC 12 takes the operands that intrinsics leave undefined for mistakes of ours.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/matmul_kernels.h"

#define EG_INLINE inline __attribute__((always_inline))

namespace executorch_ggml::avx512 {
namespace {

constexpr __mmask16 first_lanes(int64_t n) {
  return n < 16 ? static_cast<__mmask16>((1U << n) - 1) : __mmask16{0xFFFF};
}

// At least so many bytes, as an odd number of cache lines: rows of prepared activations that lie so
// far apart do not share places in a cache.
constexpr int64_t odd_lines(int64_t bytes) {
  const int64_t lines = (bytes + 63) / 64;
  return (lines % 2 == 0 ? lines + 1 : lines) * 64;
}

// --- few tokens: the weights' rows as they lie ------------------------------------------------

// Fetches weights ahead of their use, in the order in which they lie. As several rows are read
// at a time, the machine itself would look ahead in each of them, and at its start not at all.
class Ahead {
 public:
  // `rows`: what is read at a time, in bytes.
  EG_INLINE Ahead(const uint8_t* w, size_t rows) : next_(w + rows + kDistance), end_(next_) {}
  // What the first rows of a task read, and what follows them up to where their `Ahead` begins.
  static EG_INLINE void begin(const uint8_t* w, size_t rows) {
    for (size_t i = 0; i < rows + kDistance; i += 64) {
      _mm_prefetch(w + i, _MM_HINT_T1);
    }
  }
  // As many bytes are about to be read.
  EG_INLINE void advance(size_t bytes) {
    for (end_ += bytes; next_ < end_; next_ += 64) {
      _mm_prefetch(next_, _MM_HINT_T1);
    }
  }

 private:
  static constexpr size_t kDistance = 4096;
  const uint8_t* next_;
  const uint8_t* end_;
};

// Where rows are read one after another the machine itself looks ahead, but not beyond a page: asks
// for the first lines of one some time before they are read. `size` bytes from `w` on are about to
// be.
EG_INLINE void fetch_page_start(const void* w, size_t size) {
  constexpr uintptr_t kPage = 4096;
  constexpr uintptr_t kDistance = kPage / 2;
  constexpr int kLines = 4;
  const uintptr_t next = reinterpret_cast<uintptr_t>(w) + kDistance;
  if (next % kPage < size) {
#pragma GCC unroll 4
    for (int i = 0; i < kLines; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(next - next % kPage) + 64 * i, _MM_HINT_T1);
    }
  }
}

EG_INLINE const uint8_t* row_of(const MatmulTask& t, int64_t row) {
  return static_cast<const uint8_t*>(t.w) + static_cast<size_t>(row) * t.row_stride;
}

EG_INLINE __m128 sum_of_lanes(__m512 a) {
  const __m256 halves = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  return _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
}

// The sums of the elements of each of four registers.
EG_INLINE __m128 sums_of(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512 abcd = _mm512_add_ps(
      _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))),
      _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))));
  return sum_of_lanes(abcd);
}

// The sums of a token with `kRows` rows, which come first.
template <int kRows>
EG_INLINE void store_sums(const MatmulTask& t, __m128 sums, int64_t row, int64_t token) {
  constexpr __mmask8 kMask = (1U << kRows) - 1;
  const int64_t at = token * t.y_stride + row;
  if (t.bias != nullptr) {
    sums = _mm_add_ps(sums, _mm_maskz_loadu_ps(kMask, t.bias + row));
  }
  if (t.residual != nullptr) {
    sums = _mm_add_ps(sums, _mm_maskz_loadu_ps(kMask, t.residual + at));
  }
  _mm_mask_storeu_ps(t.y + at, kMask, sums);
}

template <int kRows>
EG_INLINE void store_sums(const MatmulTask& t, const __m512* sums, int64_t row, int64_t token) {
  const __m512 none = _mm512_setzero_ps();
  const __m128 all = sums_of(sums[0], kRows > 1 ? sums[1] : none, kRows > 2 ? sums[2] : none,
                             kRows > 3 ? sums[3] : none);
  store_sums<kRows>(t, all, row, token);
}

// --- many tokens: panels of decoded rows --------------------------------------------------------

constexpr int64_t kPanelRows = 16;
constexpr int kTileTokens = 12;  // their sums with two panels fill the registers

// 16 rows of 16 elements to 16 columns.
EG_INLINE void transpose(const __m512i in[16], __m512i out[16]) {
  __m512i a[16];
  __m512i b[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(in[i], in[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(in[i], in[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  // b[4 * i + j]: rows 4 * i .. 4 * i + 3 of the columns j, 4 + j, 8 + j and 12 + j.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i first = _mm512_shuffle_i64x2(b[j], b[4 + j], 0x88);
    const __m512i second = _mm512_shuffle_i64x2(b[j], b[4 + j], 0xDD);
    const __m512i third = _mm512_shuffle_i64x2(b[8 + j], b[12 + j], 0x88);
    const __m512i fourth = _mm512_shuffle_i64x2(b[8 + j], b[12 + j], 0xDD);
    out[j] = _mm512_shuffle_i64x2(first, third, 0x88);
    out[4 + j] = _mm512_shuffle_i64x2(second, fourth, 0x88);
    out[8 + j] = _mm512_shuffle_i64x2(first, third, 0xDD);
    out[12 + j] = _mm512_shuffle_i64x2(second, fourth, 0xDD);
  }
}

// Of rows that are missing in a panel the last one takes the place.
EG_INLINE void panel_rows(const MatmulTask& t, int64_t row, const uint8_t* w[size_t{kPanelRows}]) {
  for (int64_t r = 0; r < kPanelRows; ++r) {
    w[r] = row_of(t, row + r < t.n_rows ? row + r : t.n_rows - 1);
  }
}

// Fetches what lies `rows` rows after these bytes and is decoded next, while the tokens are
// multiplied.
EG_INLINE void fetch_after(const MatmulTask& t, const void* w, size_t bytes, int64_t rows) {
  const uint8_t* const next =
      static_cast<const uint8_t*>(w) + static_cast<size_t>(rows) * t.row_stride;
  for (size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(next + i, _MM_HINT_T1);
  }
}

// The sums of tokens with the 16 rows of a panel: those from `from` to `n`.
template <int kTokens>
EG_INLINE void store_tile(const MatmulTask& t, const __m512* sums, int64_t row, int64_t token,
                          int64_t n, int64_t from = 0) {
  const __mmask16 mask = first_lanes(t.n_rows - row);
  const __m512 bias =
      t.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, t.bias + row);
#pragma GCC unroll 16
  for (int i = 0; i < kTokens; ++i) {
    if (i >= n) {
      return;
    }
    if (i < from) {
      continue;
    }
    const int64_t at = (token + i) * t.y_stride + row;
    __m512 result = _mm512_add_ps(sums[i], bias);
    if (t.residual != nullptr) {
      result = _mm512_add_ps(result, _mm512_maskz_loadu_ps(mask, t.residual + at));
    }
    _mm512_mask_storeu_ps(t.y + at, mask, result);
  }
}

// --- all products -----------------------------------------------------------------------------
//
// A `Product` has
//   one_token(task)                        all rows, where there is one token
//   dots<rows, tokens>(task, row)          of all tokens, which are few
//   token_size(k)                          bytes of a prepared token
//   kManyRows                              that registers hold beside three or four tokens
//   decode(task, row, first, n)            `kRows` rows of the elements from `first`, to scratch
//   tile<tokens>(task, row, token, n_tokens, first, n)   the products with what was decoded; of
//                                          fewer tokens the last one takes the others' place
//   kChunk                                 elements that are decoded at a time
//   kTokenBytes                            of a token's chunk

template <class Product, int kRows, int kTokens>
EG_INLINE void all_dots(const MatmulTask& t) {
  int64_t row = 0;
  if constexpr (kRows > 1) {
    Ahead::begin(row_of(t, 0), kRows * t.row_stride);
  }
  for (; row + kRows <= t.n_rows; row += kRows) {
    Product::template dots<kRows, kTokens>(t, row);
  }
  for (; row < t.n_rows; ++row) {
    Product::template dots<1, kTokens>(t, row);
  }
}

// The same of five to seven tokens: few enough that unpacking a row twice, the second time from the
// first cache, costs less than making a panel of it.
template <class Product, int kRows>
EG_INLINE void two_dots(const MatmulTask& t, const MatmulTask& rest, int64_t row) {
  Product::template dots<kRows, 4>(t, row);
  switch (rest.n_tokens) {
    case 1:
      return Product::template dots<kRows, 1>(rest, row);
    case 2:
      return Product::template dots<kRows, 2>(rest, row);
    default:
      return Product::template dots<kRows, 3>(rest, row);
  }
}

template <class Product>
void all_in_two_dots(const MatmulTask& t) {
  constexpr int64_t kFirst = 4;
  MatmulTask rest = t;
  rest.n_tokens -= kFirst;
  rest.x = static_cast<const uint8_t*>(t.x) + kFirst * Product::token_size(t.k);
  rest.y += kFirst * t.y_stride;
  if (t.residual != nullptr) {
    rest.residual += kFirst * t.y_stride;
  }
  int64_t row = 0;
  for (; row + Product::kManyRows <= t.n_rows; row += Product::kManyRows) {
    two_dots<Product, Product::kManyRows>(t, rest, row);
  }
  for (; row < t.n_rows; ++row) {
    two_dots<Product, 1>(t, rest, row);
  }
}

template <class Product>
EG_INLINE void all_tiles(const MatmulTask& t, int64_t row, int64_t token, int64_t end,
                         int64_t first, int64_t n) {
  for (; token + kTileTokens <= end; token += kTileTokens) {
    Product::template tile<kTileTokens>(t, row, token, kTileTokens, first, n);
  }
  const int64_t left = end - token;
  if (left > 8) {
    Product::template tile<kTileTokens>(t, row, token, left, first, n);
  } else if (left > 4) {
    Product::template tile<8>(t, row, token, left, first, n);
  } else if (left > 0) {
    Product::template tile<4>(t, row, token, left, first, n);
  }
}

// Panel by panel, `tiles` multiplies the tokens from `token` to `end` with what was decoded.
template <class Product, int kTokens, class Tiles>
EG_INLINE void multiply_panels(const MatmulTask& t, Tiles tiles) {
  // As many tokens at a time as stay in the second cache beside what is decoded.
  constexpr int64_t kCached = int64_t{1} << 20;
  constexpr int64_t kRun = kCached / Product::kTokenBytes / kTokens * kTokens;
  for (int64_t first = 0; first < t.k; first += Product::kChunk) {
    const int64_t n = first + Product::kChunk < t.k ? Product::kChunk : t.k - first;
    MatmulTask part = t;
    if (first > 0) {
      part.bias = nullptr;
      part.residual = t.y;
    }
    for (int64_t token = 0; token < t.n_tokens; token += kRun) {
      const int64_t end = token + kRun < t.n_tokens ? token + kRun : t.n_tokens;
      for (int64_t row = 0; row < t.n_rows; row += Product::kRows) {
        Product::decode(part, row, first, n);
        tiles(part, row, token, end, first, n);
      }
    }
  }
}

template <class Product>
void multiply(const MatmulTask& t) {
  switch (t.n_tokens) {
    case 1:
      return Product::one_token(t);
    case 2:
      return all_dots<Product, 4, 2>(t);
    case 3:
      return all_dots<Product, Product::kManyRows, 3>(t);
    case 4:
      return all_dots<Product, Product::kManyRows, 4>(t);
    case 5:
    case 6:
    case 7:
      return all_in_two_dots<Product>(t);
    default:
      return multiply_panels<Product, kTileTokens>(t, all_tiles<Product>);
  }
}

}  // namespace
}  // namespace executorch_ggml::avx512
