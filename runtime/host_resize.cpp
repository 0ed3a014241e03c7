// Interpolation of images, with the coordinates and weights that torch computes, in F32 as
// it does: which element a coordinate falls on depends on the rounding.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/host_kernel.h"

namespace executorch_ggml {
namespace {

struct Tap {
  int64_t index;
  float weight;
};

// The elements that each result along an axis is made of.
struct Axis {
  std::vector<Tap> taps;
  std::vector<size_t> begin;  // of each result's taps; one more for the end

  std::span<const Tap> of(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return std::span(taps).subspan(begin[at], begin[at + 1] - begin[at]);
  }
};

float cubic_near(float x, float a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
float cubic_far(float x, float a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

constexpr float kCubic = -0.75F;
constexpr float kCubicAntialias = -0.5F;

float triangle(float x) { return std::max(1.0F - std::abs(x), 0.0F); }

float cubic_filter(float x) {
  x = std::abs(x);
  if (x < 1) {
    return cubic_near(x, kCubicAntialias);
  }
  return x < 2 ? cubic_far(x, kCubicAntialias) : 0.0F;
}

// The element that a position from -1 on falls into, the last one beyond the end.
int64_t element_of(float position, int64_t extent) {
  if (!(position < static_cast<float>(extent))) {
    return extent - 1;
  }
  return std::min(static_cast<int64_t>(std::floor(position)), extent - 1);
}

struct Geometry {
  HostResize kind;
  int64_t extent;
  int64_t output;
  float step;  // input positions per result
  bool align_corners;

  // The position of a result's centre, where corners of pixels or their centres meet.
  float source(int64_t i) const {
    const auto position = static_cast<float>(i);
    return align_corners ? step * position : step * (position + 0.5F) - 0.5F;
  }
};

void add_linear(const Geometry& g, int64_t i, std::vector<Tap>& taps) {
  if (g.output == g.extent) {
    taps.insert(taps.end(), {{i, 1.0F}, {i, 0.0F}});
    return;
  }
  const float source = std::max(g.source(i), 0.0F);
  const int64_t first = element_of(source, g.extent);
  const float weight = std::clamp(source - static_cast<float>(first), 0.0F, 1.0F);
  taps.insert(taps.end(), {{first, 1.0F - weight}, {std::min(first + 1, g.extent - 1), weight}});
}

void add_cubic(const Geometry& g, int64_t i, std::vector<Tap>& taps) {
  const float source = g.source(i);
  const int64_t first = element_of(source, g.extent);
  const float t = std::clamp(source - static_cast<float>(first), 0.0F, 1.0F);
  const float weights[] = {cubic_far(t + 1, kCubic), cubic_near(t, kCubic),
                           cubic_near(1 - t, kCubic), cubic_far(2 - t, kCubic)};
  for (int64_t k = 0; k < 4; ++k) {
    taps.push_back({std::clamp(first + k - 1, int64_t{0}, g.extent - 1), weights[k]});
  }
}

// A window that grows with the step, so that every element counts.
void add_antialiased(const Geometry& g, int64_t i, std::vector<Tap>& taps) {
  const bool is_linear = g.kind == HostResize::LinearAa;
  const float reach = is_linear ? 1.0F : 2.0F;
  const float support = g.step >= 1 ? reach * g.step : reach;
  const float shrink = g.step >= 1 ? 1.0F / g.step : 1.0F;
  const float center = g.step * (static_cast<float>(i) + 0.5F);
  const int64_t first = element_of(std::max(center - support + 0.5F, 0.0F), g.extent);
  const int64_t end = element_of(center + support + 0.5F, g.extent + 1);
  const size_t begin = taps.size();
  float total = 0;
  for (int64_t k = first; k < end; ++k) {
    const float x = (static_cast<float>(k) - center + 0.5F) * shrink;
    const float weight = is_linear ? triangle(x) : cubic_filter(x);
    taps.push_back({k, weight});
    total += weight;
  }
  for (size_t k = begin; total != 0 && k < taps.size(); ++k) {
    taps[k].weight /= total;
  }
}

void add_taps(const Geometry& g, int64_t i, std::vector<Tap>& taps) {
  const float position = static_cast<float>(i);
  switch (g.kind) {
    case HostResize::Nearest:
    case HostResize::NearestExact: {
      const bool exact = g.kind == HostResize::NearestExact;
      const float source = exact ? g.step * (position + 0.5F) : g.step * position;
      taps.push_back({element_of(source, g.extent), 1.0F});
      return;
    }
    case HostResize::Linear:
      add_linear(g, i, taps);
      return;
    case HostResize::Cubic:
      add_cubic(g, i, taps);
      return;
    case HostResize::LinearAa:
    case HostResize::CubicAa:
      add_antialiased(g, i, taps);
      return;
  }
}

float step_of(const HostCall& call, size_t axis, int64_t extent, int64_t output) {
  using namespace params::host_resize;
  if (call.ints[kAlignCorners] != 0) {
    return output > 1 ? static_cast<float>(extent - 1) / static_cast<float>(output - 1) : 0.0F;
  }
  const float given = call.floats[kStep0 + axis];
  return given > 0 ? given : static_cast<float>(extent) / static_cast<float>(output);
}

Axis axis_of(const HostCall& call, size_t axis, int64_t extent, int64_t output) {
  using namespace params::host_resize;
  const Geometry g = {static_cast<HostResize>(call.ints[kKind]), extent, output,
                      step_of(call, axis, extent, output), call.ints[kAlignCorners] != 0};
  const bool resized = static_cast<int64_t>(axis) < call.ints[kRank];
  Axis result;
  result.begin.push_back(0);
  for (int64_t i = 0; i < output; ++i) {
    if (resized) {
      add_taps(g, i, result.taps);
    } else {
      result.taps.push_back({i, 1.0F});
    }
    result.begin.push_back(result.taps.size());
  }
  return result;
}

// The weighted sum of `value` over taps. The first term starts it, so that one tap of weight
// 1 gives its element unchanged.
template <typename F>
float weighted_sum(std::span<const Tap> taps, F value) {
  float sum = 0;
  for (size_t k = 0; k < taps.size(); ++k) {
    const float term = taps[k].weight * value(taps[k].index);
    sum = k == 0 ? term : sum + term;
  }
  return sum;
}

}  // namespace

void host_resize(const HostTask& task) {
  const ggml_tensor& x = task.operand(0);
  const ggml_tensor& result = *task.result;
  const Axis columns = axis_of(task.call, 0, x.ne[0], result.ne[0]);
  const Axis rows = axis_of(task.call, 1, x.ne[1], result.ne[1]);
  const Axis planes = axis_of(task.call, 2, x.ne[2], result.ne[2]);
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const char* volume = static_cast<const char*>(x.data) + static_cast<size_t>(at.i3) * x.nb[3];
    float* out = task.out<float>(r);
    for (int64_t i = 0; i < result.ne[0]; ++i) {
      out[i] = weighted_sum(planes.of(at.i2), [&](int64_t i2) {
        const char* plane = volume + static_cast<size_t>(i2) * x.nb[2];
        return weighted_sum(rows.of(at.i1), [&](int64_t i1) {
          const char* row = plane + static_cast<size_t>(i1) * x.nb[1];
          return weighted_sum(columns.of(i), [&](int64_t i0) {
            return *reinterpret_cast<const float*>(row + static_cast<size_t>(i0) * x.nb[0]);
          });
        });
      });
    }
  }
}

}  // namespace executorch_ggml
