// Winograd's convolution over channels-last images (WinogradTiles in kernels/image_kernels.h): this
// file says which tiles and panels are multiplied when.
#include <algorithm>
#include <vector>

#include "runtime/host_conv.h"

namespace executorch_ggml {
namespace {

constexpr int64_t kTile = 2;  // results on a side
// A tile's inputs, as a window.
constexpr Geometry kInputs = {
    .kernel = {4, 4}, .stride = {kTile, kTile}, .padding = {}, .dilation = {1, 1}};
// With fewer channels or tiles the transforms cost what products they save.
constexpr int64_t kLeastChannels = 32;
constexpr int64_t kLeastTiles = 24;
// Tiles that are multiplied at once, at most and by the size of their transformed inputs: those,
// and the products, stay in a cache while the panels pass over them.
constexpr int64_t kMostTiles = 64;
constexpr int64_t kBlockBytes = 256 * 1024;
// Transformed panels of that size are kept for all tiles; others are made anew for each block.
constexpr int64_t kKeptBytes = 1024 * 1024;

constexpr int64_t bytes_of(int64_t n_floats) {
  return n_floats * static_cast<int64_t>(sizeof(float));
}

// How a convolution is shared out: tiles, each for all panels, or groups of panels, each for all
// tiles. What is divided is transformed once, the other by each task: it is the smaller.
struct Shares {
  int64_t columns;  // of tiles
  int64_t rows;
  int64_t n_tiles;
  int64_t n_panels;

  explicit Shares(const std::array<int64_t, 4>& result_ne)
      : columns(in_parts(result_ne[1], kTile)),
        rows(in_parts(result_ne[2], kTile)),
        n_tiles(columns * rows * result_ne[3]),
        n_panels(in_parts(result_ne[0], kPanel)) {}

  bool by_panels() const { return n_tiles <= kMostTiles && n_tiles < n_panels * kPanel; }
  int64_t count() const {
    return by_panels() ? in_parts(n_panels, kPanelGroup)
                       : in_parts(n_tiles, image_kernels().tile_rows);
  }
  int64_t first_tile(int64_t unit) const { return by_panels() ? 0 : n_tiles * unit / count(); }
  int64_t end_tile(int64_t unit) const { return by_panels() ? n_tiles : first_tile(unit); }
  int64_t first_panel(int64_t unit) const { return by_panels() ? n_panels * unit / count() : 0; }
  int64_t end_panel(int64_t unit) const { return by_panels() ? first_panel(unit) : n_panels; }
};

// Memory of a thread, kept from task to task.
struct Scratch {
  std::vector<const float*> taps;
  std::vector<float> zeros;
  std::vector<float> inputs;
  std::vector<float> kernel;
  std::vector<float> products;
  // Of which compute (HostCall::compute_number) the inputs are, of all tiles, and the first panels
  // of the kernel; 0: none.
  uint64_t inputs_of = 0;
  uint64_t kernel_of = 0;
  int64_t kernel_panels = 0;
};

class Winograd {
 public:
  Winograd(const HostTask& task, const Geometry& geometry, Scratch& scratch)
      : task_(task),
        g_(geometry),
        shares_(extents_of(*task.result)),
        x_(task.operand(1)),
        kernel_(task.operand(0)),
        epilogue_(epilogue_of(task)),
        c_in_(x_.ne[0]),
        c_out_(task.result->ne[0]),
        scratch_(scratch) {}

  void run() const {
    const int64_t end = shares_.end_tile(task_.end_row);
    const int64_t end_panel = shares_.end_panel(task_.end_row);
    for (int64_t tile = shares_.first_tile(task_.first_row); tile < end;) {
      const WinogradTiles block = {.n_tiles = std::min(block_size(), end - tile), .c_in = c_in_};
      const float* const inputs = inputs_of(block, tile);
      for (int64_t panel = shares_.first_panel(task_.first_row); panel < end_panel;) {
        const int64_t n = panels_at(panel, end_panel);
        multiply(block, tile, inputs, panel, n, kernel_of(block, panel, n));
        panel += n;
      }
      tile += block.n_tiles;
    }
  }

 private:
  int64_t block_size() const {
    const int64_t tiles = kBlockBytes / bytes_of(kWinogradPlanes * c_in_);
    return shares_.by_panels() ? kMostTiles
                               : std::clamp(tiles, 2 * image_kernels().tile_rows, kMostTiles);
  }

  // Floats of so many transformed panels.
  int64_t kernel_size(int64_t n_panels) const {
    return kWinogradPlanes * n_panels * c_in_ * kPanel;
  }

  // Panels from `panel` that are multiplied at once. A single one at the end would leave most
  // registers empty.
  static int64_t panels_at(int64_t panel, int64_t end) {
    const int64_t left = end - panel;
    return in_parts(left, in_parts(left, kPanelGroup));
  }

  // A block's transformed inputs. Tasks of one compute that divide the panels have the same.
  const float* inputs_of(const WinogradTiles& block, int64_t first) const {
    const uint64_t compute = shares_.by_panels() ? task_.call.compute_number() : 0;
    if (compute == 0 || scratch_.inputs_of != compute) {
      transform_inputs(block, first);
      scratch_.inputs_of = compute;
    }
    return scratch_.inputs.data();
  }

  // Some transformed panels. Where tasks of one compute divide the tiles, and all panels are few
  // enough to be kept, they have the same.
  const float* kernel_of(const WinogradTiles& block, int64_t panel, int64_t n_panels) const {
    const int64_t all = kernel_size(shares_.n_panels);
    if (shares_.by_panels() || bytes_of(all) > kKeptBytes) {
      scratch_.kernel_of = 0;
      float* const kernel = at_least(scratch_.kernel, kernel_size(kPanelGroup));
      transform_kernel(block, panel, n_panels, kernel);
      return kernel;
    }
    float* const kernel = at_least(scratch_.kernel, all) + kernel_size(panel);
    if (scratch_.kernel_of != task_.call.compute_number()) {
      scratch_.kernel_of = task_.call.compute_number();
      scratch_.kernel_panels = 0;
    }
    if (panel == scratch_.kernel_panels) {
      transform_kernel(block, panel, n_panels, kernel);
      scratch_.kernel_panels += n_panels;
    }
    return kernel;
  }

  void transform_inputs(const WinogradTiles& block, int64_t first) const {
    const float* const zeros = at_least(scratch_.zeros, c_in_);
    const float** const taps = at_least(scratch_.taps, kInputs.n_taps() * block.n_tiles);
    for (int64_t i = 0; i < block.n_tiles; ++i) {
      const RowIndex at = place(first + i);
      set_taps(kInputs, x_, {at.i1 * kTile - g_.padding[0], at.i2 * kTile - g_.padding[1], at.i3},
               zeros, taps + i, block.n_tiles);
    }
    image_kernels().winograd_input(
        block, taps, at_least(scratch_.inputs, kWinogradPlanes * block.n_tiles * c_in_));
  }

  void transform_kernel(const WinogradTiles& block, int64_t panel, int64_t n_panels,
                        float* out) const {
    const auto offset = static_cast<size_t>(panel) * kernel_.nb[2];
    image_kernels().winograd_kernel(block, static_cast<const char*>(kernel_.data) + offset,
                                    kernel_type(kernel_), n_panels, out);
  }

  void multiply(const WinogradTiles& block, int64_t first, const float* inputs, int64_t panel,
                int64_t n_panels, const float* kernel) const {
    const int64_t channels = n_panels * kPanel;
    const int64_t plane = block.n_tiles * channels;
    float* const products = at_least(scratch_.products, kWinogradPlanes * plane);
    ConvBlock product = {.taps = nullptr,
                         .x = inputs,
                         .stride = c_in_,
                         .tap_stride = 0,
                         .n_taps = 1,
                         .n_rows = block.n_tiles,
                         .c_in = c_in_,
                         .c_out = channels,
                         .kernel = kernel,
                         .type = KernelType::F32,
                         .widened = nullptr,
                         .first_panel = 0,
                         .end_panel = n_panels,
                         .out = products,
                         .out_stride = channels,
                         .epilogue = {}};
    for (int64_t i = 0; i < kWinogradPlanes; ++i) {
      product.x = inputs + i * block.n_tiles * c_in_;
      product.kernel = kernel + i * n_panels * c_in_ * kPanel;
      product.out = products + i * plane;
      image_kernels().conv(product);
    }
    for (int64_t i = 0; i < block.n_tiles; ++i) {
      finish(block, first + i, i, products, panel * kPanel, channels);
    }
  }

  // The results of a tile, the `index`th of the block, in `n` channels from `channel`.
  void finish(const WinogradTiles& block, int64_t tile, int64_t index, const float* products,
              int64_t channel, int64_t n) const {
    const ggml_tensor& result = *task_.result;
    const RowIndex at = place(tile);
    const int64_t row = (at.i3 * result.ne[2] + at.i2 * kTile) * result.ne[1] + at.i1 * kTile;
    WinogradResult r = {.channels = n,
                        .width = std::min(kTile, result.ne[1] - at.i1 * kTile),
                        .height = std::min(kTile, result.ne[2] - at.i2 * kTile),
                        .out = task_.out<float>(row) + channel,
                        .stride = c_out_,
                        .row_stride = result.ne[1] * c_out_,
                        .epilogue = epilogue_};
    if (r.epilogue.bias != nullptr) {
      r.epilogue.bias += channel;
    }
    if (r.epilogue.residual != nullptr) {
      r.epilogue.residual += row * c_out_ + channel;
    }
    image_kernels().winograd_output(block, products, index, r);
  }

  // Column, row and image of a tile.
  RowIndex place(int64_t tile) const {
    const int64_t per_image = shares_.columns * shares_.rows;
    return {tile % shares_.columns, tile % per_image / shares_.columns, tile / per_image};
  }

  const HostTask& task_;
  const Geometry& g_;
  const Shares shares_;
  const ggml_tensor& x_;
  const ggml_tensor& kernel_;
  const Epilogue epilogue_;
  const int64_t c_in_;
  const int64_t c_out_;
  Scratch& scratch_;
};

}  // namespace

bool is_winograd(const Geometry& geometry, const std::array<int64_t, 4>& result_ne,
                 const ggml_tensor& kernel, const ggml_tensor& x) {
  for (size_t i = 0; i < 2; ++i) {
    if (geometry.kernel[i] != 3 || geometry.stride[i] != 1 || geometry.dilation[i] != 1) {
      return false;
    }
  }
  const int64_t c_in = x.ne[0];
  const int64_t c_out = result_ne[0];
  return c_in % kPanel == 0 && c_out % kPanel == 0 && c_in >= kLeastChannels &&
         c_out >= kLeastChannels && kernel.ne[2] * kPanel == c_out &&
         Shares(result_ne).n_tiles >= kLeastTiles;
}

int64_t winograd_units(const std::array<int64_t, 4>& result_ne) {
  return Shares(result_ne).count();
}

void winograd_conv_2d(const HostTask& task, const Geometry& geometry) {
  static thread_local Scratch scratch;
  Winograd(task, geometry, scratch).run();
}

}  // namespace executorch_ggml
