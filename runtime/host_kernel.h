// Kernels of our own, run inside a ggml graph as custom nodes: what ggml lacks
// (integers, comparisons, indices) or computes less exactly than PyTorch.
//
// A kernel gets a task: its share of the result's rows (a row runs along ne[0]), or of the units
// that its op is divided into.
// Operands may be strided in any way, and an extent of 1 broadcasts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ggml.h"
#include "runtime/opset.h"
#include "runtime/plan.h"

namespace executorch_ggml {

// Parameters as in Call::ints (evaluated) and Call::floats, at the positions of
// params::<op>.
struct HostParams {
  std::vector<int64_t> ints = {};
  std::vector<float> floats = {};
  int64_t limit = 0;    // of indices, for messages
  int64_t n_units = 0;  // what tasks share out; 0: the result's rows
  int64_t size = 0;     // what it costs, as Work::elements; 0: by the elements of the result
  int64_t least = 0;    // units of a task at least, unless threads would have none
  ggml_tensor* before = nullptr;  // a call that is computed as part of this one, not in the graph
};

struct HostTask;
using HostKernel = void (*)(const HostTask& task);

// A call of a host-side op; the plan owns it as one of its checks.
class HostCall final : public ComputedCheck {
 public:
  HostCall(uint32_t call, HostKernel run, HostParams params)
      : ComputedCheck(call, params.limit),
        kernel(run),
        ints(std::move(params.ints)),
        floats(std::move(params.floats)),
        n_units(params.n_units),
        size(params.size),
        least(params.least),
        before(params.before) {}

  const HostKernel kernel;
  const std::vector<int64_t> ints;
  const std::vector<float> floats;
  const int64_t n_units;
  const int64_t size;
  const int64_t least;
  ggml_tensor* const before;
};

// Where a row is.
struct RowIndex {
  int64_t i1 = 0;
  int64_t i2 = 0;
  int64_t i3 = 0;
};

// One row of an operand.
template <typename T>
struct Row {
  const char* data;
  size_t stride;  // bytes; 0 where one element serves the whole row

  T operator[](int64_t i) const {
    return *reinterpret_cast<const T*>(data + static_cast<size_t>(i) * stride);
  }
  bool is_packed() const { return stride == sizeof(T); }
  const T* begin() const { return reinterpret_cast<const T*>(data); }
};

struct HostTask {
  ggml_tensor* result;
  HostCall& call;
  int64_t first_row;  // or unit
  int64_t end_row;

  const ggml_tensor& operand(size_t i) const { return *result->src[i]; }

  RowIndex position(int64_t row) const {
    const int64_t per_plane = result->ne[1] * result->ne[2];
    return {row % result->ne[1], row % per_plane / result->ne[1], row / per_plane};
  }

  // The row of an operand that lies at, or broadcasts to, a position of the result.
  template <typename T>
  Row<T> row(size_t i, const RowIndex& at) const {
    const ggml_tensor& t = operand(i);
    const auto offset = [&t](size_t axis, int64_t index) {
      return (t.ne[axis] == 1 ? 0 : static_cast<size_t>(index)) * t.nb[axis];
    };
    const char* data = static_cast<const char*>(t.data);
    return {data + offset(1, at.i1) + offset(2, at.i2) + offset(3, at.i3),
            t.ne[0] == 1 ? 0 : t.nb[0]};
  }

  // Results are contiguous.
  template <typename T>
  T* out(int64_t row) const {
    return static_cast<T*>(result->data) + row * result->ne[0];
  }
};

// ggml's callback: user_data is the HostCall.
void run_host_call(ggml_tensor* result, int ith, int nth, void* user_data);

// What ggml keeps of a custom node.
struct CustomParams {
  ggml_custom_op_t run;
  int n_tasks;
  void* user_data;
};

CustomParams custom_params(const ggml_tensor& node);
// Of a node that run_host_call computes, else null.
HostCall* host_call_of(const ggml_tensor& node);

// A value as the torch type holds it, after arithmetic in 64 bits. I64 reports an
// overflow of 32 bits.
inline int32_t wrap(int64_t value, IntType type, HostCall& call) {
  switch (type) {
    case IntType::I64:
      if (value != static_cast<int32_t>(value)) {
        call.report(ComputedCheck::Failure::Overflow, value);
      }
      return static_cast<int32_t>(value);
    case IntType::I32:
      return static_cast<int32_t>(value);
    case IntType::I16:
      return static_cast<int16_t>(value);
    case IntType::I8:
      return static_cast<int8_t>(value);
    case IntType::U8:
      return static_cast<uint8_t>(value);
    case IntType::Bool:
      return value != 0;
  }
  return 0;
}

// The kernels, by op; host_elementwise.cpp, host_rows.cpp, host_index.cpp, host_pool.cpp,
// host_resize.cpp, host_grid.cpp, host_recurrent.cpp.
void host_unary(const HostTask& task);
void host_binary(const HostTask& task);
void host_where(const HostTask& task);
void host_convert(const HostTask& task);
void host_round(const HostTask& task);
void host_reduce(const HostTask& task);
void host_scan(const HostTask& task);
void host_argsort(const HostTask& task);
void host_gather(const HostTask& task);
void host_scatter(const HostTask& task);
void host_wrap_ids(const HostTask& task);
void host_iota(const HostTask& task);
void host_pool(const HostTask& task);
void host_resize(const HostTask& task);
void host_grid_sample(const HostTask& task);
void host_recurrent(const HostTask& task);

// Parts of ggml calls; host_attention.cpp.
void zero_blind_rows(const HostTask& task);

// Channels-last images; host_conv*.cpp. Operands: kernel, x, bias or null, residual or null.
// A unit of a convolution is some rows times some channels, one of a depthwise convolution a row
// of the image.
int64_t conv_2d_units(std::span<const int64_t> ints, const std::array<int64_t, 4>& result_ne,
                      const ggml_tensor& kernel, const ggml_tensor& x);
void host_conv_2d(const HostTask& task);
void host_conv_2d_dw(const HostTask& task);
// A depthwise convolution and the one `before` it, strip by strip, so that what is between them
// never leaves a cache. Operands: the depthwise one's, but with the x of the other, then the
// other's kernel and bias. A unit is a row of the image, of a group of channels.
void host_conv_2d_then_dw(const HostTask& task);
// Whether that pays; `ints`: of the depthwise convolution, maybe invalid.
bool is_worth_strips(const ggml_tensor& conv, std::span<const int64_t> ints);
// How it is shared out: sets n_units, size, least and before.
void set_strips(HostParams& params, ggml_tensor& conv, const std::array<int64_t, 4>& result_ne);
void host_pool_2d(const HostTask& task);

}  // namespace executorch_ggml
