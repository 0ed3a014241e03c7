// Thousands of damaged programs, loaded and run: each call gives a result or an
// error, never an abort of ggml's. What the verifier lets through (it judges for
// all symbol values at once) the graph builder must catch.
#include <gtest/gtest.h>

#include <random>

#include "runtime/symexpr.h"
#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_mutator.h"
#include "tests/cpp/sample_programs.h"

namespace executorch_ggml::testing {
namespace {

// Beyond this a test tensor is not made; the delegate is still loaded.
constexpr int64_t kMostElements = 1 << 16;

struct Tally {
  size_t tried = 0;
  size_t parsed = 0;
  size_t loaded = 0;
  size_t ran = 0;
};

int64_t count_of(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size < 0) {
      return -1;
    }
    count = saturating_product(count, size);
  }
  return count;
}

// Data for every weight and initial state that the program names, of the type it
// declares or of one the file might hold.
void provide_data(const Graph& graph, std::mt19937_64& random, TestData& data) {
  std::vector<Interval> ranges;
  if (!bounds(graph.exprs, graph.symbols, ranges).ok()) {
    return;
  }
  const auto provide = [&](ValueId value, const std::string& key) {
    std::vector<int64_t> ne;
    for (const ExprId id : graph.values[value].ne) {
      ne.push_back(ranges[id].lo);
    }
    const int64_t count = count_of(ne);
    const uint8_t dtype = graph.values[value].dtype;
    const ggml_type any[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K};
    const auto type = dtype == kDtypeFromFile ? any[random() % 4] : static_cast<ggml_type>(dtype);
    if (count <= 0 || count > kMostElements || type >= GGML_TYPE_COUNT ||
        ggml_blck_size(type) == 0 || ne[0] % ggml_blck_size(type) != 0) {
      return;
    }
    const auto rows = static_cast<size_t>(count / ne[0]);
    std::vector<char> bytes(ggml_row_size(type, ne[0]) * rows, '\x1c');
    data.add(key, bytes);
    if (dtype == kDtypeFromFile) {
      data.describe(key, type, ne);
    }
  };
  for (const Weight& weight : graph.weights) {
    provide(weight.value, weight.keys[0]);
  }
  for (const State& state : graph.states) {
    if (state.value != kAbsent && !state.init_key.empty()) {
      provide(state.value, state.init_key);
    }
  }
}

class CallArguments {
 public:
  // False when a tensor would be too large or of a type without a size.
  bool make(const Graph& graph, const std::vector<int64_t>& symbols, std::mt19937_64& random) {
    std::vector<int64_t> exprs;
    if (!evaluate(graph.exprs, symbols, exprs).ok()) {
      return false;
    }
    for (const Argument& argument : graph.inputs) {
      if (!add(argument, exprs, random)) {
        return false;
      }
    }
    for (size_t i = 0; i < graph.symbols.size(); ++i) {
      set_element(graph, graph.symbols[i], symbols[i]);
    }
    for (const Argument& argument : graph.outputs) {
      if (!add(argument, exprs, random)) {
        return false;
      }
    }
    return true;
  }

  Status run(Delegate& delegate) {
    std::vector<et::EValue> values;
    for (const TestTensor& tensor : tensors_) {
      values.push_back(tensor.evalue());
    }
    std::vector<et::EValue*> pointers;
    for (et::EValue& value : values) {
      pointers.push_back(&value);
    }
    return delegate.execute({pointers.data(), pointers.size()}, nullptr);
  }

 private:
  bool add(const Argument& argument, const std::vector<int64_t>& exprs, std::mt19937_64& random) {
    std::vector<int64_t> sizes;
    std::vector<int32_t> sizes32;
    for (const ExprId id : argument.sizes) {
      sizes.push_back(exprs[id]);
      sizes32.push_back(static_cast<int32_t>(exprs[id]));
    }
    const int64_t count = count_of(sizes);
    if (count < 0 || count > kMostElements) {
      return false;
    }
    const auto n = static_cast<size_t>(count);
    switch (argument.scalar_type) {
      case kFloat:
        tensors_.emplace_back(sizes32, std::vector<float>(n, 0.25F));
        break;
      case kHalf:
        tensors_.emplace_back(
            sizes32, std::vector<executorch::aten::Half>(n, executorch::aten::Half(0.25F)));
        break;
      case kLong: {
        std::vector<int64_t> values(n);
        const bool consecutive = random() % 2 == 0;
        for (size_t i = 0; i < n; ++i) {
          values[i] =
              consecutive ? static_cast<int64_t>(i) : static_cast<int64_t>(random() % 6) - 1;
        }
        tensors_.emplace_back(sizes32, values);
        break;
      }
      case kInt:
        tensors_.emplace_back(sizes32, std::vector<int32_t>(n, static_cast<int32_t>(random() % 4)));
        break;
      case kBool:
        tensors_.emplace_back(sizes32, std::vector<bool>(n, true));
        break;
      default:
        return false;
    }
    if (!argument.dim_order.empty() && argument.dim_order.size() == sizes.size()) {
      tensors_.back().set_dim_order(argument.dim_order);
    }
    return true;
  }

  void set_element(const Graph& graph, const Symbol& symbol, int64_t value) {
    if (symbol.source != SymbolSource::InputElement ||
        graph.inputs[symbol.input].scalar_type != kLong) {
      return;
    }
    const TestTensor& tensor = tensors_[symbol.input];
    if (symbol.index < tensor.values<int64_t>().size()) {
      // Wraps where the numbers are absurd; the delegate then refuses them.
      tensor.data<int64_t>()[symbol.index] = static_cast<int64_t>(
          static_cast<uint64_t>(value) * static_cast<uint64_t>(symbol.divisor) +
          static_cast<uint64_t>(symbol.offset));
    }
  }

  std::vector<TestTensor> tensors_;
};

void try_blob(const std::vector<uint8_t>& blob, uint64_t seed, Tally& tally) {
  ++tally.tried;
  Program program;
  if (!parse_program(blob, program).ok()) {
    return;
  }
  ++tally.parsed;
  const Graph& graph = program.graphs[0];
  std::mt19937_64 random(seed);
  TestData data;
  provide_data(graph, random, data);
  RuntimeOptions options;
  options.context = 256;
  Loaded loaded = load(blob, &data, options);
  if (!loaded.status.ok()) {
    EXPECT_FALSE(loaded.status.message().empty());
    return;
  }
  ++tally.loaded;
  for (const int64_t step : {0, 1, 3}) {
    std::vector<int64_t> symbols;
    for (const Symbol& symbol : graph.symbols) {
      symbols.push_back(symbol.max - symbol.min > step ? symbol.min + step : symbol.max);
    }
    CallArguments arguments;
    if (arguments.make(graph, symbols, random) && arguments.run(*loaded.delegate).ok()) {
      ++tally.ran;
    }
  }
}

std::vector<Program> samples() {
  return {linear_program(), decoder_program(), stateful_program(),
          conv_program(),   host_program(),    image_program()};
}

TEST(DelegateMutations, TheSamplesThemselvesRun) {
  for (const Program& program : samples()) {
    Tally tally;
    try_blob(write_program(program), 1, tally);
    EXPECT_EQ(tally.loaded, 1U) << program.graphs[0].name;
    EXPECT_GE(tally.ran, 1U) << program.graphs[0].name;
  }
}

TEST(DelegateMutations, DamagedFieldsGiveErrorsOrResults) {
  Tally tally;
  const std::vector<Program> programs = samples();
  for (uint64_t seed = 0; seed < 10000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ProgramMutator mutator(seed);
    const Program mutated = mutator.mutate_program(programs[seed % programs.size()]);
    try_blob(write_program(mutated), seed, tally);
  }
  RecordProperty("loaded", std::to_string(tally.loaded));
  RecordProperty("ran", std::to_string(tally.ran));
  // So that the test cannot come to test nothing.
  EXPECT_GT(tally.loaded, 200U);
  EXPECT_GT(tally.ran, 200U);
}

TEST(DelegateMutations, DamagedBytesGiveErrorsOrResults) {
  Tally tally;
  const std::vector<Program> programs = samples();
  for (uint64_t seed = 0; seed < 10000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ProgramMutator mutator(seed);
    const std::vector<uint8_t> blob = write_program(programs[seed % programs.size()]);
    const std::vector<uint8_t> donor = write_program(programs[(seed + 1) % programs.size()]);
    try_blob(mutator.mutate_bytes(blob, donor), seed, tally);
  }
  EXPECT_GT(tally.loaded, 200U);
}

}  // namespace
}  // namespace executorch_ggml::testing
