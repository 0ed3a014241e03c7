#include "tools/sampler.h"

#include <llama.h>

#include <cmath>
#include <vector>

#include "runtime/runner_status.h"

namespace executorch_ggml::tools {

namespace et = executorch::runtime;

struct Sampler::Candidates {
  std::vector<llama_token_data> data;
};

void Sampler::FreeSampler::operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }

Sampler::Sampler(const SamplerConfig& config, int64_t vocab_size)
    : chain_(llama_sampler_chain_init({.no_perf = true})),
      candidates_(std::make_unique<Candidates>()) {
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(chain_.get(), sampler); };
  if (config.repeat_penalty != 1.0 && config.repeat_last_n > 0) {
    add(llama_sampler_init_penalties(static_cast<int32_t>(vocab_size),
                                     static_cast<int32_t>(config.repeat_last_n),
                                     static_cast<float>(config.repeat_penalty),
                                     /*penalty_freq=*/0.0F, /*penalty_present=*/0.0F));
  }
  if (config.temperature <= 0.0) {
    add(llama_sampler_init_greedy());
    return;
  }
  // Narrowing before the temperature, so that it changes the odds of what is left only.
  add(llama_sampler_init_top_k(static_cast<int32_t>(config.top_k)));
  add(llama_sampler_init_top_p(static_cast<float>(config.top_p), /*min_keep=*/1));
  add(llama_sampler_init_min_p(static_cast<float>(config.min_p), /*min_keep=*/1));
  add(llama_sampler_init_temp(static_cast<float>(config.temperature)));
  // This value asks libllama for a random seed, which would not be the one reported.
  add(llama_sampler_init_dist(config.seed == LLAMA_DEFAULT_SEED ? 0 : config.seed));
}

Sampler::~Sampler() = default;

RunnerStatus Sampler::sample(std::span<const float> logits, int32_t& token) {
  std::vector<llama_token_data>& data = candidates_->data;
  data.resize(logits.size());
  bool nan = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    data[i] = {.id = static_cast<llama_token>(i), .logit = logits[i], .p = 0.0F};
    nan |= std::isnan(logits[i]);
  }
  if (nan) {
    return runner_error(et::Error::Internal,
                        "the model gave logits that are no numbers; its weights may be damaged, or "
                        "a value left the range of its type");
  }
  llama_token_data_array array = {
      .data = data.data(), .size = data.size(), .selected = -1, .sorted = false};
  llama_sampler_apply(chain_.get(), &array);
  if (array.selected < 0 || static_cast<size_t>(array.selected) >= array.size) {
    return runner_error(et::Error::Internal, "the samplers chose no token");
  }
  token = array.data[array.selected].id;
  accept(token);
  return {};
}

void Sampler::accept(int32_t token) { llama_sampler_accept(chain_.get(), token); }

}  // namespace executorch_ggml::tools
