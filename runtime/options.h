// Load options as a struct, resolved from all the places that may set them.
//
// Keys, meaning and precedence: executorch_ggml/options.h. Nothing here knows
// ExecuTorch; backend_options.h adapts its types.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/platform/cpu_affinity.h"
#include "runtime/platform/executorch_threads.h"
#include "runtime/status.h"

namespace executorch_ggml {

enum class CacheType : uint8_t { F32, F16, Q8_0 };

const char* cache_type_name(CacheType type);

// Whose kernels compute on the CPU.
enum class KernelChoice : uint8_t { Own, Ggml };

using OptionValue = std::variant<bool, int64_t, std::string>;

struct OptionSetting {
  std::string key;
  OptionValue value;
};

struct RuntimeOptions {
  int n_threads = 1;       // after resolve_options: >= 1
  CpuPlacement placement;  // `always`: as given, else as resolve_options chose
  ThreadSource threads = ThreadSource::Own;
  std::string device = "cpu";
  std::optional<bool> flash_attention;
  CacheType cache_type = CacheType::F16;
  int64_t context = 0;  // positions; 0: the state's default
  std::string session;  // empty: none given
  bool graph_cache = true;
  bool pack_weights = true;
  bool mmap = true;
  KernelChoice kernels = KernelChoice::Own;
  bool profile = false;
  bool perf_log = false;
  std::string debug_dump;           // path; empty: none
  int64_t max_tokens_per_call = 0;  // 0: the exported bound

  bool device_is_cpu() const;

  // Whether attention over a cache uses ggml's flash form, which also fixes the
  // layout of cached values: asked for, else where our kernel computes it, or where
  // ggml's loses no more than the cache's rounding.
  bool use_flash_attention() const;
  // The same for attention without a cache, which stays exact F32 on the CPU: the
  // flash form rounds a given mask to F16.
  bool use_flash_without_cache(bool has_mask) const;
};

// Returns the variable's text, or nullopt when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

// The process environment.
std::optional<std::string> process_environment(const char* name);

// Resolves `out` from the three sources; see executorch_ggml/options.h. On error
// `out` is unspecified and the message names the key, the source, the value and
// what is accepted.
Status resolve_options(std::span<const OptionSetting> runtime_specs,
                       const EnvironmentLookup& environment,
                       std::span<const OptionSetting> compile_specs, RuntimeOptions& out);

// "a, b, c": the accepted keys, for messages.
std::string accepted_option_keys();

}  // namespace executorch_ggml
