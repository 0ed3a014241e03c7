// The keys and values of one attention layer, kept between calls.
//
// Tensors (ggml order, ne[0] first):
//   k  [k_head_dim * n_kv_heads, capacity, n_batch]
//   v  rows:       [v_head_dim * n_kv_heads, capacity, n_batch]
//      transposed: [capacity, v_head_dim * n_kv_heads, n_batch]
// Explicit attention multiplies by V^T, and ggml's product wants its first operand
// row by row, so V is stored transposed for it; flash attention reads V by rows.
// The choice is made once, at load.
//
// A step writes `count` consecutive positions from `first` and reads the first
// `n_kv` rows. plan() checks and changes nothing; start() is called right before the
// graph runs, commit() after. Rows at `used` and above are zero: a masked row has
// weight 0, and 0 * NaN would spoil the sum.
//
// Not thread-safe: the session's lock covers it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml.h"
#include "runtime/options.h"
#include "runtime/platform/zero_pages.h"
#include "runtime/program.h"
#include "runtime/status.h"

namespace executorch_ggml {

// n_kv is a multiple of this (or the whole capacity), so that a graph built for
// one token serves the next ones.
inline constexpr int64_t kKvBlock = 256;

struct KvConfig {
  CacheType type = CacheType::F16;
  bool flash = false;
  int64_t capacity = 0;  // positions; 0: the state's default
  ggml_backend_buffer_type_t buffer_type = nullptr;
};

struct KvStep {
  int64_t first = 0;  // position of the first row written
  int64_t count = 0;  // rows written
  int64_t n_kv = 0;   // rows read

  int64_t end() const { return first + count; }
  bool operator==(const KvStep&) const = default;
};

// Positions that a load with `requested` (0: the default) gets for `state`.
Status resolve_capacity(const State& state, int64_t requested, int64_t& out);

class KvCache {
 public:
  // Allocates and zeroes. Unsupported: geometry that the type cannot hold;
  // OutOfMemory names the bytes.
  static Status create(const State& state, const KvConfig& config, std::unique_ptr<KvCache>& out);

  // Whether a second method may use this cache: the same geometry, type, layout
  // and capacity. The error lists both.
  Status check_agrees(const State& state, const KvConfig& config) const;

  const std::string& name() const { return name_; }
  ggml_tensor* k() const { return k_; }
  ggml_tensor* v() const { return v_; }
  bool v_transposed() const { return !flash_; }
  int64_t capacity() const { return capacity_; }
  int64_t used() const { return used_; }
  int64_t k_head_dim() const { return k_head_dim_; }
  int64_t v_head_dim() const { return v_head_dim_; }
  int64_t n_kv_heads() const { return n_kv_heads_; }
  int64_t n_batch() const { return n_batch_; }
  int64_t window() const { return window_; }
  size_t bytes() const { return ggml_nbytes(k_) + ggml_nbytes(v_); }

  // Rows that a step ending before position `end` reads.
  int64_t rows_to_read(int64_t end) const;

  // InvalidState when `first` would leave a gap after the rows in use, or the step
  // does not fit. A `first` below used() overwrites, and drops what followed.
  Status plan(int64_t first, int64_t count, KvStep& out) const;
  // The graph will run: positions from the step's first on are dropped.
  void start(const KvStep& step) { truncate(step.first); }
  // The graph ran: the step's rows are valid.
  void commit(const KvStep& step) { used_ = step.end(); }
  // The graph failed midway: the step's rows hold anything. Clears them.
  void rollback(const KvStep& step) { clear_rows(step.first, step.end()); }

  // Keeps positions 0 .. position-1; no effect when fewer are used.
  void truncate(int64_t position);
  void reset();
  // Whether copy_from(other) is possible: shapes, type and layout are equal.
  Status check_same_layout(const KvCache& other) const;
  // Takes over the content of a cache of the same layout.
  void copy_from(const KvCache& other);

  // The used rows as one run of bytes: K, then V (per row or, transposed, per
  // channel). read_rows gives `used_bytes(used())` bytes, write_rows takes
  // `used_bytes(used)` bytes.
  size_t used_bytes(int64_t used) const;
  void read_rows(std::span<uint8_t> out) const;
  void write_rows(int64_t used, std::span<const uint8_t> bytes);

  // "f16[3 heads of 64 keys and 64 values, batch 1, 512 positions, window 0, ...]"
  std::string describe() const;

 private:
  KvCache() = default;
  void clear_rows(int64_t begin, int64_t end);

  std::string name_;
  CacheType type_ = CacheType::F16;
  bool flash_ = false;
  int64_t capacity_ = 0;
  int64_t used_ = 0;
  int64_t k_head_dim_ = 0;
  int64_t v_head_dim_ = 0;
  int64_t n_kv_heads_ = 0;
  int64_t n_batch_ = 0;
  int64_t window_ = 0;
  ggml_backend_buffer_type_t buffer_type_ = nullptr;
  ggml_context_ptr context_;
  ZeroPages pages_;  // the host's; freed after buffer_
  ggml_backend_buffer_ptr buffer_;
  ggml_tensor* k_ = nullptr;
  ggml_tensor* v_ = nullptr;
};

// The first of consecutive positions p, p+1, ...; `input` names them in errors.
Status first_position(std::span<const int32_t> positions, const char* input, int64_t& out);

// Fills a mask [n_kv, count] (rows of queries): 0 where query i, at position
// step.first + i, sees column j, else -infinity. Seen are j <= its position when
// causal, else j < step.end(); with a window > 0 only the last `window` of them.
void fill_mask(const KvStep& step, int64_t window, bool causal, std::span<float> mask);
void fill_mask(const KvStep& step, int64_t window, bool causal, std::span<ggml_fp16_t> mask);

// Row numbers of the step's positions, for ggml_set_rows: [count].
void fill_row_ids(const KvStep& step, std::span<int64_t> ids);

// Element numbers in a transposed V (batch by batch the same): for position i and
// channel c, ids[i * channels + c] = c * capacity + step.first + i.
void fill_value_ids(const KvStep& step, int64_t channels, int64_t capacity, std::span<int64_t> ids);

}  // namespace executorch_ggml
