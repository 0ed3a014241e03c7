// What llama.cpp computes on a file, for the parity tests.
//
//   llama_reference MODEL.gguf TEXT.txt OUT.bin N_POSITIONS N_GREEDY
//
// Tokenizes TEXT, evaluates its first N_POSITIONS tokens in one call, then, from
// the first 8 of them as a prompt, decodes N_GREEDY tokens greedily. OUT (native
// byte order): int32 n_positions, n_vocab, n_greedy; int32 tokens[n_positions];
// float32 logits[n_positions][n_vocab]; int32 greedy[n_greedy];
// float32 greedy_logits[n_greedy][n_vocab].
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "llama.h"

namespace {

constexpr int kPromptLength = 8;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "llama_reference: %s\n", message.c_str());
  std::exit(1);
}

struct Deleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
  void operator()(llama_context* context) const { llama_free(context); }
};

std::vector<llama_token> tokenize(const llama_vocab* vocab, const std::string& text) {
  std::vector<llama_token> tokens(text.size() + 8);
  const int n = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
                               static_cast<int>(tokens.size()), true, false);
  if (n < 0) {
    fail("the text could not be tokenized");
  }
  tokens.resize(static_cast<size_t>(n));
  return tokens;
}

// Evaluates tokens from `position` on; logits of every one if `all`, else of the last.
void evaluate(llama_context* context, const std::vector<llama_token>& tokens, int position,
              bool all) {
  llama_batch batch = llama_batch_init(static_cast<int>(tokens.size()), 0, 1);
  batch.n_tokens = static_cast<int>(tokens.size());
  for (int i = 0; i < batch.n_tokens; ++i) {
    batch.token[i] = tokens[static_cast<size_t>(i)];
    batch.pos[i] = position + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = all || i + 1 == batch.n_tokens;
  }
  const int result = llama_decode(context, batch);
  llama_batch_free(batch);
  if (result != 0) {
    fail("llama_decode failed");
  }
}

template <typename T>
void write(std::ofstream& out, const T* data, size_t count) {
  out.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(count * sizeof(T)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    fail("usage: MODEL.gguf TEXT.txt OUT.bin N_POSITIONS N_GREEDY");
  }
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) {
          std::fputs(text, stderr);
        }
      },
      nullptr);
  llama_backend_init();
  llama_model_params model_params = llama_model_default_params();
  const std::unique_ptr<llama_model, Deleter> model(
      llama_model_load_from_file(argv[1], model_params));
  if (!model) {
    fail(std::string("cannot load ") + argv[1]);
  }
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  const auto n_vocab = static_cast<size_t>(llama_vocab_n_tokens(vocab));

  std::ifstream text_file(argv[2]);
  const std::string text((std::istreambuf_iterator<char>(text_file)), {});
  std::vector<llama_token> tokens = tokenize(vocab, text);
  const int n_positions = std::atoi(argv[4]);
  const int n_greedy = std::atoi(argv[5]);
  if (n_positions < kPromptLength || tokens.size() < static_cast<size_t>(n_positions)) {
    fail("the text has " + std::to_string(tokens.size()) + " tokens");
  }
  tokens.resize(static_cast<size_t>(n_positions));

  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(std::max(n_positions, kPromptLength + n_greedy));
  params.n_batch = params.n_ctx;
  params.n_ubatch = params.n_ctx;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_AUTO;
  const std::unique_ptr<llama_context, Deleter> context(llama_init_from_model(model.get(), params));
  if (!context) {
    fail("cannot make a context");
  }

  std::ofstream out(argv[3], std::ios::binary);
  const int32_t header[] = {n_positions, static_cast<int32_t>(n_vocab), n_greedy};
  write(out, header, 3);
  write(out, tokens.data(), tokens.size());
  evaluate(context.get(), tokens, 0, true);
  for (int i = 0; i < n_positions; ++i) {
    write(out, llama_get_logits_ith(context.get(), i), n_vocab);
  }

  llama_memory_clear(llama_get_memory(context.get()), true);
  evaluate(context.get(), {tokens.begin(), tokens.begin() + kPromptLength}, 0, false);
  std::vector<llama_token> greedy;
  std::vector<float> greedy_logits;
  for (int i = 0; i < n_greedy; ++i) {
    const float* logits = llama_get_logits_ith(context.get(), -1);
    greedy_logits.insert(greedy_logits.end(), logits, logits + n_vocab);
    greedy.push_back(static_cast<llama_token>(std::max_element(logits, logits + n_vocab) - logits));
    evaluate(context.get(), {greedy.back()}, kPromptLength + i, false);
  }
  write(out, greedy.data(), greedy.size());
  write(out, greedy_logits.data(), greedy_logits.size());
  out.close();
  if (!out) {
    fail(std::string("cannot write ") + argv[3]);
  }
  return 0;
}
