// Sessions: sharing, commands, and files that are torn, damaged or foreign.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "executorch_ggml/options.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "runtime/backend_options.h"
#include "runtime/session.h"
#include "tests/cpp/temp_file.h"

namespace executorch_ggml {
namespace {

using testing::TempFile;

State cache_state(const char* name, uint32_t head_dim = 4) {
  State state{};
  state.kind = StateKind::KvCache;
  state.name = name;
  state.k_head_dim = head_dim;
  state.v_head_dim = head_dim;
  state.n_kv_heads = 2;
  state.n_batch = 1;
  state.default_capacity = 16;
  state.max_capacity = 1024;
  return state;
}

KvConfig config_of(int64_t capacity = 0, bool flash = false) {
  return {CacheType::F32, flash, capacity, ggml_backend_cpu_buffer_type()};
}

BufferSpec buffer_spec(const char* name, std::span<const uint8_t> initial = {}) {
  return {name, GGML_TYPE_F32, {3, 2, 1, 1}, initial, ggml_backend_cpu_buffer_type()};
}

std::span<const uint8_t> bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

std::vector<float> read(const ggml_tensor* tensor) {
  std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor)));
  ggml_backend_tensor_get(tensor, values.data(), 0, ggml_nbytes(tensor));
  return values;
}

void fill(ggml_tensor* tensor, float value) {
  std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor)), value);
  ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
}

// A session with a cache of `used` positions, all `value`, and a buffer.
struct Conversation {
  std::shared_ptr<Session> session;
  KvCache* cache = nullptr;
  ggml_tensor* buffer = nullptr;

  explicit Conversation(const std::string& name, int64_t capacity = 0, bool with_buffer = true)
      : session(Session::acquire(name)) {
    EXPECT_TRUE(session->kv_cache(cache_state("layer.0"), config_of(capacity), cache).ok());
    if (with_buffer) {
      EXPECT_TRUE(session->buffer(buffer_spec("conv"), buffer).ok());
    }
  }
  void hold(int64_t used, float value) const {
    const std::vector<float> rows(cache->used_bytes(used) / sizeof(float), value);
    cache->write_rows(used, bytes_of(rows));
    if (buffer != nullptr) {
      fill(buffer, value);
    }
  }
  std::vector<float> rows() const {
    std::vector<float> values(cache->used_bytes(cache->used()) / sizeof(float));
    cache->read_rows({reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)});
    return values;
  }
};

TEST(Session, LivesWhileItIsReferredToAndIsFoundByName) {
  auto first = Session::acquire("alive");
  EXPECT_EQ(Session::acquire("alive"), first);
  EXPECT_EQ(Session::find("alive"), first);
  EXPECT_NE(Session::acquire("another"), first);
  first.reset();
  EXPECT_EQ(Session::find("alive"), nullptr);
  EXPECT_NE(Session::make_private(), Session::make_private());
}

TEST(Session, DefaultNameTellsProgramsAndTheirLoadsApart) {
  const int a = 0;
  const int b = 0;
  EXPECT_EQ(default_session_name("p", nullptr), "");
  EXPECT_EQ(default_session_name("p", &a), default_session_name("p", &a));
  EXPECT_NE(default_session_name("p", &a), default_session_name("p", &b));
  EXPECT_NE(default_session_name("p", &a), default_session_name("q", &a));
  EXPECT_EQ(default_session_name("p:1", &a).find(':'), std::string::npos);
}

TEST(Session, MethodsShareAStateByName) {
  const auto session = Session::make_private();
  KvCache* first = nullptr;
  KvCache* second = nullptr;
  ASSERT_TRUE(session->kv_cache(cache_state("layer.0"), config_of(), first).ok());
  ASSERT_TRUE(session->kv_cache(cache_state("layer.0"), config_of(), second).ok());
  EXPECT_EQ(first, second);
  EXPECT_EQ(session->kv_cache(cache_state("layer.0", 8), config_of(), second).code(),
            StatusCode::InvalidState);

  ggml_tensor* buffer = nullptr;
  ggml_tensor* again = nullptr;
  ASSERT_TRUE(session->buffer(buffer_spec("conv"), buffer).ok());
  ASSERT_TRUE(session->buffer(buffer_spec("conv"), again).ok());
  EXPECT_EQ(buffer, again);
  BufferSpec other = buffer_spec("conv");
  other.ne = {2, 3, 1, 1};
  const Status status = session->buffer(other, again);
  EXPECT_EQ(status.code(), StatusCode::InvalidState);
  EXPECT_NE(status.message().find("[3, 2, 1, 1]"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("[2, 3, 1, 1]"), std::string::npos) << status.message();

  EXPECT_EQ(session->buffer(buffer_spec("layer.0"), again).code(), StatusCode::InvalidState);
  EXPECT_EQ(session->kv_cache(cache_state("conv"), config_of(), second).code(),
            StatusCode::InvalidState);
}

TEST(Session, BuffersBeginWithTheirFirstContentAndReturnToIt) {
  const auto session = Session::make_private();
  const std::vector<float> initial = {1, 2, 3, 4, 5, 6};
  ggml_tensor* buffer = nullptr;
  ggml_tensor* zeros = nullptr;
  ASSERT_TRUE(session->buffer(buffer_spec("a", bytes_of(initial)), buffer).ok());
  ASSERT_TRUE(session->buffer(buffer_spec("b"), zeros).ok());
  EXPECT_EQ(read(buffer), initial);
  EXPECT_EQ(read(zeros), std::vector<float>(6, 0.0F));
  fill(buffer, 9.0F);
  fill(zeros, 9.0F);
  session->reset();
  EXPECT_EQ(read(buffer), initial);
  EXPECT_EQ(read(zeros), std::vector<float>(6, 0.0F));

  const std::vector<float> short_content = {1, 2};
  EXPECT_EQ(session->buffer(buffer_spec("c", bytes_of(short_content)), buffer).code(),
            StatusCode::InvalidExternalData);
  BufferSpec huge = buffer_spec("d");
  huge.ne = {int64_t{1} << 40, int64_t{1} << 40, 1, 1};
  EXPECT_EQ(session->buffer(huge, buffer).code(), StatusCode::OutOfMemory);
  huge.ne = {0, 1, 1, 1};
  EXPECT_EQ(session->buffer(huge, buffer).code(), StatusCode::InvalidProgram);
}

TEST(Session, RewindKeepsTheBeginning) {
  const Conversation c("rewind", 0, /*with_buffer=*/false);
  c.hold(10, 1.0F);
  EXPECT_EQ(c.session->used(), 10);
  EXPECT_EQ(c.session->rewind(11).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(c.session->rewind(-1).code(), StatusCode::InvalidArgument);
  ASSERT_TRUE(c.session->rewind(4).ok());
  EXPECT_EQ(c.session->used(), 4);
  EXPECT_EQ(c.rows(), std::vector<float>(4 * 8 * 2, 1.0F));
}

TEST(Session, ABufferCannotGoBack) {
  const Conversation c("no-rewind");
  c.hold(5, 1.0F);
  const Status status = c.session->rewind(3);
  EXPECT_EQ(status.code(), StatusCode::Unsupported);
  EXPECT_NE(status.message().find("conv"), std::string::npos);
  EXPECT_EQ(c.session->used(), 5);
  EXPECT_TRUE(c.session->rewind(5).ok());
}

TEST(Session, ForkCopiesAndThenBothGoTheirOwnWay) {
  const Conversation from("from");
  const Conversation to("to");
  from.hold(6, 2.0F);
  to.hold(9, 3.0F);
  ASSERT_TRUE(Session::fork(*from.session, *to.session).ok());
  EXPECT_EQ(to.cache->used(), 6);
  EXPECT_EQ(to.rows(), from.rows());
  EXPECT_EQ(read(to.buffer), read(from.buffer));
  from.hold(2, 7.0F);
  EXPECT_EQ(to.cache->used(), 6);
  EXPECT_EQ(to.rows(), std::vector<float>(6 * 8 * 2, 2.0F));
}

TEST(Session, AForkThatDoesNotFitChangesNothing) {
  const Conversation from("fork-from");
  const Conversation larger("fork-larger", 64);
  const Conversation without("fork-without", 0, /*with_buffer=*/false);
  from.hold(6, 2.0F);
  larger.hold(3, 5.0F);
  without.hold(3, 5.0F);
  EXPECT_EQ(Session::fork(*from.session, *larger.session).code(), StatusCode::InvalidState);
  EXPECT_EQ(Session::fork(*from.session, *without.session).code(), StatusCode::InvalidState);
  EXPECT_EQ(Session::fork(*without.session, *from.session).code(), StatusCode::InvalidState);
  EXPECT_EQ(larger.rows(), std::vector<float>(3 * 8 * 2, 5.0F));
  EXPECT_EQ(without.rows(), std::vector<float>(3 * 8 * 2, 5.0F));
  EXPECT_EQ(from.rows(), std::vector<float>(6 * 8 * 2, 2.0F));
  EXPECT_TRUE(Session::fork(*from.session, *from.session).ok());
}

TEST(SessionFile, RestoresWhatWasSavedIntoAnotherCapacity) {
  const TempFile file({});
  const Conversation saved("saved");
  saved.hold(12, 1.5F);
  ASSERT_TRUE(saved.session->save(file.path()).ok());
  const Conversation restored("restored", 600);
  restored.hold(20, 9.0F);
  const Status status = restored.session->restore(file.path());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(restored.cache->used(), 12);
  EXPECT_EQ(restored.rows(), saved.rows());
  EXPECT_EQ(read(restored.buffer), read(saved.buffer));

  const Conversation small("small", 10);
  const Status too_small = small.session->restore(file.path());
  EXPECT_EQ(too_small.code(), StatusCode::InvalidState);
  EXPECT_NE(too_small.message().find("12 positions"), std::string::npos) << too_small.message();
  const Conversation other("other-states", 0, /*with_buffer=*/false);
  EXPECT_EQ(other.session->restore(file.path()).code(), StatusCode::InvalidExternalData);
}

TEST(SessionFile, EveryTruncationAndEveryDamagedByteIsRefusedAndChangesNothing) {
  const TempFile file({});
  const Conversation c("torn");
  c.hold(3, 1.0F);
  ASSERT_TRUE(c.session->save(file.path()).ok());
  std::ifstream stream(file.path(), std::ios::binary);
  const std::vector<uint8_t> good((std::istreambuf_iterator<char>(stream)),
                                  std::istreambuf_iterator<char>());
  ASSERT_GT(good.size(), 300U);
  c.hold(5, 4.0F);
  const std::vector<float> before = c.rows();
  const auto refused = [&](const std::vector<uint8_t>& bytes) {
    const TempFile damaged(bytes);
    const Status status = c.session->restore(damaged.path());
    return !status.ok() && c.cache->used() == 5 && c.rows() == before;
  };
  for (size_t size = 0; size < good.size(); size += size < 64 ? 1 : 13) {
    EXPECT_TRUE(refused({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)})) << size;
  }
  for (size_t at = 0; at < good.size(); at += at < 128 ? 1 : 7) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::vector<uint8_t> bytes = good;
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ flip);
      EXPECT_TRUE(refused(bytes)) << "byte " << at;
    }
  }
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  EXPECT_TRUE(refused(longer));
  EXPECT_EQ(c.session->restore("/nonexistent/session").code(), StatusCode::NotFound);
  EXPECT_FALSE(c.session->save("/nonexistent/session").ok());
  const TempFile sound(good);
  EXPECT_TRUE(c.session->restore(sound.path()).ok());
  EXPECT_EQ(c.cache->used(), 3);
}

TEST(Commands, ActOnTheNamedSession) {
  const Conversation a("a", 0, /*with_buffer=*/false);
  const Conversation b("b", 0, /*with_buffer=*/false);
  a.hold(8, 1.0F);
  b.hold(2, 2.0F);
  ASSERT_TRUE(run_command(command::kRewind, "a:5").ok());
  EXPECT_EQ(a.session->used(), 5);
  ASSERT_TRUE(run_command(command::kFork, "a:b").ok());
  EXPECT_EQ(b.rows(), a.rows());
  const TempFile file({}, ":with-colon");
  ASSERT_TRUE(run_command(command::kSave, "a:" + file.path()).ok());
  ASSERT_TRUE(run_command(command::kReset, "a").ok());
  EXPECT_EQ(a.session->used(), 0);
  ASSERT_TRUE(run_command(command::kRestore, "a:" + file.path()).ok());
  EXPECT_EQ(a.session->used(), 5);
}

TEST(Commands, ErrorsNameWhatIsAccepted) {
  const Conversation a("known-session");
  const Status unknown = run_command("clear", "known-session");
  EXPECT_EQ(unknown.code(), StatusCode::InvalidArgument);
  EXPECT_NE(unknown.message().find("reset, rewind"), std::string::npos) << unknown.message();
  const Status missing = run_command(command::kReset, "nobody");
  EXPECT_EQ(missing.code(), StatusCode::NotFound);
  EXPECT_NE(missing.message().find("'known-session'"), std::string::npos) << missing.message();
  for (const char* bad :
       {"known-session", "known-session:", "known-session:x", ":", "known-session:1.5"}) {
    EXPECT_FALSE(run_command(command::kRewind, bad).ok()) << bad;
  }
}

TEST(Commands, QueriesAnswerThroughGetOption) {
  const Conversation c("queried");
  c.hold(7, 1.0F);
  executorch::runtime::BackendOptions<2> options;
  ASSERT_EQ(options.set_option("used", "queried"), executorch::runtime::Error::Ok);
  ASSERT_EQ(options.set_option("capacity", "queried"), executorch::runtime::Error::Ok);
  const Status status = get_options(options.view());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(std::get<int>(options.view()[0].value), 7);
  EXPECT_EQ(std::get<int>(options.view()[1].value), 256);
}

TEST(Session, ManyThreadsAskForTheSameSession) {
  std::vector<std::shared_ptr<Session>> found(8);
  std::vector<std::thread> threads;
  for (auto& slot : found) {
    threads.emplace_back([&slot] {
      slot = Session::acquire("contended");
      KvCache* cache = nullptr;
      EXPECT_TRUE(slot->kv_cache(cache_state("layer.0"), config_of(), cache).ok());
      slot->reset();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& session : found) {
    EXPECT_EQ(session, found.front());
  }
}

}  // namespace
}  // namespace executorch_ggml
