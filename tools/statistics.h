// Summaries of repeated measurements.
#pragma once

#include <span>

namespace executorch_ggml::tools {

struct Summary {
  double mean = 0;
  double stddev = 0;  // of the sample; 0 for fewer than two values
  double median = 0;
  double p95 = 0;  // 95 % of the values are no larger
  double min = 0;
  double max = 0;
};

// All zero for no values.
Summary summarize(std::span<const double> values);

}  // namespace executorch_ggml::tools
