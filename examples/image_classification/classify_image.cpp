// classify_image --model MODEL.pte --image FILE --labels FILE [--top N]
//
// Says what an image shows: the likeliest labels. For any classifier of ImageNet's kind: one
// input, a normalised image [1, 3, size, size], and one output, a score for each class.
// classify.py is the same program in Python.
#include <executorch_ggml/program_runner.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "image.h"
#include "tools/args.h"

namespace image_classification {
namespace {

using executorch::aten::ScalarType;
using executorch_ggml::ArgumentInfo;
using executorch_ggml::MethodInfo;
using executorch_ggml::ProgramRunner;
using executorch_ggml::RunnerStatus;
using executorch_ggml::TensorView;
using executorch_ggml::tools::ArgParser;
using executorch_ggml::tools::kExitFailed;
using executorch_ggml::tools::kExitOk;

// What is wrong, or nothing.
using Failure = std::optional<std::string>;

constexpr char kName[] = "classify_image";
constexpr char kMethod[] = "forward";

struct Options {
  std::string model = "mobilenet_v2.pte";
  std::string image;
  std::string labels = "labels.txt";
  int64_t top = 5;
};

std::string text_of(const std::vector<ArgumentInfo>& arguments) {
  std::string text;
  for (const ArgumentInfo& argument : arguments) {
    text.append(text.empty() ? "" : ", ").append(argument.is_tensor ? "" : "number ");
    std::string sizes;
    for (const int32_t size : argument.sizes) {
      sizes.append(sizes.empty() ? "" : ", ").append(std::to_string(size));
    }
    text.append(executorch::runtime::toString(argument.dtype)).append(" [" + sizes + "]");
  }
  return text.empty() ? "nothing" : text;
}

bool is_float(const ArgumentInfo& argument, size_t rank) {
  return argument.is_tensor && argument.dtype == ScalarType::Float && argument.sizes.size() == rank;
}

// A model that takes one RGB image and gives a score for each class.
Failure check_model(const std::string& path, const MethodInfo& method) {
  const std::vector<ArgumentInfo>& inputs = method.inputs;
  const std::vector<ArgumentInfo>& outputs = method.outputs;
  if (inputs.size() != 1 || !is_float(inputs[0], 4) || inputs[0].sizes[0] != 1 ||
      inputs[0].sizes[1] != 3 || inputs[0].sizes[2] != inputs[0].sizes[3] ||
      inputs[0].sizes[2] < 1) {
    return "model '" + path + "' takes " + text_of(inputs) +
           ", expected one Float [1, 3, size, size]: a single RGB image";
  }
  if (outputs.size() != 1 || !is_float(outputs[0], 2) || outputs[0].sizes[0] != 1 ||
      outputs[0].sizes[1] < 1) {
    return "model '" + path + "' gives " + text_of(outputs) +
           ", expected one Float [1, classes]: a score for each class";
  }
  return std::nullopt;
}

// One label a line.
Failure read_labels(const std::string& path, std::vector<std::string>& out) {
  std::ifstream file(path);
  if (!file) {
    return "labels '" + path + "' cannot be opened: " + std::strerror(errno);
  }
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    out.push_back(std::move(line));
  }
  if (file.bad()) {
    return "labels '" + path + "' cannot be read: " + std::strerror(errno);
  }
  return std::nullopt;
}

std::vector<double> softmax(std::span<const float> scores) {
  const auto largest = static_cast<double>(*std::max_element(scores.begin(), scores.end()));
  std::vector<double> result;
  for (const float score : scores) {
    result.push_back(std::exp(static_cast<double>(score) - largest));
  }
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& value : result) {
    value /= sum;
  }
  return result;
}

// The `n` likeliest classes, best first.
std::vector<size_t> best(const std::vector<double>& probabilities, size_t n) {
  std::vector<size_t> classes(probabilities.size());
  std::iota(classes.begin(), classes.end(), size_t{0});
  n = std::min(n, classes.size());
  std::partial_sort(classes.begin(), classes.begin() + static_cast<ptrdiff_t>(n), classes.end(),
                    [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  classes.resize(n);
  return classes;
}

Failure classify(const Options& options) {
  std::unique_ptr<ProgramRunner> runner;
  MethodInfo method;
  executorch_ggml::RunnerConfig config;
  config.program = options.model;
  if (const RunnerStatus status = ProgramRunner::load(config, runner); !status.ok()) {
    return status.message();
  }
  if (const RunnerStatus status = runner->method_info(kMethod, method); !status.ok()) {
    return status.message();
  }
  if (const Failure failure = check_model(options.model, method)) {
    return failure;
  }

  std::vector<std::string> labels;
  if (const Failure failure = read_labels(options.labels, labels)) {
    return failure;
  }
  const auto n_classes = static_cast<size_t>(method.outputs[0].sizes[1]);
  if (labels.size() != n_classes) {
    return "labels '" + options.labels + "' has " + std::to_string(labels.size()) +
           " lines, and model '" + options.model + "' gives " + std::to_string(n_classes) +
           " scores: it needs a line for each class";
  }

  Image image;
  if (const Failure failure = read_image(options.image, image)) {
    return failure;
  }
  const std::vector<float> pixels = normalised(middle_square(image, method.inputs[0].sizes[3]));
  const std::array<TensorView, 1> inputs = {
      {{pixels.data(), ScalarType::Float, method.inputs[0].sizes}}};
  std::vector<TensorView> outputs;
  if (const RunnerStatus status = runner->run(kMethod, inputs, outputs); !status.ok()) {
    return status.message();
  }

  const std::span<const float> scores(outputs[0].as<float>(), n_classes);
  if (!std::all_of(scores.begin(), scores.end(), [](float s) { return std::isfinite(s); })) {
    return "model '" + options.model + "' gives scores that are not finite; it may be damaged";
  }
  const std::vector<double> probabilities = softmax(scores);
  for (const size_t i : best(probabilities, static_cast<size_t>(options.top))) {
    std::printf("%6.2f %%  %s\n", 100 * probabilities[i], labels[i].c_str());
  }
  return std::nullopt;
}

int run(int argc, const char* const* argv) {
  Options options;
  ArgParser parser(kName, "Says what an image shows: the likeliest labels.");
  parser.text("--model", "FILE.pte", "the classifier (mobilenet_v2.pte)", options.model);
  parser.text("--image", "FILE", "a PNG or JPEG file", options.image);
  parser.text("--labels", "FILE", "the names of the classes, one a line (labels.txt)",
              options.labels);
  parser.number("--top", "N", "how many labels (5)", options.top, {.min = 1});
  if (const std::optional<int> code = parser.parse(argc, argv)) {
    return *code;
  }
  if (options.image.empty()) {
    std::fprintf(stderr, "%s: --image is missing\ntry: %s --help\n", kName, kName);
    return executorch_ggml::tools::kExitUsage;
  }
  if (const Failure failure = classify(options)) {
    std::fprintf(stderr, "%s: error: %s\n", kName, failure->c_str());
    return kExitFailed;
  }
  return kExitOk;
}

}  // namespace
}  // namespace image_classification

int main(int argc, char** argv) {
  try {
    return image_classification::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: error: %s\n", "classify_image", error.what());
    return 1;
  }
}
