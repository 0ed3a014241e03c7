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

// The part of a task that is of one head of keys and values.
EG_INLINE AttentionTask of_kv_head(const AttentionTask& task, int64_t kv_head) {
  const auto index = static_cast<size_t>(kv_head);
  const size_t first = index * static_cast<size_t>(task.n_heads);
  AttentionTask part = task;
  part.k = moved(task.k, index * task.k_head_stride);
  part.v = moved(task.v, index * task.v_head_stride);
  part.q = moved(task.q, first * task.q_head_stride);
  part.out = moved(task.out, first * task.out_head_stride);
  part.n_kv_heads = 1;
  if (task.scores != nullptr) {
    part.scores = task.scores + first;
  }
  return part;
}

// --- rows of keys and values ------------------------------------------------------------------
// kUnit: the vectors that are taken together. from: the place of element i, the first of a unit.
// at: vector `v` from a place. part: the first n elements from a place, fewer than a vector; the
// others are 0. kScaled: a unit has a scale, with which unscaled() is yet to be multiplied.

struct RowF32 {
  static constexpr int64_t kUnit = 1;
  static constexpr bool kScaled = false;

  static EG_INLINE const void* from(const void* row, int64_t i) {
    return static_cast<const float*>(row) + i;
  }
  static EG_INLINE Vec unscaled(const void* place, int64_t v) { return at(place, v); }
  static EG_INLINE Vec at(const void* place, int64_t v) {
    return load(static_cast<const float*>(place) + v * kWidth);
  }
  static EG_INLINE Vec part(const void* place, int64_t n) {
    return load_part(static_cast<const float*>(place), n);
  }
};

struct RowF16 {
  static constexpr int64_t kUnit = 1;
  static constexpr bool kScaled = false;

  static EG_INLINE const void* from(const void* row, int64_t i) {
    return static_cast<const ggml_fp16_t*>(row) + i;
  }
  static EG_INLINE Vec unscaled(const void* place, int64_t v) { return at(place, v); }
  static EG_INLINE Vec at(const void* place, int64_t v) {
    return load_f16(static_cast<const ggml_fp16_t*>(place) + v * kWidth);
  }
  static EG_INLINE Vec part(const void* place, int64_t n) {
    return load_f16_part(static_cast<const ggml_fp16_t*>(place), n);
  }
};

// Blocks of a scale in F16 and 32 bytes; a row is of whole blocks.
struct RowQ8 {
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = 34;
  static constexpr int64_t kUnit = kBlock / kWidth;
  static constexpr bool kScaled = true;

  static EG_INLINE const void* from(const void* row, int64_t i) {
    return static_cast<const char*>(row) + i / kBlock * kBytes;
  }
  static EG_INLINE Vec unscaled(const void* place, int64_t v) {
    const char* const block = static_cast<const char*>(place) + v / kUnit * kBytes;
    return load_bytes(reinterpret_cast<const int8_t*>(block) + 2 + v % kUnit * kWidth);
  }
  static EG_INLINE ggml_fp16_t scale(const void* place) {
    return *static_cast<const ggml_fp16_t*>(place);
  }
  static EG_INLINE Vec at(const void* place, int64_t v) {
    const char* const block = static_cast<const char*>(place) + v / kUnit * kBytes;
    return unscaled(place, v) * from_f16(scale(block));
  }
  static EG_INLINE Vec part(const void*, int64_t) { return Vec{}; }
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

EG_INLINE size_t row_bytes(ggml_type type, int64_t n) {
  const auto elements = static_cast<size_t>(n);
  switch (type) {
    case GGML_TYPE_F32:
      return elements * sizeof(float);
    case GGML_TYPE_F16:
      return elements * sizeof(ggml_fp16_t);
    default:
      return elements / RowQ8::kBlock * RowQ8::kBytes;
  }
}

// Asks for a row of n elements ahead of its use: rows of one head lie far apart, which the machine
// does not foresee.
EG_INLINE void prefetch_row(const void* row, size_t bytes) {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(moved(row, at), 0, 1);
  }
}

// --- scores -----------------------------------------------------------------------------------

EG_INLINE bool has_mask(const AttentionTask& task) {
  return task.mask != nullptr || task.mask_f32 != nullptr;
}

// What a mask does to keys: to show is not to hide (-inf), to change is to add anything but 0.
struct MaskLanes {
  Bits shows{};
  Bits changes{};
};

EG_INLINE bool any_of(Bits lanes) { return largest_of(lanes != 0 ? splat(1.0F) : Vec{}) != 0.0F; }

// The mask of a vector of keys for one query, from element `at`; `n`: of so many alone, the others
// -inf.
EG_INLINE Vec mask_of(const AttentionTask& task, int64_t at, int64_t n) {
  if (task.mask_f32 != nullptr) {
    const float* const from = task.mask_f32 + at;
    return n < kWidth ? load_part(from, n, kHidden) : load(from);
  }
  constexpr ggml_fp16_t kHiddenHalf = 0xFC00;
  const ggml_fp16_t* const from = task.mask + at;
  return n < kWidth ? load_f16_part(from, n, kHiddenHalf) : load_f16(from);
}

// Reads the mask of `n` keys from `key` for one query; `out`, if not null: room for whole vectors.
EG_INLINE void read_mask(const AttentionTask& task, int64_t token, int64_t key, int64_t n,
                         MaskLanes& found, float* out) {
  for (int64_t i = 0; i < n; i += kWidth) {
    const Vec values = mask_of(task, token * task.mask_stride + key + i, n - i);
    found.shows |= values != kHidden;
    // Lanes beyond the last key change nothing.
    found.changes |= (values != 0.0F) & (lane_numbers() < static_cast<int32_t>(n - i));
    if (out != nullptr) {
      store(out + i, values);
    }
  }
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

EG_INLINE void note_scores(const AttentionTask& task, int64_t token, int64_t head, float most,
                           float sum) {
  if (task.scores != nullptr) {
    task.scores[token * task.scores_stride + head] = {most, sum};
  }
}

// The maximum that scores are taken relative to: of no key at all, 0 instead of -inf, which
// would give NaN.
EG_INLINE Vec reference(Vec most) { return most == kHidden ? Vec{} : most; }

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
