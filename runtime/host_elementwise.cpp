// Element-wise host-side kernels.
#include <cmath>
#include <limits>

#include "runtime/host_kernel.h"

namespace executorch_ggml {
namespace {

// The packed case apart, so that the compiler can vectorize it.
template <typename In, typename Out, typename F>
void map(const HostTask& task, F f) {
  const int64_t n = task.result->ne[0];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const Row<In> x = task.row<In>(0, task.position(r));
    Out* out = task.out<Out>(r);
    if (x.is_packed()) {
      const In* packed = x.begin();
      for (int64_t i = 0; i < n; ++i) {
        out[i] = f(packed[i]);
      }
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      out[i] = f(x[i]);
    }
  }
}

template <typename In, typename Out, typename F>
void map2(const HostTask& task, F f) {
  const int64_t n = task.result->ne[0];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const Row<In> a = task.row<In>(0, at);
    const Row<In> b = task.row<In>(1, at);
    Out* out = task.out<Out>(r);
    if (a.is_packed() && b.is_packed()) {
      const In* pa = a.begin();
      const In* pb = b.begin();
      for (int64_t i = 0; i < n; ++i) {
        out[i] = f(pa[i], pb[i]);
      }
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      out[i] = f(a[i], b[i]);
    }
  }
}

template <typename F>
void map_floats(const HostTask& task, F f) {
  map<float, float>(task, f);
}

template <typename F>
void map_predicate(const HostTask& task, F f) {
  map<float, int32_t>(task, [f](float x) { return static_cast<int32_t>(f(x)); });
}

float log_gamma(float x) {
  int sign = 0;
  return lgammaf_r(x, &sign);  // std::lgamma writes a global
}

float softplus(float x, float beta, float threshold) {
  return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
}

float soft_shrink(float x, float lambda) {
  if (std::isnan(x)) {
    return x;
  }
  return x > lambda ? x - lambda : (x < -lambda ? x + lambda : 0.0F);
}

float nan_to_num(float x, float nan, float high, float low) {
  if (std::isnan(x)) {
    return nan;
  }
  return std::isinf(x) ? (x > 0 ? high : low) : x;
}

void unary_floats(const HostTask& task) {
  using namespace params::host_unary;
  const float p = task.call.floats[kP];
  const float q = task.call.floats[kQ];
  const float s = task.call.floats[kR];
  switch (static_cast<HostUnary>(task.call.ints[kKind])) {
    case HostUnary::Relu:
      return map_floats(task, [](float x) { return x < 0 ? 0.0F : x; });
    case HostUnary::Sign:
      return map_floats(task, [](float x) { return static_cast<float>((x > 0) - (x < 0)); });
    case HostUnary::RoundEven:
      return map_floats(task, [](float x) { return std::nearbyint(x); });
    case HostUnary::Frac:
      return map_floats(task, [](float x) { return x - std::trunc(x); });
    case HostUnary::Rsqrt:
      return map_floats(task, [](float x) { return 1.0F / std::sqrt(x); });
    case HostUnary::Reciprocal:
      return map_floats(task, [](float x) { return 1.0F / x; });
    case HostUnary::Log2:
      return map_floats(task, [](float x) { return std::log2(x); });
    case HostUnary::Log10:
      return map_floats(task, [](float x) { return std::log10(x); });
    case HostUnary::Log1p:
      return map_floats(task, [](float x) { return std::log1p(x); });
    case HostUnary::Exp2:
      return map_floats(task, [](float x) { return std::exp2(x); });
    case HostUnary::Expm1:
      return map_floats(task, [](float x) { return std::expm1(x); });
    case HostUnary::Tan:
      return map_floats(task, [](float x) { return std::tan(x); });
    case HostUnary::Asin:
      return map_floats(task, [](float x) { return std::asin(x); });
    case HostUnary::Acos:
      return map_floats(task, [](float x) { return std::acos(x); });
    case HostUnary::Atan:
      return map_floats(task, [](float x) { return std::atan(x); });
    case HostUnary::Sinh:
      return map_floats(task, [](float x) { return std::sinh(x); });
    case HostUnary::Cosh:
      return map_floats(task, [](float x) { return std::cosh(x); });
    case HostUnary::Asinh:
      return map_floats(task, [](float x) { return std::asinh(x); });
    case HostUnary::Acosh:
      return map_floats(task, [](float x) { return std::acosh(x); });
    case HostUnary::Atanh:
      return map_floats(task, [](float x) { return std::atanh(x); });
    case HostUnary::Erf:
      return map_floats(task, [](float x) { return std::erf(x); });
    case HostUnary::Erfc:
      return map_floats(task, [](float x) { return std::erfc(x); });
    case HostUnary::Lgamma:
      return map_floats(task, log_gamma);
    case HostUnary::Elu:
      return map_floats(task,
                        [p, q, s](float x) { return x > 0 ? q * x : p * q * std::expm1(s * x); });
    case HostUnary::Softplus:
      return map_floats(task, [p, q](float x) { return softplus(x, p, q); });
    case HostUnary::Threshold:
      return map_floats(task, [p, q](float x) { return x <= p ? q : x; });
    case HostUnary::Hardshrink:
      return map_floats(task, [p](float x) { return x >= -p && x <= p ? 0.0F : x; });
    case HostUnary::Softshrink:
      return map_floats(task, [p](float x) { return soft_shrink(x, p); });
    case HostUnary::Clamp:
      // As torch: the upper limit stands where the limits cross.
      return map_floats(task, [p, q](float x) {
        const float low = x < p ? p : x;
        return low > q ? q : low;
      });
    case HostUnary::NanToNum:
      return map_floats(task, [p, q, s](float x) { return nan_to_num(x, p, q, s); });
    case HostUnary::LogSigmoid:
      return map_floats(
          task, [](float x) { return (x > 0 ? 0.0F : x) - std::log1p(std::exp(-std::fabs(x))); });
    case HostUnary::LeakyRelu:
      return map_floats(task, [p](float x) { return x > 0 ? x : p * x; });
    case HostUnary::Abs:
      return map_floats(task, [](float x) { return std::fabs(x); });
    case HostUnary::Neg:
      return map_floats(task, [](float x) { return -x; });
    case HostUnary::Hardsigmoid:
      return map_floats(task, [](float x) {
        const float shifted = x + 3.0F;
        const float low = shifted < 0.0F ? 0.0F : shifted;
        return (low > 6.0F ? 6.0F : low) / 6.0F;
      });
    case HostUnary::LogicalNot:
      return map_predicate(task, [](float x) { return x == 0.0F; });
    case HostUnary::IsNan:
      return map_predicate(task, [](float x) { return std::isnan(x); });
    case HostUnary::IsInf:
      return map_predicate(task, [](float x) { return std::isinf(x); });
    case HostUnary::SignBit:
      return map_predicate(task, [](float x) { return std::signbit(x); });
    case HostUnary::BitwiseNot:
      break;  // of integers only; the builder refuses it
  }
}

void unary_integers(const HostTask& task) {
  using namespace params::host_unary;
  HostCall& call = task.call;
  const auto type = static_cast<IntType>(call.ints[kType]);
  const auto wrapped = [&task, &call, type](auto f) {
    map<int32_t, int32_t>(
        task, [&call, type, f](int32_t x) { return wrap(f(static_cast<int64_t>(x)), type, call); });
  };
  switch (static_cast<HostUnary>(call.ints[kKind])) {
    case HostUnary::Sign:
      return wrapped([](int64_t x) { return static_cast<int64_t>((x > 0) - (x < 0)); });
    case HostUnary::Abs:
      return wrapped([](int64_t x) { return x < 0 ? -x : x; });
    case HostUnary::Neg:
      return wrapped([](int64_t x) { return -x; });
    case HostUnary::BitwiseNot:
      return wrapped([](int64_t x) { return ~x; });
    case HostUnary::LogicalNot:
      return map<int32_t, int32_t>(task, [](int32_t x) { return x == 0 ? 1 : 0; });
    default:
      return;  // of floats only; the builder refuses them
  }
}

// As torch computes a // b: the quotient of a - mod is exact, its floor may be off by one.
float floor_divide(float a, float b) {
  if (b == 0) {
    return a / b;
  }
  const float mod = std::fmod(a, b);
  float div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) {
    div -= 1;
  }
  if (div == 0) {
    return std::copysign(0.0F, a / b);
  }
  const float floor = std::floor(div);
  return div - floor > 0.5F ? floor + 1 : floor;
}

float remainder(float a, float b) {
  const float mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}

float xlogy(float x, float y) {
  if (std::isnan(y)) {
    return y;
  }
  return x == 0 ? 0.0F : x * std::log(y);
}

float maximum(float a, float b) { return std::isnan(a) || a > b ? a : b; }
float minimum(float a, float b) { return std::isnan(a) || a < b ? a : b; }

template <typename T, typename F>
void compare(const HostTask& task, F f) {
  map2<T, int32_t>(task, [f](T a, T b) { return static_cast<int32_t>(f(a, b)); });
}

// Comparisons and logic, the same for both element types. False: another function.
template <typename T>
bool binary_predicate(const HostTask& task, HostBinary kind) {
  switch (kind) {
    case HostBinary::Eq:
      compare<T>(task, [](T a, T b) { return a == b; });
      return true;
    case HostBinary::Ne:
      compare<T>(task, [](T a, T b) { return a != b; });
      return true;
    case HostBinary::Lt:
      compare<T>(task, [](T a, T b) { return a < b; });
      return true;
    case HostBinary::Le:
      compare<T>(task, [](T a, T b) { return a <= b; });
      return true;
    case HostBinary::Gt:
      compare<T>(task, [](T a, T b) { return a > b; });
      return true;
    case HostBinary::Ge:
      compare<T>(task, [](T a, T b) { return a >= b; });
      return true;
    case HostBinary::LogicalAnd:
      compare<T>(task, [](T a, T b) { return a != 0 && b != 0; });
      return true;
    case HostBinary::LogicalOr:
      compare<T>(task, [](T a, T b) { return a != 0 || b != 0; });
      return true;
    case HostBinary::LogicalXor:
      compare<T>(task, [](T a, T b) { return (a != 0) != (b != 0); });
      return true;
    default:
      return false;
  }
}

void binary_floats(const HostTask& task, HostBinary kind) {
  const auto with = [&task](auto f) { map2<float, float>(task, f); };
  switch (kind) {
    case HostBinary::DivTrunc:
      return with([](float a, float b) { return std::trunc(a / b); });
    case HostBinary::DivFloor:
      return with(floor_divide);
    case HostBinary::Remainder:
      return with(remainder);
    case HostBinary::Fmod:
      return with([](float a, float b) { return std::fmod(a, b); });
    case HostBinary::Pow:
      return with([](float a, float b) { return std::pow(a, b); });
    case HostBinary::Maximum:
      return with(maximum);
    case HostBinary::Minimum:
      return with(minimum);
    case HostBinary::Fmax:
      return with([](float a, float b) { return std::fmax(a, b); });
    case HostBinary::Fmin:
      return with([](float a, float b) { return std::fmin(a, b); });
    case HostBinary::Atan2:
      return with([](float a, float b) { return std::atan2(a, b); });
    case HostBinary::Hypot:
      return with([](float a, float b) { return std::hypot(a, b); });
    case HostBinary::Copysign:
      return with([](float a, float b) { return std::copysign(a, b); });
    case HostBinary::Xlogy:
      return with(xlogy);
    default:
      return;  // of integers only; the builder refuses them
  }
}

// base^exponent in 64 bits; what leaves them is reported for I64, else wraps.
int64_t int_pow(int64_t base, int64_t exponent, bool must_fit, HostCall& call) {
  if (exponent < 0) {
    if (base == 0) {
      call.report(ComputedCheck::Failure::DivisionByZero, 1);
      return 0;
    }
    return base == 1 ? 1 : (base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0);
  }
  uint64_t power = static_cast<uint64_t>(base);
  uint64_t result = 1;
  bool overflow = false;
  bool power_overflow = false;
  for (auto n = static_cast<uint64_t>(exponent); n != 0; n >>= 1) {
    int64_t checked = 0;
    if ((n & 1) != 0) {
      overflow = overflow || power_overflow ||
                 __builtin_mul_overflow(static_cast<int64_t>(result), static_cast<int64_t>(power),
                                        &checked);
      result *= power;
    }
    power_overflow =
        power_overflow ||
        __builtin_mul_overflow(static_cast<int64_t>(power), static_cast<int64_t>(power), &checked);
    power *= power;
  }
  if (overflow && must_fit) {
    call.report(ComputedCheck::Failure::Overflow, std::numeric_limits<int64_t>::max());
  }
  return static_cast<int64_t>(result);
}

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t m = a % b;
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

int64_t shift_left(int64_t a, int64_t b, int64_t bits) {
  return b < 0 || b >= bits ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}

int64_t shift_right(int64_t a, int64_t b, int64_t bits) {
  return a >> (b < 0 || b >= bits ? int64_t{63} : b);
}

int64_t bits_of(IntType type) {
  switch (type) {
    case IntType::I64:
      return 64;
    case IntType::I32:
      return 32;
    case IntType::I16:
      return 16;
    case IntType::I8:
    case IntType::U8:
    case IntType::Bool:
      return 8;
  }
  return 64;
}

void binary_integers(const HostTask& task, HostBinary kind) {
  HostCall& call = task.call;
  const auto type = static_cast<IntType>(call.ints[params::host_binary::kType]);
  const auto with = [&task, &call, type](auto f) {
    map2<int32_t, int32_t>(task, [&call, type, f](int32_t a, int32_t b) {
      return wrap(f(int64_t{a}, int64_t{b}), type, call);
    });
  };
  const auto dividing = [&with, &call](auto f) {
    with([&call, f](int64_t a, int64_t b) {
      if (b == 0) {
        call.report(ComputedCheck::Failure::DivisionByZero, a);
        return int64_t{0};
      }
      return f(a, b);
    });
  };
  const int64_t bits = bits_of(type);
  switch (kind) {
    case HostBinary::Add:
      return with([](int64_t a, int64_t b) { return a + b; });
    case HostBinary::Sub:
      return with([](int64_t a, int64_t b) { return a - b; });
    case HostBinary::Mul:
      return with([](int64_t a, int64_t b) { return a * b; });
    case HostBinary::DivTrunc:
      return dividing([](int64_t a, int64_t b) { return a / b; });
    case HostBinary::DivFloor:
      return dividing(floor_div);
    case HostBinary::Remainder:
      return dividing(floor_mod);
    case HostBinary::Fmod:
      return dividing([](int64_t a, int64_t b) { return a % b; });
    case HostBinary::Pow:
      return with([&call, type](int64_t a, int64_t b) {
        return int_pow(a, b, type == IntType::I64, call);
      });
    case HostBinary::Maximum:
      return with([](int64_t a, int64_t b) { return a > b ? a : b; });
    case HostBinary::Minimum:
      return with([](int64_t a, int64_t b) { return a < b ? a : b; });
    case HostBinary::BitwiseAnd:
      return with([](int64_t a, int64_t b) { return a & b; });
    case HostBinary::BitwiseOr:
      return with([](int64_t a, int64_t b) { return a | b; });
    case HostBinary::BitwiseXor:
      return with([](int64_t a, int64_t b) { return a ^ b; });
    case HostBinary::ShiftLeft:
      return with([bits](int64_t a, int64_t b) { return shift_left(a, b, bits); });
    case HostBinary::ShiftRight:
      return with([bits](int64_t a, int64_t b) { return shift_right(a, b, bits); });
    default:
      return;  // of floats only; the builder refuses them
  }
}

template <typename T>
void where(const HostTask& task) {
  const int64_t n = task.result->ne[0];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const Row<int32_t> condition = task.row<int32_t>(0, at);
    const Row<T> a = task.row<T>(1, at);
    const Row<T> b = task.row<T>(2, at);
    T* out = task.out<T>(r);
    for (int64_t i = 0; i < n; ++i) {
      out[i] = condition[i] != 0 ? a[i] : b[i];
    }
  }
}

// The integer part. What the type's register does not hold, NaN included, becomes its
// smallest value, as x86 converts: PyTorch goes through 64 bits for int64, else through 32.
// For int64 that is here the smallest int32: a model that takes the log of 0 masks it later.
int64_t truncated(float x, IntType type) {
  if (type == IntType::I64) {
    constexpr float kLimit = 9223372036854775808.0F;
    return x > -kLimit && x < kLimit ? static_cast<int64_t>(x)
                                     : std::numeric_limits<int32_t>::min();
  }
  constexpr float kLimit = 2147483648.0F;
  return x >= -kLimit && x < kLimit ? static_cast<int64_t>(x) : std::numeric_limits<int32_t>::min();
}

}  // namespace

void host_unary(const HostTask& task) {
  if (task.operand(0).type == GGML_TYPE_F32) {
    unary_floats(task);
  } else {
    unary_integers(task);
  }
}

void host_binary(const HostTask& task) {
  const auto kind = static_cast<HostBinary>(task.call.ints[params::host_binary::kKind]);
  if (task.operand(0).type == GGML_TYPE_F32) {
    if (!binary_predicate<float>(task, kind)) {
      binary_floats(task, kind);
    }
  } else if (!binary_predicate<int32_t>(task, kind)) {
    binary_integers(task, kind);
  }
}

void host_where(const HostTask& task) {
  if (task.result->type == GGML_TYPE_F32) {
    where<float>(task);
  } else {
    where<int32_t>(task);
  }
}

void host_convert(const HostTask& task) {
  HostCall& call = task.call;
  const auto type = static_cast<IntType>(call.ints[params::host_convert::kTo]);
  if (task.operand(0).type == GGML_TYPE_I32) {
    map<int32_t, int32_t>(task, [&call, type](int32_t x) { return wrap(int64_t{x}, type, call); });
  } else if (type == IntType::Bool) {
    map_predicate(task, [](float x) { return x != 0; });
  } else {
    map<float, int32_t>(task,
                        [&call, type](float x) { return wrap(truncated(x, type), type, call); });
  }
}

void host_round(const HostTask& task) {
  if (task.call.ints[params::host_round::kDtype] == GGML_TYPE_F16) {
    map_floats(task, [](float x) { return ggml_fp16_to_fp32(ggml_fp32_to_fp16(x)); });
  } else {
    map_floats(task, [](float x) { return ggml_bf16_to_fp32(ggml_fp32_to_bf16(x)); });
  }
}

}  // namespace executorch_ggml
