// How ProgramRunner words its errors.
#pragma once

#include <executorch/runtime/core/error.h>

#include <string>

#include "executorch_ggml/program_runner.h"
#include "runtime/status.h"

namespace executorch_ggml {

RunnerStatus from_status(const Status& status);

// printf-style construction.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
RunnerStatus runner_error(executorch::runtime::Error code, const char* format, ...);

// An error that ExecuTorch returned: with the delegate's sentence if it left one
// (see last_error.h), else with what the code usually means.
RunnerStatus executorch_error(executorch::runtime::Error code, const std::string& what);

}  // namespace executorch_ggml
