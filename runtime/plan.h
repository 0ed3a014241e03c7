// A plan: one ggml graph, built for one set of symbol values, ready to compute
// again and again.
//
// A plan owns the descriptors of its tensors, not the memory of its
// intermediates: that is the graph cache's, shared by its plans. Inputs and
// outputs are re-pointed at every call (see tensor_io.h), tensors that only the
// host can fill (masks, cache rows) are filled by their HostFill.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ggml-cpp.h"
#include "ggml.h"
#include "runtime/status.h"

namespace executorch_ggml {

struct Call;  // runtime/program.h

// One program input as the host sees it during a call, after conversion: F32
// for floating-point arguments, I32 for integers and booleans, contiguous in
// ggml order. `data` belongs to ExecuTorch's tensor or to the handle's staging
// buffer and is valid until the call ends.
struct InputView {
  const void* data = nullptr;
  int64_t count = 0;  // elements
  ggml_type type = GGML_TYPE_F32;

  std::span<const int32_t> i32() const {
    return {static_cast<const int32_t*>(data), static_cast<size_t>(count)};
  }
  std::span<const float> f32() const {
    return {static_cast<const float*>(data), static_cast<size_t>(count)};
  }
};

// What is known about a call before its graph runs; indexed as Graph::inputs.
struct CallInputs {
  std::span<const InputView> inputs;
  std::span<const int64_t> symbols;  // values of Graph::symbols
};

// Fills one or more tensors of a plan before each compute. Its tensors are
// marked with ggml_set_input and have memory by the time fill() runs; that
// memory may be reused once they were read, so all of it is written each time.
class HostFill {
 public:
  virtual ~HostFill() = default;
  virtual Status fill(const CallInputs& call) = 0;
};

// Ids that come straight from an input: checked on the host before compute.
struct IndexCheck {
  uint32_t input;  // program input
  int64_t limit;   // 0 <= id < limit
  uint32_t call;   // index into Graph::calls, for the message
};

// What a call finds out only while it computes: it goes on with a harmless value and
// reports here. Reset before a compute and read after it.
class ComputedCheck {
 public:
  enum class Failure : uint8_t { None, Index, Overflow, DivisionByZero };

  ComputedCheck(uint32_t call, int64_t limit) : call_(call), limit_(limit) {}
  virtual ~ComputedCheck() = default;

  int64_t limit() const { return limit_; }
  // Before each compute.
  void reset() {
    static std::atomic<uint64_t> n_computes = 0;
    failure_ = Failure::None;
    compute_ = ++n_computes;
  }
  // No other call, and no other compute of this one, has the same: what tasks of one may share.
  uint64_t compute_number() const { return compute_; }
  // Keeps the first failure, with an offending value. Any thread of the compute.
  void report(Failure failure, int64_t example) {
    Failure none = Failure::None;
    if (failure_.compare_exchange_strong(none, failure)) {
      example_ = example;
    }
  }
  Status status() const;

 private:
  uint32_t call_;  // index into Graph::calls, for the message
  int64_t limit_;  // 0 <= id < limit
  std::atomic<Failure> failure_ = Failure::None;
  std::atomic<int64_t> example_ = 0;
  uint64_t compute_ = 0;
};

// A tensor whose data pointer changes from call to call, with all its views.
struct Rebindable {
  ggml_tensor* root = nullptr;
  std::vector<ggml_tensor*> views;  // view_offs counts from root's data
  void point_to(void* data) {
    if (root->data == data) {
      return;
    }
    root->data = data;
    for (ggml_tensor* view : views) {
      view->data = static_cast<char*>(data) + view->view_offs;
    }
  }
};

struct OutputBinding {
  ggml_tensor* tensor = nullptr;
  // Index into Plan::direct_outputs when the result is computed straight into
  // ExecuTorch's memory; kCopy when it is copied after compute.
  static constexpr size_t kCopy = SIZE_MAX;
  size_t direct = kCopy;
};

struct Plan {
  ggml_context_ptr context;
  ggml_cgraph* graph = nullptr;        // in context; null when there is nothing to compute
  std::vector<Rebindable> inputs;      // as Graph::inputs; root is null where unused
  std::vector<OutputBinding> outputs;  // as Graph::outputs
  std::vector<Rebindable> direct_outputs;
  std::vector<std::unique_ptr<HostFill>> fills;
  std::vector<IndexCheck> index_checks;
  std::vector<std::unique_ptr<ComputedCheck>> computed_checks;
  // Per node of `graph`, the call that made it.
  std::vector<const Call*> calls;
};

}  // namespace executorch_ggml
