// Works whose tasks are shares of rows.
#pragma once

#include <memory>
#include <utility>

#include "runtime/cpu/tensors.h"
#include "runtime/cpu/work_list.h"

namespace executorch_ggml {

// A task of fewer elements costs more to take than to run.
inline constexpr int64_t kTaskElements = 16384;

// A task calls run(first, end, memory) with its share of `rows` rows.
template <typename Run>
class RangeWork final : public Work {
 public:
  RangeWork(int64_t rows, const Shares& shares, Run run)
      : rows_(rows), shares_(shares), run_(std::move(run)) {
    n_tasks = shares.n_tasks();
  }

  void run(uint32_t task, const WorkMemory& memory) override {
    const Shares::Part part = shares_.part(task);
    run_(part.begin(rows_), part.end(rows_), memory);
  }

 private:
  const int64_t rows_;
  const Shares shares_;
  const Run run_;
};

template <typename Run>
std::unique_ptr<Work> make_range_work(const WorkList& list, int64_t rows, int64_t per_row,
                                      Run run) {
  auto work = std::make_unique<RangeWork<Run>>(rows, list.share_out(rows, per_row, kTaskElements),
                                               std::move(run));
  work->elements = rows * per_row;
  return work;
}

// Adds the work of node `node` that runs compute(at, memory) for every row of `of`.
template <typename Compute>
void add_rows(WorkList& list, int node, const ggml_tensor& of,
              std::initializer_list<const ggml_tensor*> reads, Compute compute,
              size_t thread_bytes = 0) {
  auto work = make_range_work(
      list, row_count(of), of.ne[0],
      [&of, compute = std::move(compute)](int64_t first, int64_t end, const WorkMemory& memory) {
        for (int64_t row = first; row < end; ++row) {
          compute(row_at(of, row), memory);
        }
      });
  work->thread_bytes = thread_bytes;
  list.add(std::move(work), node, reads);
}

}  // namespace executorch_ggml
