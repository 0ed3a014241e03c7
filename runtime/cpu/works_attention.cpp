// Attention in ggml's flash form, and rotary embedding.
#include <algorithm>
#include <cmath>

#include "runtime/cpu/row_works.h"

namespace executorch_ggml {
namespace {

constexpr int64_t kFewQueries = 4;
constexpr int64_t kTasksPerThread = 2;

class AttentionWork final : public Work {
 public:
  AttentionWork(const AttentionKernels& kernels, const ggml_tensor& node, int n_threads)
      : kernels_(kernels),
        node_(node),
        q_(*node.src[0]),
        k_(*node.src[1]),
        v_(*node.src[2]),
        mask_(node.src[3]),
        group_(q_.ne[2] / k_.ne[2]),
        blocks_((q_.ne[1] + kQueryBlock - 1) / kQueryBlock) {
    // The heads of a group read the same keys, unless that leaves threads without work or
    // each has a mask of its own.
    const int64_t tasks = k_.ne[2] * q_.ne[3] * blocks_;
    const bool own_masks = mask_ != nullptr && mask_->ne[2] > 1;
    const bool uneven = tasks < n_threads * int64_t{4} && tasks % n_threads != 0;
    heads_per_task_ = uneven || own_masks ? 1 : group_;
    // Few queries read more of the cache than they compute: heads that lie side by side are
    // read together, as long as every thread finds two tasks.
    while (heads_per_task_ >= group_ && q_.ne[1] <= kFewQueries && !own_masks &&
           kv_heads_per_task_ * 2 * n_threads * kTasksPerThread <= tasks &&
           k_.ne[2] % (kv_heads_per_task_ * 2) == 0) {
      kv_heads_per_task_ *= 2;
    }
    heads_per_task_ *= kv_heads_per_task_;
    n_tasks = static_cast<uint32_t>(q_.ne[2] / heads_per_task_ * q_.ne[3] * blocks_);
    elements = 2 * ggml_nelements(&q_) * k_.ne[1];
    thread_bytes = kernels.scratch_size(k_.ne[0], v_.ne[0], heads_per_task_);
  }

  void run(uint32_t task, const WorkMemory& memory) override {
    const int64_t head_groups = q_.ne[2] / heads_per_task_;
    const int64_t head = task % head_groups * heads_per_task_;
    const int64_t batch = task / head_groups % q_.ne[3];
    // The last queries see the most keys: they come first, so that the threads end together.
    const int64_t token = (blocks_ - 1 - task / (head_groups * q_.ne[3])) * kQueryBlock;
    const RowAt query = {token, head, batch};
    const RowAt keys = {0, head / group_, batch};
    AttentionTask work = {};
    work.q = f32_row(q_, query);
    work.q_token_stride = q_.nb[1];
    work.q_head_stride = q_.nb[2];
    work.k = row_data(k_, keys);
    work.v = row_data(v_, keys);
    work.k_stride = k_.nb[1];
    work.v_stride = v_.nb[1];
    work.k_type = k_.type;
    work.v_type = v_.type;
    work.k_dim = k_.ne[0];
    work.v_dim = v_.ne[0];
    work.n_kv = k_.ne[1];
    if (mask_ != nullptr) {
      work.mask = reinterpret_cast<const ggml_fp16_t*>(row_data(*mask_, query));
      work.mask_stride = static_cast<int64_t>(mask_->nb[1] / sizeof(ggml_fp16_t));
    }
    work.scale = float_param(node_, 0);
    work.softcap = float_param(node_, 2);
    // The result is [dv, heads, tokens, batch].
    work.out = f32_row(node_, {head, token, batch});
    work.out_head_stride = node_.nb[1];
    work.out_token_stride = node_.nb[2];
    work.n_tokens = std::min(kQueryBlock, q_.ne[1] - token);
    work.n_heads = heads_per_task_ / kv_heads_per_task_;
    work.n_kv_heads = kv_heads_per_task_;
    work.k_head_stride = k_.nb[2];
    work.v_head_stride = v_.nb[2];
    work.scratch = memory.thread;
    kernels_.attend(work);
  }

 private:
  const AttentionKernels& kernels_;
  const ggml_tensor& node_;
  const ggml_tensor& q_;
  const ggml_tensor& k_;
  const ggml_tensor& v_;
  const ggml_tensor* const mask_;
  const int64_t group_;
  const int64_t blocks_;
  int64_t heads_per_task_ = 1;     // of queries
  int64_t kv_heads_per_task_ = 1;  // of keys and values
};

struct RopeParams {
  int n_dims;
  int mode;
  int original_context;
  float freq_base;
  float freq_scale;
  float ext_factor;
  float attn_factor;
  float beta_fast;
  float beta_slow;

  explicit RopeParams(const ggml_tensor& node)
      : n_dims(node.op_params[1]),
        mode(node.op_params[2]),
        original_context(node.op_params[4]),
        freq_base(float_param(node, 5)),
        freq_scale(float_param(node, 6)),
        ext_factor(float_param(node, 7)),
        attn_factor(float_param(node, 8)),
        beta_fast(float_param(node, 9)),
        beta_slow(float_param(node, 10)) {}
};

// Angles as YaRN mixes them (Peng et al., "YaRN: Efficient Context Window Extension of Large
// Language Models"): frequencies that turn often within the original context are kept, slow
// ones are scaled.
class RopeTableWork final : public Work {
 public:
  RopeTableWork(const ggml_tensor& node, size_t offset)
      : p_(node), positions_(*node.src[1]), factors_(node.src[2]), offset_(offset) {
    if (p_.ext_factor != 0.0F) {
      ggml_rope_yarn_corr_dims(p_.n_dims, p_.original_context, p_.freq_base, p_.beta_fast,
                               p_.beta_slow, kept_dims_);
    }
  }

  void run(uint32_t task, const WorkMemory& memory) override {
    const int64_t n = positions_.ne[0];
    const auto half = static_cast<size_t>(p_.n_dims / 2);
    const float* const factors =
        factors_ == nullptr ? nullptr : static_cast<const float*>(factors_->data);
    float magnitude = p_.attn_factor;
    if (p_.ext_factor != 0.0F) {
      magnitude *= 1.0F + 0.1F * std::log(1.0F / p_.freq_scale);
    }
    const int64_t first = n * task / n_tasks;
    const int64_t end = n * (task + 1) / n_tasks;
    auto* const table = reinterpret_cast<float*>(memory.shared + offset_);
    const auto* const positions = static_cast<const int32_t*>(positions_.data);
    for (size_t i = 0; i < half; ++i) {
      // In double precision: a late position times a frequency has few digits left in float.
      const double exponent = -2.0 * static_cast<double>(i) / p_.n_dims;
      const double frequency = std::pow(static_cast<double>(p_.freq_base), exponent) /
                               static_cast<double>(factors == nullptr ? 1.0F : factors[i]);
      const double mix = static_cast<double>(kept_share(i));
      const double turned = frequency * (static_cast<double>(p_.freq_scale) * (1.0 - mix) + mix);
      for (int64_t t = first; t < end; ++t) {
        const double angle = positions[t] * turned;
        float* const row = table + static_cast<size_t>(t) * 2 * half;
        row[i] = static_cast<float>(std::cos(angle)) * magnitude;
        row[half + i] = static_cast<float>(std::sin(angle)) * magnitude;
      }
    }
  }

 private:
  float kept_share(size_t i) const {
    if (p_.ext_factor == 0.0F) {
      return 0.0F;
    }
    const float width = std::max(0.001F, kept_dims_[1] - kept_dims_[0]);
    const float ramp = (static_cast<float>(i) - kept_dims_[0]) / width;
    return (1.0F - std::clamp(ramp, 0.0F, 1.0F)) * p_.ext_factor;
  }

  const RopeParams p_;
  const ggml_tensor& positions_;
  const ggml_tensor* const factors_;
  const size_t offset_;
  float kept_dims_[2] = {0, 0};
};

}  // namespace

std::unique_ptr<Work> make_rope_table(const ggml_tensor& rope, size_t offset) {
  return std::make_unique<RopeTableWork>(rope, offset);
}

int make_rope(WorkList& list, int i) {
  const ggml_tensor& node = list.nodes().at(i);
  if (node.op != GGML_OP_ROPE) {
    return -1;
  }
  const RopeParams p(node);
  const ggml_tensor& x = *node.src[0];
  if ((p.mode != GGML_ROPE_TYPE_NORMAL && p.mode != GGML_ROPE_TYPE_NEOX) || !has_f32_rows(x) ||
      !has_f32_rows(node) || node.src[1]->type != GGML_TYPE_I32 || p.n_dims % 2 != 0 ||
      p.n_dims > node.ne[0]) {
    return -1;
  }
  const MemoryRange table = list.rope_table(i);
  const RowKernels& kernels = *list.kernels().rows;
  add_rows(list, i, node, {&x},
           [&kernels, &x, &node, p, offset = table.begin](const RowAt& at, const WorkMemory& m) {
             const auto* const cosines =
                 reinterpret_cast<const float*>(m.shared + offset) + at.i2 * p.n_dims;
             kernels.rope(f32_row(x, at), cosines, cosines + p.n_dims / 2, p.n_dims, node.ne[0],
                          p.mode == GGML_ROPE_TYPE_NEOX, f32_row(node, at));
           });
  list.reads_shared(table);
  return i;
}

int make_attention(WorkList& list, int i) {
  const ggml_tensor& node = list.nodes().at(i);
  const AttentionKernels* const kernels = list.kernels().attention;
  if (node.op != GGML_OP_FLASH_ATTN_EXT || kernels == nullptr) {
    return -1;
  }
  const ggml_tensor& q = *node.src[0];
  const ggml_tensor& k = *node.src[1];
  const ggml_tensor& v = *node.src[2];
  const ggml_tensor* const mask = node.src[3];
  const float max_bias = float_param(node, 1);
  const bool supported =
      node.src[4] == nullptr && max_bias == 0.0F && has_f32_rows(q) &&
      kernels->supports(k.type, v.type, k.ne[0], v.ne[0]) && k.nb[0] == ggml_type_size(k.type) &&
      v.nb[0] == ggml_type_size(v.type) && k.ne[2] == v.ne[2] && q.ne[2] % k.ne[2] == 0 &&
      q.ne[3] == k.ne[3] && k.ne[3] == v.ne[3] &&
      (mask == nullptr || (mask->type == GGML_TYPE_F16 && mask->nb[0] == sizeof(ggml_fp16_t)));
  if (!supported) {
    return -1;
  }
  list.add(std::make_unique<AttentionWork>(*kernels, node, list.n_threads()), i,
           {&q, &k, &v, mask});
  return i;
}

}  // namespace executorch_ggml
