// Runs the graph of a plan. An interface, so that other ways to run the same
// graph (own kernels, several devices) can stand beside ggml's CPU executor.
#pragma once

#include <cstdint>
#include <memory>

#include "ggml.h"
#include "runtime/plan.h"
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
  // `plan` has a graph, and memory for it; it outlives `out`, as does this executor.
  virtual Status prepare(const Plan& plan, std::unique_ptr<Execution>& out) = 0;
};

// Our kernels where there are any for a node, ggml's for others, on threads that share the work
// as they become free (runtime/cpu/).
Status make_cpu_executor(int n_threads, std::unique_ptr<Executor>& out);

// Whether that executor's products read weights of a type as ggml stores them.
bool multiplies_unpacked(ggml_type type);

// ggml's CPU kernels alone, on its own threads.
Status make_ggml_executor(int n_threads, std::unique_ptr<Executor>& out);

}  // namespace executorch_ggml
