#include "tools/model_args.h"

#include <cstdio>
#include <limits>

namespace executorch_ggml::tools {

LlmConfig ModelArgs::config() const {
  LlmConfig config;
  config.program = program;
  if (gguf) {
    config.data_files.push_back(*gguf);
  }
  config.threads = threads;
  config.context = context;
  config.device = device;
  if (!cache_type.empty()) {
    config.cache_type = cache_type;
  }
  if (!flash_attention.empty()) {
    config.flash_attention = flash_attention;
  }
  config.mmap = !no_mmap;
  return config;
}

void add_model_options(ArgParser& parser, ModelArgs& args) {
  parser.positional("MODEL.pte", "the model's program, as executorch-ggml export writes it",
                    args.program);
  parser.text("--gguf", "FILE", "the model's weights", args.gguf);
  parser.number("--threads", "N", "threads to compute with (default: the physical cores)",
                args.threads, {1, 1024});
  parser.number("--ctx", "N", "positions that the context holds (default: as exported)",
                args.context, {1, std::numeric_limits<int32_t>::max()});
  parser.choice("--cache-type", "type of cached keys and values (default: f16)",
                {"f32", "f16", "q8_0"}, args.cache_type);
  parser.choice("--flash-attention", "attention in one pass over keys and values (default: on)",
                {"on", "off"}, args.flash_attention);
  parser.flag("--no-mmap",
              "copy weights into memory, in large pages: a longer start, faster tokens",
              args.no_mmap);
  parser.text("--device", "NAME", "ggml device to compute on (default: cpu)", args.device);
}

int report_failure(const char* name, const RunnerStatus& status) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: error: %s\n", name, status.message().c_str());
  return kExitFailed;
}

}  // namespace executorch_ggml::tools
