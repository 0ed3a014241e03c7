// Command lines: options are declared with their help and their target, then parsed
// once. Hand-written because no argument library reaches every builder through pip.
//
//   ArgParser parser("run_llm", "Writes text with a language model.");
//   parser.positional("MODEL.pte", "the program", config.program);
//   parser.number("--threads", "N", "threads to use", threads, {1, 1024});
//   if (const auto exit_code = parser.parse(argc, argv)) return *exit_code;
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace executorch_ggml::tools {

// Exit codes of every program here.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;         // files, memory, the model
inline constexpr int kExitUsage = 2;          // the command line
inline constexpr int kExitInterrupted = 130;  // Ctrl-C, as shells count it

// Accepted values, both ends included.
template <typename T>
struct Range {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};

// Names are given as "-n, --n-decode". Every target must outlive parse(); an option that
// is not given leaves its target as it was.
class ArgParser {
 public:
  ArgParser(std::string program, std::string about);

  void positional(std::string name, std::string help, std::string& target);
  void text(std::string_view names, std::string value_name, std::string help, std::string& target);
  void text(std::string_view names, std::string value_name, std::string help,
            std::optional<std::string>& target);
  void choice(std::string_view names, std::string help, std::vector<std::string> choices,
              std::string& target);
  void number(std::string_view names, std::string value_name, std::string help, int64_t& target,
              Range<int64_t> range);
  void number(std::string_view names, std::string value_name, std::string help,
              std::optional<int64_t>& target, Range<int64_t> range);
  void number(std::string_view names, std::string value_name, std::string help, double& target,
              Range<double> range);
  void flag(std::string_view names, std::string help, bool& target);

  // Why the line is refused, or nothing. "--help" sets `help`.
  std::optional<std::string> parse(std::span<const char* const> arguments, bool& help) const;

  // Parses main's arguments; prints help or what is wrong. Set: exit with this code.
  std::optional<int> parse(int argc, const char* const* argv) const;

  std::string help_text() const;

 private:
  struct Option {
    std::vector<std::string> names;
    std::string value_name;  // empty: a flag
    std::string help;
    // Why a value is refused, or nothing.
    std::function<std::optional<std::string>(const std::string&)> set;
  };
  struct Positional {
    std::string name;
    std::string help;
    std::string* target;
  };

  void add(std::string_view names, std::string value_name, std::string help,
           std::function<std::optional<std::string>(const std::string&)> set);
  const Option* find(std::string_view name) const;

  std::string program_;
  std::string about_;
  std::vector<Positional> positionals_;
  std::vector<Option> options_;
};

}  // namespace executorch_ggml::tools
