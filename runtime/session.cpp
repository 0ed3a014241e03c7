#include "runtime/session.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <unordered_map>

#include "runtime/platform/system_info.h"

namespace executorch_ggml {
namespace {

// Process-wide, never destroyed: a handle may be released during exit.
struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<Session>> sessions;
};

Registry& registry() {
  static auto* instance = std::make_unique<Registry>().release();
  return *instance;
}

std::string extents(const std::array<int64_t, 4>& ne) {
  char text[4 * 20 + 9];
  std::snprintf(text, sizeof(text), "[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", ne[0],
                ne[1], ne[2], ne[3]);
  return text;
}

std::array<int64_t, 4> extents_of(const ggml_tensor& tensor) {
  return {tensor.ne[0], tensor.ne[1], tensor.ne[2], tensor.ne[3]};
}

}  // namespace

std::shared_ptr<Session> Session::acquire(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.sessions, [](const auto& entry) { return entry.second.expired(); });
  if (std::shared_ptr<Session> found = all.sessions[name].lock()) {
    return found;
  }
  auto made = std::make_shared<Session>(name);
  all.sessions[name] = made;
  return made;
}

std::shared_ptr<Session> Session::find(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.sessions.find(name);
  return found == all.sessions.end() ? nullptr : found->second.lock();
}

std::shared_ptr<Session> Session::make_private() {
  static std::atomic<uint64_t> count = 0;
  return std::make_shared<Session>(std::string("private#").append(std::to_string(++count)));
}

std::string Session::names() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> live;
  for (const auto& [name, session] : all.sessions) {
    if (!session.expired()) {
      live.push_back(std::string("'").append(name).append("'"));
    }
  }
  std::sort(live.begin(), live.end());
  std::string text;
  for (const std::string& name : live) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

Status Session::kv_cache(const State& state, const KvConfig& config, KvCache*& out) {
  const std::lock_guard lock(mutex_);
  if (buffers_.contains(state.name)) {
    return make_error(StatusCode::InvalidState,
                      "state '%s' is a buffer in session '%s', but this method needs a cache",
                      state.name.c_str(), name_.c_str());
  }
  const auto found = caches_.find(state.name);
  if (found != caches_.end()) {
    EG_RETURN_IF_ERROR(found->second->check_agrees(state, config));
    out = found->second.get();
    return {};
  }
  std::unique_ptr<KvCache> made;
  EG_RETURN_IF_ERROR(KvCache::create(state, config, made));
  out = made.get();
  caches_.emplace(state.name, std::move(made));
  return {};
}

void Session::Buffer::reset() const {
  if (initial.empty()) {
    ggml_backend_buffer_clear(memory.get(), 0);
  } else {
    ggml_backend_tensor_set(tensor, initial.data(), 0, initial.size());
  }
}

Status Session::make_buffer(const BufferSpec& spec, Buffer& out) const {
  const int64_t block = ggml_blck_size(spec.type);
  double bytes = static_cast<double>(ggml_type_size(spec.type)) / static_cast<double>(block);
  bool sane = spec.ne[0] % block == 0;
  for (const int64_t n : spec.ne) {
    sane = sane && n > 0;
    bytes *= static_cast<double>(n);
  }
  if (!sane) {
    return make_error(StatusCode::InvalidProgram, "state '%s': %s%s is no valid shape",
                      spec.name.c_str(), ggml_type_name(spec.type), extents(spec.ne).c_str());
  }
  const double memory = static_cast<double>(physical_memory_bytes());
  const auto out_of_memory = [&] {
    return make_error(StatusCode::OutOfMemory, "cannot allocate %.0f bytes for state '%s' (%s%s)",
                      bytes, spec.name.c_str(), ggml_type_name(spec.type),
                      extents(spec.ne).c_str());
  };
  if (bytes > 9.0e18 || (memory > 0 && bytes > memory)) {
    return out_of_memory();
  }
  const ggml_init_params params = {ggml_tensor_overhead(), nullptr, /*no_alloc=*/true};
  out.context.reset(ggml_init(params));
  if (!out.context) {
    return out_of_memory();
  }
  out.tensor = ggml_new_tensor(out.context.get(), spec.type, 4, spec.ne.data());
  ggml_format_name(out.tensor, "%.56s", spec.name.c_str());
  if (!spec.initial.empty() && spec.initial.size() != ggml_nbytes(out.tensor)) {
    return make_error(StatusCode::InvalidExternalData,
                      "state '%s': its first content has %zu bytes, expected %zu for %s%s",
                      spec.name.c_str(), spec.initial.size(), ggml_nbytes(out.tensor),
                      ggml_type_name(spec.type), extents(spec.ne).c_str());
  }
  out.memory.reset(ggml_backend_alloc_ctx_tensors_from_buft(out.context.get(), spec.buffer_type));
  if (!out.memory) {
    return out_of_memory();
  }
  out.buffer_type = spec.buffer_type;
  out.initial.assign(spec.initial.begin(), spec.initial.end());
  out.reset();
  return {};
}

Status Session::buffer(const BufferSpec& spec, ggml_tensor*& out) {
  const std::lock_guard lock(mutex_);
  if (caches_.contains(spec.name)) {
    return make_error(StatusCode::InvalidState,
                      "state '%s' is a cache in session '%s', but this method needs a buffer",
                      spec.name.c_str(), name_.c_str());
  }
  const auto found = buffers_.find(spec.name);
  if (found != buffers_.end()) {
    const ggml_tensor& tensor = *found->second.tensor;
    if (tensor.type != spec.type || extents_of(tensor) != spec.ne ||
        found->second.buffer_type != spec.buffer_type) {
      return make_error(StatusCode::InvalidState,
                        "state '%s' is %s%s in %s memory in session '%s', but this method needs "
                        "%s%s in %s memory; give it another session",
                        spec.name.c_str(), ggml_type_name(tensor.type),
                        extents(extents_of(tensor)).c_str(),
                        ggml_backend_buft_name(found->second.buffer_type), name_.c_str(),
                        ggml_type_name(spec.type), extents(spec.ne).c_str(),
                        ggml_backend_buft_name(spec.buffer_type));
    }
    out = found->second.tensor;
    return {};
  }
  Buffer made;
  EG_RETURN_IF_ERROR(make_buffer(spec, made));
  out = made.tensor;
  buffers_.emplace(spec.name, std::move(made));
  return {};
}

void Session::reset() {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, cache] : caches_) {
    cache->reset();
  }
  for (const auto& [name, buffer] : buffers_) {
    buffer.reset();
  }
}

Status Session::rewind(int64_t position) {
  const std::lock_guard lock(mutex_);
  int64_t held = 0;
  for (const auto& [name, cache] : caches_) {
    held = std::max(held, cache->used());
  }
  if (position < 0 || position > held) {
    return make_error(StatusCode::InvalidArgument,
                      "cannot rewind session '%s' to position %" PRId64 ": it holds %" PRId64,
                      name_.c_str(), position, held);
  }
  if (position < held && !buffers_.empty()) {
    return make_error(StatusCode::Unsupported,
                      "session '%s' has state that cannot go back ('%s'); reset it, or restore a "
                      "saved state",
                      name_.c_str(), buffers_.begin()->first.c_str());
  }
  for (const auto& [name, cache] : caches_) {
    cache->truncate(position);
  }
  return {};
}

int64_t Session::used() {
  const std::lock_guard lock(mutex_);
  int64_t used = 0;
  for (const auto& [name, cache] : caches_) {
    used = std::max(used, cache->used());
  }
  return used;
}

int64_t Session::capacity() {
  const std::lock_guard lock(mutex_);
  int64_t capacity = 0;
  for (const auto& [name, cache] : caches_) {
    capacity = capacity == 0 ? cache->capacity() : std::min(capacity, cache->capacity());
  }
  return capacity;
}

Status Session::fork(Session& from, Session& to) {
  if (&from == &to) {
    return {};
  }
  const std::scoped_lock lock(from.mutex_, to.mutex_);
  // All checks first: a fork that fails leaves the target as it was.
  const auto missing = [&](const std::string& name) {
    return make_error(StatusCode::InvalidState,
                      "cannot copy session '%s' over '%s': both need a state '%s'; load the same "
                      "methods for both",
                      from.name_.c_str(), to.name_.c_str(), name.c_str());
  };
  for (const auto& [name, cache] : from.caches_) {
    const auto target = to.caches_.find(name);
    if (target == to.caches_.end()) {
      return missing(name);
    }
    EG_RETURN_IF_ERROR(target->second->check_same_layout(*cache));
  }
  for (const auto& [name, buffer] : from.buffers_) {
    const auto target = to.buffers_.find(name);
    if (target == to.buffers_.end()) {
      return missing(name);
    }
    const ggml_tensor& a = *buffer.tensor;
    const ggml_tensor& b = *target->second.tensor;
    if (a.type != b.type || !ggml_are_same_shape(&a, &b)) {
      return make_error(StatusCode::InvalidState,
                        "state '%s' is %s%s in session '%s' and %s%s in session '%s'", name.c_str(),
                        ggml_type_name(a.type), extents(extents_of(a)).c_str(), from.name_.c_str(),
                        ggml_type_name(b.type), extents(extents_of(b)).c_str(), to.name_.c_str());
    }
  }
  if (from.caches_.size() != to.caches_.size() || from.buffers_.size() != to.buffers_.size()) {
    return make_error(StatusCode::InvalidState,
                      "cannot copy session '%s' over '%s': it has %zu states, the other %zu; load "
                      "the same methods for both",
                      from.name_.c_str(), to.name_.c_str(),
                      from.caches_.size() + from.buffers_.size(),
                      to.caches_.size() + to.buffers_.size());
  }
  for (const auto& [name, cache] : from.caches_) {
    to.caches_.at(name)->copy_from(*cache);
  }
  for (const auto& [name, buffer] : from.buffers_) {
    ggml_backend_tensor_copy(buffer.tensor, to.buffers_.at(name).tensor);
  }
  return {};
}

std::string default_session_name(const std::string& program_id, const void* data_map) {
  if (data_map == nullptr) {
    return {};
  }
  char address[2 + 2 * sizeof(void*) + 1];
  std::snprintf(address, sizeof(address), "%" PRIxPTR, reinterpret_cast<uintptr_t>(data_map));
  // '#' and no ':' keeps it apart from given names and usable in commands.
  std::string name = program_id + "#" + address;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

}  // namespace executorch_ggml
