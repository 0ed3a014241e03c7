#include "runtime/delegate.h"

#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <cstdio>

#include "runtime/backend_options.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

// Decode, a few prefill lengths and cache sizes; each plan is some hundred KB.
constexpr size_t kCachedPlans = 8;

const char* const kCallEvent = "ggml_delegate_call";

// Ends the session's part of a call on every path; success must be declared.
class SessionCall {
 public:
  explicit SessionCall(StateBinding& states) : states_(states) {}
  ~SessionCall() { states_.end(success_); }
  SessionCall(const SessionCall&) = delete;
  SessionCall& operator=(const SessionCall&) = delete;
  void succeed() { success_ = true; }

 private:
  StateBinding& states_;
  bool success_ = false;
};

// The symbols that shape a graph: those in extents and in calls' parameters.
std::vector<uint32_t> find_shaping_symbols(const Graph& graph) {
  std::vector<bool> needed(graph.exprs.size(), false);
  for (const Value& value : graph.values) {
    for (const ExprId id : value.ne) {
      needed[id] = true;
    }
  }
  for (const Call& call : graph.calls) {
    for (const ExprId id : call.ints) {
      needed[id] = true;
    }
  }
  std::vector<bool> shaping(graph.symbols.size(), false);
  for (size_t id = graph.exprs.size(); id-- > 0;) {  // operands come before
    const Expr& expr = graph.exprs[id];
    if (!needed[id] || expr.op == ExprOp::Const) {
      continue;
    }
    if (expr.op == ExprOp::Symbol) {
      shaping[expr.a] = true;
    } else {
      needed[expr.a] = true;
      needed[expr.b] = true;
    }
  }
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < shaping.size(); ++i) {
    if (shaping[i]) {
      result.push_back(i);
    }
  }
  return result;
}

}  // namespace

Status Delegate::load(const LoadRequest& request, std::unique_ptr<Delegate>& out) {
  std::unique_ptr<Delegate> delegate(new Delegate(request));
  EG_RETURN_IF_ERROR(delegate->init(request));
  out = std::move(delegate);
  return {};
}

Delegate::~Delegate() {
  if (profiler_ != nullptr) {
    std::fprintf(stderr, "ggml profile of '%s'\n%s", method_.c_str(), profiler_->summary().c_str());
  }
}

Status Delegate::init(const LoadRequest& request) {
  method_ = request.method;
  EG_RETURN_IF_ERROR(parse_program(request.blob, program_));
  const Graph& graph = program_.graphs[0];
  EG_RETURN_IF_ERROR(TensorIo::check_program(graph));
  EG_RETURN_IF_ERROR(find_device(options_.device, device_));
  const bool own_kernels = options_.kernels == KernelChoice::Own;
  const bool by_node = options_.profile || !options_.debug_dump.empty();
  EG_RETURN_IF_ERROR(
      own_kernels ? make_cpu_executor(options_.n_threads, options_.placement, options_.threads,
                                      by_node, executor_)
                  : make_ggml_executor(options_.n_threads, ThreadPool::Between::Poll, executor_));
  const auto packs = [&](ggml_type type) {
    return options_.pack_weights && !(own_kernels && multiplies_unpacked(type));
  };
  EG_RETURN_IF_ERROR(
      WeightStore::load(graph, request.data, packs,
                        options_.mmap ? WeightPlace::Mapped : WeightPlace::LargePages, weights_));
  if (const WeightStore::Stats& stats = weights_.stats(); stats.copied > 0) {
    ET_LOG(Info, "GgmlBackend: %zu bytes of weights were not aligned and had to be copied",
           stats.copied);
  }
  if (graph.states.empty()) {
    states_ = std::make_unique<NoStates>();
  } else {
    const InitialData initial_data = [&](const std::string& key, std::vector<uint8_t>& bytes) {
      return read_named_data(request.data, key, bytes);
    };
    EG_RETURN_IF_ERROR(bind_session(session_of_load(options_, program_.program_id, request.data),
                                    graph, options_, device_.buffer_type, initial_data, states_));
  }
  input_of_ = trace_inputs(graph);
  shaping_symbols_ = find_shaping_symbols(graph);
  cache_ =
      std::make_unique<GraphCache>(options_.graph_cache ? kCachedPlans : 0, device_.buffer_type);
  io_ = std::make_unique<TensorIo>(graph, symbol_limits());
  if (options_.profile) {
    profiler_ = std::make_unique<Profiler>();
  }
  if (!options_.debug_dump.empty()) {
    EG_RETURN_IF_ERROR(DebugDump::open(options_.debug_dump, dump_));
  }
  return reserve_worst_case();
}

std::vector<int64_t> Delegate::symbol_limits() const {
  const Graph& graph = program_.graphs[0];
  std::vector<int64_t> limits;
  for (const Symbol& symbol : graph.symbols) {
    limits.push_back(symbol.max);
  }
  if (options_.max_tokens_per_call <= 0) {
    return limits;
  }
  // The symbols that count the rows written to a cache.
  for (const Call& call : graph.calls) {
    if (call.op != Op::UpdateAndAttend) {
      continue;
    }
    const ValueId keys = call.inputs[inputs::update_and_attend::kK];
    const Expr& rows = graph.exprs[graph.values[keys].ne[2]];
    if (rows.op == ExprOp::Symbol) {
      int64_t& limit = limits[rows.a];
      limit = std::min(limit, std::max(options_.max_tokens_per_call, graph.symbols[rows.a].min));
    }
  }
  return limits;
}

void Delegate::append_shaping_symbols(std::span<const int64_t> symbols,
                                      std::vector<int64_t>& key) const {
  for (const uint32_t symbol : shaping_symbols_) {
    key.push_back(symbols[symbol]);
  }
}

BuildRequest Delegate::build_request(std::span<const int64_t> symbols,
                                     std::span<const int64_t> state_key) {
  return {.program = program_.graphs[0],
          .symbols = symbols,
          .state_key = state_key,
          .weights = weights_.tensors(),
          .input_of = input_of_,
          .states = *states_,
          .options = options_,
          .packed_weights = weights_.packed()};
}

// So that no later call has to allocate. With symbols the largest values may not
// fit together (a start and a length, say): then memory grows as calls need it.
Status Delegate::reserve_worst_case() {
  const std::vector<int64_t> symbols = symbol_limits();
  std::vector<int64_t> state_key;
  states_->worst_case_key(state_key);
  Plan plan;
  Status status = build_plan(build_request(symbols, state_key), plan);
  if (status.ok()) {
    status = cache_->reserve(plan);
  }
  if (!status.ok() && !shaping_symbols_.empty()) {
    ET_LOG(Info, "GgmlBackend: nothing reserved for the largest input: %s",
           status.message().c_str());
    return {};
  }
  return status;
}

Status Delegate::plan_for(const CallInputs& call, size_t n_symbols, CachedPlan*& out) {
  Stopwatch watch;
  out = cache_->find(key_);
  times_.hit = out != nullptr;
  if (times_.hit) {
    return {};
  }
  auto built = std::make_unique<CachedPlan>();
  built->key = key_;
  EG_RETURN_IF_ERROR(
      build_plan(build_request(call.symbols, std::span(key_).subspan(n_symbols)), built->plan));
  times_.build = watch.lap();
  EG_RETURN_IF_ERROR(cache_->insert(std::move(built), out));
  if (out->plan.graph != nullptr) {
    EG_RETURN_IF_ERROR(executor_->prepare(out->plan, out->execution));
  }
  times_.alloc = watch.lap();
  return {};
}

Status Delegate::compute(CachedPlan& cached, executorch::runtime::EventTracer* tracer) {
  if (cached.execution == nullptr) {
    return {};
  }
  if (dump_ != nullptr) {
    dump_->begin(method_.c_str(), n_calls_);
    return cached.execution->run_observed(*dump_);
  }
  if (profiler_ != nullptr) {
    return profiler_->run(*cached.execution, cached.plan, tracer);
  }
  return cached.execution->run();
}

Status Delegate::run_in_session(Arguments args, executorch::runtime::EventTracer* tracer,
                                Stopwatch& watch) {
  const CallInputs call = io_->call();
  key_.clear();
  append_shaping_symbols(call.symbols, key_);
  const size_t n_symbols = key_.size();
  EG_RETURN_IF_ERROR(states_->begin(call, key_));
  SessionCall session(*states_);

  CachedPlan* cached = nullptr;
  EG_RETURN_IF_ERROR(plan_for(call, n_symbols, cached));
  watch.lap();
  Plan& plan = cached->plan;
  EG_RETURN_IF_ERROR(io_->check_indices(plan));
  EG_RETURN_IF_ERROR(io_->bind(plan, args));
  for (const std::unique_ptr<HostFill>& fill : plan.fills) {
    EG_RETURN_IF_ERROR(fill->fill(call));
  }
  for (const std::unique_ptr<ComputedCheck>& check : plan.computed_checks) {
    check->reset();
  }
  states_->before_compute();
  times_.bind = watch.lap();

  EG_RETURN_IF_ERROR(compute(*cached, tracer));
  times_.compute = watch.lap();

  for (const std::unique_ptr<ComputedCheck>& check : plan.computed_checks) {
    EG_RETURN_IF_ERROR(check->status());
  }
  EG_RETURN_IF_ERROR(io_->finish(plan, args));
  times_.outputs = watch.lap();
  session.succeed();
  return {};
}

Status Delegate::execute(Arguments args, executorch::runtime::EventTracer* tracer) {
  const std::lock_guard lock(mutex_);
  const auto event = executorch::runtime::event_tracer_start_profiling_delegate(
      tracer, kCallEvent, static_cast<executorch::runtime::DebugHandle>(-1));
  Stopwatch watch;
  times_ = {};
  ++n_calls_;
  Status status = io_->begin(args);
  times_.inputs = watch.lap();
  if (status.ok()) {
    status = run_in_session(args, tracer, watch);
  }
  executorch::runtime::event_tracer_end_profiling_delegate(tracer, event);
  if (options_.perf_log && status.ok()) {
    log_times();
  }
  return status;
}

void Delegate::log_times() const {
  std::fprintf(stderr,
               "ggml %s: inputs %.3f build %.3f alloc %.3f bind %.3f compute %.3f outputs %.3f "
               "total %.3f ms, graph cache %s\n",
               method_.c_str(), times_.inputs * 1e3, times_.build * 1e3, times_.alloc * 1e3,
               times_.bind * 1e3, times_.compute * 1e3, times_.outputs * 1e3, times_.total() * 1e3,
               times_.hit ? "hit" : "miss");
}

}  // namespace executorch_ggml
