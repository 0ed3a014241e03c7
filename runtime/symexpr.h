// Integer expressions over symbols: their values in one call, and the range of
// values they can take in any call.
//
// An expression refers to earlier ones only, so a single forward sweep computes
// all of them. Division and modulo round towards minus infinity, as Python's do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/program.h"
#include "runtime/status.h"

namespace executorch_ggml {

// A closed interval; lo <= hi.
struct Interval {
  int64_t lo;
  int64_t hi;

  bool contains(int64_t value) const { return lo <= value && value <= hi; }
  bool is_constant() const { return lo == hi; }
};

// Values of all expressions, `out[i]` for `exprs[i]`; out's storage is reused.
// `symbols[i]` is the value of symbol i.
//
// Errors: an overflow of 64 bits or a division by zero (InvalidArgument: the
// program is verified, so the symbols' values are the cause); a reference out of
// range (Internal).
Status evaluate(std::span<const Expr> exprs, std::span<const int64_t> symbols,
                std::vector<int64_t>& out);

// The range of each expression for any symbols in their ranges, by interval
// arithmetic: sound but not tight (`s - s` is not known to be 0). Bounds
// saturate at 64 bits. They hold for every evaluation that succeeds: a divisor's
// zero is left out of its range, and one that is always zero gives the full range.
//
// Errors: a reference out of range or not backwards, an unknown operation
// (InvalidProgram).
Status bounds(std::span<const Expr> exprs, std::span<const Interval> symbols,
              std::vector<Interval>& out);

// As above, with the exported bounds of the symbols.
Status bounds(std::span<const Expr> exprs, std::span<const Symbol> symbols,
              std::vector<Interval>& out);

// The symbol's value when its source reads `raw`: (raw - offset) / divisor.
//
// Errors (InvalidArgument, naming the symbol and its source): the division leaves
// a remainder, or the value is outside the exported bounds.
Status resolve_symbol(const Symbol& symbol, int64_t raw, int64_t& value);

// a * b, or the nearest 64-bit value if that overflows.
int64_t saturating_product(int64_t a, int64_t b);

}  // namespace executorch_ggml
