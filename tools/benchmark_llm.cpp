// benchmark_llm MODEL.pte --gguf FILE --n-decode N --prompt-len P
//
// Measures a language model as llama-bench does: after a warm-up, a prompt of P tokens
// in as few calls as possible (prefill), then N single tokens after it (decode). With a
// depth the cache already holds that many positions, which are filled once and not timed.
// Tokens are made up and nothing is sampled, so only the model's own time counts.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/platform/system_info.h"
#include "runtime/runner_status.h"
#include "tools/args.h"
#include "tools/llm_model.h"
#include "tools/model_args.h"
#include "tools/statistics.h"

namespace executorch_ggml::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kName[] = "benchmark_llm";
constexpr int64_t kMaxTokens = 1 << 24;

struct Options {
  ModelArgs model;
  int64_t prompt_tokens = 5;
  int64_t decode_tokens = 128;
  int64_t depth = 0;  // positions of the cache before the prompt
  int64_t repeat = 3;
  bool no_warmup = false;
  bool json = false;

  int64_t positions() const { return depth + prompt_tokens + decode_tokens; }
};

struct Measurements {
  double load_seconds = 0;
  double first_token_from_start = 0;        // seconds since main, caches cold
  std::vector<double> prefill_seconds;      // of each run
  std::vector<double> decode_seconds;       // of each run
  std::vector<double> step_seconds;         // of each decode call of all runs
  std::vector<double> first_token_seconds;  // of each run
};

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The same tokens in every run and on every machine, spread over the vocabulary.
std::vector<int32_t> make_tokens(int64_t count, int64_t vocab_size) {
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(count));
  uint64_t state = 0;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    tokens.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

class Benchmark {
 public:
  Benchmark(const Options& options, LlmModel& model, Clock::time_point start)
      : options_(options),
        model_(model),
        start_(start),
        tokens_(make_tokens(options.positions(), model.vocab_size())) {}

  RunnerStatus run(Measurements& out) {
    if (RunnerStatus status = fill(); !status.ok()) {
      return status;
    }
    if (!options_.no_warmup) {
      std::fprintf(stderr, "warming up ...\n");
      Measurements discarded;
      if (RunnerStatus status = run_once(discarded, /*max_steps=*/2); !status.ok()) {
        return status;
      }
      out.first_token_from_start = discarded.first_token_from_start;
    }
    for (int64_t i = 0; i < options_.repeat; ++i) {
      std::fprintf(stderr, "run %" PRId64 " of %" PRId64 " ...\n", i + 1, options_.repeat);
      if (RunnerStatus status = run_once(out, options_.decode_tokens); !status.ok()) {
        return status;
      }
    }
    return {};
  }

 private:
  // Puts the first `depth` tokens into the cache, where every run begins.
  RunnerStatus fill() {
    if (options_.depth == 0) {
      return {};
    }
    std::fprintf(stderr, "filling %" PRId64 " positions ...\n", options_.depth);
    std::span<const float> logits;
    return model_.run(std::span<const int32_t>(tokens_).first(static_cast<size_t>(options_.depth)),
                      logits);
  }

  RunnerStatus run_once(Measurements& out, int64_t max_steps) {
    if (RunnerStatus status = model_.rewind(options_.depth); !status.ok()) {
      return status;
    }
    const std::span<const int32_t> tokens =
        std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(options_.depth));
    const auto n_prompt = static_cast<size_t>(options_.prompt_tokens);
    const auto n_steps = static_cast<size_t>(std::min(max_steps, options_.decode_tokens));
    std::span<const float> logits;
    const Clock::time_point begin = Clock::now();
    Clock::time_point last = begin;
    if (n_prompt > 0) {
      if (RunnerStatus status = model_.run(tokens.first(n_prompt), logits); !status.ok()) {
        return status;
      }
      last = Clock::now();
      out.prefill_seconds.push_back(seconds_between(begin, last));
      note_first_token(out, begin, last);
    }
    const Clock::time_point decode_begin = last;
    for (size_t i = 0; i < n_steps; ++i) {
      if (RunnerStatus status = model_.run(tokens.subspan(n_prompt + i, 1), logits); !status.ok()) {
        return status;
      }
      const Clock::time_point now = Clock::now();
      out.step_seconds.push_back(seconds_between(last, now));
      if (n_prompt == 0 && i == 0) {
        note_first_token(out, begin, now);
      }
      last = now;
    }
    if (n_steps > 0) {
      out.decode_seconds.push_back(seconds_between(decode_begin, last));
    }
    return {};
  }

  void note_first_token(Measurements& out, Clock::time_point begin, Clock::time_point now) const {
    out.first_token_seconds.push_back(seconds_between(begin, now));
    if (out.first_token_from_start == 0) {
      out.first_token_from_start = seconds_between(start_, now);
    }
  }

  const Options& options_;
  LlmModel& model_;
  Clock::time_point start_;
  std::vector<int32_t> tokens_;
};

Summary rates(int64_t tokens, const std::vector<double>& seconds) {
  std::vector<double> values;
  for (const double s : seconds) {
    values.push_back(static_cast<double>(tokens) / s);
  }
  return summarize(values);
}

Summary milliseconds(std::vector<double> seconds) {
  for (double& s : seconds) {
    s *= 1e3;
  }
  return summarize(seconds);
}

nlohmann::ordered_json phase_json(int64_t tokens, const std::vector<double>& seconds) {
  const Summary rate = rates(tokens, seconds);
  return {{"tokens", tokens},
          {"seconds", seconds},
          {"tokens_per_second",
           {{"mean", rate.mean}, {"stddev", rate.stddev}, {"min", rate.min}, {"max", rate.max}}}};
}

void print_json(const Options& options, const LlmModel& model, const Measurements& measured) {
  nlohmann::ordered_json json;
  json["program"] = options.model.program;
  json["gguf"] = options.model.gguf ? nlohmann::ordered_json(*options.model.gguf) : nullptr;
  json["threads"] = model.threads();
  json["context"] = model.capacity();
  json["cache_type"] = model.cache_type();
  json["flash_attention"] = model.flash_attention();
  json["mmap"] = model.mmap();
  json["vocab_size"] = model.vocab_size();
  json["tokens_per_call"] = model.tokens_per_call();
  json["depth"] = options.depth;
  json["repeat"] = options.repeat;
  json["warmed_up"] = !options.no_warmup;
  json["load_seconds"] = measured.load_seconds;
  json["prefill"] = phase_json(options.prompt_tokens, measured.prefill_seconds);
  json["decode"] = phase_json(options.decode_tokens, measured.decode_seconds);
  const Summary step = milliseconds(measured.step_seconds);
  json["decode"]["step_ms"] = {{"mean", step.mean},
                               {"median", step.median},
                               {"p95", step.p95},
                               {"min", step.min},
                               {"max", step.max}};
  json["time_to_first_token_seconds"] = summarize(measured.first_token_seconds).mean;
  json["time_to_first_token_from_start_seconds"] = measured.first_token_from_start;
  json["peak_memory_bytes"] = peak_memory_bytes();
  std::printf("%s\n", json.dump(2).c_str());
}

void print_phase(const char* name, int64_t tokens, const std::vector<double>& seconds) {
  if (seconds.empty()) {
    return;
  }
  const Summary rate = rates(tokens, seconds);
  std::printf("%-12s %8.2f tok/s +- %.2f   (%" PRId64 " tokens in %.1f ms)\n", name, rate.mean,
              rate.stddev, tokens, summarize(seconds).mean * 1e3);
}

void print_table(const Options& options, const LlmModel& model, const Measurements& measured) {
  std::printf("model        %s", options.model.program.c_str());
  if (options.model.gguf) {
    std::printf(" + %s", options.model.gguf->c_str());
  }
  std::printf("\nsettings     %" PRId64 " threads, context %" PRId64 ", cache %s%s",
              model.threads(), model.capacity(), model.cache_type().c_str(),
              model.flash_attention() ? ", flash attention" : "");
  if (!model.mmap()) {
    std::printf(", weights in memory");
  }
  if (options.depth > 0) {
    std::printf(", after %" PRId64 " positions", options.depth);
  }
  std::printf("\n");
  std::printf("load         %8.1f ms\n", measured.load_seconds * 1e3);
  print_phase("prefill", options.prompt_tokens, measured.prefill_seconds);
  print_phase("decode", options.decode_tokens, measured.decode_seconds);
  if (!measured.step_seconds.empty()) {
    const Summary step = milliseconds(measured.step_seconds);
    std::printf("decode step  %8.3f ms mean, %.3f median, %.3f p95, %.3f min, %.3f max\n",
                step.mean, step.median, step.p95, step.min, step.max);
  }
  std::printf("first token  %8.1f ms after the prompt, %.1f ms after the program's start (cold)\n",
              summarize(measured.first_token_seconds).mean * 1e3,
              measured.first_token_from_start * 1e3);
  std::printf("peak memory  %8.1f MiB\n", static_cast<double>(peak_memory_bytes()) / (1 << 20));
}

int run(int argc, const char* const* argv) {
  const Clock::time_point start = Clock::now();
  Options options;
  ArgParser parser(kName, "Measures how fast a language model reads a prompt and writes tokens.");
  add_model_options(parser, options.model);
  parser.number("--prompt-len", "N", "tokens of the prompt; 0: none (default: 5)",
                options.prompt_tokens, {0, kMaxTokens});
  parser.number("--n-decode", "N", "tokens after it, one a call; 0: none (default: 128)",
                options.decode_tokens, {0, kMaxTokens});
  parser.number("--depth", "N", "positions that the cache holds before the prompt (default: 0)",
                options.depth, {0, kMaxTokens});
  parser.number("--repeat", "N", "runs that are measured (default: 3)", options.repeat,
                {1, 1000000});
  parser.flag("--no-warmup", "measure the first run too", options.no_warmup);
  parser.flag("--json", "print JSON", options.json);
  if (const std::optional<int> code = parser.parse(argc, argv)) {
    return *code;
  }
  if (options.prompt_tokens + options.decode_tokens == 0) {
    std::fprintf(stderr, "%s: --prompt-len and --n-decode are both 0: nothing to measure\n", kName);
    return kExitUsage;
  }

  std::fprintf(stderr, "loading %s ...\n", options.model.program.c_str());
  std::unique_ptr<LlmModel> model;
  if (const RunnerStatus status = LlmModel::open(options.model.config(), model); !status.ok()) {
    return report_failure(kName, status);
  }
  if (const RunnerStatus status = model->prepare(); !status.ok()) {
    return report_failure(kName, status);
  }
  Measurements measured;
  measured.load_seconds = seconds_between(start, Clock::now());
  const int64_t needed = options.positions();
  if (needed > model->capacity()) {
    return report_failure(
        kName, runner_error(executorch::runtime::Error::InvalidArgument,
                            "--depth %" PRId64 ", --prompt-len %" PRId64 " and --n-decode %" PRId64
                            " need %" PRId64 " positions and the context holds %" PRId64
                            "; set --ctx %" PRId64,
                            options.depth, options.prompt_tokens, options.decode_tokens, needed,
                            model->capacity(), needed));
  }
  if (const RunnerStatus status = Benchmark(options, *model, start).run(measured); !status.ok()) {
    return report_failure(kName, status);
  }
  if (options.json) {
    print_json(options, *model, measured);
  } else {
    print_table(options, *model, measured);
  }
  return kExitOk;
}

}  // namespace
}  // namespace executorch_ggml::tools

int main(int argc, char** argv) {
  try {
    return executorch_ggml::tools::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "benchmark_llm: error: %s\n", error.what());
    return executorch_ggml::tools::kExitFailed;
  }
}
