#include "tools/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace executorch_ggml::tools {

Summary summarize(std::span<const double> values) {
  if (values.empty()) {
    return {};
  }
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  Summary summary;
  summary.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(n);
  if (n > 1) {
    double squares = 0;
    for (const double value : sorted) {
      squares += (value - summary.mean) * (value - summary.mean);
    }
    summary.stddev = std::sqrt(squares / static_cast<double>(n - 1));
  }
  summary.median = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  // Nearest rank: the smallest value that 95 % do not exceed; ceil(0.95 n) in integers.
  summary.p95 = sorted[(95 * n + 99) / 100 - 1];
  summary.min = sorted.front();
  summary.max = sorted.back();
  return summary;
}

}  // namespace executorch_ggml::tools
