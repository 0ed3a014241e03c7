// Bytes of tokens in, whole UTF-8 characters out: a character that is spread over
// several tokens is held back until it is complete, and bytes that are no UTF-8 come
// out as U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace executorch_ggml::tools {

class Utf8Stream {
 public:
  // The text that is complete with these bytes.
  std::string add(std::string_view bytes);
  // What is left: U+FFFD for a character that never got whole.
  std::string finish();

 private:
  std::string pending_;  // the start of a character, at most 3 bytes
};

}  // namespace executorch_ggml::tools
