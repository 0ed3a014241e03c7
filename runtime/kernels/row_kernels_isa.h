// The kernels of row_kernels.h for one instruction set (see vector_isa.h).
#pragma once

#include "runtime/kernels/row_kernels.h"
#include "runtime/kernels/vector_isa.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

template <typename F>
EG_INLINE void map(const float* x, int64_t n, float* out, F f) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    store(out + i, f(load(x + i)));
  }
  if (i < n) {
    store_part(out + i, n - i, f(load_part(x + i, n - i)));
  }
}

template <typename F>
EG_INLINE void map2(const float* a, const float* b, int64_t n, float* out, F f) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    store(out + i, f(load(a + i), load(b + i)));
  }
  if (i < n) {
    store_part(out + i, n - i, f(load_part(a + i, n - i), load_part(b + i, n - i)));
  }
}

// The sum of f over a row, for an f that is 0 of `fill`. Several sums at a time, since one
// addition waits for the other.
template <typename F>
EG_INLINE float sum_over(const float* x, int64_t n, float fill, F f) {
  constexpr int64_t kSums = 4;
  Vec sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * kWidth <= n; i += kSums * kWidth) {
#pragma GCC unroll 4
    for (int64_t s = 0; s < kSums; ++s) {
      sums[s] += f(load(x + i + s * kWidth));
    }
  }
  for (; i + kWidth <= n; i += kWidth) {
    sums[0] += f(load(x + i));
  }
  if (i < n) {
    sums[1] += f(load_part(x + i, n - i, fill));
  }
  return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// --- norms ------------------------------------------------------------------------------------

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* out) {
  const float squares = sum_over(x, n, 0.0F, [](Vec v) { return v * v; });
  const float factor = 1.0F / __builtin_sqrtf(squares / static_cast<float>(n) + eps);
  if (weight == nullptr) {
    map(x, n, out, [factor](Vec v) { return v * factor; });
  } else {
    map2(x, weight, n, out, [factor](Vec v, Vec w) { return v * factor * w; });
  }
}

void layer_norm(const float* x, float eps, int64_t n, float* out) {
  const float count = static_cast<float>(n);
  const float mean = sum_over(x, n, 0.0F, [](Vec v) { return v; }) / count;
  const float squares = sum_over(x, n, mean, [mean](Vec v) { return (v - mean) * (v - mean); });
  const float factor = 1.0F / __builtin_sqrtf(squares / count + eps);
  map(x, n, out, [mean, factor](Vec v) { return (v - mean) * factor; });
}

// --- element by element -----------------------------------------------------------------------

void add(const float* a, const float* b, int64_t n, float* out) {
  map2(a, b, n, out, [](Vec u, Vec v) { return u + v; });
}

void mul(const float* a, const float* b, int64_t n, float* out) {
  map2(a, b, n, out, [](Vec u, Vec v) { return u * v; });
}

void scale(const float* x, float factor, float offset, int64_t n, float* out) {
  if (offset == 0.0F) {  // a negative zero stays one
    map(x, n, out, [factor](Vec v) { return v * factor; });
    return;
  }
  map(x, n, out, [factor, offset](Vec v) { return v * factor + offset; });
}

// x / (1 + e^-y), of a y with the sign of x; no power overflows.
EG_INLINE Vec times_sigmoid(Vec x, Vec y) {
  const Vec power = exp_of(-magnitude(y));
  return (x < 0.0F ? x * power : x) / (power + 1.0F);
}

// Zero from where e^-x has no float, as PyTorch computes it: the true value is below 2e-37.
EG_INLINE Vec silu_of(Vec x) {
  constexpr float kLeast = -0x1.62e42ep+6F;  // -log(FLT_MAX)
  return x < kLeast ? x * 0.0F : times_sigmoid(x, x);
}

// x (1 + tanh y) / 2 = x / (1 + e^(-2 y)) with y = sqrt(2 / pi) (x + 0.044715 x^3).
EG_INLINE Vec gelu_of(Vec x) {
  constexpr float kLinear = 0x1.988454p+0F;  // 2 sqrt(2 / pi)
  constexpr float kCubic = 0x1.2444f2p-4F;   // 0.044715 of it
  return times_sigmoid(x, x * (x * x * kCubic + kLinear));
}

// x Phi(x) = max(x, 0) - a Phi(-a), where a = |x| and Phi is the normal distribution.
//
// Phi(-a) falls like e^(-a^2 / 2) / (a + 2.5) times a function that hardly varies: 1 / 2 and a
// polynomial in 1 / 2 - a / (a + 2.5). What a^2 and a + 3 lose to rounding is made good.
EG_INLINE Vec gelu_erf_of(Vec x) {
  constexpr float kMost = 15.0F;  // e^(-a^2 / 2) is zero from here
  constexpr float kShift = 2.5F;
  const Vec full = magnitude(x);
  const Vec a = full > kMost ? splat(kMost) : full;
  // a^2 = coarse^2 + (a + coarse) (a - coarse), of which the first is exact.
  const Vec coarse = from_bits(bits_of(a) & ~0xFFF);
  const Exp e = exp_parts(coarse * coarse * -0.5F, (a + coarse) * (a - coarse) * -0.5F);

  const Vec sum = a + kShift;
  const Vec shift = sum - a;
  const Vec lost = (a - (sum - shift)) + (kShift - shift);  // a + kShift = sum + lost
  const Vec w = a / sum;
  const Vec v = 0.5F - w;
  Vec p = splat(0x1.4b870cp-4F);
  p = p * v + -0x1.45b40cp-4F;
  p = p * v + -0x1.67c09p-4F;
  p = p * v + 0x1.4aa736p-3F;
  p = p * v + 0x1.a40cd2p-5F;
  p = p * v + -0x1.0c761cp-2F;
  p = p * v + -0x1.2ea7b2p-4F;
  p = p * v + 0x1.0e4f2p-1F;
  p = p * v + 0x1.bc19c4p-1F;
  p = p * v + 0x1.a73b9cp-3F;
  // w (1/2 + p) e^..., in which w / 2 is exact and all else is added to it at once.
  const Vec factor = e.fraction - lost * ((v + 0.5F) * (1.0F / kShift));
  const Vec rest = (p + 0.5F) * factor + p;
  const Vec tail = times_power_of_two(w * rest + w * 0.5F, e.exponent);
  return (x < 0.0F ? Vec{} : x) - tail;
}

void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  map2(gate, up, n, out, [](Vec g, Vec u) { return silu_of(g) * u; });
}

void geglu(const float* gate, const float* up, int64_t n, float* out) {
  map2(gate, up, n, out, [](Vec g, Vec u) { return gelu_of(g) * u; });
}

void silu(const float* x, int64_t n, float* out) { map(x, n, out, silu_of); }
void gelu_erf(const float* x, int64_t n, float* out) { map(x, n, out, gelu_erf_of); }
void gelu(const float* x, int64_t n, float* out) { map(x, n, out, gelu_of); }

// --- softmax ----------------------------------------------------------------------------------

void softmax(const float* x, const float* mask, float factor, int64_t n, float* out) {
  if (mask == nullptr) {
    map(x, n, out, [factor](Vec v) { return v * factor; });
  } else {
    map2(x, mask, n, out, [factor](Vec v, Vec m) { return v * factor + m; });
  }
  constexpr float kNone = -__builtin_inff();
  Vec most = splat(kNone);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    most = max_of(most, load(out + i));
  }
  if (i < n) {
    most = max_of(most, load_part(out + i, n - i, kNone));
  }
  // A NaN gives a sum that is NaN, and -inf alone does: -inf - -inf.
  const float largest = largest_of(most);
  map(out, n, out, [largest](Vec v) { return exp_of(v - largest); });
  const float factor_of_sum = 1.0F / sum_over(out, n, 0.0F, [](Vec v) { return v; });
  map(out, n, out, [factor_of_sum](Vec v) { return v * factor_of_sum; });
}

// --- rope -------------------------------------------------------------------------------------

void rope(const float* x, const float* cosines, const float* sines, int64_t n_dims, int64_t n,
          bool neox, float* out) {
  const int64_t n_pairs = n_dims / 2;
  int64_t i = 0;
  for (; i + kWidth <= n_pairs; i += kWidth) {
    const Vec cosine = load(cosines + i);
    const Vec sine = load(sines + i);
    if (neox) {
      const Vec first = load(x + i);
      const Vec second = load(x + i + n_pairs);
      store(out + i, first * cosine - second * sine);
      store(out + i + n_pairs, first * sine + second * cosine);
    } else {
      const Vec low = load(x + 2 * i);
      const Vec high = load(x + 2 * i + kWidth);
      const Vec first = evens(low, high);
      const Vec second = odds(low, high);
      const Vec turned = first * cosine - second * sine;
      const Vec other = first * sine + second * cosine;
      store(out + 2 * i, interleaved_low(turned, other));
      store(out + 2 * i + kWidth, interleaved_high(turned, other));
    }
  }
  const int64_t step = neox ? 1 : 2;
  const int64_t apart = neox ? n_pairs : 1;
  for (; i < n_pairs; ++i) {
    const float first = x[i * step];
    const float second = x[i * step + apart];
    out[i * step] = first * cosines[i] - second * sines[i];
    out[i * step + apart] = first * sines[i] + second * cosines[i];
  }
  if (out != x) {
    for (i = 2 * n_pairs; i < n; ++i) {
      out[i] = x[i];
    }
  }
}

void to_f16(const float* x, int64_t n, ggml_fp16_t* out) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    store_f16(out + i, load(x + i));
  }
  if (i < n) {
    ggml_fp16_t lanes[kWidth];
    store_f16(lanes, load_part(x + i, n - i));
    for (int64_t lane = 0; lane < n - i; ++lane) {
      out[i + lane] = lanes[lane];
    }
  }
}

template <int Planes>
void interleave_planes(const float* __restrict x, int64_t stride, int64_t n,
                       float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 4
    for (int p = 0; p < Planes; ++p) {
      out[i * Planes + p] = x[p * stride + i];
    }
  }
}

void interleave(const float* x, int64_t stride, int64_t n_planes, int64_t n, float* out) {
  return n_planes == 2   ? interleave_planes<2>(x, stride, n, out)
         : n_planes == 3 ? interleave_planes<3>(x, stride, n, out)
                         : interleave_planes<4>(x, stride, n, out);
}

}  // namespace

extern const RowKernels kRowKernels;
const RowKernels kRowKernels = {
    .isa = EG_TEXT(EG_ISA),
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .add = add,
    .mul = mul,
    .scale = scale,
    .swiglu = swiglu,
    .geglu = geglu,
    .silu = silu,
    .gelu_erf = gelu_erf,
    .gelu = gelu,
    .softmax = softmax,
    .rope = rope,
    .to_f16 = to_f16,
    .interleave = interleave,
};

}  // namespace EG_ISA
}  // namespace executorch_ggml
