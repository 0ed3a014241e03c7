// A .pte that is a language model with a key/value cache: tokens in, logits out, with
// the position kept.
//
// It has a method `forward(input_ids int64 [1, n], positions int64 [n])` that returns
// the logits, float [1, 1 or n, vocabulary], of which the last row is used.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executorch_ggml/program_runner.h"

namespace executorch_ggml::tools {

// Options that are not given are left to the runtime: its environment variables, then
// its defaults (executorch_ggml/options.h).
struct LlmConfig {
  std::string program;                  // the .pte
  std::vector<std::string> data_files;  // .gguf, .ptd
  std::optional<int64_t> threads;
  std::optional<int64_t> context;         // positions
  std::optional<std::string> cache_type;  // f32, f16, q8_0
  std::optional<std::string> device;
  std::optional<std::string> flash_attention;  // "on" or "off"
  bool mmap = true;                            // use weights where the file is mapped
};

class LlmModel {
 public:
  // Tokens done and tokens in all; false stops.
  using Progress = std::function<bool(size_t done, size_t total)>;

  // Opens the files; the model is loaded by prepare(), so that a caller can check other
  // things about the files in between.
  static RunnerStatus open(const LlmConfig& config, std::unique_ptr<LlmModel>& out);
  // Loads `forward` with its weights and checks that it is what the comment above says.
  RunnerStatus prepare();

  // Runs the tokens at the next positions, in as many calls as the program's bound asks
  // for. `logits` (vocab_size() of them) hold until the next call. Nothing runs when the
  // tokens do not fit; when a call fails or `progress` stops, the calls before it count:
  // position() tells.
  RunnerStatus run(std::span<const int32_t> tokens, std::span<const float>& logits,
                   const Progress& progress = nullptr);

  RunnerStatus rewind(int64_t position);

  int64_t position() const { return position_; }
  int64_t capacity() const { return capacity_; }         // positions
  int64_t vocab_size() const { return vocab_size_; }     // tokens
  int64_t tokens_per_call() const { return per_call_; }  // at most
  int64_t threads() const { return threads_; }           // that were asked for, or the default
  bool ends_generation(int32_t token) const;             // by the program's get_eos_ids
  const std::string& cache_type() const { return cache_type_; }
  bool flash_attention() const { return flash_attention_; }
  bool mmap() const { return mmap_; }
  const std::string& program() const { return program_; }

 private:
  LlmModel() = default;
  RunnerStatus resolve(const LlmConfig& config, RunnerConfig& out);
  RunnerStatus check_signature(const MethodInfo& info);
  RunnerStatus read_eos_ids();

  std::unique_ptr<ProgramRunner> runner_;
  std::string program_;
  std::string cache_type_;
  std::vector<int64_t> eos_ids_;
  std::vector<int64_t> ids_;  // the call's arguments
  std::vector<int64_t> positions_;
  std::vector<TensorView> outputs_;
  int64_t position_ = 0;
  int64_t capacity_ = 0;
  int64_t vocab_size_ = 0;
  int64_t per_call_ = 0;
  int64_t threads_ = 0;
  bool flash_attention_ = false;
  bool mmap_ = true;
};

}  // namespace executorch_ggml::tools
