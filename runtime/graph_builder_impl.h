// The state of one build, shared by the builder (graph_builder.cpp) and the view of
// it that op builders get (op_context.cpp). Nobody else includes this.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/graph_builder.h"

namespace executorch_ggml {

// Whether ggml may be given a tensor of these extents: not empty, whole blocks, and
// far from overflow.
Status check_extents(ggml_type type, const std::array<int64_t, 4>& ne);

inline bool writes_first_operand(Op op) { return op == Op::SetRows || op == Op::Assign; }

// Holds the state of one build.
class GraphBuilder {
 public:
  GraphBuilder(const BuildRequest& request, Plan& plan) : request_(request), plan_(plan) {}

  Status build();

 private:
  friend class OpContext;

  const Graph& program() const { return request_.program; }

  std::array<int64_t, 4> extents(ValueId value) const {
    const Value& v = program().values[value];
    return {exprs_[v.ne[0]], exprs_[v.ne[1]], exprs_[v.ne[2]], exprs_[v.ne[3]]};
  }

  Status make_context();
  Status make_inputs();
  Status take_weights_and_states();
  Status make_call(uint32_t index);
  Status bind_outputs();

  // Whether a tensor has the type and extents that the program declares for `id`.
  Status check_declared(ValueId id, const ggml_tensor& found, const std::string& what) const;

  // Descriptors that the context still has room for.
  size_t remaining_tensors() const;

  // The program is in single assignment: a value that aliases the memory which call
  // `index` overwrites, and is read later, keeps what it held in a copy. A write to
  // the value still goes to the memory.
  Status save_old_content(uint32_t index);

  ggml_tensor* write_target(ValueId id) const;
  // The last call that reads each value, and how many do; outputs are read at the end.
  void find_reads();
  // Whether the next call computes this one as part of itself, and nothing else reads the result,
  // nor does a debug dump. This one has been built.
  bool is_left_to_next(uint32_t index);

  // Call by call, so that the graph runs in the program's order: a state's write
  // comes before the reads that follow it, whatever they depend on.
  void append(ggml_tensor* tensor, const Call& call);

  // Whether the whole of root, and nothing else, is the output.
  bool can_be_direct(const ggml_tensor& tensor, const ggml_tensor& root) const;
  // Finds the views of every tensor that is re-pointed from call to call.
  void collect_views();

  const BuildRequest& request_;
  Plan& plan_;
  size_t graph_size_ = 0;
  std::vector<int64_t> exprs_;
  std::vector<ggml_tensor*> tensors_;              // by ValueId
  std::map<ValueId, ggml_tensor*> write_targets_;  // of values that are read from a copy
  std::vector<uint32_t> last_read_;                // by ValueId
  std::vector<uint32_t> n_reads_;                  // by ValueId
  std::map<ValueId, ggml_tensor*> packed_;         // of weights that have a packed form
  std::map<std::string, HostFill*> fills_;
  Status failure_;
};

}  // namespace executorch_ggml
