// Threads that share the tasks of a program among them as they become free.
//
// A program is a list of steps, a step a number of tasks that may run in any order and at the
// same time; a step begins when the tasks of the one before are done. Nobody waits for a thread
// that holds no task: one that the system has put aside costs nothing until it has taken one.
// A task whose thread was put aside is run again by one that waits for it, where the program
// allows it. A waiting thread spins briefly and then sleeps, so that a busy machine's scheduler
// can move the thread that still works to the free core.
//
// The threads are the pool's own, or for the time of a run ExecuTorch's, which its kernels and
// other delegates compute on as well: a program of several delegates then has no threads that are
// in each other's way.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "runtime/platform/cpu_affinity.h"
#include "runtime/platform/executorch_threads.h"
#include "runtime/status.h"

namespace executorch_ggml {

// What a pool runs. Tasks do not throw.
class TaskProgram {
 public:
  virtual ~TaskProgram() = default;
  // Tasks of each step, at least one each.
  virtual std::span<const uint32_t> steps() const = 0;
  // `thread` is below the pool's number of threads, and no other task runs with it meanwhile.
  virtual void run_task(uint32_t step, uint32_t task, int thread) = 0;
  // Whether run_task only leaves the task's result in memory of `thread`, and store_task puts it
  // in place. Several threads may then run the task, of which one stores its result; the others
  // may still be at it when later steps change what it reads, but not when the program ends. As a
  // thread that is put aside is then no loss, threads may keep to a CPU each.
  virtual bool stores_apart(uint32_t /*step*/, uint32_t /*task*/) const { return false; }
  virtual void store_task(uint32_t /*step*/, uint32_t /*task*/, int /*thread*/) {}
};

class TaskPool {
 public:
  // The pool of n_threads (>= 1, the caller's included), placed so, made on first use and shared
  // by all who ask for the same. Of ExecuTorch's it has as many as there are, at most n_threads,
  // and leaves them where they are: they take no placement.
  static Status acquire(int n_threads, const CpuPlacement& placement, ThreadSource source,
                        std::shared_ptr<TaskPool>& out);

  // The caller's thread is free again after a run.
  explicit TaskPool(int n_threads, CpuPlacement placement = {},
                    ThreadSource source = ThreadSource::Own);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  int n_threads() const { return static_cast<int>(slots_.size()); }

  // Runs all steps; the caller is thread 0. One program at a time: others wait.
  void run(TaskProgram& program);

 private:
  // Both halves change together: a thread that takes a task knows which step it belongs to. The
  // steps of a program are numbered from first_step_, and on from program to program.
  struct State {
    uint32_t step;
    uint32_t tasks_left;
  };
  // In place of tasks_left: no program runs.
  static constexpr uint32_t kIdle = UINT32_MAX;

  struct alignas(64) Slot {
    // What the thread runs that others may run as well: a State with the task's number plus one
    // in place of tasks_left; or one of these.
    std::atomic<uint64_t> task = kNone;
    std::optional<CpuBinding> binding;  // used by the thread alone
  };
  static constexpr uint64_t kNone = 0;
  // The result will not be stored: somebody else's was, or may be.
  static constexpr uint64_t kSurplus = UINT64_MAX;

  static uint64_t pack(State state) {
    return (static_cast<uint64_t>(state.step) << 32) | state.tasks_left;
  }
  static State unpack(uint64_t word) {
    return {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word)};
  }

  bool wants_binding() const;
  // Binds the thread, or frees it, as the program wants it.
  void place(int thread);
  void work(int thread);
  // Takes tasks until the program ends.
  void help(int thread);
  void stop();
  // Takes and runs a task if there is one; else `seen` is the state without one.
  bool run_one(int thread, State& seen);
  void run_apart(uint32_t step, uint32_t task, int thread);
  // Runs the tasks of this step that others hold.
  void run_again(uint32_t step, int thread);
  void finish_one(uint32_t step, int thread);
  // Opens the program's step `index`, having run by itself those of a single task.
  void open(uint32_t index, int thread);
  void set_state(State state);
  void announce();
  void wait_for_change(uint32_t step, int thread);
  void wait_for_surplus();

  const CpuPlacement placement_;
  const ThreadSource source_;
  std::mutex mutex_;  // of a program's run
  TaskProgram* program_ = nullptr;
  std::span<const uint32_t> steps_;
  uint32_t first_step_ = 0;
  bool bound_ = false;  // the threads, while the program runs

  alignas(64) std::atomic<uint64_t> state_ = pack({0, kIdle});
  alignas(64) std::atomic<uint32_t> unfinished_ = 0;
  // Counts the changes of state_ and the ends of surplus tasks, after them: threads sleep on it.
  alignas(64) std::atomic<uint32_t> changes_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<Slot> slots_;           // of each thread
  std::vector<std::thread> workers_;  // none where they are ExecuTorch's
};

}  // namespace executorch_ggml
