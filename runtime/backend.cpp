// The ExecuTorch backend: init, execute, destroy, options. Nothing else.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstring>
#include <new>

#include "executorch_ggml/options.h"
#include "ggml.h"
#include "runtime/backend_options.h"
#include "runtime/delegate.h"
#include "runtime/last_error.h"

namespace executorch_ggml {
namespace {

using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendOption;
using executorch::runtime::BackendOptionContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

Error to_error(StatusCode code) {
  switch (code) {
    case StatusCode::Ok:
      return Error::Ok;
    case StatusCode::InvalidProgram:
      return Error::DelegateInvalidCompatibility;
    case StatusCode::InvalidArgument:
      return Error::InvalidArgument;
    case StatusCode::InvalidExternalData:
      return Error::InvalidExternalData;
    case StatusCode::NotFound:
      return Error::NotFound;
    case StatusCode::OutOfMemory:
      return Error::MemoryAllocationFailed;
    case StatusCode::Unsupported:
      return Error::NotSupported;
    case StatusCode::InvalidState:
      return Error::InvalidState;
    case StatusCode::Internal:
      return Error::Internal;
  }
  return Error::Internal;
}

// A program that loaded may still be one that its inputs do not fit together with.
Error to_execute_error(StatusCode code) {
  return code == StatusCode::InvalidProgram ? Error::InvalidProgram : to_error(code);
}

// Logs an error and keeps its text; nothing happens for Ok.
Error report(const Status& status, const char* what, const char* method) {
  if (status.ok()) {
    return Error::Ok;
  }
  ET_LOG(Error, "%s: %s%s%s: %s", kBackendName, what, method != nullptr ? " " : "",
         method != nullptr ? method : "", status.message().c_str());
  set_last_error(status);
  return to_error(status.code());
}

// Runs `body` so that no exception crosses into ExecuTorch.
template <typename Body>
Status guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::OutOfMemory, "out of memory");
  } catch (const std::exception& error) {
    return Status(StatusCode::Internal, error.what());
  }
}

}  // namespace

class GgmlBackendInterface final : public executorch::runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }

  Result<DelegateHandle*> init(
      BackendInitContext& context, FreeableBuffer* processed,
      executorch::runtime::ArrayRef<CompileSpec> compile_specs) const override {
    std::unique_ptr<Delegate> delegate;
    const Status status = guarded([&]() -> Status {
      LoadRequest request;
      EG_RETURN_IF_ERROR(options_of_load(context, compile_specs, request.options));
      request.blob = {static_cast<const uint8_t*>(processed->data()), processed->size()};
      request.data = context.get_named_data_map();
      if (context.get_method_name() != nullptr) {
        request.method = context.get_method_name();
      }
      return Delegate::load(request, delegate);
    });
    processed->Free();
    if (!status.ok()) {
      return report(status, "cannot load", context.get_method_name());
    }
    return delegate.release();
  }

  Error execute(BackendExecutionContext& context, DelegateHandle* handle,
                Span<EValue*> args) const override {
    if (handle == nullptr) {
      return Error::DelegateInvalidHandle;
    }
    const Status status = guarded(
        [&] { return static_cast<Delegate*>(handle)->execute(args, context.event_tracer()); });
    const Error logged = report(status, "cannot run", context.get_method_name());
    return logged == Error::Ok ? logged : to_execute_error(status.code());
  }

  void destroy(DelegateHandle* handle) const override {
    const std::unique_ptr<Delegate> owned(static_cast<Delegate*>(handle));
  }

  Error set_option(BackendOptionContext&, const Span<BackendOption>& options) override {
    return report(guarded([&] { return set_options(options); }), "set_option", nullptr);
  }

  Error get_option(BackendOptionContext&, Span<BackendOption>& options) override {
    return report(guarded([&] { return get_options(options); }), "get_option", nullptr);
  }
};

namespace {

// ggml's warnings and errors go where ExecuTorch's go; its chatter goes nowhere.
void log_from_ggml(ggml_log_level level, const char* text, void*) {
  if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) {
    const size_t length = std::strcspn(text, "\n");
    ET_LOG(Error, "ggml: %.*s", static_cast<int>(length), text);
  }
}

// A second copy of this library in a process finds the name taken: one message, and
// the first copy stays in charge.
[[maybe_unused]] const Error registered = [] {
  static GgmlBackendInterface backend;
  executorch::runtime::runtime_init();
  ggml_log_set(log_from_ggml, nullptr);
  if (executorch::runtime::get_backend_class(kBackendName) != nullptr) {
    ET_LOG(Error,
           "%s is registered already: the library is linked or loaded twice; this copy is not used",
           kBackendName);
    return Error::RegistrationAlreadyRegistered;
  }
  return executorch::runtime::register_backend({kBackendName, &backend});
}();

}  // namespace
}  // namespace executorch_ggml
