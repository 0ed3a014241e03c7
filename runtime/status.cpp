#include "runtime/status.h"

#include <cstdarg>
#include <cstdio>

namespace executorch_ggml {
namespace {

std::string format_text(const char* format, va_list arguments) {
  va_list measured;
  va_copy(measured, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, measured);
  va_end(measured);
  if (length < 0) {
    return format;  // an encoding error: the bare format still says what went wrong
  }
  std::string text(static_cast<size_t>(length), '\0');
  // The terminator goes to data()[size()], which std::string provides.
  std::vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

}  // namespace

Status make_error(StatusCode code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_text(format, arguments);
  va_end(arguments);
  return Status(code, std::move(text));
}

Status locate_error(Status status, const char* format, ...) {
  if (status.ok()) {
    return status;
  }
  va_list arguments;
  va_start(arguments, format);
  const std::string where = format_text(format, arguments);
  va_end(arguments);
  return Status(status.code(), where + ": " + status.message());
}

}  // namespace executorch_ggml
