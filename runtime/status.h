// An error as a sentence: what is wrong, where, what was expected, what to do.
//
// Used below the ExecuTorch boundary, so that the layers can be tested without
// ExecuTorch and every failure keeps its text. backend.cpp logs the text and
// returns the code.
#pragma once

#include <string>
#include <utility>

namespace executorch_ggml {

enum class StatusCode {
  Ok,
  InvalidProgram,       // the blob or the .pte is malformed or too new
  InvalidArgument,      // an input does not fit
  InvalidExternalData,  // a data file is malformed or does not fit the program
  NotFound,             // named data that no map holds
  OutOfMemory,
  Unsupported,   // valid, but not on this device or build
  InvalidState,  // a cache is full, a position leaves a gap
  Internal,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::Ok; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::Ok;
  std::string message_;
};

// printf-style construction.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
Status make_error(StatusCode code, const char* format, ...);

// Puts "<where>: " before an error's text, where `format` gives the place; Ok
// stays Ok and formats nothing.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
Status locate_error(Status status, const char* format, ...);

}  // namespace executorch_ggml

// Returns from the enclosing function when the expression is an error.
#define EG_RETURN_IF_ERROR(expression)                      \
  do {                                                      \
    if (auto eg_status_ = (expression); !eg_status_.ok()) { \
      return eg_status_;                                    \
    }                                                       \
  } while (0)
