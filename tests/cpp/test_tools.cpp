// What the programs share: command lines, streamed text, summaries.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "tools/args.h"
#include "tools/statistics.h"
#include "tools/utf8_stream.h"

namespace executorch_ggml::tools {
namespace {

struct Line {
  std::string file;
  int64_t count = 7;
  std::optional<int64_t> maybe;
  double ratio = 0.5;
  std::string kind = "none";
  std::optional<std::string> text;
  bool on = false;
  bool help = false;

  std::optional<std::string> parse(std::initializer_list<const char*> arguments) {
    ArgParser parser("program", "Does things.");
    parser.positional("FILE", "a file", file);
    parser.number("-c, --count", "N", "how many", count, {1, 9});
    parser.number("--maybe", "N", "perhaps", maybe, {0, 100});
    parser.number("--ratio", "X", "how much", ratio, {0.0, 1.0});
    parser.choice("--kind", "which", {"f16", "f32"}, kind);
    parser.text("--text", "TEXT", "words", text);
    parser.flag("--on", "whether", on);
    const std::vector<const char*> all(arguments);
    return parser.parse(all, help);
  }
};

TEST(Args, EveryFormReachesItsTarget) {
  Line line;
  EXPECT_EQ(line.parse({"-c", "3", "a.pte", "--maybe=0", "--ratio", "0.25", "--kind", "f32",
                        "--text", "--on", "--on"}),
            std::nullopt);
  EXPECT_EQ(line.file, "a.pte");
  EXPECT_EQ(line.count, 3);
  EXPECT_EQ(line.maybe, 0);
  EXPECT_EQ(line.ratio, 0.25);
  EXPECT_EQ(line.kind, "f32");
  EXPECT_EQ(line.text, "--on");  // a value may look like an option
  EXPECT_TRUE(line.on);
}

TEST(Args, WhatIsNotGivenStaysAsItWas) {
  Line line;
  EXPECT_EQ(line.parse({"a.pte"}), std::nullopt);
  EXPECT_EQ(line.count, 7);
  EXPECT_EQ(line.maybe, std::nullopt);
  EXPECT_EQ(line.kind, "none");
  EXPECT_FALSE(line.on);
}

TEST(Args, TwoDashesEndTheOptions) {
  Line line;
  EXPECT_EQ(line.parse({"--on", "--", "--count"}), std::nullopt);
  EXPECT_EQ(line.file, "--count");
}

TEST(Args, WhatIsWrongIsNamedWithWhatIsExpected) {
  const auto wrong = [](std::initializer_list<const char*> arguments) {
    return Line().parse(arguments).value_or("accepted");
  };
  EXPECT_EQ(wrong({}), "missing argument: FILE");
  EXPECT_EQ(wrong({"a", "b"}), "unexpected argument 'b'");
  EXPECT_EQ(wrong({"a", "--size", "3"}), "unknown option '--size'");
  EXPECT_EQ(wrong({"a", "--count"}), "option --count needs a value: N");
  EXPECT_EQ(wrong({"a", "--on=1"}), "option --on takes no value");
  EXPECT_EQ(wrong({"a", "--kind", "q8"}), "option --kind is 'q8', expected one of f16|f32");
  for (const char* value : {"0", "10", "-1", "3x", "", " 3", "3.5", "99999999999999999999"}) {
    EXPECT_EQ(wrong({"a", "-c", value}),
              "option -c is '" + std::string(value) + "', expected a whole number from 1 to 9");
  }
  for (const char* value : {"1.5", "-0.1", "nan", "inf", "0.5x", "", "half"}) {
    EXPECT_EQ(wrong({"a", "--ratio", value}),
              "option --ratio is '" + std::string(value) + "', expected a number from 0 to 1");
  }
}

TEST(Args, HelpNeedsNothingElse) {
  Line line;
  EXPECT_EQ(line.parse({"--help"}), std::nullopt);
  EXPECT_TRUE(line.help);
}

TEST(Args, HelpTextListsEveryOptionOnce) {
  std::string file;
  bool on = false;
  ArgParser parser("program", "Does things.");
  parser.positional("FILE", "a file", file);
  parser.flag("-o, --on", "whether", on);
  EXPECT_EQ(parser.help_text(),
            "usage: program FILE [options]\n"
            "\n"
            "Does things.\n"
            "\n"
            "  FILE                        a file\n"
            "  -o, --on                    whether\n"
            "  -h, --help                  print this\n");
}

TEST(Utf8Stream, HoldsACharacterBackUntilItIsWhole) {
  const std::string text = "a\u00e9\u20ac\U0001F600z";
  Utf8Stream stream;
  std::string out;
  for (const char byte : text) {
    const std::string part = stream.add(std::string(1, byte));
    // Never a part of a character: what came so far is a prefix that ends at a border.
    out += part;
    EXPECT_EQ(out, text.substr(0, out.size()));
    EXPECT_TRUE(out.size() == text.size() ||
                (static_cast<unsigned char>(text[out.size()]) & 0xC0U) != 0x80U);
  }
  EXPECT_EQ(out, text);
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ReplacesWhatIsNoUtf8) {
  const auto pass = [](const std::string& bytes) {
    Utf8Stream stream;
    const std::string text = stream.add(bytes);
    return text + stream.finish();
  };
  const std::string bad = "\uFFFD";
  EXPECT_EQ(pass("a\xFF"
                 "b"),
            "a" + bad + "b");
  EXPECT_EQ(pass("\x80"), bad);
  EXPECT_EQ(pass("\xC0\xAF"), bad + bad);                      // overlong '/'
  EXPECT_EQ(pass("\xE0\x80\x80"), bad + bad + bad);            // overlong
  EXPECT_EQ(pass("\xED\xA0\x80"), bad + bad + bad);            // a surrogate
  EXPECT_EQ(pass("\xF4\x90\x80\x80"), bad + bad + bad + bad);  // past U+10FFFF
  EXPECT_EQ(pass("\xE2\x82"
                 "a"),
            bad + "a");  // cut by another character
}

TEST(Utf8Stream, TheEndShowsACharacterThatNeverGotWhole) {
  Utf8Stream stream;
  EXPECT_EQ(stream.add("ok\xF0\x9F\x98"), "ok");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Statistics, SummarizesByHandComputedValues) {
  const std::array values = {4.0, 1.0, 3.0, 2.0};
  const Summary summary = summarize(values);
  EXPECT_DOUBLE_EQ(summary.mean, 2.5);
  EXPECT_NEAR(summary.stddev, 1.2909944487358056, 1e-15);
  EXPECT_DOUBLE_EQ(summary.median, 2.5);
  EXPECT_DOUBLE_EQ(summary.p95, 4.0);
  EXPECT_DOUBLE_EQ(summary.min, 1.0);
  EXPECT_DOUBLE_EQ(summary.max, 4.0);
}

TEST(Statistics, P95IsTheNearestRank) {
  std::vector<double> values;
  for (int i = 100; i > 0; --i) {
    values.push_back(i);
  }
  EXPECT_DOUBLE_EQ(summarize(values).p95, 95.0);
  values.resize(20);  // 81 … 100
  EXPECT_DOUBLE_EQ(summarize(values).p95, 99.0);
}

TEST(Statistics, FewValuesAreNoError) {
  EXPECT_EQ(summarize({}).mean, 0.0);
  const std::array one = {3.0};
  EXPECT_EQ(summarize(one).stddev, 0.0);
  EXPECT_EQ(summarize(one).median, 3.0);
  EXPECT_EQ(summarize(one).p95, 3.0);
}

}  // namespace
}  // namespace executorch_ggml::tools
