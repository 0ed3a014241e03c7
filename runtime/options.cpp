#include "runtime/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "executorch_ggml/options.h"
#include "runtime/platform/cpu_affinity.h"
#include "runtime/platform/system_info.h"

namespace executorch_ggml {
namespace {

constexpr int kMaxCpus = 1024;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::optional<bool> to_bool(const OptionValue& value) {
  if (const bool* b = std::get_if<bool>(&value)) {
    return *b;
  }
  if (const int64_t* i = std::get_if<int64_t>(&value)) {
    return *i == 0 || *i == 1 ? std::optional<bool>(*i == 1) : std::nullopt;
  }
  const std::string text = lower(std::get<std::string>(value));
  for (const char* yes : {"1", "true", "on", "yes"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "false", "off", "no"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

std::optional<int64_t> to_int(const OptionValue& value, int64_t min, int64_t max) {
  int64_t number = 0;
  if (const int64_t* i = std::get_if<int64_t>(&value)) {
    number = *i;
  } else if (const std::string* text = std::get_if<std::string>(&value)) {
    const char* end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, number);
    if (error != std::errc() || stop != end || text->empty()) {
      return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  return number >= min && number <= max ? std::optional<int64_t>(number) : std::nullopt;
}

std::optional<std::string> to_text(const OptionValue& value) {
  const std::string* text = std::get_if<std::string>(&value);
  return text == nullptr ? std::nullopt : std::optional<std::string>(*text);
}

bool set_bool(bool& field, const OptionValue& value) {
  const std::optional<bool> parsed = to_bool(value);
  field = parsed.value_or(field);
  return parsed.has_value();
}

bool set_positions(int64_t& field, const OptionValue& value) {
  const std::optional<int64_t> parsed = to_int(value, 0, std::numeric_limits<int32_t>::max());
  field = parsed.value_or(field);
  return parsed.has_value();
}

// "0-3,8": the numbers in their order.
std::optional<std::vector<int>> to_cpus(std::string_view list) {
  std::vector<int> cpus;
  const auto read = [&list](int& number) {
    const auto [stop, error] = std::from_chars(list.data(), list.data() + list.size(), number);
    list.remove_prefix(static_cast<size_t>(stop - list.data()));
    return error == std::errc() && number >= 0 && number < kMaxCpus;
  };
  const auto skip = [&list](char c) {
    const bool found = list.starts_with(c);
    list.remove_prefix(found ? 1 : 0);
    return found;
  };
  do {
    int first = 0;
    if (!read(first)) {
      return std::nullopt;
    }
    int last = first;
    if (skip('-') && !read(last)) {
      return std::nullopt;
    }
    if (last < first) {
      return std::nullopt;
    }
    for (int cpu = first; cpu <= last; ++cpu) {
      if (std::ranges::find(cpus, cpu) != cpus.end()) {
        return std::nullopt;
      }
      cpus.push_back(cpu);
    }
  } while (skip(','));
  return list.empty() ? std::optional(cpus) : std::nullopt;
}

bool set_affinity(RuntimeOptions& o, const OptionValue& value) {
  const int64_t* const number = std::get_if<int64_t>(&value);  // of one CPU
  const std::string text =
      number == nullptr ? lower(to_text(value).value_or("")) : std::to_string(*number);
  o.placement = {.cpus = {}, .always = text != "auto"};
  if (text == "auto" || text == "none") {
    return true;
  }
  std::optional<std::vector<int>> cpus = to_cpus(text);
  o.placement.cpus = std::move(cpus).value_or(std::vector<int>());
  return !o.placement.cpus.empty();
}

bool set_text(std::string& field, const OptionValue& value, bool may_be_empty) {
  std::optional<std::string> parsed = to_text(value);
  if (!parsed || (parsed->empty() && !may_be_empty)) {
    return false;
  }
  field = *std::move(parsed);
  return true;
}

// Where the options leave threads and CPUs open, they follow from each other and the machine.
Status choose_threads(RuntimeOptions& o) {
  const std::vector<int> allowed = allowed_cpus();
  std::vector<int>& cpus = o.placement.cpus;
  if (o.n_threads == 0) {
    const int n = cpus.empty() ? physical_core_count() : static_cast<int>(cpus.size());
    o.n_threads = std::clamp(n, 1, 1024);
  }
  if (o.threads == ThreadSource::ExecuTorch && !cpus.empty()) {
    return make_error(StatusCode::InvalidArgument,
                      "option '%s' names CPUs, but '%s' is executorch, whose threads stay where "
                      "they are; leave one of them out",
                      option::kAffinity, option::kThreadPool);
  }
  // Each CPU has a thread anyway. One that a busy CPU slows is not in another's way so.
  if (!o.placement.always && o.threads == ThreadSource::Own && o.n_threads > 1 &&
      static_cast<size_t>(o.n_threads) == allowed.size()) {
    cpus = allowed;
  }
  if (!cpus.empty() && allowed.empty()) {
    return make_error(StatusCode::Unsupported,
                      "option '%s': this system does not say on which CPUs threads may run; leave "
                      "it out",
                      option::kAffinity);
  }
  for (const int cpu : cpus) {
    if (std::ranges::find(allowed, cpu) == allowed.end()) {
      return make_error(StatusCode::InvalidArgument,
                        "option '%s' names CPU %d, which this process may not use: it has %zu "
                        "CPUs, from %d to %d",
                        option::kAffinity, cpu, allowed.size(), allowed.front(), allowed.back());
    }
  }
  return {};
}

constexpr char kBoolValues[] = "true or false (also 1/0, on/off)";

struct OptionDef {
  const char* key;
  const char* variable;  // nullptr: none
  const char* accepted;
  bool (*set)(RuntimeOptions&, const OptionValue&);
  bool variable_negates = false;
};

constexpr std::array kOptions = {
    OptionDef{option::kNumThreads, "GGML_N_THREADS",
              "a whole number from 1 to 1024, or 0 for all physical cores",
              [](RuntimeOptions& o, const OptionValue& v) {
                const std::optional<int64_t> n = to_int(v, 0, 1024);
                o.n_threads = static_cast<int>(n.value_or(0));
                return n.has_value();
              }},
    OptionDef{option::kAffinity, "GGML_AFFINITY", "auto, none, or CPUs such as 0-3,8",
              [](RuntimeOptions& o, const OptionValue& v) { return set_affinity(o, v); }},
    OptionDef{option::kThreadPool, "GGML_THREAD_POOL", "own or executorch",
              [](RuntimeOptions& o, const OptionValue& v) {
                const std::string name = lower(to_text(v).value_or(""));
                o.threads = name == "executorch" ? ThreadSource::ExecuTorch : ThreadSource::Own;
                return name == "own" || name == "executorch";
              }},
    OptionDef{option::kDevice, "GGML_BACKEND_DEVICE", "the name of a ggml device, such as cpu",
              [](RuntimeOptions& o, const OptionValue& v) {
                return set_text(o.device, v, /*may_be_empty=*/false);
              }},
    OptionDef{option::kFlashAttention, "GGML_FLASH_ATTENTION", kBoolValues,
              [](RuntimeOptions& o, const OptionValue& v) {
                o.flash_attention = to_bool(v);
                return o.flash_attention.has_value();
              }},
    OptionDef{option::kCacheType, "GGML_CACHE_TYPE", "f32, f16 or q8_0",
              [](RuntimeOptions& o, const OptionValue& v) {
                const std::string name = lower(to_text(v).value_or(""));
                for (CacheType type : {CacheType::F32, CacheType::F16, CacheType::Q8_0}) {
                  if (name == cache_type_name(type)) {
                    o.cache_type = type;
                    return true;
                  }
                }
                return false;
              }},
    OptionDef{option::kContext, "GGML_CONTEXT",
              "a whole number of positions, or 0 for the exported length",
              [](RuntimeOptions& o, const OptionValue& v) { return set_positions(o.context, v); }},
    OptionDef{option::kSession, nullptr, "a name",
              [](RuntimeOptions& o, const OptionValue& v) {
                return set_text(o.session, v, /*may_be_empty=*/false) &&
                       o.session.find(':') == std::string::npos;
              }},
    OptionDef{option::kGraphCache, "GGML_NO_GRAPH_CACHE", kBoolValues,
              [](RuntimeOptions& o, const OptionValue& v) { return set_bool(o.graph_cache, v); },
              /*variable_negates=*/true},
    OptionDef{option::kPackWeights, "GGML_PACK_WEIGHTS", kBoolValues,
              [](RuntimeOptions& o, const OptionValue& v) { return set_bool(o.pack_weights, v); }},
    OptionDef{option::kMmap, "GGML_NO_MMAP", kBoolValues,
              [](RuntimeOptions& o, const OptionValue& v) { return set_bool(o.mmap, v); },
              /*variable_negates=*/true},
    OptionDef{option::kKernels, "GGML_KERNELS", "own or ggml",
              [](RuntimeOptions& o, const OptionValue& v) {
                const std::string name = lower(to_text(v).value_or(""));
                o.kernels = name == "ggml" ? KernelChoice::Ggml : KernelChoice::Own;
                return name == "own" || name == "ggml";
              }},
    OptionDef{option::kProfile, "GGML_PROFILE", kBoolValues,
              [](RuntimeOptions& o, const OptionValue& v) { return set_bool(o.profile, v); }},
    OptionDef{option::kPerfLog, "GGML_PERF_LOG", kBoolValues,
              [](RuntimeOptions& o, const OptionValue& v) { return set_bool(o.perf_log, v); }},
    OptionDef{option::kDebugDump, "GGML_DEBUG_DUMP", "a file path",
              [](RuntimeOptions& o, const OptionValue& v) {
                return set_text(o.debug_dump, v, /*may_be_empty=*/true);
              }},
    OptionDef{option::kMaxTokensPerCall, "GGML_MAX_TOKENS_PER_CALL",
              "a whole number of positions, or 0 for the exported bound",
              [](RuntimeOptions& o, const OptionValue& v) {
                return set_positions(o.max_tokens_per_call, v);
              }},
};

const OptionDef* find_option(std::string_view key) {
  const auto found = std::find_if(kOptions.begin(), kOptions.end(),
                                  [&](const OptionDef& def) { return key == def.key; });
  return found == kOptions.end() ? nullptr : &*found;
}

std::string describe(const OptionValue& value) {
  if (const bool* b = std::get_if<bool>(&value)) {
    return *b ? "true" : "false";
  }
  if (const int64_t* i = std::get_if<int64_t>(&value)) {
    return std::to_string(*i);
  }
  return "'" + std::get<std::string>(value) + "'";
}

Status apply(const OptionDef& def, const OptionValue& value, const std::string& source,
             RuntimeOptions& out) {
  if (!def.set(out, value)) {
    return make_error(StatusCode::InvalidArgument, "%s: option '%s' is %s, expected %s",
                      source.c_str(), def.key, describe(value).c_str(), def.accepted);
  }
  return {};
}

}  // namespace

const char* cache_type_name(CacheType type) {
  switch (type) {
    case CacheType::F32:
      return "f32";
    case CacheType::F16:
      return "f16";
    case CacheType::Q8_0:
      return "q8_0";
  }
  return "?";
}

bool RuntimeOptions::device_is_cpu() const { return lower(device) == "cpu"; }

bool RuntimeOptions::use_flash_attention() const {
  return flash_attention.value_or(cache_type != CacheType::F32 || !device_is_cpu() ||
                                  kernels == KernelChoice::Own);
}

bool RuntimeOptions::use_flash_without_cache(bool has_mask) const {
  return flash_attention.value_or(!device_is_cpu() || (kernels == KernelChoice::Own && !has_mask));
}

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string accepted_option_keys() {
  std::string keys;
  for (const OptionDef& def : kOptions) {
    keys += keys.empty() ? "" : ", ";
    keys += def.key;
  }
  return keys;
}

Status resolve_options(std::span<const OptionSetting> runtime_specs,
                       const EnvironmentLookup& environment,
                       std::span<const OptionSetting> compile_specs, RuntimeOptions& out) {
  out = RuntimeOptions();
  out.n_threads = 0;
  for (const OptionSetting& setting : compile_specs) {
    if (const OptionDef* def = find_option(setting.key)) {
      EG_RETURN_IF_ERROR(apply(*def, setting.value, "compile spec", out));
    }
  }
  for (const OptionDef& def : kOptions) {
    const std::optional<std::string> text =
        def.variable == nullptr ? std::nullopt : environment(def.variable);
    if (!text || text->empty()) {
      continue;  // set but empty means not set, as in a shell's VAR= command
    }
    OptionValue value = *text;
    if (def.variable_negates) {
      if (const std::optional<bool> parsed = to_bool(value)) {
        value = !*parsed;
      }
    }
    EG_RETURN_IF_ERROR(apply(def, value, std::string("variable ") + def.variable, out));
  }
  for (const OptionSetting& setting : runtime_specs) {
    const OptionDef* def = find_option(setting.key);
    if (def == nullptr) {
      return make_error(StatusCode::InvalidArgument,
                        "unknown load option '%s'; accepted options: %s", setting.key.c_str(),
                        accepted_option_keys().c_str());
    }
    EG_RETURN_IF_ERROR(apply(*def, setting.value, "load option", out));
  }
  if (out.cache_type == CacheType::Q8_0 && out.flash_attention == false) {
    return make_error(StatusCode::InvalidArgument,
                      "options '%s' = q8_0 and '%s' = false exclude each other: a quantized cache "
                      "is only read by flash attention; use f16, or leave '%s' out",
                      option::kCacheType, option::kFlashAttention, option::kFlashAttention);
  }
  if (out.threads == ThreadSource::ExecuTorch && out.kernels == KernelChoice::Ggml) {
    return make_error(
        StatusCode::InvalidArgument,
        "options '%s' = executorch and '%s' = ggml exclude each other: ggml's kernels "
        "run on ggml's threads; leave one of them out",
        option::kThreadPool, option::kKernels);
  }
  return choose_threads(out);
}

}  // namespace executorch_ggml
