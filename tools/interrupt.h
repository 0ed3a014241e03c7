// Ctrl-C as a question that a loop asks, instead of the end of the process.
#pragma once

namespace executorch_ggml::tools {

// While one lives, the first Ctrl-C is only noted; a second ends the process. One at a
// time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();

 private:
  void (*previous_)(int);
};

}  // namespace executorch_ggml::tools
