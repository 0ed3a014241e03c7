// Builders refuse operands that ggml would abort on. Programs are built without
// the verifier, which refuses most of them before: the builders are the last line.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/graph_builder.h"
#include "runtime/options.h"
#include "tests/cpp/delegate_harness.h"
#include "tests/cpp/program_writer.h"

namespace executorch_ggml::testing {
namespace {

// Builds the graph at the symbols' minima with weights of the declared types
// (F32 where the file would tell).
Status build(const GraphWriter& g, std::vector<ggml_type> weight_types = {}) {
  const Graph& graph = g.graph;
  std::vector<int64_t> symbols;
  for (const Symbol& symbol : graph.symbols) {
    symbols.push_back(symbol.min);
  }
  const ggml_context_ptr context(ggml_init(
      {.mem_size = 64 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
  static char data[64];
  std::vector<ggml_tensor*> weights;
  for (size_t i = 0; i < graph.weights.size(); ++i) {
    const Value& value = graph.values[graph.weights[i].value];
    int64_t ne[4];
    for (size_t d = 0; d < 4; ++d) {
      ne[d] = graph.exprs[value.ne[d]].imm;
    }
    const ggml_type type = i < weight_types.size()         ? weight_types[i]
                           : value.dtype == kDtypeFromFile ? GGML_TYPE_F32
                                                           : static_cast<ggml_type>(value.dtype);
    weights.push_back(ggml_new_tensor(context.get(), type, 4, ne));
    weights.back()->data = data;
    ggml_format_name(weights.back(), "w%zu", i);
  }
  const std::vector<uint32_t> input_of = trace_inputs(graph);
  NoStates states;
  const RuntimeOptions options;
  Plan plan;
  return build_plan({.program = graph,
                     .symbols = symbols,
                     .state_key = {},
                     .weights = weights,
                     .input_of = input_of,
                     .states = states,
                     .options = options},
                    plan);
}

void expect_refused(const GraphWriter& g, const std::string& text,
                    std::vector<ggml_type> weight_types = {}) {
  const Status status = build(g, std::move(weight_types));
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(text), std::string::npos)
      << "found: " << status.message() << "\nexpected: " << text;
}

// A writer with one call over inputs of these specs.
GraphWriter one_call(Op op, const std::vector<TensorSpec>& operands, const TensorSpec& result,
                     const std::vector<Dim>& ints = {}, std::vector<double> floats = {}) {
  GraphWriter g;
  std::vector<ValueId> inputs;
  for (const TensorSpec& spec : operands) {
    inputs.push_back(g.input(spec));
  }
  g.output(g.call(op, std::move(inputs), result, ints, std::move(floats)));
  return g;
}

TEST(OpBuilders, NameTheCallTheOpAndTheOperand) {
  const Status status = build(one_call(Op::Sqr, {i32({4})}, i32({4})));
  EXPECT_EQ(status.code(), StatusCode::InvalidProgram);
  EXPECT_EQ(status.message(), "call 0 (sqr): operand 'x' is i32[4, 1, 1, 1], expected f32 or f16");
}

TEST(OpBuilders, ReshapeNeedsAsManyElements) {
  expect_refused(one_call(Op::Reshape, {f32({4, 3})}, f32({4, 4}), {4, 4, 1, 1}),
                 "another number of elements");
  expect_refused(one_call(Op::Reshape, {f32({4, 3})}, f32({12}), {6, 2, 1, 1}), "differ");
}

TEST(OpBuilders, ReshapeKeepsBlocksWhole) {
  GraphWriter g;
  const ValueId w = g.weight({kDtypeFromFile, {64, 3}}, {"w"});
  g.call(Op::Reshape, {w}, {kDtypeFromFile, {48, 4}}, {48, 4, 1, 1});
  expect_refused(g, "cannot be cut into rows of 48", {GGML_TYPE_Q8_0});
}

TEST(OpBuilders, PermuteNeedsAPermutation) {
  expect_refused(one_call(Op::Permute, {f32({4, 3})}, f32({4, 3}), {0, 0, 2, 3}), "permutation");
  expect_refused(one_call(Op::Permute, {f32({4, 3})}, f32({4, 3}), {0, 1, 2, 7}), "permutation");
}

TEST(OpBuilders, ViewsStayWithinTheirMemory) {
  const TensorSpec x = f32({8, 4});
  const auto view = [&](const TensorSpec& result, std::vector<Dim> ints) {
    return one_call(Op::View, {x}, result, ints);
  };
  expect_refused(view(f32({8, 4}), {8, 4, 1, 1, 8, 32, 32, 1}), "does not lie within");
  expect_refused(view(f32({2, 5}), {2, 5, 1, 1, 8, 32, 32, 0}), "does not lie within");
  expect_refused(view(f32({4}), {4, 1, 1, 1, 8, 8, 8, -1}), "does not lie within");
  expect_refused(view(f32({4, 2}), {4, 2, 1, 1, -8, 8, 8, 16}), "does not lie within");
  expect_refused(view(f32({8, 5}), {8, 5, 1, 1, 0, 0, 0, 0}), "does not lie within");
  expect_refused(view(f32({2, 2}), {2, 2, 1, 1, INT64_MAX, 0, 0, 0}), "does not lie within");
  EXPECT_TRUE(build(view(f32({4, 4}), {4, 4, 1, 1, 8, 32, 32, 4})).ok());
}

TEST(OpBuilders, CopiesNeedTypesThatConvert) {
  expect_refused(one_call(Op::Cast, {i32({4})}, f16({4}), {kF16}), "cannot be cast");
  expect_refused(one_call(Op::Cast, {f32({4})}, {27, {4}}, {27}), "cannot be cast");
  expect_refused(one_call(Op::Cast, {f32({4})}, f32({4}), {99}), "cannot be cast");
  expect_refused(one_call(Op::Repeat, {f32({4, 3})}, f32({4, 7}), {4, 7, 1, 1}), "repeat");
  expect_refused(one_call(Op::Concat, {f32({4, 3}), f32({5, 3})}, f32({4, 6}), {1}), "do not fit");
  expect_refused(one_call(Op::Concat, {f32({4}), i32({4})}, f32({8}), {0}), "differ in type");
  expect_refused(one_call(Op::Concat, {f32({4}), f32({4})}, f32({8}), {4}), "outside 0..3");
  expect_refused(one_call(Op::Pad, {f32({4})}, f32({4}), {-1, 1, 0, 0, 0, 0, 0, 0}), "negative");
  GraphWriter g;
  const ValueId w = g.weight({kDtypeFromFile, {64, 3}}, {"w"});
  g.call(Op::Cont, {w}, {kDtypeFromFile, {64, 3}});
  expect_refused(g, "quantized", {GGML_TYPE_Q4_0});
}

TEST(OpBuilders, RowsNeedFittingIds) {
  expect_refused(one_call(Op::GetRows, {f32({4, 9}), f32({3})}, f32({4, 3})), "'ids'");
  expect_refused(one_call(Op::GetRows, {f32({4, 9, 2}), i32({3})}, f32({4, 3})), "do not fit");
  expect_refused(one_call(Op::SetRows, {f32({4, 9}), f32({5, 3}), i32({3})}, f32({4, 9})),
                 "do not fit");
  expect_refused(one_call(Op::Assign, {f32({4}), f32({5})}, f32({4})), "does not fit");
  expect_refused(one_call(Op::Assign, {i32({4}), f32({4})}, i32({4})), "cannot be written");
}

TEST(OpBuilders, ElementwiseOpsNeedBroadcastingAndF32) {
  expect_refused(one_call(Op::Add, {f32({4, 3}), f32({4, 2})}, f32({4, 3})), "broadcast");
  expect_refused(one_call(Op::Mul, {f32({1, 3}), f32({4, 3})}, f32({1, 3})), "broadcast");
  expect_refused(one_call(Op::Div, {f32({4}), i32({4})}, f32({4})), "expected f32");
  expect_refused(one_call(Op::Scale, {i32({4})}, i32({4}), {}, {1, 0}), "expected f32");
  expect_refused(one_call(Op::Unary, {f32({4})}, f32({4}), {4711}), "unknown function");
  expect_refused(one_call(Op::Unary, {f32({4})}, f32({4}), {-1}), "unknown function");
  expect_refused(one_call(Op::Glu, {f32({4}), f32({5})}, f32({4}), {2}), "differ");
  expect_refused(one_call(Op::Glu, {f32({4}), f32({4})}, f32({4}), {77}), "unknown gated unit");
  // A transposed view has no adjacent elements along its first dimension.
  GraphWriter g;
  const ValueId x = g.input(f32({4, 3}));
  const ValueId t = g.call(Op::Permute, {x}, f32({3, 4}), {1, 0, 2, 3});
  g.call(Op::Sqrt, {t}, f32({3, 4}));
  expect_refused(g, "adjacent elements");
}

TEST(OpBuilders, ReductionsAndNormsCheckTheirOperands) {
  expect_refused(one_call(Op::SumRows, {i32({4, 3})}, i32({1, 3})), "expected f32");
  expect_refused(one_call(Op::Argmax, {f32({4, 3, 2})}, i32({3})), "no matrix");
  expect_refused(one_call(Op::RmsNorm, {f32({4})}, f32({4}), {}, {-1}), "negative");
  expect_refused(one_call(Op::GroupNorm, {f32({2, 2, 3})}, f32({2, 2, 3}), {2}, {1e-5}), "groups");
  expect_refused(one_call(Op::SoftMax, {f32({4, 3}), f32({4, 2})}, f32({4, 3}), {}, {1}),
                 "mask f32[4, 2, 1, 1] does not fit");
  expect_refused(one_call(Op::Norm, {f32({4})}, f32({5}), {}, {1e-5}), "declares f32[5, 1, 1, 1]");
}

TEST(OpBuilders, ProductsNeedASharedInnerDimension) {
  expect_refused(one_call(Op::MulMat, {f32({4, 3}), f32({5, 2})}, f32({3, 2})), "do not fit");
  expect_refused(one_call(Op::MulMat, {f32({4, 3, 2}), f32({4, 2, 3})}, f32({3, 2, 3})),
                 "do not fit");
  expect_refused(one_call(Op::MulMat, {i32({4, 3}), f32({4, 2})}, f32({3, 2})), "no product");
  GraphWriter g;
  const ValueId x = g.input(f32({4, 3}));
  const ValueId t = g.call(Op::Permute, {x}, f32({3, 4}), {1, 0, 2, 3});
  const ValueId y = g.input(f32({3, 2}));
  g.call(Op::MulMat, {t, y}, f32({4, 2}));
  expect_refused(g, "'w' must have adjacent elements");
}

TEST(OpBuilders, RopeNeedsAPositionForEachRow) {
  const std::vector<double> floats = {10000, 1, 0, 1, 32, 1};
  const auto rope = [&](const TensorSpec& positions, std::vector<Dim> ints) {
    return one_call(Op::Rope, {f32({8, 2, 3}), positions}, f32({8, 2, 3}), ints, floats);
  };
  EXPECT_TRUE(build(rope(i32({3}), {8, 2, 0})).ok());
  expect_refused(rope(i32({4}), {8, 2, 0}), "one position for each");
  expect_refused(rope(f32({3}), {8, 2, 0}), "'positions'");
  expect_refused(rope(i32({3}), {10, 2, 0}), "cannot be rotated");
  expect_refused(rope(i32({3}), {7, 2, 0}), "cannot be rotated");
  expect_refused(rope(i32({3}), {8, 24, 0}), "unknown rope mode");
}

TEST(OpBuilders, ConvolutionsNeedWindowsThatFit) {
  const std::vector<Dim> ones = {1, 1, 0, 0, 1, 1};
  expect_refused(one_call(Op::Conv2d, {f32({3, 3, 2, 4}), f32({8, 8, 3})}, f32({6, 6, 4}), ones),
                 "does not fit");
  expect_refused(one_call(Op::Conv2d, {f32({9, 9, 3, 4}), f32({8, 8, 3})}, f32({1, 1, 4}), ones),
                 "does not give the declared result");
  expect_refused(
      one_call(Op::Conv2d, {f32({3, 3, 3, 4}), f32({8, 8, 3})}, f32({6, 6, 4}), {0, 1, 0, 0, 1, 1}),
      "must be positive");
  expect_refused(one_call(Op::Conv2dDw, {f32({3, 3, 1, 2}), f32({8, 8, 3})}, f32({6, 6, 3}), ones),
                 "depthwise kernel");
  expect_refused(one_call(Op::Pool2d, {f32({8, 8, 3})}, f32({4, 4, 3}), {5, 2, 2, 2, 2, 0, 0}),
                 "unknown pooling");
  expect_refused(one_call(Op::Pool2d, {f32({8, 8, 3})}, f32({4, 4, 3}), {0, 9, 2, 2, 2, 0, 0}),
                 "does not give the declared result");
}

// Two images of five channels, 7 x 6; windows of 3 x 2.
std::vector<Dim> image_window(size_t changed = 0, int64_t value = 3) {
  std::vector<Dim> ints = {3, 2, 1, 1, 0, 0, 1, 1, 0, 0};
  ints[changed] = value;
  return ints;
}

TEST(OpBuilders, ChannelsLastConvolutionsFitTheirOperands) {
  const TensorSpec kernel = f32({16, 30, 2});
  const TensorSpec x = f32({5, 7, 6, 2});
  const TensorSpec bias = f32({20});
  const TensorSpec result = f32({20, 5, 5, 2});
  const auto conv = [&](const std::vector<TensorSpec>& operands, std::vector<Dim> ints,
                        const TensorSpec& declared, int64_t channels = 20) {
    ints.push_back(channels);
    return one_call(Op::Conv2dNhwc, operands, declared, ints, {-INFINITY, INFINITY});
  };
  const std::vector<Dim> window = image_window();
  EXPECT_TRUE(build(conv({kernel, x, bias, result}, window, result)).ok());
  for (const TensorSpec& other : {f32({16, 24, 2}), f32({16, 30, 1}), f32({32, 30, 1})}) {
    expect_refused(conv({other, x, bias, result}, window, result), "does not fit");
  }
  expect_refused(conv({i32({16, 30, 2}), x, bias, result}, window, result), "'kernel'");
  expect_refused(conv({kernel, i32({5, 7, 6, 2}), bias, result}, window, result), "expected f32");
  expect_refused(conv({kernel, x, f32({32}), result}, window, result), "the bias must have");
  expect_refused(conv({kernel, x, f32({1, 20}), result}, window, result), "the bias must have");
  expect_refused(conv({kernel, x, bias, f32({20, 5, 5})}, window, result), "the residual must be");
  expect_refused(conv({kernel, x, bias, x}, window, result), "the residual must be");
  expect_refused(conv({kernel, x, bias}, window, result, 21), "21 channels do not give");
  expect_refused(conv({kernel, x, bias}, window, f32({20, 5, 5, 1})), "declared result");
  expect_refused(conv({kernel, x, bias}, window, f32({20, 5, 4, 2})), "declared result");
  for (size_t i = 0; i < window.size(); ++i) {
    const bool may_be_zero = (i >= 4 && i < 6) || i >= 8;
    expect_refused(conv({kernel, x, bias}, image_window(i, may_be_zero ? -1 : 0), result),
                   i < 2 ? "does not fit" : "must be positive");
  }
  for (const int64_t large : {int64_t{4}, int64_t{INT32_MAX}, INT64_MAX}) {
    expect_refused(conv({kernel, x, bias}, image_window(6, large), result), "declared result");
  }
  expect_refused(conv({kernel, x, bias}, image_window(0, INT64_MAX), result), "does not fit");
}

TEST(OpBuilders, ChannelsLastDepthwiseConvolutionsFitTheirOperands) {
  const TensorSpec kernel = f32({5, 3, 2});
  const TensorSpec x = f32({5, 7, 6, 2});
  const TensorSpec result = f32({5, 5, 5, 2});
  const auto conv = [&](const std::vector<TensorSpec>& operands, const std::vector<Dim>& ints,
                        const TensorSpec& declared) {
    return one_call(Op::Conv2dDwNhwc, operands, declared, ints, {0, INFINITY});
  };
  const std::vector<Dim> window = image_window();
  EXPECT_TRUE(build(conv({kernel, x, f32({5}), result}, window, result)).ok());
  expect_refused(conv({f32({3, 2, 1, 5}), x}, window, result), "does not fit");
  expect_refused(conv({f32({6, 3, 2}), x}, window, result), "does not fit");
  expect_refused(conv({i32({5, 3, 2}), x}, window, result), "expected f32");
  expect_refused(conv({kernel, x, f32({1})}, window, result), "the bias must have");
  expect_refused(conv({kernel, x, f32({5}), f32({5, 5, 5})}, window, result), "the residual must");
  expect_refused(conv({kernel, x}, window, f32({6, 5, 5, 2})), "5 channels do not give");
  expect_refused(conv({kernel, x}, image_window(6, 9), result), "declared result");
  expect_refused(conv({f32({5, 9, 2}), x}, image_window(0, 9), f32({5, 1, 5, 2})),
                 "declared result");
}

TEST(OpBuilders, ChannelsLastKernelsMayBeHalves) {
  const auto conv = [](Op op, const TensorSpec& kernel, const TensorSpec& result,
                       const std::vector<Dim>& ints) {
    GraphWriter g;
    const ValueId w = g.weight(kernel, {"w"});
    g.output(g.call(op, {w, g.input(f32({5, 7, 6, 2}))}, result, ints, {-INFINITY, INFINITY}));
    return g;
  };
  std::vector<Dim> ints = image_window();
  expect_refused(conv(Op::Conv2dDwNhwc, f16({5, 3, 2}), f32({5, 5, 5, 2}), ints), "expected f32");
  ints.push_back(20);
  const GraphWriter g = conv(Op::Conv2dNhwc, f16({16, 30, 2}), f32({20, 5, 5, 2}), ints);
  EXPECT_TRUE(build(g).ok());
  EXPECT_TRUE(build(g, {GGML_TYPE_BF16}).ok());
  const TensorSpec any = {kDtypeFromFile, {32, 30}};
  expect_refused(conv(Op::Conv2dNhwc, any, f32({20, 5, 5, 2}), ints), "'kernel'", {GGML_TYPE_Q8_0});
}

TEST(OpBuilders, ChannelsLastPoolsNeedWindowsThatFit) {
  const auto pool = [](std::vector<Dim> ints, const TensorSpec& result) {
    return one_call(Op::Pool2dNhwc, {f32({5, 7, 6, 2})}, result, ints);
  };
  const TensorSpec result = f32({5, 3, 3, 2});
  EXPECT_TRUE(build(pool({0, 2, 2, 2, 2, 0, 0}, result)).ok());
  expect_refused(pool({9, 2, 2, 2, 2, 0, 0}, result), "unknown pooling 9");
  expect_refused(pool({0, 2, 2, 2, 2, 0, 0}, f32({4, 3, 3, 2})), "declared result");
  expect_refused(pool({0, 2, 2, 2, 2, 0, 0}, f32({5, 4, 3, 2})), "declared result");
  expect_refused(pool({1, 8, 2, 2, 2, 0, 0}, f32({5, 1, 3, 2})), "declared result");
  expect_refused(pool({1, 2, 2, 0, 2, 0, 0}, result), "must be positive");
  expect_refused(pool({1, 2, 2, 2, 2, 0, -1}, result), "must be positive");
  expect_refused(one_call(Op::Pool2dNhwc, {i32({5, 7, 6, 2})}, result, {0, 2, 2, 2, 2, 0, 0}),
                 "expected f32");
}

TEST(OpBuilders, EmptyAndHugeTensorsAreRefused) {
  expect_refused(one_call(Op::Sqr, {f32({0, 3})}, f32({0, 3})),
                 "input 0: f32[0, 3, 1, 1] is empty");
  const int64_t huge = int64_t{1} << 40;
  expect_refused(one_call(Op::Sqr, {f32({huge, huge})}, f32({huge, huge})), "too large");
  expect_refused(
      one_call(Op::Repeat, {f32({1})}, f32({huge, huge, huge, huge}), {huge, huge, huge, huge}),
      "too large");
}

TEST(OpBuilders, WindowsMustFit) {
  const TensorSpec x = f32({5, 4, 3, 2});
  const auto rows = [&](const TensorSpec& result, std::vector<Dim> ints) {
    return one_call(Op::Im2col, {x}, result, ints);
  };
  EXPECT_TRUE(build(rows(f32({18, 3, 4, 2}), {3, 2, 2, 1, 1, 1, 1, 2})).ok());
  expect_refused(rows(f32({18, 3, 3, 2}), {3, 2, 2, 1, 1, 1, 1, 2}), "declared result");
  expect_refused(rows(f32({18, 3, 4, 2}), {3, 2, 0, 1, 1, 1, 1, 2}), "must be positive");
  expect_refused(rows(f32({18, 3, 4, 2}), {3, 2, 2, 1, -1, 1, 1, 2}), "must be positive");
  expect_refused(rows(f32({63, 1, 3, 2}), {21, 1, 1, 1, 0, 0, 1, 1}), "declared result");
  expect_refused(rows(f32({18, 3, 4, 2}), {3, 2, 2, 1, INT64_C(1) << 40, 1, 1, 2}), "32 bits");
  expect_refused(rows(f32({18, 3, 4, 2}), {3, 2, 2, 1, INT32_MAX, 1, 1, 2}), "too large");
  expect_refused(rows(f32({19, 3, 4, 2}), {3, 2, 2, 1, 1, 1, 1, 2}), "declared result");
  expect_refused(one_call(Op::Im2col, {i32({5, 4})}, f32({1, 5, 4}), {1, 1, 1, 1, 0, 0, 1, 1}),
                 "expected f32");
}

TEST(OpBuilders, VolumesMustHoldTheirChannels) {
  // Six planes of 5 x 4 x 3: two images of three channels.
  const std::vector<Dim> whole = {3, 2, 2, 2, 2, 1, 1, 1, 0, 0, 0, 1, 1, 1};
  const auto rows = [](std::vector<Dim> ints) {
    return one_call(Op::Im2col3d, {f32({5, 4, 3, 6})}, f32({24, 4, 3, 4}), ints);
  };
  const auto with = [&](size_t i, int64_t value) {
    std::vector<Dim> ints = whole;
    ints[i] = value;
    return rows(ints);
  };
  EXPECT_TRUE(build(rows(whole)).ok());
  expect_refused(with(0, 4), "images of 4 channels");
  expect_refused(with(0, 0), "images of 0 channels");
  expect_refused(with(1, INT64_MAX), "channels");
  expect_refused(with(2, 6), "declared result");
  expect_refused(with(5, 0), "must be positive");
  expect_refused(with(13, 2), "declared result");
}

TEST(OpBuilders, WindowsAddUpToTheDeclaredImage) {
  const auto image = [](const TensorSpec& result, std::vector<Dim> ints) {
    return one_call(Op::Col2im, {f32({12, 3, 2})}, result, ints);
  };
  EXPECT_TRUE(build(image(f32({4, 3, 3}), {4, 3, 2, 2, 1, 1, 0, 0, 1, 1})).ok());
  expect_refused(image(f32({4, 3, 4}), {4, 3, 2, 2, 1, 1, 0, 0, 1, 1}), "do not add up");
  expect_refused(image(f32({4, 3, 3, 2}), {4, 3, 2, 2, 1, 1, 0, 0, 1, 1}), "do not add up");
  expect_refused(image(f32({4, 3, 3}), {5, 3, 2, 2, 1, 1, 0, 0, 1, 1}), "do not add up");
  expect_refused(image(f32({4, 3, 3}), {4, 3, 2, 2, 0, 1, 0, 0, 1, 1}), "must be positive");
}

TEST(OpBuilders, InterpolationNeedsAModeAndFittingSizes) {
  const TensorSpec x = f32({5, 4, 3, 2});
  const TensorSpec large = f32({10, 8, 3, 2});
  EXPECT_TRUE(build(one_call(Op::Upscale, {x}, large, {0, 10, 8, 0})).ok());
  expect_refused(one_call(Op::Upscale, {x}, large, {3, 10, 8, 0}), "unknown mode");
  expect_refused(one_call(Op::Upscale, {x}, large, {1, 10, 9, 0}), "declared result");
  expect_refused(one_call(Op::Upscale, {x}, f32({10, 8, 3, 4}), {1, 10, 8, 0}), "declared result");
  const auto resize = [](const TensorSpec& result, std::vector<Dim> ints, double step) {
    return one_call(Op::HostResize, {f32({5, 4, 3, 2})}, result, ints, {step, 0, 0});
  };
  EXPECT_TRUE(build(resize(f32({10, 8, 3, 2}), {2, 2, 10, 8, 3, 0}, 0.5)).ok());
  expect_refused(resize(f32({10, 8, 3, 2}), {9, 2, 10, 8, 3, 0}, 0.5), "unknown kind 9");
  expect_refused(resize(f32({10, 8, 3, 2}), {2, 4, 10, 8, 3, 0}, 0.5), "rank 4");
  expect_refused(resize(f32({10, 8, 3, 2}), {2, 1, 10, 8, 3, 0}, 0.5), "declared result");
  expect_refused(resize(f32({10, 8, 3, 2}), {2, 2, 10, 8, 3, 0}, 7.0), "declared result");
  expect_refused(resize(f32({10, 8, 3, 2}), {2, 2, 10, 8, 3, 0}, -1.0), "declared result");
}

TEST(OpBuilders, GridsGiveTwoCoordinatesForEachPoint) {
  const TensorSpec x = f32({5, 4, 3, 2});
  const auto sample = [&](const TensorSpec& grid, const TensorSpec& result, int64_t mode) {
    return one_call(Op::HostGridSample, {x, grid}, result, {mode, 0, 0});
  };
  EXPECT_TRUE(build(sample(f32({2, 6, 7, 2}), f32({6, 7, 3, 2}), 0)).ok());
  expect_refused(sample(f32({3, 6, 7, 2}), f32({6, 7, 3, 2}), 0), "does not fit");
  expect_refused(sample(f32({2, 6, 7, 1}), f32({6, 7, 3, 2}), 0), "does not fit");
  expect_refused(sample(f32({2, 6, 7, 2}), f32({6, 7, 3, 2}), 3), "unknown mode 3");
}

TEST(OpBuilders, RecurrentStatesFitTheirGates) {
  const auto layer = [](const TensorSpec& gates, const TensorSpec& state, const TensorSpec& result,
                        int64_t kind) {
    return one_call(Op::HostRecurrent, {gates, f32({5, 20}), f32({20}), state}, result, {kind, 0});
  };
  constexpr auto kLstm = static_cast<int64_t>(Recurrence::Lstm);
  constexpr auto kGru = static_cast<int64_t>(Recurrence::Gru);
  const TensorSpec gates = f32({20, 4, 2});
  const TensorSpec state = f32({5, 2, 2});
  EXPECT_TRUE(build(layer(gates, state, f32({5, 5, 2}), kLstm)).ok());
  expect_refused(layer(f32({15, 4, 2}), state, f32({5, 5, 2}), kLstm), "does not fit");
  expect_refused(layer(gates, f32({5, 1, 2}), f32({5, 5, 2}), kLstm), "does not fit");
  expect_refused(layer(gates, f32({5, 2, 3}), f32({5, 5, 2}), kLstm), "does not fit");
  expect_refused(layer(gates, state, f32({5, 4, 2}), kLstm), "does not fit");
  expect_refused(layer(gates, state, f32({5, 5, 2}), kGru), "does not fit");
  expect_refused(layer(gates, state, f32({5, 5, 2}), 9), "unknown kind 9");
}

// --- numbers that the builders themselves are responsible for --------------------

std::vector<float> compute(const GraphWriter& g, std::vector<const TestTensor*> inputs,
                           std::vector<int32_t> sizes, const TestData& data) {
  Loaded loaded = load(g.finish(), &data);
  EXPECT_TRUE(loaded.status.ok()) << loaded.status.message();
  if (!loaded.status.ok()) {
    return {};
  }
  const TestTensor output = TestTensor::empty<float>(std::move(sizes));
  const Status status = run(*loaded.delegate, std::move(inputs), {&output});
  EXPECT_TRUE(status.ok()) << status.message();
  return output.values<float>();
}

TEST(OpBuilders, Conv2dIsExactInF32ForEveryImage) {
  // Values that F16 cannot hold: rounding anywhere would show.
  constexpr int32_t kImages = 2;
  GraphWriter g;
  const ValueId x = g.input(f32({5, 4, 3, kImages}));
  const ValueId kernel = g.weight(f32({3, 2, 3, 2}), {"k"});
  g.output(g.call(Op::Conv2d, {kernel, x}, f32({3, 5, 2, kImages}), {2, 1, 1, 1, 1, 1}));
  std::vector<float> k = ramp(36, 1, 4097);
  std::vector<float> image = ramp(static_cast<size_t>(60 * kImages), 1, 2049);
  TestData data;
  data.add("k", k);
  const TestTensor input({kImages, 3, 4, 5}, image);
  const std::vector<float> found = compute(g, {&input}, {kImages, 2, 5, 3}, data);
  ASSERT_EQ(found.size(), static_cast<size_t>(kImages * 2 * 5 * 3));
  size_t i = 0;
  for (int n = 0; n < kImages; ++n) {
    for (int o = 0; o < 2; ++o) {
      for (int y = 0; y < 5; ++y) {
        for (int column = 0; column < 3; ++column) {
          double sum = 0;
          for (int c = 0; c < 3; ++c) {
            for (int ky = 0; ky < 2; ++ky) {
              for (int kx = 0; kx < 3; ++kx) {
                const int iy = y + ky - 1;
                const int ix = 2 * column + kx - 1;
                if (iy >= 0 && iy < 4 && ix >= 0 && ix < 5) {
                  sum +=
                      static_cast<double>(
                          image[static_cast<size_t>(((n * 3 + c) * 4 + iy) * 5 + ix)]) *
                      static_cast<double>(k[static_cast<size_t>(((o * 3 + c) * 2 + ky) * 3 + kx)]);
                }
              }
            }
          }
          EXPECT_NEAR(found[i], sum, 1e-6 * std::abs(sum)) << "element " << i;
          ++i;
        }
      }
    }
  }
}

TEST(OpBuilders, CastsQuantizedWeightsToHalfThroughFloat) {
  GraphWriter g;
  const ValueId x = g.input(f32({64}));
  const ValueId w = g.weight({kDtypeFromFile, {64, 2}}, {"w"});
  const ValueId half = g.call(Op::Cast, {w}, f16({64, 2}), {kF16});
  g.output(g.call(Op::MulMat, {half, x}, f32({2})));
  TestData data;
  std::vector<float> values(128, 0.0F);
  values[0] = 127;
  values[64] = -127;
  data.add_as("w", GGML_TYPE_Q8_0, {64, 2}, values);
  std::vector<float> one(64, 0.0F);
  one[0] = 2;
  const TestTensor input({64}, one);
  const std::vector<float> found = compute(g, {&input}, {2}, data);
  EXPECT_NEAR(found.at(0), 254, 0.5);
  EXPECT_NEAR(found.at(1), -254, 0.5);
}

TEST(OpBuilders, GluTakesRowsThatAreApart) {
  // Halves of a wide tensor, heads swapped with rows: ggml wants packed rows.
  GraphWriter g;
  const ValueId x = g.input(f32({8, 2, 3}));
  const ValueId swapped = g.call(Op::Permute, {x}, f32({8, 3, 2}), {0, 2, 1, 3});
  const ValueId a = g.call(Op::View, {swapped}, f32({4, 3, 2}), {4, 3, 2, 1, 16, 8, 48, 0});
  const ValueId b = g.call(Op::View, {swapped}, f32({4, 3, 2}), {4, 3, 2, 1, 16, 8, 48, 4});
  g.output(g.call(Op::Glu, {a, b}, f32({4, 3, 2}), {static_cast<int64_t>(Glu::Reglu)}));
  const std::vector<float> values = ramp(48, 0.5F, -4);
  const TestTensor input({3, 2, 8}, values);
  const std::vector<float> found = compute(g, {&input}, {2, 3, 4}, TestData());
  ASSERT_EQ(found.size(), 24U);
  for (size_t h = 0; h < 2; ++h) {
    for (size_t r = 0; r < 3; ++r) {
      for (size_t i = 0; i < 4; ++i) {
        const float gate = values[(r * 2 + h) * 8 + i];
        const float up = values[(r * 2 + h) * 8 + 4 + i];
        EXPECT_FLOAT_EQ(found[(h * 3 + r) * 4 + i], std::max(gate, 0.0F) * up);
      }
    }
  }
}

}  // namespace
}  // namespace executorch_ggml::testing
