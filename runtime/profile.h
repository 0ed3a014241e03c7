// Observations of a run: time per op and layer, ETDump events, statistics of every result.
#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ggml.h"
#include "runtime/executor.h"
#include "runtime/plan.h"
#include "runtime/status.h"

namespace executorch_ggml {

// Where the time of one call went, in seconds.
struct CallTimes {
  double inputs = 0;   // checks, conversions, symbols, output shapes
  double build = 0;    // on a miss: the graph
  double alloc = 0;    // on a miss: its memory and compute plan
  double bind = 0;     // index checks, pointers, masks
  double compute = 0;  // ggml
  double outputs = 0;  // copies, conversions
  bool hit = false;

  double total() const { return inputs + build + alloc + bind + compute + outputs; }
};

// Splits a call's time; each lap() gives the seconds since the last.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> elapsed = now - last_;
    last_ = now;
    return elapsed.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Runs with the time of each op: events for ExecuTorch's event tracer, and sums.
class Profiler final {
 public:
  // `tracer` may be null.
  Status run(Execution& execution, const Plan& plan, executorch::runtime::EventTracer* tracer);

  // Per call: tables of the threads' time by kind of op, with the rate at which products
  // read their matrices, and by layer; then how long threads had nothing to do. Empty
  // without runs.
  std::string summary() const;

 private:
  struct Sum {
    uint64_t count = 0;
    double seconds = 0;
    double weight_bytes = 0;
  };
  void add(const NodeTime& time, const Plan& plan, executorch::runtime::EventTracer* tracer,
           uint64_t start_ticks);

  std::map<std::string, Sum> by_op_;
  std::map<int, Sum> by_layer_;  // -1: before the first
  int layer_ = -1;
  uint64_t n_runs_ = 0;
  double seconds_ = 0;
  double threads_seconds_ = 0;
  double busy_ = 0;
};

// Appends one line per node to a file: op, name, type, extents, and min, max, mean,
// NaN and infinity counts of its result.
class DebugDump final : public NodeObserver {
 public:
  static Status open(const std::string& path, std::unique_ptr<DebugDump>& out);
  void begin(const char* method, uint64_t call);
  void after(int node, const ggml_tensor& tensor) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace executorch_ggml
