// The works of a graph, in its order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/cpu/shares.h"
#include "runtime/cpu/work.h"
#include "runtime/kernels/attention_kernels.h"
#include "runtime/kernels/matmul_kernels.h"
#include "runtime/kernels/row_kernels.h"
#include "runtime/plan.h"
#include "runtime/status.h"

namespace executorch_ggml {

class ThreadPool;  // runtime/thread_pool.h

// The kernels of this machine; null where there is no set for it.
struct CpuKernels {
  const MatmulKernels* matmul;
  const AttentionKernels* attention;
  const RowKernels* rows;
};

CpuKernels cpu_kernels();

// A graph's nodes and who reads them.
class GraphNodes {
 public:
  explicit GraphNodes(ggml_cgraph* graph);

  int size() const { return static_cast<int>(nodes_.size()); }
  ggml_tensor& at(int i) const { return *nodes_[static_cast<size_t>(i)]; }
  // The first node after `i` that computes something, or size().
  int next(int i) const;
  // Whether the node after `i` is the only reader of node i's result, which is no output.
  bool feeds_only_next(int i) const;

 private:
  std::vector<ggml_tensor*> nodes_;
  std::map<const ggml_tensor*, int> reads_;  // of a root, itself or through views
};

// Makes the works of one plan. What no kernel of ours computes is left to ggml.
class WorkList {
 public:
  // `by_node`: what is left to ggml is a work for each node. `ggml_threads` is filled when a
  // work first needs them.
  WorkList(const Plan& plan, const CpuKernels& kernels, int n_threads, bool by_node,
           std::shared_ptr<ThreadPool>& ggml_threads);

  // Whether all works could be made.
  const Status& status() const { return status_; }
  std::vector<std::unique_ptr<Work>> take_works() { return std::move(works_); }
  size_t shared_bytes() const { return shared_bytes_; }
  // Runs of nodes that are left to ggml and use all of its threads.
  int n_ggml_runs() const { return n_ggml_runs_; }

  // For the makers of works.
  const GraphNodes& nodes() const { return nodes_; }
  const CpuKernels& kernels() const { return kernels_; }
  int n_threads() const { return n_threads_; }
  MemoryRange range(const ggml_tensor& tensor) const;
  // Adds a work that computes node `node`, having read these; null ones are left out.
  void add(std::unique_ptr<Work> work, int node, std::initializer_list<const ggml_tensor*> reads);
  // Lets the work that was added last read memory of WorkMemory::shared as well.
  void reads_shared(const MemoryRange& range) { works_.back()->reads.push_back(range); }
  // The activations of product `node` prepared, in WorkMemory::shared; adds the work that
  // prepares them unless they still are there.
  MemoryRange prepared(int node, ActivationForm form);
  // Cosines and sines for rope `node`, in WorkMemory::shared: [positions][2][n_dims / 2].
  MemoryRange rope_table(int node);
  // Room in WorkMemory::shared for so many bytes of results that attention is yet to merge; used
  // in turn.
  MemoryRange attention_parts(size_t bytes);
  // Tasks to cut `n` units into, none with less than `least` elements of `per_unit` each.
  Shares share_out(int64_t n, int64_t per_unit, int64_t least) const;

 private:
  void reserve_prepared();
  void add_ggml_runs(size_t before, int first, int last);
  void add_help(std::unique_ptr<Work> work, int node, const char* name, const MemoryRange& writes);

  const Plan& plan_;
  const GraphNodes nodes_;
  const CpuKernels kernels_;
  const int n_threads_;
  const bool by_node_;
  std::shared_ptr<ThreadPool>& ggml_threads_;
  Status status_;
  std::vector<std::unique_ptr<Work>> works_;
  std::set<const ggml_tensor*> rebound_;  // roots that are bound anew for each call
  size_t shared_bytes_ = 0;
  int n_ggml_runs_ = 0;
  // Places for prepared rows are used in turn; the works' ranges keep them in order.
  struct Prepared {
    const ggml_tensor* x = nullptr;
    ActivationForm form = ActivationForm::F32;
    MemoryRange range{};
  };
  size_t place_bytes_ = 0;
  size_t next_place_ = 0;
  std::vector<Prepared> places_;
  std::map<std::vector<int64_t>, MemoryRange> rope_tables_;
  MemoryRange attention_parts_{};
};

// The makers, by family. Each makes the work of node `i`, together with the nodes after it that
// it fuses, and returns the last node covered; -1 where it has no kernel.
int make_matmul(WorkList& list, int i);      // MUL_MAT [+ ADD of a bias] [+ ADD]
int make_attention(WorkList& list, int i);   // FLASH_ATTN_EXT
int make_norm(WorkList& list, int i);        // RMS_NORM [+ MUL], NORM
int make_rope(WorkList& list, int i);        // ROPE
int make_softmax(WorkList& list, int i);     // SOFT_MAX
int make_activation(WorkList& list, int i);  // GLU, UNARY
int make_arithmetic(WorkList& list, int i);  // ADD, MUL, SCALE
int make_rows(WorkList& list, int i);        // GET_ROWS, SET_ROWS
int make_copy(WorkList& list, int i);        // CONT, CPY, DUP, REPEAT
int make_host_call(WorkList& list, int i);   // CUSTOM: kernels of ours that are graph nodes
int make_shared_out(WorkList& list, int i);  // large nodes of ggml's that threads can share

// Fills the table of a rope node, at `offset` of WorkMemory::shared; a task takes its share of
// the positions.
std::unique_ptr<Work> make_rope_table(const ggml_tensor& rope, size_t offset, const Shares& shares);

// Nodes [first, last] of the graph, run by ggml; is_small where its threads are not worth it, else
// `threads` is filled if it is empty.
Status make_ggml_run(const GraphNodes& nodes, int first, int last, int n_threads,
                     std::shared_ptr<ThreadPool>& threads, std::unique_ptr<Work>& out);

}  // namespace executorch_ggml
