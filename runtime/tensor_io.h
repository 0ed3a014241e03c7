// Between ExecuTorch's tensors and a plan's: checks, conversions, binding.
//
// Inside a delegate every floating dtype is F32 and every integer or boolean one
// is I32. Where ExecuTorch's memory already holds that, the graph reads and writes
// it in place; else it goes through a staging buffer of the handle. Conversions
// never lose a value: an int64 that does not fit int32 is an error.
#pragma once

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/span.h>

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/aligned_buffer.h"
#include "runtime/plan.h"
#include "runtime/program.h"
#include "runtime/status.h"

namespace executorch_ggml {

using Arguments = executorch::runtime::Span<executorch::runtime::EValue*>;

// Used by one thread at a time. No call allocates once the largest shapes were seen.
class TensorIo {
 public:
  // `symbol_max` may lower the program's bounds. Errors: arguments whose dtype this
  // runtime cannot convert.
  static Status check_program(const Graph& graph);
  TensorIo(const Graph& graph, std::vector<int64_t> symbol_max);

  // Checks count, dtype, rank and dim order of the arguments, converts inputs,
  // evaluates symbols, checks every size, and resizes the outputs.
  Status begin(Arguments args);

  // Of the current call.
  CallInputs call() const { return {views_, symbols_}; }

  // Ids of inputs that index rows are in range; the error names the input.
  Status check_indices(const Plan& plan) const;
  // Points the plan's inputs and direct outputs to this call's memory.
  Status bind(Plan& plan, Arguments args);
  // Copies or converts the outputs that were not computed in place.
  Status finish(const Plan& plan, Arguments args);

 private:
  Status read_input(size_t index, const executorch::runtime::EValue& value);
  Status read_symbols();
  Status check_input_sizes(Arguments args) const;
  Status resize_output(size_t index, executorch::runtime::EValue& value);
  Status store(size_t index, const ggml_tensor& tensor, void* out);

  const Graph& graph_;
  std::vector<int64_t> symbol_max_;
  std::vector<InputView> views_;                 // by input
  std::vector<std::vector<int64_t>> raw_sizes_;  // by input, torch order
  std::vector<int64_t> symbols_;
  std::vector<int64_t> exprs_;
  std::vector<AlignedBuffer> input_staging_;
  std::vector<AlignedBuffer> output_staging_;
  std::vector<char> row_;    // one gathered row
  std::vector<float> wide_;  // one row of half-precision results
};

}  // namespace executorch_ggml
