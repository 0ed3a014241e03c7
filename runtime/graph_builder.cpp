#include "runtime/graph_builder.h"

#include <algorithm>
#include <cstdio>

#include "runtime/graph_builder_impl.h"
#include "runtime/op_builders.h"
#include "runtime/options.h"
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

ggml_tensor* root_of(ggml_tensor* tensor) {
  return tensor->view_src != nullptr ? tensor->view_src : tensor;
}

// Whether `type` may be given to ggml: codes of removed types have no size.
bool is_known_type(int type) {
  return type >= 0 && type < GGML_TYPE_COUNT && ggml_blck_size(static_cast<ggml_type>(type)) > 0 &&
         ggml_type_size(static_cast<ggml_type>(type)) > 0;
}

}  // namespace

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

Status GraphBuilder::build() {
  EG_RETURN_IF_ERROR(evaluate(program().exprs, request_.symbols, exprs_));
  EG_RETURN_IF_ERROR(make_context());
  EG_RETURN_IF_ERROR(make_inputs());
  EG_RETURN_IF_ERROR(take_weights_and_states());
  for (uint32_t i = 0; i < program().calls.size(); ++i) {
    EG_RETURN_IF_ERROR(make_call(i));
  }
  return bind_outputs();
}

Status GraphBuilder::make_context() {
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
  find_reads();
  return {};
}

Status GraphBuilder::make_inputs() {
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

Status GraphBuilder::take_weights_and_states() {
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

Status GraphBuilder::check_declared(ValueId id, const ggml_tensor& found,
                                    const std::string& what) const {
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

size_t GraphBuilder::remaining_tensors() const {
  const size_t used = ggml_used_mem(plan_.context.get());
  const size_t size = ggml_get_mem_size(plan_.context.get());
  return used < size ? (size - used) / ggml_tensor_overhead() : 0;
}

Status GraphBuilder::make_call(uint32_t index) {
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
  if (!is_left_to_next(index)) {
    append(tensor, call);
  }
  return {};
}

bool GraphBuilder::is_left_to_next(uint32_t index) {
  const ValueId result = program().calls[index].outputs[0];
  if (index + 1 == program().calls.size() || n_reads_[result] != 1 ||
      !request_.options.debug_dump.empty()) {
    return false;
  }
  const Call& next = program().calls[index + 1];
  return program().calls[index].op == Op::Conv2dNhwc && next.op == Op::Conv2dDwNhwc &&
         next.inputs[1] == result &&
         takes_in_convolution(OpContext(*this, index + 1), *tensors_[result]);
}

Status GraphBuilder::save_old_content(uint32_t index) {
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
    append(copy, call);
    write_targets_.try_emplace(id, tensor);
    tensors_[id] = copy;
  }
  return {};
}

ggml_tensor* GraphBuilder::write_target(ValueId id) const {
  const auto replaced = write_targets_.find(id);
  return replaced == write_targets_.end() ? tensors_[id] : replaced->second;
}

void GraphBuilder::find_reads() {
  last_read_.assign(program().values.size(), 0);
  n_reads_.assign(program().values.size(), 0);
  for (uint32_t i = 0; i < program().calls.size(); ++i) {
    const Call& call = program().calls[i];
    for (size_t operand = writes_first_operand(call.op) ? 1 : 0; operand < call.inputs.size();
         ++operand) {
      if (call.inputs[operand] != kAbsent) {
        last_read_[call.inputs[operand]] = i;
        ++n_reads_[call.inputs[operand]];
      }
    }
  }
  for (const Argument& output : program().outputs) {
    last_read_[output.value] = kAbsent;
    ++n_reads_[output.value];
  }
}

void GraphBuilder::append(ggml_tensor* tensor, const Call& call) {
  if (tensor->op == GGML_OP_NONE) {
    return;  // an input, weight or state passed through
  }
  ggml_build_forward_expand(plan_.graph, tensor);
  plan_.calls.resize(static_cast<size_t>(ggml_graph_n_nodes(plan_.graph)), &call);
}

Status GraphBuilder::bind_outputs() {
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

bool GraphBuilder::can_be_direct(const ggml_tensor& tensor, const ggml_tensor& root) const {
  for (const Rebindable& other : plan_.direct_outputs) {
    if (other.root == &root) {
      return false;
    }
  }
  return tensor.view_offs == 0 && ggml_is_contiguous(&tensor) && ggml_is_contiguous(&root) &&
         ggml_nbytes(&tensor) == ggml_nbytes(&root);
}

void GraphBuilder::collect_views() {
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

Status build_plan(const BuildRequest& request, Plan& out) {
  return GraphBuilder(request, out).build();
}

}  // namespace executorch_ggml
