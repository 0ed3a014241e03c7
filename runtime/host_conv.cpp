// Convolution and pooling over channels-last images: this file says which elements, the
// kernels do the arithmetic (kernels/image_kernels.h).
#include "runtime/host_conv.h"

#include <algorithm>
#include <vector>

#include "runtime/host_kernel.h"
#include "runtime/kernels/image_kernels.h"

namespace executorch_ggml {
namespace {

// Inputs of so many bytes, with so many pointers to them, stay in a cache while every panel of the
// kernel passes over them.
constexpr int64_t kBlockBytes = 256 * 1024;
constexpr int64_t kBlockPointers = 1024;
// Of so few channels a row of a window is one tap: a pointer to each of its own would cost more.
constexpr int64_t kFewChannels = 16;

// Windows [first, end) along an axis.
struct Windows {
  int64_t first;
  int64_t end;

  bool has(int64_t i) const { return first <= i && i < end; }
};

// Those of `n` that have all their taps within the image's `extent`.
Windows whole_windows(const Geometry& g, size_t axis, int64_t extent, int64_t n) {
  const int64_t last = extent - 1 - (g.kernel[axis] - 1) * g.dilation[axis] + g.padding[axis];
  const int64_t first = std::min(in_parts(g.padding[axis], g.stride[axis]), n);
  return {first, last < 0 ? first : std::clamp(last / g.stride[axis] + 1, first, n)};
}

// Memory of a thread, kept from task to task.
struct Scratch {
  std::vector<const float*> taps;
  std::vector<float> copies;
  std::vector<float> zeros;
  std::vector<float> widened;
};

Scratch& thread_scratch() {
  static thread_local Scratch scratch;
  return scratch;
}

// How a convolution is shared out: tiles of rows, for all panels, or groups of panels, each for
// all tiles. The larger of the two operands is what is divided; the other is read by everyone.
struct Shares {
  int64_t n_rows;
  int64_t n_tiles;
  int64_t n_groups;
  bool by_panels;

  int64_t count() const { return by_panels ? n_groups * n_tiles : n_tiles; }
  int64_t first_row(int64_t tile) const { return n_rows * tile / n_tiles; }
};

Shares shares_of(int64_t n_rows, const ggml_tensor& kernel, const ggml_tensor& x) {
  return {.n_rows = n_rows,
          .n_tiles = in_parts(n_rows, image_kernels().tile_rows),
          .n_groups = in_parts(kernel.ne[2], kPanelGroup),
          .by_panels = ggml_nelements(&kernel) > ggml_nelements(&x)};
}

class Convolution {
 public:
  Convolution(const HostTask& task, Scratch& scratch)
      : task_(task),
        g_(geometry_of(task.call.ints)),
        x_(task.operand(1)),
        kernel_(task.operand(0)),
        epilogue_(epilogue_of(task)),
        whole_columns_(whole_windows(g_, 0, x_.ne[1], task.result->ne[1])),
        whole_rows_(whole_windows(g_, 1, x_.ne[2], task.result->ne[2])),
        scratch_(scratch) {}

  void run() const {
    const Shares shares = shares_of(ggml_nrows(task_.result), kernel_, x_);
    const int64_t n_panels = kernel_.ne[2];
    const auto run_part = [&](int64_t first_tile, int64_t end_tile, int64_t panel, int64_t end) {
      const int64_t row = shares.first_row(first_tile);
      run({.first_row = row,
           .end_row = shares.first_row(end_tile),
           .first_panel = panel,
           .end_panel = end,
           .out = task_.out<float>(row) + panel * kPanel,
           .out_stride = task_.result->ne[0]});
    };
    if (!shares.by_panels) {
      return run_part(task_.first_row, task_.end_row, 0, n_panels);
    }
    for (int64_t unit = task_.first_row; unit < task_.end_row;) {
      // As many whole groups as there are, or the tiles of one.
      const int64_t tile = unit % shares.n_tiles;
      const int64_t left = task_.end_row - unit;
      const int64_t n_groups = tile == 0 ? std::max<int64_t>(left / shares.n_tiles, 1) : 1;
      const int64_t n = std::min(left, n_groups * shares.n_tiles - tile);
      const int64_t panel = unit / shares.n_tiles * kPanelGroup;
      run_part(tile, std::min(tile + n, shares.n_tiles), panel,
               std::min(panel + n_groups * kPanelGroup, n_panels));
      unit += n;
    }
  }

  void run(const ConvPart& part) const {
    const int64_t channels = x_.ne[0];
    const int64_t c_out = task_.result->ne[0];
    const bool in_place = g_.n_taps() == 1 && g_.stride[0] == 1 && g_.stride[1] == 1 &&
                          g_.padding[0] == 0 && g_.padding[1] == 0;
    const bool row_taps = channels < kFewChannels && g_.kernel[0] > 1 && g_.dilation[0] == 1;
    const int64_t n_taps = row_taps ? g_.kernel[1] : g_.n_taps();
    const int64_t tile = image_kernels().tile_rows;
    const int64_t inputs = kBlockBytes / 4 / channels;
    const int64_t most = in_place ? inputs : std::min(inputs, kBlockPointers / n_taps);
    const int64_t step = std::max(most / tile, int64_t{1}) * tile;
    ConvBlock block = {.taps = nullptr,
                       .x = nullptr,
                       .stride = channels,
                       .tap_stride = 0,
                       .n_taps = n_taps,
                       .n_rows = 0,
                       .c_in = row_taps ? g_.kernel[0] * channels : channels,
                       .c_out = c_out,
                       .kernel = kernel_.data,
                       .type = kernel_type(kernel_),
                       .widened = nullptr,
                       .first_panel = part.first_panel,
                       .end_panel = part.end_panel,
                       .out = part.out,
                       .out_stride = part.out_stride,
                       .epilogue = epilogue_};
    if (block.type != KernelType::F32) {
      block.widened = at_least(scratch_.widened, widened_size(n_taps, block.c_in));
    }
    for (int64_t r = part.first_row; r < part.end_row; r += block.n_rows) {
      block.n_rows = std::min(step, part.end_row - r);
      block.taps = nullptr;
      if (in_place) {
        block.x = image_at(x_, r, 0, 0);
      } else if (!row_taps) {
        block.taps = tap_pointers(r, block.n_rows);
      } else if (!set_whole_windows(r, block)) {
        block.taps = window_rows(r, block.n_rows);
      }
      if (epilogue_.residual != nullptr) {
        block.epilogue.residual = epilogue_.residual + r * c_out + part.first_panel * kPanel;
      }
      image_kernels().conv(block);
      block.out += block.n_rows * part.out_stride;
    }
  }

 private:
  // Windows from r on, of one row, whose taps are rows of the windows: where they are if all of
  // them lie within the image. Else how many have to be looked up, with false.
  bool set_whole_windows(int64_t r, ConvBlock& block) const {
    const RowIndex at = task_.position(r);
    const int64_t width = task_.result->ne[1];
    const bool whole_row = whole_rows_.has(at.i2);
    if (!whole_row || !whole_columns_.has(at.i1)) {
      const int64_t end = whole_row && at.i1 < whole_columns_.first ? whole_columns_.first : width;
      block.n_rows = std::min(block.n_rows, end - at.i1);
      return false;
    }
    block.n_rows = std::min(block.n_rows, whole_columns_.end - at.i1);
    block.x = image_at(x_, at.i1 * g_.stride[0] - g_.padding[0],
                       at.i2 * g_.stride[1] - g_.padding[1], at.i3);
    block.stride = g_.stride[0] * x_.ne[0];
    block.tap_stride = g_.dilation[1] * x_.ne[1] * x_.ne[0];
    return true;
  }

  // visit(i, column, row, image) for positions [first, first + n): where the window begins.
  template <typename Visit>
  void for_windows(int64_t first, int64_t n, Visit visit) const {
    RowIndex at = task_.position(first);
    for (int64_t i = 0; i < n; ++i) {
      visit(i, at.i1 * g_.stride[0] - g_.padding[0], at.i2 * g_.stride[1] - g_.padding[1], at.i3);
      if (++at.i1 == task_.result->ne[1]) {
        at.i1 = 0;
        if (++at.i2 == task_.result->ne[2]) {
          at.i2 = 0;
          ++at.i3;
        }
      }
    }
  }

  // The taps of positions [first, first + n): [tap * n + i].
  const float* const* tap_pointers(int64_t first, int64_t n) const {
    const float* const zeros = at_least(scratch_.zeros, x_.ne[0]);
    const float** const taps = at_least(scratch_.taps, g_.n_taps() * n);
    for_windows(first, n, [&](int64_t i, int64_t column, int64_t row, int64_t image) {
      set_taps(g_, x_, {column, row, image}, zeros, taps + i, n);
    });
    return taps;
  }

  // The same with a row of the window as a tap; those over an edge are copied.
  const float* const* window_rows(int64_t first, int64_t n) const {
    const int64_t size = g_.kernel[0] * x_.ne[0];
    const float* const zeros = at_least(scratch_.zeros, size);
    const float** const taps = at_least(scratch_.taps, g_.kernel[1] * n);
    float* copy = at_least(scratch_.copies, g_.kernel[1] * n * size);
    for_windows(first, n, [&](int64_t i, int64_t column, int64_t row, int64_t image) {
      const int64_t begin = std::clamp(column, int64_t{0}, x_.ne[1]);
      const int64_t end = std::clamp(column + g_.kernel[0], begin, x_.ne[1]);
      for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
        const int64_t y = row + ky * g_.dilation[1];
        const float*& tap = taps[ky * n + i];
        if (y < 0 || y >= x_.ne[2] || begin == end) {
          tap = zeros;
        } else if (end - begin == g_.kernel[0]) {
          tap = image_at(x_, column, y, image);
        } else {
          tap = copy;
          std::fill_n(copy, size, 0.0F);
          std::copy_n(image_at(x_, begin, y, image), (end - begin) * x_.ne[0],
                      copy + (begin - column) * x_.ne[0]);
          copy += size;
        }
      }
    });
    return taps;
  }

  const HostTask& task_;
  const Geometry g_;
  const ggml_tensor& x_;
  const ggml_tensor& kernel_;
  const Epilogue epilogue_;
  const Windows whole_columns_;
  const Windows whole_rows_;
  Scratch& scratch_;
};

}  // namespace

int64_t conv_2d_units(std::span<const int64_t> ints, const std::array<int64_t, 4>& result_ne,
                      const ggml_tensor& kernel, const ggml_tensor& x) {
  if (is_winograd(geometry_of(ints), result_ne, kernel, x)) {
    return winograd_units(result_ne);
  }
  return shares_of(result_ne[1] * result_ne[2] * result_ne[3], kernel, x).count();
}

void host_conv_2d(const HostTask& task) {
  const Geometry g = geometry_of(task.call.ints);
  if (is_winograd(g, extents_of(*task.result), task.operand(0), task.operand(1))) {
    return winograd_conv_2d(task, g);
  }
  Convolution(task, thread_scratch()).run();
}

void conv_2d_part(const HostTask& task, const ConvPart& part) {
  Convolution(task, thread_scratch()).run(part);
}

void host_pool_2d(const HostTask& task) {
  using namespace params::pool_2d_nhwc;
  const ggml_tensor& x = task.operand(0);
  const bool is_max = task.call.ints[kKind] == static_cast<int64_t>(Pool::Max);
  const auto run = is_max ? image_kernels().max_pool : image_kernels().avg_pool;
  for (int64_t r = task.first_row; r < task.end_row; ++r) {
    const RowIndex at = task.position(r);
    const int64_t column = at.i1 * task.call.ints[kStride0] - task.call.ints[kPadding0];
    const int64_t row = at.i2 * task.call.ints[kStride1] - task.call.ints[kPadding1];
    const int64_t kernel0 = task.call.ints[kKernel0];
    const int64_t kernel1 = task.call.ints[kKernel1];
    const int64_t x0 = std::max<int64_t>(column, 0);
    const int64_t y0 = std::max<int64_t>(row, 0);
    // Padding counts in an average.
    run({.x = image_at(x, x0, y0, at.i3),
         .n_x = std::max<int64_t>(std::min(column + kernel0, x.ne[1]) - x0, 0),
         .n_y = std::max<int64_t>(std::min(row + kernel1, x.ne[2]) - y0, 0),
         .row_stride = x.ne[0] * x.ne[1],
         .channels = x.ne[0],
         .divisor = static_cast<float>(kernel0 * kernel1),
         .out = task.out<float>(r)});
  }
}

}  // namespace executorch_ggml
