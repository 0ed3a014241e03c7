// What an op builder sees of the build: operands, parameters, expectations.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "runtime/graph_builder.h"
#include "runtime/graph_builder_impl.h"

namespace executorch_ggml {
namespace {

// Copies ids to dst, out-of-range ones as 0, and remembers that there was one.
void clamp_ids(ggml_tensor* dst, int ith, int /*nth*/, void* user_data) {
  if (ith != 0) {
    return;
  }
  auto& check = *static_cast<ComputedCheck*>(user_data);
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
          const bool fits = 0 <= id && id < check.limit();
          if (!fits) {
            check.report(ComputedCheck::Failure::Index, id);
          }
          *out++ = fits ? id : 0;
        }
      }
    }
  }
}

const char* operand_name(const Call& call, size_t i) {
  const OpInfo* info = find_op(static_cast<uint16_t>(call.op));
  return i < info->inputs.size() ? info->inputs[i] : "?";
}

}  // namespace

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

bool OpContext::takes_in_previous() const {
  return call_index_ > 0 && builder_.is_left_to_next(call_index_ - 1);
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

void OpContext::append(ggml_tensor* tensor) { builder_.append(tensor, call_); }

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
  auto check = std::make_unique<ComputedCheck>(call_index_, limit);
  ggml_tensor* checked =
      ggml_custom_4d(ggml(), GGML_TYPE_I32, tensor->ne[0], tensor->ne[1], tensor->ne[2],
                     tensor->ne[3], &tensor, 1, clamp_ids, /*n_tasks=*/1, check.get());
  builder_.plan_.computed_checks.push_back(std::move(check));
  return checked;
}

ggml_tensor* OpContext::host_op(HostKernel kernel, ggml_type type, const std::array<int64_t, 4>& ne,
                                std::span<ggml_tensor* const> operands, HostParams params) {
  auto host = std::make_unique<HostCall>(call_index_, kernel, std::move(params));
  std::array<ggml_tensor*, GGML_MAX_SRC> sources{};
  std::copy(operands.begin(), operands.end(), sources.begin());
  ggml_tensor* result = ggml_custom_4d(ggml(), type, ne[0], ne[1], ne[2], ne[3], sources.data(),
                                       static_cast<int>(operands.size()), run_host_call,
                                       GGML_N_TASKS_MAX, host.get());
  builder_.plan_.computed_checks.push_back(std::move(host));
  return result;
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
