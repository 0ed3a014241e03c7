// Images of classify_image: from a file to a model's input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace image_classification {

// Rows from top to bottom, three bytes (red, green, blue) a pixel.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;
};

// Reads a PNG or a JPEG file; transparency is dropped. Returns what is wrong, or nothing.
std::optional<std::string> read_image(const std::string& path, Image& out);

// The middle of the image, a square of 224/256 of its shorter side, resized to size x size:
// bilinear, over as many pixels as one of the result covers; first along rows, then along
// columns, rounding to bytes each time. `prepare` in classify.py gives the same pixels.
Image middle_square(const Image& image, int size);

// The pixels of an image as a tensor [3, height, width], normalised over ImageNet.
std::vector<float> normalised(const Image& image);

}  // namespace image_classification
