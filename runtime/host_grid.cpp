// Sampling of images at the coordinates of a grid.
#include <algorithm>
#include <cmath>

#include "runtime/host_kernel.h"

namespace executorch_ggml {
namespace {

struct Sampler {
  GridMode mode;
  GridPadding padding;
  bool align_corners;

  // From -1..1 to positions of elements.
  float unnormalized(float x, int64_t extent) const {
    const auto n = static_cast<float>(extent);
    return align_corners ? (x + 1) / 2 * (n - 1) : ((x + 1) * n - 1) / 2;
  }

  float reflected(float x, int64_t extent) const {
    const float low = align_corners ? 0.0F : -0.5F;
    const float span = static_cast<float>(align_corners ? extent - 1 : extent);
    if (span == 0) {
      return 0;
    }
    const float distance = std::abs(x - low);
    const float extra = std::fmod(distance, span);
    const float flips = std::floor(distance / span);
    return std::fmod(flips, 2.0F) == 0 ? extra + low : span - extra + low;
  }

  // The position to read for one that may lie outside.
  float padded(float x, int64_t extent) const {
    if (padding == GridPadding::Zeros) {
      return x;
    }
    if (padding == GridPadding::Reflection) {
      x = reflected(x, extent);
    }
    // A NaN reads the first element.
    return x > 0 ? std::min(static_cast<float>(extent - 1), x) : 0.0F;
  }
};

struct Image {
  const char* data;
  const ggml_tensor& x;

  // The index of a position, or -1. A large extent rounds up as a float.
  static int64_t element(float position, int64_t extent) {
    if (!(position >= 0 && position < static_cast<float>(extent))) {
      return -1;
    }
    const auto index = static_cast<int64_t>(position);
    return index < extent ? index : -1;
  }

  // Zero outside.
  float at(float column, float row) const {
    const int64_t i0 = element(column, x.ne[0]);
    const int64_t i1 = element(row, x.ne[1]);
    if (i0 < 0 || i1 < 0) {
      return 0;
    }
    return *reinterpret_cast<const float*>(data + static_cast<size_t>(i0) * x.nb[0] +
                                           static_cast<size_t>(i1) * x.nb[1]);
  }
};

float bilinear(const Image& image, float x, float y) {
  const float x0 = std::floor(x);
  const float y0 = std::floor(y);
  const float right = x - x0;
  const float down = y - y0;
  const float left = 1 - right;
  const float up = 1 - down;
  return image.at(x0, y0) * (up * left) + image.at(x0 + 1, y0) * (up * right) +
         image.at(x0, y0 + 1) * (down * left) + image.at(x0 + 1, y0 + 1) * (down * right);
}

void cubic_weights(float t, float (&weights)[4]) {
  constexpr float kA = -0.75F;
  const auto near = [](float x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](float x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  weights[0] = far(t + 1);
  weights[1] = near(t);
  weights[2] = near(1 - t);
  weights[3] = far(2 - t);
}

// Each of the 16 elements may lie outside.
float bicubic(const Image& image, const Sampler& sampler, float x, float y) {
  const float x0 = std::floor(x);
  const float y0 = std::floor(y);
  float across[4];
  float along[4];
  cubic_weights(x - x0, across);
  cubic_weights(y - y0, along);
  float sum = 0;
  for (int j = 0; j < 4; ++j) {
    const float row = sampler.padded(y0 + static_cast<float>(j - 1), image.x.ne[1]);
    float line = 0;
    for (int i = 0; i < 4; ++i) {
      const float column = sampler.padded(x0 + static_cast<float>(i - 1), image.x.ne[0]);
      line += image.at(column, row) * across[i];
    }
    sum += line * along[j];
  }
  return sum;
}

float sample(const Image& image, const Sampler& sampler, float x, float y) {
  if (sampler.mode == GridMode::Bicubic) {
    return bicubic(image, sampler, x, y);
  }
  x = sampler.padded(x, image.x.ne[0]);
  y = sampler.padded(y, image.x.ne[1]);
  return sampler.mode == GridMode::Bilinear ? bilinear(image, x, y)
                                            : image.at(std::nearbyint(x), std::nearbyint(y));
}

}  // namespace

void host_grid_sample(const HostTask& task) {
  using namespace params::host_grid_sample;
  const ggml_tensor& x = task.operand(0);
  const ggml_tensor& grid = task.operand(1);
  const Sampler sampler = {static_cast<GridMode>(task.call.ints[kMode]),
                           static_cast<GridPadding>(task.call.ints[kPadding]),
                           task.call.ints[kAlignCorners] != 0};
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const Image image = {static_cast<const char*>(x.data) + static_cast<size_t>(at.i2) * x.nb[2] +
                             static_cast<size_t>(at.i3) * x.nb[3],
                         x};
    const char* points = static_cast<const char*>(grid.data) +
                         static_cast<size_t>(at.i1) * grid.nb[2] +
                         static_cast<size_t>(at.i3) * grid.nb[3];
    float* out = task.out<float>(r);
    for (int64_t i = 0; i < task.result->ne[0]; ++i) {
      const char* point = points + static_cast<size_t>(i) * grid.nb[1];
      const float gx = *reinterpret_cast<const float*>(point);
      const float gy = *reinterpret_cast<const float*>(point + grid.nb[0]);
      out[i] = sample(image, sampler, sampler.unnormalized(gx, x.ne[0]),
                      sampler.unnormalized(gy, x.ne[1]));
    }
  }
}

}  // namespace executorch_ggml
