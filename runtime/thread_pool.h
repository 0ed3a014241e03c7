// The CPU threads that all delegates of a process share.
//
// ggml's pool runs one graph at a time and overwrites its plan without a lock, so
// a pool is leased: whoever computes holds its lock. Pools live while a handle
// refers to them, one per thread count and way to wait.
#pragma once

#include <memory>
#include <mutex>

#include "ggml-cpu.h"
#include "runtime/status.h"

namespace executorch_ggml {

class ThreadPool {
 public:
  // What threads do between graphs. Polling for a while, as llama.cpp has it, finds them
  // awake for the next token; sleeping at once leaves the cores to other threads.
  enum class Between { Poll, Sleep };

  // The pool of n_threads (>= 1), made on first use.
  static Status acquire(int n_threads, Between between, std::shared_ptr<ThreadPool>& out);

  explicit ThreadPool(ggml_threadpool* pool) : pool_(pool) {}
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Exclusive use of the threads while it lives.
  class Lease {
   public:
    explicit Lease(ThreadPool& pool) : lock_(pool.mutex_) {}

   private:
    std::unique_lock<std::mutex> lock_;
  };

  // For ggml_graph_plan; to compute, hold a Lease.
  ggml_threadpool* ggml() const { return pool_.get(); }

 private:
  struct Deleter {
    void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
  };
  std::unique_ptr<ggml_threadpool, Deleter> pool_;
  std::mutex mutex_;
};

}  // namespace executorch_ggml
