#include "runtime/profile.h"

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/program.h"

namespace executorch_ggml {
namespace {

// Calls visit(value) for each element; false for types that are not dumped.
template <typename Visit>
bool for_each_value(const ggml_tensor& tensor, const Visit& visit) {
  const auto value_at = [&](const char* data) -> double {
    switch (tensor.type) {
      case GGML_TYPE_F32:
        return static_cast<double>(*reinterpret_cast<const float*>(data));
      case GGML_TYPE_F16:
        return static_cast<double>(ggml_fp16_to_fp32(*reinterpret_cast<const ggml_fp16_t*>(data)));
      case GGML_TYPE_BF16:
        return static_cast<double>(ggml_bf16_to_fp32(*reinterpret_cast<const ggml_bf16_t*>(data)));
      default:
        return static_cast<double>(*reinterpret_cast<const int32_t*>(data));
    }
  };
  if (tensor.type != GGML_TYPE_F32 && tensor.type != GGML_TYPE_F16 &&
      tensor.type != GGML_TYPE_BF16 && tensor.type != GGML_TYPE_I32) {
    return false;
  }
  const auto* base = static_cast<const char*>(tensor.data);
  const auto at = [](int64_t i, size_t stride) { return static_cast<size_t>(i) * stride; };
  for (int64_t i3 = 0; i3 < tensor.ne[3]; ++i3) {
    for (int64_t i2 = 0; i2 < tensor.ne[2]; ++i2) {
      for (int64_t i1 = 0; i1 < tensor.ne[1]; ++i1) {
        for (int64_t i0 = 0; i0 < tensor.ne[0]; ++i0) {
          visit(value_at(base + at(i0, tensor.nb[0]) + at(i1, tensor.nb[1]) + at(i2, tensor.nb[2]) +
                         at(i3, tensor.nb[3])));
        }
      }
    }
  }
  return true;
}

}  // namespace

void Profiler::begin(executorch::runtime::EventTracer* tracer, const Plan& plan) {
  tracer_ = tracer;
  plan_ = &plan;
}

void Profiler::before(int node, const ggml_tensor& tensor) {
  // A call of the program is named by its debug handle, others by their op.
  const uint32_t handle = plan_->calls[static_cast<size_t>(node)]->debug_handle;
  const bool has_handle = handle != 0;
  entry_ = executorch::runtime::event_tracer_start_profiling_delegate(
      tracer_, has_handle ? nullptr : ggml_op_desc(&tensor),
      has_handle ? handle : static_cast<executorch::runtime::DebugHandle>(-1));
  watch_.lap();
}

void Profiler::after(int node, const ggml_tensor& tensor) {
  const double seconds = watch_.lap();
  const char* op = ggml_op_desc(&tensor);
  if (tensor.op == GGML_OP_CUSTOM) {  // a kernel of ours: named as the program does
    const Call& call = *plan_->calls[static_cast<size_t>(node)];
    const OpInfo* const info = find_op(static_cast<uint16_t>(call.op));
    op = info == nullptr ? op : info->name;
  }
  executorch::runtime::event_tracer_end_profiling_delegate(tracer_, entry_, op, std::strlen(op));
  Sum& sum = sums_[op];
  ++sum.count;
  sum.seconds += seconds;
}

std::string Profiler::summary() const {
  std::vector<std::pair<std::string, Sum>> rows(sums_.begin(), sums_.end());
  std::ranges::sort(
      rows, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  double total = 0;
  for (const auto& [op, sum] : rows) {
    total += sum.seconds;
  }
  std::string text;
  for (const auto& [op, sum] : rows) {
    char line[160];
    std::snprintf(line, sizeof(line), "%-20s %10" PRIu64 " x %10.3f ms  %5.1f %%\n", op.c_str(),
                  sum.count, sum.seconds * 1e3, total > 0 ? 100 * sum.seconds / total : 0.0);
    text += line;
  }
  return text;
}

Status DebugDump::open(const std::string& path, std::unique_ptr<DebugDump>& out) {
  std::FILE* file = std::fopen(path.c_str(), "a");
  if (file == nullptr) {
    return make_error(StatusCode::InvalidArgument, "debug_dump: cannot write '%s': %s",
                      path.c_str(), std::strerror(errno));
  }
  out = std::make_unique<DebugDump>();
  out->file_.reset(file);
  return {};
}

void DebugDump::begin(const char* method, uint64_t call) {
  std::fprintf(file_.get(), "# %s call %" PRIu64 "\n", method, call);
}

void DebugDump::after(int node, const ggml_tensor& tensor) {
  double min = std::numeric_limits<double>::infinity();
  double max = -min;
  double sum = 0;
  int64_t n_finite = 0;
  int64_t n_nan = 0;
  int64_t n_inf = 0;
  const bool known = for_each_value(tensor, [&](double value) {
    if (std::isnan(value)) {
      ++n_nan;
    } else if (std::isinf(value)) {
      ++n_inf;
    } else {
      min = std::min(min, value);
      max = std::max(max, value);
      sum += value;
      ++n_finite;
    }
  });
  std::fprintf(file_.get(), "%d\t%s\t%s\t%s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]",
               node, ggml_op_desc(&tensor), tensor.name, ggml_type_name(tensor.type), tensor.ne[0],
               tensor.ne[1], tensor.ne[2], tensor.ne[3]);
  if (known && n_finite > 0) {
    std::fprintf(file_.get(), "\tmin %.9g\tmax %.9g\tmean %.9g", min, max,
                 sum / static_cast<double>(n_finite));
  }
  std::fprintf(file_.get(), "\tnan %" PRId64 "\tinf %" PRId64 "\n", n_nan, n_inf);
  std::fflush(file_.get());
}

}  // namespace executorch_ggml
