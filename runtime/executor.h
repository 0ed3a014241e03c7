// Runs the graph of a plan. An interface, so that other ways to run the same
// graph (own kernels, several devices) can stand beside ggml's CPU executor.
#pragma once

#include <cstdint>
#include <memory>

#include "ggml.h"
#include "runtime/status.h"

namespace executorch_ggml {

// Sees every node in turn when a graph is run node by node (profiles, dumps).
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void before(int node, const ggml_tensor& tensor) = 0;
  // The node's result is in tensor.data.
  virtual void after(int node, const ggml_tensor& tensor) = 0;
};

// One plan's graph as an executor has prepared it. Used by one thread at a time.
class Execution {
 public:
  virtual ~Execution() = default;
  virtual Status run() = 0;
  // Slower: no fusion across nodes, a start of all threads for each.
  virtual Status run_observed(NodeObserver& observer) = 0;
};

// Belongs to one handle, as do its executions.
class Executor {
 public:
  virtual ~Executor() = default;
  // `graph` has its memory and outlives `out`, as does this executor.
  virtual Status prepare(ggml_cgraph* graph, std::unique_ptr<Execution>& out) = 0;
};

// ggml's CPU kernels on the shared threads of the process.
Status make_cpu_executor(int n_threads, std::unique_ptr<Executor>& out);

}  // namespace executorch_ggml
