// Rotary embedding: a table of cosines and sines for all layers, and rows turned by it.
#include <algorithm>
#include <cmath>

#include "runtime/cpu/row_works.h"

namespace executorch_ggml {
namespace {

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
  RopeTableWork(const ggml_tensor& node, size_t offset, const Shares& shares)
      : p_(node),
        positions_(*node.src[1]),
        factors_(node.src[2]),
        offset_(offset),
        shares_(shares) {
    n_tasks = shares.n_tasks();
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
    const int64_t first = shares_.part(task).begin(n);
    const int64_t end = shares_.part(task).end(n);
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
  const Shares shares_;
  float kept_dims_[2] = {0, 0};
};

}  // namespace

std::unique_ptr<Work> make_rope_table(const ggml_tensor& rope, size_t offset,
                                      const Shares& shares) {
  return std::make_unique<RopeTableWork>(rope, offset, shares);
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

}  // namespace executorch_ggml
