// What attention leaves to a kernel of our own.
#include <algorithm>
#include <cmath>

#include "runtime/host_kernel.h"

namespace executorch_ggml {

// Operands: attended [d, heads, queries, batch], and the mask [keys, queries, heads or 1,
// batch or 1] that was added to the scores. The softmax of a row of -inf alone is NaN.
void zero_blind_rows(const HostTask& task) {
  const int64_t keys = task.operand(1).ne[0];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const Row<float> mask = task.row<float>(1, {at.i2, at.i1, at.i3});
    int64_t key = 0;
    while (key < keys && mask[key] == -INFINITY) {
      ++key;
    }
    const int64_t n = task.result->ne[0];
    if (key == keys) {
      std::fill_n(task.out<float>(r), n, 0.0F);
    } else {
      std::copy_n(task.row<float>(0, at).begin(), n, task.out<float>(r));
    }
  }
}

}  // namespace executorch_ggml
