// What outlives a call: the caches and mutable buffers of one conversation, shared
// by the methods (and partitions) that name the same session.
//
// A session lives while a handle refers to it. One call runs on it at a time; a
// second one waits. Lock order: registry, then sessions by address.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "runtime/kv_cache.h"
#include "runtime/options.h"
#include "runtime/program.h"
#include "runtime/state_binding.h"
#include "runtime/status.h"

namespace executorch_ggml {

struct BufferSpec {
  std::string name;
  ggml_type type = GGML_TYPE_F32;
  std::array<int64_t, 4> ne = {1, 1, 1, 1};
  std::span<const uint8_t> initial;  // empty: zeros; else the tensor's bytes
  ggml_backend_buffer_type_t buffer_type = nullptr;
};

class Session {
 public:
  explicit Session(std::string name) : name_(std::move(name)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The session of that name, made if there is none.
  static std::shared_ptr<Session> acquire(const std::string& name);
  // The session of that name, or null.
  static std::shared_ptr<Session> find(const std::string& name);
  // A session that no other load can name.
  static std::shared_ptr<Session> make_private();
  // The names in use, "'a', 'b'", for messages.
  static std::string names();

  const std::string& name() const { return name_; }
  std::mutex& mutex() { return mutex_; }

  // The named state, made on first use. An existing one must agree; the error
  // lists both. The pointers stay valid for the session's life.
  Status kv_cache(const State& state, const KvConfig& config, KvCache*& out);
  Status buffer(const BufferSpec& spec, ggml_tensor*& out);

  // The commands below lock the session themselves.
  void reset();
  // Keeps positions 0 .. position-1. Errors: beyond what is held; buffers, which
  // cannot go back, are part of the state.
  Status rewind(int64_t position);
  int64_t used();
  int64_t capacity();  // of the smallest cache; 0 without caches
  Status save(const std::string& path);
  // Nothing changes unless the whole file is sound and fits.
  Status restore(const std::string& path);
  // Copies the state of `from` over that of `to`.
  static Status fork(Session& from, Session& to);

 private:
  struct Buffer {
    ggml_context_ptr context;
    ggml_backend_buffer_ptr memory;
    ggml_tensor* tensor = nullptr;
    ggml_backend_buffer_type_t buffer_type = nullptr;
    std::vector<uint8_t> initial;

    void reset() const;
  };

  Status make_buffer(const BufferSpec& spec, Buffer& out) const;

  const std::string name_;
  std::mutex mutex_;
  // Ordered, so that a saved file does not depend on hashing.
  std::map<std::string, std::unique_ptr<KvCache>> caches_;
  std::map<std::string, Buffer> buffers_;
};

// The session for a load without a name: one per program and data map, so that
// the methods of one loaded program share it; null when there is no map to tell
// programs apart (then it is private to the handle).
std::string default_session_name(const std::string& program_id, const void* data_map);

// Reads the first content of a buffer by its key.
using InitialData = std::function<Status(const std::string& key, std::vector<uint8_t>& out)>;

// Binds the states of `graph` to `session`; errors are those of the states, and
// Unsupported for uses of a cache that this version does not have.
Status bind_session(std::shared_ptr<Session> session, const Graph& graph,
                    const RuntimeOptions& options, ggml_backend_buffer_type_t buffer_type,
                    const InitialData& initial_data, std::unique_ptr<StateBinding>& out);

}  // namespace executorch_ggml
