#include "runtime/program.h"

#include <cinttypes>
#include <cstring>
#include <new>
#include <string_view>

#include "runtime/gguf_types.h"
#include "schema_generated.h"

namespace executorch_ggml {
namespace {

// Bits of Program.required_features that this reader knows: none yet.
constexpr uint64_t kKnownFeatures = 0;

// What a reader of structs and tables must be able to rely on.
constexpr size_t kBlobAlignment = alignof(uint64_t);

constexpr const char* kExportAgain = "the file is damaged or forged; export the model again";

Status damaged(const char* what) {
  return make_error(StatusCode::InvalidProgram, "%s; %s", what, kExportAgain);
}

// Counts the memory that a blob's decoded form takes. The writer stores equal
// lists and strings once, so this may exceed the blob's size; but offsets may
// point anywhere, and a forged blob can make every table share long lists. A
// table of 24 bytes whose name is the longest one is the most an honest blob asks.
class Budget {
 public:
  explicit Budget(size_t blob_size) : left_(32 * blob_size + size_t{64} * 1024) {}

  Status take(size_t count, size_t bytes_each) {
    if (count > left_ / bytes_each) {
      return damaged("its parts overlap: together they are much larger than the blob");
    }
    left_ -= count * bytes_each;
    return {};
  }

 private:
  size_t left_;
};

// FlatBuffers' verifier visits every key of every weight, which takes quadratic
// time when weights share one list of keys. This walk looks at the lengths only.
// False: there are too many, or the blob is malformed on the way.
bool key_lists_fit(const uint8_t* data, size_t size,
                   const flatbuffers::Verifier::Options& options) {
  using flatbuffers::Table;
  using Tables = flatbuffers::Vector<flatbuffers::Offset<Table>>;
  using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

  flatbuffers::Verifier verifier(data, size, options);
  size_t keys_left = size / sizeof(flatbuffers::uoffset_t);
  const auto root = verifier.VerifyOffset<flatbuffers::uoffset_t>(0);
  if (root == 0) {
    return false;
  }
  const auto* const program = reinterpret_cast<const Table*>(data + root);
  if (!program->VerifyTableStart(verifier) ||
      !program->VerifyOffset(verifier, schema::Program::VT_GRAPHS)) {
    return false;
  }
  const auto* const graphs = program->GetPointer<const Tables*>(schema::Program::VT_GRAPHS);
  if (!verifier.VerifyVector(graphs)) {
    return false;
  }
  const flatbuffers::uoffset_t n_graphs = graphs == nullptr ? 0 : graphs->size();
  for (flatbuffers::uoffset_t g = 0; g < n_graphs; ++g) {
    const Table* const graph = graphs->Get(g);
    if (!graph->VerifyTableStart(verifier) ||
        !graph->VerifyOffset(verifier, schema::Graph::VT_WEIGHTS)) {
      return false;
    }
    const auto* const weights = graph->GetPointer<const Tables*>(schema::Graph::VT_WEIGHTS);
    if (!verifier.VerifyVector(weights)) {
      return false;
    }
    const flatbuffers::uoffset_t n_weights = weights == nullptr ? 0 : weights->size();
    for (flatbuffers::uoffset_t w = 0; w < n_weights; ++w) {
      const Table* const weight = weights->Get(w);
      if (!weight->VerifyTableStart(verifier) ||
          !weight->VerifyOffset(verifier, schema::Weight::VT_KEYS)) {
        return false;
      }
      const auto* const keys = weight->GetPointer<const Strings*>(schema::Weight::VT_KEYS);
      if (!verifier.VerifyVector(keys)) {
        return false;
      }
      const size_t n_keys = keys == nullptr ? 0 : keys->size();
      if (n_keys > keys_left) {
        return false;
      }
      keys_left -= n_keys;
      verifier.EndTable();
    }
    verifier.EndTable();
  }
  return true;
}

Status verify_structure(const uint8_t* data, size_t size) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 8;  // Program, Graph, Weight: 3
  // A table takes an offset where it is referred to and one where it begins.
  options.max_tables =
      static_cast<flatbuffers::uoffset_t>(size / (2 * sizeof(flatbuffers::uoffset_t)) + 1);
  if (!key_lists_fit(data, size, options)) {
    return damaged("its tables are malformed");
  }
  flatbuffers::Verifier verifier(data, size, options);
  if (!schema::VerifyProgramBuffer(verifier)) {
    return damaged("its tables are malformed or reach past its end");
  }
  return {};
}

// Vectors of structs and doubles: FlatBuffers' verifier checks the alignment of
// their length only.
template <typename T>
Status check_alignment(const flatbuffers::Vector<T>* vector) {
  if (vector != nullptr && vector->size() != 0 &&
      reinterpret_cast<uintptr_t>(vector->Data()) % kBlobAlignment != 0) {
    return damaged("a list of 8-byte items is misaligned");
  }
  return {};
}

// Reads tables that were verified into structs; checks sizes, not meaning.
class Decoder {
 public:
  explicit Decoder(size_t blob_size) : budget_(blob_size) {}

  Status decode(const schema::Program& from, Program& to) {
    to = Program{};
    to.opset_version = from.opset_version();
    EG_RETURN_IF_ERROR(locate_error(text(from.producer(), to.producer), "producer"));
    EG_RETURN_IF_ERROR(locate_error(text(from.program_id(), to.program_id), "program id"));
    const size_t n_graphs = from.graphs()->size();
    if (n_graphs > limits::kGraphs) {
      return make_error(StatusCode::InvalidProgram, "%zu graphs; at most %zu are supported",
                        n_graphs, limits::kGraphs);
    }
    EG_RETURN_IF_ERROR(budget_.take(n_graphs, sizeof(Graph)));
    to.graphs.resize(n_graphs);
    for (size_t i = 0; i < n_graphs; ++i) {
      const auto at = static_cast<flatbuffers::uoffset_t>(i);
      EG_RETURN_IF_ERROR(
          locate_error(graph(*from.graphs()->Get(at), to.graphs[i]), "graph %zu", i));
    }
    return {};
  }

 private:
  Status graph(const schema::Graph& from, Graph& to) {
    EG_RETURN_IF_ERROR(locate_error(text(from.name(), to.name), "name"));
    EG_RETURN_IF_ERROR(expressions(from.exprs(), to.exprs));
    EG_RETURN_IF_ERROR(values(from.values(), to.values));
    EG_RETURN_IF_ERROR(tables(from.symbols(), to.symbols, "symbol", &Decoder::symbol));
    EG_RETURN_IF_ERROR(tables(from.inputs(), to.inputs, "input", &Decoder::argument));
    EG_RETURN_IF_ERROR(tables(from.outputs(), to.outputs, "output", &Decoder::argument));
    EG_RETURN_IF_ERROR(tables(from.weights(), to.weights, "weight", &Decoder::weight));
    EG_RETURN_IF_ERROR(tables(from.states(), to.states, "state", &Decoder::state));
    EG_RETURN_IF_ERROR(tables(from.calls(), to.calls, "call", &Decoder::call));
    return {};
  }

  template <typename From, typename To>
  Status tables(const flatbuffers::Vector<flatbuffers::Offset<From>>* from, std::vector<To>& to,
                const char* what, Status (Decoder::*read)(const From&, To&)) {
    const size_t count = from == nullptr ? 0 : from->size();
    EG_RETURN_IF_ERROR(budget_.take(count, sizeof(To)));
    to.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const auto at = static_cast<flatbuffers::uoffset_t>(i);
      EG_RETURN_IF_ERROR(locate_error((this->*read)(*from->Get(at), to[i]), "%s %zu", what, i));
    }
    return {};
  }

  Status expressions(const flatbuffers::Vector<const schema::Expr*>* from, std::vector<Expr>& to) {
    const size_t count = from == nullptr ? 0 : from->size();
    EG_RETURN_IF_ERROR(budget_.take(count, sizeof(Expr)));
    EG_RETURN_IF_ERROR(locate_error(check_alignment(from), "expressions"));
    to.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const schema::Expr& e = *from->Get(static_cast<flatbuffers::uoffset_t>(i));
      to.push_back({static_cast<ExprOp>(e.op()), e.a(), e.b(), e.imm()});
    }
    return {};
  }

  Status values(const flatbuffers::Vector<const schema::Value*>* from, std::vector<Value>& to) {
    const size_t count = from == nullptr ? 0 : from->size();
    EG_RETURN_IF_ERROR(budget_.take(count, sizeof(Value)));
    to.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const schema::Value& v = *from->Get(static_cast<flatbuffers::uoffset_t>(i));
      if (v.device() != 0) {
        return make_error(StatusCode::InvalidProgram,
                          "value %zu asks for device %u, but this version knows device 0 only; "
                          "update executorch-ggml or export again",
                          i, v.device());
      }
      to.push_back({{v.ne0(), v.ne1(), v.ne2(), v.ne3()}, v.dtype()});
    }
    return {};
  }

  Status symbol(const schema::Symbol& from, Symbol& to) {
    to.min = from.min();
    to.max = from.max();
    to.source = static_cast<SymbolSource>(from.source());
    to.input = from.input();
    to.index = from.index();
    to.offset = from.offset();
    to.divisor = from.divisor();
    return locate_error(text(from.name(), to.name), "name");
  }

  Status argument(const schema::Argument& from, Argument& to) {
    to.value = from.value();
    to.scalar_type = from.scalar_type();
    EG_RETURN_IF_ERROR(list(from.sizes(), to.sizes, limits::kRank, "sizes"));
    return list(from.dim_order(), to.dim_order, limits::kRank, "dimensions in its order");
  }

  Status weight(const schema::Weight& from, Weight& to) {
    to.value = from.value();
    const size_t count = from.keys()->size();
    if (count > limits::kKeysPerWeight) {
      return make_error(StatusCode::InvalidProgram, "%zu keys; at most %zu are supported", count,
                        limits::kKeysPerWeight);
    }
    EG_RETURN_IF_ERROR(budget_.take(count, sizeof(std::string)));
    to.keys.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const auto at = static_cast<flatbuffers::uoffset_t>(i);
      EG_RETURN_IF_ERROR(locate_error(text(from.keys()->Get(at), to.keys[i]), "key %zu", i));
    }
    return {};
  }

  Status state(const schema::State& from, State& to) {
    to.kind = static_cast<StateKind>(from.kind());
    to.value = from.value();
    to.k_head_dim = from.k_head_dim();
    to.v_head_dim = from.v_head_dim();
    to.n_kv_heads = from.n_kv_heads();
    to.n_batch = from.n_batch();
    to.window = from.window();
    to.default_capacity = from.default_capacity();
    to.max_capacity = from.max_capacity();
    EG_RETURN_IF_ERROR(locate_error(text(from.name(), to.name), "name"));
    return locate_error(text(from.init_key(), to.init_key), "init_key");
  }

  Status call(const schema::Call& from, Call& to) {
    to.op = static_cast<Op>(from.op());
    to.debug_handle = from.debug_handle();
    if (from.subgraphs() != nullptr && from.subgraphs()->size() != 0) {
      return make_error(StatusCode::InvalidProgram,
                        "it has %u subgraphs, but no op of opset %" PRIu32
                        " takes any; update executorch-ggml or export again",
                        from.subgraphs()->size(), kOpsetVersion);
    }
    EG_RETURN_IF_ERROR(list(from.inputs(), to.inputs, limits::kCallItems, "inputs"));
    EG_RETURN_IF_ERROR(list(from.ints(), to.ints, limits::kCallItems, "integer parameters"));
    EG_RETURN_IF_ERROR(locate_error(check_alignment(from.floats()), "float parameters"));
    EG_RETURN_IF_ERROR(list(from.floats(), to.floats, limits::kCallItems, "float parameters"));
    return list(from.outputs(), to.outputs, limits::kCallItems, "outputs");
  }

  template <typename T>
  Status list(const flatbuffers::Vector<T>* from, std::vector<T>& to, size_t limit,
              const char* what) {
    const size_t count = from == nullptr ? 0 : from->size();
    if (count > limit) {
      return make_error(StatusCode::InvalidProgram, "%zu %s; at most %zu are supported", count,
                        what, limit);
    }
    EG_RETURN_IF_ERROR(budget_.take(count, sizeof(T)));
    to.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      to.push_back(from->Get(static_cast<flatbuffers::uoffset_t>(i)));
    }
    return {};
  }

  Status text(const flatbuffers::String* from, std::string& to) {
    const size_t length = from == nullptr ? 0 : from->size();
    if (length > limits::kNameLength) {
      return make_error(StatusCode::InvalidProgram, "%zu bytes long; at most %zu are supported",
                        length, limits::kNameLength);
    }
    EG_RETURN_IF_ERROR(budget_.take(length, 1));
    if (length == 0) {
      return {};
    }
    to.assign(from->c_str(), length);
    bool clean = is_text(to);
    for (const char c : to) {
      // A control character in a name would garble every log line about it.
      clean = clean && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
    }
    if (!clean) {
      return make_error(StatusCode::InvalidProgram,
                        "'%s' is not UTF-8 text without control characters", printable(to).c_str());
    }
    return {};
  }

  Budget budget_;
};

Status check_header(std::span<const uint8_t> blob) {
  constexpr size_t kIdentifierOffset = sizeof(flatbuffers::uoffset_t);
  constexpr size_t kHeader = kIdentifierOffset + flatbuffers::kFileIdentifierLength;
  if (blob.size() < kHeader) {
    return make_error(StatusCode::InvalidProgram,
                      "not an executorch-ggml blob: %zu bytes, fewer than its header of %zu",
                      blob.size(), kHeader);
  }
  const std::string_view identifier(reinterpret_cast<const char*>(blob.data()) + kIdentifierOffset,
                                    flatbuffers::kFileIdentifierLength);
  if (identifier != schema::ProgramIdentifier()) {
    return make_error(StatusCode::InvalidProgram,
                      "not an executorch-ggml blob: it is marked '%s', expected '%s'; was it "
                      "written by another backend?",
                      printable(identifier).c_str(), schema::ProgramIdentifier());
  }
  if (blob.size() > limits::kBlobBytes) {
    return make_error(StatusCode::InvalidProgram,
                      "%zu bytes; a program has at most %zu (weights belong into named data)",
                      blob.size(), limits::kBlobBytes);
  }
  return {};
}

Status check_version(const schema::Program& program) {
  const uint32_t version = program.opset_version();
  const std::string producer =
      program.producer() == nullptr ? "an unnamed producer" : printable(program.producer()->str());
  if (version == 0) {
    return damaged("it names no opset version");
  }
  if (version > kOpsetVersion) {
    return make_error(StatusCode::InvalidProgram,
                      "it was written by %s for opset %" PRIu32
                      ", but this runtime knows opsets up to %" PRIu32
                      "; update executorch-ggml, or export the model with the version installed "
                      "here",
                      producer.c_str(), version, kOpsetVersion);
  }
  const uint64_t unknown = program.required_features() & ~kKnownFeatures;
  if (unknown != 0) {
    std::string bits;
    for (int bit = 0; bit < 64; ++bit) {
      if ((unknown >> bit & 1U) != 0) {
        bits += (bits.empty() ? "" : ", ") + std::to_string(bit);
      }
    }
    return make_error(StatusCode::InvalidProgram,
                      "it was written by %s and needs features that this runtime does not have "
                      "(bits %s); update executorch-ggml, or export the model with the version "
                      "installed here",
                      producer.c_str(), bits.c_str());
  }
  return {};
}

Status parse(std::span<const uint8_t> blob, Program& out) {
  EG_RETURN_IF_ERROR(check_header(blob));
  const uint8_t* data = blob.data();
  std::vector<uint64_t> aligned;
  if (reinterpret_cast<uintptr_t>(data) % kBlobAlignment != 0) {
    aligned.resize((blob.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    std::memcpy(aligned.data(), blob.data(), blob.size());
    data = reinterpret_cast<const uint8_t*>(aligned.data());
  }
  EG_RETURN_IF_ERROR(verify_structure(data, blob.size()));
  const schema::Program& program = *schema::GetProgram(data);
  EG_RETURN_IF_ERROR(check_version(program));
  EG_RETURN_IF_ERROR(Decoder(blob.size()).decode(program, out));
  return verify_program(out);
}

}  // namespace

Status parse_program(std::span<const uint8_t> blob, Program& out) {
  try {
    return locate_error(parse(blob, out), "delegate blob");
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::OutOfMemory,
                      "delegate blob: no memory to read a program of %zu bytes", blob.size());
  }
}

}  // namespace executorch_ggml
