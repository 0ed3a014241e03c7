// Random values for tests, the same in every run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace executorch_ggml::testing {

// `n` of them, normally distributed about 0.
inline std::vector<float> normal_values(int64_t n, std::mt19937& engine, float deviation = 1.0F) {
  std::normal_distribution<float> values(0.0F, deviation);
  std::vector<float> result(static_cast<size_t>(n));
  std::generate(result.begin(), result.end(), [&] { return values(engine); });
  return result;
}

}  // namespace executorch_ggml::testing
