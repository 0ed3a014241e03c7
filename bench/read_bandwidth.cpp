// read_bandwidth THREADS MEBIBYTES PASSES
//
// How fast this machine reads memory: each thread sums its own part of a buffer that no
// cache holds, all at once, several times. Prints JSON; the best pass is the limit that a
// decoder meets, which reads all of its weights for each token.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMiB = 1 << 20;

// Independent sums, so that the compiler makes them vectors and no addition waits.
uint64_t sum(const uint64_t* values, size_t count) {
  constexpr size_t kLanes = 64;
  uint64_t lanes[kLanes] = {};
  for (size_t i = 0; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += values[i + lane];
    }
  }
  uint64_t total = 0;
  for (const uint64_t lane : lanes) {
    total += lane;
  }
  return total;
}

constexpr size_t kLargePage = size_t{2} << 20;

struct Free {
  void operator()(uint64_t* values) const { std::free(values); }
};
using Values = std::unique_ptr<uint64_t[], Free>;

// In large pages where the system has them: looking small ones up costs a fifth of the rate,
// which a file in the system's cache does not pay.
Values allocate(size_t count) {
  const size_t bytes = (count * sizeof(uint64_t) + kLargePage - 1) / kLargePage * kLargePage;
  Values values(static_cast<uint64_t*>(std::aligned_alloc(kLargePage, bytes)));
  if (values == nullptr) {
    std::fprintf(stderr, "read_bandwidth: no memory for %zu bytes\n", bytes);
    std::exit(1);
  }
#if defined(MADV_HUGEPAGE)
  (void)::madvise(values.get(), bytes, MADV_HUGEPAGE);
#endif
  return values;
}

int64_t argument(const char* text, int64_t most) {
  char* end = nullptr;
  const int64_t value = std::strtoll(text, &end, 10);
  if (end == text || *end != '\0' || value < 1 || value > most) {
    std::fprintf(stderr, "read_bandwidth: '%s', expected a whole number from 1 to %" PRId64 "\n",
                 text, most);
    std::exit(2);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: read_bandwidth THREADS MEBIBYTES PASSES\n");
    return 2;
  }
  const int64_t n_threads = argument(argv[1], 1024);
  const int64_t mebibytes = argument(argv[2], 1 << 20);
  const int64_t passes = argument(argv[3], 1000);
  const size_t part = static_cast<size_t>(mebibytes * kMiB / n_threads) / sizeof(uint64_t);

  std::vector<double> seconds(static_cast<size_t>(passes));
  std::vector<uint64_t> sums(static_cast<size_t>(n_threads));
  std::barrier barrier(n_threads);
  const auto work = [&](size_t thread) {
    const Values values = allocate(part);
    // Written by the thread that reads it, so that its pages are near.
    std::fill_n(values.get(), part, uint64_t{thread + 1});
    for (double& pass : seconds) {
      barrier.arrive_and_wait();
      const Clock::time_point start = Clock::now();
      sums[thread] += sum(values.get(), part);
      barrier.arrive_and_wait();
      if (thread == 0) {
        pass = std::chrono::duration<double>(Clock::now() - start).count();
      }
    }
  };
  std::vector<std::jthread> threads;
  for (size_t thread = 1; thread < static_cast<size_t>(n_threads); ++thread) {
    threads.emplace_back(work, thread);
  }
  work(0);
  threads.clear();

  uint64_t checksum = 0;  // printed, so that no sum can be left out
  for (const uint64_t value : sums) {
    checksum += value;
  }
  const double bytes =
      static_cast<double>(part * sizeof(uint64_t)) * static_cast<double>(n_threads);
  std::printf("{\"threads\": %" PRId64 ", \"bytes_per_second\": %.0f, \"checksum\": %" PRIu64 "}\n",
              n_threads, bytes / *std::min_element(seconds.begin(), seconds.end()), checksum);
  return 0;
}
