// Memory that reads as zeros and is taken from the machine where it is written.
//
// The interface names no operating system; zero_pages.cpp is its POSIX body.
#pragma once

#include <cstddef>

namespace executorch_ggml {

class ZeroPages {
 public:
  ZeroPages() = default;
  ~ZeroPages();
  ZeroPages(const ZeroPages&) = delete;
  ZeroPages& operator=(const ZeroPages&) = delete;

  // Once. Page-aligned; false when the address space has no room.
  [[nodiscard]] bool allocate(size_t size);
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace executorch_ggml
