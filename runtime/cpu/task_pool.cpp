#include "runtime/cpu/task_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <tuple>
#include <utility>

#include "runtime/platform/executorch_threads.h"
#include "runtime/shared_by_key.h"

namespace executorch_ggml {
namespace {

// Longer than the tasks that a thread waits for on an idle machine, and little beside the time
// slice of a scheduler.
constexpr std::chrono::microseconds kSpin(60);
constexpr int kPausesPerLook = 32;
// Longer than the last tasks of a step, which are short, keep a thread that runs.
constexpr std::chrono::microseconds kPatience(20);
constexpr int kMaxThreads = 512;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

using PoolKey = std::tuple<int, CpuPlacement, ThreadSource>;

SharedByKey<PoolKey, TaskPool>& shared_pools() {
  static SharedByKey<PoolKey, TaskPool> instance;
  return instance;
}

void run_step(TaskProgram& program, uint32_t step, int thread) {
  for (uint32_t task = 0; task < program.steps()[step]; ++task) {
    program.run_task(step, task, thread);
    if (program.stores_apart(step, task)) {
      program.store_task(step, task, thread);
    }
  }
}

}  // namespace

Status TaskPool::acquire(int n_threads, const CpuPlacement& placement, ThreadSource source,
                         std::shared_ptr<TaskPool>& out) {
  if (n_threads < 1 || n_threads > kMaxThreads) {
    return make_error(StatusCode::InvalidArgument, "%d threads: expected 1 to %d", n_threads,
                      kMaxThreads);
  }
  if (source == ThreadSource::ExecuTorch) {
    const int available = executorch_thread_count();
    if (available == 0) {
      return make_error(StatusCode::Unsupported,
                        "this build of ExecuTorch has no thread pool to compute on; let the "
                        "backend use its own threads");
    }
    n_threads = std::min(n_threads, available);
  }
  return shared_pools().get(
      {n_threads, placement, source}, out, [&](std::shared_ptr<TaskPool>& pool) -> Status {
        try {
          pool = std::make_shared<TaskPool>(n_threads, placement, source);
          return {};
        } catch (const std::system_error&) {
          return make_error(StatusCode::OutOfMemory, "a pool of %d threads could not be made",
                            n_threads);
        }
      });
}

TaskPool::TaskPool(int n_threads, CpuPlacement placement, ThreadSource source)
    : placement_(std::move(placement)), source_(source), slots_(static_cast<size_t>(n_threads)) {
  if (source_ == ThreadSource::ExecuTorch) {
    return;
  }
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
  if (source_ == ThreadSource::ExecuTorch && is_on_executorch_threads()) {
    // The threads are taken, and whoever took them waits for this call.
    for (uint32_t step = 0; step < program.steps().size(); ++step) {
      run_step(program, step, 0);
    }
    return;
  }
  const std::lock_guard lock(mutex_);
  program_ = &program;
  steps_ = program.steps();
  bound_ = wants_binding();
  place(0);
  first_step_ = unpack(state_).step + 1;
  open(0, 0);
  if (source_ == ThreadSource::Own) {
    help(0);
  } else if (unpack(state_).tasks_left != kIdle) {
    // Calls that begin when the program has ended, or one after the other, find nothing to do.
    run_on_executorch_threads(n_threads(), [this](int thread) { help(thread); });
  }
  wait_for_surplus();
  slots_[0].binding.reset();
}

void TaskPool::help(int thread) {
  State seen{};
  while (run_one(thread, seen) || seen.tasks_left != kIdle) {
    if (seen.tasks_left == 0) {
      wait_for_change(seen.step, thread);
    }
  }
}

bool TaskPool::wants_binding() const {
  if (placement_.cpus.empty()) {
    return false;
  }
  for (uint32_t step = 0; step < steps_.size(); ++step) {
    if (steps_[step] > 1 && (placement_.always || program_->stores_apart(step, 0))) {
      return true;
    }
  }
  return false;
}

void TaskPool::place(int thread) {
  std::optional<CpuBinding>& binding = slots_[static_cast<size_t>(thread)].binding;
  if (binding.has_value() == bound_) {
    return;
  }
  if (!bound_) {
    binding.reset();
    return;
  }
  const std::span<const int> all = placement_.cpus;
  binding.emplace(all.size() < slots_.size() ? all : all.subspan(static_cast<size_t>(thread), 1));
}

void TaskPool::work(int thread) {
  while (!stopping_) {
    if (State seen{}; !run_one(thread, seen) && !stopping_) {
      wait_for_change(seen.step, thread);
    }
  }
  slots_[static_cast<size_t>(thread)].binding.reset();
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
  place(thread);
  const uint32_t index = seen.step - first_step_;
  const uint32_t task = steps_[index] - seen.tasks_left;
  if (program_->stores_apart(index, task)) {
    run_apart(seen.step, task, thread);
  } else {
    program_->run_task(index, task, thread);
    finish_one(seen.step, thread);
  }
  return true;
}

void TaskPool::run_apart(uint32_t step, uint32_t task, int thread) {
  const uint32_t index = step - first_step_;
  uint64_t word = pack({step, task + 1});
  std::atomic<uint64_t>& slot = slots_[static_cast<size_t>(thread)].task;
  slot.store(word, std::memory_order_release);
  program_->run_task(index, task, thread);
  if (slot.compare_exchange_strong(word, kNone)) {
    program_->store_task(index, task, thread);
    finish_one(step, thread);
    return;
  }
  // Somebody was faster, and the program may have gone on.
  slot = kNone;
  announce();
}

void TaskPool::run_again(uint32_t step, int thread) {
  std::atomic<uint64_t>& own = slots_[static_cast<size_t>(thread)].task;
  for (Slot& slot : slots_) {
    uint64_t word = slot.task.load(std::memory_order_acquire);
    const State held = unpack(word);
    if (word == kNone || word == kSurplus || held.step != step) {
      continue;
    }
    // From here on the program does not end; whether it has already, the state tells.
    own = kSurplus;
    if (unpack(state_).step == step) {
      const uint32_t index = step - first_step_;
      const uint32_t task = held.tasks_left - 1;
      program_->run_task(index, task, thread);
      if (slot.task.compare_exchange_strong(word, kSurplus)) {
        program_->store_task(index, task, thread);
        own = kNone;
        finish_one(step, thread);
        continue;
      }
    }
    own = kNone;
    announce();
  }
}

void TaskPool::finish_one(uint32_t step, int thread) {
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    open(step - first_step_ + 1, thread);
  }
}

void TaskPool::open(uint32_t index, int thread) {
  const bool alone = slots_.size() == 1;
  while (index < steps_.size() && (alone || steps_[index] == 1)) {
    run_step(*program_, index, thread);
    ++index;
  }
  if (index == steps_.size()) {
    set_state({first_step_ + index, kIdle});
    return;
  }
  unfinished_.store(steps_[index], std::memory_order_relaxed);
  set_state({first_step_ + index, steps_[index]});
}

void TaskPool::set_state(State state) {
  state_ = pack(state);
  announce();
}

void TaskPool::announce() {
  changes_.fetch_add(1, std::memory_order_release);
  changes_.notify_all();  // no system call when nobody sleeps
}

void TaskPool::wait_for_change(uint32_t step, int thread) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  uint32_t changes = 0;
  Clock::duration waited{0};
  do {
    // Read before the state: a change of it that is missed here ends the sleep.
    changes = changes_.load(std::memory_order_acquire);
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (unpack(state_.load(std::memory_order_acquire)).step != step) {
        return;
      }
      pause_briefly();
    }
    waited = Clock::now() - begin;
    if (waited > kPatience) {
      run_again(step, thread);
    }
  } while (waited < kSpin);
  changes_.wait(changes, std::memory_order_acquire);
}

void TaskPool::wait_for_surplus() {
  for (const Slot& slot : slots_) {
    uint32_t changes = changes_.load(std::memory_order_acquire);
    while (slot.task == kSurplus) {
      changes_.wait(changes, std::memory_order_acquire);
      changes = changes_.load(std::memory_order_acquire);
    }
  }
}

}  // namespace executorch_ggml
