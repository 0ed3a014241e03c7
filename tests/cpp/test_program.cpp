// The container: what is read from a blob, and what is refused before its meaning
// is looked at (test_verify.cpp does that).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <memory>

#include "runtime/program.h"
#include "tests/cpp/sample_programs.h"

namespace executorch_ggml {
namespace {

namespace fb = flatbuffers;
using testing::BlobOptions;
using testing::write_program;

#define EXPECT_CONTAINS(text, part) EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text)

std::string parse_error(std::span<const uint8_t> blob) {
  Program program;
  const Status status = parse_program(blob, program);
  EXPECT_EQ(status.code(), StatusCode::InvalidProgram) << status.message();
  return status.message();
}

TEST(ParseProgram, ReadsBackWhatWasWritten) {
  for (const Program& program : testing::sample_programs()) {
    const std::vector<uint8_t> blob = write_program(program);
    Program parsed;
    const Status status = parse_program(blob, parsed);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(parsed.opset_version, kOpsetVersion);
    EXPECT_EQ(parsed.producer, program.producer);
    EXPECT_EQ(parsed.program_id, program.program_id);
    // The writer is deterministic, so equal blobs are equal programs.
    EXPECT_EQ(write_program(parsed), blob);
  }
}

TEST(ParseProgram, FillsEveryField) {
  Program p;
  ASSERT_TRUE(parse_program(write_program(testing::decoder_program()), p).ok());
  ASSERT_EQ(p.graphs.size(), 1U);
  const Graph& g = p.graphs[0];
  EXPECT_EQ(g.name, "forward");
  ASSERT_EQ(g.symbols.size(), 2U);
  EXPECT_EQ(g.symbols[1].name, "p");
  EXPECT_EQ(g.symbols[1].max, 4095);
  EXPECT_EQ(g.symbols[1].source, SymbolSource::InputElement);
  EXPECT_EQ(g.symbols[1].input, 1U);
  EXPECT_EQ(g.symbols[1].divisor, 1);
  ASSERT_EQ(g.states.size(), 1U);
  EXPECT_EQ(g.states[0].kind, StateKind::KvCache);
  EXPECT_EQ(g.states[0].value, kAbsent);
  EXPECT_EQ(g.states[0].n_batch, 1U);
  EXPECT_EQ(g.states[0].max_capacity, 4096U);
  ASSERT_EQ(g.weights.size(), 4U);
  EXPECT_EQ(g.values[g.weights[0].value].dtype, kDtypeFromFile);
  EXPECT_EQ(g.weights[0].keys, std::vector<std::string>{"blk.0.attn_q.weight"});
  const auto call = std::find_if(g.calls.begin(), g.calls.end(),
                                 [](const Call& c) { return c.op == Op::UpdateAndAttend; });
  ASSERT_NE(call, g.calls.end());
  EXPECT_EQ(call->inputs.size(), 5U);
  EXPECT_EQ(call->inputs[4], kAbsent);
  EXPECT_EQ(call->floats, (std::vector<double>{0.25, 0.0}));
  EXPECT_NE(call->debug_handle, 0U);
}

TEST(ParseProgram, ForgetsWhatItsResultHeld) {
  Program p;
  ASSERT_TRUE(parse_program(write_program(testing::two_graphs_program()), p).ok());
  ASSERT_EQ(p.graphs.size(), 2U);
  ASSERT_TRUE(parse_program(write_program(testing::linear_program()), p).ok());
  EXPECT_EQ(p.graphs.size(), 1U);
}

TEST(ParseProgram, TakesAnyAlignment) {
  const std::vector<uint8_t> blob = write_program(testing::conv_program());
  for (size_t shift = 0; shift < 16; ++shift) {
    std::vector<uint8_t> memory(blob.size() + shift);
    std::copy(blob.begin(), blob.end(), memory.begin() + static_cast<std::ptrdiff_t>(shift));
    Program p;
    EXPECT_TRUE(parse_program(std::span(memory).subspan(shift), p).ok()) << shift;
  }
}

TEST(ParseProgram, RefusesOtherFiles) {
  EXPECT_EQ(parse_error({}),
            "delegate blob: not an executorch-ggml blob: 0 bytes, fewer than its header of 8");
  std::vector<uint8_t> blob = write_program(testing::linear_program());
  std::memcpy(blob.data() + 4, "XN01", 4);
  EXPECT_EQ(parse_error(blob),
            "delegate blob: not an executorch-ggml blob: it is marked 'XN01', expected 'EGGM'; was "
            "it written by another backend?");
  const std::vector<uint8_t> zeros(1000, 0);
  EXPECT_CONTAINS(parse_error(zeros), "not an executorch-ggml blob");
}

TEST(ParseProgram, RefusesEveryTruncation) {
  const std::vector<uint8_t> blob = write_program(testing::decoder_program());
  for (size_t size = 0; size < blob.size(); ++size) {
    // In memory of its own, so that a read past the end is found.
    const auto copy = std::make_unique<uint8_t[]>(size);
    std::copy_n(blob.begin(), size, copy.get());
    Program p;
    // The last bytes are padding, which nobody misses.
    if (parse_program({copy.get(), size}, p).ok()) {
      ASSERT_GT(size + alignof(uint64_t), blob.size());
      ASSERT_EQ(write_program(p), blob);
    }
  }
}

TEST(ParseProgram, RefusesHugeBlobs) {
  std::vector<uint8_t> blob = write_program(testing::linear_program());
  blob.resize(limits::kBlobBytes + 1);
  EXPECT_EQ(parse_error(blob),
            "delegate blob: 16777217 bytes; a program has at most 16777216 (weights belong into "
            "named data)");
}

TEST(ParseProgram, RefusesANewerOpset) {
  Program p = testing::linear_program();
  p.opset_version = kOpsetVersion + 6;
  p.producer = "executorch-ggml 9.9";
  EXPECT_EQ(parse_error(write_program(p)),
            "delegate blob: it was written by executorch-ggml 9.9 for opset " +
                std::to_string(kOpsetVersion + 6) + ", but this runtime knows opsets up to " +
                std::to_string(kOpsetVersion) +
                "; update executorch-ggml, or export the model with the version installed here");
  p.opset_version = 0;
  EXPECT_CONTAINS(parse_error(write_program(p)), "names no opset version");
}

TEST(ParseProgram, RefusesUnknownFeatures) {
  BlobOptions options;
  options.required_features = (uint64_t{1} << 63) | 5;
  EXPECT_EQ(parse_error(write_program(testing::linear_program(), options)),
            "delegate blob: it was written by program_writer.h and needs features that this "
            "runtime does not have (bits 0, 2, 63); update executorch-ggml, or export the model "
            "with the version installed here");
}

TEST(ParseProgram, RefusesReservedFields) {
  BlobOptions devices;
  devices.devices[{0, 2}] = 1;
  EXPECT_CONTAINS(parse_error(write_program(testing::linear_program(), devices)),
                  "graph 0: value 2 asks for device 1");
  BlobOptions subgraphs;
  subgraphs.subgraphs[{0, 1}] = {0};
  EXPECT_CONTAINS(parse_error(write_program(testing::linear_program(), subgraphs)),
                  "graph 0: call 1: it has 1 subgraphs");
}

TEST(ParseProgram, RefusesNamesThatAreNoText) {
  const auto error_for = [](const std::string& name) {
    Program p = testing::linear_program();
    p.graphs[0].weights[0].keys[1] = name;
    return parse_error(write_program(p));
  };
  const std::string where = "delegate blob: graph 0: weight 0: key 1: ";
  EXPECT_EQ(error_for(std::string(limits::kNameLength + 1, 'k')),
            where + "513 bytes long; at most 512 are supported");
  for (const std::string& name : {std::string("a\nb"), std::string("a\0b", 3), std::string("\x7f"),
                                  std::string("\xff\xfe")}) {
    EXPECT_CONTAINS(error_for(name), where + "'");
    EXPECT_CONTAINS(error_for(name), "is not UTF-8 text");
  }
  Program p = testing::linear_program();
  p.graphs[0].weights[0].keys[1] = "größe.\xE2\x82\xAC";
  EXPECT_TRUE(parse_program(write_program(p), p).ok());
}

TEST(ParseProgram, LimitsItsLists) {
  Program p = testing::linear_program();
  p.graphs[0].weights[0].keys.assign(limits::kKeysPerWeight + 1, "key");
  EXPECT_CONTAINS(parse_error(write_program(p)), "weight 0: 65 keys; at most 64");

  p = testing::linear_program();
  p.graphs[0].inputs[0].sizes.assign(limits::kRank + 1, 0);
  EXPECT_CONTAINS(parse_error(write_program(p)), "input 0: 17 sizes; at most 16");

  p = testing::linear_program();
  p.graphs[0].calls[1].inputs.assign(limits::kCallItems + 1, 0);
  EXPECT_CONTAINS(parse_error(write_program(p)), "call 1: 65 inputs; at most 64");

  p = testing::linear_program();
  p.graphs.assign(limits::kGraphs + 1, Graph{});
  EXPECT_CONTAINS(parse_error(write_program(p)), "4097 graphs; at most 4096");
}

// --- blobs that no writer makes ------------------------------------------------------

// Finishes a program of the given graphs.
std::vector<uint8_t> finish(fb::FlatBufferBuilder& builder,
                            const std::vector<fb::Offset<schema::Graph>>& graphs) {
  const auto list = builder.CreateVector(graphs);
  schema::FinishProgramBuffer(builder,
                              schema::CreateProgram(builder, kOpsetVersion, 0, 0, 0, list));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

// Parses within seconds of processor time, sanitizers included; a quadratic reading
// of these blobs would take minutes.
std::string quick_error(const std::vector<uint8_t>& blob) {
  const std::clock_t begin = std::clock();
  std::string message = parse_error(blob);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 3.0);
  return message;
}

TEST(ForgedBlob, WithEveryWeightSharingOneLongListOfKeys) {
  constexpr size_t kCount = 200'000;
  fb::FlatBufferBuilder builder;
  const std::vector<fb::Offset<fb::String>> keys(kCount, builder.CreateString("key"));
  const auto weight = schema::CreateWeight(builder, 0, builder.CreateVector(keys));
  const auto weights =
      builder.CreateVector(std::vector<fb::Offset<schema::Weight>>(kCount, weight));
  schema::GraphBuilder graph(builder);
  graph.add_weights(weights);
  EXPECT_CONTAINS(quick_error(finish(builder, {graph.Finish()})), "malformed");
}

TEST(ForgedBlob, WithEveryGraphSharingOneLongListOfCalls) {
  fb::FlatBufferBuilder builder;
  const auto call = schema::CreateCall(builder, static_cast<uint16_t>(Op::Cont));
  const auto calls = builder.CreateVector(std::vector<fb::Offset<schema::Call>>(200'000, call));
  schema::GraphBuilder graph(builder);
  graph.add_calls(calls);
  const std::vector<fb::Offset<schema::Graph>> graphs(4000, graph.Finish());
  EXPECT_CONTAINS(quick_error(finish(builder, graphs)), "malformed");
}

TEST(ForgedBlob, WithEveryGraphSharingOneLongListOfExpressions) {
  fb::FlatBufferBuilder builder;
  const std::vector<schema::Expr> exprs(50'000, schema::Expr(1, 0, 0, schema::ExprOp::Const));
  const auto list = builder.CreateVectorOfStructs(exprs);
  schema::GraphBuilder graph(builder);
  graph.add_exprs(list);
  const std::vector<fb::Offset<schema::Graph>> graphs(4000, graph.Finish());
  EXPECT_CONTAINS(quick_error(finish(builder, graphs)), "overlap");
}

TEST(ForgedBlob, WithEveryCallSharingOneLongName) {
  fb::FlatBufferBuilder builder;
  const auto name = builder.CreateString(std::string(limits::kNameLength, 'n'));
  const auto state = schema::CreateState(builder, schema::StateKind::Buffer, name, 0, name);
  const auto states = builder.CreateVector(std::vector<fb::Offset<schema::State>>(200'000, state));
  schema::GraphBuilder graph(builder);
  graph.add_states(states);
  const std::vector<fb::Offset<schema::Graph>> graphs(1, graph.Finish());
  EXPECT_CONTAINS(quick_error(finish(builder, graphs)), "malformed");
}

TEST(ForgedBlob, WithoutGraphs) {
  fb::FlatBufferBuilder builder;
  EXPECT_CONTAINS(parse_error(finish(builder, {})), "has no graph");
}

TEST(ForgedBlob, WithoutARequiredName) {
  // Built field by field: the writer's own check is for debug builds.
  fb::FlatBufferBuilder builder;
  const auto start = builder.StartTable();
  builder.AddElement<int64_t>(schema::Symbol::VT_MAX, 5, 0);
  const fb::Offset<schema::Symbol> symbol(builder.EndTable(start));
  const auto symbols = builder.CreateVector(std::vector<fb::Offset<schema::Symbol>>{symbol});
  schema::GraphBuilder graph(builder);
  graph.add_symbols(symbols);
  EXPECT_CONTAINS(parse_error(finish(builder, {graph.Finish()})), "malformed");
}

// FlatBuffers' verifier looks at the alignment of a vector's length only, but
// reading 8-byte fields needs more.
TEST(ForgedBlob, WithMisalignedStructs) {
  std::vector<uint8_t> blob = write_program(testing::linear_program());
  const auto* const program = schema::GetProgram(blob.data());
  const auto* const exprs = program->graphs()->Get(0)->exprs();
  const auto offset = static_cast<size_t>(reinterpret_cast<const uint8_t*>(exprs) - blob.data());
  // Drop the last expression and move the rest by four bytes.
  const size_t bytes = sizeof(uint32_t) + exprs->size() * sizeof(schema::Expr);
  const uint32_t fewer = exprs->size() - 1;
  std::memmove(blob.data() + offset + 4, blob.data() + offset, bytes - 4);
  std::memcpy(blob.data() + offset + 4, &fewer, sizeof(fewer));
  // Point the graph's field there.
  const auto* const graph = reinterpret_cast<const fb::Table*>(program->graphs()->Get(0));
  const uint8_t* const field = graph->GetAddressOf(schema::Graph::VT_EXPRS);
  uint8_t* const at = blob.data() + (field - blob.data());
  uint32_t relative = 0;
  std::memcpy(&relative, at, sizeof(relative));
  relative += 4;
  std::memcpy(at, &relative, sizeof(relative));
  EXPECT_CONTAINS(parse_error(blob), "graph 0: expressions: a list of 8-byte items is misaligned");
}

}  // namespace
}  // namespace executorch_ggml
