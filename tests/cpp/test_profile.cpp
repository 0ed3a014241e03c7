// What a run lets others see: ETDump events, sums per op, dumps, times.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"

namespace executorch_ggml::testing {
namespace {

// Calls 1 (mul), 2 (sqr) and 3 (log); their debug handles are 1, 2, 3.
std::vector<uint8_t> program() {
  GraphWriter g;
  const ValueId x = g.input(f32({4}));
  const ValueId squared = g.call(Op::Mul, {x, x}, f32({4}));
  const ValueId fourth = g.call(Op::Sqr, {squared}, f32({4}));
  g.output(g.call(Op::Log, {fourth}, f32({4})));
  return g.finish();
}

// Notes the delegate events it is told of.
class Recorder final : public et::EventTracer {
 public:
  struct Event {
    std::string name;
    int64_t id;
    std::string metadata;
  };
  std::vector<Event> events;

  et::EventTracerEntry start_profiling_delegate(const char* name,
                                                et::DelegateDebugIntId id) override {
    events.push_back({name != nullptr ? name : "", id, ""});
    et::EventTracerEntry entry{};
    entry.event_id = static_cast<int64_t>(events.size() - 1);
    return entry;
  }
  void end_profiling_delegate(et::EventTracerEntry entry, const void* metadata,
                              size_t size) override {
    events[static_cast<size_t>(entry.event_id)].metadata.assign(static_cast<const char*>(metadata),
                                                                size);
  }

  void create_event_block(const char*) override {}
  et::EventTracerEntry start_profiling(const char*, et::ChainID, et::DebugHandle) override {
    return {};
  }
  void end_profiling(et::EventTracerEntry) override {}
  void track_allocation(et::AllocatorID, size_t) override {}
  et::AllocatorID track_allocator(const char*) override { return 0; }
  void log_profiling_delegate(const char* name, et::DelegateDebugIntId id, et_timestamp_t begin,
                              et_timestamp_t end, const void* metadata, size_t size) override {
    EXPECT_LE(begin, end);
    events.push_back(
        {name != nullptr ? name : "", id, std::string(static_cast<const char*>(metadata), size)});
  }
  et::Result<bool> log_intermediate_output_delegate(const char*, et::DelegateDebugIntId,
                                                    const executorch::aten::Tensor&) override {
    return false;
  }
  et::Result<bool> log_intermediate_output_delegate(
      const char*, et::DelegateDebugIntId, const et::ArrayRef<executorch::aten::Tensor>) override {
    return false;
  }
  et::Result<bool> log_intermediate_output_delegate(const char*, et::DelegateDebugIntId,
                                                    const int&) override {
    return false;
  }
  et::Result<bool> log_intermediate_output_delegate(const char*, et::DelegateDebugIntId,
                                                    const bool&) override {
    return false;
  }
  et::Result<bool> log_intermediate_output_delegate(const char*, et::DelegateDebugIntId,
                                                    const double&) override {
    return false;
  }
  void set_delegation_intermediate_output_filter(et::EventTracerFilterBase*) override {}
  et::Result<bool> log_evalue(const et::EValue&, et::LoggedEValueType) override { return false; }
};

Status run_traced(Delegate& delegate, Recorder& recorder) {
  const TestTensor x({4}, std::vector<float>{1, 2, 3, 4});
  const TestTensor y = TestTensor::empty<float>({4});
  et::EValue values[] = {x.evalue(), y.evalue()};
  et::EValue* args[] = {&values[0], &values[1]};
  return delegate.execute({args, 2}, &recorder);
}

TEST(Profile, TracesEachCall) {
  Loaded loaded = load(program());
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  Recorder recorder;
  ASSERT_TRUE(run_traced(*loaded.delegate, recorder).ok());
  ASSERT_EQ(recorder.events.size(), 1U);
  EXPECT_EQ(recorder.events[0].name, "ggml_delegate_call");
}

TEST(Profile, TracesEachOpByItsDebugHandleWhenProfiling) {
  RuntimeOptions options;
  options.profile = true;
  Loaded loaded = load(program(), nullptr, options);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
  Recorder recorder;
  ASSERT_TRUE(run_traced(*loaded.delegate, recorder).ok());
  ASSERT_EQ(recorder.events.size(), 4U);
  const char* const ops[] = {"MUL", "SQR", "LOG"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(recorder.events[i + 1].id, static_cast<int64_t>(i + 1));
    EXPECT_EQ(recorder.events[i + 1].name, "");
    EXPECT_EQ(recorder.events[i + 1].metadata, ops[i]);
  }
}

TEST(Profile, DumpsStatisticsOfEveryResult) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("ggml_dump_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + ".txt");
  std::filesystem::remove(path);
  {
    RuntimeOptions options;
    options.debug_dump = path.string();
    Loaded loaded = load(program(), nullptr, options);
    ASSERT_TRUE(loaded.status.ok()) << loaded.status.message();
    const TestTensor x({4}, std::vector<float>{0, 2, NAN, -3});
    const TestTensor y = TestTensor::empty<float>({4});
    ASSERT_TRUE(run(*loaded.delegate, {&x}, {&y}).ok());
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  EXPECT_NE(text.str().find("# forward call 1"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("MUL\t0:mul\tf32[4, 1, 1, 1]\tmin 0\tmax 9\tmean 4.33333333\tnan 1\t"
                            "inf 0"),
            std::string::npos)
      << text.str();
  EXPECT_NE(text.str().find("LOG\t2:log"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("nan 1\tinf 1"), std::string::npos) << "log(0) is -inf: " << text.str();
}

TEST(Profile, RefusesADumpThatCannotBeWritten) {
  RuntimeOptions options;
  options.debug_dump = "/nonexistent/folder/dump.txt";
  const Loaded loaded = load(program(), nullptr, options);
  EXPECT_EQ(loaded.status.code(), StatusCode::InvalidArgument);
  EXPECT_NE(loaded.status.message().find("/nonexistent/folder/dump.txt"), std::string::npos);
}

TEST(Profile, GivesTheSameResultsNodeByNode) {
  const TestTensor x({4}, std::vector<float>{1, 2, 3, 4});
  std::vector<std::vector<float>> results;
  for (const bool profile : {false, true}) {
    RuntimeOptions options;
    options.profile = profile;
    Loaded loaded = load(program(), nullptr, options);
    ASSERT_TRUE(loaded.status.ok());
    const TestTensor y = TestTensor::empty<float>({4});
    ASSERT_TRUE(run(*loaded.delegate, {&x}, {&y}).ok());
    results.push_back(y.values<float>());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Profile, MeasuresWhereTheTimeOfACallGoes) {
  Loaded loaded = load(program());
  ASSERT_TRUE(loaded.status.ok());
  const TestTensor x({4}, ramp(4));
  const TestTensor y = TestTensor::empty<float>({4});
  ASSERT_TRUE(run(*loaded.delegate, {&x}, {&y}).ok());
  EXPECT_FALSE(loaded.delegate->last_times().hit);
  EXPECT_GT(loaded.delegate->last_times().build, 0);
  ASSERT_TRUE(run(*loaded.delegate, {&x}, {&y}).ok());
  EXPECT_TRUE(loaded.delegate->last_times().hit);
  EXPECT_EQ(loaded.delegate->last_times().build, 0);
  EXPECT_GT(loaded.delegate->last_times().compute, 0);
}

}  // namespace
}  // namespace executorch_ggml::testing
