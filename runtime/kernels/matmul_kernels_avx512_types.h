// How each weight type is read: see matmul_kernels_avx512.h.
//
// No load goes beyond its unit, which may be the last of a mapped file.
#pragma once

#include "runtime/kernels/matmul_kernels_avx512.h"

namespace executorch_ggml::avx512 {
namespace {

EG_INLINE __m512i bytes_of(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }

EG_INLINE __m512i load(const uint8_t* p) { return _mm512_loadu_si512(p); }

EG_INLINE __m512i load16(const uint8_t* p) {
  return _mm512_zextsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// In all four lanes.
EG_INLINE __m512i load16_spread(const uint8_t* p) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

EG_INLINE __m512i load32(const uint8_t* p) {
  return _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

EG_INLINE uint32_t load4(const uint8_t* p) {
  uint32_t value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

// The 16 halves at these places of 32, widened.
EG_INLINE __m512 widen(__m512i halves) { return _mm512_cvtph_ps(_mm512_castsi512_si256(halves)); }

// Places of words: `a` four times, then b, c and d.
EG_INLINE __m512i in_lanes(short a, short b, short c, short d) {
  const auto pair = [](short x) __attribute__((always_inline)) {
    return static_cast<int64_t>(static_cast<uint16_t>(x)) * 0x0001000100010001LL;
  };
  return _mm512_setr_epi64(pair(a), pair(b), pair(c), pair(d), 0, 0, 0, 0);
}

EG_INLINE __m512i low_nibbles(__m512i q) { return _mm512_and_si512(q, bytes_of(0x0F)); }
EG_INLINE __m512i high_nibbles(__m512i q) { return low_nibbles(_mm512_srli_epi16(q, 4)); }

// Of lanes that hold the same bytes twice.
EG_INLINE __m512i nibbles(__m512i q, __m512i shifts) {
  return low_nibbles(_mm512_srlv_epi32(q, shifts));
}

struct Q8_0 {
  static constexpr int kGroups = 1;
  static constexpr size_t kBlockBytes = 34;
  static constexpr size_t kBytes = 4 * kBlockBytes;
  static constexpr int kOffset = 128;
  static constexpr bool kSplit = false;
  static constexpr int kMin = 0;

  static EG_INLINE __m512 scales(const uint8_t* p) {
    const __m512i first = _mm512_permutexvar_epi16(in_lanes(0, 17, 0, 0), load(p));
    const __m512i both = _mm512_mask_permutexvar_epi16(first, 0xFF00, in_lanes(0, 0, 0, 17),
                                                       load(p + 2 * kBlockBytes));
    return widen(both);
  }
  static EG_INLINE __m512 spread(__m512 scales, int /*group*/, int /*half*/) { return scales; }
  static EG_INLINE void quants(const uint8_t* p, int /*group*/, __m512i q[2]) {
    const __m512i first = _mm512_inserti64x4(load32(p + 2), part(p + 36), 1);
    const __m512i second = _mm512_inserti64x4(load32(p + 70), part(p + 104), 1);
    q[0] = _mm512_xor_si512(_mm512_shuffle_i64x2(first, second, 0x88), bytes_of(0x80));
    q[1] = _mm512_xor_si512(_mm512_shuffle_i64x2(first, second, 0xDD), bytes_of(0x80));
  }

 private:
  static EG_INLINE __m256i part(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
};

struct Q4_0 {
  static constexpr int kGroups = 1;
  static constexpr size_t kBlockBytes = 18;
  static constexpr size_t kBytes = 4 * kBlockBytes;
  static constexpr int kOffset = 8;
  static constexpr bool kSplit = false;
  static constexpr int kMin = 0;

  static EG_INLINE __m512 scales(const uint8_t* p) {
    return widen(_mm512_permutexvar_epi16(in_lanes(0, 9, 18, 27), load(p)));
  }
  static EG_INLINE __m512 spread(__m512 scales, int /*group*/, int /*half*/) { return scales; }
  static EG_INLINE void quants(const uint8_t* p, int /*group*/, __m512i q[2]) {
    const __m512i places =
        _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 22, 21, 20, 19, 18, 17, 16, 15, 13, 12, 11,
                         10, 9, 8, 7, 6, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i all =
        _mm512_mask_permutexvar_epi16(load16(p + 2), 0xFFFFFF00U, places, load(p + 8));
    q[0] = low_nibbles(all);
    q[1] = high_nibbles(all);
  }
};

struct Q6_K {
  static constexpr int kGroups = 2;
  static constexpr size_t kBytes = 210;
  static constexpr size_t kBlockBytes = kBytes / 8;  // a row ends with a unit
  static constexpr int kOffset = 32;
  static constexpr bool kSplit = true;
  static constexpr int kMin = 0;

  static EG_INLINE __m512 scales(const uint8_t* p) {
    const __m128i stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 192));
    const __m512 d =
        widen(_mm512_castsi256_si512(_mm256_set1_epi16(static_cast<short>(p[208] | p[209] << 8))));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(stored)));
  }
  static EG_INLINE __m512 spread(__m512 scales, int group, int half) {
    const int first = 8 * group + half;
    return _mm512_permutexvar_ps(lane_numbers(first, first + 2, first + 4, first + 6), scales);
  }
  static EG_INLINE void quants(const uint8_t* p, int group, __m512i q[2]) {
    const __m512i low = load(p + 64 * group);
    const uint8_t* const high = p + 128 + 32 * group;
    const __m512i shifts = lane_numbers(0, 0, 4, 4);
    const __m512i a = nibbles(_mm512_shuffle_i64x2(low, low, 0x88), shifts);
    const __m512i b = nibbles(_mm512_shuffle_i64x2(low, low, 0xDD), shifts);
    // To the bits 4 and 5.
    const __m512i turns = lane_numbers(4, 2, 0, 30);
    q[0] = with_bits(a, _mm512_rolv_epi32(load16_spread(high), turns));
    q[1] = with_bits(b, _mm512_rolv_epi32(load16_spread(high + 16), turns));
  }

 private:
  static EG_INLINE __m512i with_bits(__m512i q, __m512i high) {
    return _mm512_ternarylogic_epi32(q, high, bytes_of(0x30), 0xF8);  // q | (high & mask)
  }
};

}  // namespace
}  // namespace executorch_ggml::avx512
