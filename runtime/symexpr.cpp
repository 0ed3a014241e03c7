#include "runtime/symexpr.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <limits>

namespace executorch_ggml {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

const char* name_of(ExprOp op) {
  switch (op) {
    case ExprOp::Const:
      return "constant";
    case ExprOp::Symbol:
      return "symbol";
    case ExprOp::Add:
      return "+";
    case ExprOp::Sub:
      return "-";
    case ExprOp::Mul:
      return "*";
    case ExprOp::FloorDiv:
      return "//";
    case ExprOp::Mod:
      return "%";
    case ExprOp::Min:
      return "min";
    case ExprOp::Max:
      return "max";
  }
  return "unknown operation";
}

// C++ rounds towards zero; these round down. b must not be 0, and a / b must
// not overflow (a == kMin, b == -1).
int64_t floor_div(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  const bool inexact = a % b != 0;
  return inexact && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) {
    return 0;  // also for kMin, whose remainder the processor cannot compute
  }
  const int64_t remainder = a % b;
  return remainder != 0 && ((remainder < 0) != (b < 0)) ? remainder + b : remainder;
}

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!__builtin_add_overflow(a, b, &result)) {
    return result;
  }
  return a < 0 ? kMin : kMax;
}

int64_t saturating_sub(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!__builtin_sub_overflow(a, b, &result)) {
    return result;
  }
  return a < 0 ? kMin : kMax;
}

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!__builtin_mul_overflow(a, b, &result)) {
    return result;
  }
  return (a < 0) != (b < 0) ? kMin : kMax;
}

int64_t saturating_floor_div(int64_t a, int64_t b) {
  return a == kMin && b == -1 ? kMax : floor_div(a, b);
}

Interval product(Interval a, Interval b) {
  const auto [lo, hi] = std::minmax({saturating_mul(a.lo, b.lo), saturating_mul(a.lo, b.hi),
                                     saturating_mul(a.hi, b.lo), saturating_mul(a.hi, b.hi)});
  return {lo, hi};
}

// The quotient is monotonic in each operand while the divisor keeps its sign,
// so the extremes are at the corners of the negative and the positive part.
Interval quotient(Interval a, Interval b) {
  Interval result{kMax, kMin};
  const auto include = [&result, a](int64_t divisor) {
    // The list form: the one of two arguments returns references to them.
    const auto [lo, hi] =
        std::minmax({saturating_floor_div(a.lo, divisor), saturating_floor_div(a.hi, divisor)});
    result.lo = std::min(result.lo, lo);
    result.hi = std::max(result.hi, hi);
  };
  if (b.lo < 0) {
    include(b.lo);
    include(std::min<int64_t>(b.hi, -1));
  }
  if (b.hi > 0) {
    include(std::max<int64_t>(b.lo, 1));
    include(b.hi);
  }
  return result.lo <= result.hi ? result : Interval{kMin, kMax};
}

// The remainder has the divisor's sign and is smaller in magnitude.
Interval remainder(Interval a, Interval b) {
  if (b.lo > 0 && a.lo >= 0 && a.hi < b.lo) {
    return a;
  }
  if (b.is_constant() && a.is_constant() && b.lo != 0) {
    const int64_t value = floor_mod(a.lo, b.lo);
    return {value, value};
  }
  if (b.lo == 0 && b.hi == 0) {
    return {kMin, kMax};
  }
  return {b.lo < 0 ? b.lo + 1 : 0, b.hi > 0 ? b.hi - 1 : 0};
}

}  // namespace

int64_t saturating_product(int64_t a, int64_t b) { return saturating_mul(a, b); }

Status resolve_symbol(const Symbol& symbol, int64_t raw, int64_t& value) {
  const char* const source = symbol.source == SymbolSource::InputDim ? "dimension" : "element";
  int64_t shifted = 0;
  if (__builtin_sub_overflow(raw, symbol.offset, &shifted) || symbol.divisor <= 0 ||
      shifted % symbol.divisor != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "input %" PRIu32 ", %s %" PRIu32 " is %" PRId64
                      ", which does not fit symbol '%s': expected %" PRId64 " * %s + %" PRId64,
                      symbol.input, source, symbol.index, raw, symbol.name.c_str(), symbol.divisor,
                      symbol.name.c_str(), symbol.offset);
  }
  value = shifted / symbol.divisor;
  if (value < symbol.min || value > symbol.max) {
    return make_error(StatusCode::InvalidArgument,
                      "input %" PRIu32 ", %s %" PRIu32 " is %" PRId64 ", so '%s' is %" PRId64
                      ", but the model was exported for %" PRId64 " to %" PRId64,
                      symbol.input, source, symbol.index, raw, symbol.name.c_str(), value,
                      symbol.min, symbol.max);
  }
  return {};
}

Status evaluate(std::span<const Expr> exprs, std::span<const int64_t> symbols,
                std::vector<int64_t>& out) {
  out.resize(exprs.size());
  for (size_t i = 0; i < exprs.size(); ++i) {
    const Expr& e = exprs[i];
    if (e.op == ExprOp::Const) {
      out[i] = e.imm;
      continue;
    }
    if (e.op == ExprOp::Symbol) {
      if (e.a >= symbols.size()) {
        return make_error(StatusCode::Internal,
                          "expression %zu reads symbol %" PRIu32 ", but %zu symbols were given", i,
                          e.a, symbols.size());
      }
      out[i] = symbols[e.a];
      continue;
    }
    if (e.a >= i || e.b >= i) {
      return make_error(StatusCode::Internal,
                        "expression %zu has operands %" PRIu32 " and %" PRIu32
                        ", which are not earlier expressions",
                        i, e.a, e.b);
    }
    const int64_t a = out[e.a];
    const int64_t b = out[e.b];
    bool overflow = false;
    switch (e.op) {
      case ExprOp::Add:
        overflow = __builtin_add_overflow(a, b, &out[i]);
        break;
      case ExprOp::Sub:
        overflow = __builtin_sub_overflow(a, b, &out[i]);
        break;
      case ExprOp::Mul:
        overflow = __builtin_mul_overflow(a, b, &out[i]);
        break;
      case ExprOp::FloorDiv:
      case ExprOp::Mod:
        if (b == 0) {
          return make_error(StatusCode::InvalidArgument,
                            "expression %zu divides by zero (%" PRId64
                            " %s 0): these input sizes do not fit the program",
                            i, a, name_of(e.op));
        }
        if (e.op == ExprOp::Mod) {
          out[i] = floor_mod(a, b);
        } else {
          overflow = a == kMin && b == -1;
          out[i] = overflow ? 0 : floor_div(a, b);
        }
        break;
      case ExprOp::Min:
        out[i] = std::min(a, b);
        break;
      case ExprOp::Max:
        out[i] = std::max(a, b);
        break;
      case ExprOp::Const:
      case ExprOp::Symbol:
      default:
        return make_error(StatusCode::Internal, "expression %zu has the unknown operation %u", i,
                          static_cast<unsigned>(e.op));
    }
    if (overflow) {
      return make_error(StatusCode::InvalidArgument,
                        "expression %zu overflows 64 bits (%" PRId64 " %s %" PRId64
                        "): these input sizes do not fit the program",
                        i, a, name_of(e.op), b);
    }
  }
  return {};
}

Status bounds(std::span<const Expr> exprs, std::span<const Interval> symbols,
              std::vector<Interval>& out) {
  out.resize(exprs.size());
  for (size_t i = 0; i < exprs.size(); ++i) {
    const Expr& e = exprs[i];
    if (e.op == ExprOp::Const) {
      out[i] = {e.imm, e.imm};
      continue;
    }
    if (e.op == ExprOp::Symbol) {
      if (e.a >= symbols.size()) {
        return make_error(StatusCode::InvalidProgram,
                          "expression %zu reads symbol %" PRIu32 ", but there are %zu symbols", i,
                          e.a, symbols.size());
      }
      out[i] = symbols[e.a];
      continue;
    }
    if (e.op > ExprOp::Max) {
      return make_error(StatusCode::InvalidProgram,
                        "expression %zu has the unknown operation %u; known are 0 to %u", i,
                        static_cast<unsigned>(e.op), static_cast<unsigned>(ExprOp::Max));
    }
    if (e.a >= i || e.b >= i) {
      return make_error(StatusCode::InvalidProgram,
                        "expression %zu (%s) has operands %" PRIu32 " and %" PRIu32
                        "; both must be earlier expressions",
                        i, name_of(e.op), e.a, e.b);
    }
    const Interval a = out[e.a];
    const Interval b = out[e.b];
    switch (e.op) {
      case ExprOp::Add:
        out[i] = {saturating_add(a.lo, b.lo), saturating_add(a.hi, b.hi)};
        break;
      case ExprOp::Sub:
        out[i] = {saturating_sub(a.lo, b.hi), saturating_sub(a.hi, b.lo)};
        break;
      case ExprOp::Mul:
        out[i] = product(a, b);
        break;
      case ExprOp::FloorDiv:
        out[i] = quotient(a, b);
        break;
      case ExprOp::Mod:
        out[i] = remainder(a, b);
        break;
      case ExprOp::Min:
        out[i] = {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
        break;
      case ExprOp::Max:
        out[i] = {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
        break;
      case ExprOp::Const:
      case ExprOp::Symbol:
        break;
    }
  }
  return {};
}

Status bounds(std::span<const Expr> exprs, std::span<const Symbol> symbols,
              std::vector<Interval>& out) {
  std::vector<Interval> ranges;
  ranges.reserve(symbols.size());
  for (const Symbol& symbol : symbols) {
    ranges.push_back({symbol.min, symbol.max});
  }
  return bounds(exprs, std::span<const Interval>(ranges), out);
}

}  // namespace executorch_ggml
