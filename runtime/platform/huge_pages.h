// Large pages for memory that is read and written as a whole.
#pragma once

#include <cstddef>

namespace executorch_ggml {

// Asks the system for large pages in this memory, not yet touched, if it is long enough for some:
// a page table's entries are then few enough to be remembered. A hint, which may do nothing.
void prefer_huge_pages(void* data, size_t size);

}  // namespace executorch_ggml
