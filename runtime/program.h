// The delegate blob in memory: what schema.fbs describes, parsed and verified.
//
// Order of the layers: program (this) -> graph_builder -> graph_cache -> session
// -> backend. Nothing here knows ExecuTorch's runtime or calls a ggml function.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "runtime/opset.h"
#include "runtime/status.h"

namespace executorch_ggml {

using ExprId = uint32_t;
using ValueId = uint32_t;
inline constexpr uint32_t kAbsent = std::numeric_limits<uint32_t>::max();

// dtype of a weight whose type the file tells, and of its reshape, permute and cont.
inline constexpr uint8_t kDtypeFromFile = 255;

enum class ExprOp : uint8_t { Const, Symbol, Add, Sub, Mul, FloorDiv, Mod, Min, Max };
enum class SymbolSource : uint8_t { InputDim, InputElement };
enum class StateKind : uint8_t { Buffer, KvCache };

struct Expr {
  ExprOp op;
  uint32_t a;
  uint32_t b;
  int64_t imm;
};

// value = (raw - offset) / divisor, exact, within [min, max].
struct Symbol {
  std::string name;
  int64_t min;
  int64_t max;
  SymbolSource source;
  uint32_t input;
  uint32_t index;
  int64_t offset;
  int64_t divisor;
};

// Extents in ggml order.
struct Value {
  std::array<ExprId, 4> ne;
  uint8_t dtype;  // enum ggml_type, or kDtypeFromFile
};

// A delegate argument; sizes in torch order, scalar_type ExecuTorch's code.
struct Argument {
  ValueId value;
  int8_t scalar_type;
  std::vector<ExprId> sizes;
  std::vector<uint8_t> dim_order;
};

struct Weight {
  ValueId value;
  std::vector<std::string> keys;
};

struct State {
  StateKind kind;
  std::string name;
  ValueId value;         // Buffer; kAbsent for a KvCache
  std::string init_key;  // empty: zeros
  uint32_t k_head_dim;
  uint32_t v_head_dim;
  uint32_t n_kv_heads;
  uint32_t n_batch;
  uint32_t window;
  uint32_t default_capacity;
  uint32_t max_capacity;
};

struct Call {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<ExprId> ints;
  std::vector<double> floats;
  std::vector<ValueId> outputs;
  uint32_t debug_handle;
};

struct Graph {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Expr> exprs;
  std::vector<Value> values;
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Weight> weights;
  std::vector<State> states;
  std::vector<Call> calls;
};

struct Program {
  uint32_t opset_version = 0;
  std::string producer;
  std::string program_id;
  std::vector<Graph> graphs;  // at least one; graphs[0] is executed
};

// Limits far above any model's needs. They keep sizes clear of overflow and a
// forged blob from asking for much memory or time.
namespace limits {
inline constexpr size_t kBlobBytes = size_t{16} << 20;
inline constexpr size_t kGraphs = 4096;
inline constexpr size_t kNameLength = 512;
inline constexpr size_t kKeysPerWeight = 64;
inline constexpr size_t kRank = 16;
inline constexpr size_t kCallItems = 64;  // of each kind: inputs, ints, floats, outputs
inline constexpr int64_t kExtent = int64_t{1} << 40;
inline constexpr int64_t kSymbol = int64_t{1} << 40;  // a symbol's bounds, offset, divisor
inline constexpr uint32_t kCacheWidth = 65536;        // head sizes, heads, batch rows
inline constexpr uint32_t kCachePositions = uint32_t{1} << 31;
}  // namespace limits

// Parses and verifies a blob: after Ok, every index is in range, every op known
// with the right arity and constant parameters in their ranges, values are
// defined once and before use, only states are written, expressions refer
// backwards, and every extent and byte count is sane for some input. What depends
// on the symbols' values is checked when a graph is built.
//
// Any bytes may be given: those that are no valid program give an error, in time
// and memory proportional to their number. `out` is unspecified after an error.
Status parse_program(std::span<const uint8_t> blob, Program& out);

// The part of parse_program that follows decoding.
Status verify_program(const Program& program);

}  // namespace executorch_ggml
