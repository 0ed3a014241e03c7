#include "runtime/backend_options.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "executorch_ggml/options.h"

namespace executorch_ggml {
namespace {

using executorch::runtime::BackendOption;
using executorch::runtime::CompileSpec;
using Text = std::array<char, executorch::runtime::kMaxOptionValueLength>;

std::string key_of(const BackendOption& option) {
  return std::string(option.key, strnlen(option.key, sizeof(option.key)));
}

OptionValue value_of(const BackendOption& option) {
  if (const bool* b = std::get_if<bool>(&option.value)) {
    return *b;
  }
  if (const int* i = std::get_if<int>(&option.value)) {
    return int64_t{*i};
  }
  const Text& text = std::get<Text>(option.value);
  return std::string(text.data(), strnlen(text.data(), text.size()));
}

Status find_session(std::string_view name, std::shared_ptr<Session>& out) {
  out = Session::find(std::string(name));
  if (out == nullptr) {
    return make_error(StatusCode::NotFound, "there is no session '%.*s'; sessions in use: %s",
                      static_cast<int>(name.size()), name.data(), Session::names().c_str());
  }
  return {};
}

Status wrong_form(std::string_view key, const std::string& value, const char* form) {
  return make_error(StatusCode::InvalidArgument, "command '%.*s': '%s' is not of the form %s",
                    static_cast<int>(key.size()), key.data(), value.c_str(), form);
}

}  // namespace

Status options_of_load(const executorch::runtime::BackendInitContext& context,
                       executorch::runtime::ArrayRef<CompileSpec> specs, RuntimeOptions& out) {
  std::vector<OptionSetting> runtime_specs;
  for (const BackendOption& option : context.runtime_specs()) {
    runtime_specs.push_back({key_of(option), value_of(option)});
  }
  std::vector<OptionSetting> compile_specs;
  for (const CompileSpec& spec : specs) {
    if (spec.key == nullptr || spec.value.buffer == nullptr) {
      continue;
    }
    const char* text = static_cast<const char*>(spec.value.buffer);
    compile_specs.push_back({spec.key, std::string(text, strnlen(text, spec.value.nbytes))});
  }
  return resolve_options(runtime_specs, process_environment, compile_specs, out);
}

std::shared_ptr<Session> session_of_load(const RuntimeOptions& options,
                                         const std::string& program_id, const void* data_map) {
  const std::string name =
      options.session.empty() ? default_session_name(program_id, data_map) : options.session;
  return name.empty() ? Session::make_private() : Session::acquire(name);
}

Status run_command(std::string_view key, const std::string& value) {
  std::shared_ptr<Session> session;
  if (key == command::kReset) {
    EG_RETURN_IF_ERROR(find_session(value, session));
    session->reset();
    return {};
  }
  const bool is_rewind = key == command::kRewind;
  if (!is_rewind && key != command::kFork && key != command::kSave && key != command::kRestore) {
    return make_error(StatusCode::InvalidArgument,
                      "unknown command '%.*s'; accepted commands: %s, %s, %s, %s, %s",
                      static_cast<int>(key.size()), key.data(), command::kReset, command::kRewind,
                      command::kFork, command::kSave, command::kRestore);
  }
  // Names hold no colon, paths may.
  const size_t colon = value.find(':');
  const char* form = is_rewind               ? "SESSION:POSITION"
                     : key == command::kFork ? "FROM:TO"
                                             : "SESSION:PATH";
  if (colon == std::string::npos || colon + 1 == value.size()) {
    return wrong_form(key, value, form);
  }
  EG_RETURN_IF_ERROR(find_session(std::string_view(value).substr(0, colon), session));
  const std::string argument = value.substr(colon + 1);
  if (is_rewind) {
    int64_t position = 0;
    const char* end = argument.data() + argument.size();
    const auto [stop, error] = std::from_chars(argument.data(), end, position);
    return error == std::errc() && stop == end ? session->rewind(position)
                                               : wrong_form(key, value, form);
  }
  if (key == command::kFork) {
    std::shared_ptr<Session> target;
    EG_RETURN_IF_ERROR(find_session(argument, target));
    return Session::fork(*session, *target);
  }
  return key == command::kSave ? session->save(argument) : session->restore(argument);
}

Status set_options(executorch::runtime::Span<BackendOption> options) {
  for (const BackendOption& option : options) {
    const OptionValue value = value_of(option);
    const std::string key = key_of(option);
    const std::string* text = std::get_if<std::string>(&value);
    if (text == nullptr) {
      return make_error(StatusCode::InvalidArgument, "command '%s' takes a text", key.c_str());
    }
    EG_RETURN_IF_ERROR(run_command(key, *text));
  }
  return {};
}

Status get_options(executorch::runtime::Span<BackendOption> options) {
  for (BackendOption& option : options) {
    const std::string key = key_of(option);
    const OptionValue value = value_of(option);
    const std::string* name = std::get_if<std::string>(&value);
    if (name == nullptr || (key != query::kUsed && key != query::kCapacity)) {
      return make_error(StatusCode::InvalidArgument,
                        "unknown query '%s'; accepted queries: %s, %s, with a session's name as "
                        "value",
                        key.c_str(), query::kUsed, query::kCapacity);
    }
    std::shared_ptr<Session> session;
    EG_RETURN_IF_ERROR(find_session(*name, session));
    const int64_t answer = key == query::kUsed ? session->used() : session->capacity();
    option.value = static_cast<int>(std::min<int64_t>(answer, std::numeric_limits<int>::max()));
  }
  return {};
}

}  // namespace executorch_ggml
