#include "runtime/cpu/task_pool.h"

#include <chrono>
#include <map>
#include <system_error>

namespace executorch_ggml {
namespace {

// Longer than the tasks that a thread waits for on an idle machine, and little beside the time
// slice of a scheduler.
constexpr std::chrono::microseconds kSpin(60);
constexpr int kPausesPerLook = 32;
constexpr int kMaxThreads = 512;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

struct Registry {
  std::mutex mutex;
  std::map<int, std::weak_ptr<TaskPool>> pools;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

Status TaskPool::acquire(int n_threads, std::shared_ptr<TaskPool>& out) {
  if (n_threads < 1 || n_threads > kMaxThreads) {
    return make_error(StatusCode::InvalidArgument, "%d threads: expected 1 to %d", n_threads,
                      kMaxThreads);
  }
  const std::lock_guard lock(registry().mutex);
  std::weak_ptr<TaskPool>& slot = registry().pools[n_threads];
  out = slot.lock();
  if (out != nullptr) {
    return {};
  }
  try {
    out = std::make_shared<TaskPool>(n_threads);
  } catch (const std::system_error&) {
    return make_error(StatusCode::OutOfMemory, "a pool of %d threads could not be made", n_threads);
  }
  slot = out;
  return {};
}

TaskPool::TaskPool(int n_threads) {
  workers_.reserve(static_cast<size_t>(n_threads) - 1);
  try {
    for (int thread = 1; thread < n_threads; ++thread) {
      workers_.emplace_back([this, thread] { work(thread); });
    }
  } catch (...) {  // fewer threads than asked for
    stop();
    throw;
  }
}

TaskPool::~TaskPool() { stop(); }

void TaskPool::stop() {
  stopping_ = true;
  set_state({unpack(state_).step + 1, kIdle});
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void TaskPool::run(TaskProgram& program) {
  const std::lock_guard lock(mutex_);
  program_ = &program;
  steps_ = program.steps();
  open(0, 0);
  State seen{};
  while (run_one(0, seen) || seen.tasks_left != kIdle) {
    if (seen.tasks_left == 0) {
      wait_for_change(seen.step);
    }
  }
}

void TaskPool::work(int thread) {
  while (!stopping_) {
    if (State seen{}; !run_one(thread, seen) && !stopping_) {
      wait_for_change(seen.step);
    }
  }
}

bool TaskPool::run_one(int thread, State& seen) {
  uint64_t word = state_.load(std::memory_order_acquire);
  do {
    seen = unpack(word);
    if (seen.tasks_left == 0 || seen.tasks_left == kIdle) {
      return false;
    }
    // One task less is one less in the lower half.
  } while (!state_.compare_exchange_weak(word, word - 1, std::memory_order_acquire));
  // The program cannot end before this task has.
  const uint32_t index = index_;
  program_->run_task(index, steps_[index] - seen.tasks_left, thread);
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    open(index + 1, thread);
  }
  return true;
}

void TaskPool::open(uint32_t index, int thread) {
  const bool alone = workers_.empty();
  while (index < steps_.size() && (alone || steps_[index] == 1)) {
    for (uint32_t task = 0; task < steps_[index]; ++task) {
      program_->run_task(index, task, thread);
    }
    ++index;
  }
  const uint32_t step = unpack(state_.load(std::memory_order_relaxed)).step + 1;
  if (index == steps_.size()) {
    set_state({step, kIdle});
    return;
  }
  index_ = index;
  unfinished_.store(steps_[index], std::memory_order_relaxed);
  set_state({step, steps_[index]});
}

void TaskPool::set_state(State state) {
  state_.store(pack(state), std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_release);
  changes_.notify_all();  // no system call when nobody sleeps
}

void TaskPool::wait_for_change(uint32_t step) {
  const auto begin = std::chrono::steady_clock::now();
  uint32_t changes = 0;
  do {
    // Read before the state: a change of it that is missed here ends the sleep.
    changes = changes_.load(std::memory_order_acquire);
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (unpack(state_.load(std::memory_order_acquire)).step != step) {
        return;
      }
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() - begin < kSpin);
  changes_.wait(changes, std::memory_order_acquire);
}

}  // namespace executorch_ggml
