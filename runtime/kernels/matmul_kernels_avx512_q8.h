// Products of quantised weights for AVX-512 with VNNI: what all weight types share, and the kernels
// for up to four tokens.
//
// Elements are taken in groups of 128, four blocks of 32. A group's bytes lie in two registers:
// the first halves of its four blocks, then the second halves. So each register's four lanes of
// 16 bytes belong to one block each, and one sum of products serves both registers.
//
// The machine multiplies unsigned bytes (weights, plus an offset that makes them so) by signed
// ones (activations). A sum of integers starts from what the offset adds too much, so it is
// exact.
//
// Nothing inline from the standard library here: the linker could take this file's copy,
// compiled for a newer machine, for the whole program.
#pragma once

#include "runtime/kernels/matmul_kernels_avx512.h"

namespace executorch_ggml::avx512 {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kGroup = 128;
constexpr int kGroupBlocks = 4;

// Prepared activations: 256 elements, in the order described above; zeros fill up the last one.
struct alignas(64) Q8Block {
  int8_t q[2 * kGroup];
  float scale[8];         // of each block of 32; NaN if the block holds an element not finite
  float scaled_sum[8];    // of a block's elements; read together with the scales
  int32_t offset[8];      // -128 times the sum of a block's integers
  int32_t offset_low[8];  // the same of its first half
};
static_assert(sizeof(Q8Block) == 384);

constexpr int64_t kQ8Elements = 2 * kGroup;

constexpr int64_t n_q8_blocks(int64_t k) { return (k + kQ8Elements - 1) / kQ8Elements; }

constexpr int64_t q8_row_size(int64_t k) {
  return odd_lines(n_q8_blocks(k) * int64_t{sizeof(Q8Block)});
}

EG_INLINE const Q8Block* token_of(const MatmulTask& t, int64_t token) {
  const auto* const row = static_cast<const uint8_t*>(t.x) + token * q8_row_size(t.k);
  return reinterpret_cast<const Q8Block*>(row);
}

// Numbers for the elements of each lane.
EG_INLINE __m512i lane_numbers(int a, int b, int c, int d) {
  return _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
}

EG_INLINE __m512i even_lanes(__m512i a, __m512i b) { return _mm512_shuffle_i64x2(a, b, 0x88); }
EG_INLINE __m512i odd_lanes(__m512i a, __m512i b) { return _mm512_shuffle_i64x2(a, b, 0xDD); }

// The activations of one group.
struct Group {
  const Q8Block* block;
  int64_t half;

  EG_INLINE __m512i q(int i) const { return _mm512_load_si512(block->q + half * kGroup + i * 64); }
  // The lanes of the first two blocks, half by half, or of the last two.
  EG_INLINE __m512i two_blocks(int i) const {
    const __m512i lanes = i == 0 ? _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11)
                                 : _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    return _mm512_permutex2var_epi64(q(0), lanes, q(1));
  }
  // Of the block's eight the even ones (half 0) or the odd ones: the first halves, the second ones.
  EG_INLINE __m512i every_other(int i) const {
    const __m512i first = _mm512_load_si512(block->q + i * 64);
    const __m512i second = _mm512_load_si512(block->q + kGroup + i * 64);
    return half == 0 ? even_lanes(first, second) : odd_lanes(first, second);
  }
  // The register i that a type's integers are multiplied with.
  template <bool kSplit>
  EG_INLINE __m512i lanes(int i) const {
    return kSplit ? two_blocks(i) : q(i);
  }
  // A value for each of the four blocks, in all 4 elements of its lane.
  EG_INLINE __m512 spread(const float* of_block) const {
    return _mm512_permutevar_ps(four(of_block), lane_numbers(0, 1, 2, 3));
  }
  // ... of every_other(i).
  EG_INLINE __m512 spread_other(const float* of_block) const {
    const int first = static_cast<int>(half);
    return _mm512_permutexvar_ps(lane_numbers(first, first + 2, first + 4, first + 6),
                                 _mm512_castps256_ps512(_mm256_load_ps(of_block)));
  }
  // ... of two_blocks(i), in all 8 of its two lanes.
  EG_INLINE __m512 spread_two(const float* of_block, int i) const {
    const int first = 2 * i;
    return _mm512_permutevar_ps(four(of_block), lane_numbers(first, first, first + 1, first + 1));
  }

 private:
  EG_INLINE __m512 four(const float* of_block) const {
    return _mm512_broadcast_f32x4(_mm_load_ps(of_block + half * 4));
  }
};

// --- what a weight type says of itself --------------------------------------------------------
//
//   kGroups      groups of a unit, which is decoded at a time
//   kBytes       of a unit; kBlockBytes of what ggml counts as a block (a row may end within a
//                unit)
//   kOffset      what its integers are stored too large by
//   kSplit       whether each half of a block has a scale of its own: a group's registers are then
//                those of Group::two_blocks
//   kMin         the sign of a block's minimum: 0 if there is none
//   scales(unit)        the scales in the elements 0..7 (split: 0..15) and, if there are any, the
//                       minima in 8..15
//   activations(group)  the activations' scales, and their sums for the minima, in the same
//                       places
//   spread(scales, g, i)     the scales of the four lanes in register i of a group
//   quants(unit, g, q)       the integers of a group
//   kQuads       whether four rows are taken together, for which the sums of products of any 16
//                integers (split: 8) must be less than 1 << 15
//   kAlternates  whether four rows are then taken in groups of a unit's even and odd blocks, see
//                Group::every_other, as its integers lie so; quad_quants gives them
//   quad_scales(units, scales, minima)  of four rows, group by group: of the lane b and row r in
//                       the element 4 * b + r, for either register (not split: the second counts)

// --- one to four tokens -----------------------------------------------------------------------

// n less what the weights' offset adds to the products with x. It is taken off where it arises:
// between elements, which are added up as floats, it would cancel out but roughly.
template <int kOffset>
EG_INLINE __m512i less_offset(__m512i n, __m512i x) {
  if constexpr (kOffset == 0) {
    return n;
  } else {
    const __m512i offset = _mm512_set1_epi8(static_cast<char>(kOffset));
    return _mm512_sub_epi32(n, _mm512_dpbusd_epi32(_mm512_setzero_si512(), offset, x));
  }
}

// A unit that the row ends in, filled up with blocks of zeros.
template <class Type>
constexpr size_t padded_size() {
  return (Type::kBytes + 63) / 64 * 64;
}

// Whether a row ends within a unit: none does where ggml's blocks are units.
template <class Type>
EG_INLINE bool ends_within(int64_t k) {
  return Type::kGroups == 1 && k % kGroup != 0;
}

// Of what a row has of the unit that it ends in.
template <class Type>
EG_INLINE size_t last_size(int64_t k) {
  return static_cast<size_t>(k % (Type::kGroups * kGroup) / kBlock) * Type::kBlockBytes;
}

template <class Type>
EG_INLINE void pad(const uint8_t* from, int64_t elements, uint8_t* to) {
  const size_t size = static_cast<size_t>(elements / kBlock) * Type::kBlockBytes;
  for (size_t i = 0; i < padded_size<Type>(); i += 64) {
    const size_t left = size > i ? size - i : 0;
    const __mmask64 mask = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    _mm512_store_si512(to + i, _mm512_maskz_loadu_epi8(mask, from + i));
  }
}

// The unit that some rows end in, from `w`, of which the last is the task's row `last`. It is read
// where it lies if other rows of the task follow: scales of what is not these rows' have to be
// left out. Otherwise it is copied to `padded`.
template <class Type, int kRows>
EG_INLINE void last_units(const MatmulTask& t, int64_t last, const uint8_t* w[size_t{kRows}],
                          uint8_t (*padded)[padded_size<Type>()]) {
  const int64_t elements = t.k % (Type::kGroups * kGroup);
  const size_t size = last_size<Type>(t.k);
  if (static_cast<size_t>(t.n_rows - 1 - last) * t.row_stride + size >= Type::kBytes) {
    return;
  }
  for (int r = 0; r < kRows; ++r) {
    pad<Type>(w[r], elements, padded[r]);
    w[r] = padded[r];
  }
}

// In the place of a group's scales, and of its sums, ones for the blocks that the row has.
EG_INLINE void mark_blocks(int64_t elements, Q8Block& to) {
  const auto mask = static_cast<__mmask8>((1U << (elements / kBlock)) - 1);
  const __m256 ones = _mm256_maskz_mov_ps(mask, _mm256_set1_ps(1.0F));
  _mm256_store_ps(to.scale, ones);
  _mm256_store_ps(to.scaled_sum, ones);
}

EG_INLINE __mmask16 marked(__m512 ones) {
  return _mm512_cmp_ps_mask(ones, _mm512_setzero_ps(), _CMP_NEQ_OQ);
}

// `kRows` rows times `kTokens` tokens.
template <class Type, int kRows, int kTokens>
void q8_dots(const MatmulTask& t, int64_t row) {
  constexpr int64_t kUnit = Type::kGroups * kGroup;
  const Q8Block* x[size_t{kTokens}];
  for (int i = 0; i < kTokens; ++i) {
    x[i] = token_of(t, i);
  }
  const uint8_t* w[size_t{kRows}];
  for (int r = 0; r < kRows; ++r) {
    w[r] = row_of(t, row + r);
  }
  Ahead ahead(w[0], kRows * t.row_stride);
  __m512 sums[size_t{kTokens}][size_t{kRows}];
  for (int i = 0; i < kTokens; ++i) {
    for (int r = 0; r < kRows; ++r) {
      sums[i][r] = _mm512_setzero_ps();
    }
  }

  const auto group_of = [&x](int i, int64_t unit, int g) __attribute__((always_inline)) {
    return Type::kGroups == 2 ? Group{x[i] + unit, g} : Group{x[i] + unit / 2, unit % 2};
  };
  // `present`: the scales that are the rows', the last unit may have others.
  const auto step = [&](int64_t unit, __mmask16 present) __attribute__((always_inline)) {
    __m512 scales[size_t{kRows}];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      scales[r] = Type::scales(w[r]);
    }
    __m512 scaled[size_t{kTokens}][size_t{kRows}];
#pragma GCC unroll 4
    for (int i = 0; i < kTokens; ++i) {
      const __m512 xs = Type::activations(group_of(i, unit, 0));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        scaled[i][r] = _mm512_maskz_mul_ps(present, scales[r], xs);
        constexpr __mmask16 kMinima = Type::kMin == 0 ? 0 : 0xFF00;
        if constexpr (Type::kMin > 0) {
          sums[i][r] = _mm512_mask_add_ps(sums[i][r], kMinima, sums[i][r], scaled[i][r]);
        } else if constexpr (Type::kMin < 0) {
          sums[i][r] = _mm512_mask_sub_ps(sums[i][r], kMinima, sums[i][r], scaled[i][r]);
        }
      }
    }
#pragma GCC unroll 2
    for (int g = 0; g < Type::kGroups; ++g) {
      __m512i q[size_t{kRows}][2];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        Type::quants(w[r], g, q[r]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < kTokens; ++i) {
        const Group group = group_of(i, unit, g);
        const __m512i x0 = group.lanes<Type::kSplit>(0);
        const __m512i x1 = group.lanes<Type::kSplit>(1);
        const __m512i zero = _mm512_setzero_si512();
        const __m512i start_low = less_offset<Type::kOffset>(zero, x0);
        const __m512i start_high = less_offset<Type::kOffset>(Type::kSplit ? zero : start_low, x1);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          __m512& sum = sums[i][r];
          __m512i n = _mm512_dpbusd_epi32(Type::kSplit ? start_low : start_high, q[r][0], x0);
          if constexpr (Type::kSplit) {
            sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(n), Type::spread(scaled[i][r], g, 0), sum);
            n = start_high;
          }
          n = _mm512_dpbusd_epi32(n, q[r][1], x1);
          sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(n), Type::spread(scaled[i][r], g, 1), sum);
        }
      }
    }
  };

  const int64_t full = t.k / kUnit;
  for (int64_t unit = 0; unit < full; ++unit) {
    ahead.advance(kRows * Type::kBytes);
    step(unit, 0xFFFF);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      w[r] += Type::kBytes;
    }
  }
  if (ends_within<Type>(t.k)) {
    alignas(64) uint8_t padded[size_t{kRows}][padded_size<Type>()];
    ahead.advance(kRows * last_size<Type>(t.k));
    last_units<Type, kRows>(t, row + kRows - 1, w, padded);
    Q8Block ones;
    mark_blocks(t.k % kUnit, ones);
    step(full, marked(Type::activations(Group{&ones, 0})));
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTokens; ++i) {
    store_sums<kRows>(t, sums[i], row, i);
  }
}

// The sums of each lane of four registers: those of lane b in the elements 4 * b .. 4 * b + 3.
// Any two elements of a lane add up to less than 1 << 15.
EG_INLINE __m512i lane_sums(const __m512i n[4]) {
  const __m512i ones = _mm512_set1_epi16(1);
  const __m512i first = _mm512_madd_epi16(_mm512_packs_epi32(n[0], n[1]), ones);
  const __m512i second = _mm512_madd_epi16(_mm512_packs_epi32(n[2], n[3]), ones);
  return _mm512_madd_epi16(_mm512_packs_epi32(first, second), ones);
}

// Four rows times `kTokens` tokens, for types whose integers are small enough: the rows' sums of
// integers come together in one register, where they are scaled at once.
template <class Type, int kTokens>
void quad_dots(const MatmulTask& t, int64_t row) {
  constexpr int64_t kUnit = Type::kGroups * kGroup;
  const Q8Block* x[size_t{kTokens}];
  for (int i = 0; i < kTokens; ++i) {
    x[i] = token_of(t, i);
  }
  const uint8_t* w[4];
  for (int r = 0; r < 4; ++r) {
    w[r] = row_of(t, row + r);
  }
  Ahead ahead(w[0], 4 * t.row_stride);
  __m512 sums[size_t{kTokens}];
  for (int i = 0; i < kTokens; ++i) {
    sums[i] = _mm512_setzero_ps();
  }

  const auto step = [&](int64_t unit, __mmask16 present) __attribute__((always_inline)) {
    __m512 scales[Type::kGroups][2];
    __m512 minima[Type::kGroups];
    Type::quad_scales(w, scales, minima);
#pragma GCC unroll 2
    for (int g = 0; g < Type::kGroups; ++g) {
      __m512i q[4][2];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        if constexpr (Type::kAlternates) {
          Type::quad_quants(w[r], g, q[r]);
        } else {
          Type::quants(w[r], g, q[r]);
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < kTokens; ++i) {
        const Group group =
            Type::kGroups == 2 ? Group{x[i] + unit, g} : Group{x[i] + unit / 2, unit % 2};
        const auto lanes = [group](int n) __attribute__((always_inline)) {
          return Type::kAlternates ? group.every_other(n) : group.lanes<Type::kSplit>(n);
        };
        const auto spread = [group](const float* of_block) __attribute__((always_inline)) {
          return Type::kAlternates ? group.spread_other(of_block)
                 : Type::kSplit    ? group.spread_two(of_block, 1)
                                   : group.spread(of_block);
        };
        const __m512i x0 = lanes(0);
        const __m512i x1 = lanes(1);
        const float* const x_scales = group.block->scale;
        const __m512 xs = spread(x_scales);
        const __m512i zero = _mm512_setzero_si512();
        const __m512i start_low = less_offset<Type::kOffset>(zero, x0);
        const __m512i start_high = less_offset<Type::kOffset>(Type::kSplit ? zero : start_low, x1);
        __m512i n[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
          n[r] = _mm512_dpbusd_epi32(Type::kSplit ? start_low : start_high, q[r][0], x0);
        }
        if constexpr (Type::kSplit) {
          const __m512 first = group.spread_two(x_scales, 0);
          sums[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(lane_sums(n)),
                                    _mm512_maskz_mul_ps(present, scales[g][0], first), sums[i]);
        }
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
          n[r] = _mm512_dpbusd_epi32(Type::kSplit ? start_high : n[r], q[r][1], x1);
        }
        sums[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(lane_sums(n)),
                                  _mm512_maskz_mul_ps(present, scales[g][1], xs), sums[i]);
        if constexpr (Type::kMin != 0) {
          const __m512 scaled_sums = spread(group.block->scaled_sum);
          sums[i] = Type::kMin > 0
                        ? _mm512_mask3_fmadd_ps(minima[g], scaled_sums, sums[i], present)
                        : _mm512_mask3_fnmadd_ps(minima[g], scaled_sums, sums[i], present);
        }
      }
    }
  };

  const int64_t full = t.k / kUnit;
  for (int64_t unit = 0; unit < full; ++unit) {
    ahead.advance(4 * Type::kBytes);
    step(unit, 0xFFFF);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      w[r] += Type::kBytes;
    }
  }
  if (ends_within<Type>(t.k)) {
    alignas(64) uint8_t padded[4][padded_size<Type>()];
    ahead.advance(4 * last_size<Type>(t.k));
    last_units<Type, 4>(t, row + 3, w, padded);
    Q8Block ones;
    mark_blocks(t.k % kUnit, ones);
    step(full, marked(Group{&ones, 0}.spread(ones.scale)));
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTokens; ++i) {
    store_sums<4>(t, sum_of_lanes(sums[i]), row, i);
  }
}

}  // namespace
}  // namespace executorch_ggml::avx512
