// Depthwise convolution over channels-last images, by itself or together with the convolution
// that it reads.
#include <algorithm>
#include <vector>

#include "runtime/host_conv.h"

namespace executorch_ggml {
namespace {

// A smaller result stays in the caches by itself.
constexpr size_t kWorthStrips = 4 << 20;
// What of a convolution's result stays in a thread's cache until a depthwise one has read it; and
// what windows may take instead if they are larger than that.
constexpr int64_t kStripBytes = 256 * 1024;
constexpr int64_t kMostStripBytes = 16 * kStripBytes;
constexpr int64_t kGroupChannels = kPanelGroup * kPanel;
// Rows that two tasks read are computed by both: a task is so many times as long.
constexpr int64_t kRowsPerCut = 8;

// Rows of an image, and of some channels, as a depthwise convolution reads them.
struct ImageRows {
  const float* data;  // of the first row
  int64_t first_row;
  int64_t pixel;  // floats from one to the next
  int64_t first_channel;
  int64_t n_channels;
};

// How many rows of the image a window spans.
int64_t span_of(const Geometry& g) { return (g.kernel[1] - 1) * g.dilation[1] + 1; }

// How many a strip has to hold, of the image's `height`: those of one window and the next.
int64_t least_rows(const Geometry& g, int64_t height) {
  return std::min(span_of(g) + g.stride[1], height);
}

int64_t n_groups(const ggml_tensor& conv) { return in_parts(conv.ne[0], kGroupChannels); }

class Depthwise {
 public:
  // `image_ne`: of the images that it reads.
  Depthwise(const HostTask& task, const int64_t* image_ne)
      : task_(task),
        g_(geometry_of(task.call.ints)),
        epilogue_(epilogue_of(task)),
        channels_(image_ne[0]),
        image_width_(image_ne[1]),
        image_height_(image_ne[2]) {}

  const Geometry& geometry() const { return g_; }
  int64_t width() const { return task_.result->ne[1]; }
  int64_t height() const { return task_.result->ne[2]; }
  // The rows of the image that row y of the result begins with and ends before, maybe outside.
  int64_t first_input(int64_t y) const { return y * g_.stride[1] - g_.padding[1]; }
  int64_t end_input(int64_t y) const { return first_input(y) + span_of(g_); }
  // How many rows of the result read no more than the image's first `n` rows.
  int64_t rows_within(int64_t n) const {
    const int64_t room = n - end_input(0);
    return room < 0 ? 0 : room / g_.stride[1] + 1;
  }

  // Rows [first, end) of the result of `image`.
  void run(const ImageRows& x, int64_t image, int64_t first, int64_t end) const {
    const int64_t at = (image * height() + first) * width() * channels_ + x.first_channel;
    DepthwiseRun r = {.image = x.data,
                      .width = image_width_,
                      .height = image_height_ - x.first_row,
                      .pixel = x.pixel,
                      .row_stride = image_width_ * x.pixel,
                      .column = -g_.padding[0],
                      .row = first_input(first) - x.first_row,
                      .column_step = g_.stride[0],
                      .row_step = g_.stride[1],
                      .kernel_width = g_.kernel[0],
                      .kernel_height = g_.kernel[1],
                      .column_dilation = g_.dilation[0],
                      .row_dilation = g_.dilation[1],
                      .n_positions = width(),
                      .n_rows = end - first,
                      .channels = x.n_channels,
                      .kernel = static_cast<const float*>(task_.operand(0).data) + x.first_channel,
                      .tap_stride = channels_,
                      .out = task_.out<float>(0) + at,
                      .out_pixel = channels_,
                      .out_row_stride = width() * channels_,
                      .epilogue = epilogue_};
    if (epilogue_.bias != nullptr) {
      r.epilogue.bias += x.first_channel;
    }
    if (epilogue_.residual != nullptr) {
      r.epilogue.residual += at;
    }
    image_kernels().conv_dw(r);
  }

 private:
  const HostTask& task_;
  const Geometry g_;
  const Epilogue epilogue_;
  const int64_t channels_;
  const int64_t image_width_;
  const int64_t image_height_;
};

// A convolution and the depthwise one that reads it: as many rows of the first as a strip holds,
// of one group of panels, then the rows of the second that they are enough for.
class Strip {
 public:
  Strip(const HostTask& conv, const Depthwise& depthwise, std::vector<float>& memory)
      : conv_(conv), depthwise_(depthwise), memory_(memory) {}

  // Rows [first, end) of the result of `image`, of the panels from `panel` on.
  void run(int64_t image, int64_t panel, int64_t first, int64_t end) const {
    const int64_t channels = conv_.result->ne[0];
    const int64_t width = conv_.result->ne[1];
    const int64_t height = conv_.result->ne[2];
    const int64_t first_channel = panel * kPanel;
    const int64_t n_channels = std::min(kGroupChannels, channels - first_channel);
    const int64_t row_size = width * n_channels;
    const int64_t most =
        std::clamp(kStripBytes / 4 / row_size, least_rows(depthwise_.geometry(), height), height);
    float* const strip = at_least(memory_, most * row_size);
    const int64_t last = std::clamp(depthwise_.end_input(end - 1), int64_t{0}, height);
    ImageRows rows = {.data = strip,
                      .first_row = 0,
                      .pixel = n_channels,
                      .first_channel = first_channel,
                      .n_channels = n_channels};
    int64_t end_row = 0;  // rows [rows.first_row, end_row) are in the strip
    for (int64_t y = first; y < end;) {
      const int64_t needed = std::clamp(depthwise_.first_input(y), int64_t{0}, last);
      if (needed < end_row) {
        std::copy(strip + (needed - rows.first_row) * row_size,
                  strip + (end_row - rows.first_row) * row_size, strip);
      }
      rows.first_row = needed;
      const int64_t from = std::max(needed, end_row);
      end_row = std::min(needed + most, last);
      const int64_t position = image * height * width;
      conv_2d_part(conv_, {.first_row = position + from * width,
                           .end_row = position + end_row * width,
                           .first_panel = panel,
                           .end_panel = panel + in_parts(n_channels, kPanel),
                           .out = strip + (from - needed) * row_size,
                           .out_stride = n_channels});
      const int64_t done = end_row == last ? end : depthwise_.rows_within(end_row);
      depthwise_.run(rows, image, y, done);
      y = done;
    }
  }

 private:
  const HostTask& conv_;
  const Depthwise& depthwise_;
  std::vector<float>& memory_;
};

}  // namespace

void host_conv_2d_dw(const HostTask& task) {
  const ggml_tensor& x = task.operand(1);
  const Depthwise depthwise(task, x.ne);
  const int64_t height = depthwise.height();
  for (int64_t r = task.first_row; r < task.end_row;) {
    const int64_t image = r / height;
    const int64_t first = r % height;
    const int64_t end = std::min(height, first + task.end_row - r);
    depthwise.run({.data = image_at(x, 0, 0, image),
                   .first_row = 0,
                   .pixel = x.ne[0],
                   .first_channel = 0,
                   .n_channels = x.ne[0]},
                  image, first, end);
    r += end - first;
  }
}

bool is_worth_strips(const ggml_tensor& conv, std::span<const int64_t> ints) {
  const HostCall* const call = host_call_of(conv);
  const Geometry g = geometry_of(ints);
  if (call == nullptr || call->kernel != host_conv_2d || conv.src[3] != nullptr ||
      ggml_nbytes(&conv) < kWorthStrips || g.kernel[1] < 1 || g.stride[1] < 1 ||
      g.dilation[1] < 1 ||
      is_winograd(geometry_of(call->ints), extents_of(conv), *conv.src[0], *conv.src[1])) {
    return false;
  }
  const int64_t row_bytes = conv.ne[1] * std::min(conv.ne[0], kGroupChannels) * 4;
  return least_rows(g, conv.ne[2]) <= kMostStripBytes / row_bytes;
}

void set_strips(HostParams& params, ggml_tensor& conv, const std::array<int64_t, 4>& result_ne) {
  const Geometry g = geometry_of(params.ints);
  const int64_t overlap = std::max<int64_t>(span_of(g) - g.stride[1], 0);
  params.n_units = n_groups(conv) * result_ne[2] * result_ne[3];
  params.size = host_call_of(conv)->size;
  params.least = std::min(kRowsPerCut * overlap / g.stride[1], params.n_units);
  params.before = &conv;
}

void host_conv_2d_then_dw(const HostTask& task) {
  static thread_local std::vector<float> memory;
  ggml_tensor& node = *task.call.before;
  const HostTask conv = {&node, *host_call_of(node), 0, 0};
  const Depthwise depthwise(task, node.ne);
  const Strip strip(conv, depthwise, memory);
  const int64_t height = depthwise.height();
  const int64_t groups = n_groups(node);
  for (int64_t unit = task.first_row; unit < task.end_row;) {
    const int64_t first = unit % height;
    const int64_t end = std::min(height, first + task.end_row - unit);
    const int64_t group = unit / height;
    strip.run(group / groups, group % groups * kPanelGroup, first, end);
    unit += end - first;
  }
}

}  // namespace executorch_ggml
