// One loaded ExecuTorch method with the memory that it runs in.
#pragma once

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "executorch_ggml/program_runner.h"
#include "runtime/aligned_buffer.h"

namespace executorch_ggml {

// Zeroed memory that is only touched when it is used.
class ZeroedBuffer {
 public:
  static bool make(size_t size, ZeroedBuffer& out) {
    out.memory_.reset(static_cast<uint8_t*>(std::calloc(size + kBufferAlignment, 1)));
    if (out.memory_ == nullptr) {
      return false;
    }
    const auto address = reinterpret_cast<uintptr_t>(out.memory_.get());
    out.data_ =
        out.memory_.get() + (kBufferAlignment - address % kBufferAlignment) % kBufferAlignment;
    out.size_ = size;
    return true;
  }
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  std::unique_ptr<uint8_t, Free> memory_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// What a method is loaded with; all of it outlives the method.
struct MethodSource {
  const executorch::runtime::Program& program;
  const std::string& path;
  const executorch::runtime::NamedDataMap* data_map;  // may be null
  const executorch::runtime::LoadBackendOptionsMap& options;
  executorch::runtime::EventTracer* event_tracer;  // may be null
};

class LoadedMethod {
 public:
  static RunnerStatus load(const MethodSource& source, MethodInfo info,
                           std::unique_ptr<LoadedMethod>& out);

  // Calls wait for one another; outputs hold until the next one.
  RunnerStatus run(std::span<const TensorView> inputs, std::vector<TensorView>& outputs);

 private:
  // A number among the outputs, shown as a tensor without dimensions.
  struct Number {
    int64_t i = 0;
    double d = 0;
    bool b = false;
  };

  explicit LoadedMethod(MethodInfo info) : info_(std::move(info)) {}

  RunnerStatus allocate(size_t bytes, const std::string& what, ZeroedBuffer& out) const;
  RunnerStatus plan_memory(const executorch::runtime::MethodMeta& meta, const std::string& what);
  RunnerStatus bind_outputs(const executorch::runtime::MethodMeta& meta, const std::string& what);
  RunnerStatus check_input(size_t index, const TensorView& input) const;
  RunnerStatus set_input(size_t index, const TensorView& input);
  RunnerStatus get_outputs(std::vector<TensorView>& outputs);

  MethodInfo info_;
  std::mutex mutex_;
  executorch::extension::MallocMemoryAllocator method_allocator_;
  executorch::extension::MallocMemoryAllocator temp_allocator_;
  std::vector<ZeroedBuffer> planned_;
  std::vector<executorch::runtime::Span<uint8_t>> planned_spans_;
  std::unique_ptr<executorch::runtime::HierarchicalAllocator> planned_allocator_;
  std::unique_ptr<executorch::runtime::MemoryManager> memory_;
  std::vector<ZeroedBuffer> output_buffers_;
  std::vector<Number> numbers_;
  // Last, so that it ends before the memory it uses.
  std::unique_ptr<executorch::runtime::Method> method_;
};

}  // namespace executorch_ggml
