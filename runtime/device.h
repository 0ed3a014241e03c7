// The compute device of a handle, by name.
#pragma once

#include <string>

#include "ggml-backend.h"
#include "runtime/status.h"

namespace executorch_ggml {

struct Device {
  std::string name;
  ggml_backend_buffer_type_t buffer_type = nullptr;  // of intermediates and states
};

// "cpu" in any case. Another name is an error that lists what this build has.
Status find_device(const std::string& name, Device& out);

}  // namespace executorch_ggml
