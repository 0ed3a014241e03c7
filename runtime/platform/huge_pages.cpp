#include "runtime/platform/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace executorch_ggml {

void prefer_huge_pages(void* data, size_t size) {
#if defined(MADV_HUGEPAGE)
  // The usual size of a large page. Memory of few of them would mostly be spent on their ends.
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  constexpr size_t kLeast = 2 * kPage;
  if (size < kLeast) {
    return;
  }
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + size) / kPage * kPage;
  if (begin < end) {
    (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
#else
  (void)data;
  (void)size;
#endif
}

}  // namespace executorch_ggml
