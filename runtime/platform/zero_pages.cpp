#include "runtime/platform/zero_pages.h"

#include <sys/mman.h>

#include "runtime/platform/huge_pages.h"

namespace executorch_ggml {

ZeroPages::~ZeroPages() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

bool ZeroPages::allocate(size_t size) {
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return false;
  }
  prefer_huge_pages(data, size);
  data_ = data;
  size_ = size;
  return true;
}

}  // namespace executorch_ggml
