#include "runtime/thread_pool.h"

#include <utility>

#include "runtime/shared_by_key.h"

namespace executorch_ggml {
namespace {

SharedByKey<std::pair<int, ThreadPool::Between>, ThreadPool>& shared_pools() {
  static SharedByKey<std::pair<int, ThreadPool::Between>, ThreadPool> instance;
  return instance;
}

}  // namespace

Status ThreadPool::acquire(int n_threads, Between between, std::shared_ptr<ThreadPool>& out) {
  if (n_threads < 1 || n_threads > GGML_MAX_N_THREADS) {
    return make_error(StatusCode::InvalidArgument, "%d threads: expected 1 to %d", n_threads,
                      GGML_MAX_N_THREADS);
  }
  return shared_pools().get(
      {n_threads, between}, out, [&](std::shared_ptr<ThreadPool>& made) -> Status {
        // ggml's defaults, llama.cpp's too, are to poll for a while.
        ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
        if (between == Between::Sleep) {
          params.poll = 0;
        }
        ggml_threadpool* pool = ggml_threadpool_new(&params);
        if (pool == nullptr) {
          return make_error(StatusCode::OutOfMemory, "a pool of %d threads could not be made",
                            n_threads);
        }
        made = std::make_shared<ThreadPool>(pool);
        return {};
      });
}

}  // namespace executorch_ggml
