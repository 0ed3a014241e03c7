// Host-side kernels along rows: reductions, running functions, order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "runtime/host_kernel.h"

namespace executorch_ggml {
namespace {

template <typename T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(x);
  } else {
    return false;
  }
}

// Sums and products of floats in double, of integers in 64 bits: as torch does.
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

template <typename T>
T narrow(Wide<T> value, IntType type, HostCall& call) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    return wrap(value, type, call);
  }
}

// Whether a beats b; the first NaN beats all.
template <typename T>
bool beats(T a, T b, bool largest) {
  if (is_nan(b)) {
    return false;
  }
  return is_nan(a) || (largest ? a > b : a < b);
}

template <typename T>
int64_t best_index(const Row<T>& x, int64_t n, bool largest) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (beats(x[i], x[best], largest)) {
      best = i;
    }
  }
  return best;
}

// Products of integers wrap in 64 bits, as torch's do; one that leaves them cannot be
// held as I64.
template <typename T>
T product(const Row<T>& x, int64_t n, IntType type, HostCall& call) {
  if constexpr (std::is_floating_point_v<T>) {
    double result = 1;
    for (int64_t i = 0; i < n; ++i) {
      result *= static_cast<double>(x[i]);
    }
    return static_cast<T>(result);
  } else {
    int64_t result = 1;
    for (int64_t i = 0; i < n; ++i) {
      if (__builtin_mul_overflow(result, int64_t{x[i]}, &result) && type == IntType::I64) {
        call.report(ComputedCheck::Failure::Overflow, std::numeric_limits<int64_t>::max());
      }
    }
    return wrap(result, type, call);
  }
}

float variance(const Row<float>& x, int64_t n, double correction) {
  double mean = 0;
  for (int64_t i = 0; i < n; ++i) {
    mean += static_cast<double>(x[i]);
  }
  mean /= static_cast<double>(n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    sum += d * d;
  }
  return static_cast<float>(sum / std::max(static_cast<double>(n) - correction, 0.0));
}

float log_sum_exp(const Row<float>& x, int64_t n) {
  const float largest = x[best_index(x, n, /*largest=*/true)];
  const float shift = std::isinf(largest) ? 0.0F : largest;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(std::exp(x[i] - shift));
  }
  return static_cast<float>(std::log(sum)) + shift;
}

float norm(const Row<float>& x, int64_t n, float order) {
  if (std::isinf(order)) {
    float best = std::fabs(x[0]);
    for (int64_t i = 1; i < n; ++i) {
      const float value = std::fabs(x[i]);
      best = beats(value, best, order > 0) ? value : best;
    }
    return best;
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double value = std::fabs(static_cast<double>(x[i]));
    if (order == 0) {
      sum += value != 0 ? 1 : 0;
    } else if (order == 1) {
      sum += value;
    } else if (order == 2) {
      sum += value * value;
    } else {
      sum += std::pow(value, static_cast<double>(order));
    }
  }
  if (order == 0 || order == 1) {
    return static_cast<float>(sum);
  }
  return static_cast<float>(order == 2 ? std::sqrt(sum)
                                       : std::pow(sum, 1.0 / static_cast<double>(order)));
}

// Of floats only; the builder refuses them for integers.
float reduce_floats(const Row<float>& x, int64_t n, HostReduce kind, float correction) {
  switch (kind) {
    case HostReduce::Var:
      return variance(x, n, static_cast<double>(correction));
    case HostReduce::Logsumexp:
      return log_sum_exp(x, n);
    case HostReduce::Norm:
      return norm(x, n, correction);
    default:
      return 0;
  }
}

template <typename T>
void reduce(const HostTask& task) {
  using namespace params::host_reduce;
  HostCall& call = task.call;
  const auto kind = static_cast<HostReduce>(call.ints[kKind]);
  const auto type = static_cast<IntType>(call.ints[kType]);
  const int64_t n = task.operand(0).ne[0];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const Row<T> x = task.row<T>(0, task.position(r));
    T* out = task.out<T>(r);
    int32_t* index = task.out<int32_t>(r);
    switch (kind) {
      case HostReduce::Sum: {
        Wide<T> sum = 0;
        for (int64_t i = 0; i < n; ++i) {
          sum += static_cast<Wide<T>>(x[i]);
        }
        *out = narrow<T>(sum, type, call);
        break;
      }
      case HostReduce::Prod:
        *out = product(x, n, type, call);
        break;
      case HostReduce::Max:
      case HostReduce::Min:
        *out = x[best_index(x, n, kind == HostReduce::Max)];
        break;
      case HostReduce::Argmax:
      case HostReduce::Argmin:
        *index = static_cast<int32_t>(best_index(x, n, kind == HostReduce::Argmax));
        break;
      case HostReduce::Any:
      case HostReduce::All: {
        int64_t i = 0;
        while (i < n && (x[i] != 0) == (kind == HostReduce::All)) {
          ++i;
        }
        *index = (i < n) == (kind == HostReduce::Any);
        break;
      }
      case HostReduce::Var:
      case HostReduce::Logsumexp:
      case HostReduce::Norm:
        if constexpr (std::is_floating_point_v<T>) {
          *out = reduce_floats(x, n, kind, call.floats[kCorrection]);
        }
        break;
    }
  }
}

double log_add_exp(double a, double b) {
  if (std::isinf(a) && a == b) {
    return a;
  }
  const double high = std::max(a, b);
  return std::isnan(a) || std::isnan(b) ? a + b
                                        : high + std::log1p(std::exp(std::min(a, b) - high));
}

// Of equal values the later one stands, as in torch.
template <typename T>
bool takes_over(T value, T best, bool largest) {
  return is_nan(value) || (!is_nan(best) && (largest ? value >= best : value <= best));
}

template <typename T>
void scan(const HostTask& task) {
  using namespace params::host_scan;
  HostCall& call = task.call;
  const auto kind = static_cast<HostScan>(call.ints[kKind]);
  const auto type = static_cast<IntType>(call.ints[kType]);
  const int64_t n = task.result->ne[0];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const Row<T> x = task.row<T>(0, at);
    T* out = task.out<T>(r);
    int32_t* index = task.out<int32_t>(r);
    Wide<T> running = kind == HostScan::Prod ? 1 : 0;
    int64_t best = 0;
    double log_sum = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < n; ++i) {
      switch (kind) {
        case HostScan::Sum:
          running += static_cast<Wide<T>>(x[i]);
          out[i] = narrow<T>(running, type, call);
          break;
        case HostScan::Prod:
          if constexpr (std::is_floating_point_v<T>) {
            running *= static_cast<double>(x[i]);
          } else if (__builtin_mul_overflow(running, int64_t{x[i]}, &running) &&
                     type == IntType::I64) {
            call.report(ComputedCheck::Failure::Overflow, std::numeric_limits<int64_t>::max());
          }
          out[i] = narrow<T>(running, type, call);
          break;
        case HostScan::Max:
        case HostScan::Min:
        case HostScan::Argmax:
        case HostScan::Argmin: {
          const bool largest = kind == HostScan::Max || kind == HostScan::Argmax;
          best = takes_over(x[i], x[best], largest) ? i : best;
          if (kind == HostScan::Argmax || kind == HostScan::Argmin) {
            index[i] = static_cast<int32_t>(best);
          } else {
            out[i] = x[best];
          }
          break;
        }
        case HostScan::Logsumexp:
          if constexpr (std::is_floating_point_v<T>) {
            log_sum = log_add_exp(log_sum, static_cast<double>(x[i]));
            out[i] = static_cast<T>(log_sum);
          }
          break;
      }
    }
  }
}

template <typename T>
void argsort(const HostTask& task) {
  const bool descending = task.call.ints[params::host_argsort::kDescending] != 0;
  const int64_t n = task.result->ne[0];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const Row<T> x = task.row<T>(0, task.position(r));
    int32_t* out = task.out<int32_t>(r);
    std::iota(out, out + n, 0);
    std::stable_sort(out, out + n, [&x, descending](int32_t i, int32_t j) {
      const T a = descending ? x[j] : x[i];
      const T b = descending ? x[i] : x[j];
      return is_nan(b) ? !is_nan(a) : a < b;
    });
  }
}

template <typename Float, typename Integer>
void by_type(const HostTask& task, Float floats, Integer integers) {
  if (task.operand(0).type == GGML_TYPE_F32) {
    floats(task);
  } else {
    integers(task);
  }
}

}  // namespace

void host_reduce(const HostTask& task) { by_type(task, reduce<float>, reduce<int32_t>); }
void host_scan(const HostTask& task) { by_type(task, scan<float>, scan<int32_t>); }
void host_argsort(const HostTask& task) { by_type(task, argsort<float>, argsort<int32_t>); }

}  // namespace executorch_ggml
