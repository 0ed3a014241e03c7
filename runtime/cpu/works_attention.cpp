// Attention in ggml's flash form.
#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/cpu/row_works.h"

namespace executorch_ggml {
namespace {

constexpr int64_t kFewQueries = 4;
constexpr int64_t kTasksPerThread = 2;
// Tasks from which it matters little that the last ones leave a thread without work.
constexpr int64_t kManyTasksPerThread = 4;
// Parts of the keys begin at multiples of it.
constexpr int64_t kUnit = 16;

struct Units {
  int64_t begin;
  int64_t end;
};

// The units of keys that queries may see: without those at both ends that the mask hides.
Units seen_units(const AttentionTask& task) {
  const int64_t n_units = (task.n_kv + kUnit - 1) / kUnit;
  if (task.mask == nullptr) {
    return {0, n_units};
  }
  const auto is_hidden = [&task](int64_t unit) {
    constexpr ggml_fp16_t kHidden = 0xFC00;  // -inf
    bool shows = false;
    for (int64_t token = 0; token < task.n_tokens; ++token) {
      const ggml_fp16_t* const row = task.mask + token * task.mask_stride;
      for (int64_t i = unit * kUnit; i < std::min((unit + 1) * kUnit, task.n_kv); ++i) {
        shows |= row[i] != kHidden;
      }
    }
    return !shows;
  };
  Units seen = {0, n_units};
  while (seen.begin < seen.end && is_hidden(seen.begin)) {
    ++seen.begin;
  }
  while (seen.begin < seen.end && is_hidden(seen.end - 1)) {
    --seen.end;
  }
  return seen;
}

// A task computes some heads for a block of queries from all keys, or from a part of them: whoever
// runs the last one then merges the results of the parts.
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
    share_out(n_threads);
    n_tasks = static_cast<uint32_t>(q_.ne[2] / heads_per_task_ * q_.ne[3] * blocks_ * n_parts_);
    tasks_left_ = n_tasks;
    elements = 2 * ggml_nelements(&q_) * k_.ne[1];
    thread_bytes = kernels.scratch_size(k_.ne[0], v_.ne[0], heads_per_task_);
  }

  // Needed of WorkMemory::shared for the results of parts, which set_parts_at() places.
  size_t parts_bytes() const {
    return n_parts_ == 1 ? 0 : static_cast<size_t>(n_parts_) * (results_bytes() + scores_bytes());
  }
  void set_parts_at(size_t offset) { parts_ = offset; }

  void run(uint32_t task, const WorkMemory& memory) override {
    const int64_t part = task % n_parts_;
    const int64_t whole = task / n_parts_;
    const int64_t head_groups = q_.ne[2] / heads_per_task_;
    const int64_t head = whole % head_groups * heads_per_task_;
    const int64_t batch = whole / head_groups % q_.ne[3];
    // The last queries see the most keys: they come first, so that the threads end together.
    const int64_t token = (blocks_ - 1 - whole / (head_groups * q_.ne[3])) * kQueryBlock;
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
    if (n_parts_ == 1) {
      kernels_.attend(work);
      return;
    }
    take_part(work, part, memory);
    kernels_.attend(work);
    if (tasks_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      tasks_left_ = n_tasks;
      kernels_.merge({.results = results(memory, 0),
                      .scores = scores(memory, 0),
                      .n_parts = n_parts_,
                      .n_rows = row_count(node_),
                      .dim = node_.ne[0],
                      .out = static_cast<float*>(node_.data)});
    }
  }

 private:
  void share_out(int n_threads) {
    // The heads of a group read the same keys, unless each has a mask of its own.
    const bool own_masks = mask_ != nullptr && mask_->ne[2] > 1;
    heads_per_task_ = own_masks ? 1 : group_;
    const int64_t tasks = q_.ne[2] / heads_per_task_ * q_.ne[3] * blocks_;
    const auto is_uneven = [n_threads](int64_t n) {
      return n < n_threads * kManyTasksPerThread && n % n_threads != 0;
    };
    if (q_.ne[1] > kFewQueries || own_masks) {
      heads_per_task_ = is_uneven(tasks) ? 1 : heads_per_task_;
      return;
    }
    // Few queries read more of the cache than they compute: heads that lie side by side are
    // read together, as long as every thread finds two tasks.
    while (kv_heads_per_task_ * 2 * n_threads * kTasksPerThread <= tasks &&
           k_.ne[2] % (kv_heads_per_task_ * 2) == 0) {
      kv_heads_per_task_ *= 2;
    }
    while (is_uneven(tasks / kv_heads_per_task_ * n_parts_)) {
      ++n_parts_;
    }
    heads_per_task_ *= kv_heads_per_task_;
  }

  // Leaves `work` the keys of part `part`, and a place for its results.
  void take_part(AttentionTask& work, int64_t part, const WorkMemory& memory) const {
    const Units seen = seen_units(work);
    const Shares::Part share = {part, n_parts_};
    const int64_t n_units = seen.end - seen.begin;
    const int64_t first = std::min(work.n_kv, (seen.begin + share.begin(n_units)) * kUnit);
    work.n_kv = std::min(work.n_kv, (seen.begin + share.end(n_units)) * kUnit) - first;
    work.k = static_cast<const char*>(work.k) + static_cast<size_t>(first) * work.k_stride;
    work.v = static_cast<const char*>(work.v) + static_cast<size_t>(first) * work.v_stride;
    work.mask = work.mask == nullptr ? nullptr : work.mask + first;
    const int64_t at = work.out - static_cast<const float*>(node_.data);
    work.out = results(memory, part) + at;
    work.scores = scores(memory, part) + at / node_.ne[0];
    work.scores_stride = node_.ne[1];
  }

  size_t results_bytes() const { return ggml_nbytes(&node_); }
  size_t scores_bytes() const {
    return static_cast<size_t>(row_count(node_)) * sizeof(AttentionScores);
  }
  float* results(const WorkMemory& memory, int64_t part) const {
    return reinterpret_cast<float*>(memory.shared + parts_ +
                                    static_cast<size_t>(part) * results_bytes());
  }
  AttentionScores* scores(const WorkMemory& memory, int64_t part) const {
    return reinterpret_cast<AttentionScores*>(memory.shared + parts_ +
                                              static_cast<size_t>(n_parts_) * results_bytes() +
                                              static_cast<size_t>(part) * scores_bytes());
  }

  const AttentionKernels& kernels_;
  const ggml_tensor& node_;
  const ggml_tensor& q_;
  const ggml_tensor& k_;
  const ggml_tensor& v_;
  const ggml_tensor* const mask_;
  const int64_t group_;
  const int64_t blocks_;
  int64_t heads_per_task_ = 1;            // of queries
  int64_t kv_heads_per_task_ = 1;         // of keys and values
  int64_t n_parts_ = 1;                   // of the keys
  size_t parts_ = 0;                      // offset in WorkMemory::shared
  std::atomic<uint32_t> tasks_left_ = 0;  // where there are parts
};

}  // namespace

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
  auto work = std::make_unique<AttentionWork>(*kernels, node, list.n_threads());
  const MemoryRange parts = list.attention_parts(work->parts_bytes());
  work->set_parts_at(parts.begin);
  work->writes.push_back(parts);
  list.add(std::move(work), i, {&q, &k, &v, mask});
  return i;
}

}  // namespace executorch_ggml
