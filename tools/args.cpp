#include "tools/args.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace executorch_ggml::tools {
namespace {

using Refusal = std::optional<std::string>;

constexpr size_t kHelpColumn = 30;

std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> result;
  while (!names.empty()) {
    const size_t comma = names.find(", ");
    result.emplace_back(names.substr(0, comma));
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 2);
  }
  return result;
}

std::string trimmed(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

template <typename T>
std::string describe(const char* kind, const Range<T>& range) {
  const auto show = [](T value) {
    if constexpr (std::is_same_v<T, double>) {
      return trimmed(value);
    } else {
      return std::to_string(value);
    }
  };
  std::string text = kind;
  if (range.max == std::numeric_limits<T>::max()) {
    return text.append(" of at least ").append(show(range.min));
  }
  return text.append(" from ").append(show(range.min)).append(" to ").append(show(range.max));
}

Refusal parse_integer(const std::string& text, const Range<int64_t>& range, int64_t& out) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < range.min || value > range.max) {
    return describe("a whole number", range);
  }
  out = value;
  return std::nullopt;
}

Refusal parse_real(const std::string& text, const Range<double>& range, double& out) {
  // Not from_chars: some standard libraries have it for integers only.
  char* stop = nullptr;
  const double value = std::strtod(text.c_str(), &stop);
  if (text.empty() || stop != text.c_str() + text.size() || !std::isfinite(value) ||
      value < range.min || value > range.max) {
    return describe("a number", range);
  }
  out = value;
  return std::nullopt;
}

std::string padded(std::string left) {
  left.insert(0, "  ");
  if (left.size() + 2 > kHelpColumn) {
    return left.append("\n").append(kHelpColumn, ' ');
  }
  return left.append(kHelpColumn - left.size(), ' ');
}

}  // namespace

ArgParser::ArgParser(std::string program, std::string about)
    : program_(std::move(program)), about_(std::move(about)) {}

void ArgParser::add(std::string_view names, std::string value_name, std::string help,
                    std::function<Refusal(const std::string&)> set) {
  options_.push_back({split_names(names), std::move(value_name), std::move(help), std::move(set)});
}

void ArgParser::positional(std::string name, std::string help, std::string& target) {
  positionals_.push_back({std::move(name), std::move(help), &target});
}

void ArgParser::text(std::string_view names, std::string value_name, std::string help,
                     std::string& target) {
  add(names, std::move(value_name), std::move(help), [&target](const std::string& value) {
    target = value;
    return Refusal();
  });
}

void ArgParser::text(std::string_view names, std::string value_name, std::string help,
                     std::optional<std::string>& target) {
  add(names, std::move(value_name), std::move(help), [&target](const std::string& value) {
    target = value;
    return Refusal();
  });
}

void ArgParser::choice(std::string_view names, std::string help, std::vector<std::string> choices,
                       std::string& target) {
  std::string all;
  for (const std::string& choice : choices) {
    all.append(all.empty() ? "" : "|").append(choice);
  }
  const auto set = [all, choices = std::move(choices), &target](const std::string& value) {
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
      return Refusal("one of " + all);
    }
    target = value;
    return Refusal();
  };
  add(names, all, std::move(help), set);
}

void ArgParser::number(std::string_view names, std::string value_name, std::string help,
                       int64_t& target, Range<int64_t> range) {
  add(names, std::move(value_name), std::move(help),
      [&target, range](const std::string& value) { return parse_integer(value, range, target); });
}

void ArgParser::number(std::string_view names, std::string value_name, std::string help,
                       std::optional<int64_t>& target, Range<int64_t> range) {
  add(names, std::move(value_name), std::move(help), [&target, range](const std::string& value) {
    int64_t parsed = 0;
    const Refusal refusal = parse_integer(value, range, parsed);
    if (!refusal) {
      target = parsed;
    }
    return refusal;
  });
}

void ArgParser::number(std::string_view names, std::string value_name, std::string help,
                       double& target, Range<double> range) {
  add(names, std::move(value_name), std::move(help),
      [&target, range](const std::string& value) { return parse_real(value, range, target); });
}

void ArgParser::flag(std::string_view names, std::string help, bool& target) {
  add(names, "", std::move(help), [&target](const std::string&) {
    target = true;
    return Refusal();
  });
}

const ArgParser::Option* ArgParser::find(std::string_view name) const {
  for (const Option& option : options_) {
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) {
      return &option;
    }
  }
  return nullptr;
}

std::optional<std::string> ArgParser::parse(std::span<const char* const> arguments,
                                            bool& help) const {
  size_t n_positionals = 0;
  bool options_end = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = arguments[i];
    if (options_end || argument.size() < 2 || argument[0] != '-') {
      if (n_positionals == positionals_.size()) {
        return "unexpected argument '" + argument + "'";
      }
      *positionals_[n_positionals++].target = argument;
      continue;
    }
    if (argument == "--") {
      options_end = true;
      continue;
    }
    if (argument == "-h" || argument == "--help") {
      help = true;
      return std::nullopt;
    }
    // "--name value" or "--name=value".
    const size_t equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
    const std::string name = argument.substr(0, equals);
    const Option* option = find(name);
    if (option == nullptr) {
      return "unknown option '" + name + "'";
    }
    std::string value;
    if (option->value_name.empty()) {
      if (equals != std::string::npos) {
        return "option " + name + " takes no value";
      }
    } else if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return "option " + name + " needs a value: " + option->value_name;
    }
    if (const Refusal expected = option->set(value)) {
      return "option " + name + " is '" + value + "', expected " + *expected;
    }
  }
  if (n_positionals < positionals_.size()) {
    return "missing argument: " + positionals_[n_positionals].name;
  }
  return std::nullopt;
}

std::optional<int> ArgParser::parse(int argc, const char* const* argv) const {
  bool help = false;
  const std::span<const char* const> all(argv, static_cast<size_t>(std::max(argc, 1)));
  const std::optional<std::string> wrong = parse(all.subspan(1), help);
  if (help) {
    std::fputs(help_text().c_str(), stdout);
    return kExitOk;
  }
  if (wrong) {
    std::fprintf(stderr, "%s: %s\ntry: %s --help\n", program_.c_str(), wrong->c_str(),
                 program_.c_str());
    return kExitUsage;
  }
  return std::nullopt;
}

std::string ArgParser::help_text() const {
  std::string text = "usage: " + program_;
  for (const Positional& positional : positionals_) {
    text.append(" ").append(positional.name);
  }
  text.append(" [options]\n\n").append(about_).append("\n\n");
  for (const Positional& positional : positionals_) {
    text.append(padded(positional.name)).append(positional.help).append("\n");
  }
  for (const Option& option : options_) {
    std::string left;
    for (const std::string& name : option.names) {
      left.append(left.empty() ? "" : ", ").append(name);
    }
    if (!option.value_name.empty()) {
      left.append(" ").append(option.value_name);
    }
    text.append(padded(std::move(left))).append(option.help).append("\n");
  }
  return text.append(padded("-h, --help")).append("print this\n");
}

}  // namespace executorch_ggml::tools
