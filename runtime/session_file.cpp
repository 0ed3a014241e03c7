// Saved sessions.
//
//   "EGGMSESS"  u32 version  u32 states
//   per state:  u32 kind  u32 name length  name  i64 shape[9]  u64 bytes  content
//   u64 checksum of all before it
//
// Numbers are little-endian. `shape` is what must agree with the session's state:
// a cache's type, layout, head sizes, heads, batch, window and used positions, or
// a buffer's type and extents. A cache's content is its used rows, so a session
// with another capacity can take it.
#include <array>
#include <bit>
#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

#include "runtime/session.h"

namespace executorch_ggml {
namespace {

static_assert(std::endian::native == std::endian::little,
              "saved sessions are written in the machine's byte order");

constexpr std::array<char, 8> kMagic = {'E', 'G', 'G', 'M', 'S', 'E', 'S', 'S'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxNameLength = 4096;
constexpr size_t kUsedIndex = 7;

enum Kind : uint32_t { kCacheKind = 0, kBufferKind = 1 };

using Shape = std::array<int64_t, 9>;

Shape shape_of(const KvCache& cache) {
  return {cache.k()->type,
          cache.v_transposed() ? 1 : 0,
          cache.k_head_dim(),
          cache.v_head_dim(),
          cache.n_kv_heads(),
          cache.n_batch(),
          cache.window(),
          cache.used(),
          0};
}

Shape shape_of(const ggml_tensor& tensor) {
  return {tensor.type, tensor.ne[0], tensor.ne[1], tensor.ne[2], tensor.ne[3], 0, 0, 0, 0};
}

// FNV-1a, 64 bits: it finds torn and damaged files, not forged ones; every number
// read is checked on its own.
class Checksum {
 public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < size; ++i) {
      value_ = (value_ ^ bytes[i]) * 0x100000001b3ULL;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325ULL;
};

class Writer {
 public:
  explicit Writer(const std::string& path) : file_(path, std::ios::binary | std::ios::trunc) {}

  void bytes(const void* data, size_t size) {
    checksum_.add(data, size);
    file_.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  template <typename T>
  void number(T value) {
    bytes(&value, sizeof(value));
  }
  void state(Kind kind, const std::string& name, const Shape& shape,
             std::span<const uint8_t> content) {
    number(static_cast<uint32_t>(kind));
    number(static_cast<uint32_t>(name.size()));
    bytes(name.data(), name.size());
    bytes(shape.data(), sizeof(shape));
    number(static_cast<uint64_t>(content.size()));
    bytes(content.data(), content.size());
  }
  bool finish() {
    const uint64_t sum = checksum_.value();
    file_.write(reinterpret_cast<const char*>(&sum), sizeof(sum));
    file_.close();
    return !file_.fail();
  }

 private:
  std::ofstream file_;
  Checksum checksum_;
};

// Reads with the bytes that are left in view: no length is believed beyond them.
class Reader {
 public:
  Reader(const std::string& path, uint64_t size) : file_(path, std::ios::binary), left_(size) {}

  uint64_t left() const { return left_; }
  uint64_t offset() { return static_cast<uint64_t>(file_.tellg()); }
  uint64_t checksum() const { return checksum_.value(); }

  bool bytes(void* data, uint64_t size) {
    if (size > left_ || !file_.read(static_cast<char*>(data), static_cast<std::streamsize>(size))) {
      return false;
    }
    left_ -= size;
    checksum_.add(data, static_cast<size_t>(size));
    return true;
  }
  template <typename T>
  bool number(T& value) {
    return bytes(&value, sizeof(value));
  }
  bool skip(uint64_t size) {
    std::array<char, 1 << 16> block;
    while (size > 0) {
      const uint64_t n = std::min<uint64_t>(size, block.size());
      if (!bytes(block.data(), n)) {
        return false;
      }
      size -= n;
    }
    return true;
  }

 private:
  std::ifstream file_;
  uint64_t left_;
  Checksum checksum_;
};

struct Entry {
  uint32_t kind = 0;
  std::string name;
  Shape shape{};
  uint64_t size = 0;
  uint64_t offset = 0;  // of the content in the file
};

Status damaged(const std::string& path, const char* what) {
  return make_error(StatusCode::InvalidExternalData,
                    "'%s' is no complete session file: %s; the session is as it was", path.c_str(),
                    what);
}

// Reads the whole file once: structure and checksum.
Status read_entries(const std::string& path, std::vector<Entry>& out) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) {
    return make_error(StatusCode::NotFound, "cannot read session file '%s': %s", path.c_str(),
                      error.message().c_str());
  }
  Reader reader(path, size);
  std::array<char, kMagic.size()> magic{};
  uint32_t version = 0;
  uint32_t states = 0;
  if (!reader.number(magic) || magic != kMagic) {
    return damaged(path, "it does not begin with EGGMSESS");
  }
  if (!reader.number(version) || version != kVersion) {
    return make_error(StatusCode::InvalidExternalData,
                      "session file '%s' has version %u, this runtime reads version %u",
                      path.c_str(), version, kVersion);
  }
  if (!reader.number(states)) {
    return damaged(path, "it ends within the header");
  }
  for (uint32_t i = 0; i < states; ++i) {
    Entry entry;
    uint32_t length = 0;
    if (!reader.number(entry.kind) || !reader.number(length)) {
      return damaged(path, "it ends within a state's header");
    }
    if (entry.kind > kBufferKind || length > kMaxNameLength || length > reader.left()) {
      return damaged(path, "a state's header is out of range");
    }
    entry.name.resize(length);
    if (!reader.bytes(entry.name.data(), length) || !reader.number(entry.shape) ||
        !reader.number(entry.size)) {
      return damaged(path, "it ends within a state's header");
    }
    entry.offset = reader.offset();
    if (!reader.skip(entry.size)) {
      return damaged(path, "it ends within a state's content");
    }
    out.push_back(std::move(entry));
  }
  const uint64_t expected = reader.checksum();
  uint64_t stored = 0;
  if (!reader.number(stored) || reader.left() != 0 || stored != expected) {
    return damaged(path, "its checksum does not fit its content");
  }
  return {};
}

Status does_not_fit(const Entry& entry, const std::string& session) {
  return make_error(StatusCode::InvalidExternalData,
                    "the file's state '%s' does not fit session '%s': it is missing there, or its "
                    "type, layout or shape differ; restore with the program and options it was "
                    "saved with",
                    entry.name.c_str(), session.c_str());
}

}  // namespace

Status Session::save(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const std::string temporary = path + ".tmp";
  std::error_code error;
  bool written = false;
  {
    Writer writer(temporary);
    writer.number(kMagic);
    writer.number(kVersion);
    writer.number(static_cast<uint32_t>(caches_.size() + buffers_.size()));
    std::vector<uint8_t> content;
    for (const auto& [name, cache] : caches_) {
      content.resize(cache->used_bytes(cache->used()));
      cache->read_rows(content);
      writer.state(kCacheKind, name, shape_of(*cache), content);
    }
    for (const auto& [name, buffer] : buffers_) {
      content.resize(ggml_nbytes(buffer.tensor));
      ggml_backend_tensor_get(buffer.tensor, content.data(), 0, content.size());
      writer.state(kBufferKind, name, shape_of(*buffer.tensor), content);
    }
    written = writer.finish();
  }
  if (written) {
    std::filesystem::rename(temporary, path, error);
  }
  if (!written || error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    return make_error(StatusCode::InvalidArgument, "cannot write session file '%s'%s%s",
                      path.c_str(), error ? ": " : "; is the folder there, with room on the disk?",
                      error ? error.message().c_str() : "");
  }
  return {};
}

Status Session::restore(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  EG_RETURN_IF_ERROR(read_entries(path, entries));
  if (entries.size() != caches_.size() + buffers_.size()) {
    return make_error(StatusCode::InvalidExternalData,
                      "session file '%s' holds %zu states, session '%s' has %zu; restore with the "
                      "methods loaded that were loaded when it was saved",
                      path.c_str(), entries.size(), name_.c_str(),
                      caches_.size() + buffers_.size());
  }
  for (const Entry& entry : entries) {
    if (entry.kind == kCacheKind) {
      const auto found = caches_.find(entry.name);
      const int64_t used = entry.shape[kUsedIndex];
      if (found == caches_.end() || used < 0) {
        return does_not_fit(entry, name_);
      }
      const KvCache& cache = *found->second;
      Shape wanted = shape_of(cache);
      wanted[kUsedIndex] = used;
      if (entry.shape != wanted) {
        return does_not_fit(entry, name_);
      }
      if (used > cache.capacity()) {
        return make_error(StatusCode::InvalidState,
                          "session file '%s' holds %" PRId64
                          " positions, but cache '%s' has room "
                          "for %" PRId64 "; load with a larger context",
                          path.c_str(), used, entry.name.c_str(), cache.capacity());
      }
      if (entry.size != cache.used_bytes(used)) {
        return does_not_fit(entry, name_);
      }
    } else {
      const auto found = buffers_.find(entry.name);
      if (found == buffers_.end() || entry.shape != shape_of(*found->second.tensor) ||
          entry.size != ggml_nbytes(found->second.tensor)) {
        return does_not_fit(entry, name_);
      }
    }
  }
  // Every state fits and none can be named twice without another being missing.
  for (const Entry& entry : entries) {
    const auto same_name = [&](const Entry& other) { return other.name == entry.name; };
    if (std::count_if(entries.begin(), entries.end(), same_name) != 1) {
      return damaged(path, "a state occurs twice");
    }
  }
  std::ifstream file(path, std::ios::binary);
  std::vector<uint8_t> content;
  for (const Entry& entry : entries) {
    content.resize(static_cast<size_t>(entry.size));
    file.seekg(static_cast<std::streamoff>(entry.offset));
    if (!file.read(reinterpret_cast<char*>(content.data()),
                   static_cast<std::streamsize>(content.size()))) {
      for (const auto& [name, cache] : caches_) {
        cache->reset();
      }
      for (const auto& [name, buffer] : buffers_) {
        buffer.reset();
      }
      return make_error(StatusCode::InvalidExternalData,
                        "session file '%s' changed while it was read; the session was reset",
                        path.c_str());
    }
    if (entry.kind == kCacheKind) {
      caches_.at(entry.name)->write_rows(entry.shape[kUsedIndex], content);
    } else {
      ggml_backend_tensor_set(buffers_.at(entry.name).tensor, content.data(), 0, content.size());
    }
  }
  return {};
}

}  // namespace executorch_ggml
