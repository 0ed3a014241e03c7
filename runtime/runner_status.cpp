#include "runtime/runner_status.h"

#include <cstdarg>
#include <cstdio>

#include "runtime/last_error.h"

namespace executorch_ggml {
namespace {

namespace et = executorch::runtime;

et::Error code_of(StatusCode code) {
  switch (code) {
    case StatusCode::Ok:
      return et::Error::Ok;
    case StatusCode::InvalidProgram:
      return et::Error::InvalidProgram;
    case StatusCode::InvalidArgument:
      return et::Error::InvalidArgument;
    case StatusCode::InvalidExternalData:
      return et::Error::InvalidExternalData;
    case StatusCode::NotFound:
      return et::Error::NotFound;
    case StatusCode::OutOfMemory:
      return et::Error::MemoryAllocationFailed;
    case StatusCode::Unsupported:
      return et::Error::NotSupported;
    case StatusCode::InvalidState:
      return et::Error::InvalidState;
    case StatusCode::Internal:
      return et::Error::Internal;
  }
  return et::Error::Internal;
}

}  // namespace

RunnerStatus from_status(const Status& status) {
  return status.ok() ? RunnerStatus() : RunnerStatus(code_of(status.code()), status.message());
}

RunnerStatus runner_error(et::Error code, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return RunnerStatus(code, text);
}

RunnerStatus executorch_error(et::Error code, const std::string& what) {
  const Status cause = take_last_error();
  if (!cause.ok()) {
    return RunnerStatus(code, std::string(what).append(": ").append(cause.message()));
  }
  const char* hint = "";
  if (code == et::Error::OperatorMissing) {
    hint =
        "; it has ops that were not delegated, for which the process needs a kernel library "
        "(executorch::kernels_optimized in CMake, libexecutorch_kernels_optimized.so)";
  } else if (code == et::Error::NotFound) {
    hint = "; a backend that the program uses may not be linked or loaded";
  }
  return runner_error(code, "%s: ExecuTorch returned %s%s; its log says more", what.c_str(),
                      et::to_string(code), hint);
}

}  // namespace executorch_ggml
