// How the units of a work are shared out among tasks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace executorch_ggml {

// Equal parts, or long ones first and short ones last: threads then find few tasks, and still end
// together.
class Shares {
 public:
  // One of a number of equal parts of the units.
  struct Part {
    int64_t index;
    int64_t of;

    int64_t begin(int64_t n_units) const { return n_units * index / of; }
    int64_t end(int64_t n_units) const { return n_units * (index + 1) / of; }
  };

  Shares() = default;  // all in one
  static Shares equal(int64_t n) {
    Shares shares;
    shares.n_tasks_ = static_cast<uint32_t>(std::max<int64_t>(n, 1));
    return shares;
  }
  // Of 1 / (2 threads) of all for each thread, then of half as much, and so on; what is left is
  // two of the shortest for each. None is shorter than 1 / `most` of all.
  static Shares falling(int n_threads, int64_t most) {
    if (n_threads == 1) {
      return {};
    }
    Shares shares;
    shares.n_threads_ = n_threads;
    while (shares.n_sizes_ < kMostSizes && (2 * shares.n_threads_ << shares.n_sizes_) <= most) {
      ++shares.n_sizes_;
    }
    if (shares.n_sizes_ < 2) {
      return equal(most);
    }
    shares.n_tasks_ = static_cast<uint32_t>(shares.n_threads_ * (shares.n_sizes_ + 1));
    return shares;
  }

  uint32_t n_tasks() const { return n_tasks_; }

  Part part(uint32_t task) const {
    if (n_sizes_ == 0) {
      return {task, n_tasks_};
    }
    const int64_t size = std::min(task / n_threads_, n_sizes_ - 1);
    const int64_t of = 2 * n_threads_ << size;
    return {of - 2 * n_threads_ + task - size * n_threads_, of};
  }

 private:
  static constexpr int64_t kMostSizes = 5;

  uint32_t n_tasks_ = 1;
  int64_t n_threads_ = 1;
  int64_t n_sizes_ = 0;  // 0: all are equal
};

}  // namespace executorch_ggml
