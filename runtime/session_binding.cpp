// A handle's view of its session: which cache each attention call uses, and the
// begin/end of a call.
#include <algorithm>
#include <cinttypes>

#include "runtime/graph_builder.h"
#include "runtime/session.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

// A cache and the program input that gives its positions.
struct CacheUse {
  uint32_t state = 0;
  uint32_t input = 0;
  KvCache* cache = nullptr;
  KvStep step;
};

class SessionBinding final : public StateBinding {
 public:
  SessionBinding(std::shared_ptr<Session> session, std::vector<ggml_tensor*> buffers,
                 std::vector<KvCache*> caches, std::vector<CacheUse> uses,
                 std::vector<std::string> input_names)
      : session_(std::move(session)),
        buffers_(std::move(buffers)),
        caches_(std::move(caches)),
        uses_(std::move(uses)),
        input_names_(std::move(input_names)) {}

  ggml_tensor* buffer(uint32_t state) override {
    return state < buffers_.size() ? buffers_[state] : nullptr;
  }

  KvCache* kv_cache(uint32_t state) override {
    return state < caches_.size() ? caches_[state] : nullptr;
  }

  // The key holds the rows to read per state (0: none).
  void worst_case_key(std::vector<int64_t>& key) override {
    const size_t start = key.size();
    key.resize(start + caches_.size(), 0);
    for (const CacheUse& use : uses_) {
      key[start + use.state] = use.cache->capacity();
    }
  }

  Status begin(const CallInputs& call, std::vector<int64_t>& key) override {
    std::unique_lock lock(session_->mutex());
    const size_t start = key.size();
    uint32_t input = kAbsent;
    int64_t first = 0;
    for (CacheUse& use : uses_) {
      const std::span<const int32_t> positions = call.inputs[use.input].i32();
      if (use.input != input) {  // layers share their positions: check them once
        EG_RETURN_IF_ERROR(first_position(positions, input_names_[use.input].c_str(), first));
        input = use.input;
      }
      EG_RETURN_IF_ERROR(use.cache->plan(first, static_cast<int64_t>(positions.size()), use.step));
    }
    key.resize(start + caches_.size(), 0);
    for (const CacheUse& use : uses_) {
      key[start + use.state] = use.step.n_kv;
    }
    lock_ = std::move(lock);
    return {};
  }

  void before_compute() noexcept override {
    for (const CacheUse& use : uses_) {
      use.cache->start(use.step);
    }
    started_ = true;
  }

  void end(bool success) noexcept override {
    for (const CacheUse& use : uses_) {
      if (success) {
        use.cache->commit(use.step);
      } else if (started_) {
        use.cache->rollback(use.step);
      }
    }
    started_ = false;
    lock_.unlock();
  }

 private:
  std::shared_ptr<Session> session_;
  std::vector<ggml_tensor*> buffers_;  // by state; null for a cache
  std::vector<KvCache*> caches_;       // by state; null for a buffer
  std::vector<CacheUse> uses_;
  std::vector<std::string> input_names_;
  std::unique_lock<std::mutex> lock_;
  bool started_ = false;  // the current call's graph runs or ran
};

Status bind_buffer(Session& session, const Graph& graph, const State& state,
                   ggml_backend_buffer_type_t buffer_type, const InitialData& initial_data,
                   ggml_tensor*& out) {
  std::vector<Interval> ranges;
  EG_RETURN_IF_ERROR(bounds(graph.exprs, graph.symbols, ranges));
  const Value& value = graph.values[state.value];
  BufferSpec spec;
  spec.name = state.name;
  spec.type = static_cast<ggml_type>(value.dtype);
  spec.buffer_type = buffer_type;
  for (size_t i = 0; i < spec.ne.size(); ++i) {
    const Interval range = ranges[value.ne[i]];
    if (!range.is_constant()) {
      return make_error(StatusCode::InvalidProgram,
                        "state '%s': extent %zu depends on the input; a state's shape is fixed",
                        state.name.c_str(), i);
    }
    spec.ne[i] = range.lo;
  }
  std::vector<uint8_t> initial;
  if (!state.init_key.empty()) {
    EG_RETURN_IF_ERROR(initial_data(state.init_key, initial));
    spec.initial = initial;
  }
  return session.buffer(spec, out);
}

// The uses of caches, one per state; checks what this version does not do.
Status collect_uses(const Graph& graph, std::span<KvCache* const> caches,
                    std::vector<CacheUse>& out) {
  namespace operand = inputs::update_and_attend;
  namespace param = params::update_and_attend;
  const std::vector<uint32_t> input_of = trace_inputs(graph);
  std::vector<Interval> ranges;
  EG_RETURN_IF_ERROR(bounds(graph.exprs, graph.symbols, ranges));

  for (size_t i = 0; i < graph.calls.size(); ++i) {
    const Call& call = graph.calls[i];
    if (call.op != Op::UpdateAndAttend) {
      continue;
    }
    const auto refuse = [&](const char* what) {
      return make_error(StatusCode::Unsupported,
                        "call %zu (update_and_attend): %s is not supported by this version of the "
                        "runtime; export without it, or update executorch-ggml",
                        i, what);
    };
    const auto present = [&](size_t index) {
      return index < call.inputs.size() && call.inputs[index] != kAbsent;
    };
    if (present(operand::kMask)) {
      return refuse("a mask operand");
    }
    if (present(operand::kSinks)) {
      return refuse("an attention-sink operand");
    }
    if (present(operand::kSequences)) {
      return refuse("a sequence-id operand");
    }
    const Interval update = ranges[call.ints[param::kUpdate]];
    if (!update.is_constant() || update.lo == 0) {
      return refuse("attention without an update of the cache");
    }
    const Interval state = ranges[call.ints[param::kState]];
    if (!state.is_constant() || state.lo < 0 || state.lo >= static_cast<int64_t>(caches.size()) ||
        caches[static_cast<size_t>(state.lo)] == nullptr) {
      return make_error(StatusCode::InvalidProgram,
                        "call %zu (update_and_attend): state %" PRId64 " is no cache", i, state.lo);
    }
    CacheUse use;
    use.state = static_cast<uint32_t>(state.lo);
    use.cache = caches[use.state];
    use.input = input_of[call.inputs[operand::kPositions]];
    if (use.input == kAbsent) {
      return make_error(StatusCode::InvalidProgram,
                        "call %zu (update_and_attend): its positions are computed, but they must "
                        "be an input of the program",
                        i);
    }
    const bool repeated = std::any_of(
        out.begin(), out.end(), [&](const CacheUse& other) { return other.state == use.state; });
    if (repeated) {
      return refuse("a cache that two calls update");
    }
    out.push_back(use);
  }
  return {};
}

}  // namespace

Status bind_session(std::shared_ptr<Session> session, const Graph& graph,
                    const RuntimeOptions& options, ggml_backend_buffer_type_t buffer_type,
                    const InitialData& initial_data, std::unique_ptr<StateBinding>& out) {
  const KvConfig config{options.cache_type, options.use_flash_attention(), options.context,
                        buffer_type};
  std::vector<ggml_tensor*> buffers(graph.states.size(), nullptr);
  std::vector<KvCache*> caches(graph.states.size(), nullptr);
  for (size_t i = 0; i < graph.states.size(); ++i) {
    const State& state = graph.states[i];
    if (state.kind == StateKind::KvCache) {
      EG_RETURN_IF_ERROR(session->kv_cache(state, config, caches[i]));
    } else {
      EG_RETURN_IF_ERROR(
          bind_buffer(*session, graph, state, buffer_type, initial_data, buffers[i]));
    }
  }
  std::vector<CacheUse> uses;
  EG_RETURN_IF_ERROR(collect_uses(graph, caches, uses));
  // Layers with the same positions side by side.
  std::stable_sort(uses.begin(), uses.end(),
                   [](const CacheUse& a, const CacheUse& b) { return a.input < b.input; });
  std::vector<std::string> input_names;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    input_names.push_back("input " + std::to_string(i) + " (positions)");
  }
  out = std::make_unique<SessionBinding>(std::move(session), std::move(buffers), std::move(caches),
                                         std::move(uses), std::move(input_names));
  return {};
}

}  // namespace executorch_ggml
