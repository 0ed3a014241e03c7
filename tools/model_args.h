// The options that every program for language models takes.
#pragma once

#include <optional>
#include <string>

#include "tools/args.h"
#include "tools/llm_model.h"

namespace executorch_ggml::tools {

struct ModelArgs {
  std::string program;
  std::optional<std::string> gguf;
  std::optional<int64_t> threads;
  std::optional<int64_t> context;
  std::optional<std::string> device;
  std::string cache_type;       // empty: not given
  std::string flash_attention;  // empty: not given
  bool no_mmap = false;

  LlmConfig config() const;
};

// `args` must outlive the parsing.
void add_model_options(ArgParser& parser, ModelArgs& args);

// "NAME: error: MESSAGE" on stderr; the exit code for it.
int report_failure(const char* name, const RunnerStatus& status);

}  // namespace executorch_ggml::tools
