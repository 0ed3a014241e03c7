// Builds programs and delegate blobs for tests.
//
//   GraphWriter g;
//   const Dim n = g.dim_symbol("n", 1, 64, /*input=*/0, /*dim=*/0);
//   const ValueId x = g.input(f32({4, n}));           // torch sizes [n, 4]
//   const ValueId w = g.weight(f32({4, 3}), {"linear.weight"});
//   const ValueId y = g.call(Op::MulMat, {w, x}, f32({3, n}));
//   g.output(y);
//   const std::vector<uint8_t> blob = g.finish();
//
// Nothing is checked here: a test that needs a malformed program edits `g.graph`,
// or the Program from g.program(), and serializes it with write_program().
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program.h"
#include "schema_generated.h"

namespace executorch_ggml::testing {

// Element types (enum ggml_type) and ExecuTorch's scalar types by number, so that
// tests of the program layer need neither library.
inline constexpr uint8_t kF32 = 0;
inline constexpr uint8_t kF16 = 1;
inline constexpr uint8_t kQ8_0 = 8;
inline constexpr uint8_t kI32 = 26;
inline constexpr uint8_t kBF16 = 30;

inline constexpr int8_t kInt = 3;
inline constexpr int8_t kLong = 4;
inline constexpr int8_t kHalf = 5;
inline constexpr int8_t kFloat = 6;
inline constexpr int8_t kBool = 11;

// A number or an expression of a GraphWriter.
struct Dim {
  Dim(int64_t constant) : value(constant) {}  // NOLINT: numbers are dims
  static Dim of(ExprId id) {
    Dim dim(0);
    dim.expr = id;
    return dim;
  }

  int64_t value;
  ExprId expr = kAbsent;  // used when not kAbsent
};

// An element type and up to four extents in ggml order; missing ones are 1.
struct TensorSpec {
  uint8_t dtype;
  std::vector<Dim> ne;
};

inline TensorSpec f32(std::vector<Dim> ne) { return {kF32, std::move(ne)}; }
inline TensorSpec f16(std::vector<Dim> ne) { return {kF16, std::move(ne)}; }
inline TensorSpec i32(std::vector<Dim> ne) { return {kI32, std::move(ne)}; }

// What the blob says and Program does not hold.
struct BlobOptions {
  uint64_t required_features = 0;
  std::map<std::pair<size_t, size_t>, uint8_t> devices;                  // graph, value
  std::map<std::pair<size_t, size_t>, std::vector<uint32_t>> subgraphs;  // graph, call
};

std::vector<uint8_t> write_program(const Program& program, const BlobOptions& options = {});

class GraphWriter {
 public:
  explicit GraphWriter(std::string name = "forward") { graph.name = std::move(name); }

  // --- expressions; equal ones are not merged, constants are --------------------
  ExprId expr(Dim dim) {
    if (dim.expr != kAbsent) {
      return dim.expr;
    }
    const auto [found, is_new] = constants_.try_emplace(dim.value, kAbsent);
    if (is_new) {
      found->second = append({ExprOp::Const, 0, 0, dim.value});
    }
    return found->second;
  }
  Dim binary(ExprOp op, Dim a, Dim b) {
    const ExprId left = expr(a);
    const ExprId right = expr(b);
    return Dim::of(append({op, left, right, 0}));
  }
  Dim add(Dim a, Dim b) { return binary(ExprOp::Add, a, b); }
  Dim sub(Dim a, Dim b) { return binary(ExprOp::Sub, a, b); }
  Dim mul(Dim a, Dim b) { return binary(ExprOp::Mul, a, b); }
  Dim floor_div(Dim a, Dim b) { return binary(ExprOp::FloorDiv, a, b); }
  Dim mod(Dim a, Dim b) { return binary(ExprOp::Mod, a, b); }

  // A symbol read from a size of input `input` (torch dimension `dim`), which the
  // test declares afterwards or before.
  Dim dim_symbol(std::string name, int64_t min, int64_t max, uint32_t input, uint32_t dim,
                 int64_t offset = 0, int64_t divisor = 1) {
    return symbol({std::move(name), min, max, SymbolSource::InputDim, input, dim, offset, divisor});
  }
  // A symbol read from element `element` of integer input `input`.
  Dim element_symbol(std::string name, int64_t min, int64_t max, uint32_t input,
                     uint32_t element = 0, int64_t offset = 0, int64_t divisor = 1) {
    return symbol(
        {std::move(name), min, max, SymbolSource::InputElement, input, element, offset, divisor});
  }

  // --- values -------------------------------------------------------------------
  ValueId value(const TensorSpec& spec) {
    Value v{{}, spec.dtype};
    for (size_t i = 0; i < v.ne.size(); ++i) {
      v.ne[i] = expr(i < spec.ne.size() ? spec.ne[i] : Dim(1));
    }
    graph.values.push_back(v);
    return static_cast<ValueId>(graph.values.size() - 1);
  }

  // An input whose torch sizes are the given extents in reverse; the scalar type
  // follows the element type.
  ValueId input(const TensorSpec& spec) { return input(spec, scalar_type_for(spec.dtype)); }
  ValueId input(const TensorSpec& spec, int8_t scalar_type) {
    return input(spec, scalar_type, reversed(spec.ne));
  }
  ValueId input(const TensorSpec& spec, int8_t scalar_type, const std::vector<Dim>& sizes) {
    const ValueId id = value(spec);
    graph.inputs.push_back(argument(id, scalar_type, sizes));
    return id;
  }

  // As for inputs; without `sizes`, all four extents of the value in reverse,
  // leading ones dropped.
  void output(ValueId id) { output(id, scalar_type_for(graph.values.at(id).dtype)); }
  void output(ValueId id, int8_t scalar_type) {
    std::vector<Dim> ne;
    for (const ExprId extent : graph.values.at(id).ne) {
      ne.push_back(Dim::of(extent));
    }
    const ExprId one = expr(1);
    while (!ne.empty() && ne.back().expr == one) {
      ne.pop_back();
    }
    output(id, scalar_type, reversed(ne));
  }
  void output(ValueId id, int8_t scalar_type, const std::vector<Dim>& sizes) {
    graph.outputs.push_back(argument(id, scalar_type, sizes));
  }

  ValueId weight(const TensorSpec& spec, std::vector<std::string> keys) {
    const ValueId id = value(spec);
    graph.weights.push_back({id, std::move(keys)});
    return id;
  }

  ValueId buffer(const TensorSpec& spec, std::string name, std::string init_key = "") {
    const ValueId id = value(spec);
    graph.states.push_back(
        {StateKind::Buffer, std::move(name), id, std::move(init_key), 0, 0, 0, 1, 0, 0, 0});
    return id;
  }

  // Returns the state's index, the `state` parameter of update_and_attend.
  int64_t kv_cache(std::string name, uint32_t head_dim, uint32_t n_kv_heads,
                   uint32_t default_capacity, uint32_t max_capacity, uint32_t n_batch = 1,
                   uint32_t window = 0) {
    graph.states.push_back({StateKind::KvCache, std::move(name), kAbsent, "", head_dim, head_dim,
                            n_kv_heads, n_batch, window, default_capacity, max_capacity});
    return static_cast<int64_t>(graph.states.size() - 1);
  }

  // --- calls ----------------------------------------------------------------------
  // Integer parameters are numbers or expressions; `result` is what the op gives.
  ValueId call(Op op, std::vector<ValueId> inputs, const TensorSpec& result,
               const std::vector<Dim>& ints = {}, std::vector<double> floats = {}) {
    std::vector<ExprId> params;
    for (const Dim& dim : ints) {
      params.push_back(expr(dim));
    }
    const ValueId id = value(result);
    const auto handle = static_cast<uint32_t>(graph.calls.size() + 1);
    graph.calls.push_back(
        {op, std::move(inputs), std::move(params), std::move(floats), {id}, handle});
    return id;
  }

  Program program() const { return {kOpsetVersion, "program_writer.h", "test", {graph}}; }
  std::vector<uint8_t> finish() const { return write_program(program()); }

  Graph graph;

 private:
  ExprId append(Expr e) {
    graph.exprs.push_back(e);
    return static_cast<ExprId>(graph.exprs.size() - 1);
  }

  Dim symbol(Symbol s) {
    graph.symbols.push_back(std::move(s));
    return Dim::of(append({ExprOp::Symbol, static_cast<uint32_t>(graph.symbols.size() - 1), 0, 0}));
  }

  Argument argument(ValueId id, int8_t scalar_type, const std::vector<Dim>& sizes) {
    Argument a{id, scalar_type, {}, {}};
    for (const Dim& size : sizes) {
      a.sizes.push_back(expr(size));
    }
    return a;
  }

  static std::vector<Dim> reversed(std::vector<Dim> ne) { return {ne.rbegin(), ne.rend()}; }

  static int8_t scalar_type_for(uint8_t dtype) {
    return dtype == kI32 ? kLong : dtype == kF16 ? kHalf : kFloat;
  }

  std::map<int64_t, ExprId> constants_;
};

inline std::vector<uint8_t> write_program(const Program& program, const BlobOptions& options) {
  namespace fb = flatbuffers;
  fb::FlatBufferBuilder builder;

  const auto arguments = [&builder](const std::vector<Argument>& from) {
    std::vector<fb::Offset<schema::Argument>> to;
    for (const Argument& a : from) {
      const auto sizes = builder.CreateVector(a.sizes);
      const auto order = a.dim_order.empty() ? 0 : builder.CreateVector(a.dim_order);
      to.push_back(schema::CreateArgument(builder, a.value, a.scalar_type, sizes, order));
    }
    return builder.CreateVector(to);
  };

  std::vector<fb::Offset<schema::Graph>> graphs;
  for (size_t g = 0; g < program.graphs.size(); ++g) {
    const Graph& graph = program.graphs[g];

    std::vector<fb::Offset<schema::Symbol>> symbols;
    for (const Symbol& s : graph.symbols) {
      symbols.push_back(schema::CreateSymbol(builder, builder.CreateString(s.name), s.min, s.max,
                                             static_cast<schema::SymbolSource>(s.source), s.input,
                                             s.index, s.offset, s.divisor));
    }
    std::vector<schema::Expr> exprs;
    for (const Expr& e : graph.exprs) {
      exprs.emplace_back(e.imm, e.a, e.b, static_cast<schema::ExprOp>(e.op));
    }
    std::vector<schema::Value> values;
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const Value& v = graph.values[i];
      const auto device = options.devices.find({g, i});
      values.emplace_back(v.ne[0], v.ne[1], v.ne[2], v.ne[3], v.dtype,
                          device == options.devices.end() ? uint8_t{0} : device->second);
    }
    std::vector<fb::Offset<schema::Weight>> weights;
    for (const Weight& w : graph.weights) {
      weights.push_back(
          schema::CreateWeight(builder, w.value, builder.CreateVectorOfStrings(w.keys)));
    }
    std::vector<fb::Offset<schema::State>> states;
    for (const State& s : graph.states) {
      const auto name = builder.CreateString(s.name);
      const auto init_key = s.init_key.empty() ? 0 : builder.CreateString(s.init_key);
      states.push_back(schema::CreateState(
          builder, static_cast<schema::StateKind>(s.kind), name, s.value, init_key, s.k_head_dim,
          s.v_head_dim, s.n_kv_heads, s.n_batch, s.window, s.default_capacity, s.max_capacity));
    }
    std::vector<fb::Offset<schema::Call>> calls;
    for (size_t i = 0; i < graph.calls.size(); ++i) {
      const Call& c = graph.calls[i];
      const auto found = options.subgraphs.find({g, i});
      const auto inputs = builder.CreateVector(c.inputs);
      const auto ints = builder.CreateVector(c.ints);
      const auto floats = builder.CreateVector(c.floats);
      const auto outputs = builder.CreateVector(c.outputs);
      const auto subgraphs =
          found == options.subgraphs.end() ? 0 : builder.CreateVector(found->second);
      calls.push_back(schema::CreateCall(builder, static_cast<uint16_t>(c.op), inputs, ints, floats,
                                         outputs, c.debug_handle, subgraphs));
    }
    const auto name = builder.CreateString(graph.name);
    const auto symbol_list = builder.CreateVector(symbols);
    const auto expr_list = builder.CreateVectorOfStructs(exprs);
    const auto value_list = builder.CreateVectorOfStructs(values);
    const auto input_list = arguments(graph.inputs);
    const auto output_list = arguments(graph.outputs);
    const auto weight_list = builder.CreateVector(weights);
    const auto state_list = builder.CreateVector(states);
    const auto call_list = builder.CreateVector(calls);
    graphs.push_back(schema::CreateGraph(builder, name, symbol_list, expr_list, value_list,
                                         input_list, output_list, weight_list, state_list,
                                         call_list));
  }
  const auto producer = builder.CreateString(program.producer);
  const auto program_id = builder.CreateString(program.program_id);
  const auto graph_list = builder.CreateVector(graphs);
  schema::FinishProgramBuffer(
      builder, schema::CreateProgram(builder, program.opset_version, options.required_features,
                                     producer, program_id, graph_list));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace executorch_ggml::testing
