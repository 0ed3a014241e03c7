// ggml's own CPU executor: its kernels, a barrier of its threads after each node.
#include <new>
#include <vector>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "runtime/executor.h"
#include "runtime/platform/amx_tiles.h"
#include "runtime/thread_pool.h"

namespace executorch_ggml {
namespace {

class GgmlExecutor;

class GgmlExecution final : public Execution {
 public:
  GgmlExecution(GgmlExecutor& executor, ggml_cgraph* graph, const ggml_cplan& plan)
      : executor_(executor), graph_(graph), plan_(plan) {}

  Status run() override;
  Status run_observed(NodeObserver& observer) override;

 private:
  GgmlExecutor& executor_;
  ggml_cgraph* graph_;
  ggml_cplan plan_;
};

class GgmlExecutor final : public Executor {
 public:
  GgmlExecutor(std::shared_ptr<ThreadPool> pool, int n_threads)
      : pool_(std::move(pool)), n_threads_(n_threads) {}

  Status prepare(const Plan& plan, std::unique_ptr<Execution>& out) override {
    const ggml_cplan compute_plan = this->plan(plan.graph);
    EG_RETURN_IF_ERROR(reserve_work(compute_plan.work_size));
    out = std::make_unique<GgmlExecution>(*this, plan.graph, compute_plan);
    return {};
  }

  Status compute(ggml_cgraph* graph, ggml_cplan& plan) {
    plan.work_data = work_.data();
    const ThreadPool::Lease lease(*pool_);
    const AmxTileScope tiles;
    switch (ggml_graph_compute(graph, &plan)) {
      case GGML_STATUS_SUCCESS:
        return {};
      case GGML_STATUS_ALLOC_FAILED:
        return make_error(StatusCode::OutOfMemory, "ggml ran out of memory in a graph");
      case GGML_STATUS_ABORTED:
        return make_error(StatusCode::Internal, "ggml stopped a graph before its end");
      case GGML_STATUS_FAILED:
        break;
    }
    return make_error(StatusCode::Internal, "ggml failed to compute a graph");
  }

  ggml_cplan plan(ggml_cgraph* graph) const {
    return ggml_graph_plan(graph, n_threads_, pool_->ggml());
  }

  // Scratch memory of the kernels, shared by the handle's plans: they run one at
  // a time.
  Status reserve_work(size_t size) {
    if (work_.size() >= size) {
      return {};
    }
    try {
      work_.resize(size);
    } catch (const std::bad_alloc&) {
      return make_error(StatusCode::OutOfMemory, "no memory for %zu bytes of scratch space", size);
    }
    return {};
  }

 private:
  std::shared_ptr<ThreadPool> pool_;
  int n_threads_;
  std::vector<uint8_t> work_;
};

Status GgmlExecution::run() { return executor_.compute(graph_, plan_); }

Status GgmlExecution::run_observed(NodeObserver& observer) {
  const ggml_init_params params = {
      .mem_size = ggml_graph_overhead_custom(1, /*grads=*/false),
      .mem_buffer = nullptr,
      .no_alloc = true,
  };
  const ggml_context_ptr context(ggml_init(params));
  ggml_cgraph* single = ggml_new_graph_custom(context.get(), 1, /*grads=*/false);
  for (int i = 0; i < ggml_graph_n_nodes(graph_); ++i) {
    ggml_tensor* node = ggml_graph_node(graph_, i);
    ggml_graph_clear(single);
    ggml_graph_add_node(single, node);
    ggml_cplan plan = executor_.plan(single);
    EG_RETURN_IF_ERROR(executor_.reserve_work(plan.work_size));
    observer.before(i, *node);
    EG_RETURN_IF_ERROR(executor_.compute(single, plan));
    observer.after(i, *node);
  }
  return {};
}

}  // namespace

Status make_ggml_executor(int n_threads, std::unique_ptr<Executor>& out) {
  std::shared_ptr<ThreadPool> pool;
  EG_RETURN_IF_ERROR(ThreadPool::acquire(n_threads, pool));
  out = std::make_unique<GgmlExecutor>(std::move(pool), n_threads);
  return {};
}

}  // namespace executorch_ggml
