// Layouts of quantized weights that ggml's faster CPU products need: tiles for AMX,
// interleaved rows for others. They are ggml's "extra" CPU buffer types, which
// llama.cpp uses as well.
#pragma once

#include <array>
#include <cstdint>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml.h"
#include "runtime/status.h"

namespace executorch_ggml {

// The buffer type in whose layout this CPU multiplies such a weight fastest, or
// null when that is the plain one. Only products read packed weights.
ggml_backend_buffer_type_t find_packed_layout(ggml_type type, const std::array<int64_t, 4>& ne);

// Packs `bytes`, a whole weight of `tensor`'s type and extents. `tensor` has no data
// yet and is left without.
Status pack_weight(ggml_backend_buffer_type_t layout, const ggml_tensor& tensor, const void* bytes,
                   ggml_backend_buffer_ptr& out);

// Makes `tensor`, which has no data, read from a buffer that pack_weight filled.
void use_packed(const ggml_backend_buffer_ptr& packed, ggml_tensor& tensor);

}  // namespace executorch_ggml
