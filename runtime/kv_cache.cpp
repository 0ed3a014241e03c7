#include "runtime/kv_cache.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <limits>

#include "executorch_ggml/options.h"
#include "runtime/aligned_buffer.h"
#include "runtime/platform/system_info.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

// Larger extents than these only occur in forged programs; they keep every product
// below within 64 bits.
constexpr int64_t kMaxCapacity = int64_t{1} << 31;
constexpr int64_t kMaxChannels = int64_t{1} << 24;
constexpr int64_t kMaxBatch = int64_t{1} << 12;

ggml_type to_ggml(CacheType type) {
  switch (type) {
    case CacheType::F32:
      return GGML_TYPE_F32;
    case CacheType::F16:
      return GGML_TYPE_F16;
    case CacheType::Q8_0:
      return GGML_TYPE_Q8_0;
  }
  return GGML_TYPE_F32;
}

int64_t round_up(int64_t n, int64_t block) { return (n + block - 1) / block * block; }

double gib(double bytes) { return bytes / (1024.0 * 1024.0 * 1024.0); }

Status check_geometry(const State& state, CacheType type) {
  const int64_t k_channels = saturating_product(state.k_head_dim, state.n_kv_heads);
  const int64_t v_channels = saturating_product(state.v_head_dim, state.n_kv_heads);
  if (k_channels < 1 || v_channels < 1 || k_channels > kMaxChannels || v_channels > kMaxChannels ||
      state.n_batch < 1 || state.n_batch > kMaxBatch) {
    return make_error(StatusCode::InvalidProgram,
                      "cache '%s': %u heads of %u (keys) and %u (values), batch %u, is out of "
                      "range",
                      state.name.c_str(), state.n_kv_heads, state.k_head_dim, state.v_head_dim,
                      state.n_batch);
  }
  const int64_t block = ggml_blck_size(to_ggml(type));
  if (state.k_head_dim % block != 0 || state.v_head_dim % block != 0) {
    return make_error(StatusCode::Unsupported,
                      "cache '%s': heads of %u (keys) and %u (values) cannot be stored as %s, "
                      "which needs multiples of %" PRId64 "; set option '%s' to f16",
                      state.name.c_str(), state.k_head_dim, state.v_head_dim, cache_type_name(type),
                      block, option::kCacheType);
  }
  return {};
}

}  // namespace

Status resolve_capacity(const State& state, int64_t requested, int64_t& out) {
  const int64_t max = state.max_capacity;
  if (max < 1 || max > kMaxCapacity) {
    return make_error(StatusCode::InvalidProgram,
                      "cache '%s': a context of %" PRId64 " positions is out of range",
                      state.name.c_str(), max);
  }
  if (requested < 0 || requested > max) {
    return make_error(StatusCode::InvalidArgument,
                      "option '%s' asks for %" PRId64
                      " positions, but the model's context is "
                      "%" PRId64,
                      option::kContext, requested, max);
  }
  const int64_t exported = std::max<int64_t>(state.default_capacity, 1);
  out = requested > 0 ? requested : std::min(round_up(exported, kKvBlock), max);
  return {};
}

Status KvCache::create(const State& state, const KvConfig& config, std::unique_ptr<KvCache>& out) {
  EG_RETURN_IF_ERROR(check_geometry(state, config.type));
  if (config.type == CacheType::Q8_0 && !config.flash) {
    return make_error(StatusCode::Unsupported,
                      "cache '%s': a q8_0 cache needs flash attention; set option '%s' to true",
                      state.name.c_str(), option::kFlashAttention);
  }
  std::unique_ptr<KvCache> cache(new KvCache());
  EG_RETURN_IF_ERROR(resolve_capacity(state, config.capacity, cache->capacity_));
  cache->name_ = state.name;
  cache->type_ = config.type;
  cache->flash_ = config.flash;
  cache->k_head_dim_ = state.k_head_dim;
  cache->v_head_dim_ = state.v_head_dim;
  cache->n_kv_heads_ = state.n_kv_heads;
  cache->n_batch_ = state.n_batch;
  cache->window_ = state.window;
  cache->buffer_type_ = config.buffer_type;

  const ggml_type type = to_ggml(config.type);
  const int64_t k_channels = cache->k_head_dim_ * cache->n_kv_heads_;
  const int64_t v_channels = cache->v_head_dim_ * cache->n_kv_heads_;
  const double bytes =
      static_cast<double>(k_channels + v_channels) * static_cast<double>(cache->capacity_) *
      static_cast<double>(cache->n_batch_) * static_cast<double>(ggml_type_size(type)) /
      static_cast<double>(ggml_blck_size(type));
  const auto out_of_memory = [&] {
    return make_error(StatusCode::OutOfMemory,
                      "cannot allocate %.0f bytes (%.2f GiB) for cache '%s' of %" PRId64
                      " positions; ask for fewer with option '%s', or for a smaller type with "
                      "option '%s'",
                      bytes, gib(bytes), state.name.c_str(), cache->capacity_, option::kContext,
                      option::kCacheType);
  };
  // An allocation larger than the machine may succeed and kill the process when
  // it is touched.
  const bool is_host = ggml_backend_buft_is_host(config.buffer_type);
  const double memory = static_cast<double>(physical_memory_bytes());
  if (bytes > 9.0e18 || (is_host && memory > 0 && bytes > memory)) {
    return out_of_memory();
  }

  const ggml_init_params params = {2 * ggml_tensor_overhead(), nullptr, /*no_alloc=*/true};
  cache->context_.reset(ggml_init(params));
  if (!cache->context_) {
    return out_of_memory();
  }
  ggml_context* context = cache->context_.get();
  cache->k_ = ggml_new_tensor_3d(context, type, k_channels, cache->capacity_, cache->n_batch_);
  cache->v_ =
      config.flash
          ? ggml_new_tensor_3d(context, type, v_channels, cache->capacity_, cache->n_batch_)
          : ggml_new_tensor_3d(context, type, cache->capacity_, v_channels, cache->n_batch_);
  ggml_format_name(cache->k_, "%.48s.k", state.name.c_str());
  ggml_format_name(cache->v_, "%.48s.v", state.name.c_str());
  if (is_host) {
    // Rows that are never used take no memory and no time.
    const size_t k_bytes = aligned_size(ggml_nbytes(cache->k_));
    const size_t size = k_bytes + aligned_size(ggml_nbytes(cache->v_));
    if (!cache->pages_.allocate(size)) {
      return out_of_memory();
    }
    auto* const base = static_cast<char*>(cache->pages_.data());
    cache->buffer_.reset(ggml_backend_cpu_buffer_from_ptr(base, size));
    ggml_backend_tensor_alloc(cache->buffer_.get(), cache->k_, base);
    ggml_backend_tensor_alloc(cache->buffer_.get(), cache->v_, base + k_bytes);
  } else {
    cache->buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context, config.buffer_type));
    if (!cache->buffer_) {
      return out_of_memory();
    }
    ggml_backend_buffer_clear(cache->buffer_.get(), 0);
  }
  out = std::move(cache);
  return {};
}

Status KvCache::check_agrees(const State& state, const KvConfig& config) const {
  int64_t capacity = 0;
  EG_RETURN_IF_ERROR(resolve_capacity(state, config.capacity, capacity));
  const bool same = type_ == config.type && flash_ == config.flash && capacity_ == capacity &&
                    k_head_dim_ == state.k_head_dim && v_head_dim_ == state.v_head_dim &&
                    n_kv_heads_ == state.n_kv_heads && n_batch_ == state.n_batch &&
                    window_ == state.window && buffer_type_ == config.buffer_type;
  if (same) {
    return {};
  }
  KvCache wanted;
  wanted.name_ = state.name;
  wanted.type_ = config.type;
  wanted.flash_ = config.flash;
  wanted.capacity_ = capacity;
  wanted.k_head_dim_ = state.k_head_dim;
  wanted.v_head_dim_ = state.v_head_dim;
  wanted.n_kv_heads_ = state.n_kv_heads;
  wanted.n_batch_ = state.n_batch;
  wanted.window_ = state.window;
  wanted.buffer_type_ = config.buffer_type;
  return make_error(StatusCode::InvalidState,
                    "cache '%s' exists in this session as %s, but this method needs %s; load all "
                    "methods of a session with the same options, or give this one another "
                    "session",
                    name_.c_str(), describe().c_str(), wanted.describe().c_str());
}

int64_t KvCache::rows_to_read(int64_t end) const {
  return std::min(capacity_, round_up(std::max<int64_t>(end, 1), kKvBlock));
}

Status KvCache::plan(int64_t first, int64_t count, KvStep& out) const {
  if (count < 1 || first < 0) {
    return make_error(StatusCode::InvalidArgument,
                      "cache '%s': %" PRId64 " positions from %" PRId64
                      " on; expected at least one, and none negative",
                      name_.c_str(), count, first);
  }
  if (first > used_) {
    return make_error(StatusCode::InvalidState,
                      "cache '%s' holds positions up to %" PRId64
                      " (exclusive), but the call "
                      "starts at %" PRId64 ": positions %" PRId64 " to %" PRId64
                      " would be missing; pass them first, or start at %" PRId64,
                      name_.c_str(), used_, first, used_, first - 1, used_);
  }
  if (count > capacity_ - first) {
    return make_error(StatusCode::InvalidState,
                      "position %" PRId64 " is past the capacity %" PRId64
                      " of cache '%s'; load with a larger option '%s', or reset or rewind the "
                      "session (nothing was lost)",
                      first + (count - 1), capacity_, name_.c_str(), option::kContext);
  }
  out = KvStep{first, count, rows_to_read(first + count)};
  return {};
}

void KvCache::truncate(int64_t position) {
  if (position < used_) {
    clear_rows(position, used_);
    used_ = position;
  }
}

void KvCache::reset() { truncate(0); }

void KvCache::clear_rows(int64_t begin, int64_t end) {
  if (begin >= end) {
    return;
  }
  const auto clear = [](ggml_tensor* t, int64_t row, int64_t batch, size_t offset, size_t size) {
    const size_t start =
        static_cast<size_t>(row) * t->nb[1] + static_cast<size_t>(batch) * t->nb[2] + offset;
    ggml_backend_tensor_memset(t, 0, start, size);
  };
  const size_t rows = static_cast<size_t>(end - begin);
  for (int64_t batch = 0; batch < n_batch_; ++batch) {
    clear(k_, begin, batch, 0, rows * k_->nb[1]);
    if (flash_) {
      clear(v_, begin, batch, 0, rows * v_->nb[1]);
      continue;
    }
    for (int64_t channel = 0; channel < v_->ne[1]; ++channel) {
      clear(v_, channel, batch, static_cast<size_t>(begin) * v_->nb[0], rows * v_->nb[0]);
    }
  }
}

Status KvCache::check_same_layout(const KvCache& other) const {
  if (!ggml_are_same_shape(k_, other.k_) || !ggml_are_same_shape(v_, other.v_) ||
      type_ != other.type_ || flash_ != other.flash_) {
    return make_error(StatusCode::InvalidState, "cache '%s' is %s, but its copy would be %s",
                      name_.c_str(), other.describe().c_str(), describe().c_str());
  }
  return {};
}

void KvCache::copy_from(const KvCache& other) {
  ggml_backend_tensor_copy(other.k_, k_);
  ggml_backend_tensor_copy(other.v_, v_);
  used_ = other.used_;
}

size_t KvCache::used_bytes(int64_t used) const {
  const size_t rows = static_cast<size_t>(used);
  const size_t batches = static_cast<size_t>(n_batch_);
  const size_t v_bytes =
      flash_ ? rows * v_->nb[1] : rows * v_->nb[0] * static_cast<size_t>(v_->ne[1]);
  return (rows * k_->nb[1] + v_bytes) * batches;
}

namespace {

// Calls visit(tensor, offset, size) for each contiguous piece of the used rows.
template <typename Visit>
void for_each_piece(ggml_tensor* k, ggml_tensor* v, bool v_transposed, int64_t used,
                    const Visit& visit) {
  const size_t rows = static_cast<size_t>(used);
  if (rows == 0) {
    return;
  }
  for (size_t batch = 0; batch < static_cast<size_t>(k->ne[2]); ++batch) {
    visit(k, batch * k->nb[2], rows * k->nb[1]);
  }
  for (size_t batch = 0; batch < static_cast<size_t>(v->ne[2]); ++batch) {
    if (!v_transposed) {
      visit(v, batch * v->nb[2], rows * v->nb[1]);
      continue;
    }
    for (size_t channel = 0; channel < static_cast<size_t>(v->ne[1]); ++channel) {
      visit(v, batch * v->nb[2] + channel * v->nb[1], rows * v->nb[0]);
    }
  }
}

}  // namespace

void KvCache::read_rows(std::span<uint8_t> out) const {
  size_t done = 0;
  for_each_piece(k_, v_, v_transposed(), used_,
                 [&](const ggml_tensor* tensor, size_t offset, size_t size) {
                   ggml_backend_tensor_get(tensor, out.data() + done, offset, size);
                   done += size;
                 });
}

void KvCache::write_rows(int64_t used, std::span<const uint8_t> bytes) {
  reset();
  size_t done = 0;
  for_each_piece(k_, v_, v_transposed(), used,
                 [&](ggml_tensor* tensor, size_t offset, size_t size) {
                   ggml_backend_tensor_set(tensor, bytes.data() + done, offset, size);
                   done += size;
                 });
  used_ = used;
}

std::string KvCache::describe() const {
  char text[256];
  std::snprintf(text, sizeof(text),
                "%s[%" PRId64 " heads of %" PRId64 " keys and %" PRId64 " values, batch %" PRId64
                ", %" PRId64 " positions, window %" PRId64 ", for %s attention, in %s memory]",
                cache_type_name(type_), n_kv_heads_, k_head_dim_, v_head_dim_, n_batch_, capacity_,
                window_, flash_ ? "flash" : "explicit", ggml_backend_buft_name(buffer_type_));
  return text;
}

Status first_position(std::span<const int32_t> positions, const char* input, int64_t& out) {
  if (positions.empty()) {
    return make_error(StatusCode::InvalidArgument, "%s: no positions given", input);
  }
  const int64_t first = positions[0];
  if (first < 0) {
    return make_error(StatusCode::InvalidArgument, "%s: position %" PRId64 " is negative", input,
                      first);
  }
  for (size_t i = 1; i < positions.size(); ++i) {
    if (positions[i] != first + static_cast<int64_t>(i)) {
      return make_error(StatusCode::InvalidArgument,
                        "%s: element %zu is position %d, expected %" PRId64
                        ": the positions of one call must follow one another",
                        input, i, positions[i], first + static_cast<int64_t>(i));
    }
  }
  out = first;
  return {};
}

namespace {

template <typename T>
void fill_mask_rows(const KvStep& step, int64_t window, bool causal, std::span<T> mask, T seen,
                    T hidden) {
  for (int64_t i = 0; i < step.count; ++i) {
    const int64_t position = step.first + i;
    const int64_t end = std::min(step.n_kv, causal ? position + 1 : step.end());
    const int64_t begin = window > 0 ? std::clamp<int64_t>(position - window + 1, 0, end) : 0;
    T* row = mask.data() + i * step.n_kv;
    std::fill(row, row + begin, hidden);
    std::fill(row + begin, row + end, seen);
    std::fill(row + end, row + step.n_kv, hidden);
  }
}

}  // namespace

void fill_mask(const KvStep& step, int64_t window, bool causal, std::span<float> mask) {
  fill_mask_rows<float>(step, window, causal, mask, 0.0F, -std::numeric_limits<float>::infinity());
}

void fill_mask(const KvStep& step, int64_t window, bool causal, std::span<ggml_fp16_t> mask) {
  constexpr ggml_fp16_t kMinusInfinity = 0xFC00;
  fill_mask_rows<ggml_fp16_t>(step, window, causal, mask, 0, kMinusInfinity);
}

void fill_row_ids(const KvStep& step, std::span<int64_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = step.first + static_cast<int64_t>(i);
  }
}

void fill_value_ids(const KvStep& step, int64_t channels, int64_t capacity,
                    std::span<int64_t> ids) {
  int64_t* out = ids.data();
  for (int64_t i = 0; i < step.count; ++i) {
    int64_t id = step.first + i;
    for (int64_t c = 0; c < channels; ++c, id += capacity) {
      *out++ = id;
    }
  }
}

}  // namespace executorch_ggml
