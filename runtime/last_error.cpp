#include "runtime/last_error.h"

#include <utility>

namespace executorch_ggml {
namespace {

thread_local Status last_error;

}  // namespace

void set_last_error(const Status& status) { last_error = status; }

Status take_last_error() { return std::exchange(last_error, Status()); }

}  // namespace executorch_ggml
