// Text in, text out: a prompt is read, then tokens are drawn until something ends them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executorch_ggml/program_runner.h"
#include "tools/llm_model.h"
#include "tools/sampler.h"
#include "tools/tokenizer.h"

namespace executorch_ggml::tools {

enum class StopReason : uint8_t { EndOfText, TokenLimit, ContextFull, Interrupted };

const char* stop_reason_name(StopReason reason);

struct Generation {
  std::string text;  // as it was written, UTF-8
  StopReason reason = StopReason::EndOfText;
  size_t prompt_tokens = 0;
  size_t reused_tokens = 0;     // of the prompt, already in the cache
  size_t generated_tokens = 0;  // the end-of-text token included
  double prompt_seconds = 0;    // until the logits of the prompt's last token
  double generate_seconds = 0;  // from there on

  double prompt_rate() const;    // tokens per second
  double generate_rate() const;  // tokens per second, of those that the model had to run for
};

class TextGenerator {
 public:
  // All must outlive the generator. The tokenizer has no more tokens than the model.
  TextGenerator(LlmModel& model, const Tokenizer& tokenizer, Sampler& sampler)
      : model_(model), tokenizer_(tokenizer), sampler_(sampler) {}

  struct Request {
    std::string_view prompt;
    std::optional<int64_t> max_tokens;
    std::function<void(std::string_view text)> write;
    std::function<bool()> interrupted;
    LlmModel::Progress progress;  // of the prompt
  };

  // Continues the prompt. What the cache holds of it already, from an earlier call, is
  // not run again. After an error or an interruption the next call works as any other.
  RunnerStatus generate(const Request& request, Generation& out);

 private:
  RunnerStatus read_prompt(const Request& request, Generation& out, std::span<const float>& logits);
  RunnerStatus write_answer(const Request& request, std::span<const float> logits, Generation& out);

  LlmModel& model_;
  const Tokenizer& tokenizer_;
  Sampler& sampler_;
  std::vector<int32_t> cached_;  // the tokens at positions 0, 1, …
};

}  // namespace executorch_ggml::tools
