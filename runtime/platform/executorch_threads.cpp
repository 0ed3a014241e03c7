#include "runtime/platform/executorch_threads.h"

#include <cstdint>

#if defined(ET_USE_THREADPOOL)
#include <executorch/extension/threadpool/threadpool_guard.h>
#include <executorch/runtime/kernel/thread_parallel_interface.h>
#endif

namespace executorch_ggml {

#if defined(ET_USE_THREADPOOL)

bool is_on_executorch_threads() {
  return executorch::extension::threadpool::NoThreadPoolGuard::is_enabled();
}

// Within a call its functions would wait for that call's end.
int executorch_thread_count() {
  return is_on_executorch_threads() ? 1
                                    : static_cast<int>(executorch::extension::get_thread_count());
}

void run_on_executorch_threads(int n, const std::function<void(int)>& run) {
  const auto run_range = [&run](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      run(static_cast<int>(i));
    }
  };
  // It refuses only ranges that make no sense.
  executorch::extension::parallel_for(0, n, /*grain_size=*/1, run_range);
}

#else

bool is_on_executorch_threads() { return false; }

int executorch_thread_count() { return 0; }

void run_on_executorch_threads(int n, const std::function<void(int)>& run) {
  for (int i = 0; i < n; ++i) {
    run(i);
  }
}

#endif

}  // namespace executorch_ggml
