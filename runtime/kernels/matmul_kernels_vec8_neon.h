// The vectors of matmul_kernels_vec8_isa.h for AArch64 with the dot product instructions: pairs of
// registers. Weights of at most 7 bits are multiplied as signed ones.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#define EG_INLINE inline __attribute__((always_inline))

namespace executorch_ggml {
namespace neon {
namespace {

struct Floats {  // 8
  float32x4_t a;
  float32x4_t b;
};
struct Ints {  // 8
  int32x4_t a;
  int32x4_t b;
};
struct Bytes {  // 32
  uint8x16_t a;
  uint8x16_t b;
};

constexpr int64_t kPrefetchBytes = 6144;  // ahead of what is multiplied, rows that follow included

EG_INLINE Floats load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
EG_INLINE void store(float* p, Floats v) {
  vst1q_f32(p, v.a);
  vst1q_f32(p + 4, v.b);
}
EG_INLINE Floats splat(float v) { return {vdupq_n_f32(v), vdupq_n_f32(v)}; }
EG_INLINE Floats add(Floats x, Floats y) { return {vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b)}; }
EG_INLINE Floats mul(Floats x, Floats y) { return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b)}; }
EG_INLINE Floats fma(Floats x, Floats y, Floats z) {
  return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b)};
}
EG_INLINE Floats to_floats(Ints v) { return {vcvtq_f32_s32(v.a), vcvtq_f32_s32(v.b)}; }

EG_INLINE float sum(Floats v) { return vaddvq_f32(vaddq_f32(v.a, v.b)); }
EG_INLINE void sum4(const Floats (&v)[4], float* out) {
  const float32x4_t low = vpaddq_f32(vaddq_f32(v[0].a, v[0].b), vaddq_f32(v[1].a, v[1].b));
  const float32x4_t high = vpaddq_f32(vaddq_f32(v[2].a, v[2].b), vaddq_f32(v[3].a, v[3].b));
  vst1q_f32(out, vpaddq_f32(low, high));
}

EG_INLINE uint8x16_t load16(const void* p) { return vld1q_u8(static_cast<const uint8_t*>(p)); }
EG_INLINE Floats widen_f16(uint16x8_t v) {
  const float16x8_t halves = vreinterpretq_f16_u16(v);
  return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}
EG_INLINE Floats load_f16(const void* p) { return widen_f16(vreinterpretq_u16_u8(load16(p))); }
EG_INLINE Floats load_bf16(const void* p) {
  const uint16x8_t v = vreinterpretq_u16_u8(load16(p));
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(v), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(v, 16))};
}

EG_INLINE uint16_t half_bits(const uint8_t* p) {
  uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return bits;
}

// n F16 numbers, `stride` bytes apart; the lanes beyond hold the first one.
EG_INLINE Floats gather_f16(const uint8_t* p, size_t stride, int n) {
  uint16x8_t v = vdupq_n_u16(half_bits(p));
#pragma GCC unroll 8
  for (int i = 1; i < 8; ++i) {
    v[i] = half_bits(i < n ? p + static_cast<size_t>(i) * stride : p);
  }
  return widen_f16(v);
}
EG_INLINE Floats splat_f16(const uint8_t* p) { return widen_f16(vdupq_n_u16(half_bits(p))); }

EG_INLINE Bytes load_bytes(const void* p) {
  return {load16(p), load16(static_cast<const uint8_t*>(p) + 16)};
}
EG_INLINE void store_bytes(void* p, Bytes v) {
  vst1q_u8(static_cast<uint8_t*>(p), v.a);
  vst1q_u8(static_cast<uint8_t*>(p) + 16, v.b);
}
EG_INLINE Bytes either(Bytes x, Bytes y) { return {vorrq_u8(x.a, y.a), vorrq_u8(x.b, y.b)}; }

// Halves of 16 bytes: two, or one twice.
EG_INLINE Bytes load_halves(const void* a, const void* b) { return {load16(a), load16(b)}; }
EG_INLINE Bytes load_twice(const void* p) { return {load16(p), load16(p)}; }

EG_INLINE Bytes masked(Bytes v, uint8_t mask) {
  return {vandq_u8(v.a, vdupq_n_u8(mask)), vandq_u8(v.b, vdupq_n_u8(mask))};
}
// Shifts to the left, each half by its own count; negative ones to the right.
EG_INLINE Bytes shifted(Bytes v, int a, int b) {
  return {vshlq_u8(v.a, vdupq_n_s8(static_cast<int8_t>(a))),
          vshlq_u8(v.b, vdupq_n_s8(static_cast<int8_t>(b)))};
}
EG_INLINE Bytes low_nibbles(Bytes v) { return masked(v, 15); }
EG_INLINE Bytes high_nibbles(Bytes v) { return {vshrq_n_u8(v.a, 4), vshrq_n_u8(v.b, 4)}; }
// Of a half that was loaded twice: the low ones, then the high ones.
EG_INLINE Bytes both_nibbles(Bytes v) {
  return {vandq_u8(v.a, vdupq_n_u8(15)), vshrq_n_u8(v.b, 4)};
}
// 16 where a bit is set: bit 2 j of the first half's bytes, bit 2 j + 1 of the other's.
EG_INLINE Bytes bits_times_16(Bytes v, int j) {
  return masked(shifted(v, 4 - 2 * j, 3 - 2 * j), 16);
}
// Four bytes of a, four bytes of b, each as often as a half holds them.
EG_INLINE Bytes load_words(const void* a, const void* b) {
  uint32_t words[2];
  __builtin_memcpy(&words[0], a, 4);
  __builtin_memcpy(&words[1], b, 4);
  return {vreinterpretq_u8_u32(vdupq_n_u32(words[0])), vreinterpretq_u8_u32(vdupq_n_u32(words[1]))};
}
// 16 for each bit that is set in the bytes 2 * part and 2 * part + 1 of words, from the lowest one.
EG_INLINE Bytes spread_bits_times_16(Bytes words, int part) {
  const uint8x16_t mask = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  const uint8_t first = static_cast<uint8_t>(2 * part);
  const uint8x16_t source =
      vcombine_u8(vdup_n_u8(first), vdup_n_u8(static_cast<uint8_t>(first + 1)));
  return masked(
      {vtstq_u8(vqtbl1q_u8(words.a, source), mask), vtstq_u8(vqtbl1q_u8(words.b, source), mask)},
      16);
}
// The bits 2 * at and 2 * at + 1, times 16.
EG_INLINE Bytes bit_pairs_times_16(Bytes v, int at) {
  return masked(shifted(v, 4 - 2 * at, 4 - 2 * at), 0x30);
}

EG_INLINE Floats bytes_to_floats(uint64_t bytes) {
  const uint16x8_t v = vmovl_u8(vcreate_u8(bytes));
  return {vcvtq_f32_u32(vmovl_u16(vget_low_u16(v))), vcvtq_f32_u32(vmovl_high_u16(v))};
}
// 16 int8 as 16-bit numbers.
EG_INLINE Floats widen_bytes(const void* p) {
  const int8x16_t v = vreinterpretq_s8_u8(load16(p));
  return {vreinterpretq_f32_s16(vmovl_s8(vget_low_s8(v))), vreinterpretq_f32_s16(vmovl_high_s8(v))};
}

EG_INLINE void transpose4(float32x4_t& v0, float32x4_t& v1, float32x4_t& v2, float32x4_t& v3) {
  const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(v0, v1));
  const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(v0, v1));
  const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(v2, v3));
  const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(v2, v3));
  v0 = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
  v1 = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
  v2 = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
  v3 = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}
EG_INLINE void transpose(Floats (&v)[8]) {
  transpose4(v[0].a, v[1].a, v[2].a, v[3].a);
  transpose4(v[0].b, v[1].b, v[2].b, v[3].b);
  transpose4(v[4].a, v[5].a, v[6].a, v[7].a);
  transpose4(v[4].b, v[5].b, v[6].b, v[7].b);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const float32x4_t corner = v[i].b;
    v[i].b = v[i + 4].a;
    v[i + 4].a = corner;
  }
}
EG_INLINE Floats as_floats(Bytes v) {
  return {vreinterpretq_f32_u8(v.a), vreinterpretq_f32_u8(v.b)};
}
EG_INLINE Bytes as_bytes(Floats v) {
  return {vreinterpretq_u8_f32(v.a), vreinterpretq_u8_f32(v.b)};
}

EG_INLINE int32x4_t dot16(int32x4_t sums, uint8x16_t w, int8x16_t x) {
  return vdotq_s32(sums, vreinterpretq_s8_u8(w), x);
}

// Products of two blocks of 32 weights at once: `first` and `second` are the first and the second
// halves of both, `x` the activations beside them. The first 4 results add up to the one block's
// product, the others to the other's.
EG_INLINE Ints dot_pair(Bytes first, Bytes second, const int8_t* x) {
  const int32x4_t zero = vdupq_n_s32(0);
  return {dot16(dot16(zero, first.a, vld1q_s8(x)), second.a, vld1q_s8(x + 32)),
          dot16(dot16(zero, first.b, vld1q_s8(x + 16)), second.b, vld1q_s8(x + 48))};
}
EG_INLINE Ints dot_pair_signed(Bytes first, Bytes second, const int8_t* x) {
  return dot_pair(first, second, x);
}
// Numbers of even places, then those of odd ones.
EG_INLINE Floats even_odd(Floats v) { return {vuzp1q_f32(v.a, v.b), vuzp2q_f32(v.a, v.b)}; }
// sums + product * scales of pair j: numbers j of both halves.
EG_INLINE Floats fma_pair(Ints product, Floats scales, int j, Floats sums) {
  const Floats p = to_floats(product);
  return {vfmaq_n_f32(sums.a, p.a, scales.a[j]), vfmaq_n_f32(sums.b, p.b, scales.b[j])};
}
// One block of weights, each half times a factor: number b of each half of `factors`.
EG_INLINE Ints dot_scaled(Bytes w, Bytes x, Bytes factors, int b) {
  const int32x4_t zero = vdupq_n_s32(0);
  return {
      vmulq_n_s32(dot16(zero, w.a, vreinterpretq_s8_u8(x.a)), vreinterpretq_s16_u8(factors.a)[b]),
      vmulq_n_s32(dot16(zero, w.b, vreinterpretq_s8_u8(x.b)), vreinterpretq_s16_u8(factors.b)[b])};
}
// 16-bit numbers of even places, then those of odd ones.
EG_INLINE Bytes even_odd_shorts(Floats v) {
  const uint16x8_t a = vreinterpretq_u16_f32(v.a);
  const uint16x8_t b = vreinterpretq_u16_f32(v.b);
  return {vreinterpretq_u8_u16(vuzp1q_u16(a, b)), vreinterpretq_u8_u16(vuzp2q_u16(a, b))};
}
EG_INLINE int32x4_t dot_shorts(int16x8_t a, int16x8_t b) {
  return vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
}
// Products of pairs of 16-bit numbers, added.
EG_INLINE Ints dot_shorts(Floats a, const int16_t* b) {
  return {dot_shorts(vreinterpretq_s16_f32(a.a), vld1q_s16(b)),
          dot_shorts(vreinterpretq_s16_f32(a.b), vld1q_s16(b + 8))};
}

// Below, vector g of `w` holds elements 4 g to 4 g + 3 of 8 rows; the results are the products of
// the rows' 32 elements with x, whose halves lie 32 bytes apart.
EG_INLINE int32x4_t dot_lanes(int32x4_t sums, uint8x16_t w0, uint8x16_t w1, uint8x16_t w2,
                              uint8x16_t w3, int8x16_t x) {
  sums = vdotq_laneq_s32(sums, vreinterpretq_s8_u8(w0), x, 0);
  sums = vdotq_laneq_s32(sums, vreinterpretq_s8_u8(w1), x, 1);
  sums = vdotq_laneq_s32(sums, vreinterpretq_s8_u8(w2), x, 2);
  return vdotq_laneq_s32(sums, vreinterpretq_s8_u8(w3), x, 3);
}
EG_INLINE Ints panel_half(Ints sums, const uint8_t (*w)[32], const int8_t* x) {
  const int8x16_t v = vld1q_s8(x);
  Bytes group[4];
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    group[g] = load_bytes(w[g]);
  }
  return {dot_lanes(sums.a, group[0].a, group[1].a, group[2].a, group[3].a, v),
          dot_lanes(sums.b, group[0].b, group[1].b, group[2].b, group[3].b, v)};
}
EG_INLINE Ints panel_dot_signed(const uint8_t (*w)[32], const int8_t* x) {
  return panel_half(panel_half({vdupq_n_s32(0), vdupq_n_s32(0)}, w, x), w + 4, x + 32);
}
EG_INLINE Ints panel_dot_4(const uint8_t (*w)[32], const int8_t* x) {
  return panel_dot_signed(w, x);
}
EG_INLINE Ints panel_dot_5(const uint8_t (*w)[32], const int8_t* x) {
  return panel_dot_signed(w, x);
}

// Weights of 6 bits less 32, each half times a factor: `factors` are two 16-bit numbers for each
// row; `x_sums` the sums of the halves of x.
EG_INLINE Ints panel_dot_6(const uint8_t (*w)[32], const int8_t* x, const void* factors,
                           const int16_t* x_sums) {
  const int32x4_t low = vdupq_n_s32(-32 * x_sums[0]);
  const int32x4_t high = vdupq_n_s32(-32 * x_sums[1]);
  const Ints first = panel_half({low, low}, w, x);
  const Ints second = panel_half({high, high}, w + 4, x + 32);
  const Bytes pairs = load_bytes(factors);
  const int32x4_t a = vreinterpretq_s32_u8(pairs.a);
  const int32x4_t b = vreinterpretq_s32_u8(pairs.b);
  const int32x4_t a_first = vshrq_n_s32(vshlq_n_s32(a, 16), 16);
  const int32x4_t b_first = vshrq_n_s32(vshlq_n_s32(b, 16), 16);
  return {vmlaq_s32(vmulq_s32(first.a, a_first), second.a, vshrq_n_s32(a, 16)),
          vmlaq_s32(vmulq_s32(first.b, b_first), second.b, vshrq_n_s32(b, 16))};
}

// The largest magnitude of 32 numbers, as bits: a NaN is above infinity.
EG_INLINE uint32_t largest_bits(const float* x) {
  uint32x4_t v = vdupq_n_u32(0);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + 4 * i));
    v = vmaxq_u32(v, vandq_u32(bits, vdupq_n_u32(0x7fffffff)));
  }
  return vmaxvq_u32(v);
}

EG_INLINE int16x8_t quantize8(const float* x, float factor) {
  return vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), factor))),
                      vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4), factor))));
}
// q = round(x * factor) for 32 numbers, in halves 32 bytes apart, and the sums of both.
EG_INLINE void quantize(const float* x, float factor, int8_t* q, int16_t* sums) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const int16x8_t a = quantize8(x + 16 * half, factor);
    const int16x8_t b = quantize8(x + 16 * half + 8, factor);
    vst1q_s8(q + 32 * half, vcombine_s8(vqmovn_s16(a), vqmovn_s16(b)));
    sums[half] = vaddvq_s16(vaddq_s16(a, b));
  }
}

}  // namespace
}  // namespace neon
}  // namespace executorch_ggml
