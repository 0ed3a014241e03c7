// Damages delegate blobs and programs, the same way for the same seed.
//
// Bytes are damaged without regard to their meaning (bit flips, interesting
// numbers, truncations, splices, offsets that point elsewhere); programs field by
// field, so that the blob's structure stays whole and the damage reaches the rules
// behind it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/cpp/program_writer.h"

namespace executorch_ggml::testing {

class ProgramMutator {
 public:
  explicit ProgramMutator(uint64_t seed) : random_(seed) {}

  // One to four damages. `donor` gives the bytes of splices.
  std::vector<uint8_t> mutate_bytes(std::vector<uint8_t> blob, const std::vector<uint8_t>& donor) {
    for (size_t n = 1 + pick(4); n > 0 && !blob.empty(); --n) {
      damage_bytes(blob, donor);
    }
    return blob;
  }

  // One to three damages to the fields of one graph.
  Program mutate_program(Program program) {
    for (size_t n = 1 + pick(3); n > 0; --n) {
      if (pick(50) == 0) {
        program.opset_version = u32();
      } else if (pick(50) == 0) {
        program.graphs.push_back(program.graphs[0]);
      } else if (!program.graphs.empty()) {
        damage_graph(program.graphs[pick(program.graphs.size())]);
      }
    }
    return program;
  }

  BlobOptions mutate_options() {
    BlobOptions options;
    if (pick(20) == 0) {
      options.required_features = u64();
    }
    if (pick(20) == 0) {
      options.devices[{0, pick(4)}] = static_cast<uint8_t>(random_());
    }
    if (pick(20) == 0) {
      options.subgraphs[{0, pick(4)}] = {u32()};
    }
    return options;
  }

 private:
  // 0 to n - 1; the bias of the remainder does not matter here.
  size_t pick(size_t n) { return static_cast<size_t>(random_() % n); }

  uint8_t u8() {
    constexpr std::array<uint8_t, 10> kInteresting = {0, 1, 2, 4, 8, 0x7f, 0x80, 0xfe, 0xff, 32};
    return pick(2) == 0 ? kInteresting[pick(kInteresting.size())] : static_cast<uint8_t>(random_());
  }
  uint32_t u32() {
    constexpr std::array<uint32_t, 14> kInteresting = {
        0,      1,       2,          3,          16,         255,        256,
        0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x40000000};
    return pick(3) != 0 ? kInteresting[pick(kInteresting.size())]
                        : static_cast<uint32_t>(random_() >> pick(64));
  }
  uint64_t u64() {
    constexpr std::array<uint64_t, 12> kInteresting = {0,
                                                       1,
                                                       uint64_t(-1),
                                                       uint64_t(1) << 63,
                                                       (uint64_t(1) << 63) - 1,
                                                       uint64_t(1) << 62,
                                                       1 << 8,
                                                       1 << 16,
                                                       uint64_t(1) << 32,
                                                       (uint64_t(1) << 32) - 1,
                                                       uint64_t(1) << 40,
                                                       (uint64_t(1) << 40) + 1};
    return pick(3) != 0 ? kInteresting[pick(kInteresting.size())] : random_() >> pick(64);
  }
  int64_t i64() {
    const auto value = static_cast<int64_t>(u64());
    return pick(2) == 0 && value != std::numeric_limits<int64_t>::min() ? -value : value;
  }

  // --- bytes --------------------------------------------------------------------

  template <typename T>
  void overwrite(std::vector<uint8_t>& blob, T value, bool aligned) {
    if (blob.size() < sizeof(T)) {
      return;
    }
    size_t at = pick(blob.size() - sizeof(T) + 1);
    at -= aligned ? at % sizeof(T) : 0;
    std::memcpy(blob.data() + at, &value, sizeof(T));
  }

  void damage_bytes(std::vector<uint8_t>& blob, const std::vector<uint8_t>& donor) {
    switch (pick(10)) {
      case 0:
        blob[pick(blob.size())] ^= static_cast<uint8_t>(1U << pick(8));
        break;
      case 1:
        blob[pick(blob.size())] = u8();
        break;
      case 2:
        overwrite(blob, static_cast<uint16_t>(u32()), true);  // vtables
        break;
      case 3:
        overwrite(blob, u32(), pick(4) != 0);
        break;
      case 4:
        overwrite(blob, u64(), pick(4) != 0);
        break;
      case 5:
        blob.resize(pick(8) == 0 ? pick(blob.size())
                                 : blob.size() - std::min(pick(16), blob.size()));
        break;
      case 6:
        splice(blob, donor);
        break;
      case 7:
        redirect(blob);
        break;
      case 8:
        adjust(blob);
        break;
      default:
        move(blob);
        break;
    }
  }

  // Copies a stretch of another blob over this one.
  void splice(std::vector<uint8_t>& blob, const std::vector<uint8_t>& donor) {
    if (donor.empty()) {
      return;
    }
    const size_t from = pick(donor.size()) & ~size_t{3};
    const size_t to = pick(blob.size()) & ~size_t{3};
    const size_t length = std::min({pick(64) + 1, donor.size() - from, blob.size() - to});
    std::copy_n(donor.begin() + static_cast<std::ptrdiff_t>(from), length,
                blob.begin() + static_cast<std::ptrdiff_t>(to));
  }

  // Makes a word an offset to some other word: tables and vectors that are shared,
  // overlap or hold themselves.
  void redirect(std::vector<uint8_t>& blob) {
    if (blob.size() < 8) {
      return;
    }
    const size_t words = blob.size() / 4;
    const size_t from = pick(words);
    const auto offset = static_cast<uint32_t>((pick(words) - from) * 4);
    std::memcpy(blob.data() + from * 4, &offset, sizeof(offset));
  }

  // Changes a word by a little: counts off by one, neighbours' offsets.
  void adjust(std::vector<uint8_t>& blob) {
    if (blob.size() < 4) {
      return;
    }
    const size_t at = pick(blob.size() / 4) * 4;
    uint32_t word = 0;
    std::memcpy(&word, blob.data() + at, sizeof(word));
    word += static_cast<uint32_t>(pick(33)) - 16;
    std::memcpy(blob.data() + at, &word, sizeof(word));
  }

  // Inserts or removes bytes, so that everything after moves.
  void move(std::vector<uint8_t>& blob) {
    const auto at = blob.begin() + static_cast<std::ptrdiff_t>(pick(blob.size()));
    const size_t length = 4 * (1 + pick(4));
    if (pick(2) == 0) {
      blob.insert(at, length, u8());
    } else {
      blob.erase(at, at + std::min(static_cast<std::ptrdiff_t>(length), blob.end() - at));
    }
  }

  // --- fields ----------------------------------------------------------------------

  // An id that exists, or hardly.
  uint32_t id(size_t count) {
    return pick(4) == 0 ? u32() : static_cast<uint32_t>(pick(count + 1));
  }

  std::string name() {
    switch (pick(4)) {
      case 0:
        return "";
      case 1:
        return std::string(1 + pick(2 * limits::kNameLength), 'x');
      case 2:
        return std::string(1 + pick(8), static_cast<char>(u8()));
      default:
        return "rows";
    }
  }

  // Drops, repeats, swaps or adds an item of a list.
  template <typename T>
  void damage_list(std::vector<T>& list) {
    if (list.empty()) {
      return;
    }
    const size_t at = pick(list.size());
    switch (pick(4)) {
      case 0:
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        list.push_back(T(list[at]));
        break;
      case 2:
        std::swap(list[at], list[pick(list.size())]);
        break;
      default:
        list.insert(list.begin(), pick(40), T(list[at]));
        break;
    }
  }

  template <typename T>
  T* any(std::vector<T>& list) {
    return list.empty() ? nullptr : &list[pick(list.size())];
  }

  void damage_graph(Graph& g) {
    switch (pick(12)) {
      case 0:
        damage_lists(g);
        break;
      case 1:
        if (Symbol* const s = any(g.symbols)) {
          damage_symbol(*s, g);
        }
        break;
      case 2:
      case 3:
      case 4:
        if (Expr* const e = any(g.exprs)) {
          damage_expr(*e, g);
        }
        break;
      case 5:
        if (Value* const v = any(g.values)) {
          if (pick(3) == 0) {
            v->dtype = u8();
          } else {
            v->ne[pick(4)] = id(g.exprs.size());
          }
        }
        break;
      case 6:
        if (Argument* const a = any(pick(2) == 0 ? g.inputs : g.outputs)) {
          damage_argument(*a, g);
        }
        break;
      case 7:
        if (Weight* const w = any(g.weights)) {
          if (pick(2) == 0) {
            w->value = id(g.values.size());
          } else if (w->keys.empty() || pick(2) == 0) {
            w->keys.push_back(name());
          } else {
            w->keys[0] = name();
          }
        }
        break;
      case 8:
        if (State* const s = any(g.states)) {
          damage_state(*s, g);
        }
        break;
      default:
        if (Call* const c = any(g.calls)) {
          damage_call(*c, g);
        }
        break;
    }
  }

  void damage_lists(Graph& g) {
    switch (pick(9)) {
      case 0:
        damage_list(g.symbols);
        break;
      case 1:
        damage_list(g.exprs);
        break;
      case 2:
        damage_list(g.values);
        break;
      case 3:
        damage_list(g.inputs);
        break;
      case 4:
        damage_list(g.outputs);
        break;
      case 5:
        damage_list(g.weights);
        break;
      case 6:
        damage_list(g.states);
        break;
      case 7:
        damage_list(g.calls);
        break;
      default:
        g.name = name();
        break;
    }
  }

  void damage_symbol(Symbol& s, const Graph& g) {
    switch (pick(8)) {
      case 0:
        s.name = name();
        break;
      case 1:
        s.min = i64();
        break;
      case 2:
        s.max = i64();
        break;
      case 3:
        s.source = static_cast<SymbolSource>(u8());
        break;
      case 4:
        s.input = id(g.inputs.size());
        break;
      case 5:
        s.index = u32();
        break;
      case 6:
        s.offset = i64();
        break;
      default:
        s.divisor = i64();
        break;
    }
  }

  void damage_expr(Expr& e, const Graph& g) {
    switch (pick(4)) {
      case 0:
        e.op = static_cast<ExprOp>(pick(10) == 0 ? u8() : pick(9));
        break;
      case 1:
        e.a = id(g.exprs.size());
        break;
      case 2:
        e.b = id(g.exprs.size());
        break;
      default:
        e.imm = i64();
        break;
    }
  }

  void damage_argument(Argument& a, const Graph& g) {
    switch (pick(4)) {
      case 0:
        a.value = id(g.values.size());
        break;
      case 1:
        a.scalar_type = static_cast<int8_t>(u8());
        break;
      case 2:
        if (ExprId* const size = any(a.sizes); size != nullptr && pick(2) == 0) {
          *size = id(g.exprs.size());
        } else {
          damage_list(a.sizes);
        }
        break;
      default:
        if (a.dim_order.empty()) {
          a.dim_order.assign(pick(20), u8());
        } else {
          a.dim_order[pick(a.dim_order.size())] = u8();
        }
        break;
    }
  }

  void damage_state(State& s, const Graph& g) {
    const std::array<uint32_t*, 7> fields = {&s.k_head_dim, &s.v_head_dim,       &s.n_kv_heads,
                                             &s.n_batch,    &s.default_capacity, &s.max_capacity,
                                             &s.window};
    switch (pick(5)) {
      case 0:
        s.kind = static_cast<StateKind>(pick(4));
        break;
      case 1:
        s.name = name();
        break;
      case 2:
        s.value = id(g.values.size());
        break;
      case 3:
        s.init_key = name();
        break;
      default:
        *fields[pick(fields.size())] = u32();
        break;
    }
  }

  void damage_call(Call& c, const Graph& g) {
    switch (pick(7)) {
      case 0:
        c.op = pick(3) == 0 ? static_cast<Op>(u32()) : kOpset[pick(std::size(kOpset))].op;
        break;
      case 1:
        if (ValueId* const input = any(c.inputs)) {
          *input = id(g.values.size());
        }
        break;
      case 2:
        if (ExprId* const param = any(c.ints)) {
          *param = id(g.exprs.size());
        }
        break;
      case 3:
        if (double* const param = any(c.floats)) {
          const uint64_t bits = pick(4) == 0 ? random_() : u64();
          std::memcpy(param, &bits, sizeof(bits));
        }
        break;
      case 4:
        if (ValueId* const output = any(c.outputs)) {
          *output = id(g.values.size());
        }
        break;
      case 5:
        damage_list(pick(2) == 0 ? c.inputs : c.outputs);
        break;
      default:
        damage_list(c.ints);
        break;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace executorch_ggml::testing
