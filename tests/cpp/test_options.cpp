// Load options: precedence, parsing, and errors that say what is accepted.
#include <gtest/gtest.h>

#include <map>

#include "executorch_ggml/options.h"
#include "runtime/backend_options.h"
#include "runtime/options.h"
#include "runtime/platform/cpu_affinity.h"
#include "runtime/platform/system_info.h"

namespace executorch_ggml {
namespace {

using Settings = std::vector<OptionSetting>;
using Environment = std::map<std::string, std::string>;

Status resolve(const Settings& specs, const Environment& environment, const Settings& compile,
               RuntimeOptions& out) {
  const auto lookup = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  return resolve_options(specs, lookup, compile, out);
}

RuntimeOptions resolved(const Settings& specs, const Environment& environment = {},
                        const Settings& compile = {}) {
  RuntimeOptions out;
  const Status status = resolve(specs, environment, compile, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

std::string error_of(const Settings& specs, const Environment& environment = {}) {
  RuntimeOptions out;
  const Status status = resolve(specs, environment, {}, out);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  return status.message();
}

bool mentions(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    if (text.find(word) == std::string::npos) {
      ADD_FAILURE() << "'" << word << "' is not in: " << text;
      return false;
    }
  }
  return true;
}

TEST(Options, DefaultsAreTheDocumentedOnes) {
  const RuntimeOptions options = resolved({});
  EXPECT_EQ(options.n_threads, physical_core_count());
  EXPECT_EQ(options.device, "cpu");
  EXPECT_EQ(options.cache_type, CacheType::F16);
  EXPECT_TRUE(options.use_flash_attention());
  EXPECT_TRUE(options.use_flash_without_cache(/*has_mask=*/false));
  EXPECT_FALSE(options.use_flash_without_cache(/*has_mask=*/true));
  EXPECT_EQ(options.kernels, KernelChoice::Own);
  EXPECT_EQ(options.context, 0);
  EXPECT_TRUE(options.graph_cache);
  EXPECT_TRUE(options.mmap);
  EXPECT_FALSE(options.profile);
  EXPECT_FALSE(options.perf_log);
  EXPECT_TRUE(options.debug_dump.empty());
}

TEST(Options, RuntimeSpecBeatsEnvironmentBeatsCompileSpec) {
  const Settings compile = {{option::kContext, std::string("100")},
                            {option::kCacheType, std::string("f32")},
                            {option::kNumThreads, std::string("3")}};
  const Environment environment = {{"GGML_CONTEXT", "200"}, {"GGML_CACHE_TYPE", "q8_0"}};
  const RuntimeOptions options = resolved({{option::kContext, int64_t{300}}}, environment, compile);
  EXPECT_EQ(options.context, 300);
  EXPECT_EQ(options.cache_type, CacheType::Q8_0);
  EXPECT_EQ(options.n_threads, 3);
}

TEST(Options, EnvironmentVariablesOfTheSpecAreRead) {
  const RuntimeOptions options = resolved({}, {{"GGML_BACKEND_DEVICE", "CPU"},
                                               {"GGML_PERF_LOG", "1"},
                                               {"GGML_PROFILE", "1"},
                                               {"GGML_NO_GRAPH_CACHE", "1"},
                                               {"GGML_NO_MMAP", "1"},
                                               {"GGML_DEBUG_DUMP", "/tmp/dump.txt"}});
  EXPECT_TRUE(options.device_is_cpu());
  EXPECT_TRUE(options.perf_log);
  EXPECT_TRUE(options.profile);
  EXPECT_FALSE(options.graph_cache);
  EXPECT_FALSE(options.mmap);
  EXPECT_EQ(options.debug_dump, "/tmp/dump.txt");
  EXPECT_TRUE(resolved({}, {{"GGML_NO_GRAPH_CACHE", "0"}}).graph_cache);
}

TEST(Options, AnEmptyVariableIsNotSet) {
  EXPECT_EQ(resolved({}, {{"GGML_CACHE_TYPE", ""}}).cache_type, CacheType::F16);
}

TEST(Options, NumbersAndBooleansMayBeText) {
  for (const OptionValue& yes :
       {OptionValue(true), OptionValue(int64_t{1}), OptionValue(std::string("On"))}) {
    EXPECT_TRUE(resolved({{option::kProfile, yes}}).profile);
  }
  EXPECT_EQ(resolved({{option::kNumThreads, std::string("4")}}).n_threads, 4);
}

TEST(Options, AnUnknownKeyListsTheAcceptedOnes) {
  mentions(error_of({{"n_thread", int64_t{4}}}),
           {"n_thread", "n_threads", "cache_type", "session"});
}

TEST(Options, ABadValueNamesKeySourceAndWhatIsAccepted) {
  mentions(error_of({{option::kCacheType, std::string("q4_0")}}),
           {"load option", "cache_type", "q4_0", "f32, f16 or q8_0"});
  mentions(error_of({}, {{"GGML_N_THREADS", "many"}}), {"GGML_N_THREADS", "many", "whole number"});
  mentions(error_of({}, {{"GGML_NO_GRAPH_CACHE", "maybe"}}), {"GGML_NO_GRAPH_CACHE", "maybe"});
  for (const char* bad : {"", "4x", "-1", "99999999999999999999", "1.5"}) {
    error_of({{option::kContext, std::string(bad)}});
  }
  error_of({{option::kContext, true}});
  error_of({{option::kSession, std::string("a:b")}});  // commands split at the colon
}

TEST(Options, ThreadsAreBoundToTheCpusNamed) {
  const std::vector<int> allowed = allowed_cpus();
  if (allowed.empty()) {
    GTEST_SKIP() << "this system does not bind threads";
  }
  const auto of = [](const OptionValue& affinity, int64_t n_threads = 0) {
    return resolved({{option::kAffinity, affinity}, {option::kNumThreads, n_threads}});
  };
  const std::string first = std::to_string(allowed.front());
  EXPECT_EQ(of(first).placement.cpus, std::vector{allowed.front()});
  EXPECT_EQ(of(first).n_threads, 1);
  EXPECT_EQ(of(int64_t{allowed.front()}, 3).n_threads, 3);
  EXPECT_EQ(of(std::string("none")).placement.cpus, std::vector<int>{});
  const auto all = static_cast<int64_t>(allowed.size());
  EXPECT_EQ(of(std::string("auto"), all).placement.cpus, all > 1 ? allowed : std::vector<int>{});
  EXPECT_EQ(of(std::string("auto"), all + 1).placement.cpus, std::vector<int>{});
  if (all == allowed.back() + 1) {
    const std::string list = "0-" + std::to_string(all - 1);
    EXPECT_EQ(of(list).placement.cpus, allowed);
    EXPECT_EQ(of(list).n_threads, all);
  }
  mentions(error_of({{option::kAffinity, std::string("1023")}}), {"affinity", "1023", "CPUs"});
  for (const char* bad :
       {"", "-", "0-", "1-0", "0,0", "0-2,1", "0,0-1", "0,", ",0", "a", "2000", "0 1"}) {
    mentions(error_of({{option::kAffinity, std::string(bad)}}), {"affinity", "auto", "0-3,8"});
  }
}

TEST(Options, ExecuTorchsThreadsStayWhereTheyAre) {
  const std::string shared = "executorch";
  EXPECT_EQ(resolved({}).threads, ThreadSource::Own);
  const RuntimeOptions options =
      resolved({{option::kNumThreads, static_cast<int64_t>(allowed_cpus().size())}},
               {{"GGML_THREAD_POOL", shared}});
  EXPECT_EQ(options.threads, ThreadSource::ExecuTorch);
  EXPECT_TRUE(options.placement.cpus.empty());
  mentions(error_of({{option::kThreadPool, shared}, {option::kAffinity, std::string("0")}}),
           {"affinity", "thread_pool", "leave one of them out"});
  mentions(error_of({{option::kThreadPool, shared}, {option::kKernels, std::string("ggml")}}),
           {"thread_pool", "kernels", "leave one of them out"});
  mentions(error_of({{option::kThreadPool, std::string("mine")}}),
           {"thread_pool", "own or executorch"});
}

TEST(Options, UnknownCompileSpecsBelongToTheExporter) {
  EXPECT_EQ(resolved({}, {}, {{"strict", std::string("1")}}).device, "cpu");
}

TEST(Options, GgmlsKernelsAttendExactlyOverF32) {
  const RuntimeOptions f32 = resolved({{option::kCacheType, std::string("f32")}});
  EXPECT_TRUE(f32.use_flash_attention());
  const RuntimeOptions ggml =
      resolved({{option::kCacheType, std::string("f32")}}, {{"GGML_KERNELS", "ggml"}});
  EXPECT_EQ(ggml.kernels, KernelChoice::Ggml);
  EXPECT_FALSE(ggml.use_flash_attention());
  EXPECT_FALSE(ggml.use_flash_without_cache(/*has_mask=*/false));
  mentions(error_of({{option::kKernels, std::string("mine")}}), {"kernels", "own", "ggml"});
}

TEST(Options, AQuantizedCacheBringsFlashAttentionAndRefusesItsAbsence) {
  EXPECT_TRUE(resolved({{option::kCacheType, std::string("q8_0")}}).use_flash_attention());
  mentions(error_of({{option::kCacheType, std::string("q8_0")}, {option::kFlashAttention, false}}),
           {"q8_0", "flash_attention", "exclude"});
}

TEST(Options, FlashAttentionIsTheDefaultOffTheCpu) {
  EXPECT_TRUE(resolved({{option::kDevice, std::string("CUDA0")}}).use_flash_attention());
}

TEST(Options, ExecuTorchSpecsAreReadByType) {
  using executorch::runtime::BackendOptions;
  BackendOptions<4> given;
  ASSERT_EQ(given.set_option("n_threads", 2), executorch::runtime::Error::Ok);
  ASSERT_EQ(given.set_option("perf_log", true), executorch::runtime::Error::Ok);
  ASSERT_EQ(given.set_option("session", "conversation"), executorch::runtime::Error::Ok);
  const auto view = given.view();
  const executorch::runtime::BackendInitContext context(nullptr, nullptr, "forward", nullptr,
                                                        {view.data(), view.size()});
  // A compile spec is bytes without a terminator.
  char type[] = {'f', '3', '2'};
  executorch::runtime::CompileSpec spec{"cache_type", {type, sizeof(type)}};
  RuntimeOptions options;
  const Status status = options_of_load(context, {&spec, 1}, options);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(options.n_threads, 2);
  EXPECT_TRUE(options.perf_log);
  EXPECT_EQ(options.session, "conversation");
  EXPECT_EQ(options.cache_type, CacheType::F32);
}

}  // namespace
}  // namespace executorch_ggml
