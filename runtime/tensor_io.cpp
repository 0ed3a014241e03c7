#include "runtime/tensor_io.h"

#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/scalar_convert.h"
#include "runtime/scalar_type.h"
#include "runtime/symexpr.h"

namespace executorch_ggml {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::EValue;

static_assert(static_cast<int>(ScalarType::Byte) == static_cast<int>(Scalar::Byte));
static_assert(static_cast<int>(ScalarType::Char) == static_cast<int>(Scalar::Char));
static_assert(static_cast<int>(ScalarType::Short) == static_cast<int>(Scalar::Short));
static_assert(static_cast<int>(ScalarType::Int) == static_cast<int>(Scalar::Int));
static_assert(static_cast<int>(ScalarType::Long) == static_cast<int>(Scalar::Long));
static_assert(static_cast<int>(ScalarType::Half) == static_cast<int>(Scalar::Half));
static_assert(static_cast<int>(ScalarType::Float) == static_cast<int>(Scalar::Float));
static_assert(static_cast<int>(ScalarType::Double) == static_cast<int>(Scalar::Double));
static_assert(static_cast<int>(ScalarType::Bool) == static_cast<int>(Scalar::Bool));
static_assert(static_cast<int>(ScalarType::BFloat16) == static_cast<int>(Scalar::BFloat16));

// ExecuTorch's planned memory has it, and ggml's CPU kernels load unaligned.
constexpr size_t kInPlaceAlignment = 16;

long long ll(int64_t value) { return static_cast<long long>(value); }

// Whether the dims that count lie in the expected order: those of size 1 may be anywhere.
bool has_dim_order(const Tensor& tensor, const std::vector<uint8_t>& expected) {
  const auto found = tensor.dim_order();
  const auto sizes = tensor.sizes();
  const auto next = [&](size_t& i, const auto& at) {
    while (i < sizes.size() && sizes[at(i)] == 1) {
      ++i;
    }
    return i < sizes.size() ? at(i) : sizes.size();
  };
  const auto wanted_at = [&](size_t i) { return expected.empty() ? i : size_t{expected[i]}; };
  const auto found_at = [&](size_t i) { return size_t{found[i]}; };
  for (size_t i = 0, j = 0; i < sizes.size() || j < sizes.size(); ++i, ++j) {
    if (next(i, wanted_at) != next(j, found_at)) {
      return false;
    }
  }
  return true;
}

template <typename Sizes>
std::string sizes_text(const Sizes& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return text + "]";
}

// The input's number that gives a symbol this value.
int64_t raw_value(const Symbol& symbol, int64_t value) {
  int64_t raw = 0;
  if (__builtin_mul_overflow(value, symbol.divisor, &raw) ||
      __builtin_add_overflow(raw, symbol.offset, &raw)) {
    return value < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  }
  return raw;
}

bool overlaps(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto begin_a = reinterpret_cast<uintptr_t>(a);
  const auto begin_b = reinterpret_cast<uintptr_t>(b);
  return begin_a < begin_b + b_bytes && begin_b < begin_a + a_bytes;
}

}  // namespace

Status TensorIo::check_program(const Graph& graph) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Argument& input = graph.inputs[i];
    const uint8_t dtype = graph.values[input.value].dtype;
    if (!can_read(static_cast<Scalar>(input.scalar_type), static_cast<ggml_type>(dtype))) {
      return make_error(StatusCode::InvalidProgram, "input %zu: %s cannot become ggml type %u", i,
                        scalar_name(input.scalar_type), static_cast<unsigned>(dtype));
    }
  }
  for (const Symbol& symbol : graph.symbols) {
    const ValueId value = graph.inputs[symbol.input].value;
    if (symbol.source == SymbolSource::InputElement && graph.values[value].dtype != GGML_TYPE_I32) {
      return make_error(StatusCode::InvalidProgram, "symbol '%s' reads input %u, no integer",
                        symbol.name.c_str(), symbol.input);
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Argument& output = graph.outputs[i];
    const uint8_t dtype = graph.values[output.value].dtype;
    if (dtype != kDtypeFromFile &&
        !can_write(static_cast<ggml_type>(dtype), static_cast<Scalar>(output.scalar_type))) {
      return make_error(StatusCode::InvalidProgram, "output %zu: ggml type %u cannot become %s", i,
                        static_cast<unsigned>(dtype), scalar_name(output.scalar_type));
    }
  }
  return {};
}

TensorIo::TensorIo(const Graph& graph, std::vector<int64_t> symbol_max)
    : graph_(graph),
      symbol_max_(std::move(symbol_max)),
      views_(graph.inputs.size()),
      raw_sizes_(graph.inputs.size()),
      symbols_(graph.symbols.size()),
      input_staging_(graph.inputs.size()),
      output_staging_(graph.outputs.size()) {}

Status TensorIo::begin(Arguments args) {
  const size_t n_inputs = graph_.inputs.size();
  if (args.size() != n_inputs + graph_.outputs.size()) {
    return make_error(StatusCode::InvalidArgument,
                      "%zu arguments, expected %zu inputs and %zu outputs", args.size(), n_inputs,
                      graph_.outputs.size());
  }
  for (size_t i = 0; i < n_inputs; ++i) {
    EG_RETURN_IF_ERROR(read_input(i, *args[i]));
  }
  EG_RETURN_IF_ERROR(read_symbols());
  EG_RETURN_IF_ERROR(evaluate(graph_.exprs, symbols_, exprs_));
  EG_RETURN_IF_ERROR(check_input_sizes(args));
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    EG_RETURN_IF_ERROR(resize_output(i, *args[n_inputs + i]));
  }
  return {};
}

Status TensorIo::read_input(size_t index, const EValue& value) {
  const Argument& declared = graph_.inputs[index];
  const auto scalar = static_cast<Scalar>(declared.scalar_type);
  InputView& view = views_[index];
  std::vector<int64_t>& sizes = raw_sizes_[index];
  view.type = static_cast<ggml_type>(graph_.values[declared.value].dtype);
  sizes.clear();

  const void* data = nullptr;
  int64_t scalar_value = 0;
  if (value.isTensor()) {
    const Tensor tensor = value.toTensor();
    const auto found = static_cast<int>(tensor.scalar_type());
    if (found != declared.scalar_type) {
      return make_error(StatusCode::InvalidArgument, "input %zu is %s, expected %s", index,
                        scalar_name(found), scalar_name(declared.scalar_type));
    }
    sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    if (sizes.size() != declared.sizes.size()) {
      return make_error(StatusCode::InvalidArgument,
                        "input %zu has shape %s, expected %zu dimensions", index,
                        sizes_text(sizes).c_str(), declared.sizes.size());
    }
    if (!has_dim_order(tensor, declared.dim_order)) {
      return make_error(StatusCode::InvalidArgument,
                        "input %zu is laid out in another order of dimensions than the program "
                        "was exported with",
                        index);
    }
    data = tensor.const_data_ptr();
    view.count = tensor.numel();
    if (data == nullptr && view.count > 0) {
      return make_error(StatusCode::InvalidArgument, "input %zu has no data", index);
    }
  } else if (value.isInt() && scalar == Scalar::Long && declared.sizes.empty()) {
    scalar_value = value.toInt();
    data = &scalar_value;
    view.count = 1;
  } else {
    return make_error(StatusCode::InvalidArgument, "input %zu is not a tensor", index);
  }

  if (is_same_layout(view.type, declared.scalar_type) && is_aligned(data, kInPlaceAlignment)) {
    view.data = data;
    return {};
  }
  const auto count = static_cast<size_t>(view.count);
  AlignedBuffer& staging = input_staging_[index];
  if (!staging.reserve(std::max<size_t>(count, 1) * sizeof(int32_t))) {
    return make_error(StatusCode::OutOfMemory, "no memory to convert input %zu", index);
  }
  view.data = staging.data();
  if (view.type == GGML_TYPE_F32) {
    read_floats(scalar, data, static_cast<float*>(staging.data()), count);
    return {};
  }
  const size_t end = read_integers(scalar, data, static_cast<int32_t*>(staging.data()), count);
  if (end != count) {
    return make_error(StatusCode::InvalidArgument,
                      "input %zu: element %zu is %lld and does not fit 32 bits", index, end,
                      ll(static_cast<const int64_t*>(data)[end]));
  }
  return {};
}

Status TensorIo::read_symbols() {
  for (size_t i = 0; i < graph_.symbols.size(); ++i) {
    const Symbol& symbol = graph_.symbols[i];
    const bool is_dim = symbol.source == SymbolSource::InputDim;
    const InputView& view = views_[symbol.input];
    const std::vector<int64_t>& sizes = raw_sizes_[symbol.input];
    const char* what = is_dim ? "the size of dimension" : "the value of element";
    if (symbol.index >= (is_dim ? static_cast<int64_t>(sizes.size()) : view.count)) {
      return make_error(StatusCode::InvalidArgument, "input %u has no %s %u", symbol.input,
                        is_dim ? "dimension" : "element", symbol.index);
    }
    const int64_t raw = is_dim ? sizes[symbol.index] : view.i32()[symbol.index];
    const int64_t max = symbol_max_[i];
    const int64_t shifted = raw - symbol.offset;  // offsets are limited by the verifier
    const int64_t value = shifted / symbol.divisor;
    if (shifted % symbol.divisor != 0) {
      return make_error(StatusCode::InvalidArgument,
                        "input %u: %s %u is %lld, expected %lld plus a multiple of %lld",
                        symbol.input, what, symbol.index, ll(raw), ll(symbol.offset),
                        ll(symbol.divisor));
    }
    if (value < symbol.min || value > max) {
      const bool lowered = max < symbol.max && value > max;
      return make_error(StatusCode::InvalidArgument,
                        "input %u: %s %u is %lld, allowed are %lld to %lld%s", symbol.input, what,
                        symbol.index, ll(raw), ll(raw_value(symbol, symbol.min)),
                        ll(raw_value(symbol, max)), lowered ? " (option max_tokens_per_call)" : "");
    }
    symbols_[i] = value;
  }
  return {};
}

Status TensorIo::check_input_sizes(Arguments args) const {
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    if (!args[i]->isTensor()) {
      continue;
    }
    const std::vector<ExprId>& declared = graph_.inputs[i].sizes;
    for (size_t d = 0; d < declared.size(); ++d) {
      if (raw_sizes_[i][d] != exprs_[declared[d]]) {
        std::vector<int64_t> expected;
        for (const ExprId size : declared) {
          expected.push_back(exprs_[size]);
        }
        return make_error(StatusCode::InvalidArgument,
                          "input %zu has shape %s, expected %s (dimension %zu)", i,
                          sizes_text(raw_sizes_[i]).c_str(), sizes_text(expected).c_str(), d);
      }
    }
  }
  return {};
}

Status TensorIo::resize_output(size_t index, EValue& value) {
  using Size = executorch::aten::SizesType;
  const Argument& declared = graph_.outputs[index];
  if (!value.isTensor()) {
    return make_error(StatusCode::InvalidArgument, "output %zu is not a tensor", index);
  }
  Tensor& tensor = value.toTensor();
  const auto found = static_cast<int>(tensor.scalar_type());
  if (found != declared.scalar_type) {
    return make_error(StatusCode::InvalidArgument, "output %zu is %s, expected %s", index,
                      scalar_name(found), scalar_name(declared.scalar_type));
  }
  constexpr size_t kMaxRank = limits::kRank;
  std::array<Size, kMaxRank> sizes{};
  const size_t rank = declared.sizes.size();
  if (rank > kMaxRank || rank != static_cast<size_t>(tensor.dim()) ||
      !has_dim_order(tensor, declared.dim_order)) {
    return make_error(StatusCode::InvalidArgument,
                      "output %zu has rank %zd or an order of dimensions that differ from the "
                      "exported ones (rank %zu)",
                      index, tensor.dim(), rank);
  }
  bool same = true;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t size = exprs_[declared.sizes[d]];
    if (size < 0 || size > std::numeric_limits<Size>::max()) {
      return make_error(StatusCode::InvalidArgument, "output %zu: dimension %zu would be %lld",
                        index, d, ll(size));
    }
    sizes[d] = static_cast<Size>(size);
    same = same && tensor.sizes()[d] == sizes[d];
  }
  if (!same && executorch::runtime::resize_tensor(tensor, {sizes.data(), rank}) !=
                   executorch::runtime::Error::Ok) {
    return make_error(StatusCode::InvalidArgument,
                      "output %zu needs shape %s but was made for %s and cannot be resized", index,
                      sizes_text(executorch::runtime::Span<Size>(sizes.data(), rank)).c_str(),
                      sizes_text(tensor.sizes()).c_str());
  }
  if (tensor.mutable_data_ptr() == nullptr && tensor.numel() > 0) {
    return make_error(StatusCode::InvalidArgument,
                      "output %zu has no memory; set it with Method::set_output_data_ptr", index);
  }
  return {};
}

Status TensorIo::check_indices(const Plan& plan) const {
  for (const IndexCheck& check : plan.index_checks) {
    const std::span<const int32_t> ids = views_[check.input].i32();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= check.limit) {
        return make_error(StatusCode::InvalidArgument,
                          "input %u: element %zu is %d, allowed are 0 to %lld (a row index)",
                          check.input, i, ids[i], ll(check.limit - 1));
      }
    }
  }
  return {};
}

Status TensorIo::bind(Plan& plan, Arguments args) {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const InputView& view = views_[i];
    const ggml_tensor& tensor = *plan.inputs[i].root;
    if (view.count != ggml_nelements(&tensor)) {
      return make_error(StatusCode::InvalidProgram,
                        "input %zu has %lld elements but its value has %lld", i, ll(view.count),
                        ll(ggml_nelements(&tensor)));
    }
    plan.inputs[i].point_to(const_cast<void*>(view.data));
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const OutputBinding& binding = plan.outputs[i];
    const Tensor& tensor = args[plan.inputs.size() + i]->toTensor();
    if (tensor.numel() != ggml_nelements(binding.tensor)) {
      return make_error(StatusCode::InvalidProgram,
                        "output %zu has %zd elements but its value has %lld", i, tensor.numel(),
                        ll(ggml_nelements(binding.tensor)));
    }
    if (binding.direct == OutputBinding::kCopy) {
      continue;
    }
    void* target = tensor.mutable_data_ptr();
    const size_t bytes = ggml_nbytes(binding.tensor);
    bool in_place = is_aligned(target, kInPlaceAlignment);
    for (const InputView& view : views_) {
      in_place = in_place && !overlaps(target, bytes, view.data,
                                       static_cast<size_t>(view.count) * ggml_type_size(view.type));
    }
    if (!in_place) {
      if (!output_staging_[i].reserve(bytes)) {
        return make_error(StatusCode::OutOfMemory, "no memory for output %zu", i);
      }
      target = output_staging_[i].data();
    }
    plan.direct_outputs[binding.direct].point_to(target);
  }
  return {};
}

Status TensorIo::finish(const Plan& plan, Arguments args) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Tensor& tensor = args[plan.inputs.size() + i]->toTensor();
    void* out = tensor.mutable_data_ptr();
    const ggml_tensor& result = *plan.outputs[i].tensor;
    if (result.data != out) {
      EG_RETURN_IF_ERROR(store(i, result, out));
    }
  }
  return {};
}

Status TensorIo::store(size_t index, const ggml_tensor& tensor, void* out) {
  const auto scalar = static_cast<Scalar>(graph_.outputs[index].scalar_type);
  if (!can_write(tensor.type, scalar)) {
    return make_error(StatusCode::InvalidProgram, "output %zu: %s cannot become %s", index,
                      ggml_type_name(tensor.type), scalar_name(static_cast<int>(scalar)));
  }
  const size_t element = ggml_type_size(tensor.type);
  const size_t out_element = executorch::runtime::elementSize(static_cast<ScalarType>(scalar));
  const bool contiguous = ggml_is_contiguous(&tensor);
  const int64_t count = contiguous ? ggml_nelements(&tensor) : tensor.ne[0];
  const int64_t n_rows = ggml_nelements(&tensor) / count;
  char* target = static_cast<char*>(out);
  row_.resize(static_cast<size_t>(contiguous ? 0 : count) * element);
  for (int64_t r = 0; r < n_rows; ++r) {
    const int64_t i1 = contiguous ? 0 : r % tensor.ne[1];
    const int64_t i2 = contiguous ? 0 : r / tensor.ne[1] % tensor.ne[2];
    const int64_t i3 = contiguous ? 0 : r / tensor.ne[1] / tensor.ne[2];
    const char* source =
        static_cast<const char*>(tensor.data) + static_cast<size_t>(i1) * tensor.nb[1] +
        static_cast<size_t>(i2) * tensor.nb[2] + static_cast<size_t>(i3) * tensor.nb[3];
    if (!contiguous && tensor.nb[0] != element) {
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(row_.data() + static_cast<size_t>(i) * element,
                    source + static_cast<size_t>(i) * tensor.nb[0], element);
      }
      source = row_.data();
    }
    const auto n = static_cast<size_t>(count);
    if (is_same_layout(tensor.type, static_cast<int>(scalar))) {
      std::memcpy(target, source, n * element);
    } else if (tensor.type == GGML_TYPE_I32) {
      const auto* values = reinterpret_cast<const int32_t*>(source);
      if (const size_t end = write_integers(values, scalar, target, n); end != n) {
        return make_error(StatusCode::InvalidArgument, "output %zu: the value %d does not fit %s",
                          index, values[end], scalar_name(static_cast<int>(scalar)));
      }
    } else if (tensor.type == GGML_TYPE_F32) {
      write_floats(reinterpret_cast<const float*>(source), scalar, target, n);
    } else {
      wide_.resize(n);
      read_floats(tensor.type == GGML_TYPE_F16 ? Scalar::Half : Scalar::BFloat16, source,
                  wide_.data(), n);
      write_floats(wide_.data(), scalar, target, n);
    }
    target += n * out_element;
  }
  return {};
}

}  // namespace executorch_ggml
