// How each weight type is read: see matmul_kernels_avx512_q8.h.
//
// No load goes beyond its unit, which may be the last of a mapped file.
#pragma once

#include "runtime/kernels/matmul_kernels_avx512_q8.h"

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

constexpr int kOrAnd = 0xF8;  // a | (b & c)

// With these bits of `high`, which are 0 in `q`.
EG_INLINE __m512i with_bits(__m512i q, __m512i high, int bits) {
  return _mm512_ternarylogic_epi32(q, high, bytes_of(bits), kOrAnd);
}

EG_INLINE __m512i low_nibbles(__m512i q) { return _mm512_and_si512(q, bytes_of(0x0F)); }
EG_INLINE __m512i high_nibbles(__m512i q) { return low_nibbles(_mm512_srli_epi16(q, 4)); }

// Of lanes that hold the same bytes twice.
EG_INLINE __m512i nibbles(__m512i q, __m512i shifts) {
  return low_nibbles(_mm512_srlv_epi32(q, shifts));
}

EG_INLINE __m512i four_lanes(const uint8_t* a, const uint8_t* b, const uint8_t* c,
                             const uint8_t* d) {
  const auto part = [](const uint8_t* p) __attribute__((always_inline)) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  };
  return _mm512_inserti32x4(
      _mm512_inserti32x4(_mm512_inserti32x4(load16(a), part(b), 1), part(c), 2), part(d), 3);
}

// Element b of lane r to element r of lane b.
EG_INLINE __m512i across_lanes(__m512i v) {
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
}

// This word of each of the four lanes, widened: in every lane of the result all four.
EG_INLINE __m512 word_of_lanes(__m512i v, int word) {
  const int64_t first = word;
  const int64_t four = first | (first + 8) << 16 | (first + 16) << 32 | (first + 24) << 48;
  return widen(_mm512_permutexvar_epi16(_mm512_set1_epi64(four), v));
}

// One word from each of four blocks in each of four rows, `load` gives a row's words: of block b
// and row r in the element 4 * b + r.
template <class Load>
EG_INLINE __m512 quad(__m512i places, Load load) {
  __m512i words = _mm512_permutexvar_epi16(places, load(0));
#pragma GCC unroll 3
  for (int r = 1; r < 4; ++r) {
    words = _mm512_mask_permutexvar_epi16(words, 0x1111U << r, places, load(r));
  }
  return widen(words);
}

struct Q8_0 {
  static constexpr int kGroups = 1;
  static constexpr size_t kBlockBytes = 34;
  static constexpr size_t kBytes = 4 * kBlockBytes;
  static constexpr int kOffset = 128;
  static constexpr bool kQuads = false;
  static constexpr bool kSplit = false;
  static constexpr int kMin = 0;

  static EG_INLINE __m512 scales(const uint8_t* p) {
    const __m512i first = _mm512_permutexvar_epi16(in_lanes(0, 17, 0, 0), load(p));
    const __m512i both = _mm512_mask_permutexvar_epi16(first, 0xFF00, in_lanes(0, 0, 0, 17),
                                                       load(p + 2 * kBlockBytes));
    return widen(both);
  }
  static EG_INLINE __m512 activations(const Group& x) { return x.spread(x.block->scale); }
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
  static constexpr bool kQuads = true;
  static constexpr bool kAlternates = false;
  static constexpr bool kSplit = false;
  static constexpr int kMin = 0;

  static EG_INLINE __m512 scales(const uint8_t* p) {
    return widen(_mm512_permutexvar_epi16(in_lanes(0, 9, 18, 27), load(p)));
  }
  static EG_INLINE __m512 activations(const Group& x) { return x.spread(x.block->scale); }
  static EG_INLINE __m512 spread(__m512 scales, int /*group*/, int /*half*/) { return scales; }
  static EG_INLINE void quad_scales(const uint8_t* const p[4], __m512 scales[1][2],
                                    __m512 /*minima*/[1]) {
    scales[0][1] = quad(in_lanes(0, 9, 18, 27),
                        [p](int r) __attribute__((always_inline)) { return load(p[r]); });
  }
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

// For Q4_1 and Q5_1: the places of four scales, each with its minimum after it, among words.
EG_INLINE __m512i with_minima(short a, short b, short c, short d) {
  const auto four = [](int i, int j, int k, int l) __attribute__((always_inline)) {
    return static_cast<int64_t>(i) | static_cast<int64_t>(j) << 16 | static_cast<int64_t>(k) << 32 |
           static_cast<int64_t>(l) << 48;
  };
  return _mm512_setr_epi64(four(a, b, c, d), 0, four(a + 1, b + 1, c + 1, d + 1), 0, 0, 0, 0, 0);
}

// The same of the activations.
EG_INLINE __m512 scales_and_sums(const Group& x) {
  return _mm512_maskz_loadu_ps(0x0F0F, x.block->scale + x.half * kGroupBlocks);
}

struct Q4_1 {
  static constexpr int kGroups = 1;
  static constexpr size_t kBlockBytes = 20;
  static constexpr size_t kBytes = 4 * kBlockBytes;
  static constexpr int kOffset = 0;
  static constexpr bool kQuads = true;
  static constexpr bool kAlternates = false;
  static constexpr bool kSplit = false;
  static constexpr int kMin = 1;

  static EG_INLINE __m512 scales(const uint8_t* p) {
    return widen(_mm512_maskz_permutexvar_epi16(0x0F0F, with_minima(0, 10, 20, 30), load(p)));
  }
  static EG_INLINE __m512 activations(const Group& x) { return scales_and_sums(x); }
  static EG_INLINE __m512 spread(__m512 scales, int /*group*/, int /*half*/) {
    return _mm512_permutexvar_ps(lane_numbers(0, 1, 2, 3), scales);
  }
  static EG_INLINE void quad_scales(const uint8_t* const p[4], __m512 scales[1][2],
                                    __m512 minima[1]) {
    const auto row = [p](int r) __attribute__((always_inline)) { return load(p[r]); };
    scales[0][1] = quad(in_lanes(0, 10, 20, 30), row);
    minima[0] = quad(in_lanes(1, 11, 21, 31), row);
  }
  static EG_INLINE void quants(const uint8_t* p, int /*group*/, __m512i q[2]) {
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 14, 15);
    const __m512i all = _mm512_mask_permutexvar_epi32(load16(p + 4), 0xFFF0, places, load(p + 16));
    q[0] = low_nibbles(all);
    q[1] = high_nibbles(all);
  }
};

// The fifth bits of a unit's four blocks, 32 each, which lie `kStride` bytes apart.
template <size_t kStride>
EG_INLINE void add_fifth_bits(const uint8_t* p, __m512i q[2]) {
  const auto two = [p](size_t block, int shift) __attribute__((always_inline)) {
    const uint64_t first = load4(p + block * kStride) >> shift & 0xFFFF;
    const uint64_t second = load4(p + (block + 1) * kStride) >> shift & 0xFFFF;
    return first | second << 16;
  };
  const __m512i bit = bytes_of(0x10);
  q[0] = _mm512_mask_add_epi8(q[0], two(0, 0) | two(2, 0) << 32, q[0], bit);
  q[1] = _mm512_mask_add_epi8(q[1], two(0, 16) | two(2, 16) << 32, q[1], bit);
}

struct Q5_0 {
  static constexpr int kGroups = 1;
  static constexpr size_t kBlockBytes = 22;
  static constexpr size_t kBytes = 4 * kBlockBytes;
  static constexpr int kOffset = 16;
  static constexpr bool kQuads = false;
  static constexpr bool kSplit = false;
  static constexpr int kMin = 0;

  static EG_INLINE __m512 scales(const uint8_t* p) {
    const __m512i first = _mm512_permutexvar_epi16(in_lanes(0, 11, 22, 0), load(p));
    return widen(_mm512_mask_permutexvar_epi16(first, 0xF000, in_lanes(0, 0, 0, 21), load(p + 24)));
  }
  static EG_INLINE __m512 activations(const Group& x) { return x.spread(x.block->scale); }
  static EG_INLINE __m512 spread(__m512 scales, int /*group*/, int /*half*/) { return scales; }
  static EG_INLINE void quants(const uint8_t* p, int /*group*/, __m512i q[2]) {
    const __m512i places = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 20, 19, 18, 17, 16, 15,
                                            14, 13, 9, 8, 7, 6, 5, 4, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i all =
        _mm512_mask_permutexvar_epi16(load16(p + 6), 0xFFFFFF00U, places, load(p + 24));
    q[0] = low_nibbles(all);
    q[1] = high_nibbles(all);
    add_fifth_bits<kBlockBytes>(p + 2, q);
  }
};

struct Q5_1 {
  static constexpr int kGroups = 1;
  static constexpr size_t kBlockBytes = 24;
  static constexpr size_t kBytes = 4 * kBlockBytes;
  static constexpr int kOffset = 0;
  static constexpr bool kQuads = false;
  static constexpr bool kSplit = false;
  static constexpr int kMin = 1;

  static EG_INLINE __m512 scales(const uint8_t* p) {
    const __m512i first =
        _mm512_maskz_permutexvar_epi16(0x0707, with_minima(0, 12, 24, 0), load(p));
    return widen(
        _mm512_mask_permutexvar_epi16(first, 0x0808, with_minima(0, 0, 0, 20), load(p + 32)));
  }
  static EG_INLINE __m512 activations(const Group& x) { return scales_and_sums(x); }
  static EG_INLINE __m512 spread(__m512 scales, int /*group*/, int /*half*/) {
    return _mm512_permutexvar_ps(lane_numbers(0, 1, 2, 3), scales);
  }
  static EG_INLINE void quants(const uint8_t* p, int /*group*/, __m512i q[2]) {
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15);
    const __m512i all = _mm512_mask_permutexvar_epi32(load16(p + 8), 0xFFF0, places, load(p + 32));
    q[0] = low_nibbles(all);
    q[1] = high_nibbles(all);
    add_fifth_bits<kBlockBytes>(p + 4, q);
  }
};

// For Q4_K and Q5_K: the eight scales and the eight minima of a unit, six bits each.
EG_INLINE __m512 packed_scales(const uint8_t* p) {
  const __m128i stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  // Four scales, the lower bits of four more, four minima, the lower bits of four more; then the
  // upper bits, which are beside the first four.
  const __m128i low = _mm_srlv_epi32(
      _mm_shuffle_epi8(stored,
                       _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15)),
      _mm_setr_epi32(0, 0, 0, 4));
  const __m128i high = _mm_srli_epi32(
      _mm_shuffle_epi8(stored,
                       _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11)),
      2);
  const __m128i both = _mm_ternarylogic_epi32(
      _mm_and_si128(low, _mm_setr_epi32(0x3F3F3F3F, 0x0F0F0F0F, 0x3F3F3F3F, 0x0F0F0F0F)), high,
      _mm_set1_epi8(0x30), kOrAnd);
  // Of all scales eight times, then of all minima.
  const __m256i halves = _mm256_set1_epi32(static_cast<int32_t>(load4(p)));
  const __m256i picked = _mm256_shuffle_epi8(
      halves, _mm256_setr_epi16(0x0100, 0x0100, 0x0100, 0x0100, 0x0100, 0x0100, 0x0100, 0x0100,
                                0x0302, 0x0302, 0x0302, 0x0302, 0x0302, 0x0302, 0x0302, 0x0302));
  return _mm512_mul_ps(_mm512_cvtph_ps(picked), _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(both)));
}

// Two words twice, in every lane.
EG_INLINE __m512i twice(uint32_t a, uint32_t b) {
  return _mm512_broadcast_i32x4(_mm_setr_epi32(static_cast<int32_t>(a), static_cast<int32_t>(a),
                                               static_cast<int32_t>(b), static_cast<int32_t>(b)));
}

// The same of four rows, in the places of quad_scales.
EG_INLINE void quad_packed_scales(const uint8_t* const p[4], __m512 scales[2][2],
                                  __m512 minima[2]) {
  const __m512i stored = four_lanes(p[0], p[1], p[2], p[3]);
  // In a word two scales and their minima, of which the last four have their upper bits beside the
  // first four.
  const __m512i low =
      _mm512_shuffle_epi8(stored, _mm512_broadcast_i32x4(_mm_setr_epi8(
                                      4, 5, 8, 9, 6, 7, 10, 11, 12, 13, 12, 13, 14, 15, 14, 15)));
  const __m512i high =
      _mm512_shuffle_epi8(stored, _mm512_broadcast_i32x4(_mm_setr_epi8(
                                      -1, -1, -1, -1, -1, -1, -1, -1, 4, 5, 8, 9, 6, 7, 10, 11)));
  constexpr int kSelect = 0xCA;  // a ? b : c, bit by bit
  const __m512i shifted =
      _mm512_ternarylogic_epi32(twice(0, 0xFFFF0000), _mm512_srli_epi32(low, 4), low, kSelect);
  const __m512i all = across_lanes(
      _mm512_ternarylogic_epi32(_mm512_and_si512(shifted, twice(0x3F3F3F3F, 0x0F0F0F0F)),
                                _mm512_srli_epi32(high, 2), bytes_of(0x30), kOrAnd));
  const auto scaled = [stored, all](int word, unsigned shift) __attribute__((always_inline)) {
    const __m512i n = _mm512_and_si512(_mm512_srli_epi32(all, shift), _mm512_set1_epi32(0xFF));
    return _mm512_mul_ps(word_of_lanes(stored, word), _mm512_cvtepi32_ps(n));
  };
  scales[0][1] = scaled(0, 0);
  scales[1][1] = scaled(0, 8);
  minima[0] = scaled(1, 16);
  minima[1] = scaled(1, 24);
}

EG_INLINE __m512 spread_packed(__m512 scales, int group) {
  const int first = 4 * group;
  return _mm512_permutexvar_ps(lane_numbers(first, first + 1, first + 2, first + 3), scales);
}

// The nibbles of 64 bytes: two blocks in the low ones of the first 32, and in the high ones.
EG_INLINE void packed_nibbles(__m512i stored, __m512i q[2]) {
  const __m512i shifts = lane_numbers(0, 4, 0, 4);
  q[0] = nibbles(_mm512_shuffle_i64x2(stored, stored, 0xA0), shifts);
  q[1] = nibbles(_mm512_shuffle_i64x2(stored, stored, 0xF5), shifts);
}

// Superblocks of eight blocks with scales and minima of 6 bits.
struct PackedScales {
  static constexpr int kGroups = 2;
  static constexpr int kOffset = 0;
  static constexpr bool kSplit = false;
  static constexpr int kMin = -1;

  static EG_INLINE __m512 scales(const uint8_t* p) { return packed_scales(p); }
  static EG_INLINE __m512 activations(const Group& x) { return _mm512_load_ps(x.block->scale); }
  static EG_INLINE __m512 spread(__m512 scales, int group, int /*half*/) {
    return spread_packed(scales, group);
  }
};

struct Q4_K : PackedScales {
  static constexpr size_t kBytes = 144;
  static constexpr size_t kBlockBytes = kBytes / 8;  // a row ends with a unit
  static constexpr bool kQuads = true;
  static constexpr bool kAlternates = true;

  static EG_INLINE void quad_scales(const uint8_t* const p[4], __m512 scales[2][2],
                                    __m512 minima[2]) {
    quad_packed_scales(p, scales, minima);
  }
  static EG_INLINE void quad_quants(const uint8_t* p, int odd, __m512i q[2]) {
    const __m512i first = load(p + 16);
    const __m512i second = load(p + 80);
    const __m512i both[2] = {even_lanes(first, second), odd_lanes(first, second)};
    q[0] = odd == 0 ? low_nibbles(both[0]) : high_nibbles(both[0]);
    q[1] = odd == 0 ? low_nibbles(both[1]) : high_nibbles(both[1]);
  }
  static EG_INLINE void quants(const uint8_t* p, int group, __m512i q[2]) {
    packed_nibbles(load(p + 16 + 64 * group), q);
  }
};

struct Q5_K : PackedScales {
  static constexpr size_t kBytes = 176;
  static constexpr size_t kBlockBytes = kBytes / 8;  // a row ends with a unit
  static constexpr bool kQuads = false;

  static EG_INLINE void quants(const uint8_t* p, int group, __m512i q[2]) {
    packed_nibbles(load(p + 48 + 64 * group), q);
    // Block by block a bit of each byte, which turns to the fifth.
    const __m512i turns = group == 0 ? lane_numbers(4, 3, 2, 1) : lane_numbers(0, 31, 30, 29);
    q[0] = with_bits(q[0], _mm512_rolv_epi32(load16_spread(p + 16), turns), 0x10);
    q[1] = with_bits(q[1], _mm512_rolv_epi32(load16_spread(p + 32), turns), 0x10);
  }
};

struct Q6_K {
  static constexpr int kGroups = 2;
  static constexpr size_t kBytes = 210;
  static constexpr size_t kBlockBytes = kBytes / 8;  // a row ends with a unit
  static constexpr int kOffset = 32;
  static constexpr bool kQuads = true;
  static constexpr bool kAlternates = false;
  static constexpr bool kSplit = true;
  static constexpr int kMin = 0;

  static EG_INLINE __m512 scales(const uint8_t* p) {
    const __m128i stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 192));
    const __m512 d =
        widen(_mm512_castsi256_si512(_mm256_set1_epi16(static_cast<short>(p[208] | p[209] << 8))));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(stored)));
  }
  static EG_INLINE __m512 activations(const Group& x) {
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                                 _mm512_castps256_ps512(_mm256_load_ps(x.block->scale)));
  }
  static EG_INLINE __m512 spread(__m512 scales, int group, int i) {
    const int first = 8 * group + 4 * i;
    return _mm512_permutexvar_ps(lane_numbers(first, first + 1, first + 2, first + 3), scales);
  }
  static EG_INLINE void quad_scales(const uint8_t* const p[4], __m512 scales[2][2],
                                    __m512 /*minima*/[2]) {
    // Row by row the scales that lanes of the same number have, then lane by lane.
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i all = across_lanes(
        _mm512_shuffle_epi8(four_lanes(p[0] + 192, p[1] + 192, p[2] + 192, p[3] + 192), order));
    // The last word is the scale of the scales.
    const __m512 d = word_of_lanes(four_lanes(p[0] + 194, p[1] + 194, p[2] + 194, p[3] + 194), 7);
    const auto scale = [d](__m512i n) __attribute__((always_inline)) {
      return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_srai_epi32(n, 24)));
    };
    scales[0][0] = scale(_mm512_slli_epi32(all, 24));
    scales[0][1] = scale(_mm512_slli_epi32(all, 16));
    scales[1][0] = scale(_mm512_slli_epi32(all, 8));
    scales[1][1] = scale(all);
  }
  static EG_INLINE void quants(const uint8_t* p, int group, __m512i q[2]) {
    const __m512i low = load(p + 64 * group);
    const __m512i high = _mm512_broadcast_i64x4(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 128 + 32 * group)));
    // To the bits 4 and 5.
    const __m512i first = _mm512_rolv_epi32(high, lane_numbers(4, 4, 2, 2));
    const __m512i second = _mm512_rolv_epi32(high, lane_numbers(0, 0, 30, 30));
    q[0] = with_bits(low_nibbles(low), first, 0x30);
    q[1] = with_bits(high_nibbles(low), second, 0x30);
  }
};

}  // namespace
}  // namespace executorch_ggml::avx512
