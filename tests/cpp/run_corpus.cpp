// Runs what the Python tests lowered (tests/corpus.py): run_corpus <folder>.
//
// Prints the failures and "N passed, M failed"; fails on any of these, and on a folder
// without programs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executorch_ggml/program_runner.h"

namespace {

using executorch::aten::ScalarType;
using executorch_ggml::ProgramRunner;
using executorch_ggml::RunnerConfig;
using executorch_ggml::TensorView;

struct StoredTensor {
  ScalarType dtype = ScalarType::Float;
  std::vector<int32_t> sizes;
  std::vector<char> data;

  TensorView view() const { return {data.data(), dtype, sizes}; }
};

// Reads past the end fail the stream and give zeros.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path, std::ios::binary) {}

  template <typename T>
  T number() {
    T value{};
    file_.read(reinterpret_cast<char*>(&value), sizeof(T));
    return value;
  }

  StoredTensor tensor() {
    StoredTensor result;
    result.dtype = static_cast<ScalarType>(number<int32_t>());
    const auto rank = static_cast<size_t>(std::clamp(number<int32_t>(), 0, 16));
    for (size_t i = 0; i < rank; ++i) {
      result.sizes.push_back(number<int32_t>());
    }
    const auto bytes = std::clamp<int64_t>(number<int64_t>(), 0, int64_t{1} << 32);
    result.data.resize(static_cast<size_t>(bytes));
    file_.read(result.data.data(), static_cast<std::streamsize>(bytes));
    return result;
  }

  bool ok() const { return file_.good(); }

 private:
  std::ifstream file_;
};

double as_double(const char* data, ScalarType dtype, size_t i) {
  const auto read = [data, i]<typename T>(T value) {
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    return value;
  };
  switch (dtype) {
    case ScalarType::Float:
      return static_cast<double>(read(float{}));
    case ScalarType::Double:
      return read(double{});
    case ScalarType::Half:
      return static_cast<double>(static_cast<float>(read(executorch::aten::Half{})));
    case ScalarType::BFloat16:
      return static_cast<double>(static_cast<float>(read(executorch::aten::BFloat16{})));
    case ScalarType::Long:
      return static_cast<double>(read(int64_t{}));
    case ScalarType::Int:
      return read(int32_t{});
    case ScalarType::Short:
      return read(int16_t{});
    case ScalarType::Char:
      return read(int8_t{});
    default:
      return read(uint8_t{});
  }
}

// What differs, or nothing.
std::string difference(const TensorView& found, const StoredTensor& expected, double rtol,
                       double atol) {
  if (found.dtype != expected.dtype || !std::ranges::equal(found.sizes, expected.sizes)) {
    return "another dtype or shape than expected";
  }
  const size_t bytes = found.nbytes();
  if (bytes != expected.data.size()) {
    return "another size than expected";
  }
  size_t count = 1;
  for (const int32_t size : expected.sizes) {
    count *= static_cast<size_t>(size);
  }
  const auto* data = static_cast<const char*>(found.data);
  for (size_t i = 0; i < count; ++i) {
    const double a = as_double(data, found.dtype, i);
    const double b = as_double(expected.data.data(), expected.dtype, i);
    const bool both_nan = std::isnan(a) && std::isnan(b);
    // Not "not more": a NaN on one side is no match.
    if (!both_nan && a != b && !(std::fabs(a - b) <= atol + rtol * std::fabs(b))) {
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", expected " +
             std::to_string(b);
    }
  }
  return {};
}

// What is wrong with a case, or nothing.
std::string run(const std::filesystem::path& program, const std::filesystem::path& stored) {
  RunnerConfig config;
  config.program = program.string();
  std::unique_ptr<ProgramRunner> runner;
  if (const auto status = ProgramRunner::load(config, runner); !status.ok()) {
    return status.message();
  }
  Reader reader(stored);
  const auto rtol = reader.number<double>();
  const auto atol = reader.number<double>();
  const auto calls = reader.number<uint32_t>();
  for (uint32_t call = 0; call < calls; ++call) {
    const auto n_inputs = reader.number<uint32_t>();
    const auto n_outputs = reader.number<uint32_t>();
    std::vector<StoredTensor> tensors;
    for (uint32_t i = 0; reader.ok() && i < n_inputs + n_outputs; ++i) {
      tensors.push_back(reader.tensor());
    }
    if (!reader.ok()) {
      return "the case file is torn";
    }
    std::vector<TensorView> inputs;
    for (uint32_t i = 0; i < n_inputs; ++i) {
      inputs.push_back(tensors[i].view());
    }
    std::vector<TensorView> outputs;
    if (const auto status = runner->run("forward", inputs, outputs); !status.ok()) {
      return status.message();
    }
    if (outputs.size() != n_outputs) {
      return std::to_string(outputs.size()) + " outputs, expected " + std::to_string(n_outputs);
    }
    for (uint32_t i = 0; i < n_outputs; ++i) {
      const std::string found = difference(outputs[i], tensors[n_inputs + i], rtol, atol);
      if (!found.empty()) {
        return "call " + std::to_string(call) + ", output " + std::to_string(i) + ": " + found;
      }
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    std::fprintf(stderr, "usage: run_corpus <folder that the Python tests wrote>\n");
    return 2;
  }
  std::vector<std::filesystem::path> programs;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.path().extension() == ".pte") {
      programs.push_back(entry.path());
    }
  }
  std::sort(programs.begin(), programs.end());
  int passed = 0;
  int failed = 0;
  for (const std::filesystem::path& program : programs) {
    std::filesystem::path stored = program;
    stored.replace_extension(".case");
    const std::string problem = run(program, stored);
    if (problem.empty()) {
      ++passed;
      continue;
    }
    ++failed;
    std::printf("FAILED %s: %s\n", program.stem().c_str(), problem.c_str());
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return passed > 0 && failed == 0 ? 0 : 1;
}
