// One loaded delegate: a program with its weights, session, cached graphs and
// executor. What backend.cpp hands to ExecuTorch as a handle.
#pragma once

#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/core/named_data_map.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/graph_builder.h"
#include "runtime/graph_cache.h"
#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/program.h"
#include "runtime/session.h"
#include "runtime/state_binding.h"
#include "runtime/status.h"
#include "runtime/tensor_io.h"
#include "runtime/weight_store.h"

namespace executorch_ggml {

struct LoadRequest {
  std::span<const uint8_t> blob;                            // read during load only
  const executorch::runtime::NamedDataMap* data = nullptr;  // outlives the delegate
  RuntimeOptions options;
  const char* method = "forward";
};

class Delegate {
 public:
  static Status load(const LoadRequest& request, std::unique_ptr<Delegate>& out);
  ~Delegate();
  Delegate(const Delegate&) = delete;
  Delegate& operator=(const Delegate&) = delete;

  // Arguments are the inputs, then the outputs. After an error the next call
  // works; session state is as it was, but for buffers that the failed graph wrote.
  Status execute(Arguments args, executorch::runtime::EventTracer* tracer);

  const GraphCache& graph_cache() const { return *cache_; }
  const WeightStore& weights() const { return weights_; }
  const CallTimes& last_times() const { return times_; }

 private:
  explicit Delegate(const LoadRequest& request) : options_(request.options) {}

  Status init(const LoadRequest& request);
  Status reserve_worst_case();
  // The largest value of each symbol, with max_tokens_per_call applied.
  std::vector<int64_t> symbol_limits() const;
  void append_shaping_symbols(std::span<const int64_t> symbols, std::vector<int64_t>& key) const;
  BuildRequest build_request(std::span<const int64_t> symbols, std::span<const int64_t> state_key);
  Status plan_for(const CallInputs& call, size_t n_symbols, CachedPlan*& out);
  Status compute(CachedPlan& cached, executorch::runtime::EventTracer* tracer);
  Status run_in_session(Arguments args, executorch::runtime::EventTracer* tracer, Stopwatch& watch);
  void log_times() const;

  const RuntimeOptions options_;
  std::string method_;
  Program program_;
  Device device_;
  WeightStore weights_;
  std::unique_ptr<StateBinding> states_;
  std::vector<uint32_t> input_of_;
  std::vector<uint32_t> shaping_symbols_;  // those that a graph depends on
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<GraphCache> cache_;
  std::unique_ptr<TensorIo> io_;
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<DebugDump> dump_;

  std::mutex mutex_;  // calls of one handle run one after another
  std::vector<int64_t> key_;
  uint64_t n_calls_ = 0;
  CallTimes times_;
};

}  // namespace executorch_ggml
