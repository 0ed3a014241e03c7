// Small valid programs that between them hold every kind of item a blob can hold.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/cpp/program_writer.h"

namespace executorch_ggml::testing {

// y = w x + b for 1 to 64 rows.
inline Program linear_program() {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 64, /*input=*/0, /*dim=*/0);
  const ValueId x = g.input(f32({4, n}));
  const ValueId w = g.weight({kQ8_0, {32, 3}}, {"linear.weight", "fc.weight"});
  const ValueId b = g.weight(f32({3}), {"linear.bias"});
  const ValueId padded = g.call(Op::Pad, {x}, f32({32, n}), {0, 28, 0, 0, 0, 0, 0, 0});
  const ValueId product = g.call(Op::MulMat, {w, padded}, f32({3, n}));
  g.output(g.call(Op::Add, {product, b}, f32({3, n})));
  return g.program();
}

// One decoder layer with a cache: weights of the file's type, positions on the
// host, a symbol from an element.
inline Program decoder_program() {
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 32, /*input=*/0, /*dim=*/0);
  g.element_symbol("p", 0, 4095, /*input=*/1, /*element=*/0);
  const ValueId x = g.input(f32({64, n}));
  const ValueId positions = g.input(i32({n}));
  const int64_t state = g.kv_cache("layers.0", /*head_dim=*/16, /*n_kv_heads=*/2,
                                   /*default_capacity=*/256, /*max_capacity=*/4096);
  const auto weight = [&g](int64_t out, const char* key) {
    return g.weight({kDtypeFromFile, {64, out}}, {key});
  };
  const std::vector<double> rope = {10000.0, 1.0, 0.0, 1.0, 32.0, 1.0};
  const auto heads = [&](int64_t count, const char* key, bool rotated) {
    const ValueId flat = g.call(Op::MulMat, {weight(16 * count, key), x}, f32({16 * count, n}));
    const TensorSpec spec = f32({16, count, n});
    const ValueId split = g.call(Op::Reshape, {flat}, spec, {16, count, n, 1});
    return rotated ? g.call(Op::Rope, {split, positions}, spec, {16, 2, 0}, rope) : split;
  };
  const ValueId q = heads(4, "blk.0.attn_q.weight", true);
  const ValueId k = heads(2, "blk.0.attn_k.weight", true);
  const ValueId v = heads(2, "blk.0.attn_v.weight", false);
  const ValueId attended = g.call(Op::UpdateAndAttend, {q, k, v, positions, kAbsent},
                                  f32({16, 4, n}), {state, 1, 1}, {0.25, 0.0});
  const ValueId merged = g.call(Op::Reshape, {attended}, f32({64, n}), {64, n, 1, 1});
  const ValueId projected =
      g.call(Op::MulMat, {weight(64, "blk.0.attn_output.weight"), merged}, f32({64, n}));
  const ValueId sum = g.call(Op::Add, {projected, x}, f32({64, n}));
  const Dim last = g.mul(g.sub(n, 1), 64);
  g.output(g.call(Op::View, {sum}, f32({64}), {64, 1, 1, 1, 64, 64, 64, last}));
  return g.program();
}

// Buffers that are read, written by row and written whole.
inline Program stateful_program() {
  GraphWriter g("step");
  const Dim n = g.dim_symbol("n", 1, 8, /*input=*/0, /*dim=*/0);
  const ValueId x = g.input(f32({16, n}));
  const ValueId ids = g.input(i32({n}), kInt);
  const ValueId rows = g.buffer(f32({16, 100}), "rows", "rows.initial");
  const ValueId last = g.buffer(f32({16}), "last");
  const ValueId written = g.call(Op::SetRows, {rows, x, ids}, f32({16, 100}));
  const ValueId row =
      g.call(Op::View, {x}, f32({16}), {16, 1, 1, 1, 16, 16, 16, g.mul(g.sub(n, 1), 16)});
  g.call(Op::Assign, {last, row}, f32({16}));
  g.output(g.call(Op::GetRows, {written, ids}, f32({16, n})));
  return g.program();
}

// A convolution net: enumerations and many constant parameters.
inline Program conv_program() {
  GraphWriter g;
  const ValueId x = g.input(f32({32, 32, 3, 1}), kHalf, {1, 3, 32, 32});
  g.graph.inputs[0].dim_order = {0, 2, 3, 1};
  const ValueId kernel = g.weight(f32({3, 3, 3, 8}), {"conv.weight"});
  const ValueId conv = g.call(Op::Conv2d, {kernel, x}, f32({16, 16, 8, 1}), {2, 2, 1, 1, 1, 1});
  const ValueId relu =
      g.call(Op::Unary, {conv}, f32({16, 16, 8, 1}), {static_cast<int64_t>(Unary::Relu)});
  const ValueId pool = g.call(Op::Pool2d, {relu}, f32({8, 8, 8, 1}),
                              {static_cast<int64_t>(Pool::Avg), 2, 2, 2, 2, 0, 0});
  const ValueId permuted = g.call(Op::Permute, {pool}, f32({8, 8, 8, 1}), {1, 2, 0, 3});
  const ValueId cont = g.call(Op::Cont, {permuted}, f32({8, 8, 8, 1}));
  const ValueId clamped = g.call(Op::Clamp, {cont}, f32({8, 8, 8, 1}), {},
                                 {0.0, std::numeric_limits<double>::infinity()});
  g.output(clamped, kFloat, {1, 8, 8, 8});
  return g.program();
}

// Kernels of our own: integers, indices, rows, windows.
inline Program host_program() {
  const auto code = [](auto kind) { return Dim(static_cast<int64_t>(kind)); };
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 8, /*input=*/0, /*dim=*/0);
  const ValueId x = g.input(f32({6, n}));
  const ValueId count = g.call(Op::HostIota, {}, i32({6}), {6, 1, 1, 1, -2, 1});
  const ValueId ids = g.call(Op::HostWrapIds, {count}, i32({6}), {6});
  const ValueId picked = g.call(Op::HostGather, {x, ids}, f32({6, n}));
  const ValueId more =
      g.call(Op::HostBinary, {picked, x}, i32({6, n}), {code(HostBinary::Gt), code(IntType::I64)});
  const ValueId chosen = g.call(Op::HostWhere, {more, picked, x}, f32({6, n}));
  const ValueId order = g.call(Op::HostArgsort, {chosen}, i32({6, n}), {1});
  const ValueId moved =
      g.call(Op::HostScatter, {x, order, chosen}, f32({6, n}), {code(Scatter::Add)});
  const ValueId root = g.call(Op::HostUnary, {moved}, f32({6, n}),
                              {code(HostUnary::Elu), code(IntType::I64)}, {1.0, 1.0, 1.0});
  const ValueId running =
      g.call(Op::HostScan, {root}, f32({6, n}), {code(HostScan::Sum), code(IntType::I64)});
  const ValueId pooled =
      g.call(Op::HostPool, {running}, f32({3, n}),
             {code(HostPool::Avg), 3, n, 1, 2, 1, 1, 2, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0});
  const ValueId largest = g.call(Op::HostReduce, {pooled}, i32({1, n}),
                                 {code(HostReduce::Argmax), code(IntType::I64)}, {0.0});
  g.output(g.call(Op::HostConvert, {largest}, i32({1, n}), {code(IntType::U8)}));
  g.output(g.call(Op::HostRound, {pooled}, f32({3, n}), {int64_t{kF16}}));
  return g.program();
}

// Windows as rows and their sums, interpolation, and coordinates from outside.
inline Program image_program() {
  const auto code = [](auto kind) { return Dim(static_cast<int64_t>(kind)); };
  GraphWriter g;
  const Dim n = g.dim_symbol("n", 1, 4, /*input=*/0, /*dim=*/0);
  const ValueId x = g.input(f32({6, 5, 2, n}));
  const ValueId grid = g.input(f32({2, 4, 3, n}));
  const ValueId rows = g.call(Op::Im2col, {x}, f32({12, 6, 2, n}), {3, 2, 1, 2, 1, 0, 1, 1});
  const ValueId sums =
      g.call(Op::Col2im, {rows}, f32({6, 5, 2, n}), {6, 5, 3, 2, 1, 2, 1, 0, 1, 1});
  const ValueId large =
      g.call(Op::Upscale, {sums}, f32({12, 7, 2, n}), {code(Upscale::Bilinear), 12, 7, 1});
  const ValueId small = g.call(Op::HostResize, {large}, f32({4, 3, 2, n}),
                               {code(HostResize::CubicAa), 2, 4, 3, 2, 0}, {3.0, 0.0, 0.0});
  const ValueId volumes =
      g.call(Op::Im2col3d, {small}, f32({8, 3, 2, n}), {1, n, 2, 2, 2, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  g.output(volumes);
  g.output(g.call(Op::HostGridSample, {x, grid}, f32({4, 3, 2, n}),
                  {code(GridMode::Bicubic), code(GridPadding::Reflection), 0}));
  return g.program();
}

// Two graphs, and every kind of expression.
inline Program two_graphs_program() {
  GraphWriter g("main");
  const Dim a = g.dim_symbol("a", 1, 1000, /*input=*/0, /*dim=*/0);
  const Dim b = g.dim_symbol("b", 0, 50, /*input=*/0, /*dim=*/1, /*offset=*/3, /*divisor=*/2);
  const Dim width = g.add(g.mul(b, 2), 3);
  const ValueId x = g.input(f32({width, a}));
  const Dim blocks = g.floor_div(g.add(a, 255), 256);
  const Dim padded = g.binary(ExprOp::Min, g.mul(blocks, 256), 512);
  const Dim rest = g.binary(ExprOp::Max, g.mod(g.sub(0, a), 7), 1);
  const ValueId wide =
      g.call(Op::Repeat, {x}, f32({width, a, padded, rest}), {width, a, padded, rest});
  g.output(g.call(Op::Sum, {wide}, f32({1})), kFloat, {});

  GraphWriter branch("branch");
  branch.output(branch.input(i32({7}), kBool));

  Program program = g.program();
  program.graphs.push_back(branch.graph);
  return program;
}

inline std::vector<Program> sample_programs() {
  return {linear_program(), decoder_program(), stateful_program(),  conv_program(),
          host_program(),   image_program(),   two_graphs_program()};
}

}  // namespace executorch_ggml::testing
