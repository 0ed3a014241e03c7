#include "runtime/platform/mmap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <utility>

namespace executorch_ggml {
namespace {

// strerror is not thread-safe everywhere; the standard's category is.
std::string error_text(int code) { return std::generic_category().message(code); }

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

// Closes a descriptor on every early return.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// The mappings of this process, by their first byte.
class Mappings {
 public:
  struct Mapping {
    size_t size;
    int fd;
    std::string path;
  };

  static Mappings& instance() {
    static Mappings mappings;
    return mappings;
  }

  void add(const uint8_t* data, Mapping mapping) {
    const std::lock_guard lock(mutex_);
    mappings_[data] = std::move(mapping);
  }
  void remove(const uint8_t* data) {
    const std::lock_guard lock(mutex_);
    mappings_.erase(data);
  }

  // Calls use(mapping, offset) for the mapping that holds the bytes, which stays until it returns;
  // false: there is none.
  template <typename Use>
  bool find(const void* bytes, size_t size, const Use& use) {
    const std::shared_lock lock(mutex_);
    const auto* data = static_cast<const uint8_t*>(bytes);
    auto after = mappings_.upper_bound(data);
    if (after == mappings_.begin()) {
      return false;
    }
    const auto& [begin, mapping] = *--after;
    const auto offset = static_cast<size_t>(data - begin);
    if (offset > mapping.size || size > mapping.size - offset) {
      return false;
    }
    use(mapping, offset);
    return true;
  }

 private:
  std::shared_mutex mutex_;
  std::map<const uint8_t*, Mapping, std::less<>> mappings_;
};

Status read_whole(const Mappings::Mapping& file, size_t offset, uint8_t* target, size_t size) {
  while (size > 0) {
    const ssize_t count = ::pread(file.fd, target, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return make_error(
          StatusCode::InvalidExternalData, "cannot read %zu bytes at %zu of '%s': %s", size, offset,
          file.path.c_str(),
          count == 0 ? "the file was shortened while in use" : error_text(errno).c_str());
    }
    const auto done = static_cast<size_t>(count);
    offset += done;
    target += done;
    size -= done;
  }
  return {};
}

}  // namespace

MappedFile::~MappedFile() { close(); }

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    close();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    handle_ = std::exchange(other.handle_, -1);
  }
  return *this;
}

void MappedFile::close() noexcept {
  if (data_ != nullptr) {
    Mappings::instance().remove(data_);
    ::munmap(const_cast<uint8_t*>(data_), size_);
  }
  if (handle_ >= 0) ::close(static_cast<int>(handle_));
  data_ = nullptr;
  size_ = 0;
  handle_ = -1;
}

Status MappedFile::open(const std::string& path, MappedFile& out) {
  // O_NONBLOCK: opening a pipe must fail below, not wait for a writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const int code = errno;
    return make_error(code == ENOENT ? StatusCode::NotFound : StatusCode::InvalidExternalData,
                      "cannot open '%s': %s", path.c_str(), error_text(code).c_str());
  }
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) {
    return make_error(StatusCode::InvalidExternalData, "cannot read the size of '%s': %s",
                      path.c_str(), error_text(errno).c_str());
  }
  if (!S_ISREG(info.st_mode)) {
    return make_error(StatusCode::InvalidExternalData, "'%s' is %s; a regular file is needed",
                      path.c_str(), kind_of(info.st_mode));
  }
  if (info.st_size == 0) {
    return make_error(StatusCode::InvalidExternalData, "'%s' is empty", path.c_str());
  }
  const auto file_size = static_cast<uint64_t>(info.st_size);
  if (file_size > std::numeric_limits<size_t>::max()) {
    return make_error(StatusCode::InvalidExternalData,
                      "'%s' does not fit the address space of this machine", path.c_str());
  }
  const auto size = static_cast<size_t>(file_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    const int code = errno;
    return make_error(code == ENOMEM ? StatusCode::OutOfMemory : StatusCode::InvalidExternalData,
                      "cannot map '%s' (%zu bytes): %s", path.c_str(), size,
                      error_text(code).c_str());
  }
  MappedFile result;
  result.data_ = static_cast<const uint8_t*>(address);
  result.size_ = size;
  result.handle_ = file.release();
  result.path_ = path;
  Mappings::instance().add(result.data_,
                           {.size = size, .fd = static_cast<int>(result.handle_), .path = path});
  out = std::move(result);
  return {};
}

Status MappedFile::check_not_truncated() const {
  struct stat info = {};
  if (::fstat(static_cast<int>(handle_), &info) != 0) {
    return make_error(StatusCode::InvalidExternalData, "cannot read the size of '%s': %s",
                      path_.c_str(), error_text(errno).c_str());
  }
  if (static_cast<uint64_t>(info.st_size) < size_) {
    return make_error(StatusCode::InvalidExternalData,
                      "'%s' was shortened from %zu to %lld bytes while in use; restore it and load "
                      "it again",
                      path_.c_str(), size_, static_cast<long long>(info.st_size));
  }
  return {};
}

bool MappedFile::holds(const void* data, size_t size) {
  return Mappings::instance().find(data, size, [](const Mappings::Mapping&, size_t) {});
}

Status MappedFile::read(const void* data, size_t size, void* target) {
  Status status = make_error(StatusCode::InvalidState, "no mapped file holds these bytes");
  Mappings::instance().find(data, size, [&](const Mappings::Mapping& file, size_t offset) {
    status = read_whole(file, offset, static_cast<uint8_t*>(target), size);
  });
  return status;
}

void MappedFile::advise(Access access, size_t offset, size_t length) const {
  if (offset >= size_ || length == 0) return;
  length = std::min(length, size_ - offset);
  // madvise takes page-aligned addresses.
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = offset - offset % page;
  int advice = POSIX_MADV_NORMAL;
  switch (access) {
    case Access::Normal:
      break;
    case Access::Sequential:
      advice = POSIX_MADV_SEQUENTIAL;
      break;
    case Access::Random:
      advice = POSIX_MADV_RANDOM;
      break;
    case Access::WillNeed:
      advice = POSIX_MADV_WILLNEED;
      break;
  }
  // Only a hint: a kernel that does not take it costs nothing but time.
  (void)::posix_madvise(const_cast<uint8_t*>(data_) + begin, length + (offset - begin), advice);
}

}  // namespace executorch_ggml
