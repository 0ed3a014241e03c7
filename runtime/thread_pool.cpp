#include "runtime/thread_pool.h"

#include <map>
#include <utility>

namespace executorch_ggml {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::pair<int, ThreadPool::Between>, std::weak_ptr<ThreadPool>> pools;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

Status ThreadPool::acquire(int n_threads, Between between, std::shared_ptr<ThreadPool>& out) {
  if (n_threads < 1 || n_threads > GGML_MAX_N_THREADS) {
    return make_error(StatusCode::InvalidArgument, "%d threads: expected 1 to %d", n_threads,
                      GGML_MAX_N_THREADS);
  }
  const std::lock_guard lock(registry().mutex);
  std::weak_ptr<ThreadPool>& slot = registry().pools[{n_threads, between}];
  out = slot.lock();
  if (out != nullptr) {
    return {};
  }
  // ggml's defaults, llama.cpp's too, are to poll for a while.
  ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
  if (between == Between::Sleep) {
    params.poll = 0;
  }
  ggml_threadpool* pool = ggml_threadpool_new(&params);
  if (pool == nullptr) {
    return make_error(StatusCode::OutOfMemory, "a pool of %d threads could not be made", n_threads);
  }
  out = std::make_shared<ThreadPool>(pool);
  slot = out;
  return {};
}

}  // namespace executorch_ggml
