// The meaning of a decoded program: what every later layer may rely on.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "runtime/program.h"
#include "runtime/symexpr.h"
#include "runtime/verify_rules.h"

namespace executorch_ggml {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

#define EG_INVALID(...) make_error(StatusCode::InvalidProgram, __VA_ARGS__)

class GraphVerifier {
 public:
  GraphVerifier(const Graph& graph, uint32_t opset_version)
      : graph_(graph), opset_version_(opset_version) {}

  Status verify() {
    EG_RETURN_IF_ERROR(each(graph_.symbols, "symbol", &GraphVerifier::symbol_bounds));
    EG_RETURN_IF_ERROR(bounds(graph_.exprs, graph_.symbols, ranges_));
    EG_RETURN_IF_ERROR(each(graph_.exprs, "expression", &GraphVerifier::expression));
    EG_RETURN_IF_ERROR(each(graph_.values, "value", &GraphVerifier::value));

    definitions_.assign(graph_.values.size(), {});
    EG_RETURN_IF_ERROR(each(graph_.inputs, "input", &GraphVerifier::input));
    EG_RETURN_IF_ERROR(each(graph_.symbols, "symbol", &GraphVerifier::symbol_source));
    EG_RETURN_IF_ERROR(each(graph_.weights, "weight", &GraphVerifier::weight));
    EG_RETURN_IF_ERROR(each(graph_.states, "state", &GraphVerifier::state));
    for (size_t i = 0; i < graph_.calls.size(); ++i) {
      const OpInfo* const info = find_op(static_cast<uint16_t>(graph_.calls[i].op));
      EG_RETURN_IF_ERROR(locate_error(call(graph_.calls[i], info), "call %zu (%s)", i,
                                      info == nullptr ? "unknown op" : info->name));
    }
    EG_RETURN_IF_ERROR(each(graph_.outputs, "output", &GraphVerifier::output));
    for (size_t i = 0; i < definitions_.size(); ++i) {
      if (definitions_[i].origin == Origin::None) {
        return EG_INVALID("value %zu is defined by no input, weight, state or call", i);
      }
    }
    return {};
  }

 private:
  enum class Origin : uint8_t { None, Input, Weight, Buffer, Call };

  struct Definition {
    Origin origin = Origin::None;
    // The value whose memory this one is a view of; itself if none.
    ValueId root = kAbsent;
  };

  template <typename T>
  Status each(const std::vector<T>& items, const char* what,
              Status (GraphVerifier::*check)(const T&)) {
    for (size_t i = 0; i < items.size(); ++i) {
      EG_RETURN_IF_ERROR(locate_error((this->*check)(items[i]), "%s %zu", what, i));
    }
    return {};
  }

  // --- expressions ------------------------------------------------------------

  Status symbol_bounds(const Symbol& s) {
    if (s.name.empty()) {
      return EG_INVALID("it has no name");
    }
    if (!symbol_names_.insert(s.name).second) {
      return EG_INVALID("'%s' is the name of another symbol too", s.name.c_str());
    }
    if (s.min < -limits::kSymbol || s.max > limits::kSymbol) {
      return EG_INVALID("'%s' has bounds %" PRId64 " to %" PRId64
                        ", beyond 2^40; export with a smaller upper bound",
                        s.name.c_str(), s.min, s.max);
    }
    if (s.min > s.max) {
      return EG_INVALID("'%s' has bounds %" PRId64 " to %" PRId64 ", lower above upper",
                        s.name.c_str(), s.min, s.max);
    }
    if (s.divisor < 1 || s.divisor > limits::kSymbol) {
      return EG_INVALID("'%s' has divisor %" PRId64 ", outside of 1 to %" PRId64, s.name.c_str(),
                        s.divisor, limits::kSymbol);
    }
    if (s.offset < -limits::kSymbol || s.offset > limits::kSymbol) {
      return EG_INVALID("'%s' has offset %" PRId64 ", outside of %" PRId64 " to %" PRId64,
                        s.name.c_str(), s.offset, -limits::kSymbol, limits::kSymbol);
    }
    if (s.source > SymbolSource::InputElement) {
      return EG_INVALID("'%s' has the unknown source %u", s.name.c_str(),
                        static_cast<unsigned>(s.source));
    }
    return {};
  }

  Status symbol_source(const Symbol& s) {
    if (s.input >= graph_.inputs.size()) {
      return EG_INVALID("'%s' is read from input %" PRIu32 ", but the graph has %zu inputs",
                        s.name.c_str(), s.input, graph_.inputs.size());
    }
    const Argument& source = graph_.inputs[s.input];
    if (s.source == SymbolSource::InputDim) {
      if (s.index >= source.sizes.size()) {
        return EG_INVALID("'%s' is dimension %" PRIu32 " of input %" PRIu32
                          ", which has %zu dimensions",
                          s.name.c_str(), s.index, s.input, source.sizes.size());
      }
      return {};
    }
    const ScalarTypeInfo* const type = find_scalar_type(source.scalar_type);
    if (type == nullptr || !type->is_integer) {
      return EG_INVALID("'%s' is an element of input %" PRIu32
                        ", which is %s; only integer inputs give symbols",
                        s.name.c_str(), s.input, type == nullptr ? "of unknown type" : type->name);
    }
    int64_t count = 1;
    for (const ExprId size : source.sizes) {
      count = saturating_product(count, ranges_[size].hi);
    }
    if (s.index >= count) {
      return EG_INVALID("'%s' is element %" PRIu32 " of input %" PRIu32
                        ", which has at most %" PRId64 " elements",
                        s.name.c_str(), s.index, s.input, count);
    }
    return {};
  }

  // References and operations were checked by bounds().
  Status expression(const Expr& e) {
    const bool divides = e.op == ExprOp::FloorDiv || e.op == ExprOp::Mod;
    if (divides && ranges_[e.b].lo == 0 && ranges_[e.b].hi == 0) {
      return EG_INVALID("it always divides by zero (expression %" PRIu32 ")", e.b);
    }
    return {};
  }

  Status check_expr(ExprId id) const {
    if (id >= ranges_.size()) {
      return EG_INVALID("it refers to expression %" PRIu32 ", but the graph has %zu", id,
                        ranges_.size());
    }
    return {};
  }

  // An extent of a value or a size of an argument. Symbols may have bounds far
  // beyond what runs (a dim that was exported without a maximum has 2^31 - 1), so
  // what is refused is what fits for no input; the graph builder checks the sizes
  // of each call. `least` is the smallest extent, but at least 1, so that products
  // over it bound strides as well as counts.
  Status check_extent(ExprId id, int64_t& least) const {
    EG_RETURN_IF_ERROR(check_expr(id));
    const Interval range = ranges_[id];
    if (range.hi < 0) {
      return EG_INVALID("it is %" PRId64 "%s, a negative number", range.hi,
                        range.is_constant() ? "" : " at most");
    }
    if (range.lo > limits::kExtent) {
      return EG_INVALID("it is %" PRId64 "%s, more than the limit of 2^40", range.lo,
                        range.is_constant() ? "" : " at least");
    }
    least = std::max<int64_t>(range.lo, 1);
    return {};
  }

  // --- values -----------------------------------------------------------------

  Status value(const Value& v) {
    const GgmlTypeInfo* const info = program_dtype(v.dtype);
    if (info == nullptr && v.dtype != kDtypeFromFile) {
      return EG_INVALID("type %u is not an element type that ggml computes with", v.dtype);
    }
    std::array<int64_t, 4> least{};
    for (size_t i = 0; i < v.ne.size(); ++i) {
      EG_RETURN_IF_ERROR(locate_error(check_extent(v.ne[i], least[i]), "extent %zu", i));
    }
    int64_t bytes = saturating_product(least[0], sizeof(double));  // a bound for any file type
    if (info != nullptr) {
      const int64_t block = info->block_size;
      const Interval row = ranges_[v.ne[0]];
      if (row.is_constant() && row.lo % block != 0) {
        return EG_INVALID("a row of %" PRId64 " elements is no multiple of %s's block of %" PRId64,
                          row.lo, info->name, block);
      }
      bytes = saturating_product((least[0] + block - 1) / block, info->type_size);
    }
    for (size_t i = 1; i < least.size(); ++i) {
      bytes = saturating_product(bytes, least[i]);
    }
    if (bytes == kUnbounded) {
      return EG_INVALID("%" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                        " elements or more do not fit 64 bits of memory",
                        least[0], least[1], least[2], least[3]);
    }
    return {};
  }

  bool has_constant_extents(const Value& v) const {
    return std::all_of(v.ne.begin(), v.ne.end(),
                       [this](ExprId id) { return ranges_[id].is_constant(); });
  }

  Status check_value(ValueId id) const {
    if (id >= graph_.values.size()) {
      return EG_INVALID("it refers to value %" PRIu32 ", but the graph has %zu values", id,
                        graph_.values.size());
    }
    return {};
  }

  Status define(ValueId id, Origin origin, ValueId root, bool may_be_from_file = false) {
    EG_RETURN_IF_ERROR(check_value(id));
    if (definitions_[id].origin != Origin::None) {
      return EG_INVALID("it defines value %" PRIu32 " a second time", id);
    }
    if (graph_.values[id].dtype == kDtypeFromFile && !may_be_from_file) {
      return EG_INVALID("value %" PRIu32
                        " takes its type from a file, which only a weight or a rearranged one can",
                        id);
    }
    definitions_[id] = {origin, root};
    return {};
  }

  // --- arguments, weights, states ----------------------------------------------

  Status argument(const Argument& a) {
    EG_RETURN_IF_ERROR(check_value(a.value));
    const Value& v = graph_.values[a.value];
    const ScalarTypeInfo* const type = find_scalar_type(a.scalar_type);
    if (type == nullptr) {
      return EG_INVALID("scalar type %d cannot be passed to or from a ggml program", a.scalar_type);
    }
    if (v.dtype != type->dtype) {
      return EG_INVALID("%s is %s inside a program, but value %" PRIu32 " is %s", type->name,
                        program_dtype_name(type->dtype).c_str(), a.value,
                        program_dtype_name(v.dtype).c_str());
    }
    if (a.sizes.size() > limits::kRank) {
      return EG_INVALID("%zu dimensions; at most %zu are supported", a.sizes.size(), limits::kRank);
    }
    int64_t fewest = 1;
    int64_t count = 1;
    bool is_constant = true;
    for (size_t i = 0; i < a.sizes.size(); ++i) {
      int64_t least = 0;
      EG_RETURN_IF_ERROR(locate_error(check_extent(a.sizes[i], least), "size %zu", i));
      fewest = saturating_product(fewest, least);
      count = saturating_product(count, ranges_[a.sizes[i]].hi);
      is_constant = is_constant && ranges_[a.sizes[i]].is_constant();
    }
    if (saturating_product(fewest, sizeof(double)) == kUnbounded) {
      return EG_INVALID("its sizes multiply to more than 64 bits");
    }
    if (is_constant && has_constant_extents(v)) {
      int64_t elements = 1;
      for (const ExprId id : v.ne) {
        elements = saturating_product(elements, ranges_[id].hi);
      }
      if (elements != count) {
        return EG_INVALID("its sizes give %" PRId64 " elements, but value %" PRIu32 " has %" PRId64,
                          count, a.value, elements);
      }
    }
    return dim_order(a);
  }

  static Status dim_order(const Argument& a) {
    if (a.dim_order.empty()) {
      return {};
    }
    if (a.dim_order.size() != a.sizes.size()) {
      return EG_INVALID("its dimension order has %zu entries for %zu dimensions",
                        a.dim_order.size(), a.sizes.size());
    }
    uint32_t seen = 0;
    for (const uint8_t dim : a.dim_order) {
      if (dim >= a.sizes.size() || (seen >> dim & 1U) != 0) {
        return EG_INVALID("its dimension order is no permutation: %u is %s", dim,
                          dim >= a.sizes.size() ? "too large" : "there twice");
      }
      seen |= 1U << dim;
    }
    return {};
  }

  Status input(const Argument& a) {
    EG_RETURN_IF_ERROR(argument(a));
    return define(a.value, Origin::Input, a.value);
  }

  Status output(const Argument& a) {
    EG_RETURN_IF_ERROR(argument(a));
    if (definitions_[a.value].origin == Origin::None) {
      return EG_INVALID("value %" PRIu32 " is never computed", a.value);
    }
    return {};
  }

  Status weight(const Weight& w) {
    EG_RETURN_IF_ERROR(define(w.value, Origin::Weight, w.value, true));
    if (w.keys.empty()) {
      return EG_INVALID("it has no key");
    }
    for (const std::string& key : w.keys) {
      EG_RETURN_IF_ERROR(check_name(key, "key"));
    }
    if (!has_constant_extents(graph_.values[w.value])) {
      return EG_INVALID("'%s' has extents that depend on symbols", w.keys.front().c_str());
    }
    return {};
  }

  static Status check_name(const std::string& name, const char* what) {
    if (name.empty()) {
      return EG_INVALID("it has an empty %s", what);
    }
    if (name.size() > limits::kNameLength) {
      return EG_INVALID("its %s is %zu bytes long; at most %zu are supported", what, name.size(),
                        limits::kNameLength);
    }
    return {};
  }

  Status state(const State& s) {
    EG_RETURN_IF_ERROR(check_name(s.name, "name"));
    if (!state_names_.insert(s.name).second) {
      return EG_INVALID("'%s' is the name of another state too", s.name.c_str());
    }
    switch (s.kind) {
      case StateKind::Buffer:
        return locate_error(buffer(s), "'%s'", s.name.c_str());
      case StateKind::KvCache:
        return locate_error(kv_cache(s), "'%s'", s.name.c_str());
    }
    return EG_INVALID("'%s' is of the unknown kind %u", s.name.c_str(),
                      static_cast<unsigned>(s.kind));
  }

  Status buffer(const State& s) {
    EG_RETURN_IF_ERROR(define(s.value, Origin::Buffer, s.value));
    if (!has_constant_extents(graph_.values[s.value])) {
      return EG_INVALID("it has extents that depend on symbols");
    }
    return {};
  }

  static Status kv_cache(const State& s) {
    if (s.value != kAbsent) {
      return EG_INVALID("a cache has no value of its own, but it names value %" PRIu32, s.value);
    }
    if (!s.init_key.empty()) {
      return EG_INVALID("a cache begins empty, but it names '%s' as its first content",
                        s.init_key.c_str());
    }
    struct Field {
      const char* name;
      uint32_t value;
      uint32_t max;
    };
    for (const Field& field : {Field{"k_head_dim", s.k_head_dim, limits::kCacheWidth},
                               Field{"v_head_dim", s.v_head_dim, limits::kCacheWidth},
                               Field{"n_kv_heads", s.n_kv_heads, limits::kCacheWidth},
                               Field{"n_batch", s.n_batch, limits::kCacheWidth},
                               Field{"max_capacity", s.max_capacity, limits::kCachePositions},
                               Field{"default_capacity", s.default_capacity, s.max_capacity}}) {
      if (field.value == 0 || field.value > field.max) {
        return EG_INVALID("%s is %" PRIu32 ", outside of 1 to %" PRIu32, field.name, field.value,
                          field.max);
      }
    }
    if (s.window > limits::kCachePositions) {
      return EG_INVALID("window is %" PRIu32 ", more than %" PRIu32, s.window,
                        limits::kCachePositions);
    }
    int64_t bytes = saturating_product(std::max(s.k_head_dim, s.v_head_dim), sizeof(float));
    bytes = saturating_product(bytes, s.n_kv_heads);
    bytes = saturating_product(bytes, s.n_batch);
    bytes = saturating_product(bytes, s.max_capacity);
    if (bytes == kUnbounded) {
      return EG_INVALID("%" PRIu32 " positions of %" PRIu32 " x %" PRIu32 " x %" PRIu32
                        " elements do not fit 64 bits of memory",
                        s.max_capacity, std::max(s.k_head_dim, s.v_head_dim), s.n_kv_heads,
                        s.n_batch);
    }
    return {};
  }

  // --- calls ------------------------------------------------------------------

  Status call(const Call& c, const OpInfo* info) {
    if (info == nullptr) {
      return EG_INVALID("op %u is not in opset %" PRIu32, static_cast<unsigned>(c.op),
                        kOpsetVersion);
    }
    if (info->since > opset_version_) {
      return EG_INVALID("the op came with opset %" PRIu32 ", but the program is of opset %" PRIu32,
                        info->since, opset_version_);
    }
    EG_RETURN_IF_ERROR(operands(c, *info));
    EG_RETURN_IF_ERROR(int_params(c, *info));
    EG_RETURN_IF_ERROR(float_params(c, *info));
    EG_RETURN_IF_ERROR(op_rules(c, *info));
    if (c.outputs.size() != info->n_outputs) {
      return EG_INVALID("%zu results, expected %u", c.outputs.size(), info->n_outputs);
    }
    const ValueId root = info->is_view ? definitions_[c.inputs[0]].root : kAbsent;
    for (const ValueId id : c.outputs) {
      EG_RETURN_IF_ERROR(locate_error(
          define(id, Origin::Call, root == kAbsent ? id : root, keeps_type_of_file(c)), "result"));
    }
    return {};
  }

  // Whether the result is a weight of the file's type, rearranged.
  bool keeps_type_of_file(const Call& c) const {
    const bool rearranges = c.op == Op::Reshape || c.op == Op::Permute || c.op == Op::Cont;
    return rearranges && graph_.values[c.inputs[0]].dtype == kDtypeFromFile;
  }

  // Optional operands at the end may be left out or marked absent.
  Status operands(const Call& c, const OpInfo& info) const {
    if (c.inputs.size() < info.min_inputs || c.inputs.size() > info.max_inputs) {
      return EG_INVALID("%zu operands, expected %u to %u", c.inputs.size(), info.min_inputs,
                        info.max_inputs);
    }
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const ValueId id = c.inputs[i];
      if (id == kAbsent) {
        if (i < info.min_inputs) {
          return EG_INVALID("operand '%s' is absent", info.inputs[i]);
        }
        continue;
      }
      EG_RETURN_IF_ERROR(locate_error(check_value(id), "operand '%s'", info.inputs[i]));
      if (definitions_[id].origin == Origin::None) {
        return EG_INVALID("operand '%s' is value %" PRIu32 ", which is not defined before",
                          info.inputs[i], id);
      }
    }
    return {};
  }

  Status int_params(const Call& c, const OpInfo& info) const {
    if (c.ints.size() != info.n_ints) {
      return EG_INVALID("%zu integer parameters, expected %u", c.ints.size(), info.n_ints);
    }
    for (size_t i = 0; i < c.ints.size(); ++i) {
      EG_RETURN_IF_ERROR(locate_error(check_expr(c.ints[i]), "parameter '%s'", info.ints[i].name));
      if (info.ints[i].kind == ParamKind::Dim) {
        continue;
      }
      const Expr& e = graph_.exprs[c.ints[i]];
      if (e.op != ExprOp::Const) {
        return EG_INVALID("parameter '%s' must be a constant, but is expression %" PRIu32,
                          info.ints[i].name, c.ints[i]);
      }
      const std::span<const uint8_t> values = info.ints[i].values;
      if (!values.empty() && std::find(values.begin(), values.end(), e.imm) == values.end()) {
        return EG_INVALID("parameter '%s' is %" PRId64 ", which the opset does not list",
                          info.ints[i].name, e.imm);
      }
      const Interval range = int_param_range(info, i);
      if (!range.contains(e.imm)) {
        return EG_INVALID("parameter '%s' is %" PRId64 ", outside of %" PRId64 " to %" PRId64,
                          info.ints[i].name, e.imm, range.lo, range.hi);
      }
    }
    return {};
  }

  // ggml computes with floats; infinities are meant (a clamp without one bound).
  static Status float_params(const Call& c, const OpInfo& info) {
    if (c.floats.size() != info.n_floats) {
      return EG_INVALID("%zu float parameters, expected %u", c.floats.size(), info.n_floats);
    }
    for (size_t i = 0; i < c.floats.size(); ++i) {
      const double value = c.floats[i];
      const bool fits = std::isinf(value) || std::abs(value) <= std::numeric_limits<float>::max();
      if (!fits) {  // NaN does not compare
        return EG_INVALID("parameter '%s' is %g, not a 32-bit float", info.floats[i], value);
      }
    }
    return {};
  }

  int64_t constant(ExprId id) const { return graph_.exprs[id].imm; }

  Status op_rules(const Call& c, const OpInfo& info) const {
    if (info.is_view && info.has_side_effect) {
      const Definition& target = definitions_[definitions_[c.inputs[0]].root];
      if (target.origin != Origin::Buffer) {
        return EG_INVALID("it writes to value %" PRIu32 ", which is no state", c.inputs[0]);
      }
    }
    switch (c.op) {
      case Op::Permute:
        return permutation(c);
      case Op::Cast:
        return cast(c);
      case Op::Rope:
        return rope(c);
      case Op::UpdateAndAttend:
        return update_and_attend(c);
      default:
        return {};
    }
  }

  Status permutation(const Call& c) const {
    unsigned seen = 0;
    for (const ExprId id : c.ints) {
      seen |= 1U << constant(id);
    }
    if (seen != 0xF) {
      return EG_INVALID(
          "axes %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 " are no permutation of 0 to 3",
          constant(c.ints[0]), constant(c.ints[1]), constant(c.ints[2]), constant(c.ints[3]));
    }
    return {};
  }

  Status cast(const Call& c) const {
    const int64_t dtype = constant(c.ints[params::cast::kDtype]);
    const GgmlTypeInfo* const info = program_dtype(dtype);
    if (info == nullptr || info->block_size != 1) {
      return EG_INVALID("parameter 'dtype' is %" PRId64 ", not a plain element type", dtype);
    }
    return {};
  }

  Status rope(const Call& c) const {
    const int64_t n_dims = constant(c.ints[params::rope::kNDims]);
    if (n_dims % 2 != 0) {
      return EG_INVALID("parameter 'n_dims' is %" PRId64 ", an odd number", n_dims);
    }
    return {};
  }

  Status update_and_attend(const Call& c) const {
    const int64_t index = constant(c.ints[params::update_and_attend::kState]);
    if (index < 0 || static_cast<uint64_t>(index) >= graph_.states.size()) {
      return EG_INVALID("parameter 'state' is %" PRId64 ", but the graph has %zu states", index,
                        graph_.states.size());
    }
    const State& s = graph_.states[static_cast<size_t>(index)];
    if (s.kind != StateKind::KvCache) {
      return EG_INVALID("state %" PRId64 " ('%s') is no KV cache", index, s.name.c_str());
    }
    struct Width {
      const char* name;
      size_t operand;
      size_t extent;
      int64_t expected;
    };
    for (const Width& width : {Width{"k", inputs::update_and_attend::kK, 0, s.k_head_dim},
                               Width{"k", inputs::update_and_attend::kK, 1, s.n_kv_heads},
                               Width{"v", inputs::update_and_attend::kV, 0, s.v_head_dim},
                               Width{"v", inputs::update_and_attend::kV, 1, s.n_kv_heads}}) {
      const Value& v = graph_.values[c.inputs[width.operand]];
      const Interval range = ranges_[v.ne[width.extent]];
      if (!range.is_constant() || range.lo != width.expected) {
        return EG_INVALID("extent %zu of operand '%s' is %" PRId64
                          "%s, but state '%s' holds %" PRId64,
                          width.extent, width.name, range.hi, range.is_constant() ? "" : " at most",
                          s.name.c_str(), width.expected);
      }
    }
    // The host reads these before the graph runs.
    for (const size_t operand :
         {inputs::update_and_attend::kPositions, inputs::update_and_attend::kSequences}) {
      const ValueId id = operand < c.inputs.size() ? c.inputs[operand] : kAbsent;
      if (id != kAbsent && definitions_[definitions_[id].root].origin != Origin::Input) {
        return EG_INVALID("operand '%s' (value %" PRIu32 ") is no input of the graph",
                          find_op(static_cast<uint16_t>(c.op))->inputs[operand], id);
      }
    }
    return {};
  }

  const Graph& graph_;
  const uint32_t opset_version_;
  std::vector<Interval> ranges_;         // as Graph::exprs
  std::vector<Definition> definitions_;  // as Graph::values
  std::unordered_set<std::string_view> symbol_names_;
  std::unordered_set<std::string_view> state_names_;
};

}  // namespace

Status verify_program(const Program& program) {
  if (program.graphs.empty()) {
    return EG_INVALID("the program has no graph");
  }
  for (size_t i = 0; i < program.graphs.size(); ++i) {
    const Graph& graph = program.graphs[i];
    EG_RETURN_IF_ERROR(locate_error(GraphVerifier(graph, program.opset_version).verify(),
                                    "graph %zu ('%s')", i, graph.name.c_str()));
  }
  return {};
}

}  // namespace executorch_ggml
