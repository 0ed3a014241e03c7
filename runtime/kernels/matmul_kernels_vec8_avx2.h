// The vectors of matmul_kernels_vec8_isa.h for x86-64 with AVX2, FMA and F16C.
//
// vpmaddubsw multiplies unsigned with signed bytes and adds pairs of products in 16 bits, where
// 2 * 15 * 127 fits eight times, 2 * 31 * 127 four times, 2 * 63 * 127 twice and 2 * 128 * 127
// once.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define EG_INLINE inline __attribute__((always_inline))

namespace executorch_ggml {
namespace avx2 {
namespace {

using Floats = __m256;  // 8
using Ints = __m256i;   // 8
using Bytes = __m256i;  // 32

constexpr int64_t kPrefetchBytes = 6144;  // ahead of what is multiplied, rows that follow included

EG_INLINE Floats load(const float* p) { return _mm256_loadu_ps(p); }
EG_INLINE void store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
EG_INLINE Floats splat(float v) { return _mm256_set1_ps(v); }
EG_INLINE Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
EG_INLINE Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
EG_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
EG_INLINE Floats to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }

EG_INLINE float sum(Floats v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

EG_INLINE void sum4(const Floats (&v)[4], float* out) {
  const Floats s = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}

EG_INLINE __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
EG_INLINE Floats load_f16(const void* p) { return _mm256_cvtph_ps(load16(p)); }
EG_INLINE Floats load_bf16(const void* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p)), 16));
}

EG_INLINE int half_bits(const uint8_t* p) {
  uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return bits;
}

// n F16 numbers, `stride` bytes apart; the lanes beyond hold the first one.
EG_INLINE Floats gather_f16(const uint8_t* p, size_t stride, int n) {
  const auto bits = [&](int i) {
    return half_bits(i < n ? p + static_cast<size_t>(i) * stride : p);
  };
  __m128i v = _mm_cvtsi32_si128(bits(0));
  v = _mm_insert_epi16(v, bits(1), 1);
  v = _mm_insert_epi16(v, bits(2), 2);
  v = _mm_insert_epi16(v, bits(3), 3);
  v = _mm_insert_epi16(v, bits(4), 4);
  v = _mm_insert_epi16(v, bits(5), 5);
  v = _mm_insert_epi16(v, bits(6), 6);
  v = _mm_insert_epi16(v, bits(7), 7);
  return _mm256_cvtph_ps(v);
}
EG_INLINE Floats splat_f16(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_set1_epi16(static_cast<int16_t>(half_bits(p))));
}

EG_INLINE Bytes load_bytes(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
EG_INLINE void store_bytes(void* p, Bytes v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
EG_INLINE Bytes splat_byte(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
EG_INLINE Bytes either(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }

// Halves of 16 bytes: two, or one twice.
EG_INLINE Bytes load_halves(const void* a, const void* b) {
  return _mm256_set_m128i(load16(b), load16(a));
}
EG_INLINE Bytes load_twice(const void* p) { return _mm256_broadcastsi128_si256(load16(p)); }

EG_INLINE Bytes low_nibbles(Bytes v) { return _mm256_and_si256(v, splat_byte(15)); }
EG_INLINE Bytes high_nibbles(Bytes v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }
// Of a half that was loaded twice: the low ones, then the high ones.
EG_INLINE Bytes both_nibbles(Bytes v) {
  return low_nibbles(_mm256_srlv_epi32(v, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)));
}
EG_INLINE Bytes is_set(Bytes v, Bytes mask) {
  return _mm256_cmpeq_epi8(_mm256_and_si256(v, mask), mask);
}
// 16 where a bit is set: bit 2 j of the first half's bytes, bit 2 j + 1 of the other's.
EG_INLINE Bytes bits_times_16(Bytes v, int j) {
  const int up = 4 - 2 * j;  // of the first half; one less of the other
  const Bytes shifted =
      j < 2
          ? _mm256_sllv_epi32(v, _mm256_setr_epi32(up, up, up, up, up - 1, up - 1, up - 1, up - 1))
          : _mm256_srlv_epi32(
                v, _mm256_setr_epi32(-up, -up, -up, -up, 1 - up, 1 - up, 1 - up, 1 - up));
  return _mm256_and_si256(shifted, splat_byte(16));
}
// Four bytes of a, four bytes of b, each as often as a half holds them.
EG_INLINE Bytes load_words(const void* a, const void* b) {
  int32_t words[2];
  __builtin_memcpy(&words[0], a, 4);
  __builtin_memcpy(&words[1], b, 4);
  return _mm256_set_m128i(_mm_set1_epi32(words[1]), _mm_set1_epi32(words[0]));
}
// 16 for each bit that is set in the bytes 2 * part and 2 * part + 1 of words, from the lowest one.
EG_INLINE Bytes spread_bits_times_16(Bytes words, int part) {
  const __m256i low = _mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101);
  const __m256i source = part == 0 ? low : _mm256_add_epi8(low, splat_byte(2));
  const __m256i mask = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i v = _mm256_and_si256(_mm256_shuffle_epi8(words, source), mask);
  return _mm256_and_si256(_mm256_cmpeq_epi8(v, mask), splat_byte(16));
}
// The bits 2 * at and 2 * at + 1, times 16.
EG_INLINE Bytes bit_pairs_times_16(Bytes v, int at) {
  const Bytes shifted =
      at < 2 ? _mm256_slli_epi16(v, 4 - 2 * at) : _mm256_srli_epi16(v, 2 * at - 4);
  return _mm256_and_si256(shifted, splat_byte(0x30));
}

EG_INLINE Floats bytes_to_floats(uint64_t bytes) {
  return to_floats(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
}
// 16 int8 as 16-bit numbers.
EG_INLINE Floats widen_bytes(const void* p) {
  return _mm256_castsi256_ps(_mm256_cvtepi8_epi16(load16(p)));
}

EG_INLINE void transpose(Floats (&v)[8]) {
  Floats a[8];
  Floats b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}
EG_INLINE Floats as_floats(Bytes v) { return _mm256_castsi256_ps(v); }
EG_INLINE Bytes as_bytes(Floats v) { return _mm256_castps_si256(v); }

EG_INLINE Ints add_pairs(__m256i shorts) { return _mm256_madd_epi16(shorts, _mm256_set1_epi16(1)); }
EG_INLINE __m256i multiply_signed(Bytes w, Bytes x) {
  return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

// Products of two blocks of 32 weights at once: `first` and `second` are the first and the second
// halves of both, `x` the activations beside them. The first 4 results add up to the one block's
// product, the others to the other's.

// Unsigned weights, at most 5 bits.
EG_INLINE Ints dot_pair(Bytes first, Bytes second, const int8_t* x) {
  return add_pairs(_mm256_add_epi16(_mm256_maddubs_epi16(first, load_bytes(x)),
                                    _mm256_maddubs_epi16(second, load_bytes(x + 32))));
}
// Signed weights of 8 bits.
EG_INLINE Ints dot_pair_signed(Bytes first, Bytes second, const int8_t* x) {
  return _mm256_add_epi32(add_pairs(multiply_signed(first, load_bytes(x))),
                          add_pairs(multiply_signed(second, load_bytes(x + 32))));
}
// Numbers of even places, then those of odd ones.
EG_INLINE Floats even_odd(Floats v) {
  return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}
// sums + product * scales of pair j: numbers j of both halves.
EG_INLINE Floats fma_pair(Ints product, Floats scales, int j, Floats sums) {
  const Floats p = to_floats(product);
  switch (j) {
    case 0:
      return fma(p, _mm256_permute_ps(scales, 0x00), sums);
    case 1:
      return fma(p, _mm256_permute_ps(scales, 0x55), sums);
    case 2:
      return fma(p, _mm256_permute_ps(scales, 0xaa), sums);
    default:
      return fma(p, _mm256_permute_ps(scales, 0xff), sums);
  }
}
// One block of unsigned weights of at most 6 bits, each half times a factor: number b of each half
// of `factors`.
EG_INLINE Ints dot_scaled(Bytes w, Bytes x, Bytes factors, int b) {
  const Bytes at = _mm256_set1_epi16(static_cast<int16_t>(0x0100 + 0x0202 * b));
  return _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_shuffle_epi8(factors, at));
}
// 16-bit numbers of even places, then those of odd ones.
EG_INLINE Bytes even_odd_shorts(Floats v) {
  const __m256i order = _mm256_setr_epi64x(0x0d0c090805040100, 0x0f0e0b0a07060302,
                                           0x0d0c090805040100, 0x0f0e0b0a07060302);
  return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(_mm256_castps_si256(v), order), 0xd8);
}
// Products of pairs of 16-bit numbers, added.
EG_INLINE Ints dot_shorts(Floats a, const int16_t* b) {
  return _mm256_madd_epi16(_mm256_castps_si256(a), load_bytes(b));
}

EG_INLINE Bytes splat_4_bytes(const void* p) {
  int32_t bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return _mm256_set1_epi32(bits);
}

EG_INLINE Bytes splat_group(const int8_t* x, int g) {
  return splat_4_bytes(x + g / 4 * 32 + g % 4 * 4);
}

// Below, vector g of `w` holds elements 4 g to 4 g + 3 of 8 rows; the results are the products of
// the rows' 32 elements with x, whose halves lie 32 bytes apart. `Sums`: how many products of
// vpmaddubsw are added in 16 bits.
template <int Sums>
EG_INLINE Ints panel_dot(const uint8_t (*w)[32], const int8_t* x) {
  Ints total = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int g = 0; g < 8; g += Sums) {
    __m256i shorts = _mm256_maddubs_epi16(load_bytes(w[g]), splat_group(x, g));
#pragma GCC unroll 8
    for (int i = 1; i < Sums; ++i) {
      shorts = _mm256_add_epi16(shorts,
                                _mm256_maddubs_epi16(load_bytes(w[g + i]), splat_group(x, g + i)));
    }
    total = g == 0 ? add_pairs(shorts) : _mm256_add_epi32(total, add_pairs(shorts));
  }
  return total;
}
EG_INLINE Ints panel_dot_4(const uint8_t (*w)[32], const int8_t* x) { return panel_dot<8>(w, x); }
EG_INLINE Ints panel_dot_5(const uint8_t (*w)[32], const int8_t* x) { return panel_dot<4>(w, x); }

EG_INLINE Ints panel_dot_signed(const uint8_t (*w)[32], const int8_t* x) {
  Ints total = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    total =
        _mm256_add_epi32(total, add_pairs(multiply_signed(load_bytes(w[g]), splat_group(x, g))));
  }
  return total;
}

// Weights of 6 bits less 32, each half times a factor: `factors` are two 16-bit numbers for each
// row; `x_sums` the sums of the halves of x.
EG_INLINE Ints panel_dot_6(const uint8_t (*w)[32], const int8_t* x, const void* factors,
                           const int16_t* x_sums) {
  const __m256i pairs = load_bytes(factors);
  const __m256i first = _mm256_or_si256(_mm256_and_si256(pairs, _mm256_set1_epi32(0xffff)),
                                        _mm256_slli_epi32(pairs, 16));
  const __m256i second = _mm256_blend_epi16(_mm256_srli_epi32(pairs, 16), pairs, 0xaa);
  Ints total = _mm256_slli_epi32(_mm256_madd_epi16(pairs, splat_4_bytes(x_sums)), 5);
  total = _mm256_sub_epi32(_mm256_setzero_si256(), total);
#pragma GCC unroll 4
  for (int g = 0; g < 8; g += 2) {
    const __m256i shorts =
        _mm256_add_epi16(_mm256_maddubs_epi16(load_bytes(w[g]), splat_group(x, g)),
                         _mm256_maddubs_epi16(load_bytes(w[g + 1]), splat_group(x, g + 1)));
    total = _mm256_add_epi32(total, _mm256_madd_epi16(shorts, g < 4 ? first : second));
  }
  return total;
}

// The largest magnitude of 32 numbers, as bits: a NaN is above infinity.
EG_INLINE uint32_t largest_bits(const float* x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i v = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v = _mm256_max_epi32(v, _mm256_and_si256(load_bytes(x + 8 * i), magnitude));
  }
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

// q = round(x * factor) for 32 numbers, in halves 32 bytes apart, and the sums of both.
EG_INLINE void quantize(const float* x, float factor, int8_t* q, int16_t* sums) {
  __m256i v[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_cvtps_epi32(mul(load(x + 8 * i), splat(factor)));
  }
  // The packs work on halves of 128 bits: their results' groups of 4 bytes are out of order.
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  const __m256i ordered =
      _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm256_castsi256_si128(ordered));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 32), _mm256_extracti128_si256(ordered, 1));
  // Sums of 8 magnitudes from 0, each 128 too large.
  const __m256i s =
      _mm256_sad_epu8(_mm256_xor_si256(ordered, splat_byte(-128)), _mm256_setzero_si256());
  const __m256i t = _mm256_add_epi64(s, _mm256_shuffle_epi32(s, 0x4e));
  sums[0] = static_cast<int16_t>(_mm256_extract_epi16(t, 0) - 16 * 128);
  sums[1] = static_cast<int16_t>(_mm256_extract_epi16(t, 8) - 16 * 128);
}

}  // namespace
}  // namespace avx2
}  // namespace executorch_ggml
