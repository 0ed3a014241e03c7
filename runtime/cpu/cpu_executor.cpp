// Our CPU executor: kernels of our own on threads that share tasks, ggml for the rest.
#include <algorithm>
#include <chrono>

#include "runtime/aligned_buffer.h"
#include "runtime/cpu/schedule.h"
#include "runtime/cpu/task_pool.h"
#include "runtime/cpu/work_list.h"
#include "runtime/executor.h"
#include "runtime/thread_pool.h"

namespace executorch_ggml {
namespace {

// A start of ggml's threads for every few nodes costs more than our kernels save.
constexpr int kNodesPerGgmlRun = 8;

// Scratch memory of a handle's plans, which run one at a time.
class Scratch {
 public:
  explicit Scratch(int n_threads) : n_threads_(static_cast<size_t>(n_threads)) {}

  Status reserve(size_t shared_bytes, size_t thread_bytes) {
    shared_bytes_ = std::max(shared_bytes_, aligned_size(shared_bytes));
    thread_bytes_ = std::max(thread_bytes_, aligned_size(thread_bytes));
    const size_t bytes = shared_bytes_ + n_threads_ * thread_bytes_;
    if (!buffer_.reserve(bytes)) {
      return make_error(StatusCode::OutOfMemory, "no memory for %zu bytes of scratch space", bytes);
    }
    return {};
  }

  WorkMemory of_thread(int thread) const {
    auto* const base = static_cast<std::byte*>(buffer_.data());
    return {base, base + shared_bytes_ + static_cast<size_t>(thread) * thread_bytes_};
  }

 private:
  const size_t n_threads_;
  size_t shared_bytes_ = 0;
  size_t thread_bytes_ = 0;
  AlignedBuffer buffer_;
};

using Clock = std::chrono::steady_clock;

// When the tasks of a work ran on one thread.
struct Span {
  Clock::time_point begin = Clock::time_point::max();
  Clock::time_point end = Clock::time_point::min();
  Clock::duration busy{0};
};

// By thread and work.
using Spans = std::vector<std::vector<Span>>;

// Steps as the pool runs them.
class Steps final : public TaskProgram {
 public:
  Steps(std::vector<Step> steps, const Scratch& scratch)
      : steps_(std::move(steps)), scratch_(scratch) {
    for (const Step& step : steps_) {
      n_tasks_.push_back(step.n_tasks);
    }
  }

  // Where times go while it is not null.
  void set_spans(Spans* spans) { spans_ = spans; }

  std::span<const uint32_t> steps() const override { return n_tasks_; }

  void run_task(uint32_t index, uint32_t task, int thread) override {
    const Step& step = steps_[index];
    if (step.n_tasks > 1) {
      const Task one = task_of(step, task);
      run_work(*one.work, one.index, thread);
      return;
    }
    for (Work* work : step.works) {
      for (uint32_t i = 0; i < work->n_tasks; ++i) {
        run_work(*work, i, thread);
        if (work->stores_apart) {
          work->store(i, scratch_.of_thread(thread));
        }
      }
    }
  }

  bool stores_apart(uint32_t index, uint32_t task) const override {
    const Step& step = steps_[index];
    return step.n_tasks > 1 && task_of(step, task).work->stores_apart;
  }

  void store_task(uint32_t index, uint32_t task, int thread) override {
    const Task one = task_of(steps_[index], task);
    one.work->store(one.index, scratch_.of_thread(thread));
  }

 private:
  struct Task {
    Work* work;
    uint32_t index;
  };

  static Task task_of(const Step& step, uint32_t task) {
    auto work = step.works.begin();
    while (task >= (*work)->n_tasks) {
      task -= (*work)->n_tasks;
      ++work;
    }
    return {*work, task};
  }

  void run_work(Work& work, uint32_t task, int thread) {
    const WorkMemory memory = scratch_.of_thread(thread);
    if (spans_ == nullptr) {
      work.run(task, memory);
      return;
    }
    const Clock::time_point begin = Clock::now();
    work.run(task, memory);
    const Clock::time_point end = Clock::now();
    Span& span = (*spans_)[static_cast<size_t>(thread)][work.index];
    span.begin = std::min(span.begin, begin);
    span.end = end;
    span.busy += end - begin;
  }

  const std::vector<Step> steps_;
  const Scratch& scratch_;
  std::vector<uint32_t> n_tasks_;
  Spans* spans_ = nullptr;
};

class CpuExecution final : public Execution {
 public:
  CpuExecution(TaskPool& pool, const Scratch& scratch, ggml_cgraph* graph,
               std::vector<std::unique_ptr<Work>> works)
      : pool_(pool),
        scratch_(scratch),
        graph_(graph),
        works_(std::move(works)),
        steps_(schedule(works_, pool.n_threads()), scratch) {
    for (size_t i = 0; i < works_.size(); ++i) {
      works_[i]->index = i;
    }
  }

  Status run() override {
    pool_.run(steps_);
    return {};
  }

  Status run_observed(NodeObserver& observer) override {
    for (const std::unique_ptr<Work>& work : works_) {
      std::vector<Step> step(1);
      step[0] = {{work.get()}, work->n_tasks};
      Steps alone(std::move(step), scratch_);
      pool_.run(alone);
      if (work->name == nullptr) {
        observer.after(work->node_index, *ggml_graph_node(graph_, work->node_index));
      }
    }
    return {};
  }

  Status run_timed(RunTimes& out) override {
    const auto n_threads = static_cast<size_t>(pool_.n_threads());
    Spans spans(n_threads, std::vector<Span>(works_.size()));
    const Clock::time_point start = Clock::now();
    steps_.set_spans(&spans);
    pool_.run(steps_);
    steps_.set_spans(nullptr);
    const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
    out = {.nodes = {}, .seconds = seconds(Clock::now() - start), .n_threads = pool_.n_threads()};
    for (const std::unique_ptr<Work>& work : works_) {
      Span all;
      for (const std::vector<Span>& thread : spans) {
        all.begin = std::min(all.begin, thread[work->index].begin);
        all.end = std::max(all.end, thread[work->index].end);
        all.busy += thread[work->index].busy;
      }
      out.nodes.push_back({.node = work->node_index,
                           .name = work->name,
                           .begin = seconds(all.begin - start),
                           .end = seconds(all.end - start),
                           .busy = seconds(all.busy),
                           .weight_bytes = work->weight_bytes});
    }
    return {};
  }

 private:
  TaskPool& pool_;
  const Scratch& scratch_;
  ggml_cgraph* graph_;
  const std::vector<std::unique_ptr<Work>> works_;
  Steps steps_;
};

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(std::shared_ptr<TaskPool> pool, bool by_node)
      : pool_(std::move(pool)), by_node_(by_node), scratch_(pool_->n_threads()) {}

  Status prepare(const Plan& plan, std::unique_ptr<Execution>& out) override {
    WorkList list(plan, cpu_kernels(), pool_->n_threads(), by_node_, ggml_threads_);
    EG_RETURN_IF_ERROR(list.status());
    if (list.n_ggml_runs() * kNodesPerGgmlRun > ggml_graph_n_nodes(plan.graph)) {
      if (ggml_ == nullptr) {
        // Other threads may compute what follows: ggml's must not hold the cores meanwhile.
        EG_RETURN_IF_ERROR(
            make_ggml_executor(pool_->n_threads(), ThreadPool::Between::Sleep, ggml_));
      }
      return ggml_->prepare(plan, out);
    }
    std::vector<std::unique_ptr<Work>> works = list.take_works();
    size_t thread_bytes = 0;
    for (const std::unique_ptr<Work>& work : works) {
      thread_bytes = std::max(thread_bytes, work->thread_bytes);
    }
    EG_RETURN_IF_ERROR(scratch_.reserve(list.shared_bytes(), thread_bytes));
    out = std::make_unique<CpuExecution>(*pool_, scratch_, plan.graph, std::move(works));
    return {};
  }

 private:
  std::shared_ptr<TaskPool> pool_;
  const bool by_node_;
  // Made for the first graph that needs them: most leave ggml too little for threads.
  std::shared_ptr<ThreadPool> ggml_threads_;
  std::unique_ptr<Executor> ggml_;
  Scratch scratch_;
};

}  // namespace

bool multiplies_unpacked(ggml_type type) {
  const MatmulKernels* const kernels = cpu_kernels().matmul;
  return kernels != nullptr && kernels->kernel(type, 1).multiply != nullptr;
}

Status make_cpu_executor(int n_threads, const CpuPlacement& placement, ThreadSource source,
                         bool by_node, std::unique_ptr<Executor>& out) {
  std::shared_ptr<TaskPool> pool;
  EG_RETURN_IF_ERROR(TaskPool::acquire(n_threads, placement, source, pool));
  out = std::make_unique<CpuExecutor>(std::move(pool), by_node);
  return {};
}

}  // namespace executorch_ggml
