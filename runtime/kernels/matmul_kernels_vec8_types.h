// How ggml lays out quantised weights, for the vectors of one instruction set.
//
// A chunk is 256 weights: 8 blocks of 32, each with its scale and what else it adds; blocks are
// taken in pairs. Of each format:
//   kChunkBytes  bytes of a chunk
//   kHasTails    whether a row may end with fewer than 8 blocks
//   kProduct     how its weights are multiplied
//   pair()       the weights of blocks 2 j and 2 j + 1 without scale and offset: the first halves
//                of both, then the second ones (Scaled: the one block, then the other); block
//                2 j + 1 may not exist (n == 2 j + 1)
//   scales()     of the first n blocks: d is the factor of a block, o what is added to each of
//                its weights (Scaled: the 16-bit factors of halves)
#pragma once

#include <cstddef>
#include <cstdint>

namespace executorch_ggml {
namespace EG_ISA {
namespace {

enum class Product {
  Nibbles,  // 4 bits, unsigned
  Five,     // 5 bits, unsigned
  Scaled,   // 6 bits, less 32, halves of a block with factors of their own
  Signed,   // 8 bits, and no offset
};

struct WeightPair {
  Bytes first;
  Bytes second;
};

// Blocks of 32 by themselves: one or two F16 numbers, perhaps 32 high bits, then the weights.
template <size_t BlockBytes, Product P>
struct Blocks {
  static constexpr size_t kChunkBytes = 8 * BlockBytes;
  static constexpr bool kHasTails = true;
  static constexpr Product kProduct = P;

  static EG_INLINE Floats f16_at(const uint8_t* p, int n) { return gather_f16(p, BlockBytes, n); }
  static EG_INLINE const uint8_t* block(const uint8_t* p, int b) {
    return p + static_cast<size_t>(b) * BlockBytes;
  }
  static EG_INLINE int second(int j, int n) { return 2 * j + 1 < n ? 2 * j + 1 : 2 * j; }
  // `p`: what is wanted of block 0.
  static EG_INLINE Bytes halves(const uint8_t* p, int j, int n) {
    return load_halves(block(p, 2 * j), block(p, second(j, n)));
  }
  static EG_INLINE WeightPair nibbles(const uint8_t* p, int j, int n) {
    const Bytes v = halves(p, j, n);
    return {low_nibbles(v), high_nibbles(v)};
  }
  static EG_INLINE WeightPair five_bits(const uint8_t* p, const uint8_t* high, int j, int n) {
    const WeightPair low = nibbles(p, j, n);
    const Bytes bits = load_words(block(high, 2 * j), block(high, second(j, n)));
    return {either(low.first, spread_bits_times_16(bits, 0)),
            either(low.second, spread_bits_times_16(bits, 1))};
  }
};

struct Q4_0 : Blocks<18, Product::Nibbles> {
  static EG_INLINE WeightPair pair(const uint8_t* p, int j, int n) { return nibbles(p + 2, j, n); }
  static EG_INLINE void scales(const uint8_t* p, int n, Floats& d, Floats& o) {
    d = f16_at(p, n);
    o = mul(d, splat(-8.0F));
  }
};

struct Q4_1 : Blocks<20, Product::Nibbles> {
  static EG_INLINE WeightPair pair(const uint8_t* p, int j, int n) { return nibbles(p + 4, j, n); }
  static EG_INLINE void scales(const uint8_t* p, int n, Floats& d, Floats& o) {
    d = f16_at(p, n);
    o = f16_at(p + 2, n);
  }
};

struct Q5_0 : Blocks<22, Product::Five> {
  static EG_INLINE WeightPair pair(const uint8_t* p, int j, int n) {
    return five_bits(p + 6, p + 2, j, n);
  }
  static EG_INLINE void scales(const uint8_t* p, int n, Floats& d, Floats& o) {
    d = f16_at(p, n);
    o = mul(d, splat(-16.0F));
  }
};

struct Q5_1 : Blocks<24, Product::Five> {
  static EG_INLINE WeightPair pair(const uint8_t* p, int j, int n) {
    return five_bits(p + 8, p + 4, j, n);
  }
  static EG_INLINE void scales(const uint8_t* p, int n, Floats& d, Floats& o) {
    d = f16_at(p, n);
    o = f16_at(p + 2, n);
  }
};

struct Q8_0 : Blocks<34, Product::Signed> {
  static EG_INLINE WeightPair pair(const uint8_t* p, int j, int n) {
    return {halves(p + 2, j, n), halves(p + 18, j, n)};
  }
  static EG_INLINE void scales(const uint8_t* p, int n, Floats& d, Floats& o) {
    d = f16_at(p, n);
    o = splat(0.0F);
  }
};

EG_INLINE uint32_t word_at(const uint8_t* p) {
  uint32_t word;
  __builtin_memcpy(&word, p, sizeof(word));
  return word;
}

// Q4_K and Q5_K: scale and minimum in F16, then 8 factors of 6 bits for each, packed in 12 bytes.
EG_INLINE void packed_scales(const uint8_t* p, Floats& d, Floats& o) {
  constexpr uint32_t kLow6 = 0x3f3f3f3f;
  constexpr uint32_t kLow4 = 0x0f0f0f0f;
  constexpr uint32_t kHigh2 = 0x30303030;
  const uint32_t early_scales = word_at(p + 4);
  const uint32_t early_minima = word_at(p + 8);
  const uint32_t late = word_at(p + 12);
  const uint32_t late_scales = (late & kLow4) | (early_scales >> 2 & kHigh2);
  const uint32_t late_minima = (late >> 4 & kLow4) | (early_minima >> 2 & kHigh2);
  d = mul(splat_f16(p), bytes_to_floats(uint64_t{late_scales} << 32 | (early_scales & kLow6)));
  o = mul(mul(splat_f16(p + 2), splat(-1.0F)),
          bytes_to_floats(uint64_t{late_minima} << 32 | (early_minima & kLow6)));
}

struct Q4_K {
  static constexpr size_t kChunkBytes = 144;
  static constexpr bool kHasTails = false;
  static constexpr Product kProduct = Product::Nibbles;
  static EG_INLINE WeightPair pair(const uint8_t* p, int j, int) {
    const uint8_t* const q = p + 16 + 32 * j;
    return {both_nibbles(load_twice(q)), both_nibbles(load_twice(q + 16))};
  }
  static EG_INLINE void scales(const uint8_t* p, int, Floats& d, Floats& o) {
    packed_scales(p, d, o);
  }
};

struct Q5_K {
  static constexpr size_t kChunkBytes = 176;
  static constexpr bool kHasTails = false;
  static constexpr Product kProduct = Product::Five;
  static EG_INLINE WeightPair pair(const uint8_t* p, int j, int) {
    const uint8_t* const q = p + 48 + 32 * j;
    return {either(both_nibbles(load_twice(q)), bits_times_16(load_twice(p + 16), j)),
            either(both_nibbles(load_twice(q + 16)), bits_times_16(load_twice(p + 32), j))};
  }
  static EG_INLINE void scales(const uint8_t* p, int, Floats& d, Floats& o) {
    packed_scales(p, d, o);
  }
};

// Halves of a chunk are by themselves: low nibbles of 64 bytes are its blocks 0 and 1, high ones
// its blocks 2 and 3; the bits above them lie together.
struct Q6_K {
  static constexpr size_t kChunkBytes = 210;
  static constexpr bool kHasTails = false;
  static constexpr Product kProduct = Product::Scaled;
  static EG_INLINE WeightPair pair(const uint8_t* p, int j, int) {
    const bool late = j % 2 == 1;
    const Bytes a = load_bytes(p + j / 2 * 64);
    const Bytes b = load_bytes(p + j / 2 * 64 + 32);
    const Bytes high = load_bytes(p + 128 + j / 2 * 32);
    const int at = j % 2 * 2;
    return {either(late ? high_nibbles(a) : low_nibbles(a), bit_pairs_times_16(high, at)),
            either(late ? high_nibbles(b) : low_nibbles(b), bit_pairs_times_16(high, at + 1))};
  }
  static EG_INLINE void scales(const uint8_t* p, int, Floats& d, Floats& o) {
    d = splat_f16(p + 208);
    o = widen_bytes(p + 192);
  }
};

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
