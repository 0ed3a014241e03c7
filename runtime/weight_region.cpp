#include "runtime/weight_region.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "runtime/platform/mmap.h"
#include "runtime/platform/system_info.h"

namespace executorch_ggml {

Status WeightRegion::reserve(size_t size) {
  memory_ = std::make_shared<AlignedBuffer>();
  if (size > 0 && !memory_->reserve(size)) {
    return make_error(StatusCode::OutOfMemory,
                      "no memory for %zu bytes of weights; with the option mmap they stay in their "
                      "file",
                      size);
  }
  return {};
}

uint8_t* WeightRegion::add(const void* from, size_t size) {
  uint8_t* const to = static_cast<uint8_t*>(memory_->data()) + used_;
  used_ += aligned_size(size);
  copies_.push_back({static_cast<const uint8_t*>(from), to, size});
  return to;
}

Status WeightRegion::make(const Copy& copy) {
  if (MappedFile::holds(copy.from, copy.size)) {
    return MappedFile::read(copy.from, copy.size, copy.to);
  }
  std::memcpy(copy.to, copy.from, copy.size);
  return {};
}

Status WeightRegion::fill() const {
  constexpr size_t kPart = size_t{4} << 20;
  constexpr int kMostThreads = 8;
  std::vector<Copy> parts;
  for (const Copy& copy : copies_) {
    for (size_t at = 0; at < copy.size; at += kPart) {
      parts.push_back({copy.from + at, copy.to + at, std::min(kPart, copy.size - at)});
    }
  }
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Status status;
  const auto work = [&] {
    for (size_t i = next++; i < parts.size(); i = next++) {
      if (Status one = make(parts[i]); !one.ok()) {
        const std::lock_guard lock(mutex);
        status = std::move(one);
      }
    }
  };
  const auto n_threads = static_cast<size_t>(std::min(physical_core_count(), kMostThreads));
  std::vector<std::jthread> threads;
  try {
    for (size_t i = 1; i < std::min(n_threads, parts.size()); ++i) {
      threads.emplace_back(work);
    }
  } catch (const std::system_error&) {
    // No thread is to be had: those there are do it.
  }
  work();
  threads.clear();
  return status;
}

}  // namespace executorch_ggml
