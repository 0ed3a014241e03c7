// Products: MUL_MAT, with the bias and the sum that may follow it.
#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/aligned_buffer.h"
#include "runtime/cpu/tensors.h"
#include "runtime/cpu/work_list.h"

namespace executorch_ggml {
namespace {

// Bytes of weights that a task of few tokens reads. A thread that reads on where it left off
// gets more from memory than one that jumps, so tasks are long; the last ones are short, so that
// the threads end together.
constexpr int64_t kLongTaskBytes = 1024 * 1024;
constexpr int64_t kShortTaskBytes = 64 * 1024;
// Products of more tokens than this keep their weights in a cache meanwhile.
constexpr int64_t kFewTokens = 4;
// Bytes of activations that stay in a core's cache while rows of weights pass over them. A block
// of fewer tokens than these is not worth unpacking the weights again.
constexpr int64_t kBlockBytes = 1024 * 1024;
constexpr int64_t kLeastBlock = 96;
static_assert(kLeastBlock >= 2 * kLeastTokens);

// What a sum of the result's extents adds to it.
enum class Addend { None, Bias, Residual };

class MatmulWork final : public Work {
 public:
  // y: the product itself, or what was added to it last.
  MatmulWork(const MatmulKernels& kernels, const ggml_tensor& product, const ggml_tensor& y,
             const ggml_tensor* bias, const ggml_tensor* residual, size_t prepared, int n_threads)
      : kernel_(kernels.kernel(product.src[0]->type, product.src[1]->ne[1])),
        w_(*product.src[0]),
        x_(*product.src[1]),
        y_(y),
        bias_(bias),
        residual_(residual),
        prepared_(prepared),
        x_row_bytes_(kernels.prepared_size(kernel_.form, x_.ne[0])),
        planes_(x_.ne[2] * x_.ne[3]),
        tokens_(x_.ne[1]) {
    share_rows(n_threads);
    const int64_t most = std::max(kBlockBytes / static_cast<int64_t>(x_row_bytes_), kLeastBlock);
    n_blocks_ = (tokens_ + most - 1) / most;
    n_tasks = static_cast<uint32_t>(n_shares() * n_blocks_ * planes_);
    elements = ggml_nelements(&w_) * std::max<int64_t>(1, tokens_ / 4);
    thread_bytes = kernels.scratch_size(w_.type, w_.ne[0]);
    if (tokens_ <= kFewTokens && n_threads > 1) {
      stores_apart = true;
      result_ = aligned_size(thread_bytes);
      thread_bytes = result_ + static_cast<size_t>(most_rows() * tokens_) * sizeof(float);
    }
    weight_bytes = ggml_nbytes(&w_);
  }

  void run(uint32_t task, const WorkMemory& memory) override {
    const Part part = part_of(task);
    const RowAt& at = part.of_y;
    // Groups of planes of x share a plane of w.
    const RowAt of_w = {part.first, at.i2 / (x_.ne[2] / w_.ne[2]), at.i3 / (x_.ne[3] / w_.ne[3])};
    const auto prepared_row = static_cast<size_t>((at.i3 * x_.ne[2] + at.i2) * tokens_ + at.i1);
    kernel_.multiply({
        .w = row_data(w_, of_w),
        .row_stride = w_.nb[1],
        .n_rows = part.n_rows,
        .k = w_.ne[0],
        .x = memory.shared + prepared_ + prepared_row * x_row_bytes_,
        .n_tokens = part.n_tokens,
        .y = stores_apart ? result(memory) : f32_row(y_, at) + part.first,
        .y_stride = stores_apart ? part.n_rows : y_.ne[0],
        .bias = bias_ == nullptr ? nullptr : static_cast<const float*>(bias_->data) + part.first,
        .residual =
            stores_apart || residual_ == nullptr ? nullptr : f32_row(*residual_, at) + part.first,
        .scratch = memory.thread,
    });
  }

  void store(uint32_t task, const WorkMemory& memory) override {
    const Part part = part_of(task);
    RowAt at = part.of_y;
    for (int64_t token = 0; token < part.n_tokens; ++token, ++at.i1) {
      const float* const sums = result(memory) + token * part.n_rows;
      float* const y = f32_row(y_, at) + part.first;
      if (residual_ == nullptr) {
        std::copy_n(sums, part.n_rows, y);
        continue;
      }
      const float* const residual = f32_row(*residual_, at) + part.first;
      std::transform(sums, sums + part.n_rows, residual, y, std::plus<>());
    }
  }

 private:
  // What a task computes: rows of w from `first`, for tokens from of_y.i1.
  struct Part {
    int64_t first;
    int64_t n_rows;
    int64_t n_tokens;
    RowAt of_y;
  };

  Part part_of(uint32_t task) const {
    const int64_t per_plane = static_cast<int64_t>(n_tasks) / planes_;
    const int64_t plane = task / per_plane;
    const int64_t block = task % per_plane / n_shares();
    const int64_t token = tokens_ * block / n_blocks_;
    const auto share = static_cast<size_t>(task % n_shares());
    return {.first = first_rows_[share],
            .n_rows = first_rows_[share + 1] - first_rows_[share],
            .n_tokens = tokens_ * (block + 1) / n_blocks_ - token,
            .of_y = {token, plane % x_.ne[2], plane / x_.ne[2]}};
  }

  float* result(const WorkMemory& memory) const {
    return reinterpret_cast<float*>(memory.thread + result_);
  }

  int64_t n_shares() const { return static_cast<int64_t>(first_rows_.size()) - 1; }
  // The first share is the longest. There is none of a matrix without rows.
  int64_t most_rows() const { return n_shares() == 0 ? 0 : first_rows_[1]; }

  // Each share is a part of the rows that are left, between the longest and the shortest task.
  void share_rows(int n_threads) {
    const auto rows_of = [&](int64_t bytes) { return bytes / static_cast<int64_t>(w_.nb[1]); };
    const int64_t rows = w_.ne[1];
    first_rows_ = {0};
    while (first_rows_.back() < rows) {
      const int64_t left = rows - first_rows_.back();
      int64_t share = 2 * kRowGroup;
      if (tokens_ <= kFewTokens) {
        share = std::clamp(left * planes_ / (2 * n_threads), rows_of(kShortTaskBytes),
                           std::max<int64_t>(1, rows_of(kLongTaskBytes)));
        share = std::max<int64_t>(1, share / kRowGroup) * kRowGroup;
      }
      first_rows_.push_back(first_rows_.back() + std::min(share, left));
    }
  }

  const MatmulKernel kernel_;
  const ggml_tensor& w_;
  const ggml_tensor& x_;
  const ggml_tensor& y_;
  const ggml_tensor* const bias_;
  const ggml_tensor* const residual_;
  const size_t prepared_;
  const size_t x_row_bytes_;
  const int64_t planes_;
  const int64_t tokens_;
  int64_t n_blocks_ = 1;             // of tokens
  size_t result_ = 0;                // offset in WorkMemory::thread
  std::vector<int64_t> first_rows_;  // of each share, then the number of rows
};

const ggml_tensor& other_operand(const ggml_tensor& sum, const ggml_tensor& one) {
  return sum.src[0] == &one ? *sum.src[1] : *sum.src[0];
}

Addend addend_of(const ggml_tensor& product, const ggml_tensor& sum) {
  if (sum.op != GGML_OP_ADD || !ggml_is_contiguous(&sum)) {
    return Addend::None;
  }
  const ggml_tensor& other = other_operand(sum, product);
  if (!ggml_is_contiguous(&other) || other.type != GGML_TYPE_F32) {
    return Addend::None;
  }
  if (ggml_are_same_shape(&other, &product)) {
    return Addend::Residual;
  }
  const bool is_bias = other.ne[0] == product.ne[0] && row_count(other) == 1;
  return is_bias && ggml_are_same_shape(&sum, &product) ? Addend::Bias : Addend::None;
}

}  // namespace

int make_matmul(WorkList& list, int i) {
  const GraphNodes& nodes = list.nodes();
  const ggml_tensor& product = nodes.at(i);
  const MatmulKernels* const kernels = list.kernels().matmul;
  if (product.op != GGML_OP_MUL_MAT || kernels == nullptr) {
    return -1;
  }
  const ggml_tensor& w = *product.src[0];
  const ggml_tensor& x = *product.src[1];
  const MatmulKernel kernel = kernels->kernel(w.type, x.ne[1]);
  // A weight in a buffer of ggml's own layouts is not what its type says.
  if (kernel.multiply == nullptr || !has_f32_rows(x) || w.nb[0] != ggml_type_size(w.type) ||
      (w.buffer != nullptr && !ggml_backend_buffer_is_host(w.buffer)) ||
      !ggml_is_contiguous(&product)) {
    return -1;
  }
  int last = i;
  const ggml_tensor* bias = nullptr;
  const ggml_tensor* residual = nullptr;
  const auto fuse_sum = [&](Addend wanted) -> const ggml_tensor* {
    const ggml_tensor& y = nodes.at(last);
    if (!nodes.feeds_only_next(last) || addend_of(y, nodes.at(nodes.next(last))) != wanted) {
      return nullptr;
    }
    const ggml_tensor& sum = nodes.at(nodes.next(last));
    const ggml_tensor& other = other_operand(sum, y);
    // Rows are stored while others still are read: a sum may only replace its own operand.
    const MemoryRange at = list.range(sum);
    const bool in_place = list.range(other).begin == at.begin && wanted == Addend::Residual;
    if (list.range(w).overlaps(at) || (list.range(other).overlaps(at) && !in_place)) {
      return nullptr;
    }
    last = nodes.next(last);
    return &other;
  };
  bias = fuse_sum(Addend::Bias);
  residual = fuse_sum(Addend::Residual);

  const MemoryRange prepared = list.prepared(i, kernel.form);
  list.add(std::make_unique<MatmulWork>(*kernels, product, nodes.at(last), bias, residual,
                                        prepared.begin, list.n_threads()),
           last, {&w, bias, residual});
  list.reads_shared(prepared);
  return last;
}

}  // namespace executorch_ggml
