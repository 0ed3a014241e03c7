#include "runtime/device.h"

#include <strings.h>

namespace executorch_ggml {

Status find_device(const std::string& name, Device& out) {
  if (strcasecmp(name.c_str(), "cpu") != 0) {
    return make_error(StatusCode::Unsupported,
                      "device '%s' is not available; this build runs on: cpu", name.c_str());
  }
  out = {.name = "cpu", .buffer_type = ggml_backend_cpu_buffer_type()};
  return {};
}

}  // namespace executorch_ggml
