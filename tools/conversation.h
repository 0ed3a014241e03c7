// What was said so far, as the text that the model is to continue.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "executorch_ggml/program_runner.h"
#include "tools/tokenizer.h"

namespace executorch_ggml::tools {

// With a chat template: turns of user and assistant. Without: one text that both write.
class Conversation {
 public:
  Conversation(std::optional<std::string> chat_template, std::optional<std::string> system);

  // Adds what the user says and gives the whole text up to where the answer begins.
  RunnerStatus ask(const std::string& question, std::string& prompt);

  // Exactly one of these follows each ask() that worked.
  void answered(const std::string& answer);
  void withdraw();  // takes the question back

  void reset();

 private:
  std::optional<std::string> template_;
  std::optional<std::string> system_;
  std::vector<ChatMessage> messages_;
};

}  // namespace executorch_ggml::tools
