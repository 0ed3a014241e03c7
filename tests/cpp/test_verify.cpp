// One case per rule: a valid program, one fault, and the text that must name it.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <ostream>

#include "runtime/program.h"
#include "tests/cpp/sample_programs.h"

namespace executorch_ggml {
namespace {

using testing::conv_program;
using testing::decoder_program;
using testing::linear_program;
using testing::stateful_program;
using testing::two_graphs_program;

TEST(VerifyProgram, TakesTheSamples) {
  for (const Program& program : testing::sample_programs()) {
    const Status status = verify_program(program);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

struct Case {
  const char* name;
  Program (*valid)();
  std::function<void(Graph&)> damage;  // of the first graph
  const char* message;                 // a part of the error's text
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

ExprId add_expr(Graph& g, Expr e) {
  g.exprs.push_back(e);
  return static_cast<ExprId>(g.exprs.size() - 1);
}
ExprId number(Graph& g, int64_t value) { return add_expr(g, {ExprOp::Const, 0, 0, value}); }

Call& call_of(Graph& g, Op op) {
  for (Call& call : g.calls) {
    if (call.op == op) {
      return call;
    }
  }
  ADD_FAILURE() << "no such call";
  return g.calls.at(0);
}

// Replaces integer parameter i of the first call of an op.
std::function<void(Graph&)> with_int(Op op, size_t i, int64_t value) {
  return [=](Graph& g) { call_of(g, op).ints.at(i) = number(g, value); };
}
std::function<void(Graph&)> with_float(Op op, size_t i, double value) {
  return [=](Graph& g) { call_of(g, op).floats.at(i) = value; };
}
std::function<void(Graph&)> with_extent(ValueId value, size_t i, int64_t extent) {
  return [=](Graph& g) { g.values.at(value).ne.at(i) = number(g, extent); };
}

constexpr uint32_t kU32Max = std::numeric_limits<uint32_t>::max();
constexpr int64_t kTooLong = limits::kExtent + 1;

const Case kCases[] = {
    // --- symbols ---------------------------------------------------------------
    {"SymbolWithoutName", linear_program, [](Graph& g) { g.symbols[0].name.clear(); },
     "symbol 0: it has no name"},
    {"SymbolTwice", two_graphs_program, [](Graph& g) { g.symbols[1].name = g.symbols[0].name; },
     "symbol 1: 'a' is the name of another symbol too"},
    {"SymbolBoundsSwapped", linear_program, [](Graph& g) { g.symbols[0].min = 65; },
     "symbol 0: 'n' has bounds 65 to 64, lower above upper"},
    {"SymbolUnbounded", linear_program,
     [](Graph& g) { g.symbols[0].max = std::numeric_limits<int64_t>::max(); },
     "'n' has bounds 1 to 9223372036854775807, beyond 2^40"},
    {"SymbolDivisorZero", linear_program, [](Graph& g) { g.symbols[0].divisor = 0; },
     "'n' has divisor 0"},
    {"SymbolDivisorNegative", linear_program, [](Graph& g) { g.symbols[0].divisor = -1; },
     "'n' has divisor -1"},
    {"SymbolOffsetHuge", linear_program, [](Graph& g) { g.symbols[0].offset = kTooLong; },
     "'n' has offset 1099511627777"},
    {"SymbolSourceUnknown", linear_program,
     [](Graph& g) { g.symbols[0].source = static_cast<SymbolSource>(7); },
     "'n' has the unknown source 7"},
    {"SymbolInputOutOfRange", linear_program, [](Graph& g) { g.symbols[0].input = 1; },
     "'n' is read from input 1, but the graph has 1 inputs"},
    {"SymbolDimOutOfRange", linear_program, [](Graph& g) { g.symbols[0].index = 2; },
     "'n' is dimension 2 of input 0, which has 2 dimensions"},
    {"SymbolElementOutOfRange", decoder_program, [](Graph& g) { g.symbols[1].index = 32; },
     "'p' is element 32 of input 1, which has at most 32 elements"},
    {"SymbolElementOfFloats", decoder_program, [](Graph& g) { g.symbols[1].input = 0; },
     "'p' is an element of input 0, which is Float; only integer inputs give symbols"},

    // --- expressions --------------------------------------------------------------
    {"ExprOpUnknown", linear_program,
     [](Graph& g) { add_expr(g, {static_cast<ExprOp>(9), 0, 0, 0}); },
     "has the unknown operation 9"},
    {"ExprForward", linear_program,
     [](Graph& g) { add_expr(g, {ExprOp::Add, 0, static_cast<ExprId>(g.exprs.size() + 1), 0}); },
     "both must be earlier expressions"},
    {"ExprSelf", linear_program,
     [](Graph& g) { add_expr(g, {ExprOp::Add, static_cast<ExprId>(g.exprs.size()), 0, 0}); },
     "both must be earlier expressions"},
    {"ExprSymbolOutOfRange", linear_program,
     [](Graph& g) { add_expr(g, {ExprOp::Symbol, 1, 0, 0}); },
     "reads symbol 1, but there are 1 symbols"},
    {"ExprDivisionByZero", linear_program,
     [](Graph& g) { add_expr(g, {ExprOp::FloorDiv, 0, number(g, 0), 0}); },
     "it always divides by zero"},
    {"ExprModuloZero", linear_program,
     [](Graph& g) { add_expr(g, {ExprOp::Mod, 0, number(g, 0), 0}); }, "it always divides by zero"},

    // --- values ----------------------------------------------------------------
    {"ValueExtentOutOfRange", linear_program, [](Graph& g) { g.values[1].ne[2] = 999; },
     "value 1: extent 2: it refers to expression 999"},
    {"ValueExtentAbsent", linear_program, [](Graph& g) { g.values[1].ne[3] = kAbsent; },
     "value 1: extent 3: it refers to expression 4294967295"},
    {"ValueExtentNegative", linear_program, with_extent(2, 0, -3),
     "value 2: extent 0: it is -3, a negative number"},
    {"ValueExtentHuge", linear_program, with_extent(2, 1, kTooLong),
     "value 2: extent 1: it is 1099511627777, more than the limit of 2^40"},
    {"ValueExtentAlwaysHuge", linear_program,
     [](Graph& g) { g.values[3].ne[2] = add_expr(g, {ExprOp::Add, 0, number(g, kTooLong), 0}); },
     "value 3: extent 2: it is 1099511627778 at least, more than the limit of 2^40"},
    {"ValueExtentAlwaysNegative", linear_program,
     [](Graph& g) { g.values[3].ne[2] = add_expr(g, {ExprOp::Sub, 0, number(g, 65), 0}); },
     "value 3: extent 2: it is -1 at most, a negative number"},
    {"ValueTooManyBytes", linear_program,
     [](Graph& g) {
       const ExprId huge = number(g, limits::kExtent);
       g.values[2].ne = {huge, huge, 0, 0};
     },
     "value 2: 1099511627776 x 1099511627776 x 1 x 1 elements or more do not fit"},
    {"ValueTooManyBytesBesidesZero", linear_program,
     [](Graph& g) {
       const ExprId huge = number(g, limits::kExtent);
       g.values[2].ne = {huge, huge, huge, number(g, 0)};
     },
     "elements or more do not fit 64 bits of memory"},
    {"ValueTypeUnknown", linear_program, [](Graph& g) { g.values[0].dtype = 200; },
     "value 0: type 200 is not an element type"},
    {"ValueTypeRemoved", linear_program, [](Graph& g) { g.values[0].dtype = 4; },
     "value 0: type 4 is not an element type"},
    {"ValueTypeOfActivations", linear_program, [](Graph& g) { g.values[1].dtype = 9; },
     "value 1: type 9 is not an element type"},
    {"ValueBlockSplit", linear_program, with_extent(1, 0, 33),
     "value 1: a row of 33 elements is no multiple of Q8_0's block of 32"},
    {"ValueUndefined", linear_program, [](Graph& g) { g.values.push_back(g.values[0]); },
     "value 6 is defined by no input, weight, state or call"},
    {"ValueFromFileThatIsAResult", linear_program,
     [](Graph& g) { g.values[4].dtype = kDtypeFromFile; },
     "call 1 (mul_mat): result: value 4 takes its type from a file, which only a weight or a "
     "rearranged one can"},
    {"ValueFromFileThatIsRearrangedFromNone", decoder_program,
     [](Graph& g) { g.values[call_of(g, Op::Reshape).outputs[0]].dtype = kDtypeFromFile; },
     "(reshape): result: value 4 takes its type from a file"},
    {"ValueFromFileThatIsAState", stateful_program,
     [](Graph& g) { g.values[2].dtype = kDtypeFromFile; }, "value 2 takes its type from a file"},

    // --- arguments ------------------------------------------------------------
    {"InputValueOutOfRange", linear_program, [](Graph& g) { g.inputs[0].value = 6; },
     "input 0: it refers to value 6, but the graph has 6 values"},
    {"InputTwice", linear_program, [](Graph& g) { g.inputs.push_back(g.inputs[0]); },
     "input 1: it defines value 0 a second time"},
    {"InputScalarTypeUnknown", linear_program, [](Graph& g) { g.inputs[0].scalar_type = 99; },
     "input 0: scalar type 99 cannot be passed"},
    {"InputScalarTypeNegative", linear_program, [](Graph& g) { g.inputs[0].scalar_type = -1; },
     "input 0: scalar type -1 cannot be passed"},
    {"InputScalarTypeComplex", linear_program, [](Graph& g) { g.inputs[0].scalar_type = 9; },
     "input 0: scalar type 9 cannot be passed"},
    {"InputScalarTypeOfOtherKind", linear_program,
     [](Graph& g) { g.inputs[0].scalar_type = testing::kLong; },
     "input 0: Long is I32 inside a program, but value 0 is F32"},
    {"InputFromFile", linear_program, [](Graph& g) { g.values[0].dtype = kDtypeFromFile; },
     "input 0: Float is F32 inside a program, but value 0 is type 255"},
    {"InputSizeOutOfRange", linear_program, [](Graph& g) { g.inputs[0].sizes[1] = 777; },
     "input 0: size 1: it refers to expression 777"},
    {"InputSizeNegative", linear_program, [](Graph& g) { g.inputs[0].sizes[1] = number(g, -1); },
     "input 0: size 1: it is -1"},
    {"InputRank", linear_program, [](Graph& g) { g.inputs[0].sizes.assign(limits::kRank + 1, 0); },
     "input 0: 17 dimensions; at most 16"},
    {"InputSizesDiffer", conv_program, [](Graph& g) { g.inputs[0].sizes[0] = number(g, 2); },
     "input 0: its sizes give 6144 elements, but value 0 has 3072"},
    {"InputSizesOverflow", linear_program,
     [](Graph& g) { g.inputs[0].sizes.assign(4, number(g, limits::kExtent)); },
     "input 0: its sizes multiply to more than 64 bits"},
    {"InputDimOrderShort", conv_program, [](Graph& g) { g.inputs[0].dim_order.pop_back(); },
     "input 0: its dimension order has 3 entries for 4 dimensions"},
    {"InputDimOrderTwice", conv_program, [](Graph& g) { g.inputs[0].dim_order[1] = 0; },
     "its dimension order is no permutation: 0 is there twice"},
    {"InputDimOrderLarge", conv_program, [](Graph& g) { g.inputs[0].dim_order[1] = 200; },
     "its dimension order is no permutation: 200 is too large"},
    {"OutputValueOutOfRange", linear_program, [](Graph& g) { g.outputs[0].value = kAbsent; },
     "output 0: it refers to value 4294967295"},
    {"OutputNeverComputed", linear_program,
     [](Graph& g) {
       g.values.push_back(g.values[5]);
       g.outputs[0].value = 6;
     },
     "output 0: value 6 is never computed"},
    {"OutputOfOtherKind", linear_program,
     [](Graph& g) { g.outputs[0].scalar_type = testing::kBool; },
     "output 0: Bool is I32 inside a program, but value 5 is F32"},

    // --- weights and states -------------------------------------------------------
    {"WeightWithoutKeys", linear_program, [](Graph& g) { g.weights[0].keys.clear(); },
     "weight 0: it has no key"},
    {"WeightWithEmptyKey", linear_program, [](Graph& g) { g.weights[1].keys[0].clear(); },
     "weight 1: it has an empty key"},
    {"WeightWithLongKey", linear_program,
     [](Graph& g) { g.weights[1].keys[0].assign(limits::kNameLength + 1, 'k'); },
     "weight 1: its key is 513 bytes long"},
    {"WeightValueOutOfRange", linear_program, [](Graph& g) { g.weights[0].value = 100; },
     "weight 0: it refers to value 100"},
    {"WeightTwice", linear_program, [](Graph& g) { g.weights[1].value = 1; },
     "weight 1: it defines value 1 a second time"},
    {"WeightOfSymbolicExtents", linear_program, [](Graph& g) { g.values[2].ne[1] = 0; },
     "weight 1: 'linear.bias' has extents that depend on symbols"},
    {"StateWithoutName", stateful_program, [](Graph& g) { g.states[0].name.clear(); },
     "state 0: it has an empty name"},
    {"StateTwice", stateful_program, [](Graph& g) { g.states[1].name = g.states[0].name; },
     "state 1: 'rows' is the name of another state too"},
    {"StateKindUnknown", stateful_program,
     [](Graph& g) { g.states[0].kind = static_cast<StateKind>(2); },
     "state 0: 'rows' is of the unknown kind 2"},
    {"StateBufferWithoutValue", stateful_program, [](Graph& g) { g.states[0].value = kAbsent; },
     "state 0: 'rows': it refers to value 4294967295"},
    {"StateOfSymbolicExtents", stateful_program, [](Graph& g) { g.values[3].ne[1] = 0; },
     "state 1: 'last': it has extents that depend on symbols"},
    {"CacheWithValue", decoder_program, [](Graph& g) { g.states[0].value = 0; },
     "state 0: 'layers.0': a cache has no value of its own, but it names value 0"},
    {"CacheWithContent", decoder_program,
     [](Graph& g) { g.states[0].init_key = std::string("kv"); },
     "a cache begins empty, but it names 'kv'"},
    {"CacheOfHeadSizeZero", decoder_program, [](Graph& g) { g.states[0].k_head_dim = 0; },
     "k_head_dim is 0, outside of 1 to 65536"},
    {"CacheOfHugeHeads", decoder_program, [](Graph& g) { g.states[0].v_head_dim = 65537; },
     "v_head_dim is 65537, outside of 1 to 65536"},
    {"CacheOfManyHeads", decoder_program, [](Graph& g) { g.states[0].n_kv_heads = kU32Max; },
     "n_kv_heads is 4294967295, outside of 1 to 65536"},
    {"CacheOfNoBatch", decoder_program, [](Graph& g) { g.states[0].n_batch = 0; },
     "n_batch is 0, outside of 1 to 65536"},
    {"CacheOfHugeCapacity", decoder_program, [](Graph& g) { g.states[0].max_capacity = kU32Max; },
     "max_capacity is 4294967295, outside of 1 to 2147483648"},
    {"CacheOfNoCapacity", decoder_program, [](Graph& g) { g.states[0].default_capacity = 0; },
     "default_capacity is 0, outside of 1 to 4096"},
    {"CacheOfMoreThanItsMost", decoder_program,
     [](Graph& g) { g.states[0].default_capacity = 4097; },
     "default_capacity is 4097, outside of 1 to 4096"},
    {"CacheOfHugeWindow", decoder_program, [](Graph& g) { g.states[0].window = kU32Max; },
     "window is 4294967295, more than 2147483648"},
    {"CacheOfTooManyBytes", decoder_program,
     [](Graph& g) {
       State& s = g.states[0];
       s.k_head_dim = s.v_head_dim = s.n_kv_heads = s.n_batch = limits::kCacheWidth;
       s.max_capacity = limits::kCachePositions;
     },
     "do not fit 64 bits of memory"},

    // --- calls ----------------------------------------------------------------
    {"CallOpUnknown", linear_program, [](Graph& g) { g.calls[1].op = static_cast<Op>(9999); },
     "call 1 (unknown op): op 9999 is not in opset"},
    {"CallOpZero", linear_program, [](Graph& g) { g.calls[1].op = static_cast<Op>(0); },
     "call 1 (unknown op): op 0 is not in opset"},
    {"CallTooFewOperands", linear_program, [](Graph& g) { g.calls[1].inputs.pop_back(); },
     "call 1 (mul_mat): 1 operands, expected 2 to 2"},
    {"CallTooManyOperands", decoder_program,
     [](Graph& g) { call_of(g, Op::UpdateAndAttend).inputs.assign(8, 0); },
     "(update_and_attend): 8 operands, expected 4 to 7"},
    {"CallOperandOutOfRange", linear_program, [](Graph& g) { g.calls[1].inputs[0] = 77; },
     "call 1 (mul_mat): operand 'w': it refers to value 77, but the graph has 6 values"},
    {"CallOperandAbsent", linear_program, [](Graph& g) { g.calls[1].inputs[1] = kAbsent; },
     "call 1 (mul_mat): operand 'x' is absent"},
    {"CallOperandLater", linear_program, [](Graph& g) { g.calls[1].inputs[1] = 5; },
     "call 1 (mul_mat): operand 'x' is value 5, which is not defined before"},
    {"CallOperandItself", linear_program, [](Graph& g) { g.calls[1].inputs[1] = 4; },
     "call 1 (mul_mat): operand 'x' is value 4, which is not defined before"},
    {"CallsSwapped", linear_program, [](Graph& g) { std::swap(g.calls[1], g.calls[2]); },
     "call 1 (add): operand 'a' is value 4, which is not defined before"},
    {"CallTooFewInts", linear_program, [](Graph& g) { g.calls[0].ints.pop_back(); },
     "call 0 (pad): 7 integer parameters, expected 8"},
    {"CallIntOutOfRange", linear_program, [](Graph& g) { g.calls[0].ints[2] = 1000; },
     "call 0 (pad): parameter 'before1': it refers to expression 1000"},
    {"CallDimOutOfRange", decoder_program,
     [](Graph& g) { call_of(g, Op::Reshape).ints[3] = kAbsent; },
     "(reshape): parameter 'ne3': it refers to expression 4294967295"},
    {"CallIntNotConstant", linear_program, [](Graph& g) { g.calls[0].ints[1] = 0; },
     "call 0 (pad): parameter 'after0' must be a constant, but is expression 0"},
    {"CallIntNegative", linear_program, with_int(Op::Pad, 1, -1),
     "call 0 (pad): parameter 'after0' is -1, outside of 0 to 2147483647"},
    {"CallIntHuge", decoder_program, with_int(Op::Rope, 2, int64_t{1} << 31),
     "(rope): parameter 'original_context' is 2147483648"},
    {"CallBool", decoder_program, with_int(Op::UpdateAndAttend, 1, 2),
     "(update_and_attend): parameter 'causal' is 2, outside of 0 to 1"},
    {"CallTooManyFloats", linear_program, [](Graph& g) { g.calls[1].floats.push_back(1.0); },
     "call 1 (mul_mat): 1 float parameters, expected 0"},
    {"CallFloatNaN", decoder_program,
     with_float(Op::UpdateAndAttend, 0, std::numeric_limits<double>::quiet_NaN()),
     "(update_and_attend): parameter 'scale' is nan, not a 32-bit float"},
    {"CallFloatHuge", conv_program, with_float(Op::Clamp, 0, -1e39),
     "(clamp): parameter 'min' is -1e+39, not a 32-bit float"},
    {"CallWithoutResult", linear_program, [](Graph& g) { g.calls[2].outputs.clear(); },
     "call 2 (add): 0 results, expected 1"},
    {"CallResultOutOfRange", linear_program, [](Graph& g) { g.calls[2].outputs[0] = kAbsent; },
     "call 2 (add): result: it refers to value 4294967295"},
    {"CallResultTwice", linear_program, [](Graph& g) { g.calls[2].outputs[0] = 4; },
     "call 2 (add): result: it defines value 4 a second time"},
    {"CallResultIsInput", linear_program, [](Graph& g) { g.calls[2].outputs[0] = 0; },
     "call 2 (add): result: it defines value 0 a second time"},

    // --- single ops ------------------------------------------------------------
    {"UnaryUnknown", conv_program, with_int(Op::Unary, 0, 21),
     "(unary): parameter 'kind' is 21, which the opset does not list"},
    {"PoolUnknown", conv_program, with_int(Op::Pool2d, 0, 2),
     "(pool_2d): parameter 'kind' is 2, which the opset does not list"},
    {"UnaryNegative", conv_program, with_int(Op::Unary, 0, -1),
     "(unary): parameter 'kind' is -1, which the opset does not list"},
    {"UnaryOfAByteMore", conv_program, with_int(Op::Unary, 0, 256),
     "(unary): parameter 'kind' is 256, which the opset does not list"},
    {"PoolOfNothing", conv_program, with_int(Op::Pool2d, 1, 0),
     "(pool_2d): parameter 'kernel0' is 0, outside of 1 to"},
    {"ConvStrideZero", conv_program, with_int(Op::Conv2d, 1, 0),
     "(conv_2d): parameter 'stride1' is 0, outside of 1 to"},
    {"ConvPaddingNegative", conv_program, with_int(Op::Conv2d, 2, -1),
     "(conv_2d): parameter 'padding0' is -1, outside of 0 to"},
    {"PermuteAxisTwice", conv_program, with_int(Op::Permute, 0, 2),
     "(permute): axes 2, 2, 0, 3 are no permutation of 0 to 3"},
    {"PermuteAxisOutOfRange", conv_program, with_int(Op::Permute, 0, 64),
     "(permute): parameter 'axis0' is 64, outside of 0 to 3"},
    {"RopeOddDims", decoder_program, with_int(Op::Rope, 0, 15),
     "(rope): parameter 'n_dims' is 15, an odd number"},
    {"RopeModeUnknown", decoder_program, with_int(Op::Rope, 1, 1),
     "(rope): parameter 'mode' is 1, which the opset does not list"},
    {"CastToBlocks", linear_program,
     [](Graph& g) {
       g.calls[1].op = Op::Cast;
       g.calls[1].inputs.pop_back();
       g.calls[1].ints = {number(g, 8)};
     },
     "call 1 (cast): parameter 'dtype' is 8, not a plain element type"},
    {"CastToUnknown", linear_program,
     [](Graph& g) {
       g.calls[1].op = Op::Cast;
       g.calls[1].inputs.pop_back();
       g.calls[1].ints = {number(g, 255)};
     },
     "call 1 (cast): parameter 'dtype' is 255, not a plain element type"},
    {"WriteToInput", stateful_program, [](Graph& g) { call_of(g, Op::SetRows).inputs[0] = 0; },
     "call 0 (set_rows): it writes to value 0, which is no state"},
    {"WriteToViewOfInput", stateful_program, [](Graph& g) { call_of(g, Op::Assign).inputs[0] = 5; },
     "call 2 (assign): it writes to value 5, which is no state"},
    {"AttendToUnknownState", decoder_program, with_int(Op::UpdateAndAttend, 0, 1),
     "(update_and_attend): parameter 'state' is 1, but the graph has 1 states"},
    {"AttendToNegativeState", decoder_program, with_int(Op::UpdateAndAttend, 0, -1),
     "(update_and_attend): parameter 'state' is -1, but the graph has 1 states"},
    {"AttendToBuffer", decoder_program,
     [](Graph& g) {
       g.states.push_back({StateKind::Buffer, "b", 0, "", 0, 0, 0, 1, 0, 0, 0});
       g.states[1].value = static_cast<ValueId>(g.values.size());
       g.values.push_back(g.values[g.weights[0].value]);
       g.values.back().dtype = testing::kF32;
       call_of(g, Op::UpdateAndAttend).ints[0] = number(g, 1);
     },
     "(update_and_attend): state 1 ('b') is no KV cache"},
    {"AttendToOtherHeads", decoder_program, [](Graph& g) { g.states[0].n_kv_heads = 4; },
     "(update_and_attend): extent 1 of operand 'k' is 2, but state 'layers.0' holds 4"},
    {"AttendAtComputedPositions", decoder_program,
     [](Graph& g) { call_of(g, Op::UpdateAndAttend).inputs[3] = g.calls[0].outputs[0]; },
     "(update_and_attend): operand 'positions' (value 3) is no input of the graph"},
    {"AttendInComputedSequences", decoder_program,
     [](Graph& g) {
       Call& call = call_of(g, Op::UpdateAndAttend);
       call.inputs.resize(7, kAbsent);
       call.inputs[6] = g.calls[0].outputs[0];
     },
     "(update_and_attend): operand 'sequences' (value 3) is no input of the graph"},
};

class VerifyProgramRefuses : public ::testing::TestWithParam<Case> {};

TEST_P(VerifyProgramRefuses, And) {
  const Case& c = GetParam();
  Program program = c.valid();
  ASSERT_TRUE(verify_program(program).ok());
  c.damage(program.graphs[0]);

  const Status status = verify_program(program);
  EXPECT_EQ(status.code(), StatusCode::InvalidProgram);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, c.message, status.message());
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "graph 0 ('" + program.graphs[0].name + "'): ", status.message());

  // Through the blob too: the decoder may refuse it first, in its own words.
  Program parsed;
  EXPECT_EQ(parse_program(testing::write_program(program), parsed).code(),
            StatusCode::InvalidProgram);
}

std::string case_name(const ::testing::TestParamInfo<Case>& tested) { return tested.param.name; }

INSTANTIATE_TEST_SUITE_P(Says, VerifyProgramRefuses, ::testing::ValuesIn(kCases), case_name);

TEST(VerifyProgram, NamesTheGraph) {
  Program program = two_graphs_program();
  program.graphs[1].outputs[0].value = 9;
  EXPECT_EQ(verify_program(program).message(),
            "graph 1 ('branch'): output 0: it refers to value 9, but the graph has 1 values");
}

TEST(VerifyProgram, RefusesAProgramOfNothing) {
  EXPECT_EQ(verify_program(Program{}).message(), "the program has no graph");
}

TEST(VerifyProgram, TakesAnEmptyTensor) {
  Program program = linear_program();
  program.graphs[0].values[2].ne[1] = number(program.graphs[0], 0);
  EXPECT_TRUE(verify_program(program).ok());
}

TEST(VerifyProgram, TakesRearrangedWeightsOfTheFilesType) {
  testing::GraphWriter g;
  const ValueId w = g.weight({kDtypeFromFile, {8, 4}}, {"w"});
  const ValueId turned = g.call(Op::Permute, {w}, {kDtypeFromFile, {4, 8}}, {1, 0, 2, 3});
  const ValueId copied = g.call(Op::Cont, {turned}, {kDtypeFromFile, {4, 8}});
  const ValueId x = g.input(testing::f32({4, 1}));
  g.output(g.call(Op::MulMat, {copied, x}, testing::f32({8, 1})));
  const Status status = verify_program(g.program());
  EXPECT_TRUE(status.ok()) << status.message();
}

// As of a dim that was exported without a maximum; what fits is known per call.
TEST(VerifyProgram, TakesBoundsThatNoMachineHolds) {
  Program program = linear_program();
  Graph& g = program.graphs[0];
  g.symbols[0].max = limits::kSymbol;
  const ExprId square = add_expr(g, {ExprOp::Mul, 0, 0, 0});
  g.values[5].ne = {square, square, square, square};
  const Status status = verify_program(program);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(VerifyProgram, TakesAGraphWithoutCalls) {
  testing::GraphWriter g;
  g.output(g.input(testing::f32({3})));
  EXPECT_TRUE(verify_program(g.program()).ok());
}

TEST(VerifyProgram, TakesOptionalOperandsLeftOut) {
  Program program = decoder_program();
  Call& call = call_of(program.graphs[0], Op::UpdateAndAttend);
  call.inputs.resize(4);
  EXPECT_TRUE(verify_program(program).ok());
  call.inputs.resize(7, kAbsent);
  EXPECT_TRUE(verify_program(program).ok());
}

TEST(VerifyProgram, TakesWritesThroughViewsOfAState) {
  Program program = stateful_program();
  Graph& g = program.graphs[0];
  // assign(reshape(last), row)
  const Value last = g.values[3];
  g.values.push_back(last);
  const auto reshaped = static_cast<ValueId>(g.values.size() - 1);
  Call reshape{Op::Reshape, {3}, {last.ne.begin(), last.ne.end()}, {}, {reshaped}, 0};
  g.calls.insert(g.calls.begin(), reshape);
  call_of(g, Op::Assign).inputs[0] = reshaped;
  const Status status = verify_program(program);
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace executorch_ggml
