#include "tools/text_generator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <utility>

#include "runtime/runner_status.h"
#include "tools/utf8_stream.h"

namespace executorch_ggml::tools {
namespace {

namespace et = executorch::runtime;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double rate(size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

}  // namespace

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::EndOfText:
      return "end of text";
    case StopReason::TokenLimit:
      return "token limit";
    case StopReason::ContextFull:
      return "context full";
    case StopReason::Interrupted:
      return "interrupted";
  }
  return "?";
}

double Generation::prompt_rate() const {
  return rate(prompt_tokens - reused_tokens, prompt_seconds);
}

// The first token comes from the prompt's logits.
double Generation::generate_rate() const {
  return rate(generated_tokens > 0 ? generated_tokens - 1 : 0, generate_seconds);
}

RunnerStatus TextGenerator::generate(const Request& request, Generation& out) {
  out = Generation();
  std::span<const float> logits;
  const Clock::time_point start = Clock::now();
  if (RunnerStatus status = read_prompt(request, out, logits); !status.ok()) {
    return status;
  }
  out.prompt_seconds = seconds_since(start);
  if (request.interrupted()) {
    out.reason = StopReason::Interrupted;
    return {};
  }
  const Clock::time_point answer_start = Clock::now();
  RunnerStatus status = write_answer(request, logits, out);
  out.generate_seconds = seconds_since(answer_start);
  return status;
}

RunnerStatus TextGenerator::read_prompt(const Request& request, Generation& out,
                                        std::span<const float>& logits) {
  std::vector<int32_t> tokens;
  if (RunnerStatus status = tokenizer_.encode(request.prompt, tokens); !status.ok()) {
    return status;
  }
  if (tokens.empty()) {
    return runner_error(et::Error::InvalidArgument,
                        "the prompt is empty and this model's texts have no start token");
  }
  if (static_cast<int64_t>(tokens.size()) > model_.capacity()) {
    return runner_error(et::Error::InvalidArgument,
                        "the prompt has %zu tokens and the context holds %" PRId64
                        "; use a shorter prompt or a larger context (--ctx)",
                        tokens.size(), model_.capacity());
  }
  // The last token is run in any case: its logits are wanted.
  const size_t limit = std::min(cached_.size(), tokens.size() - 1);
  const auto differs = std::mismatch(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(limit),
                                     cached_.begin());
  const auto reused = static_cast<size_t>(differs.first - tokens.begin());
  if (RunnerStatus status = model_.rewind(static_cast<int64_t>(reused)); !status.ok()) {
    return status;
  }
  out.prompt_tokens = tokens.size();
  out.reused_tokens = reused;
  const auto progress = [&](size_t done, size_t total) {
    return (!request.progress || request.progress(done, total)) && !request.interrupted();
  };
  RunnerStatus status =
      model_.run(std::span<const int32_t>(tokens).subspan(reused), logits, progress);
  for (const int32_t token : std::span<const int32_t>(tokens).subspan(reused)) {
    sampler_.accept(token);
  }
  tokens.resize(static_cast<size_t>(model_.position()));
  cached_ = std::move(tokens);
  return status;
}

RunnerStatus TextGenerator::write_answer(const Request& request, std::span<const float> logits,
                                         Generation& out) {
  Utf8Stream stream;
  const auto write = [&](const std::string& text) {
    out.text.append(text);
    if (!text.empty()) {
      request.write(text);
    }
  };
  const auto vocab = static_cast<size_t>(tokenizer_.vocab_size());
  RunnerStatus status;
  for (;;) {
    int32_t token = 0;
    // The model may have rows for more tokens than there are.
    if (status = sampler_.sample(logits.first(vocab), token); !status.ok()) {
      break;
    }
    ++out.generated_tokens;
    if (tokenizer_.ends_generation(token) || model_.ends_generation(token)) {
      out.reason = StopReason::EndOfText;
      break;
    }
    write(stream.add(tokenizer_.bytes_of(token)));
    if (request.max_tokens && static_cast<int64_t>(out.generated_tokens) >= *request.max_tokens) {
      out.reason = StopReason::TokenLimit;
      break;
    }
    if (request.interrupted()) {
      out.reason = StopReason::Interrupted;
      break;
    }
    if (model_.position() == model_.capacity()) {
      out.reason = StopReason::ContextFull;
      break;
    }
    const std::array<int32_t, 1> next = {token};
    if (status = model_.run(next, logits); !status.ok()) {
      break;
    }
    cached_.push_back(token);
  }
  write(stream.finish());
  return status;
}

}  // namespace executorch_ggml::tools
