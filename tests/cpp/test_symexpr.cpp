#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <optional>
#include <random>

#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Expr constant(int64_t value) { return {ExprOp::Const, 0, 0, value}; }
Expr symbol(uint32_t index) { return {ExprOp::Symbol, index, 0, 0}; }
Expr binary(ExprOp op, uint32_t a, uint32_t b) { return {op, a, b, 0}; }

// a op b, or the error's text.
std::pair<std::optional<int64_t>, std::string> compute(ExprOp op, int64_t a, int64_t b) {
  const std::array<Expr, 3> exprs = {constant(a), constant(b), binary(op, 0, 1)};
  std::vector<int64_t> out;
  const Status status = evaluate(exprs, {}, out);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    return {std::nullopt, status.message()};
  }
  return {out[2], ""};
}

TEST(Evaluate, ComputesEveryOperation) {
  EXPECT_EQ(compute(ExprOp::Add, 7, -3).first, 4);
  EXPECT_EQ(compute(ExprOp::Sub, 7, -3).first, 10);
  EXPECT_EQ(compute(ExprOp::Mul, 7, -3).first, -21);
  EXPECT_EQ(compute(ExprOp::Min, 7, -3).first, -3);
  EXPECT_EQ(compute(ExprOp::Max, 7, -3).first, 7);
}

TEST(Evaluate, RoundsDownAsPythonDoes) {
  // Python: 7 // 2, -7 // 2, 7 // -2, -7 // -2 and the same with %.
  EXPECT_EQ(compute(ExprOp::FloorDiv, 7, 2).first, 3);
  EXPECT_EQ(compute(ExprOp::FloorDiv, -7, 2).first, -4);
  EXPECT_EQ(compute(ExprOp::FloorDiv, 7, -2).first, -4);
  EXPECT_EQ(compute(ExprOp::FloorDiv, -7, -2).first, 3);
  EXPECT_EQ(compute(ExprOp::FloorDiv, -6, 2).first, -3);
  EXPECT_EQ(compute(ExprOp::Mod, 7, 2).first, 1);
  EXPECT_EQ(compute(ExprOp::Mod, -7, 2).first, 1);
  EXPECT_EQ(compute(ExprOp::Mod, 7, -2).first, -1);
  EXPECT_EQ(compute(ExprOp::Mod, -7, -2).first, -1);
  EXPECT_EQ(compute(ExprOp::Mod, -6, 2).first, 0);
}

TEST(Evaluate, ReportsOverflow) {
  EXPECT_EQ(compute(ExprOp::Add, kMax, 1).second,
            "expression 2 overflows 64 bits (9223372036854775807 + 1): these input sizes do not "
            "fit the program");
  EXPECT_FALSE(compute(ExprOp::Sub, kMin, 1).first.has_value());
  EXPECT_FALSE(compute(ExprOp::Mul, kMax, 2).first.has_value());
  EXPECT_FALSE(compute(ExprOp::Mul, kMin, -1).first.has_value());
  EXPECT_FALSE(compute(ExprOp::FloorDiv, kMin, -1).first.has_value());
  EXPECT_EQ(compute(ExprOp::Mod, kMin, -1).first, 0);
  EXPECT_EQ(compute(ExprOp::FloorDiv, kMin, 1).first, kMin);
  EXPECT_EQ(compute(ExprOp::Sub, kMin, kMin).first, 0);
}

TEST(Evaluate, ReportsDivisionByZero) {
  EXPECT_EQ(compute(ExprOp::FloorDiv, 5, 0).second,
            "expression 2 divides by zero (5 // 0): these input sizes do not fit the program");
  EXPECT_EQ(compute(ExprOp::Mod, 5, 0).second,
            "expression 2 divides by zero (5 % 0): these input sizes do not fit the program");
}

TEST(Evaluate, ReadsSymbolsAndReusesItsResult) {
  // (s0 + 255) // 256 * 256
  const std::array<Expr, 6> exprs = {symbol(0),
                                     constant(255),
                                     binary(ExprOp::Add, 0, 1),
                                     constant(256),
                                     binary(ExprOp::FloorDiv, 2, 3),
                                     binary(ExprOp::Mul, 4, 3)};
  std::vector<int64_t> out(100);
  for (const auto& [value, expected] :
       {std::pair<int64_t, int64_t>{1, 256}, {256, 256}, {257, 512}}) {
    ASSERT_TRUE(evaluate(exprs, std::array{value}, out).ok());
    ASSERT_EQ(out.size(), exprs.size());
    EXPECT_EQ(out[5], expected);
  }
}

TEST(Evaluate, RefusesReferencesOutOfRange) {
  std::vector<int64_t> out;
  EXPECT_EQ(evaluate(std::array{symbol(1)}, std::array<int64_t, 1>{5}, out).code(),
            StatusCode::Internal);
  EXPECT_EQ(evaluate(std::array{binary(ExprOp::Add, 0, 0)}, {}, out).code(), StatusCode::Internal);
  EXPECT_EQ(evaluate(std::array{constant(1), binary(static_cast<ExprOp>(9), 0, 0)}, {}, out).code(),
            StatusCode::Internal);
}

TEST(Evaluate, OfNothingIsNothing) {
  std::vector<int64_t> out(3);
  EXPECT_TRUE(evaluate({}, {}, out).ok());
  EXPECT_TRUE(out.empty());
}

// The range of a op b for a and b in the given ranges.
Interval range_of(ExprOp op, Interval a, Interval b) {
  const std::array<Expr, 3> exprs = {symbol(0), symbol(1), binary(op, 0, 1)};
  std::vector<Interval> out;
  EXPECT_TRUE(bounds(exprs, std::array{a, b}, out).ok());
  return out[2];
}

// Sound: no value outside. Tight, for single operations: both ends are reached.
TEST(Bounds, OfOneOperationAreTheExtremesThatAreReached) {
  for (const ExprOp op :
       {ExprOp::Add, ExprOp::Sub, ExprOp::Mul, ExprOp::FloorDiv, ExprOp::Min, ExprOp::Max}) {
    for (int64_t a_lo = -4; a_lo <= 4; ++a_lo) {
      for (int64_t a_hi = a_lo; a_hi <= 4; ++a_hi) {
        for (int64_t b_lo = -4; b_lo <= 4; ++b_lo) {
          for (int64_t b_hi = b_lo; b_hi <= 4; ++b_hi) {
            int64_t lo = kMax;
            int64_t hi = kMin;
            for (int64_t a = a_lo; a <= a_hi; ++a) {
              for (int64_t b = b_lo; b <= b_hi; ++b) {
                if (const auto value = compute(op, a, b).first) {
                  lo = std::min(lo, *value);
                  hi = std::max(hi, *value);
                }
              }
            }
            if (lo > hi) {
              continue;  // always a division by zero
            }
            const Interval range = range_of(op, {a_lo, a_hi}, {b_lo, b_hi});
            ASSERT_EQ(range.lo, lo) << static_cast<int>(op) << ": [" << a_lo << ", " << a_hi
                                    << "] and [" << b_lo << ", " << b_hi << "]";
            ASSERT_EQ(range.hi, hi) << static_cast<int>(op) << ": [" << a_lo << ", " << a_hi
                                    << "] and [" << b_lo << ", " << b_hi << "]";
          }
        }
      }
    }
  }
}

TEST(Bounds, OfARemainder) {
  const auto expect = [](Interval a, Interval b, Interval expected) {
    const Interval range = range_of(ExprOp::Mod, a, b);
    EXPECT_EQ(range.lo, expected.lo);
    EXPECT_EQ(range.hi, expected.hi);
  };
  expect({0, 100}, {7, 7}, {0, 6});
  expect({2, 5}, {7, 9}, {2, 5});
  expect({-100, 100}, {-7, -7}, {-6, 0});
  expect({-100, 100}, {-7, 5}, {-6, 4});
  expect({-9, -9}, {4, 4}, {3, 3});
  expect({1, 2}, {0, 0}, {kMin, kMax});
}

TEST(Bounds, Saturate) {
  EXPECT_EQ(range_of(ExprOp::Add, {0, kMax}, {0, kMax}).hi, kMax);
  EXPECT_EQ(range_of(ExprOp::Sub, {kMin, 0}, {0, kMax}).lo, kMin);
  EXPECT_EQ(range_of(ExprOp::Mul, {-2, kMax}, {0, kMax}).hi, kMax);
  EXPECT_EQ(range_of(ExprOp::Mul, {-2, kMax}, {0, kMax}).lo, kMin);
  EXPECT_EQ(range_of(ExprOp::FloorDiv, {kMin, kMin}, {-1, -1}).hi, kMax);
  EXPECT_EQ(range_of(ExprOp::FloorDiv, {5, 5}, {0, 0}).lo, kMin);
}

TEST(Bounds, RefuseWhatIsMalformed) {
  std::vector<Interval> out;
  const auto message = [&out](std::span<const Expr> exprs) {
    const Status status = bounds(exprs, std::span<const Interval>(), out);
    EXPECT_EQ(status.code(), StatusCode::InvalidProgram);
    return status.message();
  };
  EXPECT_EQ(message(std::array{symbol(0)}), "expression 0 reads symbol 0, but there are 0 symbols");
  EXPECT_EQ(message(std::array{constant(1), binary(ExprOp::Mul, 0, 1)}),
            "expression 1 (*) has operands 0 and 1; both must be earlier expressions");
  EXPECT_EQ(message(std::array{constant(1), binary(ExprOp::Mul, kAbsent, 0)}),
            "expression 1 (*) has operands 4294967295 and 0; both must be earlier expressions");
  EXPECT_EQ(message(std::array{constant(1), binary(static_cast<ExprOp>(9), 0, 0)}),
            "expression 1 has the unknown operation 9; known are 0 to 8");
}

// Random programs over small symbols: whatever evaluates lies in the bounds.
TEST(Bounds, HoldForEveryEvaluationOfRandomExpressions) {
  std::mt19937_64 random(20240611);
  const auto pick = [&random](uint64_t n) { return random() % n; };
  constexpr std::array<int64_t, 12> kNumbers = {
      0, 1, -1, 2, 3, -7, 255, 256, int64_t{1} << 31, -(int64_t{1} << 40), kMin, kMax};
  size_t evaluated = 0;
  for (int program = 0; program < 300; ++program) {
    std::vector<Expr> exprs = {symbol(0), symbol(1)};
    for (int i = 0; i < 12; ++i) {
      const auto n = static_cast<uint32_t>(exprs.size());
      if (pick(3) == 0) {
        exprs.push_back(constant(kNumbers[pick(kNumbers.size())]));
      } else {
        exprs.push_back(binary(static_cast<ExprOp>(2 + pick(7)), static_cast<uint32_t>(pick(n)),
                               static_cast<uint32_t>(pick(n))));
      }
    }
    const int64_t lo = static_cast<int64_t>(pick(9)) - 4;
    const std::array<Interval, 2> symbols = {Interval{lo, lo + 3}, Interval{0, 5}};
    std::vector<Interval> ranges;
    ASSERT_TRUE(bounds(exprs, symbols, ranges).ok());
    for (const Interval range : ranges) {
      ASSERT_LE(range.lo, range.hi);
    }
    std::vector<int64_t> values;
    for (int64_t a = symbols[0].lo; a <= symbols[0].hi; ++a) {
      for (int64_t b = symbols[1].lo; b <= symbols[1].hi; ++b) {
        // All expressions up to the first that fails.
        size_t count = exprs.size();
        while (!evaluate(std::span(exprs).first(count), std::array{a, b}, values).ok()) {
          --count;
        }
        for (size_t i = 0; i < count; ++i) {
          ASSERT_TRUE(ranges[i].contains(values[i]))
              << "program " << program << ", expression " << i << ": " << values[i]
              << " outside of [" << ranges[i].lo << ", " << ranges[i].hi << "]";
          ++evaluated;
        }
      }
    }
  }
  EXPECT_GT(evaluated, 50'000U);
}

Symbol sample_symbol() { return {"n", 1, 10, SymbolSource::InputDim, 2, 1, 3, 4}; }

TEST(ResolveSymbol, UndoesOffsetAndDivisor) {
  int64_t value = 0;
  ASSERT_TRUE(resolve_symbol(sample_symbol(), 4 * 5 + 3, value).ok());
  EXPECT_EQ(value, 5);
}

TEST(ResolveSymbol, RefusesWhatDoesNotFit) {
  int64_t value = 0;
  EXPECT_EQ(resolve_symbol(sample_symbol(), 24, value).message(),
            "input 2, dimension 1 is 24, which does not fit symbol 'n': expected 4 * n + 3");
  EXPECT_EQ(resolve_symbol(sample_symbol(), 4 * 11 + 3, value).message(),
            "input 2, dimension 1 is 47, so 'n' is 11, but the model was exported for 1 to 10");
  EXPECT_EQ(resolve_symbol(sample_symbol(), 3, value).message(),
            "input 2, dimension 1 is 3, so 'n' is 0, but the model was exported for 1 to 10");
  Symbol element = sample_symbol();
  element.source = SymbolSource::InputElement;
  EXPECT_EQ(resolve_symbol(element, kMin, value).message(),
            "input 2, element 1 is -9223372036854775808, which does not fit symbol 'n': expected "
            "4 * n + 3");
}

}  // namespace
}  // namespace executorch_ggml
