// Tensors that depend on a call's positions only, filled once per call and shared
// by all layers of a graph. Each makes its tensor from the context that asks first.
#pragma once

#include <cstdint>
#include <vector>

#include "ggml.h"
#include "runtime/kv_cache.h"
#include "runtime/plan.h"

namespace executorch_ggml {

class OpContext;

// A HostFill with one tensor; `staging` serves tensors in device memory.
class TensorFill : public HostFill {
 public:
  ggml_tensor* tensor() const { return tensor_; }

 protected:
  explicit TensorFill(ggml_tensor* tensor) : tensor_(tensor) {}

  // Calls write(span of the tensor's elements): in place where the host can.
  template <typename T, typename Write>
  void write_elements(const Write& write);
  void write_mask(const KvStep& step, int64_t window, bool causal);

 private:
  ggml_tensor* tensor_;
  std::vector<uint8_t> staging_;
};

// Row numbers for ggml_set_rows, I64 [count]: the positions in input `input`.
class RowIdsFill final : public TensorFill {
 public:
  RowIdsFill(OpContext& op, uint32_t input, int64_t count);
  Status fill(const CallInputs& call) override;

 private:
  uint32_t input_;
};

// Element numbers in a transposed V, I64 [count * channels]; see fill_value_ids().
class ValueIdsFill final : public TensorFill {
 public:
  ValueIdsFill(OpContext& op, uint32_t input, int64_t count, int64_t channels, int64_t capacity);
  Status fill(const CallInputs& call) override;

 private:
  uint32_t input_;
  int64_t channels_;
  int64_t capacity_;
};

// A mask [n_kv, count] over the rows of a cache; see fill_mask().
class CacheMaskFill final : public TensorFill {
 public:
  CacheMaskFill(OpContext& op, ggml_type type, uint32_t input, int64_t n_kv, int64_t count,
                int64_t window, bool causal);
  Status fill(const CallInputs& call) override;

 private:
  uint32_t input_;
  int64_t window_;
  bool causal_;
};

// A causal mask [nk, nq] without a cache: the last query sees every key.
class CausalMaskFill final : public TensorFill {
 public:
  CausalMaskFill(OpContext& op, ggml_type type, int64_t nk, int64_t nq);
  Status fill(const CallInputs& call) override;
};

}  // namespace executorch_ggml
