// Memory aligned for ggml's kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "runtime/platform/huge_pages.h"

namespace executorch_ggml {

// Named data is stored with this alignment; ggml asks for 32 bytes on the CPU.
inline constexpr size_t kBufferAlignment = 64;

// Rounded up to whole units of that alignment.
inline size_t aligned_size(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

inline bool is_aligned(const void* data, size_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

// Grows on demand, never shrinks; growing loses the content.
class AlignedBuffer {
 public:
  // False when there is no memory; the old content is gone then too.
  [[nodiscard]] bool reserve(size_t size) {
    if (size <= size_) {
      return true;
    }
    memory_.reset();
    memory_.reset(::operator new(size, std::align_val_t{kBufferAlignment}, std::nothrow));
    size_ = memory_ != nullptr ? size : 0;
    prefer_huge_pages(memory_.get(), size_);
    return memory_ != nullptr;
  }
  void* data() const { return memory_.get(); }
  size_t size() const { return size_; }

 private:
  struct Deleter {
    void operator()(void* memory) const {
      ::operator delete(memory, std::align_val_t{kBufferAlignment});
    }
  };
  std::unique_ptr<void, Deleter> memory_;
  size_t size_ = 0;
};

}  // namespace executorch_ggml
