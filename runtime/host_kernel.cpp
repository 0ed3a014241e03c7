#include "runtime/host_kernel.h"

#include <cstring>

namespace executorch_ggml {

void run_host_call(ggml_tensor* result, int ith, int nth, void* user_data) {
  auto& call = *static_cast<HostCall*>(user_data);
  const int64_t rows = result->ne[1] * result->ne[2] * result->ne[3];
  const int64_t units = call.n_units > 0 ? call.n_units : rows;
  const HostTask task = {result, call, units * ith / nth, units * (ith + 1) / nth};
  call.kernel(task);
}

CustomParams custom_params(const ggml_tensor& node) {
  CustomParams params{};
  static_assert(sizeof(params) <= sizeof(node.op_params));
  std::memcpy(&params, node.op_params, sizeof(params));
  return params;
}

HostCall* host_call_of(const ggml_tensor& node) {
  if (node.op != GGML_OP_CUSTOM) {
    return nullptr;
  }
  const CustomParams params = custom_params(node);
  return params.run == run_host_call ? static_cast<HostCall*>(params.user_data) : nullptr;
}

Status ComputedCheck::status() const {
  const auto example = static_cast<long long>(example_.load());
  switch (failure_.load()) {
    case Failure::None:
      return {};
    case Failure::Index:
      return make_error(StatusCode::InvalidArgument,
                        "call %u computed index %lld, allowed are 0 to %lld", call_, example,
                        static_cast<long long>(limit_ - 1));
    case Failure::Overflow:
      return make_error(StatusCode::InvalidArgument,
                        "call %u computed the integer %lld, which does not fit 32 bits: a "
                        "delegate holds int64 as int32",
                        call_, example);
    case Failure::DivisionByZero:
      return make_error(StatusCode::InvalidArgument, "call %u divides the integer %lld by zero",
                        call_, example);
  }
  return {};
}

}  // namespace executorch_ggml
