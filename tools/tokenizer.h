// The tokenizer and chat template of a .gguf file, by libllama, which reads the
// vocabulary alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executorch_ggml/program_runner.h"

struct llama_model;
struct llama_vocab;

namespace executorch_ggml::tools {

struct ChatMessage {
  std::string role;  // system, user, assistant
  std::string content;
};

class Tokenizer {
 public:
  static RunnerStatus load(const std::string& gguf, std::unique_ptr<Tokenizer>& out);

  int64_t vocab_size() const;

  // Begins (and ends) as the file says, e.g. with its begin-of-text token. Text such as
  // "<|im_start|>" stands for the special token.
  RunnerStatus encode(std::string_view text, std::vector<int32_t>& out) const;

  // The token's bytes, perhaps part of a character; nothing for control tokens.
  std::string bytes_of(int32_t token) const;

  // End of text, end of turn and the like.
  bool ends_generation(int32_t token) const;

  // The template that the file holds, if any.
  const std::optional<std::string>& chat_template() const { return chat_template_; }

  // The messages as one text that ends where the assistant begins to speak. `name` is a
  // template's text or the name of one that libllama knows ("chatml", …).
  static RunnerStatus apply_chat_template(const std::string& name,
                                          std::span<const ChatMessage> messages, std::string& out);

  // "chatml, llama2, …": the names above.
  static std::string chat_template_names();

 private:
  struct FreeModel {
    void operator()(llama_model* model) const;
  };

  Tokenizer() = default;

  std::unique_ptr<llama_model, FreeModel> model_;
  const llama_vocab* vocab_ = nullptr;
  std::optional<std::string> chat_template_;
};

}  // namespace executorch_ggml::tools
