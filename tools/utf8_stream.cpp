#include "tools/utf8_stream.h"

#include <cstddef>
#include <cstdint>

namespace executorch_ggml::tools {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What the bytes at the front are: a character of `length` bytes, the start of one, or
// `length` bytes to be replaced.
struct Front {
  enum class Kind { Character, Incomplete, Invalid } kind;
  size_t length;
};

// The second byte's range is narrower after some first bytes (Unicode, table 3-7): no
// overlong forms, no surrogates, nothing past U+10FFFF.
Front classify(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) {
    return {Front::Kind::Character, 1};
  }
  if (first < 0xC2 || first > 0xF4) {
    return {Front::Kind::Invalid, 1};
  }
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) {
      return {Front::Kind::Incomplete, i};
    }
    uint8_t low = 0x80;
    uint8_t high = 0xBF;
    if (i == 1) {
      low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : low;
      high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : high;
    }
    if (byte(i) < low || byte(i) > high) {
      return {Front::Kind::Invalid, i};
    }
  }
  return {Front::Kind::Character, length};
}

}  // namespace

std::string Utf8Stream::add(std::string_view bytes) {
  pending_.append(bytes);
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Front front = classify(rest);
    if (front.kind == Front::Kind::Incomplete) {
      break;
    }
    text.append(front.kind == Front::Kind::Character ? rest.substr(0, front.length) : kReplacement);
    rest.remove_prefix(front.length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string Utf8Stream::finish() {
  const std::string text(pending_.empty() ? std::string_view() : kReplacement);
  pending_.clear();
  return text;
}

}  // namespace executorch_ggml::tools
