// ggml's own CPU executor: its kernels, a barrier of its threads after each node.
#include <chrono>
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
  Status run_timed(RunTimes& out) override;

 private:
  // Runs the nodes one by one, and visit(i) after each.
  template <typename Visit>
  Status run_nodes(const Visit& visit);

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

template <typename Visit>
Status GgmlExecution::run_nodes(const Visit& visit) {
  const ggml_init_params params = {
      .mem_size = ggml_graph_overhead_custom(1, /*grads=*/false),
      .mem_buffer = nullptr,
      .no_alloc = true,
  };
  const ggml_context_ptr context(ggml_init(params));
  ggml_cgraph* single = ggml_new_graph_custom(context.get(), 1, /*grads=*/false);
  for (int i = 0; i < ggml_graph_n_nodes(graph_); ++i) {
    ggml_graph_clear(single);
    ggml_graph_add_node(single, ggml_graph_node(graph_, i));
    ggml_cplan plan = executor_.plan(single);
    EG_RETURN_IF_ERROR(executor_.reserve_work(plan.work_size));
    EG_RETURN_IF_ERROR(executor_.compute(single, plan));
    visit(i);
  }
  return {};
}

Status GgmlExecution::run_observed(NodeObserver& observer) {
  return run_nodes([&](int i) { observer.after(i, *ggml_graph_node(graph_, i)); });
}

// Node by node: ggml tells of no times. A node's threads count as busy from its start to its end.
Status GgmlExecution::run_timed(RunTimes& out) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [start] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  double begin = 0;
  out = {.nodes = {}, .seconds = 0, .n_threads = plan_.n_threads};
  EG_RETURN_IF_ERROR(run_nodes([&](int i) {
    const ggml_tensor& node = *ggml_graph_node(graph_, i);
    const double end = elapsed();
    out.nodes.push_back(
        {.node = i,
         .begin = begin,
         .end = end,
         .busy = (end - begin) * plan_.n_threads,
         .weight_bytes = node.op == GGML_OP_MUL_MAT ? ggml_nbytes(node.src[0]) : 0});
    begin = end;
  }));
  out.seconds = elapsed();
  return {};
}

}  // namespace

Status make_ggml_executor(int n_threads, ThreadPool::Between between,
                          std::unique_ptr<Executor>& out) {
  std::shared_ptr<ThreadPool> pool;
  EG_RETURN_IF_ERROR(ThreadPool::acquire(n_threads, between, pool));
  out = std::make_unique<GgmlExecutor>(std::move(pool), n_threads);
  return {};
}

}  // namespace executorch_ggml
