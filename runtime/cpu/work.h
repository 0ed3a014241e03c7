// A piece of a graph as the CPU executor runs it: one node or several fused ones, cut into tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ggml.h"

namespace executorch_ggml {

// Bytes that a work reads or writes. Memory that is bound anew for each call has an owner, and
// begins at 0 there; other memory has none, and begins at its address.
struct MemoryRange {
  const ggml_tensor* owner;
  uintptr_t begin;
  uintptr_t end;

  bool overlaps(const MemoryRange& other) const {
    return owner == other.owner && begin < other.end && other.begin < end;
  }
};

// Scratch memory: one part that works share to pass results on (prepared activations), and one
// for each thread.
struct WorkMemory {
  std::byte* shared;
  std::byte* thread;  // of the thread that runs the task
};

class Work {
 public:
  virtual ~Work() = default;
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Tasks may run in any order and at the same time. Pointers are taken from the tensors here,
  // as they may have changed since the last call.
  virtual void run(uint32_t task, const WorkMemory& memory) = 0;
  // After `run` where stores_apart: puts its result in place.
  virtual void store(uint32_t /*task*/, const WorkMemory& /*memory*/) {}

  uint32_t n_tasks = 1;
  // Whether `run` leaves the result in WorkMemory::thread. A task may then be run twice, the
  // second time while what it reads changes, as long as only the first result is stored.
  bool stores_apart = false;
  int64_t elements = 0;     // about how many are computed: few are not worth a second thread
  bool is_small = false;    // whether one thread runs all of it, also where it is left to ggml
  size_t thread_bytes = 0;  // needed of WorkMemory::thread
  std::vector<MemoryRange> reads;
  std::vector<MemoryRange> writes;
  int node_index = 0;          // the graph's node whose result this gives, or helps to give
  const char* name = nullptr;  // of a help: what it does
  size_t weight_bytes = 0;     // of a product's matrix
  size_t index = 0;            // among the works of the plan
};

}  // namespace executorch_ggml
