#include "runtime/graph_builder.h"

#include <cstdarg>
#include <cstdio>
#include <map>

#include "runtime/op_builders.h"
#include "runtime/scalar_type.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

// More than any machine holds, and so little that sums over a graph's tensors
// cannot overflow inside ggml.
constexpr int64_t kMaxTensorBytes = int64_t{1} << 44;

// What inputs and direct outputs point to until they are bound; never accessed.
alignas(64) char placeholder[64];

std::string describe(const char* type, const int64_t* ne) {
  char text[128];
  std::snprintf(text, sizeof(text), "%s[%lld, %lld, %lld, %lld]", type,
                static_cast<long long>(ne[0]), static_cast<long long>(ne[1]),
                static_cast<long long>(ne[2]), static_cast<long long>(ne[3]));
  return text;
}

bool writes_first_operand(Op op) { return op == Op::SetRows || op == Op::Assign; }

ggml_tensor* root_of(ggml_tensor* tensor) {
  return tensor->view_src != nullptr ? tensor->view_src : tensor;
}

// Whether `type` may be given to ggml: codes of removed types have no size.
bool is_known_type(int type) {
  return type >= 0 && type < GGML_TYPE_COUNT && ggml_blck_size(static_cast<ggml_type>(type)) > 0 &&
         ggml_type_size(static_cast<ggml_type>(type)) > 0;
}

Status check_extents(ggml_type type, const std::array<int64_t, 4>& ne) {
  for (const int64_t extent : ne) {
    if (extent <= 0) {
      return make_error(StatusCode::InvalidArgument,
                        "%s is empty; ggml takes no tensors without elements",
                        describe(ggml_type_name(type), ne.data()).c_str());
    }
  }
  if (ne[0] % ggml_blck_size(type) != 0) {
    return make_error(StatusCode::InvalidArgument, "%s: rows must be whole blocks of %lld elements",
                      describe(ggml_type_name(type), ne.data()).c_str(),
                      static_cast<long long>(ggml_blck_size(type)));
  }
  int64_t bytes = saturating_product(ne[0], static_cast<int64_t>(ggml_type_size(type)));
  for (size_t i = 1; i < 4; ++i) {
    bytes = saturating_product(bytes, ne[i]);
  }
  if (bytes > kMaxTensorBytes) {
    return make_error(StatusCode::InvalidArgument, "%s is too large",
                      describe(ggml_type_name(type), ne.data()).c_str());
  }
  return {};
}

// Copies ids to dst, out-of-range ones as 0, and remembers that there was one.
void clamp_ids(ggml_tensor* dst, int ith, int /*nth*/, void* user_data) {
  if (ith != 0) {
    return;
  }
  auto& check = *static_cast<ComputedIndexCheck*>(user_data);
  const ggml_tensor* ids = dst->src[0];
  auto* out = static_cast<int32_t*>(dst->data);
  for (int64_t i3 = 0; i3 < ids->ne[3]; ++i3) {
    for (int64_t i2 = 0; i2 < ids->ne[2]; ++i2) {
      for (int64_t i1 = 0; i1 < ids->ne[1]; ++i1) {
        const char* row =
            static_cast<const char*>(ids->data) + static_cast<size_t>(i1) * ids->nb[1] +
            static_cast<size_t>(i2) * ids->nb[2] + static_cast<size_t>(i3) * ids->nb[3];
        for (int64_t i0 = 0; i0 < ids->ne[0]; ++i0) {
          const int32_t id =
              *reinterpret_cast<const int32_t*>(row + static_cast<size_t>(i0) * ids->nb[0]);
          const bool fits = 0 <= id && id < check.limit;
          if (!fits && !check.violated.exchange(true)) {
            check.example = id;
          }
          *out++ = fits ? id : 0;
        }
      }
    }
  }
}

}  // namespace

std::string describe(const ggml_tensor& tensor) {
  return describe(ggml_type_name(tensor.type), tensor.ne);
}

std::vector<uint32_t> trace_inputs(const Graph& program) {
  std::vector<uint32_t> traced(program.values.size(), kAbsent);
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    traced[program.inputs[i].value] = i;
  }
  for (const Call& call : program.calls) {
    if (call.op == Op::Reshape) {
      traced[call.outputs[0]] = traced[call.inputs[0]];
    }
  }
  return traced;
}

// Holds the state of one build.
class GraphBuilder {
 public:
  GraphBuilder(const BuildRequest& request, Plan& plan) : request_(request), plan_(plan) {}

  Status build() {
    EG_RETURN_IF_ERROR(evaluate(program().exprs, request_.symbols, exprs_));
    EG_RETURN_IF_ERROR(make_context());
    EG_RETURN_IF_ERROR(make_inputs());
    EG_RETURN_IF_ERROR(take_weights_and_states());
    for (uint32_t i = 0; i < program().calls.size(); ++i) {
      EG_RETURN_IF_ERROR(make_call(i));
    }
    return bind_outputs();
  }

 private:
  friend class OpContext;

  const Graph& program() const { return request_.program; }

  std::array<int64_t, 4> extents(ValueId value) const {
    const Value& v = program().values[value];
    return {exprs_[v.ne[0]], exprs_[v.ne[1]], exprs_[v.ne[2]], exprs_[v.ne[3]]};
  }

  Status make_context() {
    // An input or an output may need tensors of its own; a few are spare.
    size_t n_tensors = program().inputs.size() + program().outputs.size() + 8;
    for (const Call& call : program().calls) {
      // A write may have to copy what it overwrites.
      n_tensors += tensors_per_call(call.op) + (writes_first_operand(call.op) ? 4 : 0);
    }
    graph_size_ = n_tensors;
    const ggml_init_params params = {
        .mem_size = n_tensors * ggml_tensor_overhead() +
                    ggml_graph_overhead_custom(graph_size_, /*grads=*/false),
        .mem_buffer = nullptr,
        .no_alloc = true,
    };
    plan_.context.reset(ggml_init(params));
    if (plan_.context == nullptr) {
      return make_error(StatusCode::OutOfMemory, "no memory for %zu tensor descriptors", n_tensors);
    }
    plan_.graph = ggml_new_graph_custom(plan_.context.get(), graph_size_, /*grads=*/false);
    tensors_.assign(program().values.size(), nullptr);
    find_last_reads();
    return {};
  }

  Status make_inputs() {
    plan_.inputs.resize(program().inputs.size());
    for (size_t i = 0; i < program().inputs.size(); ++i) {
      const ValueId id = program().inputs[i].value;
      const Value& value = program().values[id];
      const std::array<int64_t, 4> ne = extents(id);
      if (value.dtype != GGML_TYPE_F32 && value.dtype != GGML_TYPE_I32) {
        return make_error(StatusCode::InvalidProgram,
                          "input %zu is declared as ggml type %u; inputs are F32 or I32", i,
                          static_cast<unsigned>(value.dtype));
      }
      const auto type = static_cast<ggml_type>(value.dtype);
      if (const Status fits = check_extents(type, ne); !fits.ok()) {
        return make_error(fits.code(), "input %zu: %s", i, fits.message().c_str());
      }
      ggml_tensor* tensor = ggml_new_tensor(plan_.context.get(), type, 4, ne.data());
      ggml_format_name(tensor, "input_%zu", i);
      ggml_set_input(tensor);
      tensor->data = placeholder;
      tensors_[id] = tensor;
      plan_.inputs[i].root = tensor;
    }
    return {};
  }

  Status take_weights_and_states() {
    for (size_t i = 0; i < program().weights.size(); ++i) {
      tensors_[program().weights[i].value] = request_.weights[i];
      if (i < request_.packed_weights.size() && request_.packed_weights[i] != nullptr) {
        packed_[program().weights[i].value] = request_.packed_weights[i];
      }
    }
    for (uint32_t i = 0; i < program().states.size(); ++i) {
      const State& state = program().states[i];
      if (state.kind != StateKind::Buffer || state.value == kAbsent) {
        continue;
      }
      ggml_tensor* tensor = request_.states.buffer(i);
      if (tensor == nullptr) {
        return make_error(StatusCode::Internal, "the session has no buffer for state '%s'",
                          state.name.c_str());
      }
      EG_RETURN_IF_ERROR(check_declared(state.value, *tensor, "state '" + state.name + "'"));
      tensors_[state.value] = tensor;
    }
    return {};
  }

  Status check_declared(ValueId id, const ggml_tensor& found, const std::string& what) const {
    const uint8_t dtype = program().values[id].dtype;
    const std::array<int64_t, 4> ne = extents(id);
    const bool same_type = dtype == kDtypeFromFile || dtype == found.type;
    if (same_type && std::equal(ne.begin(), ne.end(), found.ne)) {
      return {};
    }
    const char* type = is_known_type(dtype) ? ggml_type_name(static_cast<ggml_type>(dtype)) : "any";
    return make_error(StatusCode::InvalidProgram, "%s is %s but the program declares %s",
                      what.c_str(), describe(found).c_str(), describe(type, ne.data()).c_str());
  }

  // Descriptors that the context still has room for.
  size_t remaining_tensors() const {
    const size_t used = ggml_used_mem(plan_.context.get());
    const size_t size = ggml_get_mem_size(plan_.context.get());
    return used < size ? (size - used) / ggml_tensor_overhead() : 0;
  }

  Status make_call(uint32_t index) {
    const Call& call = program().calls[index];
    const char* name = find_op(static_cast<uint16_t>(call.op))->name;
    const ValueId result = call.outputs[0];
    if (remaining_tensors() < tensors_per_call(call.op)) {
      return make_error(StatusCode::Internal, "call %u (%s): the ggml context is too small", index,
                        name);
    }
    // The declared result is checked first: a builder passes these extents on to
    // ggml, which aborts on an overflow.
    const uint8_t dtype = program().values[result].dtype;
    if (dtype != kDtypeFromFile) {
      if (!is_known_type(dtype)) {
        return make_error(StatusCode::InvalidProgram, "call %u (%s): unknown ggml type %u", index,
                          name, static_cast<unsigned>(dtype));
      }
      const Status fits = check_extents(static_cast<ggml_type>(dtype), extents(result));
      if (!fits.ok()) {
        return make_error(fits.code(), "call %u (%s): result %s", index, name,
                          fits.message().c_str());
      }
    }

    if (writes_first_operand(call.op)) {
      EG_RETURN_IF_ERROR(save_old_content(index));
    }
    OpContext context(*this, index);
    ggml_tensor* tensor = build_op(context);
    if (tensor == nullptr) {
      return failure_.ok()
                 ? make_error(StatusCode::Internal, "call %u (%s) was not built", index, name)
                 : failure_;
    }
    EG_RETURN_IF_ERROR(check_declared(
        result, *tensor, "the result of call " + std::to_string(index) + " (" + name + ")"));
    if (tensor->name[0] == '\0' || tensor->op != GGML_OP_NONE) {
      ggml_format_name(tensor, "%u:%s", index, name);
    }
    tensors_[result] = tensor;
    append(tensor, call.debug_handle);
    return {};
  }

  // The program is in single assignment: a value that aliases the memory which call
  // `index` overwrites, and is read later, keeps what it held in a copy. A write to
  // the value still goes to the memory.
  Status save_old_content(uint32_t index) {
    const Call& call = program().calls[index];
    const ggml_tensor* overwritten = root_of(write_target(call.inputs[0]));
    for (ValueId id = 0; id < tensors_.size(); ++id) {
      ggml_tensor* tensor = tensors_[id];
      if (tensor == nullptr || last_read_[id] <= index || root_of(tensor) != overwritten) {
        continue;
      }
      if (ggml_blck_size(tensor->type) != 1 || remaining_tensors() <= tensors_per_call(call.op)) {
        return make_error(StatusCode::InvalidProgram,
                          "call %u (%s): %s is overwritten while it is still needed", index,
                          find_op(static_cast<uint16_t>(call.op))->name, describe(*tensor).c_str());
      }
      ggml_tensor* copy = ggml_cont(plan_.context.get(), tensor);
      append(copy, call.debug_handle);
      write_targets_.try_emplace(id, tensor);
      tensors_[id] = copy;
    }
    return {};
  }

  ggml_tensor* write_target(ValueId id) const {
    const auto replaced = write_targets_.find(id);
    return replaced == write_targets_.end() ? tensors_[id] : replaced->second;
  }

  // The last call that reads each value; outputs are read at the end.
  void find_last_reads() {
    last_read_.assign(program().values.size(), 0);
    for (uint32_t i = 0; i < program().calls.size(); ++i) {
      const Call& call = program().calls[i];
      for (size_t operand = writes_first_operand(call.op) ? 1 : 0; operand < call.inputs.size();
           ++operand) {
        if (call.inputs[operand] != kAbsent) {
          last_read_[call.inputs[operand]] = i;
        }
      }
    }
    for (const Argument& output : program().outputs) {
      last_read_[output.value] = kAbsent;
    }
  }

  // Call by call, so that the graph runs in the program's order: a state's write
  // comes before the reads that follow it, whatever they depend on.
  void append(ggml_tensor* tensor, uint32_t debug_handle) {
    if (tensor->op == GGML_OP_NONE) {
      return;  // an input, weight or state passed through
    }
    ggml_build_forward_expand(plan_.graph, tensor);
    plan_.debug_handles.resize(static_cast<size_t>(ggml_graph_n_nodes(plan_.graph)), debug_handle);
  }

  Status bind_outputs() {
    for (const Argument& argument : program().outputs) {
      ggml_tensor* tensor = tensors_[argument.value];
      ggml_tensor* root = root_of(tensor);
      OutputBinding binding{.tensor = tensor};
      if (root->op != GGML_OP_NONE) {
        // Keeps the memory to the end and the value out of ggml's fusions.
        ggml_set_output(root);
        ggml_set_output(tensor);
        if (is_same_layout(tensor->type, argument.scalar_type) && can_be_direct(*tensor, *root)) {
          binding.direct = plan_.direct_outputs.size();
          plan_.direct_outputs.push_back({.root = root, .views = {}});
        }
      }
      plan_.outputs.push_back(binding);
    }
    collect_views();
    if (ggml_graph_n_nodes(plan_.graph) == 0) {
      plan_.graph = nullptr;
    }
    return {};
  }

  // Whether the whole of root, and nothing else, is the output.
  bool can_be_direct(const ggml_tensor& tensor, const ggml_tensor& root) const {
    for (const Rebindable& other : plan_.direct_outputs) {
      if (other.root == &root) {
        return false;
      }
    }
    return tensor.view_offs == 0 && ggml_is_contiguous(&tensor) && ggml_is_contiguous(&root) &&
           ggml_nbytes(&tensor) == ggml_nbytes(&root);
  }

  void collect_views() {
    std::map<const ggml_tensor*, Rebindable*> by_root;
    for (Rebindable& input : plan_.inputs) {
      by_root[input.root] = &input;
    }
    for (Rebindable& output : plan_.direct_outputs) {
      by_root[output.root] = &output;
    }
    ggml_context* context = plan_.context.get();
    for (ggml_tensor* t = ggml_get_first_tensor(context); t != nullptr;
         t = ggml_get_next_tensor(context, t)) {
      if (const auto found = by_root.find(t->view_src);
          t->view_src != nullptr && found != by_root.end()) {
        found->second->views.push_back(t);
      }
    }
    for (Rebindable& output : plan_.direct_outputs) {
      output.point_to(placeholder);
    }
  }

  const BuildRequest& request_;
  Plan& plan_;
  size_t graph_size_ = 0;
  std::vector<int64_t> exprs_;
  std::vector<ggml_tensor*> tensors_;              // by ValueId
  std::map<ValueId, ggml_tensor*> write_targets_;  // of values that are read from a copy
  std::vector<uint32_t> last_read_;                // by ValueId
  std::map<ValueId, ggml_tensor*> packed_;
  std::map<std::string, HostFill*> fills_;
  Status failure_;
};

Status build_plan(const BuildRequest& request, Plan& out) {
  return GraphBuilder(request, out).build();
}

OpContext::OpContext(GraphBuilder& builder, uint32_t call_index)
    : builder_(builder), call_(builder.program().calls[call_index]), call_index_(call_index) {}

ggml_context* OpContext::ggml() const { return builder_.plan_.context.get(); }

ggml_tensor* OpContext::in(size_t i) const {
  const ValueId id = i < call_.inputs.size() ? call_.inputs[i] : kAbsent;
  if (id == kAbsent) {
    return nullptr;
  }
  const bool is_target = i == 0 && writes_first_operand(call_.op);
  return is_target ? builder_.write_target(id) : builder_.tensors_[id];
}

ggml_tensor* OpContext::packed(size_t i) const {
  const auto found = builder_.packed_.find(call_.inputs[i]);
  return found == builder_.packed_.end() ? nullptr : found->second;
}

std::array<int64_t, 4> OpContext::declared(size_t i) const {
  return builder_.extents(call_.outputs[i]);
}

int64_t OpContext::dim(size_t i) const { return builder_.exprs_[call_.ints[i]]; }

int OpContext::as_int(size_t i) {
  const int64_t value = dim(i);
  const bool fits =
      expect(INT32_MIN <= value && value <= INT32_MAX,
             "parameter %zu is %lld and does not fit 32 bits", i, static_cast<long long>(value));
  return fits ? static_cast<int>(value) : 0;
}

bool OpContext::expect(bool condition, const char* format, ...) {
  if (condition) {
    return builder_.failure_.ok();
  }
  if (builder_.failure_.ok()) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    builder_.failure_ = make_error(StatusCode::InvalidProgram, "call %u (%s): %s", call_index_,
                                   find_op(static_cast<uint16_t>(call_.op))->name, text);
  }
  return false;
}

namespace {

const char* operand_name(const Call& call, size_t i) {
  const OpInfo* info = find_op(static_cast<uint16_t>(call.op));
  return i < info->inputs.size() ? info->inputs[i] : "?";
}

}  // namespace

bool OpContext::expect_type(size_t operand, std::initializer_list<ggml_type> types) {
  const ggml_tensor* tensor = in(operand);
  if (tensor == nullptr) {
    return expect(false, "operand '%s' is missing", operand_name(call_, operand));
  }
  std::string allowed;
  for (const ggml_type type : types) {
    if (tensor->type == type) {
      return true;
    }
    allowed += (allowed.empty() ? "" : " or ") + std::string(ggml_type_name(type));
  }
  return expect(false, "operand '%s' is %s, expected %s", operand_name(call_, operand),
                describe(*tensor).c_str(), allowed.c_str());
}

bool OpContext::expect_rows(size_t operand) {
  const ggml_tensor* tensor = in(operand);
  return expect(tensor != nullptr && tensor->nb[0] == ggml_type_size(tensor->type),
                "operand '%s' must have adjacent elements along its first dimension",
                operand_name(call_, operand));
}

bool OpContext::expect_contiguous(size_t operand) {
  const ggml_tensor* tensor = in(operand);
  return expect(tensor != nullptr && ggml_is_contiguous(tensor), "operand '%s' must be contiguous",
                operand_name(call_, operand));
}

uint32_t OpContext::input_of(size_t i) const {
  const ValueId id = i < call_.inputs.size() ? call_.inputs[i] : kAbsent;
  return id == kAbsent ? kAbsent : builder_.request_.input_of[id];
}

StateBinding& OpContext::states() const { return builder_.request_.states; }

std::span<const int64_t> OpContext::state_key() const { return builder_.request_.state_key; }

const RuntimeOptions& OpContext::options() const { return builder_.request_.options; }

void OpContext::append(ggml_tensor* tensor) { builder_.append(tensor, call_.debug_handle); }

ggml_tensor* OpContext::fill_tensor(ggml_type type, std::array<int64_t, 4> ne, const char* name) {
  const Status fits = check_extents(type, ne);
  if (!expect(fits.ok(), "%s: %s", name, fits.message().c_str())) {
    return nullptr;
  }
  ggml_tensor* tensor = ggml_new_tensor(ggml(), type, 4, ne.data());
  ggml_set_name(tensor, name);
  ggml_set_input(tensor);
  return tensor;
}

ggml_tensor* OpContext::checked_ids(size_t ids, int64_t limit) {
  ggml_tensor* tensor = in(ids);
  if (const uint32_t input = input_of(ids); input != kAbsent) {
    builder_.plan_.index_checks.push_back({input, limit, call_index_});
    return tensor;
  }
  auto check = std::make_unique<ComputedIndexCheck>();
  check->limit = limit;
  check->call = call_index_;
  ggml_tensor* checked =
      ggml_custom_4d(ggml(), GGML_TYPE_I32, tensor->ne[0], tensor->ne[1], tensor->ne[2],
                     tensor->ne[3], &tensor, 1, clamp_ids, /*n_tasks=*/1, check.get());
  builder_.plan_.computed_checks.push_back(std::move(check));
  return checked;
}

std::string OpContext::fill_name(const char* type, const std::string& key) {
  return std::string(type) + '/' + key;
}

HostFill* OpContext::find_fill(const std::string& name) const {
  const auto found = builder_.fills_.find(name);
  return found == builder_.fills_.end() ? nullptr : found->second;
}

void OpContext::add_fill(const std::string& name, std::unique_ptr<HostFill> fill) {
  builder_.fills_[name] = fill.get();
  builder_.plan_.fills.push_back(std::move(fill));
}

}  // namespace executorch_ggml
