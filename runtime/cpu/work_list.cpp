#include "runtime/cpu/work_list.h"

#include <algorithm>

#include "runtime/aligned_buffer.h"
#include "runtime/cpu/row_works.h"

namespace executorch_ggml {
namespace {

constexpr size_t kPreparedPlaces = 4;

constexpr auto kMakers = {
    make_matmul,     make_attention, make_norm, make_rope,      make_softmax,    make_activation,
    make_arithmetic, make_rows,      make_copy, make_host_call, make_shared_out,
};

// The tensor whose elements x holds in the same order.
const ggml_tensor& reshaped_from(const ggml_tensor& x) {
  const ggml_tensor* t = &x;
  while (t->op == GGML_OP_RESHAPE && ggml_is_contiguous(t->src[0])) {
    t = t->src[0];
  }
  return *t;
}

// Of all rows of x, prepared for products.
size_t prepared_bytes(const MatmulKernels& kernels, ActivationForm form, const ggml_tensor& x) {
  return aligned_size(kernels.prepared_size(form, x.ne[0]) * static_cast<size_t>(row_count(x)));
}

// Memory of WorkMemory::shared is owned by this name.
const ggml_tensor kShared{};

}  // namespace

CpuKernels cpu_kernels() { return {matmul_kernels(), attention_kernels(), &row_kernels()}; }

GraphNodes::GraphNodes(ggml_cgraph* graph) {
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    nodes_.push_back(ggml_graph_node(graph, i));
  }
  for (const ggml_tensor* node : nodes_) {
    if (is_view(*node)) {
      continue;  // counted where it is read
    }
    for (const ggml_tensor* source : node->src) {
      if (source != nullptr) {
        ++reads_[root_of(*source)];
      }
    }
  }
}

int GraphNodes::next(int i) const {
  do {
    ++i;
  } while (i < size() && is_view(at(i)));
  return i;
}

bool GraphNodes::feeds_only_next(int i) const {
  const ggml_tensor& node = at(i);
  const int reader = next(i);
  if (reader >= size() || (node.flags & GGML_TENSOR_FLAG_OUTPUT) != 0 || node.view_src != nullptr) {
    return false;
  }
  const auto& sources = at(reader).src;
  const auto reads = reads_.find(&node);
  return std::ranges::find(sources, &node) != std::end(sources) && reads != reads_.end() &&
         reads->second == 1;
}

WorkList::WorkList(const Plan& plan, const CpuKernels& kernels, int n_threads, bool by_node,
                   std::shared_ptr<ThreadPool>& ggml_threads)
    : plan_(plan),
      nodes_(plan.graph),
      kernels_(kernels),
      n_threads_(n_threads),
      by_node_(by_node),
      ggml_threads_(ggml_threads) {
  for (const Rebindable& input : plan_.inputs) {
    rebound_.insert(input.root);
  }
  for (const Rebindable& output : plan_.direct_outputs) {
    rebound_.insert(output.root);
  }
  reserve_prepared();
  int left = -1;  // the first of the nodes that are left to ggml
  for (int i = nodes_.next(-1); status_.ok() && i < nodes_.size(); i = nodes_.next(i)) {
    const size_t before = works_.size();
    int last = -1;
    for (const auto& maker : kMakers) {
      last = maker(*this, i);
      if (last >= 0) {
        break;
      }
    }
    if (last < 0) {
      left = left < 0 ? i : left;
      continue;
    }
    if (left >= 0) {
      add_ggml_runs(before, left, i - 1);
      left = -1;
    }
    i = last;
  }
  if (status_.ok() && left >= 0) {
    add_ggml_runs(works_.size(), left, nodes_.size() - 1);
  }
}

MemoryRange WorkList::range(const ggml_tensor& tensor) const {
  const ggml_tensor* root = root_of(tensor);
  const size_t bytes = ggml_nbytes(&tensor);
  if (rebound_.contains(root)) {
    const size_t begin = tensor.view_src != nullptr ? tensor.view_offs : 0;
    return {root, begin, begin + bytes};
  }
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  return {nullptr, begin, begin + bytes};
}

void WorkList::add(std::unique_ptr<Work> work, int node,
                   std::initializer_list<const ggml_tensor*> reads) {
  work->node_index = node;
  for (const ggml_tensor* tensor : reads) {
    if (tensor != nullptr) {
      work->reads.push_back(range(*tensor));
    }
  }
  work->writes.push_back(range(nodes_.at(node)));
  works_.push_back(std::move(work));
}

Shares WorkList::share_out(int64_t n, int64_t per_unit, int64_t least) const {
  return Shares::falling(n_threads_, std::min(n, n * per_unit / std::max<int64_t>(least, 1)));
}

void WorkList::add_ggml_runs(size_t before, int first, int last) {
  bool uses_threads = false;
  for (int i = first; i <= last; i = by_node_ ? nodes_.next(i) : last + 1) {
    const int end = by_node_ ? i : last;
    std::unique_ptr<Work> run;
    status_ = make_ggml_run(nodes_, i, end, n_threads_, ggml_threads_, run);
    if (!status_.ok()) {
      return;
    }
    for (int k = i; k <= end; ++k) {
      const ggml_tensor& node = nodes_.at(k);
      if (is_view(node)) {
        continue;
      }
      for (const ggml_tensor* source : node.src) {
        if (source != nullptr) {
          run->reads.push_back(range(*source));
        }
      }
      run->writes.push_back(range(node));
      run->node_index = k;
    }
    uses_threads = uses_threads || !run->is_small;
    works_.insert(works_.begin() + static_cast<ptrdiff_t>(before++), std::move(run));
  }
  n_ggml_runs_ += uses_threads ? 1 : 0;
}

void WorkList::add_help(std::unique_ptr<Work> work, int node, const char* name,
                        const MemoryRange& writes) {
  work->node_index = node;
  work->name = name;
  work->writes.push_back(writes);
  works_.push_back(std::move(work));
}

void WorkList::reserve_prepared() {
  if (kernels_.matmul == nullptr) {
    return;
  }
  for (int i = 0; i < nodes_.size(); ++i) {
    const ggml_tensor& node = nodes_.at(i);
    if (node.op != GGML_OP_MUL_MAT) {
      continue;
    }
    const MatmulKernel kernel = kernels_.matmul->kernel(node.src[0]->type, node.src[1]->ne[1]);
    if (kernel.multiply != nullptr && has_f32_rows(*node.src[1])) {
      place_bytes_ =
          std::max(place_bytes_, prepared_bytes(*kernels_.matmul, kernel.form, *node.src[1]));
    }
  }
  places_.resize(kPreparedPlaces);
  shared_bytes_ = kPreparedPlaces * place_bytes_;
}

MemoryRange WorkList::prepared(int node, ActivationForm form) {
  const ggml_tensor& x = *nodes_.at(node).src[1];
  const ggml_tensor& source = reshaped_from(x);
  for (const Prepared& place : places_) {
    if (place.x == &source && place.form == form && source.ne[0] == x.ne[0]) {
      return place.range;
    }
  }
  const size_t offset = next_place_ * place_bytes_;
  const MemoryRange range = {&kShared, offset, offset + prepared_bytes(*kernels_.matmul, form, x)};
  places_[next_place_] = {source.ne[0] == x.ne[0] ? &source : &x, form, range};
  next_place_ = (next_place_ + 1) % kPreparedPlaces;
  const MatmulKernels& kernels = *kernels_.matmul;
  const auto prepare = [&kernels, form, &x, offset](int64_t first, int64_t end,
                                                    const WorkMemory& memory) {
    const size_t row_bytes = kernels.prepared_size(form, x.ne[0]);
    for (int64_t row = first; row < end; ++row) {
      kernels.prepare(form, f32_row(x, row_at(x, row)), x.ne[0],
                      memory.shared + offset + static_cast<size_t>(row) * row_bytes);
    }
  };
  std::unique_ptr<Work> work = make_range_work(*this, row_count(x), x.ne[0], prepare);
  work->reads.push_back(this->range(x));
  add_help(std::move(work), node, "PREPARE", range);
  return range;
}

MemoryRange WorkList::rope_table(int node) {
  const ggml_tensor& rope = nodes_.at(node);
  std::vector<int64_t> key = {reinterpret_cast<intptr_t>(rope.src[1]),
                              reinterpret_cast<intptr_t>(rope.src[2])};
  key.insert(key.end(), std::begin(rope.op_params), std::end(rope.op_params));
  if (const auto found = rope_tables_.find(key); found != rope_tables_.end()) {
    return found->second;
  }
  const auto n_dims = static_cast<size_t>(rope.op_params[1]);
  const size_t bytes = static_cast<size_t>(rope.src[1]->ne[0]) * n_dims * sizeof(float);
  const MemoryRange range = {&kShared, shared_bytes_, shared_bytes_ + bytes};
  shared_bytes_ += aligned_size(bytes);
  const Shares shares = share_out(rope.src[1]->ne[0], rope.op_params[1], 1024);
  std::unique_ptr<Work> work = make_rope_table(rope, range.begin, shares);
  work->elements = rope.src[1]->ne[0] * rope.op_params[1];
  work->reads.push_back(this->range(*rope.src[1]));
  if (rope.src[2] != nullptr) {
    work->reads.push_back(this->range(*rope.src[2]));
  }
  add_help(std::move(work), node, "ROPE_TABLE", range);
  rope_tables_[key] = range;
  return range;
}

MemoryRange WorkList::attention_parts(size_t bytes) {
  if (bytes > attention_parts_.end - attention_parts_.begin) {
    attention_parts_ = {&kShared, shared_bytes_, shared_bytes_ + bytes};
    shared_bytes_ += aligned_size(bytes);
  }
  return {&kShared, attention_parts_.begin, attention_parts_.begin + bytes};
}

}  // namespace executorch_ggml
