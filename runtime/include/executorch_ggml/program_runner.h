// Loads a .pte with its weights and runs its methods, without more of ExecuTorch's
// API than the types of tensors.
//
//   executorch_ggml::RunnerConfig config;
//   config.program = "qwen3.pte";
//   config.data_files = {"qwen3-q8_0.gguf"};
//   config.options = {{executorch_ggml::option::kContext, "4096"}};
//   std::unique_ptr<executorch_ggml::ProgramRunner> runner;
//   auto status = executorch_ggml::ProgramRunner::load(config, runner);
//   if (!status.ok()) {
//     std::fprintf(stderr, "%s\n", status.message().c_str());
//   }
//   const executorch_ggml::TensorView inputs[] = {tokens, positions};
//   std::vector<executorch_ggml::TensorView> outputs;
//   status = runner->run("forward", inputs, outputs);
//
// All methods of a runner share one session (caches and buffers).
//
// Programs whose ops are not all delegated need a kernel library in the process,
// such as executorch::kernels_optimized.
#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/named_data_map.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executorch_ggml/export.h"
#include "executorch_ggml/options.h"

namespace executorch_ggml {

// Ok, or an error code and a sentence that says what, where and what to do.
class [[nodiscard]] RunnerStatus {
 public:
  RunnerStatus() = default;
  RunnerStatus(executorch::runtime::Error code, std::string message)
      : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == executorch::runtime::Error::Ok; }
  executorch::runtime::Error code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  executorch::runtime::Error code_ = executorch::runtime::Error::Ok;
  std::string message_;
};

// A contiguous tensor in host memory; nothing is owned. Numbers (int, float, bool
// arguments and results) are tensors without dimensions: Long, Double, Bool.
struct TensorView {
  const void* data = nullptr;
  executorch::aten::ScalarType dtype = executorch::aten::ScalarType::Float;
  std::span<const int32_t> sizes;  // torch order

  EXECUTORCH_GGML_API size_t nbytes() const;
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

struct RunnerConfig {
  std::string program;  // path of the .pte
  // .gguf and .ptd files; a name may be in one of them only.
  std::vector<std::string> data_files;
  // Load options, executorch_ggml/options.h. Without `session` the runner makes a
  // session of its own.
  std::vector<std::pair<std::string, std::string>> options;
  // Receives ExecuTorch's and the delegate's events; must outlive the runner.
  executorch::runtime::EventTracer* event_tracer = nullptr;
};

struct ArgumentInfo {
  bool is_tensor = true;  // else a number
  executorch::aten::ScalarType dtype = executorch::aten::ScalarType::Float;
  std::vector<int32_t> sizes;  // upper bounds, torch order
};

struct MethodInfo {
  std::string name;
  std::vector<ArgumentInfo> inputs;
  std::vector<ArgumentInfo> outputs;
  std::vector<std::string> backends;  // ids of the delegates it uses
  size_t planned_bytes = 0;           // memory that ExecuTorch planned for it
};

// Methods may run on different threads at the same time; calls of one method wait
// for one another.
class EXECUTORCH_GGML_API ProgramRunner {
 public:
  // Opens the files; methods are loaded when first used. `out` is set on success.
  static RunnerStatus load(const RunnerConfig& config, std::unique_ptr<ProgramRunner>& out);

  ~ProgramRunner();
  ProgramRunner(const ProgramRunner&) = delete;
  ProgramRunner& operator=(const ProgramRunner&) = delete;

  const std::vector<std::string>& method_names() const;
  bool has_method(const std::string& name) const;
  // From the file, without loading the method.
  RunnerStatus method_info(const std::string& name, MethodInfo& out) const;

  RunnerStatus load_method(const std::string& name);

  // Outputs are views that hold until the method runs again or the runner ends;
  // inputs are read during the call only. After an error in the arguments the
  // session is as it was.
  RunnerStatus run(const std::string& method, std::span<const TensorView> inputs,
                   std::vector<TensorView>& outputs);

  // The number that a constant method such as get_bos_id gives. NotFound: no such
  // method.
  RunnerStatus constant(const std::string& method, int64_t& out);

  // The weights of all data files; null when there are none.
  const executorch::runtime::NamedDataMap* data_map() const;

  // The session's state; NotFound before a method with state was loaded.
  const std::string& session_name() const;
  RunnerStatus reset();
  RunnerStatus rewind(int64_t position);  // keeps positions 0 .. position-1
  // Copies the state over that of `target`, where the same methods are loaded.
  RunnerStatus fork_to(ProgramRunner& target);
  RunnerStatus save_session(const std::string& path);
  RunnerStatus restore_session(const std::string& path);
  int64_t used_positions() const;     // 0 without a session
  int64_t position_capacity() const;  // 0 without a cache

 private:
  struct Impl;
  explicit ProgramRunner(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace executorch_ggml
