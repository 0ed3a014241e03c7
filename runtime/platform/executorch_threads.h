// The threads that ExecuTorch's kernels and other delegates of a process share.
#pragma once

#include <cstdint>
#include <functional>

namespace executorch_ggml {

// Whose threads our kernels compute on.
enum class ThreadSource : uint8_t { Own, ExecuTorch };

// How many there are, the caller's included; 0 where this build has none. The first call makes
// them: they run where its thread may run. Within a call on them, one.
int executorch_thread_count();

// Whether the caller is called by run_on_executorch_threads or ExecuTorch's parallel_for.
bool is_on_executorch_threads();

// Calls run(i) for each i below n on these threads, the caller's among them, and returns when all
// calls have. Calls run at the same time as far as there are threads. Not within a call on them:
// the pool would wait for itself.
void run_on_executorch_threads(int n, const std::function<void(int)>& run);

}  // namespace executorch_ggml
