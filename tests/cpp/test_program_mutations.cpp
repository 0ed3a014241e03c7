// Thousands of damaged delegate blobs: each gives an error or a program that is
// sound.
//
// A crash, undefined behaviour (under the sanitizers), a long run or memory out of
// proportion fails. The mutations are the same in every run; a failure prints the
// seed and the sample it came from.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <new>

#include "runtime/program.h"
#include "runtime/symexpr.h"
#include "tests/cpp/program_mutator.h"
#include "tests/cpp/sample_programs.h"

namespace {

// Bytes asked for since it was last set to zero.
std::atomic<size_t> allocated = 0;

void* counted_allocation(size_t size) {
  allocated.fetch_add(size, std::memory_order_relaxed);
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

// GCC sees free() meet memory of operator new when it inlines these.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void* operator new(size_t size) { return counted_allocation(size); }
void* operator new[](size_t size) { return counted_allocation(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace executorch_ggml {
namespace {

using testing::ProgramMutator;
using testing::write_program;

// Of one parse, in processor time, sanitizers included. The blobs have 1 to 4 KB.
constexpr double kMostSeconds = 1.0;
constexpr size_t kMostMemory = 1024 * 1024;

struct Tally {
  size_t tried = 0;
  size_t accepted = 0;
  size_t evaluated = 0;
};

// What the later layers rely on, asked of a program that was accepted.
void check_sound(const Graph& g) {
  std::vector<bool> defined(g.values.size());
  const auto define = [&](ValueId id) {
    ASSERT_LT(id, defined.size());
    ASSERT_FALSE(defined[id]);
    defined[id] = true;
  };
  for (const Value& v : g.values) {
    for (const ExprId id : v.ne) {
      ASSERT_LT(id, g.exprs.size());
      if (g.exprs[id].op == ExprOp::Const) {
        ASSERT_GE(g.exprs[id].imm, 0);
        ASSERT_LE(g.exprs[id].imm, limits::kExtent);
      }
    }
  }
  for (const Argument& a : g.inputs) {
    define(a.value);
    ASSERT_LE(a.sizes.size(), limits::kRank);
    for (const ExprId id : a.sizes) {
      ASSERT_LT(id, g.exprs.size());
    }
  }
  for (const Symbol& s : g.symbols) {
    ASSERT_LE(s.min, s.max);
    ASSERT_GT(s.divisor, 0);
    ASSERT_LT(s.input, g.inputs.size());
  }
  for (const Weight& w : g.weights) {
    define(w.value);
    ASSERT_FALSE(w.keys.empty());
  }
  for (const State& s : g.states) {
    ASSERT_FALSE(s.name.empty());
    if (s.kind == StateKind::Buffer) {
      define(s.value);
    } else {
      ASSERT_EQ(s.kind, StateKind::KvCache);
      ASSERT_GT(s.k_head_dim, 0U);
      ASSERT_GE(s.max_capacity, s.default_capacity);
    }
  }
  for (const Call& c : g.calls) {
    const OpInfo* const info = find_op(static_cast<uint16_t>(c.op));
    ASSERT_NE(info, nullptr);
    ASSERT_GE(c.inputs.size(), info->min_inputs);
    ASSERT_LE(c.inputs.size(), info->max_inputs);
    ASSERT_EQ(c.ints.size(), info->n_ints);
    ASSERT_EQ(c.floats.size(), info->n_floats);
    ASSERT_EQ(c.outputs.size(), info->n_outputs);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (c.inputs[i] == kAbsent) {
        ASSERT_GE(i, info->min_inputs);
      } else {
        ASSERT_LT(c.inputs[i], defined.size());
        ASSERT_TRUE(defined[c.inputs[i]]);
      }
    }
    for (size_t i = 0; i < c.ints.size(); ++i) {
      ASSERT_LT(c.ints[i], g.exprs.size());
      if (info->ints[i].kind != ParamKind::Dim) {
        ASSERT_EQ(g.exprs[c.ints[i]].op, ExprOp::Const);
      }
    }
    for (const ValueId id : c.outputs) {
      define(id);
    }
  }
  for (const Argument& a : g.outputs) {
    ASSERT_LT(a.value, defined.size());
    ASSERT_TRUE(defined[a.value]);
  }
  ASSERT_EQ(std::count(defined.begin(), defined.end(), false), 0);
}

// At the ends and the middle of the symbols' bounds.
void check_expressions(const Graph& g, Tally& tally) {
  std::vector<Interval> ranges;
  ASSERT_TRUE(bounds(g.exprs, g.symbols, ranges).ok());
  std::vector<int64_t> values;
  for (const int64_t eighths : {0, 4, 8}) {
    std::vector<int64_t> symbols;
    for (const Symbol& s : g.symbols) {
      symbols.push_back(s.min + (s.max - s.min) / 8 * eighths);
    }
    const Status status = evaluate(g.exprs, symbols, values);
    if (!status.ok()) {
      ASSERT_EQ(status.code(), StatusCode::InvalidArgument) << status.message();
      continue;
    }
    ++tally.evaluated;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(ranges[i].contains(values[i])) << "expression " << i;
    }
  }
}

void try_blob(const std::vector<uint8_t>& mutated, Tally& tally) {
  // Memory of the exact size, so that a read past the end is one past the allocation.
  const auto copy = std::make_unique<uint8_t[]>(mutated.size());
  std::copy(mutated.begin(), mutated.end(), copy.get());

  Program program;
  allocated = 0;
  const std::clock_t begin = std::clock();
  const Status status = parse_program({copy.get(), mutated.size()}, program);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_LT(seconds, kMostSeconds) << status.message();
  ASSERT_LE(allocated.load(), kMostMemory) << status.message();

  ++tally.tried;
  if (!status.ok()) {
    ASSERT_EQ(status.code(), StatusCode::InvalidProgram) << status.message();
    ASSERT_EQ(status.message().rfind("delegate blob: ", 0), 0U);
    ASSERT_LE(status.message().size(), 4 * limits::kNameLength) << status.message();
    return;
  }
  ++tally.accepted;
  ASSERT_FALSE(program.graphs.empty());
  for (const Graph& graph : program.graphs) {
    check_sound(graph);
    if (::testing::Test::HasFatalFailure()) {
      return;
    }
    check_expressions(graph, tally);
  }
}

void report(const Tally& tally) {
  ::testing::Test::RecordProperty("tried", std::to_string(tally.tried));
  ::testing::Test::RecordProperty("accepted", std::to_string(tally.accepted));
  ::testing::Test::RecordProperty("evaluated", std::to_string(tally.evaluated));
}

std::vector<std::vector<uint8_t>> sample_blobs() {
  std::vector<std::vector<uint8_t>> blobs;
  for (const Program& program : testing::sample_programs()) {
    blobs.push_back(write_program(program));
  }
  return blobs;
}

TEST(ProgramMutations, OfBytes) {
  const auto blobs = sample_blobs();
  Tally tally;
  for (uint64_t seed = 0; seed < 12'000; ++seed) {
    const size_t sample = seed % blobs.size();
    SCOPED_TRACE("seed " + std::to_string(seed) + " of sample " + std::to_string(sample));
    ProgramMutator mutator(seed);
    try_blob(mutator.mutate_bytes(blobs[sample], blobs[(sample + 1) % blobs.size()]), tally);
    if (HasFatalFailure()) {
      return;
    }
  }
  report(tally);
  // Both ways out are tested.
  EXPECT_GT(tally.accepted, tally.tried / 100);
  EXPECT_LT(tally.accepted, tally.tried / 2);
}

TEST(ProgramMutations, OfFields) {
  const auto programs = testing::sample_programs();
  Tally tally;
  for (uint64_t seed = 0; seed < 12'000; ++seed) {
    const size_t sample = seed % programs.size();
    SCOPED_TRACE("seed " + std::to_string(seed) + " of sample " + std::to_string(sample));
    ProgramMutator mutator(seed);
    const Program program = mutator.mutate_program(programs[sample]);
    try_blob(write_program(program, mutator.mutate_options()), tally);
    if (HasFatalFailure()) {
      return;
    }
  }
  report(tally);
  EXPECT_GT(tally.accepted, tally.tried / 20);
  EXPECT_LT(tally.accepted, tally.tried / 2);
  EXPECT_GT(tally.evaluated, tally.accepted);
}

// Every byte of each sample, to values that tend to hurt.
TEST(ProgramMutations, OfEveryByte) {
  Tally tally;
  for (const std::vector<uint8_t>& blob : sample_blobs()) {
    std::vector<uint8_t> damaged = blob;
    for (size_t i = 0; i < blob.size(); ++i) {
      for (const int changed : {0x00, 0xff, blob[i] ^ 0x80, blob[i] + 1}) {
        const auto value = static_cast<uint8_t>(changed);
        SCOPED_TRACE("byte " + std::to_string(i) + " = " + std::to_string(value));
        damaged[i] = value;
        try_blob(damaged, tally);
        if (HasFatalFailure()) {
          return;
        }
      }
      damaged[i] = blob[i];
    }
  }
  report(tally);
  EXPECT_GT(tally.tried, 10'000U);
}

}  // namespace
}  // namespace executorch_ggml
