#include "runtime/device.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace executorch_ggml {

Status find_device(const std::string& name, Device& out) {
  constexpr std::string_view kCpu = "cpu";
  const bool is_cpu =
      std::ranges::equal(name, kCpu, [](unsigned char a, char b) { return std::tolower(a) == b; });
  if (!is_cpu) {
    return make_error(StatusCode::Unsupported,
                      "device '%s' is not available; this build runs on: cpu", name.c_str());
  }
  out = {.name = std::string(kCpu), .buffer_type = ggml_backend_cpu_buffer_type()};
  return {};
}

}  // namespace executorch_ggml
