// From a verified program and concrete symbol values to a ggml graph.
//
// ggml answers misuse with abort(), so each builder checks what its ggml call
// asserts on the concrete tensors first, and the result's extents are compared
// with the declared ones after. A failure is a Status that names the call, the
// op, the operand and the shapes.
//
// A builder is a function `ggml_tensor* build(OpContext&)` (op_builders.h): it
// returns the call's result, or null after a failed expectation.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "runtime/host_kernel.h"
#include "runtime/plan.h"
#include "runtime/program.h"
#include "runtime/state_binding.h"
#include "runtime/status.h"

namespace executorch_ggml {

struct RuntimeOptions;  // runtime/options.h

// Which program input each value is: the input's index where the value holds an
// input's elements in order (the input itself, or a chain of reshapes), else
// kAbsent. Indexed by ValueId.
std::vector<uint32_t> trace_inputs(const Graph& program);

// Everything a build needs; the referenced objects outlive the plan.
struct BuildRequest {
  const Graph& program;
  std::span<const int64_t> symbols;       // one value per Graph::symbols
  std::span<const int64_t> state_key;     // what StateBinding::begin appended
  std::span<ggml_tensor* const> weights;  // as Graph::weights, with data
  std::span<const uint32_t> input_of;     // trace_inputs(program)
  StateBinding& states;
  const RuntimeOptions& options;
  // As Graph::weights: the form for products, or null; may be empty.
  std::span<ggml_tensor* const> packed_weights = {};
};

// Builds the graph. Intermediates have no memory yet: the graph cache allocates
// them. Inputs and direct outputs point to a placeholder until they are bound.
Status build_plan(const BuildRequest& request, Plan& out);

class GraphBuilder;

// One call being built, as its op builder sees it.
class OpContext {
 public:
  OpContext(GraphBuilder& builder, uint32_t call_index);

  ggml_context* ggml() const;
  const Call& call() const { return call_; }
  uint32_t call_index() const { return call_index_; }

  // Operand i, or null where an optional one is absent.
  ggml_tensor* in(size_t i) const;
  // The form of operand i that products read faster, if it is a weight that has one.
  ggml_tensor* packed(size_t i) const;
  // Whether the call before this one is not in the graph: this one computes it as part of itself.
  bool takes_in_previous() const;
  // Declared extents of result i.
  std::array<int64_t, 4> declared(size_t i = 0) const;
  // Integer parameter i, evaluated; as_int() when it must fit an int (a failed
  // fit is recorded and gives 0).
  int64_t dim(size_t i) const;
  int as_int(size_t i);
  bool flag(size_t i) const { return dim(i) != 0; }
  float param(size_t i) const { return static_cast<float>(call_.floats[i]); }

  // Expectations: true when they hold; otherwise the first failure is kept for
  // the Status and false is returned.
  [[nodiscard]] bool expect(bool condition, const char* format, ...)
#if defined(__GNUC__)
      __attribute__((format(printf, 3, 4)))
#endif
      ;
  [[nodiscard]] bool expect_type(size_t operand, std::initializer_list<ggml_type> types);
  [[nodiscard]] bool expect_f32(size_t operand) { return expect_type(operand, {GGML_TYPE_F32}); }
  [[nodiscard]] bool expect_rows(size_t operand);        // elements along ne[0] adjacent
  [[nodiscard]] bool expect_contiguous(size_t operand);  // as ggml_is_contiguous
  // F32 with adjacent elements along ne[0]: what most kernels take.
  [[nodiscard]] bool expect_f32_rows(size_t operand) {
    return expect_f32(operand) && expect_rows(operand);
  }

  // The program input whose elements operand i holds, or kAbsent.
  uint32_t input_of(size_t i) const;
  StateBinding& states() const;
  std::span<const int64_t> state_key() const;
  const RuntimeOptions& options() const;

  // Appends `tensor` and what it depends on to the graph now. The results of a
  // call are appended by the builder; a builder calls this only for what must
  // run earlier than it would by dependency (a state's write before its read).
  void append(ggml_tensor* tensor);

  // A tensor that `Fill` writes before each compute. Shared within the graph by
  // all who ask with the same type and key (each layer needs the same mask);
  // the first builds it. Fill's constructor gets `args`.
  template <std::derived_from<HostFill> Fill, typename... Args>
  Fill& shared_fill(const std::string& key, Args&&... args) {
    const std::string name = fill_name(typeid(Fill).name(), key);
    if (HostFill* found = find_fill(name)) {
      return static_cast<Fill&>(*found);
    }
    auto made = std::make_unique<Fill>(std::forward<Args>(args)...);
    Fill& result = *made;
    add_fill(name, std::move(made));
    return result;
  }
  // A new tensor for a HostFill (marked as input, named, without memory yet).
  ggml_tensor* fill_tensor(ggml_type type, std::array<int64_t, 4> ne, const char* name);

  // Ids of operand `ids` are checked against [0, limit): on the host when they
  // are an input, else by a checked op. Returns the ids to use.
  ggml_tensor* checked_ids(size_t ids, int64_t limit);

  // A node that runs one of our kernels. It reads any strides; the result is contiguous.
  ggml_tensor* host_op(HostKernel kernel, ggml_type type, const std::array<int64_t, 4>& ne,
                       std::span<ggml_tensor* const> operands, HostParams params);

 private:
  static std::string fill_name(const char* type, const std::string& key);
  HostFill* find_fill(const std::string& name) const;
  void add_fill(const std::string& name, std::unique_ptr<HostFill> fill);

  GraphBuilder& builder_;
  const Call& call_;
  uint32_t call_index_;
};

// "F32[4, 3, 1, 1]" for messages.
std::string describe(const ggml_tensor& tensor);

}  // namespace executorch_ggml
