// Which works may share a step, and how a work is shared out.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "runtime/cpu/schedule.h"
#include "runtime/cpu/shares.h"

namespace executorch_ggml {
namespace {

constexpr int64_t kMuch = int64_t{1} << 20;

class Idle final : public Work {
 public:
  void run(uint32_t, const WorkMemory&) override {}
};

MemoryRange bytes(uintptr_t begin, uintptr_t end, const ggml_tensor* owner = nullptr) {
  return {owner, begin, end};
}

class ScheduleTest : public ::testing::Test {
 protected:
  Work* add(std::vector<MemoryRange> reads, std::vector<MemoryRange> writes,
            int64_t elements = kMuch) {
    auto work = std::make_unique<Idle>();
    work->reads = std::move(reads);
    work->writes = std::move(writes);
    work->elements = elements;
    work->n_tasks = 4;
    works_.push_back(std::move(work));
    return works_.back().get();
  }

  // The step of each work.
  std::vector<size_t> steps(int n_threads = 2) {
    result_ = schedule(works_, n_threads);
    std::vector<size_t> found(works_.size());
    for (size_t step = 0; step < result_.size(); ++step) {
      for (const Work* work : result_[step].works) {
        for (size_t i = 0; i < works_.size(); ++i) {
          found[i] = works_[i].get() == work ? step : found[i];
        }
      }
    }
    return found;
  }

  std::vector<std::unique_ptr<Work>> works_;
  std::vector<Step> result_;
};

TEST_F(ScheduleTest, WorksWithoutSharedMemoryRunTogether) {
  add({bytes(0, 8)}, {bytes(8, 16)});
  add({bytes(0, 8)}, {bytes(16, 24)});
  EXPECT_EQ(steps(), (std::vector<size_t>{0, 0}));
  EXPECT_EQ(result_[0].n_tasks, 8U);
}

TEST_F(ScheduleTest, ReadersFollowWritersAndWritersFollowReaders) {
  add({bytes(0, 8)}, {bytes(8, 16)});
  add({bytes(12, 16)}, {bytes(16, 24)});  // reads what the first wrote
  add({bytes(32, 40)}, {bytes(12, 13)});  // writes where the second reads
  add({bytes(32, 40)}, {bytes(12, 13)});  // writes there again
  add({bytes(32, 40)}, {bytes(48, 56)});
  EXPECT_EQ(steps(), (std::vector<size_t>{0, 1, 2, 3, 0}));
}

TEST_F(ScheduleTest, OffsetsOfDifferentOwnersDoNotMeet) {
  const ggml_tensor a{};
  const ggml_tensor b{};
  add({}, {bytes(0, 8, &a)});
  add({bytes(0, 8, &b)}, {bytes(0, 8)});
  add({bytes(0, 8, &a)}, {bytes(8, 16)});
  EXPECT_EQ(steps(), (std::vector<size_t>{0, 0, 1}));
}

TEST_F(ScheduleTest, LittleWorkIsNotShared) {
  add({}, {bytes(0, 8)}, /*elements=*/100);
  add({}, {bytes(8, 16)}, /*elements=*/100);
  EXPECT_EQ(steps(), (std::vector<size_t>{0, 0}));
  EXPECT_EQ(result_[0].n_tasks, 1U);
}

TEST_F(ScheduleTest, OneThreadSharesNothing) {
  add({}, {bytes(0, 8)});
  steps(/*n_threads=*/1);
  EXPECT_EQ(result_[0].n_tasks, 1U);
}

// However far apart two works are, the one that conflicts with an earlier one comes later.
TEST_F(ScheduleTest, KeepsTheOrderOfAllConflicts) {
  std::mt19937 engine(3);
  for (int i = 0; i < 400; ++i) {
    const auto place = [&] { return static_cast<uintptr_t>(engine() % 64 * 8); };
    const uintptr_t read = place();
    const uintptr_t write = place();
    add({bytes(read, read + 8)}, {bytes(write, write + 8)});
  }
  const std::vector<size_t> step = steps();
  for (size_t j = 0; j < works_.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      const MemoryRange& in = works_[j]->reads[0];
      const MemoryRange& out = works_[j]->writes[0];
      const bool conflict = in.overlaps(works_[i]->writes[0]) ||
                            out.overlaps(works_[i]->reads[0]) || out.overlaps(works_[i]->writes[0]);
      ASSERT_TRUE(!conflict || step[j] > step[i]) << i << " and " << j;
    }
  }
}

TEST(SharesTest, CoverAllUnitsInOrderTheLongestFirst) {
  for (const int n_threads : {1, 2, 3, 8, 64}) {
    for (const int64_t most : {0, 1, 3, 4, 7, 8, 16, 100, 5000}) {
      const Shares shares = Shares::falling(n_threads, most);
      for (const int64_t n_units : {0, 1, 5, 64, 1001}) {
        int64_t at = 0;
        double last = 1;
        for (uint32_t task = 0; task < shares.n_tasks(); ++task) {
          const Shares::Part part = shares.part(task);
          EXPECT_EQ(part.begin(n_units), at);
          at = part.end(n_units);
          EXPECT_LE(part.of, std::max<int64_t>(most, 1));
          EXPECT_LE(1.0 / static_cast<double>(part.of), last);
          last = 1.0 / static_cast<double>(part.of);
        }
        EXPECT_EQ(at, n_units) << n_threads << " threads, most " << most;
      }
    }
  }
}

TEST(SharesTest, OneThreadTakesAllAtOnce) { EXPECT_EQ(Shares::falling(1, 1000).n_tasks(), 1U); }

TEST(SharesTest, LittleIsSharedEqually) {
  const Shares shares = Shares::falling(4, 15);
  EXPECT_EQ(shares.n_tasks(), 15U);
  EXPECT_EQ(shares.part(0).of, shares.part(14).of);
}

TEST(SharesTest, EveryThreadFindsEverySize) {
  const Shares shares = Shares::falling(2, 64);
  std::vector<int64_t> sizes;
  for (uint32_t task = 0; task < shares.n_tasks(); ++task) {
    sizes.push_back(64 / shares.part(task).of);
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{16, 16, 8, 8, 4, 4, 2, 2, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace executorch_ggml
