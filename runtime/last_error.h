// The text of the last error on this thread.
//
// ExecuTorch passes error codes only. The backend keeps the sentence here before
// it returns the code, and ProgramRunner, which called on the same thread, adds it
// to its own error.
#pragma once

#include "runtime/status.h"

namespace executorch_ggml {

void set_last_error(const Status& status);

// Returns the status set since the last call, or Ok; clears it.
Status take_last_error();

}  // namespace executorch_ggml
