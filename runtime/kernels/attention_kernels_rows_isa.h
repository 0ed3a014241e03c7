// What both forms of attention (few queries, many queries) read and compute alike, for one
// instruction set (see vector_isa.h).
#pragma once

#include "runtime/kernels/attention_kernels.h"
#include "runtime/kernels/vector_isa.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

constexpr float kHidden = -__builtin_inff();

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
EG_INLINE int64_t whole_vectors(int64_t n) { return (n + kWidth - 1) / kWidth * kWidth; }

template <typename T>
EG_INLINE T* moved(T* p, size_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(p) + bytes);
}

// Parts of a task's scratch memory, one after another; from zero, to learn how much it takes.
struct Room {
  uintptr_t next;

  EG_INLINE float* take(int64_t n_floats) {
    constexpr uintptr_t kLine = 64;
    const uintptr_t start = next;
    next += (static_cast<uintptr_t>(n_floats) * sizeof(float) + kLine - 1) / kLine * kLine;
    return reinterpret_cast<float*>(start);
  }
};

// --- rows of keys and values ------------------------------------------------------------------
// at: a vector from element i; part: the first n lanes of one, the others 0.

struct RowF32 {
  static EG_INLINE Vec at(const void* row, int64_t i) {
    return load(static_cast<const float*>(row) + i);
  }
  static EG_INLINE Vec part(const void* row, int64_t i, int64_t n) {
    return load_part(static_cast<const float*>(row) + i, n);
  }
};

struct RowF16 {
  static EG_INLINE Vec at(const void* row, int64_t i) {
    return load_f16(static_cast<const ggml_fp16_t*>(row) + i);
  }
  static EG_INLINE Vec part(const void* row, int64_t i, int64_t n) {
    return load_f16_part(static_cast<const ggml_fp16_t*>(row) + i, n);
  }
};

// Blocks of a scale in F16 and 32 bytes; a row is of whole blocks.
struct RowQ8 {
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 34;

  using Bytes = int8_t __attribute__((vector_size(kWidth), aligned(1), may_alias));

  static EG_INLINE Vec at(const void* row, int64_t i) {
    const char* const block = static_cast<const char*>(row) + i / kBlock * kBytes;
    const Bytes bytes = *reinterpret_cast<const Bytes*>(block + 2 + i % kBlock);
    const Vec values = __builtin_convertvector(__builtin_convertvector(bytes, Bits), Vec);
    return values * from_f16(*reinterpret_cast<const ggml_fp16_t*>(block));
  }
  static EG_INLINE Vec part(const void*, int64_t, int64_t) { return Vec{}; }
};

// Calls run(a row type) for a type that supports() takes.
template <typename Run>
EG_INLINE void with_rows_of(ggml_type type, Run run) {
  switch (type) {
    case GGML_TYPE_F32:
      return run(RowF32{});
    case GGML_TYPE_F16:
      return run(RowF16{});
    default:
      return run(RowQ8{});
  }
}

// --- scores -----------------------------------------------------------------------------------

EG_INLINE bool has_mask(const AttentionTask& task) {
  return task.mask != nullptr || task.mask_f32 != nullptr;
}

// The mask of `n` keys from `key` for one query, in F32, and whether it changes nothing.
EG_INLINE bool read_mask(const AttentionTask& task, int64_t token, int64_t key, int64_t n,
                         float* out) {
  const int64_t start = token * task.mask_stride + key;
  Bits changes{};
  int64_t i = 0;
  for (; i < n; i += kWidth) {
    const int64_t left = n - i;
    Vec values;
    if (task.mask != nullptr) {
      const ggml_fp16_t* const at = task.mask + start + i;
      values = left < kWidth ? load_f16_part(at, left) : load_f16(at);
    } else {
      const float* const at = task.mask_f32 + start + i;
      values = left < kWidth ? load_part(at, left) : load(at);
    }
    changes |= values != 0.0F;
    if (left < kWidth) {
      store_part(out + i, left, values);
    } else {
      store(out + i, values);
    }
  }
  int32_t any = 0;
  for (int64_t lane = 0; lane < kWidth; ++lane) {
    any |= changes[lane];
  }
  return any == 0;
}

// What queries are multiplied with, so that a product needs no more than capped().
EG_INLINE float query_scale(const AttentionTask& task) {
  return task.softcap == 0.0F ? task.scale : task.scale / task.softcap;
}

// cap tanh(x), where tanh(x) = f / (f + 2) of f = e^(2 x) - 1.
EG_INLINE Vec capped(Vec x, float cap) {
  constexpr float kMost = 20.0F;  // tanh is 1 from here
  x = x < -kMost ? splat(-kMost) : x;
  x = x > kMost ? splat(kMost) : x;
  const Exp e = exp_parts(x * 2.0F, Vec{});
  const Vec power = times_power_of_two(splat(1.0F), e.exponent);
  const Vec f = e.fraction * power + (power - 1.0F);
  return f / (f + 2.0F) * cap;
}

// The maximum that scores are taken relative to: of no key at all, 0 instead of -inf, which
// would give NaN.
EG_INLINE Vec reference(Vec most) { return most == kHidden ? Vec{} : most; }

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
