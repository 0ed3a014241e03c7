// Which token comes next: libllama's samplers on a row of logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "executorch_ggml/program_runner.h"

struct llama_sampler;

namespace executorch_ggml::tools {

struct SamplerConfig {
  double temperature = 0.0;     // 0: always the likeliest token
  int64_t top_k = 40;           // 0: all tokens
  double top_p = 0.95;          // 1: off
  double min_p = 0.05;          // 0: off
  double repeat_penalty = 1.0;  // 1: off
  int64_t repeat_last_n = 64;   // tokens that the penalty looks back on
  uint32_t seed = 0;
};

class Sampler {
 public:
  // `vocab_size` in tokens.
  Sampler(const SamplerConfig& config, int64_t vocab_size);
  ~Sampler();

  // The next token by these logits, one per token of the vocabulary. Fails when they
  // hold NaN, which no sampler can order.
  RunnerStatus sample(std::span<const float> logits, int32_t& token);

  // Counts a token of the prompt for the repetition penalty; sample() counts its own.
  void accept(int32_t token);

 private:
  struct FreeSampler {
    void operator()(llama_sampler* sampler) const;
  };
  struct Candidates;

  std::unique_ptr<llama_sampler, FreeSampler> chain_;
  std::unique_ptr<Candidates> candidates_;  // kept, so that a step allocates nothing
};

}  // namespace executorch_ggml::tools
