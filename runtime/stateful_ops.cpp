#include "runtime/stateful_ops.h"

#include <array>
#include <cinttypes>
#include <string>

#include "ggml-backend.h"
#include "runtime/op_builders.h"
#include "runtime/options.h"

namespace executorch_ggml {
namespace {

int64_t first_of(const CallInputs& call, uint32_t input) {
  return call.inputs[input].i32().front();  // checked when the call began
}

// The operands in the forms that the attention kernels read.
struct AttentionOperands {
  ggml_tensor* q;     // [d, nq, heads, b]
  ggml_tensor* k;     // [d, nk, kv_heads, b]
  ggml_tensor* v;     // flash: [dv, nk, kv_heads, b]; explicit: [nk, dv, kv_heads, b]
  ggml_tensor* mask;  // may be null; flash: F16
  float scale;
  float softcap;
};

// softmax(softcap(scale * k q) + mask) v as [dv, heads, nq, b], contiguous.
ggml_tensor* explicit_attention(ggml_context* ctx, const AttentionOperands& a) {
  ggml_tensor* scores = ggml_mul_mat(ctx, a.k, a.q);  // [nk, nq, heads, b]
  ggml_prec_set_acc(scores, GGML_PREC_F32);
  float scale = a.scale;
  if (a.softcap != 0.0F) {
    scores = ggml_tanh(ctx, ggml_scale(ctx, scores, scale / a.softcap));
    scale = a.softcap;
  }
  ggml_tensor* weights = ggml_soft_max_ext(ctx, scores, a.mask, scale, /*max_bias=*/0.0F);
  ggml_tensor* mixed = ggml_mul_mat(ctx, a.v, weights);  // [dv, nq, heads, b]
  if (mixed->ne[1] == 1) {
    // One query: heads already follow one another.
    return ggml_reshape_4d(ctx, mixed, mixed->ne[0], mixed->ne[2], 1, mixed->ne[3]);
  }
  return ggml_cont(ctx, ggml_permute(ctx, mixed, 0, 2, 1, 3));
}

ggml_tensor* flash_attention(ggml_context* ctx, const AttentionOperands& a) {
  ggml_tensor* out =
      ggml_flash_attn_ext(ctx, a.q, a.k, a.v, a.mask, a.scale, /*max_bias=*/0.0F, a.softcap);
  ggml_prec_set_acc(out, GGML_PREC_F32);
  return out;
}

// The checks that both ops share: q [d, heads, nq, b], k [d, kv_heads, nk, b],
// v [dv, kv_heads, nk, b], F32 with adjacent elements.
bool expect_qkv(OpContext& op) {
  if (!op.expect_f32_rows(0) || !op.expect_f32_rows(1) || !op.expect_f32_rows(2)) {
    return false;
  }
  const ggml_tensor* q = op.in(0);
  const ggml_tensor* k = op.in(1);
  const ggml_tensor* v = op.in(2);
  return op.expect(q->ne[0] == k->ne[0], "q %s and k %s differ in head size", describe(*q).c_str(),
                   describe(*k).c_str()) &&
         op.expect(k->ne[1] == v->ne[1] && k->ne[2] == v->ne[2], "k %s and v %s differ",
                   describe(*k).c_str(), describe(*v).c_str()) &&
         op.expect(q->ne[1] % k->ne[1] == 0,
                   "%" PRId64 " query heads are no multiple of %" PRId64 " key heads", q->ne[1],
                   k->ne[1]) &&
         op.expect(q->ne[3] == k->ne[3] && q->ne[3] == v->ne[3],
                   "batches of q, k and v differ: %" PRId64 ", %" PRId64 ", %" PRId64, q->ne[3],
                   k->ne[3], v->ne[3]);
}

// x [d, heads, n, b] as rows [d * heads, n, b]; a copy only if heads are apart.
ggml_tensor* as_rows(ggml_context* ctx, ggml_tensor* x) {
  if (x->nb[1] != ggml_row_size(x->type, x->ne[0])) {
    x = ggml_cont(ctx, x);
  }
  return ggml_view_3d(ctx, x, x->ne[0] * x->ne[1], x->ne[2], x->ne[3], x->nb[2], x->nb[3], 0);
}

std::string numbers_key(std::initializer_list<int64_t> numbers) {
  std::string key;
  for (const int64_t number : numbers) {
    key += std::to_string(number) + ",";
  }
  return key;
}

ggml_type mask_type(bool flash) { return flash ? GGML_TYPE_F16 : GGML_TYPE_F32; }

// Writes the step's keys and values; returns the cache's tensors as they are after.
struct Written {
  ggml_tensor* k;  // [d * heads, capacity, b]
  ggml_tensor* v;  // the same memory as KvCache::v(), in the shape that was written
};

Written write_cache(OpContext& op, const KvCache& cache, uint32_t input) {
  ggml_context* ctx = op.ggml();
  ggml_tensor* k = as_rows(ctx, op.in(1));
  const int64_t count = k->ne[1];
  ggml_tensor* rows =
      op.shared_fill<RowIdsFill>(numbers_key({input, count}), op, input, count).tensor();
  Written written{};
  written.k = ggml_set_rows(ctx, cache.k(), k, rows);
  if (!cache.v_transposed()) {
    written.v = ggml_set_rows(ctx, cache.v(), as_rows(ctx, op.in(2)), rows);
    return written;
  }
  // Transposed, a row's values are `capacity` elements apart: write each as a row
  // of one element.
  ggml_tensor* v = op.in(2);
  if (!ggml_is_contiguous(v)) {
    v = ggml_cont(ctx, v);
  }
  const int64_t channels = cache.v()->ne[1];
  const int64_t batch = v->ne[3];
  v = ggml_reshape_3d(ctx, v, 1, channels * count, batch);
  ggml_tensor* elements = ggml_reshape_3d(ctx, cache.v(), 1, cache.capacity() * channels, batch);
  ggml_tensor* ids =
      op.shared_fill<ValueIdsFill>(numbers_key({input, count, channels, cache.capacity()}), op,
                                   input, count, channels, cache.capacity())
          .tensor();
  written.v = ggml_set_rows(ctx, elements, v, ids);
  return written;
}

bool expect_fits_cache(OpContext& op, const KvCache& cache, int64_t n_kv) {
  const ggml_tensor* k = op.in(1);
  const ggml_tensor* v = op.in(2);
  return op.expect(k->ne[0] == cache.k_head_dim() && v->ne[0] == cache.v_head_dim() &&
                       k->ne[1] == cache.n_kv_heads() && k->ne[3] == cache.n_batch(),
                   "k %s and v %s do not fit cache '%s' of %s", describe(*k).c_str(),
                   describe(*v).c_str(), cache.name().c_str(), cache.describe().c_str()) &&
         op.expect(op.in(0)->ne[2] == k->ne[2], "q has %" PRId64 " positions and k %" PRId64,
                   op.in(0)->ne[2], k->ne[2]) &&
         // A reservation may ask for more new rows than a small cache holds; a call
         // may not, see KvCache::plan().
         op.expect(n_kv >= 1 && n_kv <= cache.capacity(),
                   "%" PRId64 " rows to read of cache '%s' of %s", n_kv, cache.name().c_str(),
                   cache.describe().c_str());
}

}  // namespace

template <typename T, typename Write>
void TensorFill::write_elements(const Write& write) {
  const size_t count = static_cast<size_t>(ggml_nelements(tensor_));
  if (tensor_->buffer == nullptr || ggml_backend_buffer_is_host(tensor_->buffer)) {
    write(std::span<T>(static_cast<T*>(tensor_->data), count));
    return;
  }
  staging_.resize(count * sizeof(T));  // operator new aligns for every scalar type
  write(std::span<T>(reinterpret_cast<T*>(staging_.data()), count));
  ggml_backend_tensor_set(tensor_, staging_.data(), 0, staging_.size());
}

void TensorFill::write_mask(const KvStep& step, int64_t window, bool causal) {
  if (tensor_->type == GGML_TYPE_F16) {
    write_elements<ggml_fp16_t>(
        [&](std::span<ggml_fp16_t> mask) { fill_mask(step, window, causal, mask); });
  } else {
    write_elements<float>([&](std::span<float> mask) { fill_mask(step, window, causal, mask); });
  }
}

RowIdsFill::RowIdsFill(OpContext& op, uint32_t input, int64_t count)
    : TensorFill(op.fill_tensor(GGML_TYPE_I64, {count, 1, 1, 1}, "cache_rows")), input_(input) {}

Status RowIdsFill::fill(const CallInputs& call) {
  const KvStep step{first_of(call, input_), tensor()->ne[0], 0};
  write_elements<int64_t>([&](std::span<int64_t> ids) { fill_row_ids(step, ids); });
  return {};
}

ValueIdsFill::ValueIdsFill(OpContext& op, uint32_t input, int64_t count, int64_t channels,
                           int64_t capacity)
    : TensorFill(op.fill_tensor(GGML_TYPE_I64, {count * channels, 1, 1, 1}, "cache_elements")),
      input_(input),
      channels_(channels),
      capacity_(capacity) {}

Status ValueIdsFill::fill(const CallInputs& call) {
  const KvStep step{first_of(call, input_), tensor()->ne[0] / channels_, 0};
  write_elements<int64_t>(
      [&](std::span<int64_t> ids) { fill_value_ids(step, channels_, capacity_, ids); });
  return {};
}

CacheMaskFill::CacheMaskFill(OpContext& op, ggml_type type, uint32_t input, int64_t n_kv,
                             int64_t count, int64_t window, bool causal)
    : TensorFill(op.fill_tensor(type, {n_kv, count, 1, 1}, "cache_mask")),
      input_(input),
      window_(window),
      causal_(causal) {}

Status CacheMaskFill::fill(const CallInputs& call) {
  const KvStep step{first_of(call, input_), tensor()->ne[1], tensor()->ne[0]};
  write_mask(step, window_, causal_);
  return {};
}

CausalMaskFill::CausalMaskFill(OpContext& op, ggml_type type, int64_t nk, int64_t nq)
    : TensorFill(op.fill_tensor(type, {nk, nq, 1, 1}, "causal_mask")) {}

Status CausalMaskFill::fill(const CallInputs&) {
  // As if the keys before the queries had been cached.
  const KvStep step{tensor()->ne[0] - tensor()->ne[1], tensor()->ne[1], tensor()->ne[0]};
  write_mask(step, /*window=*/0, /*causal=*/true);
  return {};
}

ggml_tensor* build_update_and_attend(OpContext& op) {
  namespace param = params::update_and_attend;

  const uint32_t state = static_cast<uint32_t>(op.dim(param::kState));
  const KvCache* cache = op.states().kv_cache(state);
  const uint32_t input = op.input_of(inputs::update_and_attend::kPositions);
  if (!op.expect(cache != nullptr, "state %u is no cache of this session", state) ||
      !op.expect(input != kAbsent, "the positions are not a program input") || !expect_qkv(op) ||
      !op.expect(state < op.state_key().size(), "state %u has no step", state)) {
    return nullptr;
  }
  const int64_t n_kv = op.state_key()[state];
  if (!expect_fits_cache(op, *cache, n_kv)) {
    return nullptr;
  }

  ggml_context* ctx = op.ggml();
  const bool flash = !cache->v_transposed();
  const bool causal = op.flag(param::kCausal);
  const int64_t count = op.in(1)->ne[2];
  const Written written = write_cache(op, *cache, input);
  const int64_t heads = cache->n_kv_heads();
  const int64_t batch = cache->n_batch();
  const ggml_tensor* k = cache->k();
  const ggml_tensor* v = cache->v();

  AttentionOperands a{};
  a.q = ggml_permute(ctx, op.in(0), 0, 2, 1, 3);
  a.k = ggml_view_4d(ctx, written.k, cache->k_head_dim(), n_kv, heads, batch, k->nb[1],
                     ggml_row_size(k->type, cache->k_head_dim()), k->nb[2], 0);
  a.v = flash ? ggml_view_4d(ctx, written.v, cache->v_head_dim(), n_kv, heads, batch, v->nb[1],
                             ggml_row_size(v->type, cache->v_head_dim()), v->nb[2], 0)
              : ggml_view_4d(ctx, written.v, n_kv, cache->v_head_dim(), heads, batch, v->nb[1],
                             v->nb[1] * static_cast<size_t>(cache->v_head_dim()), v->nb[2], 0);
  const ggml_type type = mask_type(flash);
  a.mask = op.shared_fill<CacheMaskFill>(
                 numbers_key({type, input, n_kv, count, cache->window(), causal}), op, type, input,
                 n_kv, count, cache->window(), causal)
               .tensor();
  a.scale = op.param(param::kScale);
  a.softcap = op.param(param::kSoftcap);
  return flash ? flash_attention(ctx, a) : explicit_attention(ctx, a);
}

ggml_tensor* build_attention(OpContext& op) {
  namespace param = params::attention;
  constexpr size_t kMask = inputs::attention::kMask;

  if (!expect_qkv(op)) {
    return nullptr;
  }
  ggml_context* ctx = op.ggml();
  const ggml_tensor* q = op.in(0);
  ggml_tensor* k = op.in(1);
  ggml_tensor* v = op.in(2);
  ggml_tensor* mask = op.in(kMask);
  const int64_t nk = k->ne[2];
  const int64_t nq = q->ne[2];
  if (mask != nullptr &&
      (!op.expect_f32(kMask) || !op.expect_contiguous(kMask) ||
       !op.expect(mask->ne[0] == nk && mask->ne[1] == nq &&
                      (mask->ne[2] == 1 || mask->ne[2] == q->ne[1]) &&
                      (mask->ne[3] == 1 || mask->ne[3] == q->ne[3]),
                  "mask %s does not fit %" PRId64 " keys and %" PRId64 " queries",
                  describe(*mask).c_str(), nk, nq))) {
    return nullptr;
  }
  const bool has_mask = mask != nullptr;
  const bool flash = op.options().use_flash_without_cache(has_mask);
  if (op.flag(param::kCausal)) {
    if (!op.expect(nk >= nq, "causal attention of %" PRId64 " queries over %" PRId64 " keys", nq,
                   nk)) {
      return nullptr;
    }
    // A given mask is added in F32 before it may become F16.
    const ggml_type type = mask == nullptr ? mask_type(flash) : GGML_TYPE_F32;
    ggml_tensor* causal =
        op.shared_fill<CausalMaskFill>(numbers_key({type, nk, nq}), op, type, nk, nq).tensor();
    mask = mask == nullptr ? causal : ggml_add(ctx, mask, causal);
  }
  if (mask != nullptr && mask->type != mask_type(flash)) {
    mask = ggml_cast(ctx, mask, mask_type(flash));
  }

  AttentionOperands a{};
  a.q = ggml_permute(ctx, op.in(0), 0, 2, 1, 3);
  a.k = ggml_permute(ctx, k, 0, 2, 1, 3);
  a.mask = mask;
  a.scale = op.param(param::kScale);
  if (!flash) {
    a.v = ggml_cont(ctx, ggml_permute(ctx, v, 1, 2, 0, 3));  // V^T, row by row
    ggml_tensor* attended = explicit_attention(ctx, a);
    if (!has_mask) {
      return attended;
    }
    // As flash attention does.
    const std::array<ggml_tensor*, 2> operands = {attended, mask};
    return op.host_op(zero_blind_rows, GGML_TYPE_F32, op.declared(), operands, {});
  }
  a.v = ggml_permute(ctx, v, 0, 2, 1, 3);
  if (!op.options().device_is_cpu()) {
    // Only the CPU takes F32 keys and values here.
    a.k = ggml_cast(ctx, a.k, GGML_TYPE_F16);
    a.v = ggml_cast(ctx, a.v, GGML_TYPE_F16);
  }
  return flash_attention(ctx, a);
}

}  // namespace executorch_ggml
