// Recurrent layers: the steps of a sequence, whose input part is computed beforehand.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "runtime/host_kernel.h"

namespace executorch_ggml {
namespace {

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

// Independent sums, so that the compiler may use vectors without reordering others.
float dot(const float* a, const float* b, int64_t n) {
  constexpr int64_t kLanes = 16;
  std::array<float, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<size_t>(lane)] += a[i + lane] * b[i + lane];
    }
  }
  float sum = 0;
  for (; i < n; ++i) {
    sum += a[i] * b[i];
  }
  for (const float lane : sums) {
    sum += lane;
  }
  return sum;
}

// One sequence: its state, and what a step adds to the input's part.
class Sequence {
 public:
  Sequence(const HostTask& task, const Row<float>& hidden, const Row<float>& cell)
      : kind_(static_cast<Recurrence>(task.call.ints[params::host_recurrent::kKind])),
        size_(task.result->ne[0]),
        weights_(static_cast<const float*>(task.operand(1).data)),
        bias_(static_cast<const float*>(task.operand(2).data)),
        inner_(static_cast<size_t>(task.operand(0).ne[0])) {
    for (int64_t i = 0; i < size_; ++i) {
      hidden_.push_back(hidden[i]);
      cell_.push_back(cell[i]);
    }
  }

  // `outer`: the input's part of the gates.
  void step(const Row<float>& outer) {
    for (size_t i = 0; i < inner_.size(); ++i) {
      inner_[i] = bias_[i] + dot(weights_ + static_cast<int64_t>(i) * size_, hidden_.data(), size_);
    }
    for (int64_t i = 0; i < size_; ++i) {
      update(i, outer);
    }
  }

  void write_hidden(float* out) const { std::copy(hidden_.begin(), hidden_.end(), out); }
  void write_cell(float* out) const { std::copy(cell_.begin(), cell_.end(), out); }

 private:
  float inner(int64_t gate, int64_t i) const {
    return inner_[static_cast<size_t>(gate * size_ + i)];
  }

  void update(int64_t i, const Row<float>& outer) {
    const auto total = [&](int64_t gate) { return outer[gate * size_ + i] + inner(gate, i); };
    float& hidden = hidden_[static_cast<size_t>(i)];
    float& cell = cell_[static_cast<size_t>(i)];
    switch (kind_) {
      case Recurrence::Lstm:
        cell = sigmoid(total(1)) * cell + sigmoid(total(0)) * std::tanh(total(2));
        hidden = sigmoid(total(3)) * std::tanh(cell);
        break;
      case Recurrence::Gru: {
        const float fresh = std::tanh(outer[2 * size_ + i] + sigmoid(total(0)) * inner(2, i));
        hidden = fresh + sigmoid(total(1)) * (hidden - fresh);
        break;
      }
      case Recurrence::RnnTanh:
        hidden = std::tanh(total(0));
        break;
      case Recurrence::RnnRelu: {
        const float sum = total(0);
        hidden = sum < 0.0F ? 0.0F : sum;  // a NaN stays
        break;
      }
    }
  }

  const Recurrence kind_;
  const int64_t size_;
  const float* weights_;  // [size, gates * size]
  const float* bias_;
  std::vector<float> inner_;
  std::vector<float> hidden_ = {};
  std::vector<float> cell_ = {};
};

}  // namespace

// A sequence belongs to the task that has its first row.
void host_recurrent(const HostTask& task) {
  using namespace params::host_recurrent;
  const ggml_tensor& gates = task.operand(0);
  const ggml_tensor& state = task.operand(3);
  const int64_t steps = gates.ne[1];
  const int64_t rows = task.result->ne[1];
  const bool reverse = task.call.ints[kReverse] != 0;
  for (int64_t b = (task.first_row + rows - 1) / rows; b * rows < task.end_row; ++b) {
    Sequence sequence(task, task.row<float>(3, {0, b, 0}),
                      task.row<float>(3, {state.ne[1] - 1, b, 0}));
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t t = reverse ? steps - 1 - step : step;
      sequence.step(task.row<float>(0, {t, b, 0}));
      sequence.write_hidden(task.out<float>(b * rows + t));
    }
    if (rows > steps) {
      sequence.write_cell(task.out<float>(b * rows + steps));
    }
  }
}

}  // namespace executorch_ggml
