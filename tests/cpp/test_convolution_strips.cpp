// A depthwise convolution that computes the convolution before it strip by strip, against the same
// two one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"

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

  int64_t between(int64_t extent) const { return first.n(extent); }
  int64_t result(int64_t extent) const { return depthwise.n(between(extent)); }
  int64_t n_results() const { return channels * result(width) * result(height) * n_images; }
};

// How the two come together.
enum class Reader { DepthwiseAlone, OutputToo };

class ConvolutionStrips : public ::testing::Test {
 protected:
  std::vector<float> random(int64_t n) {
    std::normal_distribution<float> values;
    std::vector<float> result(static_cast<size_t>(n));
    std::generate(result.begin(), result.end(), [&] { return values(engine_); });
    return result;
  }

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

  static std::vector<uint8_t> program(const Pair& p, Reader reader) {
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
    const ValueId residual = p.has_residual ? g.input(result) : kAbsent;
    std::vector<Dim> ints = p.first.ints();
    ints.emplace_back(p.channels);
    const ValueId between = g.call(
        Op::Conv2dNhwc, {first, x, first_bias, kAbsent},
        f32({p.channels, p.between(p.width), p.between(p.height), p.n_images}), ints, {-0.5, 6.0});
    const ValueId y = g.call(Op::Conv2dDwNhwc, {kernel, between, bias, residual}, result,
                             p.depthwise.ints(), {-4.0, 4.0});
    g.output(g.call(Op::Reshape, {y}, f32({p.n_results()}), {p.n_results(), 1, 1, 1}));
    if (reader == Reader::OutputToo) {
      const int64_t n = p.channels * p.between(p.width) * p.between(p.height) * p.n_images;
      g.output(g.call(Op::Reshape, {between}, f32({n}), {n, 1, 1, 1}));
    }
    return g.finish();
  }

  std::vector<float> run_program(const Pair& p, Reader reader, RuntimeOptions options) {
    Loaded loaded = load(program(p, reader), &data_, options);
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

  // What the profile says, which the delegate prints at its end.
  std::string profile_of(const Pair& p, Reader reader) {
    RuntimeOptions options;
    options.profile = true;
    ::testing::internal::CaptureStderr();
    run_program(p, reader, options);
    return ::testing::internal::GetCapturedStderr();
  }

  void check(const Pair& p, ggml_type type = GGML_TYPE_F32) {
    make_data(p, type);
    EXPECT_EQ(profile_of(p, Reader::DepthwiseAlone).find("conv_2d_nhwc"), std::string::npos);
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

 private:
  std::mt19937 engine_{12};
  TestData data_;
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

TEST_F(ConvolutionStrips, AreNotTakenWhereSomethingElseReadsTheResult) {
  const Pair p{1, 16, 96, 112, 112, kPointwise, kThreeHalving};
  make_data(p, GGML_TYPE_F32);
  EXPECT_NE(profile_of(p, Reader::OutputToo).find("conv_2d_nhwc"), std::string::npos);
}

}  // namespace
}  // namespace executorch_ggml::testing
