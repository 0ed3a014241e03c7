// How a data map tells the delegate a tensor's ggml type and extents.
//
// ExecuTorch's NamedDataMap hands out bytes by name; a wrapper such as
// MergedDataMap passes nothing else through. So each tensor has a second key,
// kTensorDescriptorPrefix + name, whose data is one TensorDescriptor.
#pragma once

#include <cstdint>

namespace executorch_ggml {

inline constexpr char kTensorDescriptorPrefix[] = "ggml.tensor:";

// The bytes 'G' 'G' 'T' 'D'.
inline constexpr uint32_t kTensorDescriptorMagic = 0x44544747;

// Little-endian, aligned to 8 bytes at least. A reader checks magic, size and reserved.
struct TensorDescriptor {
  uint32_t magic;
  uint32_t ggml_type;  // enum ggml_type
  uint32_t n_dims;     // 1 to 4
  uint32_t reserved;   // 0
  int64_t ne[4];       // ggml order (ne[0] varies fastest), 1 from n_dims on
};
static_assert(sizeof(TensorDescriptor) == 48, "the layout is part of the format");

}  // namespace executorch_ggml
