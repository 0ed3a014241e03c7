// Observations of a run: time per op, ETDump events, statistics of every result.
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

// Per-op events of one run for ExecuTorch's event tracer, and sums per kind of op.
class Profiler final : public NodeObserver {
 public:
  // The tracer and the plan of the run to come; `tracer` may be null.
  void begin(executorch::runtime::EventTracer* tracer, const Plan& plan);
  void before(int node, const ggml_tensor& tensor) override;
  void after(int node, const ggml_tensor& tensor) override;

  // A table of the time per kind of op, longest first; empty without runs.
  std::string summary() const;

 private:
  struct Sum {
    uint64_t count = 0;
    double seconds = 0;
  };
  executorch::runtime::EventTracer* tracer_ = nullptr;
  const Plan* plan_ = nullptr;
  executorch::runtime::EventTracerEntry entry_{};
  Stopwatch watch_;
  std::map<std::string, Sum> sums_;
};

// Appends one line per node to a file: op, name, type, extents, and min, max, mean,
// NaN and infinity counts of its result.
class DebugDump final : public NodeObserver {
 public:
  static Status open(const std::string& path, std::unique_ptr<DebugDump>& out);
  void begin(const char* method, uint64_t call);
  void before(int, const ggml_tensor&) override {}
  void after(int node, const ggml_tensor& tensor) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace executorch_ggml
