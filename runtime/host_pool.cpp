// Pooling over up to three dims, with every rounding and counting that torch knows.
#include <algorithm>
#include <cmath>

#include "runtime/host_kernel.h"

namespace executorch_ggml {
namespace {

// The positions of one output along an axis.
struct Window {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 1;
  int64_t counted = 0;  // with the padding that an average counts
};

Window window_of(const HostCall& call, size_t axis, int64_t extent, int64_t output, int64_t i) {
  using namespace params::host_pool;
  if (call.ints[kAdaptive] != 0) {
    const int64_t begin = i * extent / output;
    const int64_t end = ((i + 1) * extent + output - 1) / output;
    return {begin, end, 1, end - begin};
  }
  const int64_t kernel = call.ints[kKernel0 + axis];
  const int64_t padding = call.ints[kPadding0 + axis];
  const int64_t dilation = call.ints[kDilation0 + axis];
  const int64_t start = i * call.ints[kStride0 + axis] - padding;
  const int64_t stop = start + (kernel - 1) * dilation + 1;
  Window w = {start, std::min(stop, extent), dilation, std::min(stop, extent + padding) - start};
  if (start < 0) {
    w.begin = start + (-start + dilation - 1) / dilation * dilation;
  }
  return w;
}

struct Plane {
  const ggml_tensor& x;
  int64_t i3;

  float at(int64_t i0, int64_t i1, int64_t i2) const {
    const char* data = static_cast<const char*>(x.data) + static_cast<size_t>(i0) * x.nb[0] +
                       static_cast<size_t>(i1) * x.nb[1] + static_cast<size_t>(i2) * x.nb[2] +
                       static_cast<size_t>(i3) * x.nb[3];
    return *reinterpret_cast<const float*>(data);
  }
};

template <typename F>
void for_each(const Window& w0, const Window& w1, const Window& w2, F f) {
  for (int64_t i2 = w2.begin; i2 < w2.end; i2 += w2.step) {
    for (int64_t i1 = w1.begin; i1 < w1.end; i1 += w1.step) {
      for (int64_t i0 = w0.begin; i0 < w0.end; i0 += w0.step) {
        f(i0, i1, i2);
      }
    }
  }
}

float average(const HostCall& call, const Plane& plane, const Window& w0, const Window& w1,
              const Window& w2) {
  using namespace params::host_pool;
  double sum = 0;
  int64_t covered = 0;
  for_each(w0, w1, w2, [&](int64_t i0, int64_t i1, int64_t i2) {
    sum += static_cast<double>(plane.at(i0, i1, i2));
    ++covered;
  });
  int64_t divisor = call.ints[kDivisor];
  if (divisor == 0) {
    divisor = call.ints[kCountIncludePad] != 0 ? w0.counted * w1.counted * w2.counted : covered;
  }
  return static_cast<float>(sum / static_cast<double>(divisor));
}

// The flat index of the maximum in the plane; the first of equals, but the last NaN.
int64_t maximum(const Plane& plane, const Window& w0, const Window& w1, const Window& w2,
                float& value) {
  int64_t best = -1;
  for_each(w0, w1, w2, [&](int64_t i0, int64_t i1, int64_t i2) {
    const float found = plane.at(i0, i1, i2);
    if (best < 0 || found > value || std::isnan(found)) {
      value = found;
      best = (i2 * plane.x.ne[1] + i1) * plane.x.ne[0] + i0;
    }
  });
  return best;
}

}  // namespace

void host_pool(const HostTask& task) {
  const ggml_tensor& x = task.operand(0);
  const ggml_tensor& result = *task.result;
  const auto kind = static_cast<HostPool>(task.call.ints[params::host_pool::kKind]);
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const Plane plane = {x, at.i3};
    const Window w1 = window_of(task.call, 1, x.ne[1], result.ne[1], at.i1);
    const Window w2 = window_of(task.call, 2, x.ne[2], result.ne[2], at.i2);
    for (int64_t i = 0; i < result.ne[0]; ++i) {
      const Window w0 = window_of(task.call, 0, x.ne[0], result.ne[0], i);
      if (kind == HostPool::Avg) {
        task.out<float>(r)[i] = average(task.call, plane, w0, w1, w2);
        continue;
      }
      float value = -INFINITY;
      const int64_t index = maximum(plane, w0, w1, w2, value);
      if (kind == HostPool::Max) {
        task.out<float>(r)[i] = value;
      } else {
        task.out<int32_t>(r)[i] = static_cast<int32_t>(index);
      }
    }
  }
}

}  // namespace executorch_ggml
