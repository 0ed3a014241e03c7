// What the graph builder and the backend need from a session's state: the
// interface between the graph side and session.h, which implements it.
#pragma once

#include <cstdint>
#include <vector>

#include "ggml.h"
#include "runtime/plan.h"
#include "runtime/status.h"

namespace executorch_ggml {

class KvCache;

// One per delegate handle; `state` indexes Graph::states.
//
// A call goes: begin() - the lock on the session is held from here on -, plan
// lookup or build, fills, before_compute(), compute, end(). begin() appends to `key` every number
// besides the symbols that shapes the graph or its pointers (rows to read,
// generation of the memory); nobody else interprets those numbers.
class StateBinding {
 public:
  virtual ~StateBinding() = default;

  // A Buffer state's tensor, with its memory; its name is not empty.
  virtual ggml_tensor* buffer(uint32_t state) = 0;
  // A KvCache state; null for a Buffer.
  virtual KvCache* kv_cache(uint32_t state) = 0;

  // The key of the largest graph, for the reservation at init.
  virtual void worst_case_key(std::vector<int64_t>& key) = 0;
  // Checks positions against the caches and locks the session. After an error
  // nothing is locked and nothing has changed.
  virtual Status begin(const CallInputs& call, std::vector<int64_t>& key) = 0;
  // The graph runs next: rows that the call drops are cleared now, since what they
  // hold (NaN, say) must not reach it. Before this, an error leaves the session as
  // it was.
  virtual void before_compute() noexcept = 0;
  // Commits (success) or forgets what begin() announced, and unlocks.
  virtual void end(bool success) noexcept = 0;
};

// A program without states.
class NoStates final : public StateBinding {
 public:
  ggml_tensor* buffer(uint32_t) override { return nullptr; }
  KvCache* kv_cache(uint32_t) override { return nullptr; }
  void worst_case_key(std::vector<int64_t>&) override {}
  Status begin(const CallInputs&, std::vector<int64_t>&) override { return {}; }
  void before_compute() noexcept override {}
  void end(bool) noexcept override {}
};

}  // namespace executorch_ggml
