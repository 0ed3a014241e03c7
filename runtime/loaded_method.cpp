#include "runtime/loaded_method.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/last_error.h"
#include "runtime/runner_status.h"

namespace executorch_ggml {
namespace {

namespace et = executorch::runtime;
using executorch::aten::ScalarType;

constexpr size_t kMaxDims = 16;  // as ExecuTorch

std::string shape_text(std::span<const int32_t> sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    text.append(i == 0 ? "" : ", ").append(std::to_string(sizes[i]));
  }
  return text.append("]");
}

const char* dtype_text(ScalarType type) { return executorch::runtime::toString(type); }

}  // namespace

RunnerStatus LoadedMethod::allocate(size_t bytes, const std::string& what,
                                    ZeroedBuffer& out) const {
  return ZeroedBuffer::make(bytes, out)
             ? RunnerStatus()
             : runner_error(et::Error::MemoryAllocationFailed, "%s: cannot allocate %zu bytes",
                            what.c_str(), bytes);
}

RunnerStatus LoadedMethod::load(const MethodSource& source, MethodInfo info,
                                std::unique_ptr<LoadedMethod>& out) {
  std::unique_ptr<LoadedMethod> loaded(new LoadedMethod(std::move(info)));
  const std::string& name = loaded->info_.name;
  std::string what = "method '";
  what.append(name).append("' of '").append(source.path).append("'");
  const auto meta = source.program.method_meta(name.c_str());
  if (!meta.ok()) {
    return executorch_error(meta.error(), what);
  }
  if (RunnerStatus status = loaded->plan_memory(meta.get(), what); !status.ok()) {
    return status;
  }
  (void)take_last_error();
  auto method = source.program.load_method(name.c_str(), loaded->memory_.get(), source.event_tracer,
                                           source.data_map, &source.options);
  if (!method.ok()) {
    return executorch_error(method.error(), what);
  }
  loaded->method_ = std::make_unique<et::Method>(std::move(method.get()));
  if (RunnerStatus status = loaded->bind_outputs(meta.get(), what); !status.ok()) {
    return status;
  }
  out = std::move(loaded);
  return {};
}

RunnerStatus LoadedMethod::plan_memory(const et::MethodMeta& meta, const std::string& what) {
  planned_.resize(meta.num_memory_planned_buffers());
  for (size_t i = 0; i < planned_.size(); ++i) {
    const auto size = meta.memory_planned_buffer_size(i);
    if (!size.ok() || size.get() < 0) {
      return runner_error(et::Error::InvalidProgram, "%s: planned buffer %zu has no size",
                          what.c_str(), i);
    }
    RunnerStatus status = allocate(static_cast<size_t>(size.get()), what, planned_[i]);
    if (!status.ok()) {
      return status;
    }
    planned_spans_.emplace_back(planned_[i].data(), planned_[i].size());
  }
  planned_allocator_ = std::make_unique<et::HierarchicalAllocator>(
      et::Span<et::Span<uint8_t>>(planned_spans_.data(), planned_spans_.size()));
  memory_ = std::make_unique<et::MemoryManager>(&method_allocator_, planned_allocator_.get(),
                                                &temp_allocator_);
  return {};
}

RunnerStatus LoadedMethod::bind_outputs(const et::MethodMeta& meta, const std::string& what) {
  output_buffers_.resize(meta.num_outputs());
  numbers_.resize(meta.num_outputs());
  for (size_t i = 0; i < output_buffers_.size(); ++i) {
    if (!method_->get_output(i).isTensor()) {
      continue;
    }
    const auto tensor = meta.output_tensor_meta(i);
    // A constant or an input that is passed on has its memory already.
    if (!tensor.ok() || tensor->is_memory_planned() ||
        method_->get_output(i).toTensor().const_data_ptr() != nullptr) {
      continue;
    }
    ZeroedBuffer& buffer = output_buffers_[i];
    if (RunnerStatus status = allocate(tensor->nbytes(), what, buffer); !status.ok()) {
      return status;
    }
    const et::Error error = method_->set_output_data_ptr(buffer.data(), buffer.size(), i);
    if (error != et::Error::Ok) {
      return executorch_error(error, what + ": output " + std::to_string(i));
    }
  }
  return {};
}

RunnerStatus LoadedMethod::run(std::span<const TensorView> inputs,
                               std::vector<TensorView>& outputs) {
  const std::lock_guard lock(mutex_);
  if (inputs.size() != info_.inputs.size()) {
    return runner_error(et::Error::InvalidArgument, "method '%s' takes %zu inputs, got %zu",
                        info_.name.c_str(), info_.inputs.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (RunnerStatus status = check_input(i, inputs[i]); !status.ok()) {
      return status;
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (RunnerStatus status = set_input(i, inputs[i]); !status.ok()) {
      return status;
    }
  }
  (void)take_last_error();
  const et::Error error = method_->execute();
  if (error != et::Error::Ok) {
    return executorch_error(error, "method '" + info_.name + "'");
  }
  return get_outputs(outputs);
}

RunnerStatus LoadedMethod::check_input(size_t index, const TensorView& input) const {
  const ArgumentInfo& expected = info_.inputs[index];
  bool fits = input.sizes.size() == expected.sizes.size() && input.sizes.size() <= kMaxDims &&
              input.dtype == expected.dtype;
  for (size_t d = 0; fits && d < input.sizes.size(); ++d) {
    fits = input.sizes[d] >= 0 && input.sizes[d] <= expected.sizes[d];
  }
  if (!fits) {
    return runner_error(et::Error::InvalidArgument,
                        "method '%s': input %zu is %s%s, expected %s with sizes of at most %s",
                        info_.name.c_str(), index, dtype_text(input.dtype),
                        shape_text(input.sizes).c_str(), dtype_text(expected.dtype),
                        shape_text(expected.sizes).c_str());
  }
  if (input.data == nullptr && input.nbytes() > 0) {
    return runner_error(et::Error::InvalidArgument, "method '%s': input %zu has no data",
                        info_.name.c_str(), index);
  }
  return {};
}

RunnerStatus LoadedMethod::set_input(size_t index, const TensorView& input) {
  et::Error error = et::Error::Ok;
  if (!info_.inputs[index].is_tensor) {
    const et::EValue value = input.dtype == ScalarType::Long   ? et::EValue(*input.as<int64_t>())
                             : input.dtype == ScalarType::Bool ? et::EValue(*input.as<bool>())
                                                               : et::EValue(*input.as<double>());
    error = method_->set_input(value, index);
  } else {
    std::array<executorch::aten::SizesType, kMaxDims> sizes;
    std::array<executorch::aten::DimOrderType, kMaxDims> dim_order;
    std::array<executorch::aten::StridesType, kMaxDims> strides;
    const size_t n = input.sizes.size();
    int32_t stride = 1;
    for (size_t d = n; d-- > 0;) {
      sizes[d] = input.sizes[d];
      dim_order[d] = static_cast<executorch::aten::DimOrderType>(d);
      strides[d] = stride;
      stride *= std::max(input.sizes[d], 1);
    }
    executorch::aten::TensorImpl tensor(input.dtype, static_cast<ssize_t>(n), sizes.data(),
                                        const_cast<void*>(input.data), dim_order.data(),
                                        strides.data());
    error = method_->set_input(et::EValue(executorch::aten::Tensor(&tensor)), index);
  }
  if (error != et::Error::Ok) {
    return executorch_error(
        error, "method '" + info_.name + "': input " + std::to_string(index) + " of sizes " +
                   shape_text(input.sizes) + " does not fit " +
                   shape_text(info_.inputs[index].sizes) +
                   " (only sizes that were exported as dynamic may be smaller)");
  }
  return {};
}

RunnerStatus LoadedMethod::get_outputs(std::vector<TensorView>& outputs) {
  outputs.resize(method_->outputs_size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const et::EValue& value = method_->get_output(i);
    LoadedMethod::Number& number = numbers_[i];
    if (value.isTensor()) {
      const executorch::aten::Tensor& tensor = value.toTensor();
      outputs[i] = {tensor.const_data_ptr(),
                    tensor.scalar_type(),
                    {tensor.sizes().data(), tensor.sizes().size()}};
    } else if (value.isInt()) {
      number.i = value.toInt();
      outputs[i] = {&number.i, ScalarType::Long, {}};
    } else if (value.isDouble()) {
      number.d = value.toDouble();
      outputs[i] = {&number.d, ScalarType::Double, {}};
    } else if (value.isBool()) {
      number.b = value.toBool();
      outputs[i] = {&number.b, ScalarType::Bool, {}};
    } else {
      return runner_error(et::Error::NotSupported,
                          "method '%s': output %zu is neither a tensor nor a number",
                          info_.name.c_str(), i);
    }
  }
  return {};
}

}  // namespace executorch_ggml
