#include "tools/conversation.h"

#include <utility>

namespace executorch_ggml::tools {

Conversation::Conversation(std::optional<std::string> chat_template,
                           std::optional<std::string> system)
    : template_(std::move(chat_template)), system_(std::move(system)) {
  reset();
}

RunnerStatus Conversation::ask(const std::string& question, std::string& prompt) {
  messages_.push_back({"user", question});
  if (template_) {
    RunnerStatus status = Tokenizer::apply_chat_template(*template_, messages_, prompt);
    if (!status.ok()) {
      withdraw();
    }
    return status;
  }
  prompt.clear();
  for (const ChatMessage& message : messages_) {
    prompt.append(message.content);
  }
  return {};
}

void Conversation::answered(const std::string& answer) {
  messages_.push_back({"assistant", answer});
}

void Conversation::withdraw() { messages_.pop_back(); }

void Conversation::reset() {
  messages_.clear();
  if (system_) {
    messages_.push_back({"system", *system_});
  }
}

}  // namespace executorch_ggml::tools
