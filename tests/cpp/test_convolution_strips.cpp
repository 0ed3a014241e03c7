// A depthwise convolution that computes the convolution before it strip by strip, against the same
// two one after the other.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"
#include "tests/cpp/random_values.h"
#include "tests/cpp/temp_file.h"

namespace executorch_ggml::testing {
namespace {

constexpr int64_t kPanel = 16;

// Along both axes; `after`: padding behind the image.
struct Window {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t after = 0;
  int64_t dilation = 1;

  int64_t n(int64_t extent) const {
    return (extent + padding + after - (kernel - 1) * dilation - 1) / stride + 1;
  }
  std::vector<Dim> ints() const {
    return {kernel, kernel, stride, stride, padding, padding, dilation, dilation, after, after};
  }
};

struct Pair {
  int64_t n_images;
  int64_t c_in;
  int64_t channels;
  int64_t width;
  int64_t height;
  Window first;
  Window depthwise;
  bool has_residual = false;
  bool has_bias = true;  // both

  int64_t between(int64_t extent) const { return first.n(extent); }
  int64_t result(int64_t extent) const { return depthwise.n(between(extent)); }
  int64_t n_results() const { return channels * result(width) * result(height) * n_images; }
};

// What reads the result of the first.
enum class Reader { DepthwiseAlone, DepthwiseTwice, OutputToo };

class ConvolutionStrips : public ::testing::Test {
 protected:
  std::vector<float> random(int64_t n) { return normal_values(n, engine_); }

  void make_data(const Pair& p, ggml_type type) {
    const int64_t n_panels = (p.channels + kPanel - 1) / kPanel;
    const int64_t depth = p.first.kernel * p.first.kernel * p.c_in;
    data_ = TestData();
    data_.add_as("first", type, {kPanel, depth, n_panels}, random(kPanel * depth * n_panels));
    data_.add_as("first.bias", GGML_TYPE_F32, {p.channels}, random(p.channels));
    data_.add_as("depthwise", GGML_TYPE_F32, {p.channels, p.depthwise.kernel, p.depthwise.kernel},
                 random(p.channels * p.depthwise.kernel * p.depthwise.kernel));
    data_.add_as("depthwise.bias", GGML_TYPE_F32, {p.channels}, random(p.channels));
    x_ = random(p.c_in * p.width * p.height * p.n_images);
    residual_ = random(p.n_results());
  }

  static std::vector<uint8_t> program(const Pair& p, Reader reader, bool first_has_residual) {
    const int64_t n_panels = (p.channels + kPanel - 1) / kPanel;
    const int64_t depth = p.first.kernel * p.first.kernel * p.c_in;
    GraphWriter g;
    const ValueId x = g.input(f32({p.c_in, p.width, p.height, p.n_images}));
    const ValueId first = g.weight({kDtypeFromFile, {kPanel, depth, n_panels}}, {"first"});
    const ValueId first_bias = g.weight(f32({p.channels}), {"first.bias"});
    const ValueId kernel =
        g.weight(f32({p.channels, p.depthwise.kernel, p.depthwise.kernel}), {"depthwise"});
    const ValueId bias = g.weight(f32({p.channels}), {"depthwise.bias"});
    const TensorSpec result = f32({p.channels, p.result(p.width), p.result(p.height), p.n_images});
    ValueId residual = p.has_residual ? g.input(result) : kAbsent;
    std::vector<Dim> ints = p.first.ints();
    ints.emplace_back(p.channels);
    const ValueId between = g.call(
        Op::Conv2dNhwc,
        {first, x, p.has_bias ? first_bias : kAbsent, first_has_residual ? x : kAbsent},
        f32({p.channels, p.between(p.width), p.between(p.height), p.n_images}), ints, {-0.5, 6.0});
    residual = reader == Reader::DepthwiseTwice ? between : residual;
    const ValueId y =
        g.call(Op::Conv2dDwNhwc, {kernel, between, p.has_bias ? bias : kAbsent, residual}, result,
               p.depthwise.ints(), {-4.0, 4.0});
    g.output(g.call(Op::Reshape, {y}, f32({p.n_results()}), {p.n_results(), 1, 1, 1}));
    if (reader == Reader::OutputToo) {
      const int64_t n = p.channels * p.between(p.width) * p.between(p.height) * p.n_images;
      g.output(g.call(Op::Reshape, {between}, f32({n}), {n, 1, 1, 1}));
    }
    return g.finish();
  }

  std::vector<float> run_program(const Pair& p, Reader reader, RuntimeOptions options,
                                 bool first_has_residual = false) {
    Loaded loaded = load(program(p, reader, first_has_residual), &data_, options);
    EXPECT_TRUE(loaded.status.ok()) << loaded.status.message();
    if (!loaded.status.ok()) {
      return {};
    }
    const auto size = [](int64_t n) { return static_cast<int32_t>(n); };
    const TestTensor x({size(p.n_images), size(p.height), size(p.width), size(p.c_in)}, x_);
    const TestTensor residual(
        {size(p.n_images), size(p.result(p.height)), size(p.result(p.width)), size(p.channels)},
        residual_);
    std::vector<const TestTensor*> inputs = {&x};
    if (p.has_residual) {
      inputs.push_back(&residual);
    }
    const TestTensor y = TestTensor::empty<float>({size(p.n_results())});
    const TestTensor between = TestTensor::empty<float>(
        {size(p.channels * p.between(p.width) * p.between(p.height) * p.n_images)});
    std::vector<const TestTensor*> outputs = {&y};
    if (reader == Reader::OutputToo) {
      outputs.push_back(&between);
    }
    const Status status = run(*loaded.delegate, inputs, outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    return y.values<float>();
  }

  // By the profile, which the delegate prints at its end.
  bool are_one_node(const Pair& p, Reader reader, bool first_has_residual = false) {
    RuntimeOptions options;
    options.profile = true;
    ::testing::internal::CaptureStderr();
    run_program(p, reader, options, first_has_residual);
    const std::string profile = ::testing::internal::GetCapturedStderr();
    const auto count = [&profile](const char* op) {
      const size_t at = profile.find(op);
      return at == std::string::npos ? 0.0 : std::stod(profile.substr(at + std::strlen(op)));
    };
    EXPECT_EQ(count("conv_2d_dw_nhwc"), 1.0) << profile;
    return count("conv_2d_nhwc") == 0;
  }

  void check(const Pair& p, ggml_type type = GGML_TYPE_F32) {
    make_data(p, type);
    EXPECT_TRUE(are_one_node(p, Reader::DepthwiseAlone));
    RuntimeOptions options;
    options.n_threads = 1;
    const std::vector<float> expected = run_program(p, Reader::OutputToo, options);
    for (const KernelChoice kernels : {KernelChoice::Own, KernelChoice::Ggml}) {
      for (const int n_threads : {1, 2, 3, 16}) {
        options.kernels = kernels;
        options.n_threads = n_threads;
        // The same sums in the same order.
        ASSERT_EQ(run_program(p, Reader::DepthwiseAlone, options), expected)
            << n_threads << " threads";
      }
    }
  }

  TestData data_;

 private:
  std::mt19937 engine_{12};
  std::vector<float> x_;
  std::vector<float> residual_;
};

// Results of the first convolution are 4 MiB and more: smaller ones are not worth it.
constexpr Window kPointwise{};
constexpr Window kThree{.kernel = 3, .padding = 1, .after = 1};
constexpr Window kThreeHalving{.kernel = 3, .stride = 2, .padding = 1, .after = 1};
constexpr Window kFive{.kernel = 5, .padding = 2, .after = 2};

TEST_F(ConvolutionStrips, OfAPointwiseConvolution) {
  check({1, 16, 96, 112, 112, kPointwise, kThreeHalving});
  check({1, 8, 144, 91, 83, kPointwise, kThree, true});
  check({1, 8, 64, 131, 130, kPointwise, kFive});
}

TEST_F(ConvolutionStrips, OfChannelsThatFillNoGroup) {
  check({1, 5, 70, 125, 126, kPointwise, kThree});
  check({1, 5, 7, 400, 390, kPointwise, kFive});
}

TEST_F(ConvolutionStrips, OfAConvolutionWithWindows) {
  check({1, 3, 32, 391, 360, kThreeHalving, kThree});
  check({1, 20, 32, 190, 180, {.kernel = 2, .padding = 1}, kThree});
}

TEST_F(ConvolutionStrips, OfSeveralImages) { check({3, 8, 48, 90, 85, kPointwise, kThreeHalving}); }

TEST_F(ConvolutionStrips, OfRowsThatNoStripHolds) {
  check({1, 4, 48, 1500, 18, kPointwise, kFive});
}

TEST_F(ConvolutionStrips, OfWindowsOfAnyKind) {
  check({1, 4, 48, 150, 160, kPointwise, {.kernel = 3, .padding = 2, .after = 2, .dilation = 2}});
  // Rows that no window holds; windows that hold no row.
  check({1, 4, 48, 150, 160, kPointwise, {.kernel = 2, .stride = 5, .padding = 1}});
  check({1, 4, 48, 150, 160, kPointwise, {.kernel = 2, .stride = 3, .padding = 7, .after = 8}});
  check({1, 4, 48, 150, 160, kPointwise, {.kernel = 41, .stride = 7, .padding = 20, .after = 20}});
}

TEST_F(ConvolutionStrips, OfKernelsInHalfPrecision) {
  check({1, 16, 96, 112, 112, kPointwise, kThreeHalving}, GGML_TYPE_F16);
  check({1, 16, 96, 112, 112, kPointwise, kThreeHalving}, GGML_TYPE_BF16);
}

TEST_F(ConvolutionStrips, WithoutABias) {
  check({.n_images = 1,
         .c_in = 16,
         .channels = 96,
         .width = 112,
         .height = 112,
         .first = kPointwise,
         .depthwise = kThree,
         .has_bias = false});
}

TEST_F(ConvolutionStrips, AreNotTakenWhereTheyDoNotPay) {
  const auto expect_two = [&](const Pair& p, Reader reader = Reader::DepthwiseAlone,
                              bool first_has_residual = false) {
    make_data(p, GGML_TYPE_F32);
    EXPECT_FALSE(are_one_node(p, reader, first_has_residual));
  };
  const Pair p{1, 96, 96, 112, 112, kPointwise, kThree};
  make_data(p, GGML_TYPE_F32);
  EXPECT_TRUE(are_one_node(p, Reader::DepthwiseAlone));
  expect_two(p, Reader::OutputToo);
  expect_two(p, Reader::DepthwiseTwice);
  expect_two(p, Reader::DepthwiseAlone, /*first_has_residual=*/true);
  expect_two({1, 96, 96, 50, 50, kPointwise, kThree});  // a small result
  expect_two({1, 32, 96, 112, 112, kThree, kThree});    // fewer products otherwise
  expect_two({1,
              4,
              48,
              300,
              300,
              kPointwise,  // windows of 5 MB
              {.kernel = 3, .padding = 40, .after = 40, .dilation = 45}});
}

TEST_F(ConvolutionStrips, AreNotTakenWhereEveryResultIsDumped) {
  const Pair p{1, 16, 96, 112, 112, kPointwise, kThree};
  make_data(p, GGML_TYPE_F32);
  const TempFile dump({});
  RuntimeOptions options;
  options.debug_dump = dump.path();
  run_program(p, Reader::DepthwiseAlone, options);
  std::stringstream text;
  text << std::ifstream(dump.path()).rdbuf();
  EXPECT_NE(text.str().find("0:conv_2d_nhwc"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("1:conv_2d_dw_nhwc"), std::string::npos) << text.str();
}

// A result that no machine has memory for is an error, also where windows span all of it.
TEST_F(ConvolutionStrips, DoNotHideWhatAResultTakes) {
  constexpr int64_t kHuge = 1 << 20;
  const Window first{.padding = kHuge / 2, .after = kHuge / 2 - 1};
  const Pair p{1, 1, 1, 1, 1, first, {.kernel = 2, .dilation = kHuge - 1}};
  ASSERT_EQ(p.result(1), 1);
  make_data(p, GGML_TYPE_F32);
  Loaded loaded = load(program(p, Reader::DepthwiseAlone, false), &data_, {});
  const TestTensor x({1, 1, 1, 1}, std::vector<float>{1});
  const TestTensor y = TestTensor::empty<float>({1});
  const Status status = loaded.status.ok() ? run(*loaded.delegate, {&x}, {&y}) : loaded.status;
  EXPECT_EQ(status.code(), StatusCode::OutOfMemory) << status.message();
}

}  // namespace
}  // namespace executorch_ggml::testing
