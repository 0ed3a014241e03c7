#include "runtime/profile.h"

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/clock.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdlib>
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

// The number in the name of the node's weights ("w:model.layers.7.mlp.up_proj.weight"), or -1.
int layer_of(const ggml_tensor& node) {
  for (const ggml_tensor* source : node.src) {
    if (source == nullptr || std::strncmp(source->name, "w:", 2) != 0) {
      continue;
    }
    if (const char* number = std::strpbrk(source->name, "0123456789"); number != nullptr) {
      return std::atoi(number);
    }
  }
  return -1;
}

std::string format(const char* pattern, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(line, sizeof(line), pattern, arguments);
  va_end(arguments);
  return line;
}

}  // namespace

Status Profiler::run(Execution& execution, const Plan& plan,
                     executorch::runtime::EventTracer* tracer) {
  RunTimes times;
  const uint64_t start_ticks = executorch::runtime::pal_current_ticks();
  EG_RETURN_IF_ERROR(execution.run_timed(times));
  layer_ = -1;
  for (const NodeTime& time : times.nodes) {
    add(time, plan, tracer, start_ticks);
  }
  ++n_runs_;
  seconds_ += times.seconds;
  threads_seconds_ += times.seconds * times.n_threads;
  return {};
}

void Profiler::add(const NodeTime& time, const Plan& plan, executorch::runtime::EventTracer* tracer,
                   uint64_t start_ticks) {
  const ggml_tensor& node = *ggml_graph_node(plan.graph, time.node);
  const Call& call = *plan.calls[static_cast<size_t>(time.node)];
  const char* op = time.name != nullptr ? time.name : ggml_op_desc(&node);
  if (node.op == GGML_OP_CUSTOM) {  // a kernel of ours: named as the program does
    const OpInfo* const info = find_op(static_cast<uint16_t>(call.op));
    op = info == nullptr ? op : info->name;
  }
  // A call of the program is named by its debug handle, others by their op.
  const bool has_handle = call.debug_handle != 0;
  const auto ratio = executorch::runtime::pal_ticks_to_ns_multiplier();
  const auto ticks_at = [&](double seconds) {
    return start_ticks +
           static_cast<uint64_t>(seconds * 1e9 * static_cast<double>(ratio.denominator) /
                                 static_cast<double>(ratio.numerator));
  };
  executorch::runtime::event_tracer_log_profiling_delegate(
      tracer, has_handle ? nullptr : op,
      has_handle ? call.debug_handle : static_cast<executorch::runtime::DebugHandle>(-1),
      ticks_at(time.begin), ticks_at(time.end), op, std::strlen(op));

  if (const int named = layer_of(node); named >= 0) {
    layer_ = named;
  }
  for (Sum* sum : {&by_op_[op], &by_layer_[layer_]}) {
    ++sum->count;
    sum->seconds += time.busy;
    sum->weight_bytes += static_cast<double>(time.weight_bytes);
  }
  busy_ += time.busy;
}

std::string Profiler::summary() const {
  if (n_runs_ == 0) {
    return "";
  }
  const auto runs = static_cast<double>(n_runs_);
  const auto row = [&](const std::string& name, const Sum& sum) {
    std::string text = format("%-24s %8.1f x %10.3f ms %6.1f %%", name.c_str(),
                              static_cast<double>(sum.count) / runs, sum.seconds * 1e3 / runs,
                              100 * sum.seconds / std::max(threads_seconds_, 1e-12));
    if (sum.weight_bytes > 0) {
      // As if all threads had read at the rate of this one.
      const double threads = threads_seconds_ / seconds_;
      text += format("  %6.1f GB/s of weights", sum.weight_bytes / sum.seconds * threads * 1e-9);
    }
    return text + "\n";
  };
  std::vector<std::pair<std::string, Sum>> ops(by_op_.begin(), by_op_.end());
  std::ranges::sort(
      ops, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  std::string text = format("%" PRIu64 " calls of %.3f ms, %.0f threads; per call:\n", n_runs_,
                            seconds_ * 1e3 / runs, threads_seconds_ / seconds_);
  for (const auto& [op, sum] : ops) {
    text += row(op, sum);
  }
  const Sum idle = {.count = n_runs_, .seconds = threads_seconds_ - busy_, .weight_bytes = 0};
  text += row("(waiting)", idle);
  if (by_layer_.size() > 1) {
    for (const auto& [layer, sum] : by_layer_) {
      text += row(layer < 0 ? "before the first layer" : "layer " + std::to_string(layer), sum);
    }
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
