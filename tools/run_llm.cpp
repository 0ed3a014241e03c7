// run_llm MODEL.pte --gguf FILE [--prompt TEXT]
//
// Writes text with a language model: answers a prompt, or holds a conversation when
// there is none. The answer goes to stdout, everything else to stderr.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <future>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/platform/system_info.h"
#include "runtime/runner_status.h"
#include "tools/args.h"
#include "tools/conversation.h"
#include "tools/interrupt.h"
#include "tools/llm_model.h"
#include "tools/model_args.h"
#include "tools/sampler.h"
#include "tools/text_generator.h"
#include "tools/tokenizer.h"

namespace executorch_ggml::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kName[] = "run_llm";
constexpr char kHelp[] =
    "/exit    end the conversation (Ctrl-D too)\n"
    "/reset   forget it and start anew\n"
    "/help    print this\n"
    "Ctrl-C   stop an answer\n";

struct Options {
  ModelArgs model;
  std::optional<std::string> prompt;
  bool interactive = false;
  std::optional<std::string> system;
  std::optional<std::string> chat_template;
  bool no_chat_template = false;
  std::optional<int64_t> max_tokens;
  SamplerConfig sampler;
  std::optional<int64_t> seed;
  bool stats = false;
};

void declare(ArgParser& parser, Options& options) {
  add_model_options(parser, options.model);
  parser.text("-p, --prompt", "TEXT", "the prompt; without one a conversation starts",
              options.prompt);
  parser.flag("-i, --interactive", "hold a conversation that the prompt, if any, begins",
              options.interactive);
  parser.number("-n, --n-predict", "N", "tokens to write at most (default: to the context's end)",
                options.max_tokens, {1, std::numeric_limits<int32_t>::max()});
  parser.text("--system", "TEXT", "what the model is told before the conversation", options.system);
  parser.flag("--no-chat-template", "continue the prompt as it is, instead of answering it",
              options.no_chat_template);
  parser.text("--chat-template", "NAME", "use this template instead of the file's, e.g. chatml",
              options.chat_template);
  SamplerConfig& sampler = options.sampler;
  parser.number("--temp", "X", "randomness; 0: always the likeliest token (default: 0)",
                sampler.temperature, {0.0, 100.0});
  parser.number("--top-k", "N", "choose among the N likeliest tokens; 0: all (default: 40)",
                sampler.top_k, {0, std::numeric_limits<int32_t>::max()});
  parser.number("--top-p", "X", "... that add up to this probability; 1: off (default: 0.95)",
                sampler.top_p, {0.0, 1.0});
  parser.number("--min-p", "X", "... of at least X times the likeliest's; 0: off (default: 0.05)",
                sampler.min_p, {0.0, 1.0});
  parser.number("--repeat-penalty", "X", "make recent tokens less likely; 1: off (default: 1)",
                sampler.repeat_penalty, {0.01, 100.0});
  parser.number("--repeat-last-n", "N", "how many tokens are recent (default: 64)",
                sampler.repeat_last_n, {0, std::numeric_limits<int32_t>::max()});
  parser.number("--seed", "N", "makes random choices repeatable (default: another each time)",
                options.seed, {0, std::numeric_limits<uint32_t>::max() - 1});
  parser.flag("--stats", "print more figures at the end", options.stats);
}

// What is wrong with the combination of options, or nothing.
std::optional<std::string> contradiction(const Options& options) {
  if (!options.model.gguf) {
    return "--gguf is missing: the weights and the tokenizer come from it";
  }
  if (options.no_chat_template && options.chat_template) {
    return "--no-chat-template and --chat-template exclude each other";
  }
  if (options.no_chat_template && options.system) {
    return "--system needs a chat template";
  }
  if (options.prompt && options.prompt->empty()) {
    return "the prompt is empty";
  }
  return std::nullopt;
}

// The template to use, if any. A file without one, or with one that libllama does not
// know, is used as for plain continuation, and stderr says so.
RunnerStatus choose_template(const Options& options, const Tokenizer& tokenizer,
                             std::optional<std::string>& out) {
  const std::vector<ChatMessage> probe = {{"user", "hello"}};
  std::string text;
  out.reset();
  if (options.no_chat_template) {
    return {};
  }
  if (options.chat_template) {
    if (!Tokenizer::apply_chat_template(*options.chat_template, probe, text).ok()) {
      return runner_error(executorch::runtime::Error::InvalidArgument,
                          "--chat-template is '%s', expected one of %s",
                          options.chat_template->c_str(), Tokenizer::chat_template_names().c_str());
    }
    out = options.chat_template;
    return {};
  }
  const char* why = "has no chat template";
  if (tokenizer.chat_template()) {
    if (Tokenizer::apply_chat_template(*tokenizer.chat_template(), probe, text).ok()) {
      out = tokenizer.chat_template();
      return {};
    }
    why = "has a chat template that libllama does not know";
  }
  if (options.system) {
    return runner_error(executorch::runtime::Error::InvalidArgument,
                        "'%s' %s and --system needs one; name one with --chat-template",
                        options.model.gguf->c_str(), why);
  }
  std::fprintf(stderr,
               "note: '%s' %s, so the prompt is continued as it is; --chat-template chatml, or "
               "another, makes a question of it\n",
               options.model.gguf->c_str(), why);
  return {};
}

// Says on stderr how far a long prompt is, from the first second on.
class PromptProgress {
 public:
  bool operator()(size_t done, size_t total) {
    const Clock::time_point now = Clock::now();
    if (done < total && now - last_ > std::chrono::seconds(1)) {
      std::fprintf(stderr, "reading the prompt: %zu of %zu tokens\n", done, total);
      last_ = now;
    }
    return true;
  }

 private:
  Clock::time_point last_ = Clock::now();
};

class Program {
 public:
  Program(const Options& options, LlmModel& model, const Tokenizer& tokenizer,
          Conversation conversation, Sampler& sampler, double load_seconds, uint32_t seed)
      : options_(options),
        model_(model),
        generator_(model, tokenizer, sampler),
        conversation_(std::move(conversation)),
        load_seconds_(load_seconds),
        seed_(seed) {}

  // One prompt, one answer.
  int answer_once() {
    StopReason reason = StopReason::EndOfText;
    if (const RunnerStatus status = answer(*options_.prompt, reason); !status.ok()) {
      return report_failure(kName, status);
    }
    return reason == StopReason::Interrupted ? kExitInterrupted : kExitOk;
  }

  // Lines of stdin, until it ends.
  int converse() {
    std::fprintf(stderr, "/help lists the commands, /exit or Ctrl-D ends\n");
    std::optional<std::string> line = options_.prompt;
    if (line) {
      std::fprintf(stderr, "> %s\n", line->c_str());
    } else {
      line = read_line();
    }
    for (; line && *line != "/exit"; line = read_line()) {
      if (line->empty()) {
        continue;
      }
      if (*line == "/help") {
        std::fputs(kHelp, stderr);
      } else if (*line == "/reset") {
        conversation_.reset();
      } else if (line->starts_with("/")) {
        std::fprintf(stderr, "unknown command '%s'; /help lists them\n", line->c_str());
      } else {
        StopReason reason = StopReason::EndOfText;
        // A prompt that does not fit, say, does not end the conversation.
        if (const RunnerStatus status = answer(*line, reason); !status.ok()) {
          report_failure(kName, status);
        }
      }
    }
    return kExitOk;
  }

 private:
  static std::optional<std::string> read_line() {
    std::fputs("> ", stderr);
    std::string line;
    if (!std::getline(std::cin, line)) {
      std::fputs("\n", stderr);
      return std::nullopt;
    }
    return line;
  }

  RunnerStatus answer(const std::string& question, StopReason& reason) {
    std::string prompt;
    if (RunnerStatus status = conversation_.ask(question, prompt); !status.ok()) {
      return status;
    }
    TextGenerator::Request request;
    request.prompt = prompt;
    request.max_tokens = options_.max_tokens;
    request.write = [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    };
    request.interrupted = InterruptGuard::interrupted;
    request.progress = PromptProgress();
    Generation result;
    RunnerStatus status;
    {
      const InterruptGuard guard;
      status = generator_.generate(request, result);
    }
    if (!result.text.empty() && !result.text.ends_with('\n')) {
      request.write("\n");
    }
    if (!status.ok()) {
      conversation_.withdraw();
      return status;
    }
    conversation_.answered(result.text);
    report(result);
    reason = result.reason;
    return {};
  }

  void report(const Generation& result) const {
    if (result.reason == StopReason::ContextFull) {
      std::fprintf(stderr,
                   "stopped: all %" PRId64
                   " positions of the context are used; --ctx sets a larger "
                   "one%s\n",
                   model_.capacity(), options_.prompt ? "" : ", /reset starts anew");
    }
    std::fprintf(stderr, "[prompt: %zu tokens, %.1f tok/s | answer: %zu tokens, %.1f tok/s | %s]\n",
                 result.prompt_tokens, result.prompt_rate(), result.generated_tokens,
                 result.generate_rate(), stop_reason_name(result.reason));
    if (!options_.stats) {
      return;
    }
    std::fprintf(stderr,
                 "[load: %.1f ms | first token: %.1f ms | reused: %zu tokens | positions: %" PRId64
                 " of %" PRId64 " | threads: %" PRId64 " | cache: %s | seed: %" PRIu32
                 " | peak memory: %.1f MiB]\n",
                 load_seconds_ * 1e3, result.prompt_seconds * 1e3, result.reused_tokens,
                 model_.position(), model_.capacity(), model_.threads(),
                 model_.cache_type().c_str(), seed_,
                 static_cast<double>(peak_memory_bytes()) / (1 << 20));
  }

  const Options& options_;
  LlmModel& model_;
  TextGenerator generator_;
  Conversation conversation_;
  double load_seconds_;
  uint32_t seed_;
};

int run(int argc, const char* const* argv) {
  const Clock::time_point start = Clock::now();
  Options options;
  ArgParser parser(kName, "Answers a prompt with a language model, or holds a conversation.");
  declare(parser, options);
  if (const std::optional<int> code = parser.parse(argc, argv)) {
    return *code;
  }
  if (const std::optional<std::string> wrong = contradiction(options)) {
    std::fprintf(stderr, "%s: %s\ntry: %s --help\n", kName, wrong->c_str(), kName);
    return kExitUsage;
  }

  std::fprintf(stderr, "loading %s ...\n", options.model.program.c_str());
  std::unique_ptr<LlmModel> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<std::string> chat_template;
  // A large vocabulary takes libllama longer than the program takes us: side by side, and the
  // vocabulary on the first thread, whose memory grows at least cost.
  std::future<RunnerStatus> loaded = std::async(std::launch::async, [&] {
    RunnerStatus status = LlmModel::open(options.model.config(), model);
    return status.ok() ? model->prepare() : status;
  });
  const RunnerStatus tokenizer_status = Tokenizer::load(*options.model.gguf, tokenizer);
  for (const RunnerStatus& status : {loaded.get(), tokenizer_status}) {
    if (!status.ok()) {
      return report_failure(kName, status);
    }
  }
  if (tokenizer->vocab_size() > model->vocab_size()) {
    return report_failure(
        kName, runner_error(executorch::runtime::Error::InvalidExternalData,
                            "the tokenizer of '%s' has %" PRId64 " tokens and '%s' knows %" PRId64
                            ": the files are of different models",
                            options.model.gguf->c_str(), tokenizer->vocab_size(),
                            options.model.program.c_str(), model->vocab_size()));
  }
  if (const RunnerStatus status = choose_template(options, *tokenizer, chat_template);
      !status.ok()) {
    return report_failure(kName, status);
  }
  const double load_seconds = std::chrono::duration<double>(Clock::now() - start).count();

  options.sampler.seed =
      options.seed ? static_cast<uint32_t>(*options.seed) : std::random_device()();
  Sampler sampler(options.sampler, tokenizer->vocab_size());
  // Kept until the system takes its memory back, at once: to free a large vocabulary, string by
  // string, takes longer than to compute a token.
  static const Tokenizer& kept = *tokenizer.release();
  Program program(options, *model, kept, Conversation(chat_template, options.system), sampler,
                  load_seconds, options.sampler.seed);
  return options.prompt && !options.interactive ? program.answer_once() : program.converse();
}

}  // namespace
}  // namespace executorch_ggml::tools

int main(int argc, char** argv) {
  try {
    return executorch_ggml::tools::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_llm: error: %s\n", error.what());
    return executorch_ggml::tools::kExitFailed;
  }
}
