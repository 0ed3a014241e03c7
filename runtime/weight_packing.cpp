#include "runtime/weight_packing.h"

#include "ggml-cpu.h"

namespace executorch_ggml {
namespace {

ggml_backend_buffer_type_t* extra_layouts(ggml_backend_dev_t cpu) {
  // Null-terminated; ggml offers the function by name only.
  const auto list =
      reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts"));
  return list != nullptr ? list(cpu) : nullptr;
}

// Whether the CPU multiplies such a weight in that layout, asked the way llama.cpp
// does: with a product whose weight lies in an (empty) buffer of the type.
bool multiplies(ggml_backend_dev_t cpu, ggml_backend_buffer_type_t layout, ggml_type type,
                const std::array<int64_t, 4>& ne) {
  const ggml_context_ptr context(
      ggml_init({.mem_size = 4 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
  const ggml_backend_buffer_ptr empty(ggml_backend_buft_alloc_buffer(layout, 0));
  if (context == nullptr || empty == nullptr) {
    return false;
  }
  ggml_tensor* weight = ggml_new_tensor(context.get(), type, 4, ne.data());
  ggml_tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, ne[0], 1);
  ggml_tensor* product = ggml_mul_mat(context.get(), weight, x);
  weight->buffer = empty.get();
  return ggml_backend_dev_supports_op(cpu, product);
}

}  // namespace

ggml_backend_buffer_type_t find_packed_layout(ggml_type type, const std::array<int64_t, 4>& ne) {
  if (!ggml_is_quantized(type) || ne[2] != 1 || ne[3] != 1) {
    return nullptr;
  }
  if (ne[0] <= ggml_blck_size(type)) {
    return nullptr;  // ggml's AMX product of rows of a single block is wrong
  }
  const ggml_backend_dev_t cpu = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
  for (ggml_backend_buffer_type_t* layout = extra_layouts(cpu);
       layout != nullptr && *layout != nullptr; ++layout) {
    if (multiplies(cpu, *layout, type, ne)) {
      return *layout;
    }
  }
  return nullptr;
}

Status pack_weight(ggml_backend_buffer_type_t layout, const ggml_tensor& tensor, const void* bytes,
                   ggml_backend_buffer_ptr& out) {
  ggml_tensor target = tensor;
  const size_t size = ggml_backend_buft_get_alloc_size(layout, &target);
  out.reset(ggml_backend_buft_alloc_buffer(layout, size));
  if (out == nullptr) {
    return make_error(StatusCode::OutOfMemory, "no memory for %zu bytes of packed weights", size);
  }
  use_packed(out, target);
  ggml_backend_tensor_set(&target, bytes, 0, ggml_nbytes(&target));
  return {};
}

void use_packed(const ggml_backend_buffer_ptr& packed, ggml_tensor& tensor) {
  ggml_backend_tensor_alloc(packed.get(), &tensor, ggml_backend_buffer_get_base(packed.get()));
}

}  // namespace executorch_ggml
