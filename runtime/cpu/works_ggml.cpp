// What is left to ggml, and kernels of ours that are nodes of the graph.
#include <cstring>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "runtime/cpu/tensors.h"
#include "runtime/cpu/work_list.h"
#include "runtime/host_kernel.h"
#include "runtime/platform/amx_tiles.h"
#include "runtime/thread_pool.h"

namespace executorch_ggml {
namespace {

// Fewer elements than these are computed before ggml's threads are awake.
constexpr int64_t kWorthThreads = 65536;

class GgmlRun final : public Work {
 public:
  GgmlRun(const GraphNodes& nodes, int first, int last, int n_threads) {
    const auto n = static_cast<size_t>(last - first + 1);
    context_.reset(ggml_init({.mem_size = ggml_graph_overhead_custom(n, /*grads=*/false),
                              .mem_buffer = nullptr,
                              .no_alloc = true}));
    graph_ = ggml_new_graph_custom(context_.get(), n, /*grads=*/false);
    for (int i = first; i <= last; ++i) {
      ggml_tensor& node = nodes.at(i);
      ggml_graph_add_node(graph_, &node);
      if (is_view(node)) {
        continue;
      }
      elements += ggml_nelements(&node);
      if (node.op == GGML_OP_MUL_MAT) {
        elements += ggml_nelements(&node) * node.src[0]->ne[0];
      }
    }
    is_small = elements < kWorthThreads || n_threads == 1;
    plan_ = ggml_graph_plan(graph_, is_small ? 1 : n_threads, /*threadpool=*/nullptr);
    thread_bytes = plan_.work_size;
  }

  void use(std::shared_ptr<ThreadPool> threads) {
    threads_ = std::move(threads);
    plan_.threadpool = threads_->ggml();
  }

  void run(uint32_t, const WorkMemory& memory) override {
    plan_.work_data = reinterpret_cast<uint8_t*>(memory.thread);
    const AmxTileScope tiles;
    // Without a callback that stops it ggml has nothing to report.
    if (threads_ == nullptr) {
      ggml_graph_compute(graph_, &plan_);
    } else {
      const ThreadPool::Lease lease(*threads_);
      ggml_graph_compute(graph_, &plan_);
    }
  }

 private:
  std::shared_ptr<ThreadPool> threads_;
  ggml_context_ptr context_;
  ggml_cgraph* graph_ = nullptr;
  ggml_cplan plan_{};
};

// As ggml keeps them in op_params.
struct CustomParams {
  ggml_custom_op_t run;
  int n_tasks;
  void* user_data;
};

class HostCallWork final : public Work {
 public:
  HostCallWork(ggml_tensor& node, const CustomParams& params) : node_(node), params_(params) {
    elements = ggml_nelements(&node) * 8;  // most do more than pass their elements on
  }

  void run(uint32_t task, const WorkMemory&) override {
    params_.run(&node_, static_cast<int>(task), static_cast<int>(n_tasks), params_.user_data);
  }

 private:
  ggml_tensor& node_;
  const CustomParams params_;
};

}  // namespace

int make_host_call(WorkList& list, int i) {
  ggml_tensor& node = list.nodes().at(i);
  if (node.op != GGML_OP_CUSTOM) {
    return -1;
  }
  CustomParams params{};
  static_assert(sizeof(params) <= sizeof(node.op_params));
  std::memcpy(&params, node.op_params, sizeof(params));
  auto work = std::make_unique<HostCallWork>(node, params);
  work->n_tasks = params.n_tasks == 1 ? 1 : list.share_out(row_count(node), node.ne[0], 2048);
  list.add(std::move(work), i,
           {node.src[0], node.src[1], node.src[2], node.src[3], node.src[4], node.src[5],
            node.src[6], node.src[7], node.src[8], node.src[9]});
  return i;
}

Status make_ggml_run(const GraphNodes& nodes, int first, int last, int n_threads,
                     std::shared_ptr<ThreadPool>& threads, std::unique_ptr<Work>& out) {
  auto run = std::make_unique<GgmlRun>(nodes, first, last, n_threads);
  if (!run->is_small) {
    if (threads == nullptr) {
      // Threads of ours compute what follows: ggml's must not hold the cores meanwhile.
      EG_RETURN_IF_ERROR(ThreadPool::acquire(n_threads, ThreadPool::Between::Sleep, threads));
    }
    run->use(threads);
  }
  out = std::move(run);
  return {};
}

}  // namespace executorch_ggml
