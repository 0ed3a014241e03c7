// Pooling (see image_kernels.h).
#pragma once

#include "runtime/kernels/image_kernels.h"
#include "runtime/kernels/image_kernels_depthwise_isa.h"
#include "runtime/kernels/vector_isa.h"

namespace executorch_ggml {
namespace EG_ISA {
namespace {

void max_pool(const PoolWindow& p) {
  for_all_channels(p.channels, [&p](auto lane, int64_t c) {
    using Lane = decltype(lane);
    typename Lane::Value best = -__builtin_inff() - typename Lane::Value{};
    for (int64_t y = 0; y < p.n_y; ++y) {
      const float* x = p.x + y * p.row_stride + c;
      for (int64_t i = 0; i < p.n_x; ++i, x += p.channels) {
        const typename Lane::Value found = lane_at<Lane>(x);
        best = (found > best) | (found != found) ? found : best;  // the last NaN, as in torch
      }
    }
    lane_at<Lane>(p.out + c) = best;
  });
}

// Elements are summed in runs of this many, and the runs after that: fewer roundings than in
// one long sum.
constexpr int64_t kRun = 64;

void avg_pool(const PoolWindow& p) {
  for_all_channels(p.channels, [&p](auto lane, int64_t c) {
    using Lane = decltype(lane);
    typename Lane::Value total{};
    for (int64_t y = 0; y < p.n_y; ++y) {
      const float* x = p.x + y * p.row_stride + c;
      for (int64_t i = 0; i < p.n_x;) {
        const int64_t end = i + kRun < p.n_x ? i + kRun : p.n_x;
        typename Lane::Value run{};
        for (; i < end; ++i, x += p.channels) {
          run += lane_at<Lane>(x);
        }
        total += run;
      }
    }
    lane_at<Lane>(p.out + c) = total / p.divisor;
  });
}

}  // namespace
}  // namespace EG_ISA
}  // namespace executorch_ggml
