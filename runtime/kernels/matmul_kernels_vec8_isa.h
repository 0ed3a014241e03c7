// The kernels of matmul_kernels.h over vectors of 8 numbers, for instruction sets without wider
// ones: EG_ISA is the set's name; its vectors are to be included before this.
//
// Quantised weights: for few tokens each row is multiplied where it lies. For many, panels of 8
// rows are decoded into scratch once, interleaved so that a vector holds 4 elements of each row;
// sums over a block then stay in integers, and a product needs no sum across a vector.
// Floats: tiles of 4 rows and 3 tokens, over a part of the elements that caches hold if tokens are
// many.
//
// Nothing inline from the standard library here: the linker could take this file's copy,
// compiled for a newer machine, for the whole program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/kernels/matmul_kernels.h"
#include "runtime/kernels/matmul_kernels_vec8_types.h"

#define EG_TEXT_OF(x) #x
#define EG_TEXT(x) EG_TEXT_OF(x)

namespace executorch_ggml {
namespace EG_ISA {
namespace {

constexpr int64_t kBlock = 32;      // activations with one scale
constexpr int64_t kBlocks = 8;      // of a chunk
constexpr int64_t kChunk = 256;     // elements
constexpr int64_t kPanelRows = 8;   // a vector's lanes
constexpr int64_t kGroupRows = 16;  // decoded at a time
constexpr int64_t kDecodeFrom = 4;  // tokens

// 256 prepared activations. What fills up a row is zeros, its scales too.
struct Activations {
  int8_t q[kChunk];                     // of two blocks: the first halves, then the second ones
  float d[kBlocks];                     // scales
  float total[kBlocks];                 // d * sum of q
  int16_t sums[kChunk / (kBlock / 2)];  // of q, over half blocks
};

int64_t chunks_of(int64_t k) { return (k + kChunk - 1) / kChunk; }
int blocks_from(int64_t k, int64_t chunk) {
  const int64_t left = k / kBlock - chunk * kBlocks;
  return static_cast<int>(left < kBlocks ? left : kBlocks);
}
size_t rounded_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Where the first half of a block lies; the second one is 32 bytes on.
EG_INLINE int64_t block_at(int b) { return b / 2 * (2 * kBlock) + b % 2 * (kBlock / 2); }

void prepare_q8(const float* x, int64_t k, Activations* out) {
  constexpr uint32_t kInfinity = 0x7f800000;
  constexpr float kTiny = 1e-35F;  // the inverse of a smaller scale overflows
  for (int64_t c = 0; c < chunks_of(k); ++c) {
    const int n = blocks_from(k, c);
    Activations& chunk = out[c];
    if (n < kBlocks) {
      __builtin_memset(&chunk, 0, sizeof(chunk));
    }
    for (int b = 0; b < n; ++b, x += kBlock) {
      const uint32_t bits = largest_bits(x);
      float largest;
      __builtin_memcpy(&largest, &bits, sizeof(bits));
      const bool counts = bits < kInfinity && largest >= kTiny;
      int16_t* const sums = chunk.sums + 2 * b;
      quantize(x, counts ? 127.0F / largest : 0.0F, chunk.q + block_at(b), sums);
      chunk.d[b] = counts ? largest / 127.0F : bits < kInfinity ? 0.0F : __builtin_nanf("");
      chunk.total[b] = chunk.d[b] * static_cast<float>(sums[0] + sums[1]);
    }
  }
}

EG_INLINE float finished(const MatmulTask& t, float sum, int64_t row, int64_t at) {
  if (t.bias != nullptr) {
    sum += t.bias[row];
  }
  return t.residual == nullptr ? sum : sum + t.residual[at];
}

size_t prepared_size(ActivationForm form, int64_t k) {
  return form == ActivationForm::Q8
             ? rounded_up(static_cast<size_t>(chunks_of(k)) * sizeof(Activations))
             : rounded_up(static_cast<size_t>(k) * sizeof(float));
}

template <typename T>
EG_INLINE const T* prepared_row(const MatmulTask& t, ActivationForm form, int64_t token) {
  return reinterpret_cast<const T*>(static_cast<const uint8_t*>(t.x) +
                                    static_cast<size_t>(token) * prepared_size(form, t.k));
}
EG_INLINE const Activations* activations_of(const MatmulTask& t, int64_t token) {
  return prepared_row<Activations>(t, ActivationForm::Q8, token);
}

EG_INLINE const uint8_t* row_of(const MatmulTask& t, int64_t row) {
  return static_cast<const uint8_t*>(t.w) + static_cast<size_t>(row) * t.row_stride;
}

// --- quantised weights, row by row ---

template <typename F>
EG_INLINE void prefetch_chunk(const uint8_t* w) {
  for (size_t line = 0; line < F::kChunkBytes; line += 64) {
    __builtin_prefetch(w + kPrefetchBytes + line, 0, 2);
  }
}

template <typename F, int Rows>
EG_INLINE void multiply_chunk(const uint8_t* const (&w)[size_t{Rows}], const Activations& x, int n,
                              Floats (&sums)[size_t{Rows}], Floats (&offsets)[size_t{Rows}]) {
  Floats scales[size_t{Rows}];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    prefetch_chunk<F>(w[r]);
    Floats d;
    Floats o;
    F::scales(w[r], n, d, o);
    scales[r] = even_odd(mul(d, load(x.d)));
    if constexpr (F::kProduct != Product::Signed) {
      offsets[r] = fma(o, load(x.total), offsets[r]);
    }
  }
#pragma GCC unroll 4
  for (int j = 0; 2 * j < n; ++j) {
    const int8_t* const q = x.q + 2 * kBlock * j;
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const WeightPair weights = F::pair(w[r], j, n);
      const Ints product = F::kProduct == Product::Signed
                               ? dot_pair_signed(weights.first, weights.second, q)
                               : dot_pair(weights.first, weights.second, q);
      sums[r] = fma_pair(product, scales[r], j, sums[r]);
    }
  }
}

// The same where halves of blocks have factors of their own.
template <typename F, int Rows>
EG_INLINE void multiply_scaled_chunk(const uint8_t* const (&w)[size_t{Rows}], const Activations& x,
                                     Floats (&sums)[size_t{Rows}],
                                     Floats (&offsets)[size_t{Rows}]) {
  float scales[size_t{Rows}][kBlocks];
  Bytes factors[size_t{Rows}];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    prefetch_chunk<F>(w[r]);
    Floats d;
    Floats o;
    F::scales(w[r], static_cast<int>(kBlocks), d, o);
    const Floats scale = mul(d, load(x.d));
    store(scales[r], scale);
    offsets[r] = fma(to_floats(dot_shorts(o, x.sums)), scale, offsets[r]);
    factors[r] = even_odd_shorts(o);
  }
  asm("" : "+m"(scales));  // loaded one by one, which is cheaper than shuffles of a register
#pragma GCC unroll 4
  for (int j = 0; j < kBlocks / 2; ++j) {
    const int8_t* const q = x.q + 2 * kBlock * j;
    const Bytes first = load_halves(q, q + 32);
    const Bytes second = load_halves(q + 16, q + 48);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const WeightPair weights = F::pair(w[r], j, static_cast<int>(kBlocks));
      sums[r] = fma(to_floats(dot_scaled(weights.first, first, factors[r], 2 * j)),
                    splat(scales[r][2 * j]), sums[r]);
      sums[r] = fma(to_floats(dot_scaled(weights.second, second, factors[r], 2 * j + 1)),
                    splat(scales[r][2 * j + 1]), sums[r]);
    }
  }
}

template <typename F, int Rows>
void multiply_rows(const MatmulTask& t, int64_t row, int64_t token, const Activations* x) {
  Floats sums[size_t{Rows}];
  Floats offsets[size_t{Rows}];
  const uint8_t* w[size_t{Rows}];
  for (int r = 0; r < Rows; ++r) {
    sums[r] = splat(0.0F);
    offsets[r] = splat(0.0F);
    w[r] = row_of(t, row + r);
  }
  for (int64_t left = t.k; left >= kChunk; left -= kChunk, ++x) {
    if constexpr (F::kProduct == Product::Scaled) {
      multiply_scaled_chunk<F, Rows>(w, *x, sums, offsets);
    } else {
      multiply_chunk<F, Rows>(w, *x, static_cast<int>(kBlocks), sums, offsets);
    }
    for (int r = 0; r < Rows; ++r) {
      w[r] += F::kChunkBytes;
    }
  }
  if constexpr (F::kHasTails) {
    if (t.k % kChunk != 0) {
      multiply_chunk<F, Rows>(w, *x, static_cast<int>(t.k % kChunk / kBlock), sums, offsets);
    }
  }
  for (int r = 0; r < Rows; ++r) {
    constexpr float kOffset = F::kProduct == Product::Scaled ? -32.0F : 1.0F;
    const int64_t at = token * t.y_stride + row + r;
    t.y[at] = finished(t, sum(fma(offsets[r], splat(kOffset), sums[r])), row + r, at);
  }
}

// --- quantised weights, panel by panel ---

// 32 elements of 8 rows: vector g of w holds elements 4 g to 4 g + 3 of each.
struct PanelBlock {
  uint8_t w[kBlocks][32];
  float d[kPanelRows];
  float o[kPanelRows];  // Scaled: pairs of 16-bit factors
};

// `n_rows`: at most 8; the lanes beyond hold the first row once more.
template <typename F>
void decode_panel(const MatmulTask& t, int64_t row, int64_t n_rows, PanelBlock* out) {
  const uint8_t* w[kPanelRows];
  for (int64_t r = 0; r < kPanelRows; ++r) {
    w[r] = row_of(t, row + (r < n_rows ? r : 0));
  }
  for (int64_t c = 0; c < chunks_of(t.k); ++c, out += kBlocks) {
    const int n = blocks_from(t.k, c);
    Floats d[kPanelRows];
    Floats o[kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) {
      F::scales(w[r], n, d[r], o[r]);
    }
    transpose(d);
    transpose(o);
    for (int b = 0; b < n; ++b) {
      store(out[b].d, d[b]);
      store(out[b].o, o[b]);
    }
    for (int j = 0; 2 * j < n; ++j) {
      Floats first[kPanelRows];
      Floats second[kPanelRows];
#pragma GCC unroll 8
      for (int r = 0; r < kPanelRows; ++r) {
        const WeightPair weights = F::pair(w[r], j, n);
        first[r] = as_floats(weights.first);
        second[r] = as_floats(weights.second);
      }
      transpose(first);
      transpose(second);
      // Vectors 0 to 3 of `first` are of the one block, the others of the other (Scaled: all are of
      // the one).
      constexpr bool kWhole = F::kProduct == Product::Scaled;
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        store_bytes(out[2 * j].w[g], as_bytes(first[g]));
        store_bytes(out[2 * j].w[g + 4], as_bytes(kWhole ? first[g + 4] : second[g]));
        store_bytes(out[2 * j + 1].w[g], as_bytes(kWhole ? second[g] : first[g + 4]));
        store_bytes(out[2 * j + 1].w[g + 4], as_bytes(second[g + 4]));
      }
    }
    for (int r = 0; r < kPanelRows; ++r) {
      w[r] += F::kChunkBytes;
    }
  }
}

template <Product P>
EG_INLINE Floats multiply_block(const PanelBlock& panel, const Activations& x, int b, Floats sums) {
  const int8_t* const q = x.q + block_at(b);
  Ints product;
  if constexpr (P == Product::Scaled) {
    product = panel_dot_6(panel.w, q, panel.o, x.sums + 2 * b);
  } else if constexpr (P == Product::Signed) {
    product = panel_dot_signed(panel.w, q);
  } else if constexpr (P == Product::Five) {
    product = panel_dot_5(panel.w, q);
  } else {
    product = panel_dot_4(panel.w, q);
  }
  if constexpr (P == Product::Nibbles || P == Product::Five) {
    sums = fma(load(panel.o), splat(x.total[b]), sums);
  }
  return fma(to_floats(product), mul(load(panel.d), splat(x.d[b])), sums);
}

void finish_panel(const MatmulTask& t, Floats sums, int64_t row, int64_t n_rows, int64_t token) {
  const int64_t at = token * t.y_stride + row;
  if (n_rows == kPanelRows) {
    if (t.bias != nullptr) {
      sums = add(sums, load(t.bias + row));
    }
    if (t.residual != nullptr) {
      sums = add(sums, load(t.residual + at));
    }
    store(t.y + at, sums);
    return;
  }
  float lanes[kPanelRows];
  store(lanes, sums);
  for (int64_t r = 0; r < n_rows; ++r) {
    t.y[at + r] = finished(t, lanes[r], row + r, at + r);
  }
}

template <Product P, int Tokens>
void multiply_panel(const MatmulTask& t, const PanelBlock* panel, int64_t row, int64_t n_rows,
                    int64_t token) {
  const int64_t n_chunks = chunks_of(t.k);
  const Activations* rows[size_t{Tokens}];
  Floats sums[size_t{Tokens}];
  for (int i = 0; i < Tokens; ++i) {
    rows[i] = activations_of(t, token + i);
    sums[i] = splat(0.0F);
  }
  for (int64_t c = 0; c < n_chunks; ++c, panel += kBlocks) {
    const int n = blocks_from(t.k, c);
    for (int b = 0; b < n; ++b) {
#pragma GCC unroll 4
      for (int i = 0; i < Tokens; ++i) {
        sums[i] = multiply_block<P>(panel[b], rows[i][c], b, sums[i]);
      }
    }
  }
  for (int i = 0; i < Tokens; ++i) {
    finish_panel(t, sums[i], row, n_rows, token + i);
  }
}

template <Product P>
void multiply_panel(const MatmulTask& t, const PanelBlock* panel, int64_t row, int64_t n_rows,
                    int64_t token, int64_t n_tokens) {
  switch (n_tokens) {
    case 1:
      return multiply_panel<P, 1>(t, panel, row, n_rows, token);
    case 2:
      return multiply_panel<P, 2>(t, panel, row, n_rows, token);
    case 3:
      return multiply_panel<P, 3>(t, panel, row, n_rows, token);
    default:
      return multiply_panel<P, 4>(t, panel, row, n_rows, token);
  }
}

size_t panel_blocks(int64_t k) { return static_cast<size_t>(chunks_of(k) * kBlocks); }

template <typename F>
void multiply_quantised(const MatmulTask& t) {
  if (t.n_tokens < kDecodeFrom) {
    int64_t row = 0;
    for (; row + 2 <= t.n_rows; row += 2) {
      for (int64_t token = 0; token < t.n_tokens; ++token) {
        multiply_rows<F, 2>(t, row, token, activations_of(t, token));
      }
    }
    for (; row < t.n_rows; ++row) {
      for (int64_t token = 0; token < t.n_tokens; ++token) {
        multiply_rows<F, 1>(t, row, token, activations_of(t, token));
      }
    }
    return;
  }
  PanelBlock* const panels = static_cast<PanelBlock*>(t.scratch);
  const size_t panel_size = panel_blocks(t.k);
  for (int64_t first = 0; first < t.n_rows; first += kGroupRows) {
    const int64_t end = first + kGroupRows < t.n_rows ? first + kGroupRows : t.n_rows;
    PanelBlock* panel = panels;
    for (int64_t row = first; row < end; row += kPanelRows, panel += panel_size) {
      decode_panel<F>(t, row, end - row, panel);
    }
    for (int64_t token = 0; token < t.n_tokens; token += 4) {
      const int64_t n_tokens = t.n_tokens - token < 4 ? t.n_tokens - token : 4;
      panel = panels;
      for (int64_t row = first; row < end; row += kPanelRows, panel += panel_size) {
        const int64_t n_rows = end - row < kPanelRows ? end - row : kPanelRows;
        multiply_panel<F::kProduct>(t, panel, row, n_rows, token, n_tokens);
      }
    }
  }
}

// --- floats ---

struct F32 {
  static constexpr int64_t kBytes = 4;
  static EG_INLINE Floats load8(const void* p) { return load(static_cast<const float*>(p)); }
};
struct F16 {
  static constexpr int64_t kBytes = 2;
  static EG_INLINE Floats load8(const void* p) { return load_f16(p); }
};
struct BF16 {
  static constexpr int64_t kBytes = 2;
  static EG_INLINE Floats load8(const void* p) { return load_bf16(p); }
};

constexpr int64_t kLanes = 8;
constexpr int64_t kTileTokens = 3;
constexpr int64_t kDepth = 512;  // elements of many tokens' tiles: weights and activations fit L1

// The last elements of a row, fewer than 8, then zeros.
template <typename T>
EG_INLINE Floats load_tail(const uint8_t* w, int64_t n) {
  uint8_t lanes[kLanes * 4] = {};
  __builtin_memcpy(lanes, w, static_cast<size_t>(n * T::kBytes));
  return T::load8(lanes);
}

// Adds the products of the 8 elements of rows and tokens from `at` on.
template <typename T, int Rows, int Tokens>
EG_INLINE void add_products(const uint8_t* w, size_t stride,
                            const float* const (&x)[size_t{Tokens}], int64_t at,
                            Floats (&sums)[size_t{Tokens}][size_t{Rows}]) {
  Floats values[size_t{Tokens}];
#pragma GCC unroll 4
  for (int i = 0; i < Tokens; ++i) {
    values[i] = load(x[i] + at);
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    const Floats weights = T::load8(w + static_cast<size_t>(r) * stride + at * T::kBytes);
#pragma GCC unroll 4
    for (int i = 0; i < Tokens; ++i) {
      sums[i][r] = fma(weights, values[i], sums[i][r]);
    }
  }
}

// Products of `depth` elements of rows, `stride` bytes apart, and tokens.
template <typename T, int Rows, int Tokens>
EG_INLINE void tile_products(const uint8_t* w, size_t stride,
                             const float* const (&x)[size_t{Tokens}], int64_t depth,
                             float (&results)[size_t{Tokens}][size_t{Rows}]) {
  constexpr int64_t kLine = 64 / T::kBytes;
  Floats sums[size_t{Tokens}][size_t{Rows}];
  for (int i = 0; i < Tokens; ++i) {
    for (int r = 0; r < Rows; ++r) {
      sums[i][r] = splat(0.0F);
    }
  }
  int64_t at = 0;
  for (; at + kLine <= depth; at += kLine) {
    if constexpr (T::kBytes < 4) {  // F32 is no faster for it
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        __builtin_prefetch(w + static_cast<size_t>(r) * stride + at * T::kBytes + kPrefetchBytes, 0,
                           2);
      }
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < kLine; i += kLanes) {
      add_products<T, Rows, Tokens>(w, stride, x, at + i, sums);
    }
  }
  for (; at + kLanes <= depth; at += kLanes) {
    add_products<T, Rows, Tokens>(w, stride, x, at, sums);
  }
  if (at < depth) {
    for (int r = 0; r < Rows; ++r) {
      const uint8_t* const p = w + static_cast<size_t>(r) * stride + at * T::kBytes;
      const Floats weights = load_tail<T>(p, depth - at);
      for (int i = 0; i < Tokens; ++i) {
        sums[i][r] = fma(weights, load(x[i] + at), sums[i][r]);
      }
    }
  }
  for (int i = 0; i < Tokens; ++i) {
    for (int r = 0; r < Rows; ++r) {
      if constexpr (Rows == 4) {
        sum4(sums[i], results[i]);
        break;
      }
      results[i][r] = sum(sums[i][r]);
    }
  }
}

template <typename T, int Rows, int Tokens>
void multiply_tile(const MatmulTask& t, int64_t from, int64_t depth, int64_t row, int64_t token) {
  const float* x[size_t{Tokens}];
  for (int i = 0; i < Tokens; ++i) {
    x[i] = prepared_row<float>(t, ActivationForm::F32, token + i) + from;
  }
  float results[size_t{Tokens}][size_t{Rows}];
  tile_products<T, Rows, Tokens>(row_of(t, row) + from * T::kBytes, t.row_stride, x, depth,
                                 results);
  for (int i = 0; i < Tokens; ++i) {
    for (int r = 0; r < Rows; ++r) {
      const int64_t at = (token + i) * t.y_stride + row + r;
      t.y[at] = from == 0 ? finished(t, results[i][r], row + r, at) : t.y[at] + results[i][r];
    }
  }
}

template <typename T, int Rows>
EG_INLINE void multiply_tiles(const MatmulTask& t, int64_t from, int64_t depth, int64_t row,
                              int64_t token, int64_t n_tokens) {
  switch (n_tokens) {
    case 1:
      return multiply_tile<T, Rows, 1>(t, from, depth, row, token);
    case 2:
      return multiply_tile<T, Rows, 2>(t, from, depth, row, token);
    default:
      return multiply_tile<T, Rows, 3>(t, from, depth, row, token);
  }
}

template <typename T>
void multiply_floats(const MatmulTask& t) {
  const int64_t step = t.n_tokens <= kTileTokens ? t.k : kDepth;
  for (int64_t first = 0; first < t.n_rows; first += kGroupRows) {
    const int64_t end = first + kGroupRows < t.n_rows ? first + kGroupRows : t.n_rows;
    for (int64_t from = 0; from < t.k; from += step) {
      const int64_t depth = t.k - from < step ? t.k - from : step;
      for (int64_t token = 0; token < t.n_tokens; token += kTileTokens) {
        const int64_t left = t.n_tokens - token;
        const int64_t n_tokens = left < kTileTokens ? left : kTileTokens;
        int64_t row = first;
        for (; row + 4 <= end; row += 4) {
          multiply_tiles<T, 4>(t, from, depth, row, token, n_tokens);
        }
        for (; row < end; ++row) {
          multiply_tiles<T, 1>(t, from, depth, row, token, n_tokens);
        }
      }
    }
  }
}

// --- the table ---

void prepare(ActivationForm form, const float* x, int64_t k, void* prepared) {
  if (form == ActivationForm::Q8) {
    prepare_q8(x, k, static_cast<Activations*>(prepared));
    return;
  }
  const size_t bytes = static_cast<size_t>(k) * sizeof(float);
  __builtin_memcpy(prepared, x, bytes);
  __builtin_memset(static_cast<uint8_t*>(prepared) + bytes, 0, prepared_size(form, k) - bytes);
}

MatmulKernel kernel(ggml_type type, int64_t /*n_tokens*/) {
  switch (type) {
    case GGML_TYPE_F32:
      return {multiply_floats<F32>, ActivationForm::F32};
    case GGML_TYPE_F16:
      return {multiply_floats<F16>, ActivationForm::F32};
    case GGML_TYPE_BF16:
      return {multiply_floats<BF16>, ActivationForm::F32};
    case GGML_TYPE_Q4_0:
      return {multiply_quantised<Q4_0>, ActivationForm::Q8};
    case GGML_TYPE_Q4_1:
      return {multiply_quantised<Q4_1>, ActivationForm::Q8};
    case GGML_TYPE_Q5_0:
      return {multiply_quantised<Q5_0>, ActivationForm::Q8};
    case GGML_TYPE_Q5_1:
      return {multiply_quantised<Q5_1>, ActivationForm::Q8};
    case GGML_TYPE_Q8_0:
      return {multiply_quantised<Q8_0>, ActivationForm::Q8};
    case GGML_TYPE_Q4_K:
      return {multiply_quantised<Q4_K>, ActivationForm::Q8};
    case GGML_TYPE_Q5_K:
      return {multiply_quantised<Q5_K>, ActivationForm::Q8};
    case GGML_TYPE_Q6_K:
      return {multiply_quantised<Q6_K>, ActivationForm::Q8};
    default:
      return {};
  }
}

size_t scratch_size(ggml_type type, int64_t k) {
  return kernel(type, 1).form == ActivationForm::Q8
             ? kGroupRows / kPanelRows * panel_blocks(k) * sizeof(PanelBlock)
             : 0;
}

}  // namespace

extern const MatmulKernels kMatmulKernels;
const MatmulKernels kMatmulKernels = {EG_TEXT(EG_ISA), kernel, prepared_size, prepare,
                                      scratch_size};

}  // namespace EG_ISA
}  // namespace executorch_ggml
