#include "tools/llm_model.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <numeric>
#include <utility>

#include "runtime/options.h"
#include "runtime/runner_status.h"

namespace executorch_ggml::tools {
namespace {

namespace et = executorch::runtime;
using executorch::aten::ScalarType;

constexpr char kForward[] = "forward";

std::string describe(const std::vector<ArgumentInfo>& arguments) {
  std::string text;
  for (const ArgumentInfo& argument : arguments) {
    text.append(text.empty() ? "" : ", ").append(et::toString(argument.dtype)).append(" [");
    for (size_t i = 0; i < argument.sizes.size(); ++i) {
      text.append(i == 0 ? "" : ", ").append(std::to_string(argument.sizes[i]));
    }
    text.append("]");
  }
  return text.empty() ? "nothing" : text;
}

bool is_tensor(const ArgumentInfo& argument, ScalarType dtype, size_t rank) {
  return argument.is_tensor && argument.dtype == dtype && argument.sizes.size() == rank;
}

}  // namespace

RunnerStatus LlmModel::resolve(const LlmConfig& config, RunnerConfig& out) {
  out.program = config.program;
  out.data_files = config.data_files;
  const auto set = [&](const char* key, const std::optional<std::string>& value) {
    if (value) {
      out.options.emplace_back(key, *value);
    }
  };
  const auto set_number = [&](const char* key, const std::optional<int64_t>& value) {
    set(key, value ? std::optional(std::to_string(*value)) : std::nullopt);
  };
  set_number(option::kNumThreads, config.threads);
  set_number(option::kContext, config.context);
  set(option::kCacheType, config.cache_type);
  set(option::kDevice, config.device);
  set(option::kFlashAttention, config.flash_attention);
  set(option::kMmap, config.mmap ? std::nullopt : std::optional<std::string>("false"));
  // As the backend will resolve them, variables included: what is reported is what is used.
  std::vector<OptionSetting> settings;
  for (const auto& [key, value] : out.options) {
    settings.push_back({key, value});
  }
  RuntimeOptions resolved;
  if (const Status status = resolve_options(settings, process_environment, {}, resolved);
      !status.ok()) {
    return from_status(status);
  }
  threads_ = resolved.n_threads;
  cache_type_ = cache_type_name(resolved.cache_type);
  flash_attention_ = resolved.use_flash_attention();
  mmap_ = resolved.mmap;
  per_call_ = resolved.max_tokens_per_call;
  return {};
}

RunnerStatus LlmModel::open(const LlmConfig& config, std::unique_ptr<LlmModel>& out) {
  std::unique_ptr<LlmModel> model(new LlmModel());
  model->program_ = config.program;
  RunnerConfig runner;
  if (RunnerStatus status = model->resolve(config, runner); !status.ok()) {
    return status;
  }
  if (RunnerStatus status = ProgramRunner::load(runner, model->runner_); !status.ok()) {
    return status;
  }
  MethodInfo info;
  if (RunnerStatus status = model->runner_->method_info(kForward, info); !status.ok()) {
    return status;
  }
  if (RunnerStatus status = model->check_signature(info); !status.ok()) {
    return status;
  }
  out = std::move(model);
  return {};
}

RunnerStatus LlmModel::check_signature(const MethodInfo& info) {
  const bool fits =
      info.inputs.size() == 2 && is_tensor(info.inputs[0], ScalarType::Long, 2) &&
      is_tensor(info.inputs[1], ScalarType::Long, 1) && info.inputs[0].sizes[0] == 1 &&
      info.inputs[0].sizes[1] == info.inputs[1].sizes[0] && info.inputs[1].sizes[0] >= 1 &&
      info.outputs.size() == 1 && is_tensor(info.outputs[0], ScalarType::Float, 3) &&
      info.outputs[0].sizes[2] >= 1;
  if (!fits) {
    return runner_error(et::Error::InvalidProgram,
                        "'%s' is no language model that this program can run: forward takes %s "
                        "and gives %s, expected Long [1, n], Long [n] and Float [1, rows, "
                        "vocabulary]",
                        program_.c_str(), describe(info.inputs).c_str(),
                        describe(info.outputs).c_str());
  }
  const int64_t bound = info.inputs[1].sizes[0];
  per_call_ = per_call_ > 0 ? std::min(per_call_, bound) : bound;
  vocab_size_ = info.outputs[0].sizes[2];
  return {};
}

RunnerStatus LlmModel::prepare() {
  if (RunnerStatus status = runner_->load_method(kForward); !status.ok()) {
    return status;
  }
  capacity_ = runner_->position_capacity();
  if (capacity_ <= 0) {
    return runner_error(et::Error::InvalidProgram,
                        "'%s' has no key/value cache, so it cannot continue a text; export it with "
                        "one",
                        program_.c_str());
  }
  return read_eos_ids();
}

RunnerStatus LlmModel::read_eos_ids() {
  constexpr char kEosIds[] = "get_eos_ids";
  if (!runner_->has_method(kEosIds)) {
    return {};
  }
  std::vector<TensorView> ids;
  if (RunnerStatus status = runner_->run(kEosIds, {}, ids); !status.ok()) {
    return status;
  }
  for (const TensorView& id : ids) {
    if (id.dtype == ScalarType::Long && id.data != nullptr) {
      const size_t count = id.nbytes() / sizeof(int64_t);
      eos_ids_.insert(eos_ids_.end(), id.as<int64_t>(), id.as<int64_t>() + count);
    }
  }
  return {};
}

bool LlmModel::ends_generation(int32_t token) const {
  return std::find(eos_ids_.begin(), eos_ids_.end(), token) != eos_ids_.end();
}

RunnerStatus LlmModel::run(std::span<const int32_t> tokens, std::span<const float>& logits,
                           const Progress& progress) {
  if (tokens.empty()) {
    return runner_error(et::Error::InvalidArgument, "no tokens to run");
  }
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > capacity_ - position_) {
    return runner_error(et::Error::InvalidArgument,
                        "%" PRId64 " tokens at position %" PRId64
                        " do not fit the context of %" PRId64 " positions",
                        count, position_, capacity_);
  }
  for (size_t done = 0; done < tokens.size();) {
    const size_t n = std::min(tokens.size() - done, static_cast<size_t>(per_call_));
    ids_.assign(tokens.begin() + static_cast<ptrdiff_t>(done),
                tokens.begin() + static_cast<ptrdiff_t>(done + n));
    positions_.resize(n);
    std::iota(positions_.begin(), positions_.end(), position_);
    const std::array ids_sizes = {1, static_cast<int32_t>(n)};
    const std::array positions_sizes = {static_cast<int32_t>(n)};
    const std::array inputs = {TensorView{ids_.data(), ScalarType::Long, ids_sizes},
                               TensorView{positions_.data(), ScalarType::Long, positions_sizes}};
    if (RunnerStatus status = runner_->run(kForward, inputs, outputs_); !status.ok()) {
      return status;
    }
    position_ += static_cast<int64_t>(n);
    done += n;
    if (progress && !progress(done, tokens.size())) {
      break;
    }
  }
  const TensorView& result = outputs_.front();
  const auto vocab = static_cast<size_t>(vocab_size_);
  const size_t total = result.nbytes() / sizeof(float);
  if (result.data == nullptr || total < vocab) {
    return runner_error(et::Error::InvalidProgram, "'%s': forward gave %zu logits, expected %zu",
                        program_.c_str(), total, vocab);
  }
  logits = {result.as<float>() + (total - vocab), vocab};
  return {};
}

RunnerStatus LlmModel::rewind(int64_t position) {
  if (position == position_) {
    return {};
  }
  if (RunnerStatus status = runner_->rewind(position); !status.ok()) {
    return status;
  }
  position_ = position;
  return {};
}

}  // namespace executorch_ggml::tools
