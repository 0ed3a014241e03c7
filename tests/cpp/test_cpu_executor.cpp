// Graphs on our kernels and threads against the same graphs on ggml's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"
#include "tests/cpp/random_values.h"

namespace executorch_ggml::testing {
namespace {

// Both sum in F32, in another order. Rounding of activations to 8 bits is compared apart.
constexpr float kTolerance = 2e-5F;
constexpr float kRounded = 3e-2F;

// As many as ExecuTorch has.
constexpr int kOfExecuTorch = 100;

class CpuExecutorTest : public ::testing::Test {
 protected:
  std::vector<float> random(size_t count) {
    return normal_values(static_cast<int64_t>(count), engine_);
  }

  // An input of these torch sizes with random values.
  void input(std::vector<int32_t> sizes) {
    size_t count = 1;
    for (const int32_t size : sizes) {
      count *= static_cast<size_t>(size);
    }
    inputs_.emplace_back(std::move(sizes), random(count));
  }

  // Runs the program on ggml's kernels and on ours, with one thread and with several, also
  // ExecuTorch's; its one output is a vector of `n` elements at most.
  void expect_same(GraphWriter g, int32_t n, float tolerance = kTolerance) {
    const std::vector<uint8_t> blob = g.finish();
    const std::vector<float> expected = run_with(blob, KernelChoice::Ggml, 1, n);
    float largest = 1e-6F;
    for (const float value : expected) {
      largest = std::max(largest, std::abs(value));
    }
    for (const int n_threads : {1, 2, 3, kOfExecuTorch}) {
      const std::vector<float> found = run_with(blob, KernelChoice::Own, n_threads, n);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], tolerance * largest)
            << "element " << i << ", " << n_threads << " threads";
      }
    }
  }

  TestData data_;
  std::vector<TestTensor> inputs_;

 private:
  std::vector<float> run_with(const std::vector<uint8_t>& blob, KernelChoice kernels, int n_threads,
                              int32_t n) {
    RuntimeOptions options;
    options.kernels = kernels;
    options.n_threads = n_threads;
    options.threads = n_threads == kOfExecuTorch ? ThreadSource::ExecuTorch : ThreadSource::Own;
    options.pack_weights = false;
    Loaded loaded = load(blob, &data_, options);
    EXPECT_TRUE(loaded.status.ok()) << loaded.status.message();
    std::vector<const TestTensor*> inputs;
    for (const TestTensor& tensor : inputs_) {
      inputs.push_back(&tensor);
    }
    const TestTensor out = TestTensor::empty<float>({n});
    std::vector<float> result;
    // Twice: the second run finds the graph, and scratch memory that was used.
    for (int round = 0; round < 2; ++round) {
      const Status status = run(*loaded.delegate, inputs, {&out});
      EXPECT_TRUE(status.ok()) << status.message();
      result = out.values<float>();
    }
    return result;
  }

  std::mt19937 engine_{11};
};

// y = w x [+ bias] [+ residual], as one vector.
GraphWriter product(int64_t k, int64_t rows, int64_t tokens, bool has_bias, bool has_residual,
                    bool reads_product_again = false) {
  GraphWriter g;
  const ValueId x = g.input(f32({k, tokens}));
  const ValueId w = g.weight({kDtypeFromFile, {k, rows}}, {"w"});
  const TensorSpec result = f32({rows, tokens});
  ValueId y = g.call(Op::MulMat, {w, x}, result);
  const ValueId unfused = y;
  if (has_bias) {
    y = g.call(Op::Add, {y, g.weight(f32({rows}), {"bias"})}, result);
  }
  if (has_residual) {
    y = g.call(Op::Add, {g.input(result), y}, result);
  }
  if (reads_product_again) {
    y = g.call(Op::Mul, {y, unfused}, result);
  }
  g.output(g.call(Op::Reshape, {y}, f32({rows * tokens}), {rows * tokens, 1, 1, 1}));
  return g;
}

TEST_F(CpuExecutorTest, ProductsWithWhatFollowsThem) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                               GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}) {
    for (const int32_t tokens : {1, 3, 40}) {
      for (const int variant : {0, 1, 2, 3, 7}) {
        SCOPED_TRACE(std::string(ggml_type_name(type)) + " tokens " + std::to_string(tokens) +
                     " variant " + std::to_string(variant));
        constexpr int32_t kK = 256;
        constexpr int32_t kRows = 100;
        data_ = TestData();
        inputs_.clear();
        data_.add_as("w", type, {kK, kRows}, random(kK * kRows));
        data_.add_as("bias", GGML_TYPE_F32, {kRows}, random(kRows));
        input({tokens, kK});
        if ((variant & 2) != 0) {
          input({tokens, kRows});
        }
        // ggml rounds the activations of F16 and BF16 products, too.
        const float tolerance = type == GGML_TYPE_F32 ? kTolerance : kRounded;
        expect_same(
            product(kK, kRows, tokens, (variant & 1) != 0, (variant & 2) != 0, (variant & 4) != 0),
            kRows * tokens, tolerance);
      }
    }
  }
}

TEST_F(CpuExecutorTest, PlanesOfAProductShareAndRepeatTheFirstOperand) {
  input({2, 3, 7, 32});  // w: torch [2, 3, 7, 32]
  input({2, 6, 5, 32});  // two planes of x for each of w
  GraphWriter g;
  const ValueId w = g.input(f32({32, 7, 3, 2}));
  const ValueId x = g.input(f32({32, 5, 6, 2}));
  const ValueId y = g.call(Op::MulMat, {w, x}, f32({7, 5, 6, 2}));
  g.output(g.call(Op::Reshape, {y}, f32({420}), {420, 1, 1, 1}));
  expect_same(std::move(g), 420);
}

TEST_F(CpuExecutorTest, NormsAndActivations) {
  constexpr int32_t kN = 96;
  data_.add_as("gain", GGML_TYPE_F32, {kN}, random(kN));
  input({40, kN});
  input({40, kN});
  const TensorSpec rows = f32({kN, 40});
  GraphWriter g;
  const ValueId a = g.input(rows);
  const ValueId b = g.input(rows);
  const ValueId gain = g.weight(f32({kN}), {"gain"});
  const ValueId scaled = g.call(Op::RmsNorm, {a}, rows, {}, {1e-6});
  const ValueId normed = g.call(Op::Mul, {scaled, gain}, rows);
  const ValueId gated = g.call(Op::Glu, {normed, b}, rows, {static_cast<int64_t>(Glu::Swiglu)}, {});
  const ValueId centred = g.call(Op::Norm, {gated}, rows, {}, {1e-5});
  const ValueId shifted = g.call(Op::Scale, {centred}, rows, {}, {0.5, 0.25});
  const ValueId soft = g.call(Op::SoftMax, {shifted}, rows, {}, {1.5});
  // Unscaled norm, used twice: nothing may be fused into it.
  const ValueId both = g.call(Op::Add, {soft, scaled}, rows);
  g.output(g.call(Op::Reshape, {both}, f32({40 * kN}), {40 * kN, 1, 1, 1}));
  expect_same(std::move(g), 40 * kN);
}

TEST_F(CpuExecutorTest, RotationsOfEveryKind) {
  const std::vector<int32_t> positions = {0, 1, 5, 117, 4000};
  data_.add_as("factors", GGML_TYPE_F32, {8}, {1, 1, 1.5F, 2, 2.5F, 3, 4, 8});
  for (const bool has_factors : {false, true}) {
    for (const RopeMode mode : {RopeMode::Normal, RopeMode::Neox}) {
      for (const double yarn : {0.0, 1.0}) {
        for (const int64_t n_dims : {24, 16}) {
          inputs_.clear();
          input({5, 6, 24});
          inputs_.emplace_back(std::vector<int32_t>{5}, positions);
          const TensorSpec heads = f32({24, 6, 5});
          GraphWriter g;
          const ValueId x = g.input(heads);
          const ValueId p = g.input(i32({5}), kInt);
          std::vector<ValueId> operands = {x, p};
          if (has_factors && n_dims == 16) {
            operands.push_back(g.weight(f32({8}), {"factors"}));
          }
          const ValueId y =
              g.call(Op::Rope, operands, heads, {n_dims, static_cast<int64_t>(mode), 4096},
                     {10000, yarn == 0 ? 1.0 : 0.25, yarn, 1.25, 32, 1});
          g.output(g.call(Op::Reshape, {y}, f32({720}), {720, 1, 1, 1}));
          // ggml multiplies its angles up in float: at position 4000 that is 1e-4 off.
          expect_same(std::move(g), 720, 1e-3F);
        }
      }
    }
  }
}

TEST_F(CpuExecutorTest, TablesAndTurnedRows) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q6_K}) {
    data_ = TestData();
    inputs_.clear();
    data_.add_as("table", type, {256, 9}, random(256 * 9));
    inputs_.emplace_back(std::vector<int32_t>{4}, std::vector<int32_t>{8, 0, 3, 3});
    GraphWriter g;
    const ValueId ids = g.input(i32({4}), kInt);
    const ValueId table = g.weight({kDtypeFromFile, {256, 9}}, {"table"});
    const ValueId rows = g.call(Op::GetRows, {table, ids}, f32({256, 4}));
    const ValueId turned = g.call(Op::Permute, {rows}, f32({4, 256}), {1, 0, 2, 3});
    const ValueId packed = g.call(Op::Cont, {turned}, f32({4, 256}));
    g.output(g.call(Op::Reshape, {packed}, f32({1024}), {1024, 1, 1, 1}));
    expect_same(std::move(g), 1024, 0);
  }
}

// As an image's planes become pixels, in tasks that begin within a row.
TEST_F(CpuExecutorTest, TurnedPlanes) {
  for (const int32_t n_planes : {2, 3, 4, 5}) {
    inputs_.clear();
    input({n_planes, 90, 211});
    const int64_t n = int64_t{90} * 211 * n_planes;
    GraphWriter g;
    const ValueId planes = g.input(f32({211, 90, n_planes}));
    const ValueId turned = g.call(Op::Permute, {planes}, f32({n_planes, 211, 90}), {1, 2, 0, 3});
    const ValueId pixels = g.call(Op::Cont, {turned}, f32({n_planes, 211, 90}));
    g.output(g.call(Op::Reshape, {pixels}, f32({n}), {n, 1, 1, 1}));
    expect_same(std::move(g), static_cast<int32_t>(n), 0);
  }
}

// Nodes without a kernel of ours, large enough for ggml to want its threads.
TEST_F(CpuExecutorTest, NodesOfGgmlAreSharedOut) {
  const std::vector<int32_t> sizes = {5, 6, 41, 64};  // as torch has them
  const TensorSpec images = f32({64, 41, 6, 5});
  constexpr int32_t kN = 64 * 41 * 6 * 5;
  const auto expect_node = [&](Op op, const TensorSpec& result, int32_t n,
                               const std::vector<Dim>& ints, const std::vector<double>& floats = {},
                               const TensorSpec* second = nullptr) {
    GraphWriter g;
    std::vector<ValueId> operands = {g.input(images)};
    if (second != nullptr) {
      operands.push_back(g.input(*second));
    }
    const ValueId y = g.call(op, operands, result, ints, floats);
    g.output(g.call(Op::Reshape, {y}, f32({n}), {n, 1, 1, 1}));
    expect_same(std::move(g), n, 0);
  };
  input(sizes);
  expect_node(Op::Sqr, images, kN, {});
  expect_node(Op::Unary, images, kN, {static_cast<int64_t>(Unary::Tanh)});
  expect_node(Op::Clamp, images, kN, {}, {-0.5, 0.5});
  expect_node(Op::SumRows, f32({1, 41, 6, 5}), kN / 64, {});
  expect_node(Op::MeanRows, f32({1, 41, 6, 5}), kN / 64, {});
  expect_node(Op::Cumsum, images, kN, {});
  expect_node(Op::L2Norm, images, kN, {}, {1e-6});
  expect_node(Op::GroupNorm, images, kN, {3}, {1e-5});
  expect_node(Op::Repeat, f32({128, 41, 12, 5}), 4 * kN, {128, 41, 12, 5});
  for (const bool aligned : {false, true}) {
    expect_node(Op::Upscale, f32({70, 50, 6, 5}), 70 * 50 * 30,
                {static_cast<int64_t>(Upscale::Bilinear), 70, 50, aligned ? 1 : 0});
  }
  // A row that repeats, one image for all, and as many.
  const TensorSpec row = f32({1, 41, 1, 5});
  const TensorSpec image = f32({64, 41, 6, 1});
  input({5, 1, 41, 1});
  expect_node(Op::Div, images, kN, {}, {}, &row);
  inputs_.pop_back();
  input({1, 6, 41, 64});
  expect_node(Op::Sub, images, kN, {}, {}, &image);
  inputs_.pop_back();
  input(sizes);
  for (size_t axis = 0; axis < 4; ++axis) {
    std::vector<Dim> ne = {64, 41, 6, 5};
    ne[axis] = std::vector<Dim>{128, 82, 12, 10}[axis];
    expect_node(Op::Concat, f32(ne), 2 * kN, {static_cast<int64_t>(axis)}, {}, &images);
  }
}

TEST_F(CpuExecutorTest, CastsOfGgmlAreSharedOut) {
  constexpr int32_t kN = 300 * 400;
  input({400, 300});
  GraphWriter g;
  const ValueId half = g.call(Op::Cast, {g.input(f32({300, 400}))}, f16({300, 400}), {kF16});
  const ValueId y = g.call(Op::Cast, {half}, f32({300, 400}), {kF32});
  g.output(g.call(Op::Reshape, {y}, f32({kN}), {kN, 1, 1, 1}));
  expect_same(std::move(g), kN, 0);
}

TEST_F(CpuExecutorTest, RepeatsOfOneElementAndOfRows) {
  for (const int32_t width : {1, 3, 7}) {
    inputs_.clear();
    input({2, 5, width});
    GraphWriter g;
    const ValueId x = g.input(f32({width, 5, 2}));
    const ValueId y = g.call(Op::Repeat, {x}, f32({width * 7, 10, 2, 3}), {width * 7, 10, 2, 3});
    const int32_t n = width * 7 * 60;
    g.output(g.call(Op::Reshape, {y}, f32({n}), {n, 1, 1, 1}));
    expect_same(std::move(g), n, 0);
  }
}

// A chain in which ggml's allocator reuses memory at once, with nodes left to ggml between ours.
TEST_F(CpuExecutorTest, MemoryThatIsReusedKeepsItsOrder) {
  constexpr int32_t kN = 64;
  for (int layer = 0; layer < 6; ++layer) {
    for (const char* name : {"a", "b", "c"}) {
      std::vector<float> weights = random(kN * kN);
      // Products as large as their operands: differences do not grow from layer to layer.
      std::ranges::for_each(weights, [](float& w) { w /= std::sqrt(static_cast<float>(kN)); });
      data_.add_as(name + std::to_string(layer), GGML_TYPE_F32, {kN, kN}, weights);
    }
  }
  input({50, kN});
  const TensorSpec rows = f32({kN, 50});
  GraphWriter g;
  ValueId x = g.input(rows);
  for (int layer = 0; layer < 6; ++layer) {
    const std::string n = std::to_string(layer);
    const ValueId h = g.call(Op::RmsNorm, {x}, rows, {}, {1e-6});
    const ValueId a = g.call(Op::MulMat, {g.weight(f32({kN, kN}), {"a" + n}), h}, rows);
    const ValueId b = g.call(Op::MulMat, {g.weight(f32({kN, kN}), {"b" + n}), h}, rows);
    const ValueId left = g.call(Op::Sqr, {g.call(Op::Sin, {a}, rows)}, rows);
    const ValueId gated = g.call(Op::Glu, {b, left}, rows, {static_cast<int64_t>(Glu::Swiglu)}, {});
    const ValueId c = g.call(Op::MulMat, {g.weight(f32({kN, kN}), {"c" + n}), gated}, rows);
    x = g.call(Op::Add, {x, c}, rows);
  }
  g.output(g.call(Op::Reshape, {x}, f32({50 * kN}), {50 * kN, 1, 1, 1}));
  expect_same(std::move(g), 50 * kN);
}

}  // namespace
}  // namespace executorch_ggml::testing
