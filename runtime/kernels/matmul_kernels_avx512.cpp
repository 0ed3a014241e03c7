// The set for AVX-512 with VNNI.
#if defined(__x86_64__)
#include "runtime/kernels/matmul_kernels_avx512.h"

#include "runtime/kernels/matmul_kernels_avx512_float.h"
#include "runtime/kernels/matmul_kernels_avx512_q8_0.h"
#include "runtime/kernels/matmul_kernels_avx512_q8_many.h"
#include "runtime/kernels/matmul_kernels_avx512_types.h"

namespace executorch_ggml::avx512 {

extern const MatmulKernels kMatmulKernels;

namespace {

constexpr int32_t kInfinityBits = 0x7F800000;

// A smaller block has no scale that is a normal float: it is taken for zeros.
constexpr float kSmallest = 1.5e-36F;

// The integers of 16 elements, whose sum is returned.
EG_INLINE int32_t quantize(__m512 x, float per_step, int8_t* q) {
  const __m512i n = _mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(per_step)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8(n));
  return _mm512_reduce_add_epi32(n);
}

EG_INLINE void prepare_block(__m512 low, __m512 high, Q8Block& to, int64_t block) {
  // As integers, NaN is the largest of all.
  const __m512i magnitudes = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(low)),
                                              _mm512_castps_si512(_mm512_abs_ps(high)));
  const int32_t largest_bits = _mm512_reduce_max_epi32(magnitudes);
  const float largest = __builtin_bit_cast(float, largest_bits);
  const bool finite = largest_bits < kInfinityBits;
  const bool some = finite && largest >= kSmallest;
  const float scale = some ? largest / 127.0F : finite ? 0.0F : __builtin_nanf("");
  if (!some) {
    low = high = _mm512_setzero_ps();
  }
  const float per_step = some ? 127.0F / largest : 0.0F;
  int8_t* const q = to.q + block / 4 * kGroup + block % 4 * 16;
  const int32_t sum_low = quantize(low, per_step, q);
  const int32_t sum = sum_low + quantize(high, per_step, q + 64);
  to.scale[block] = scale;
  to.scaled_sum[block] = scale * static_cast<float>(sum);
  to.offset[block] = -kPanelOffset * sum;
  to.offset_low[block] = -kPanelOffset * sum_low;
}

size_t prepared_size(ActivationForm form, int64_t k) {
  return static_cast<size_t>(form == ActivationForm::Q8 ? q8_row_size(k) : float_row_size(k));
}

void prepare(ActivationForm form, const float* x, int64_t k, void* prepared) {
  if (form == ActivationForm::F32) {
    float* const to = static_cast<float*>(prepared);
    for (int64_t i = 0; i < k; i += 16) {
      _mm512_store_ps(to + i, _mm512_maskz_loadu_ps(first_lanes(k - i), x + i));
    }
    return;
  }
  Q8Block* to = static_cast<Q8Block*>(prepared);
  for (int64_t first = 0; first < k; first += kQ8Elements, ++to) {
    for (int64_t block = 0; block < kQ8Elements / kBlock; ++block) {
      const int64_t at = first + block * kBlock;
      const bool inside = at < k;
      prepare_block(inside ? _mm512_loadu_ps(x + at) : _mm512_setzero_ps(),
                    inside ? _mm512_loadu_ps(x + at + 16) : _mm512_setzero_ps(), *to, block);
    }
  }
}

template <class Type>
MatmulKernel quantized() {
  return {multiply<Q8Product<Type>>, ActivationForm::Q8};
}

template <class Element>
MatmulKernel floats() {
  return {multiply<FloatProduct<Element>>, ActivationForm::F32};
}

MatmulKernel kernel(ggml_type type, int64_t /*n_tokens*/) {
  switch (type) {
    case GGML_TYPE_Q8_0:
      return {multiply<Q8_0Product>, ActivationForm::Q8};
    case GGML_TYPE_Q4_0:
      return quantized<Q4_0>();
    case GGML_TYPE_Q4_1:
      return quantized<Q4_1>();
    case GGML_TYPE_Q5_0:
      return quantized<Q5_0>();
    case GGML_TYPE_Q5_1:
      return quantized<Q5_1>();
    case GGML_TYPE_Q4_K:
      return quantized<Q4_K>();
    case GGML_TYPE_Q5_K:
      return quantized<Q5_K>();
    case GGML_TYPE_Q6_K:
      return quantized<Q6_K>();
    case GGML_TYPE_F16:
      return floats<F16>();
    case GGML_TYPE_BF16:
      return floats<BF16>();
    case GGML_TYPE_F32:
      return floats<F32>();
    default:
      return {};
  }
}

size_t scratch_size(ggml_type type, int64_t k) {
  if (kernel(type, 1).form == ActivationForm::F32) {
    const int64_t n = k < kFloatChunk ? k : kFloatChunk;
    return static_cast<size_t>(n) * kFloatRows * sizeof(float);
  }
  const int64_t n = k < kQ8Chunk ? k : kQ8Chunk;
  const size_t size = static_cast<size_t>(n_groups(n)) * sizeof(PanelGroup);
  return type == GGML_TYPE_Q8_0 && plain_size(k) > size ? plain_size(k) : size;
}

}  // namespace

const MatmulKernels kMatmulKernels = {"avx512", kernel, prepared_size, prepare, scratch_size};

}  // namespace executorch_ggml::avx512
#endif
