#include "executorch_ggml/capi.h"

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executorch_ggml/program_runner.h"

#ifndef EXECUTORCH_GGML_VERSION
#define EXECUTORCH_GGML_VERSION "unknown"
#endif

namespace {

using executorch::aten::ScalarType;
using executorch::runtime::Error;
using executorch_ggml::ArgumentInfo;
using executorch_ggml::MethodInfo;
using executorch_ggml::ProgramRunner;
using executorch_ggml::RunnerConfig;
using executorch_ggml::RunnerStatus;
using executorch_ggml::TensorView;

thread_local std::string last_error;

int32_t fail(Error code, std::string message) {
  last_error = std::move(message);
  return static_cast<int32_t>(code);
}

int32_t result_of(const RunnerStatus& status) {
  return status.ok() ? 0 : fail(status.code(), status.message());
}

// Runs `body`, an int32_t(), and turns an exception (out of memory) into an error.
template <typename Body>
int32_t guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    try {
      return fail(Error::Internal, error.what());
    } catch (...) {
      return static_cast<int32_t>(Error::Internal);
    }
  } catch (...) {
    return static_cast<int32_t>(Error::Internal);
  }
}

// What eg_method_describe() hands out pointers into.
struct Description {
  MethodInfo info;
  std::vector<eg_argument> inputs;
  std::vector<eg_argument> outputs;
  std::vector<const char*> backends;
};

std::vector<eg_argument> to_c(const std::vector<ArgumentInfo>& arguments) {
  std::vector<eg_argument> result;
  for (const ArgumentInfo& argument : arguments) {
    result.push_back({argument.sizes.data(), static_cast<int32_t>(argument.sizes.size()),
                      static_cast<int32_t>(argument.dtype), argument.is_tensor ? 1 : 0});
  }
  return result;
}

// The arrays of one method's calls, kept so that a call allocates nothing.
struct CallArrays {
  std::mutex mutex;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  std::vector<eg_tensor> c_outputs;
};

}  // namespace

struct eg_program {
  std::unique_ptr<ProgramRunner> runner;
  std::mutex mutex;  // guards the maps
  std::map<std::string, Description, std::less<>> descriptions;
  std::map<std::string, CallArrays, std::less<>> calls;
};

namespace {

template <typename T>
T& slot(eg_program& program, std::map<std::string, T, std::less<>>& all, const char* method) {
  const std::lock_guard lock(program.mutex);
  const auto found = all.find(method);
  return found == all.end() ? all[method] : found->second;
}

}  // namespace

int32_t eg_api_version(void) { return EG_API_VERSION; }

const char* eg_version(void) { return EXECUTORCH_GGML_VERSION; }

const char* eg_last_error(void) { return last_error.c_str(); }

int32_t eg_load(const char* pte_path, const char* const* data_paths, size_t n_data_paths,
                const eg_option* options, size_t n_options, eg_program** out) {
  return guarded([&] {
    if (pte_path == nullptr || out == nullptr || (data_paths == nullptr && n_data_paths > 0) ||
        (options == nullptr && n_options > 0)) {
      return fail(Error::InvalidArgument, "eg_load: a pointer is null");
    }
    RunnerConfig config;
    config.program = pte_path;
    config.data_files.assign(data_paths, data_paths + n_data_paths);
    for (size_t i = 0; i < n_options; ++i) {
      if (options[i].key == nullptr || options[i].value == nullptr) {
        return fail(Error::InvalidArgument, "eg_load: an option has no key or value");
      }
      config.options.emplace_back(options[i].key, options[i].value);
    }
    auto program = std::make_unique<eg_program>();
    const RunnerStatus status = ProgramRunner::load(config, program->runner);
    if (status.ok()) {
      *out = program.release();
    }
    return result_of(status);
  });
}

void eg_close(eg_program* program) { const std::unique_ptr<eg_program> owned(program); }

size_t eg_method_count(const eg_program* program) {
  return program == nullptr ? 0 : program->runner->method_names().size();
}

const char* eg_method_name(const eg_program* program, size_t index) {
  return index < eg_method_count(program) ? program->runner->method_names()[index].c_str()
                                          : nullptr;
}

int32_t eg_method_describe(eg_program* program, const char* method, eg_method_info* out) {
  return guarded([&] {
    if (program == nullptr || method == nullptr || out == nullptr) {
      return fail(Error::InvalidArgument, "eg_method_describe: a pointer is null");
    }
    MethodInfo info;
    if (const RunnerStatus status = program->runner->method_info(method, info); !status.ok()) {
      return result_of(status);
    }
    Description& kept = slot(*program, program->descriptions, method);
    const std::lock_guard lock(program->mutex);
    if (kept.info.name.empty()) {
      kept.info = std::move(info);
      kept.inputs = to_c(kept.info.inputs);
      kept.outputs = to_c(kept.info.outputs);
      for (const std::string& backend : kept.info.backends) {
        kept.backends.push_back(backend.c_str());
      }
    }
    *out = {kept.inputs.data(),  kept.outputs.data(),  kept.backends.data(),   kept.inputs.size(),
            kept.outputs.size(), kept.backends.size(), kept.info.planned_bytes};
    return 0;
  });
}

int32_t eg_load_method(eg_program* program, const char* method) {
  return guarded([&] {
    if (program == nullptr || method == nullptr) {
      return fail(Error::InvalidArgument, "eg_load_method: a pointer is null");
    }
    return result_of(program->runner->load_method(method));
  });
}

int32_t eg_run(eg_program* program, const char* method, const eg_tensor* inputs, size_t n_inputs,
               const eg_tensor** outputs, size_t* n_outputs) {
  return guarded([&] {
    if (program == nullptr || method == nullptr || (inputs == nullptr && n_inputs > 0) ||
        outputs == nullptr || n_outputs == nullptr) {
      return fail(Error::InvalidArgument, "eg_run: a pointer is null");
    }
    CallArrays& call = slot(*program, program->calls, method);
    const std::lock_guard lock(call.mutex);
    call.inputs.clear();
    for (size_t i = 0; i < n_inputs; ++i) {
      const eg_tensor& input = inputs[i];
      if (input.ndim < 0 || (input.sizes == nullptr && input.ndim > 0)) {
        return fail(Error::InvalidArgument, "eg_run: input " + std::to_string(i) + " has no sizes");
      }
      call.inputs.push_back({input.data,
                             static_cast<ScalarType>(input.dtype),
                             {input.sizes, static_cast<size_t>(input.ndim)}});
    }
    const RunnerStatus status = program->runner->run(method, call.inputs, call.outputs);
    if (!status.ok()) {
      return result_of(status);
    }
    call.c_outputs.clear();
    for (const TensorView& output : call.outputs) {
      call.c_outputs.push_back({output.data, output.sizes.data(),
                                static_cast<int32_t>(output.sizes.size()),
                                static_cast<int32_t>(output.dtype)});
    }
    *outputs = call.c_outputs.data();
    *n_outputs = call.c_outputs.size();
    return 0;
  });
}

const char* eg_session_name(const eg_program* program) {
  return program == nullptr ? "" : program->runner->session_name().c_str();
}

int32_t eg_reset(eg_program* program) {
  return guarded([&] {
    return program == nullptr ? fail(Error::InvalidArgument, "eg_reset: the program is null")
                              : result_of(program->runner->reset());
  });
}

int32_t eg_rewind(eg_program* program, int64_t position) {
  return guarded([&] {
    return program == nullptr ? fail(Error::InvalidArgument, "eg_rewind: the program is null")
                              : result_of(program->runner->rewind(position));
  });
}

int32_t eg_save_session(eg_program* program, const char* path) {
  return guarded([&] {
    return program == nullptr || path == nullptr
               ? fail(Error::InvalidArgument, "eg_save_session: a pointer is null")
               : result_of(program->runner->save_session(path));
  });
}

int32_t eg_restore_session(eg_program* program, const char* path) {
  return guarded([&] {
    return program == nullptr || path == nullptr
               ? fail(Error::InvalidArgument, "eg_restore_session: a pointer is null")
               : result_of(program->runner->restore_session(path));
  });
}

int32_t eg_fork(eg_program* from, eg_program* to) {
  return guarded([&] {
    return from == nullptr || to == nullptr
               ? fail(Error::InvalidArgument, "eg_fork: a program is null")
               : result_of(from->runner->fork_to(*to->runner));
  });
}

int64_t eg_used_positions(const eg_program* program) {
  return program == nullptr ? 0 : program->runner->used_positions();
}

int64_t eg_position_capacity(const eg_program* program) {
  return program == nullptr ? 0 : program->runner->position_capacity();
}
