// Runs the graph of a plan. An interface, so that other ways to run the same
// graph (own kernels, several devices) can stand beside ggml's CPU executor.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ggml.h"
#include "runtime/plan.h"
#include "runtime/platform/cpu_affinity.h"
#include "runtime/platform/executorch_threads.h"
#include "runtime/status.h"
#include "runtime/thread_pool.h"

namespace executorch_ggml {

// Sees every result in turn when a graph is run node by node (dumps).
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  // The node's result is in tensor.data.
  virtual void after(int node, const ggml_tensor& tensor) = 0;
};

// When the work that gives a node's result ran, in seconds from the start of the run.
struct NodeTime {
  int node = 0;
  const char* name = nullptr;  // what is done for the node; null: the node itself
  double begin = 0;
  double end = 0;
  double busy = 0;          // of all threads together
  size_t weight_bytes = 0;  // of a product's matrix
};

struct RunTimes {
  std::vector<NodeTime> nodes;
  double seconds = 0;
  int n_threads = 1;
};

// One plan's graph as an executor has prepared it. Used by one thread at a time.
class Execution {
 public:
  virtual ~Execution() = default;
  virtual Status run() = 0;
  // Slower: results in turn, each with a start of all threads.
  virtual Status run_observed(NodeObserver& observer) = 0;
  // As run(), with the times of what it does.
  virtual Status run_timed(RunTimes& out) = 0;
};

// Belongs to one handle, as do its executions.
class Executor {
 public:
  virtual ~Executor() = default;
  // `plan` has a graph, and memory for it; it outlives `out`, as does this executor.
  virtual Status prepare(const Plan& plan, std::unique_ptr<Execution>& out) = 0;
};

// Our kernels where there are any for a node, ggml's for others, on threads that share the work
// as they become free (runtime/cpu/), placed so, the executor's own or ExecuTorch's.
// `by_node`: nodes that are left to ggml run one by one, to be seen and timed.
Status make_cpu_executor(int n_threads, const CpuPlacement& placement, ThreadSource source,
                         bool by_node, std::unique_ptr<Executor>& out);

// Whether that executor's products read weights of a type as ggml stores them.
bool multiplies_unpacked(ggml_type type);

// ggml's CPU kernels alone, on its own threads.
Status make_ggml_executor(int n_threads, ThreadPool::Between between,
                          std::unique_ptr<Executor>& out);

}  // namespace executorch_ggml
