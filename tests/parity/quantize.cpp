// Rewrites a float GGUF file in another file type, as llama.cpp does.
//
//   quantize IN.gguf OUT.gguf FILE_TYPE      (a number: enum llama_ftype)
#include <cstdio>
#include <cstdlib>

#include "llama.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: quantize IN.gguf OUT.gguf FILE_TYPE\n");
    return 2;
  }
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) {
          std::fputs(text, stderr);
        }
      },
      nullptr);
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.allow_requantize = true;  // to F32: what the weights of a quantized file mean
  params.ftype = static_cast<llama_ftype>(std::atoi(argv[3]));
  params.nthread = 1;
  return llama_model_quantize(argv[1], argv[2], &params) == 0 ? 0 : 1;
}
