// Q8_0 times one token: row after row as they lie, which the machine itself fetches ahead. Blocks
// of 34 bytes are loaded one by one, so registers of 32 bytes take least work.
#pragma once

#include "runtime/kernels/matmul_kernels_avx512_q8_many.h"
#include "runtime/kernels/matmul_kernels_avx512_types.h"

namespace executorch_ggml::avx512 {
namespace {

// 128 elements of the token as they follow one another, and what a sum of products starts from:
// the weights are multiplied 128 too large.
struct alignas(64) PlainGroup {
  int8_t q[kGroupBlocks][kBlock];
  int32_t start[kGroupBlocks][kBlock / 4];
  float scale[kGroupBlocks];
};

constexpr size_t plain_size(int64_t k) {
  return static_cast<size_t>(n_groups(k)) * sizeof(PlainGroup);
}

EG_INLINE void lay_plain(const Q8Block* x, int64_t k, PlainGroup* to) {
  for (int64_t i = 0; i < n_groups(k); ++i, ++to) {
    const Group group{x + i / 2, i % 2};
    for (int half = 0; half < 2; ++half) {
      const __m512i q = group.two_blocks(half);
      _mm512_store_si512(to->q[2 * half], q);
      _mm512_store_si512(to->start[2 * half], less_offset<128>(_mm512_setzero_si512(), q));
    }
    _mm_store_ps(to->scale, _mm_load_ps(group.block->scale + group.half * kGroupBlocks));
  }
}

EG_INLINE int half_at(const uint8_t* p) {
  uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return bits;
}

// The products of block `b`, four elements in each.
EG_INLINE __m256 plain_products(const uint8_t* w, const PlainGroup& x, int b) {
  const auto load = [](const void* from) __attribute__((always_inline)) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  };
  const __m256i q = _mm256_xor_si256(load(w + 2), _mm256_set1_epi8(-128));
  return _mm256_cvtepi32_ps(_mm256_dpbusd_epi32(load(x.start[b]), q, load(x.q[b])));
}

// A row's product, in eight parts.
EG_INLINE __m256 plain_dot(const uint8_t* w, const PlainGroup* x, int64_t k) {
  constexpr size_t kBytes = Q8_0::kBlockBytes;
  __m256 sums[kGroupBlocks] = {};
  for (; k >= kGroup; k -= kGroup, w += kGroupBlocks * kBytes, ++x) {
    fetch_page_start(w, kGroupBlocks * kBytes);
    __m128i halves = _mm_cvtsi32_si128(half_at(w));
    halves = _mm_insert_epi16(halves, half_at(w + kBytes), 1);
    halves = _mm_insert_epi16(halves, half_at(w + 2 * kBytes), 2);
    halves = _mm_insert_epi16(halves, half_at(w + 3 * kBytes), 3);
    const __m256 scales =
        _mm256_castps128_ps256(_mm_mul_ps(_mm_cvtph_ps(halves), _mm_load_ps(x->scale)));
#pragma GCC unroll 4
    for (int b = 0; b < kGroupBlocks; ++b) {
      const __m256 scale = _mm256_permutevar8x32_ps(scales, _mm256_set1_epi32(b));
      const __m256 products = plain_products(w + static_cast<size_t>(b) * kBytes, *x, b);
      sums[b] = _mm256_fmadd_ps(products, scale, sums[b]);
    }
  }
  for (int b = 0; b < k / kBlock; ++b, w += kBytes) {
    const __m128 scale =
        _mm_mul_ss(_mm_cvtph_ps(_mm_cvtsi32_si128(half_at(w))), _mm_load_ss(x->scale + b));
    sums[b] = _mm256_fmadd_ps(plain_products(w, *x, b), _mm256_broadcastss_ps(scale), sums[b]);
  }
  return _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
}

template <int kRows>
EG_INLINE void plain_dots(const MatmulTask& t, const PlainGroup* x, int64_t row) {
  __m256 sums[4] = {};
  for (int r = 0; r < kRows; ++r) {
    sums[r] = plain_dot(row_of(t, row + r), x, t.k);
  }
  const __m256 all =
      _mm256_hadd_ps(_mm256_hadd_ps(sums[0], sums[1]), _mm256_hadd_ps(sums[2], sums[3]));
  store_sums<kRows>(t, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)), row,
                    0);
}

struct Q8_0Product : Q8Product<Q8_0> {
  static EG_INLINE void one_token(const MatmulTask& t) {
    PlainGroup* const x = static_cast<PlainGroup*>(t.scratch);
    lay_plain(token_of(t, 0), t.k, x);
    int64_t row = 0;
    for (; row + 4 <= t.n_rows; row += 4) {
      plain_dots<4>(t, x, row);
    }
    for (; row < t.n_rows; ++row) {
      plain_dots<1>(t, x, row);
    }
  }
};

}  // namespace
}  // namespace executorch_ggml::avx512
