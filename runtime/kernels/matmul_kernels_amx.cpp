// The set for AMX: tiles multiply quantised weights by many tokens; all else is AVX-512.
//
// The tiles' products of int8 would have to be scaled block by block, outside them. Those of BF16
// add up whole rows. Weights and activations are rounded to BF16 for it, by 2^-8 of each at most:
// less than what weights have lost to their own type and than what Q8 takes from activations.
#if defined(__x86_64__)
#include "runtime/kernels/matmul_kernels_avx512.h"
#include "runtime/kernels/matmul_kernels_avx512_q8_many.h"
#include "runtime/kernels/matmul_kernels_avx512_types.h"

namespace executorch_ggml {
namespace avx512 {
extern const MatmulKernels kMatmulKernels;

namespace {

// --- tiles ------------------------------------------------------------------------------------
//
// In assembler, as compilers do not see what the intrinsics read and write.

constexpr int64_t kTileRows = 16;

struct alignas(64) TileConfig {
  uint8_t palette = 0;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

constexpr TileConfig tile_config() {
  TileConfig c;
  c.palette = 1;
  for (int i = 0; i < 8; ++i) {
    c.row_bytes[i] = 64;
    c.rows[i] = kTileRows;
  }
  return c;
}

// While it lives, the thread has our configuration; then it gets back what it had.
class TileScope {
 public:
  EG_INLINE TileScope() {
    const TileConfig ours = tile_config();
    __asm__ volatile("sttilecfg %0" : "=m"(before_));
    __asm__ volatile("ldtilecfg %0" : : "m"(ours));
  }
  EG_INLINE ~TileScope() {
    if (before_.palette != 0) {
      __asm__ volatile("ldtilecfg %0" : : "m"(before_));
    } else {
      __asm__ volatile("tilerelease");
    }
  }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  TileConfig before_;
};

template <int kTile>
EG_INLINE void load_tile(const void* p, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
EG_INLINE void store_tile_to(void* p) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                   :
                   : "r"(p), "r"(int64_t{64}), "i"(kTile)
                   : "memory");
}

template <int kTile>
EG_INLINE void clear_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

template <int kSum, int kOfTokens, int kOfRows>
EG_INLINE void add_product() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                   :
                   : "i"(kSum), "i"(kOfTokens), "i"(kOfRows));
}

// --- decoded rows -----------------------------------------------------------------------------

constexpr int64_t kFewest = 64;   // tokens: for fewer, decoding takes longer than it saves
constexpr int kNotFinite = 0x99;  // what _mm512_fpclass_ps_mask calls NaN or infinite
constexpr uint16_t kBf16Nan = 0x7FC0;
constexpr int64_t kAmxChunk = 1024;
constexpr int64_t kStep = 32;  // elements of a tile's product
constexpr int kPanels = 2;     // side by side

// Two elements of each of 16 rows.
using Pairs = uint16_t[16][2];

// 32 elements of two panels.
struct alignas(64) WeightStep {
  Pairs panels[kPanels][16];
};

EG_INLINE __m512i pairs(__m512 first, __m512 second) {
  const __m512i half = _mm512_set1_epi32(0x8000);  // rounds the upper halves of the bits
  const __m512i low = _mm512_add_epi32(_mm512_castps_si512(first), half);
  const __m512i high = _mm512_add_epi32(_mm512_castps_si512(second), half);
  return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(low, 16), high);
}

// The elements `kFirst` and the next of four of each row.
template <int kMin, unsigned kFirst>
EG_INLINE __m512i weights(__m512i q, __m512 scale, __m512 min) {
  const auto weight = [&](unsigned at) __attribute__((always_inline)) {
    const __m512i n = _mm512_srai_epi32(_mm512_slli_epi32(q, 24 - 8 * at), 24);
    const __m512 v = _mm512_cvtepi32_ps(n);
    return kMin > 0   ? _mm512_fmadd_ps(v, scale, min)
           : kMin < 0 ? _mm512_fmsub_ps(v, scale, min)
                      : _mm512_mul_ps(v, scale);
  };
  return pairs(weight(kFirst), weight(kFirst + 1));
}

// A group of a panel that decode_q8 has decoded.
template <int kMin, bool kSplit>
EG_INLINE void round_group(const PanelGroup& from, int panel, WeightStep* to) {
  for (int b = 0; b < kGroupBlocks; ++b) {
    const __m512 min = _mm512_load_ps(from.min[b]);
    for (int half = 0; half < 2; ++half) {
      const __m512 scale = _mm512_load_ps(from.scale[kSplit ? 4 * half + b : b]);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) {
        const __m512i q = _mm512_load_si512(from.q[16 * half + 4 * b + c]);
        Pairs* const at = to[b].panels[panel] + 8 * half + 2 * c;
        _mm512_store_si512(at[0], weights<kMin, 0>(q, scale, min));
        _mm512_store_si512(at[1], weights<kMin, 2>(q, scale, min));
      }
    }
  }
}

// Bytes from a prepared token to the next, an odd number of cache lines: the same elements of the
// tokens of a tile lie in different sets of a cache.
constexpr int64_t token_stride(int64_t k) { return (k * 2 + 63) / 64 / 2 * 128 + 64; }

struct AmxScratch {
  WeightStep steps[kAmxChunk / kStep];
  PanelGroup panel[kAmxChunk / kGroup];
};

// --- tiles of tokens and rows -----------------------------------------------------------------

// `kTiles` times 16 tokens, of which those before `from` are done already, times two panels. The
// tiles 0 to 3 are sums, 4 and 5 hold tokens, 6 and 7 rows.
template <int kTiles>
void amx_tile(const MatmulTask& t, int64_t row, int64_t token, int64_t from, int64_t first,
              int64_t n) {
  const int64_t stride = token_stride(t.k);
  const uint16_t* const x =
      reinterpret_cast<const uint16_t*>(static_cast<const char*>(t.x) + token * stride) + first;
  const WeightStep* const w = static_cast<const AmxScratch*>(t.scratch)->steps;
  clear_tile<0>();
  clear_tile<1>();
  clear_tile<2>();
  clear_tile<3>();
  for (int64_t s = 0; s < n / kStep; ++s) {
    const uint16_t* const a = x + s * kStep;
    load_tile<4>(a, stride);
    load_tile<6>(w[s].panels[0], 64);
    add_product<0, 4, 6>();
    load_tile<7>(w[s].panels[1], 64);
    add_product<2, 4, 7>();
    if constexpr (kTiles > 1) {
      load_tile<5>(reinterpret_cast<const char*>(a) + kTileRows * stride, stride);
      add_product<1, 5, 6>();
      add_product<3, 5, 7>();
    }
  }
  alignas(64) float sums[kPanels][2 * size_t{kTileRows}][size_t{kPanelRows}];
  store_tile_to<0>(sums[0]);
  store_tile_to<2>(sums[1]);
  if constexpr (kTiles > 1) {
    store_tile_to<1>(sums[0] + kTileRows);
    store_tile_to<3>(sums[1] + kTileRows);
  }
  for (int panel = 0; panel < kPanels && row + panel * kPanelRows < t.n_rows; ++panel) {
    for (int64_t i = from; i < kTiles * kTileRows; ++i) {
      const __m512 sum = _mm512_load_ps(sums[panel][i]);
      store_tile<1>(t, &sum, row + panel * kPanelRows, token + i, 1);
    }
  }
}

template <class Type>
struct AmxProduct {
  static constexpr int64_t kRows = kPanels * kPanelRows;
  static constexpr int64_t kChunk = kAmxChunk;
  static constexpr int64_t kTokenBytes = kChunk * 2;

  static EG_INLINE void decode(const MatmulTask& t, int64_t row, int64_t first, int64_t n) {
    AmxScratch* const scratch = static_cast<AmxScratch*>(t.scratch);
    MatmulTask part = t;
    part.scratch = scratch->panel;
    for (int panel = 0; panel < kPanels; ++panel) {
      decode_q8<Type, 0>(part, row + panel * kPanelRows, first, n);
      for (int64_t g = 0; g < n_groups(n); ++g) {
        round_group<Type::kMin, Type::kSplit>(scratch->panel[g], panel,
                                              scratch->steps + g * kGroupBlocks);
      }
    }
  }
  // The last tokens that do not fill a tile are taken with some that are done already.
  static EG_INLINE void tiles(const MatmulTask& t, int64_t row, int64_t token, int64_t end,
                              int64_t first, int64_t n) {
    for (; token + 2 * kTileRows <= end; token += 2 * kTileRows) {
      amx_tile<2>(t, row, token, 0, first, n);
    }
    if (token + kTileRows < end) {
      const int64_t begin = end - 2 * kTileRows;
      amx_tile<2>(t, row, begin, token - begin, first, n);
    } else if (token < end) {
      const int64_t begin = end - kTileRows;
      amx_tile<1>(t, row, begin, token - begin, first, n);
    }
  }
};

template <class Type>
void multiply_amx(const MatmulTask& t) {
  const TileScope scope;
  multiply_panels<AmxProduct<Type>, 2 * int{kTileRows}>(t, AmxProduct<Type>::tiles);
}

template <class Type>
MatmulKernel tiled() {
  return {multiply_amx<Type>, ActivationForm::BF16};
}

MatmulKernel tiled(ggml_type type) {
  switch (type) {
    case GGML_TYPE_Q8_0:
      return tiled<Q8_0>();
    case GGML_TYPE_Q4_0:
      return tiled<Q4_0>();
    case GGML_TYPE_Q4_1:
      return tiled<Q4_1>();
    case GGML_TYPE_Q5_0:
      return tiled<Q5_0>();
    case GGML_TYPE_Q5_1:
      return tiled<Q5_1>();
    case GGML_TYPE_Q4_K:
      return tiled<Q4_K>();
    case GGML_TYPE_Q5_K:
      return tiled<Q5_K>();
    case GGML_TYPE_Q6_K:
      return tiled<Q6_K>();
    default:
      return {};
  }
}

MatmulKernel amx_kernel(ggml_type type, int64_t n_tokens) {
  const MatmulKernel many = n_tokens < kFewest ? MatmulKernel{} : tiled(type);
  return many.multiply != nullptr ? many : kMatmulKernels.kernel(type, n_tokens);
}

size_t prepared_size(ActivationForm form, int64_t k) {
  return form == ActivationForm::BF16 ? static_cast<size_t>(token_stride(k))
                                      : kMatmulKernels.prepared_size(form, k);
}

// What would round to infinity is the largest number instead.
EG_INLINE __m256i rounded(__m512 x) {
  const __m512 largest = _mm512_castsi512_ps(_mm512_set1_epi32(0x7F7F0000));
  const __m512 smallest = _mm512_sub_ps(_mm512_setzero_ps(), largest);
  const __m512i bits = _mm512_castps_si512(_mm512_max_ps(smallest, _mm512_min_ps(largest, x)));
  return _mm512_cvtepi32_epi16(
      _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x8000)), 16));
}

void prepare(ActivationForm form, const float* x, int64_t k, void* prepared) {
  if (form != ActivationForm::BF16) {
    kMatmulKernels.prepare(form, x, k, prepared);
    return;
  }
  // As in the other forms, a token with an element that is not finite becomes NaN.
  __mmask16 bad = 0;
  uint16_t* const to = static_cast<uint16_t*>(prepared);
  for (int64_t i = 0; i < k; i += 16) {
    const __m512 v = _mm512_loadu_ps(x + i);
    bad |= _mm512_fpclass_ps_mask(v, kNotFinite);
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + i), rounded(v));
  }
  if (bad != 0) {
    to[0] = kBf16Nan;
  }
}

size_t amx_scratch_size(ggml_type type, int64_t k) {
  const size_t size = kMatmulKernels.scratch_size(type, k);
  return tiled(type).multiply != nullptr && size < sizeof(AmxScratch) ? sizeof(AmxScratch) : size;
}

}  // namespace
}  // namespace avx512

namespace amx {

extern const MatmulKernels kMatmulKernels;
const MatmulKernels kMatmulKernels = {"amx", avx512::amx_kernel, avx512::prepared_size,
                                      avx512::prepare, avx512::amx_scratch_size};

}  // namespace amx
}  // namespace executorch_ggml
#endif
