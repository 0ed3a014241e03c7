// The types a GGUF file names: tensors' (enum ggml_type) and metadata values'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace executorch_ggml {

// A ggml tensor type as a file stores it: `block_size` elements along ne[0] take
// `type_size` bytes.
struct GgmlTypeInfo {
  const char* name;
  uint32_t block_size;
  uint32_t type_size;
};

// Null for a number that names no type, or one that ggml has removed.
const GgmlTypeInfo* ggml_type_info(uint32_t type);

// The name of a format that ggml dropped, or null. Files of them exist, so they
// are refused by name.
const char* removed_ggml_type_name(uint32_t type);

// The numbers are the file format's.
enum class GgufType : uint32_t {
  U8 = 0,
  I8 = 1,
  U16 = 2,
  I16 = 3,
  U32 = 4,
  I32 = 5,
  F32 = 6,
  Bool = 7,
  String = 8,
  Array = 9,
  U64 = 10,
  I64 = 11,
  F64 = 12,
};

const char* gguf_type_name(GgufType type);

// Bytes of a value; 0 for strings and arrays, whose size is in the file.
size_t gguf_type_size(GgufType type);

// A file's text for an error message: at most 64 bytes, everything but printable
// ASCII escaped, so that a log line stays one line.
std::string printable(std::string_view text);

// Well-formed UTF-8 that a C string can hold: no NUL, no overlong forms,
// surrogates or values past U+10FFFF.
bool is_text(std::string_view text);

}  // namespace executorch_ggml
