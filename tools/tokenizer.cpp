#include "tools/tokenizer.h"

#include <llama.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/runner_status.h"

namespace executorch_ggml::tools {
namespace {

namespace et = executorch::runtime;

// What libllama says is wrong while it loads a file, for the error's text.
struct Complaints {
  std::string text;
  bool continues = false;
};

void collect_errors(ggml_log_level level, const char* text, void* user_data) {
  Complaints& complaints = *static_cast<Complaints*>(user_data);
  if (level != GGML_LOG_LEVEL_CONT) {
    complaints.continues = level == GGML_LOG_LEVEL_ERROR;
  }
  if (complaints.continues) {
    complaints.text.append(text);
  }
}

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  std::string result;
  for (const char c : text) {
    result.append(c == '\n' ? "; " : std::string(1, c));
  }
  return result;
}

}  // namespace

void Tokenizer::FreeModel::operator()(llama_model* model) const { llama_model_free(model); }

RunnerStatus Tokenizer::load(const std::string& gguf, std::unique_ptr<Tokenizer>& out) {
  // libllama and the runtime share ggml, and so the place where its log goes.
  ggml_log_callback log = nullptr;
  void* log_data = nullptr;
  llama_log_get(&log, &log_data);
  Complaints complaints;
  llama_log_set(collect_errors, &complaints);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer());
  tokenizer->model_.reset(llama_model_load_from_file(gguf.c_str(), params));
  llama_log_set(log, log_data);
  if (tokenizer->model_ == nullptr) {
    return runner_error(
        et::Error::InvalidExternalData, "libllama cannot read the tokenizer of '%s': %s",
        gguf.c_str(),
        complaints.text.empty() ? "it gives no reason" : one_line(complaints.text).c_str());
  }
  tokenizer->vocab_ = llama_model_get_vocab(tokenizer->model_.get());
  if (llama_vocab_type(tokenizer->vocab_) == LLAMA_VOCAB_TYPE_NONE) {
    return runner_error(et::Error::InvalidExternalData,
                        "'%s' holds no tokenizer, so text cannot be turned into tokens",
                        gguf.c_str());
  }
  if (const char* text = llama_model_chat_template(tokenizer->model_.get(), nullptr)) {
    tokenizer->chat_template_ = text;
  }
  out = std::move(tokenizer);
  return {};
}

int64_t Tokenizer::vocab_size() const { return llama_vocab_n_tokens(vocab_); }

RunnerStatus Tokenizer::encode(std::string_view text, std::vector<int32_t>& out) const {
  static_assert(std::is_same_v<llama_token, int32_t>);
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) / 2) {
    return runner_error(et::Error::InvalidArgument, "a text of %zu bytes is too long", text.size());
  }
  const auto length = static_cast<int32_t>(text.size());
  // Tokens are at least a byte long, special ones at begin and end apart.
  out.resize(text.size() + 4);
  const auto encode_into = [&] {
    return llama_tokenize(vocab_, text.data(), length, out.data(), static_cast<int32_t>(out.size()),
                          /*add_special=*/true, /*parse_special=*/true);
  };
  int32_t count = encode_into();
  if (count < 0 && count != std::numeric_limits<int32_t>::min()) {
    out.resize(static_cast<size_t>(-count));
    count = encode_into();
  }
  if (count < 0) {
    return runner_error(et::Error::InvalidArgument, "libllama could not tokenize the text");
  }
  out.resize(static_cast<size_t>(count));
  // A template may write the begin-of-text token that the tokenizer adds as well.
  const int32_t bos = llama_vocab_bos(vocab_);
  if (out.size() >= 2 && out[0] == bos && out[1] == bos) {
    out.erase(out.begin());
  }
  return {};
}

std::string Tokenizer::bytes_of(int32_t token) const {
  std::string bytes(32, '\0');
  const auto render = [&] {
    return llama_token_to_piece(vocab_, token, bytes.data(), static_cast<int32_t>(bytes.size()),
                                /*lstrip=*/0, /*special=*/false);
  };
  int32_t count = render();
  if (count < 0) {
    bytes.resize(static_cast<size_t>(-count));
    count = render();
  }
  bytes.resize(static_cast<size_t>(std::max(count, 0)));
  return bytes;
}

bool Tokenizer::ends_generation(int32_t token) const { return llama_vocab_is_eog(vocab_, token); }

RunnerStatus Tokenizer::apply_chat_template(const std::string& name,
                                            std::span<const ChatMessage> messages,
                                            std::string& out) {
  std::vector<llama_chat_message> parts;
  size_t size = 1024;
  for (const ChatMessage& message : messages) {
    parts.push_back({message.role.c_str(), message.content.c_str()});
    size += 2 * (message.role.size() + message.content.size());
  }
  out.resize(size);
  const auto apply = [&] {
    return llama_chat_apply_template(name.c_str(), parts.data(), parts.size(), /*add_ass=*/true,
                                     out.data(), static_cast<int32_t>(out.size()));
  };
  int32_t count = apply();
  if (count > 0 && static_cast<size_t>(count) > out.size()) {
    out.resize(static_cast<size_t>(count));
    count = apply();
  }
  if (count < 0) {
    out.clear();
    return runner_error(et::Error::NotSupported, "libllama does not know this chat template");
  }
  out.resize(static_cast<size_t>(count));
  return {};
}

std::string Tokenizer::chat_template_names() {
  const int32_t count = llama_chat_builtin_templates(nullptr, 0);
  std::vector<const char*> names(static_cast<size_t>(std::max(count, 0)));
  llama_chat_builtin_templates(names.data(), names.size());
  std::string all;
  for (const char* name : names) {
    all.append(all.empty() ? "" : ", ").append(name);
  }
  return all;
}

}  // namespace executorch_ggml::tools
