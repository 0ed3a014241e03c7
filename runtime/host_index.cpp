// Host-side kernels that read or make indices.
#include <type_traits>

#include "runtime/host_kernel.h"

namespace executorch_ggml {
namespace {

// The index, or -1 and a report if it is outside [0, n).
int64_t checked(int32_t index, int64_t n, HostCall& call) {
  if (0 <= index && index < n) {
    return index;
  }
  call.report(ComputedCheck::Failure::Index, index);
  return -1;
}

template <typename T>
void gather(const HostTask& task) {
  const int64_t n = task.operand(0).ne[0];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    // The row of x is read by index, so it never broadcasts.
    const Row<T> row = task.row<T>(0, at);
    const Row<T> x = {row.data, task.operand(0).nb[0]};
    const Row<int32_t> index = task.row<int32_t>(1, at);
    T* out = task.out<T>(r);
    for (int64_t i = 0; i < task.result->ne[0]; ++i) {
      const int64_t found = checked(index[i], n, task.call);
      out[i] = found < 0 ? T{0} : x[found];
    }
  }
}

template <typename T>
T add_checked(T a, T b, HostCall& call) {
  if constexpr (std::is_same_v<T, int32_t>) {
    T sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) {
      call.report(ComputedCheck::Failure::Overflow, int64_t{a} + int64_t{b});
    }
    return sum;
  } else {
    return a + b;
  }
}

template <typename T>
T mul_checked(T a, T b, HostCall& call) {
  if constexpr (std::is_same_v<T, int32_t>) {
    T result = 0;
    if (__builtin_mul_overflow(a, b, &result)) {
      call.report(ComputedCheck::Failure::Overflow, int64_t{a} * int64_t{b});
    }
    return result;
  } else {
    return a * b;
  }
}

template <typename T>
T combined(T old, T value, Scatter mode, HostCall& call) {
  switch (mode) {
    case Scatter::Set:
      return value;
    case Scatter::Add:
      return add_checked(old, value, call);
    case Scatter::Mul:
      return mul_checked(old, value, call);
    case Scatter::Max:  // NaN wins
      return value > old || value != value ? value : old;
    case Scatter::Min:
      return value < old || value != value ? value : old;
  }
  return old;
}

template <typename T>
void scatter(const HostTask& task) {
  const auto mode = static_cast<Scatter>(task.call.ints[params::host_scatter::kMode]);
  const ggml_tensor& src = task.operand(2);
  const int64_t n = task.result->ne[0];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const Row<T> x = task.row<T>(0, at);
    T* out = task.out<T>(r);
    for (int64_t i = 0; i < n; ++i) {
      out[i] = x[i];
    }
    if (at.i1 >= src.ne[1] || at.i2 >= src.ne[2] || at.i3 >= src.ne[3]) {
      continue;
    }
    const Row<int32_t> index = task.row<int32_t>(1, at);
    const Row<T> values = task.row<T>(2, at);
    for (int64_t i = 0; i < src.ne[0]; ++i) {
      const int64_t found = checked(index[i], n, task.call);
      if (found >= 0) {
        out[found] = combined(out[found], values[i], mode, task.call);
      }
    }
  }
}

}  // namespace

void host_gather(const HostTask& task) {
  if (task.result->type == GGML_TYPE_F32) {
    gather<float>(task);
  } else {
    gather<int32_t>(task);
  }
}

void host_scatter(const HostTask& task) {
  if (task.result->type == GGML_TYPE_F32) {
    scatter<float>(task);
  } else {
    scatter<int32_t>(task);
  }
}

void host_wrap_ids(const HostTask& task) {
  const int64_t limit = task.call.limit();
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const Row<int32_t> ids = task.row<int32_t>(0, task.position(r));
    int32_t* out = task.out<int32_t>(r);
    for (int64_t i = 0; i < task.result->ne[0]; ++i) {
      const int64_t id = ids[i];
      const bool fits = -limit <= id && id < limit;
      if (!fits) {
        task.call.report(ComputedCheck::Failure::Index, id);
      }
      out[i] = fits ? static_cast<int32_t>(id < 0 ? id + limit : id) : 0;
    }
  }
}

void host_iota(const HostTask& task) {
  using namespace params::host_iota;
  const int64_t start = task.call.ints[kStart];
  const int64_t step = task.call.ints[kStep];
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    int32_t* out = task.out<int32_t>(r);
    for (int64_t i = 0; i < task.result->ne[0]; ++i) {
      int64_t value = 0;
      if (__builtin_mul_overflow(step, i, &value) || __builtin_add_overflow(value, start, &value)) {
        task.call.report(ComputedCheck::Failure::Overflow, value);
      }
      out[i] = wrap(value, IntType::I64, task.call);
    }
  }
}

}  // namespace executorch_ggml
