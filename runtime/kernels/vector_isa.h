// Vectors of floats for one instruction set: EG_ISA is its name, EG_WIDTH how many floats a
// register holds. A file for each set includes this, or a header of kernels that does, and is
// compiled for that set alone.
//
// Nothing inline from the standard library here: the linker could take this file's copy,
// compiled for a newer machine, for the whole program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define EG_INLINE inline __attribute__((always_inline))
#define EG_TEXT_OF(x) #x
#define EG_TEXT(x) EG_TEXT_OF(x)

namespace executorch_ggml {
namespace EG_ISA {
namespace {

constexpr int64_t kWidth = EG_WIDTH;

using Vec = float __attribute__((vector_size(kWidth * sizeof(float)), aligned(4), may_alias));
using Bits = int32_t __attribute__((vector_size(kWidth * sizeof(int32_t)), aligned(4), may_alias));
using Halves =
    uint16_t __attribute__((vector_size(kWidth * sizeof(uint16_t)), aligned(2), may_alias));

#if EG_WIDTH == 16
// For the masked forms of instructions: GCC 12 warns of the others, whose unused operand it
// leaves undefined.
constexpr __mmask16 kAll = 0xFFFF;
#endif

// Minus zero is nothing; to add zero, which makes -0 into 0, would be an instruction more.
EG_INLINE Vec splat(float value) { return value - Vec{}; }
EG_INLINE Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
EG_INLINE void store(float* p, Vec v) { *reinterpret_cast<Vec*>(p) = v; }

EG_INLINE Bits bits_of(Vec v) { return __builtin_bit_cast(Bits, v); }
EG_INLINE Vec from_bits(Bits v) { return __builtin_bit_cast(Vec, v); }

EG_INLINE Bits lane_numbers() {
  Bits numbers;
  for (int32_t i = 0; i < kWidth; ++i) {
    numbers[i] = i;
  }
  return numbers;
}

// The first `n` lanes, fewer than all; the others hold `fill`.
EG_INLINE Vec load_part(const float* p, int64_t n, float fill = 0.0F) {
#if EG_WIDTH == 16
  return _mm512_mask_loadu_ps(splat(fill), static_cast<__mmask16>((1U << n) - 1), p);
#else
  float lanes[kWidth];
  for (int64_t i = 0; i < kWidth; ++i) {
    lanes[i] = i < n ? p[i] : fill;
  }
  return load(lanes);
#endif
}

EG_INLINE void store_part(float* p, int64_t n, Vec v) {
#if EG_WIDTH == 16
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << n) - 1), v);
#else
  for (int64_t i = 0; i < n; ++i) {
    p[i] = v[i];
  }
#endif
}

// The larger of each lane; a NaN of `b` is taken, one of `a` is not.
EG_INLINE Vec max_of(Vec a, Vec b) { return a > b ? a : b; }

// Of floats or vectors. A NaN of `v` stays, as in torch.
template <typename Value>
EG_INLINE Value limited(Value v, Value low, Value high) {
  v = v < low ? low : v;
  return v > high ? high : v;
}

// op over all lanes, halves with halves: of a sum, fewer roundings than one after another.
template <typename Op>
EG_INLINE float folded(Vec v, Op op) {
#if EG_WIDTH == 16
  constexpr int kSwapPairs = 0x4E;
  constexpr int kSwapNeighbours = 0xB1;
  v = op(v, Vec(_mm512_maskz_shuffle_f32x4(kAll, v, v, kSwapPairs)));
  v = op(v, Vec(_mm512_maskz_shuffle_f32x4(kAll, v, v, kSwapNeighbours)));
  v = op(v, Vec(_mm512_maskz_permute_ps(kAll, v, kSwapPairs)));
  v = op(v, Vec(_mm512_maskz_permute_ps(kAll, v, kSwapNeighbours)));
  return v[0];
#else
  float lanes[kWidth];
  store(lanes, v);
#pragma GCC unroll 8
  for (int64_t half = kWidth / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < half; ++i) {
      lanes[i] = op(lanes[i], lanes[i + half]);
    }
  }
  return lanes[0];
#endif
}

EG_INLINE float sum_of(Vec v) {
  return folded(v, [](auto a, auto b) { return a + b; });
}

EG_INLINE float largest_of(Vec v) {
  return folded(v, [](auto a, auto b) { return a > b ? a : b; });
}

// The lanes of even places in a and then b, and those of odd places.
EG_INLINE Vec evens(Vec a, Vec b) {
#if EG_WIDTH == 16
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif EG_WIDTH == 8
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
  return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}

EG_INLINE Vec odds(Vec a, Vec b) {
#if EG_WIDTH == 16
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif EG_WIDTH == 8
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  return __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

// The other way: lanes of a and b by turns, of their lower and of their upper halves.
EG_INLINE Vec interleaved_low(Vec a, Vec b) {
#if EG_WIDTH == 16
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif EG_WIDTH == 8
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}

EG_INLINE Vec interleaved_high(Vec a, Vec b) {
#if EG_WIDTH == 16
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
#elif EG_WIDTH == 8
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

// Lanes 0 and 1 of a, 2 and 3 of a, ..., of b.
EG_INLINE Vec pair_sums(Vec a, Vec b) { return evens(a, b) + odds(a, b); }

// The sum of each of N vectors that lie one after another; of kWidth, lane i is that of vector i.
template <int64_t N>
EG_INLINE Vec sums_of(const float* vectors) {
  if constexpr (N == 1) {
    return load(vectors);
  } else {
    return pair_sums(sums_of<N / 2>(vectors), sums_of<N / 2>(vectors + N / 2 * kWidth));
  }
}

EG_INLINE Vec magnitude(Vec v) { return from_bits(bits_of(v) & 0x7FFFFFFF); }

// --- F16 --------------------------------------------------------------------------------------

EG_INLINE Vec load_f16(const ggml_fp16_t* p) {
#if EG_WIDTH == 16
  return _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif EG_WIDTH == 8
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  // Without denormal floats, which are slow.
  constexpr int32_t kExponent = 1 << 23;
  constexpr int32_t kRebias = (127 - 15) * kExponent;
  const Bits half = __builtin_convertvector(*reinterpret_cast<const Halves*>(p), Bits);
  const Bits shifted = (half & 0x7FFF) << 13;
  const Vec denormal = from_bits(shifted | (kRebias + kExponent)) - 0x1p-14F;
  const Bits finite = shifted < kExponent ? bits_of(denormal) : shifted + kRebias;
  const Bits value = shifted >= 0x1F * kExponent ? shifted | 0x7F800000 : finite;
  return from_bits(value | (half & 0x8000) << 16);
#endif
}

EG_INLINE float from_f16(ggml_fp16_t half) {
#if EG_WIDTH == 4
  return ggml_fp16_to_fp32(half);
#else
  return _cvtsh_ss(half);
#endif
}

// The first `n` lanes, fewer than all; the others hold `fill`.
EG_INLINE Vec load_f16_part(const ggml_fp16_t* p, int64_t n, ggml_fp16_t fill = 0) {
  ggml_fp16_t lanes[kWidth];
  for (int64_t i = 0; i < kWidth; ++i) {
    lanes[i] = i < n ? p[i] : fill;
  }
  return load_f16(lanes);
}

// Bytes with a sign, as floats.
EG_INLINE Vec load_bytes(const int8_t* p) {
#if EG_WIDTH == 16
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_maskz_cvtepi32_ps(kAll, _mm512_maskz_cvtepi8_epi32(kAll, bytes));
#elif EG_WIDTH == 8
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  Vec values;
  for (int64_t i = 0; i < kWidth; ++i) {
    values[i] = p[i];
  }
  return values;
#endif
}

// Round to nearest even.
EG_INLINE void store_f16(ggml_fp16_t* p, Vec v) {
#if EG_WIDTH == 16
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(p),
      _mm512_maskz_cvtps_ph(kAll, v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif EG_WIDTH == 8
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  float lanes[kWidth];
  store(lanes, v);
  ggml_fp32_to_fp16_row(lanes, p, kWidth);
#endif
}

// --- exp --------------------------------------------------------------------------------------

// e^x = (1 + fraction) 2^exponent, the fraction within [-0.3, 0.42].
struct Exp {
  Vec fraction;
  Vec exponent;  // a whole number
};

// Of hi + lo, where lo is small beside 1 and hi is in [-1e4, 1e4] (or NaN, which stays).
EG_INLINE Exp exp_parts(Vec hi, Vec lo) {
  constexpr float kLog2E = 0x1.715476p+0F;
  constexpr float kRound = 0x1.8p+23F;        // adding it rounds to a whole number
  constexpr float kLn2Hi = 0x1.63p-1F;        // few bits: a product with an exponent is exact
  constexpr float kLn2Lo = -0x1.bd0106p-13F;  // ln 2 - kLn2Hi
  const Vec exponent = (hi * kLog2E + kRound) - kRound;
  const Vec r = ((hi - exponent * kLn2Hi) - exponent * kLn2Lo) + lo;
  // (e^r - 1 - r) / r^2 within 2^-27 of e^r over half of ln 2 on both sides.
  Vec q = splat(0x1.6c6ap-10F);
  q = q * r + 0x1.120b5cp-7F;
  q = q * r + 0x1.5555bap-5F;
  q = q * r + 0x1.5554dep-3F;
  q = q * r + 0.5F;
  return {q * (r * r) + r, exponent};
}

// v 2^exponent, for |exponent| <= 252; denormal results are rounded twice at worst.
EG_INLINE Vec times_power_of_two(Vec v, Vec exponent) {
#if EG_WIDTH == 16
  return _mm512_maskz_scalef_ps(kAll, v, exponent);
#else
  const Bits whole = __builtin_convertvector(exponent, Bits);
  const Bits half = whole >> 1;
  return v * from_bits((half + 127) << 23) * from_bits((whole - half + 127) << 23);
#endif
}

// Within 1 ulp (of the least normal number below it); NaN stays NaN.
EG_INLINE Vec exp_of(Vec x) {
  constexpr float kLeast = -104.0F;  // e^x is zero from here
  constexpr float kMost = 89.0F;     // e^x is infinite from here
  x = x < kLeast ? splat(kLeast) : x;
  x = x > kMost ? splat(kMost) : x;
  const Exp e = exp_parts(x, Vec{});
  return times_power_of_two(e.fraction + 1.0F, e.exponent);
}

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
