// Memory for copies of weights, in large pages where the system gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/aligned_buffer.h"
#include "runtime/status.h"

namespace executorch_ggml {

// Copies lie one after another, so that they fill large pages together, and are made all at once.
class WeightRegion {
 public:
  // What is not taken is never touched, and so takes no memory.
  Status reserve(size_t size);

  // The place of a copy of bytes that stay where they are until fill(); aligned.
  uint8_t* add(const void* from, size_t size);

  // Makes the copies, on several threads: memory that is new to the process often takes longer
  // than the reading. Bytes of a mapped file are read from it.
  Status fill() const;

  std::shared_ptr<const AlignedBuffer> memory() const { return memory_; }

 private:
  struct Copy {
    const uint8_t* from;
    uint8_t* to;
    size_t size;
  };

  static Status make(const Copy& copy);

  std::shared_ptr<AlignedBuffer> memory_;
  size_t used_ = 0;
  std::vector<Copy> copies_;
};

}  // namespace executorch_ggml
