// What is left to ggml, and kernels of ours that are nodes of the graph.
#include <algorithm>
#include <array>
#include <vector>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "runtime/cpu/row_works.h"
#include "runtime/host_kernel.h"
#include "runtime/platform/amx_tiles.h"
#include "runtime/thread_pool.h"

namespace executorch_ggml {
namespace {

// Fewer elements than these are computed before ggml's threads are awake.
constexpr int64_t kWorthThreads = 65536;

ggml_context_ptr make_graph_context(size_t n_nodes) {
  return ggml_context_ptr(ggml_init({.mem_size = ggml_graph_overhead_custom(n_nodes, false),
                                     .mem_buffer = nullptr,
                                     .no_alloc = true}));
}

class GgmlRun final : public Work {
 public:
  GgmlRun(const GraphNodes& nodes, int first, int last, int n_threads) {
    const auto n = static_cast<size_t>(last - first + 1);
    context_ = make_graph_context(n);
    graph_ = ggml_new_graph_custom(context_.get(), n, /*grads=*/false);
    for (int i = first; i <= last; ++i) {
      ggml_tensor& node = nodes.at(i);
      ggml_graph_add_node(graph_, &node);
      if (is_view(node)) {
        continue;
      }
      elements += ggml_nelements(&node);
      if (node.op == GGML_OP_MUL_MAT) {
        elements += ggml_nelements(&node) * node.src[0]->ne[0];
      }
    }
    is_small = elements < kWorthThreads || n_threads == 1;
    plan_ = ggml_graph_plan(graph_, is_small ? 1 : n_threads, /*threadpool=*/nullptr);
    thread_bytes = plan_.work_size;
  }

  void use(std::shared_ptr<ThreadPool> threads) {
    threads_ = std::move(threads);
    plan_.threadpool = threads_->ggml();
  }

  void run(uint32_t, const WorkMemory& memory) override {
    plan_.work_data = reinterpret_cast<uint8_t*>(memory.thread);
    const AmxTileScope tiles;
    // Without a callback that stops it ggml has nothing to report.
    if (threads_ == nullptr) {
      ggml_graph_compute(graph_, &plan_);
    } else {
      const ThreadPool::Lease lease(*threads_);
      ggml_graph_compute(graph_, &plan_);
    }
  }

 private:
  std::shared_ptr<ThreadPool> threads_;
  ggml_context_ptr context_;
  ggml_cgraph* graph_ = nullptr;
  ggml_cplan plan_{};
};

// A node of ggml's in shares of its outermost axis, which a thread each gives to ggml as nodes of
// their own: ggml's threads, with their barriers, are not needed.
class SharedOutNode final : public Work {
 public:
  SharedOutNode(ggml_tensor& node, size_t axis, const Shares& shares) : node_(node), axis_(axis) {
    n_tasks = shares.n_tasks();
    elements = ggml_nelements(&node);
    shares_.resize(n_tasks);
    for (uint32_t task = 0; task < n_tasks; ++task) {
      Share& share = shares_[task];
      const int64_t extent = node.ne[axis];
      share.first = shares.part(task).begin(extent);
      const int64_t end = shares.part(task).end(extent);
      share.node = node;
      share.node.ne[axis] = end - share.first;
      for (size_t i = 0; i < share.sources.size() && node.src[i] != nullptr; ++i) {
        share.sources[i] = *node.src[i];
        share.sources[i].ne[axis] = std::min(share.node.ne[axis], node.src[i]->ne[axis]);
        share.node.src[i] = &share.sources[i];
      }
      share.context = make_graph_context(1);
      share.graph = ggml_new_graph_custom(share.context.get(), 1, /*grads=*/false);
      ggml_graph_add_node(share.graph, &share.node);
      share.plan = ggml_graph_plan(share.graph, 1, /*threadpool=*/nullptr);
      thread_bytes = std::max(thread_bytes, share.plan.work_size);
    }
  }

  // A source is as long as the node along the axis, or serves all of it.
  static bool fits(const ggml_tensor& node, size_t axis) {
    return std::ranges::all_of(node.src, [&](const ggml_tensor* source) {
      return source == nullptr || source->ne[axis] == node.ne[axis] || source->ne[axis] == 1;
    });
  }

  void run(uint32_t task, const WorkMemory& memory) override {
    Share& share = shares_[task];
    share.node.data = place(node_, share);
    for (size_t i = 0; i < share.sources.size() && node_.src[i] != nullptr; ++i) {
      share.sources[i].data = place(*node_.src[i], share);
    }
    share.plan.work_data = reinterpret_cast<uint8_t*>(memory.thread);
    ggml_graph_compute(share.graph, &share.plan);
  }

 private:
  struct Share {
    int64_t first = 0;  // along the axis
    ggml_tensor node{};
    std::array<ggml_tensor, 2> sources{};
    ggml_context_ptr context;
    ggml_cgraph* graph = nullptr;
    ggml_cplan plan{};
  };

  char* place(const ggml_tensor& whole, const Share& share) const {
    const bool serves_all = whole.ne[axis_] != node_.ne[axis_];
    return static_cast<char*>(whole.data) +
           (serves_all ? 0 : static_cast<size_t>(share.first) * whole.nb[axis_]);
  }

  ggml_tensor& node_;
  const size_t axis_;
  std::vector<Share> shares_;
};

// The outermost axis of several elements where a node's parts along it depend on the same parts of
// its sources alone; 0: none.
size_t independent_axis(const ggml_tensor& node) {
  size_t axis = 3;
  while (axis > 0 && node.ne[axis] == 1) {
    --axis;
  }
  switch (node.op) {
    case GGML_OP_ADD:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV:
    case GGML_OP_SCALE:
    case GGML_OP_SQR:
    case GGML_OP_SQRT:
    case GGML_OP_LOG:
    case GGML_OP_SIN:
    case GGML_OP_COS:
    case GGML_OP_CLAMP:
    case GGML_OP_UNARY:
    case GGML_OP_GLU:
      return axis;  // element by element
    case GGML_OP_DUP:
    case GGML_OP_CPY:
    case GGML_OP_CONT:
      return ggml_are_same_shape(&node, node.src[0]) ? axis : 0;
    case GGML_OP_SUM_ROWS:
    case GGML_OP_MEAN:
    case GGML_OP_CUMSUM:
    case GGML_OP_L2_NORM:
    case GGML_OP_NORM:
    case GGML_OP_RMS_NORM:
      return axis;  // row by row
    case GGML_OP_UPSCALE:
      return axis >= 2 ? axis : 0;  // plane by plane
    case GGML_OP_GROUP_NORM:
      return axis == 3 ? axis : 0;  // image by image
    case GGML_OP_CONCAT:
      return static_cast<size_t>(node.op_params[0]) != axis ? axis : 0;
    default:
      return 0;
  }
}

class HostCallWork final : public Work {
 public:
  HostCallWork(ggml_tensor& node, const CustomParams& params, int64_t size, const Shares& shares)
      : node_(node), params_(params), shares_(shares) {
    n_tasks = shares.n_tasks();
    elements = size;
  }

  void run(uint32_t task, const WorkMemory&) override {
    const Shares::Part part = shares_.part(task);
    params_.run(&node_, static_cast<int>(part.index), static_cast<int>(part.of), params_.user_data);
  }

 private:
  ggml_tensor& node_;
  const CustomParams params_;
  const Shares shares_;
};

}  // namespace

int make_host_call(WorkList& list, int i) {
  ggml_tensor& node = list.nodes().at(i);
  if (node.op != GGML_OP_CUSTOM) {
    return -1;
  }
  // Most do more than pass their elements on.
  int64_t size = ggml_nelements(&node) * 8;
  Shares shares;
  if (const HostCall* const call = host_call_of(node); call != nullptr) {
    const int64_t n_units = call->n_units > 0 ? call->n_units : row_count(node);
    size = std::max(call->size, size);
    const int64_t per_unit = size / std::max<int64_t>(n_units, 1);
    const int64_t least = std::min(call->least, n_units / list.n_threads());
    shares = list.share_out(n_units, per_unit, std::max(least * per_unit, kTaskElements));
  }
  list.add(std::make_unique<HostCallWork>(node, custom_params(node), size, shares), i,
           {node.src[0], node.src[1], node.src[2], node.src[3], node.src[4], node.src[5],
            node.src[6], node.src[7], node.src[8], node.src[9]});
  return i;
}

int make_shared_out(WorkList& list, int i) {
  ggml_tensor& node = list.nodes().at(i);
  const size_t axis = independent_axis(node);
  const bool has_more_sources = node.src[2] != nullptr;
  if (axis == 0 || has_more_sources || !SharedOutNode::fits(node, axis)) {
    return -1;
  }
  // Sums have fewer elements than what they are made from.
  const int64_t n = std::max(ggml_nelements(&node), ggml_nelements(node.src[0]));
  const Shares shares = list.share_out(node.ne[axis], n / node.ne[axis], kTaskElements);
  if (n < kWorthThreads || shares.n_tasks() == 1) {
    return -1;
  }
  list.add(std::make_unique<SharedOutNode>(node, axis, shares), i, {node.src[0], node.src[1]});
  return i;
}

Status make_ggml_run(const GraphNodes& nodes, int first, int last, int n_threads,
                     std::shared_ptr<ThreadPool>& threads, std::unique_ptr<Work>& out) {
  auto run = std::make_unique<GgmlRun>(nodes, first, last, n_threads);
  if (!run->is_small) {
    if (threads == nullptr) {
      // Threads of ours compute what follows: ggml's must not hold the cores meanwhile.
      EG_RETURN_IF_ERROR(ThreadPool::acquire(n_threads, ThreadPool::Between::Sleep, threads));
    }
    run->use(threads);
  }
  out = std::move(run);
  return {};
}

}  // namespace executorch_ggml
