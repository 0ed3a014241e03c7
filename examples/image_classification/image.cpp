#include "image.h"

#include <stb/stb_image.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

namespace image_classification {
namespace {

constexpr int kChannels = 3;

// Of each channel, over the images of ImageNet.
constexpr std::array<float, kChannels> kMean = {0.485F, 0.456F, 0.406F};
constexpr std::array<float, kChannels> kDeviation = {0.229F, 0.224F, 0.225F};

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct Free {
  void operator()(stbi_uc* pixels) const { stbi_image_free(pixels); }
};

// A file for stb_image, which fills up what is missing at the end of a JPEG: whether the
// decoder asked for more than there is, tells that the file is torn.
struct Source {
  std::unique_ptr<std::FILE, Close> file;
  bool ended = false;
};

Source& source_of(void* user) { return *static_cast<Source*>(user); }

int read_bytes(void* user, char* data, int size) {
  Source& source = source_of(user);
  const size_t n = std::fread(data, 1, static_cast<size_t>(size), source.file.get());
  source.ended |= n == 0;
  return static_cast<int>(n);
}

void skip_bytes(void* user, int n) { std::fseek(source_of(user).file.get(), n, SEEK_CUR); }

int at_end(void* user) { return std::feof(source_of(user).file.get()); }

// Weights are whole numbers of 2^-22, as Pillow has them: where a result lies between two
// bytes, both round to the same one.
constexpr int64_t kOne = int64_t{1} << 22;

// Which pixels of a row (or column) make one of the result, and how much of each.
struct Taps {
  int first = 0;
  std::vector<int64_t> weights;  // their sum is kOne, but for rounding
};

// For `size` pixels out of the stretch of `extent` pixels that starts at `begin` and is
// `length` long.
std::vector<Taps> taps_of(int extent, double begin, double length, int size) {
  const double scale = length / size;
  // Half the base of the triangle that weighs the pixels: one pixel of the image or, where
  // it shrinks, of the result.
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) {
    const double center = begin + (i + 0.5) * scale;
    Taps& taps = all[static_cast<size_t>(i)];
    taps.first = std::max(0, static_cast<int>(std::floor(center - reach)));
    const int last = std::min(extent - 1, static_cast<int>(std::floor(center + reach)));
    std::vector<double> heights;
    double sum = 0;
    for (int pixel = taps.first; pixel <= last; ++pixel) {
      const double distance = std::abs(pixel + 0.5 - center) / reach;
      heights.push_back(std::max(0.0, 1.0 - distance));
      sum += heights.back();
    }
    for (const double height : heights) {
      taps.weights.push_back(std::llround(height / sum * static_cast<double>(kOne)));
    }
  }
  return all;
}

// One pixel of the result from pixels that lie `stride` bytes apart.
void blend(const uint8_t* pixels, size_t stride, const Taps& taps, uint8_t* out) {
  for (size_t channel = 0; channel < kChannels; ++channel) {
    int64_t sum = kOne / 2;  // to round
    const uint8_t* from = pixels + static_cast<size_t>(taps.first) * stride + channel;
    for (const int64_t weight : taps.weights) {
      sum += weight * *from;
      from += stride;
    }
    out[channel] = static_cast<uint8_t>(std::min<int64_t>(sum / kOne, 255));
  }
}

size_t bytes_of(int width, int height) {
  return static_cast<size_t>(width) * static_cast<size_t>(height) * kChannels;
}

}  // namespace

std::optional<std::string> read_image(const std::string& path, Image& out) {
  Source source;
  source.file.reset(std::fopen(path.c_str(), "rb"));
  if (source.file == nullptr) {
    return "image '" + path + "' cannot be opened: " + std::strerror(errno);
  }
  const stbi_io_callbacks callbacks = {.read = read_bytes, .skip = skip_bytes, .eof = at_end};
  int channels = 0;
  const std::unique_ptr<stbi_uc, Free> pixels(
      stbi_load_from_callbacks(&callbacks, &source, &out.width, &out.height, &channels, kChannels));
  if (std::ferror(source.file.get()) != 0) {
    return "image '" + path + "' cannot be read: " + std::strerror(errno);
  }
  if (source.ended) {
    return "image '" + path + "' is damaged: the file ends before the image does";
  }
  if (pixels == nullptr) {
    return "image '" + path + "' cannot be read (" + stbi_failure_reason() +
           "): it is damaged, or neither a PNG nor a JPEG file";
  }
  out.rgb.assign(pixels.get(), pixels.get() + bytes_of(out.width, out.height));
  return std::nullopt;
}

Image middle_square(const Image& image, int size) {
  const double side = std::min(image.width, image.height) * 224.0 / 256.0;
  const auto taps = [&](int extent) { return taps_of(extent, (extent - side) / 2, side, size); };
  const size_t in_row = bytes_of(image.width, 1);
  const size_t out_row = bytes_of(size, 1);

  // The rows from the first tap of the first pixel to the last tap of the last one.
  std::vector<Taps> down = taps(image.height);
  const int top = down.front().first;
  const int rows = down.back().first + static_cast<int>(down.back().weights.size()) - top;
  std::vector<uint8_t> narrowed(bytes_of(size, rows));
  const std::vector<Taps> across = taps(image.width);
  for (size_t y = 0; y < static_cast<size_t>(rows); ++y) {
    const uint8_t* row = image.rgb.data() + (static_cast<size_t>(top) + y) * in_row;
    for (size_t x = 0; x < across.size(); ++x) {
      blend(row, kChannels, across[x], &narrowed[y * out_row + x * kChannels]);
    }
  }

  Image square = {.width = size, .height = size, .rgb = {}};
  square.rgb.resize(bytes_of(size, size));
  for (size_t y = 0; y < down.size(); ++y) {
    down[y].first -= top;
    for (size_t x = 0; x < across.size(); ++x) {
      blend(&narrowed[x * kChannels], out_row, down[y], &square.rgb[y * out_row + x * kChannels]);
    }
  }
  return square;
}

std::vector<float> normalised(const Image& image) {
  const size_t plane = bytes_of(image.width, image.height) / kChannels;
  std::vector<float> tensor(plane * kChannels);
  for (size_t channel = 0; channel < kChannels; ++channel) {
    for (size_t i = 0; i < plane; ++i) {
      const auto value = static_cast<float>(image.rgb[i * kChannels + channel]) / 255.0F;
      tensor[channel * plane + i] = (value - kMean[channel]) / kDeviation[channel];
    }
  }
  return tensor;
}

}  // namespace image_classification
