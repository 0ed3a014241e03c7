// Threads that share tasks: each task runs once, steps keep their order, programs do not mix.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/cpu/task_pool.h"
#include "runtime/platform/cpu_affinity.h"
#include "runtime/platform/executorch_threads.h"

namespace executorch_ggml {
namespace {

// Counts the runs of each task, and the tasks that ran before an earlier step had ended.
class Counting final : public TaskProgram {
 public:
  Counting(std::vector<uint32_t> steps, int n_threads)
      : steps_(std::move(steps)),
        busy_(static_cast<size_t>(n_threads)),
        done_(steps_.size()),
        runs_(std::accumulate(steps_.begin(), steps_.end(), size_t{0})) {}

  std::span<const uint32_t> steps() const override { return steps_; }

  void run_task(uint32_t step, uint32_t task, int thread) override {
    if (busy_[static_cast<size_t>(thread)].exchange(true)) {
      ++shared_threads;
    }
    for (uint32_t before = 0; before < step; ++before) {
      early += done_[before] < steps_[before] ? 1 : 0;
    }
    size_t index = task;
    for (uint32_t before = 0; before < step; ++before) {
      index += steps_[before];
    }
    ++runs_[index];
    if (delay.count() > 0) {
      std::this_thread::sleep_for(delay);
    }
    ++done_[step];
    busy_[static_cast<size_t>(thread)] = false;
  }

  bool each_once() const {
    return std::ranges::all_of(runs_, [](const std::atomic<int>& n) { return n == 1; });
  }

  std::atomic<int> early = 0;
  std::atomic<int> shared_threads = 0;
  std::chrono::microseconds delay{0};

 private:
  const std::vector<uint32_t> steps_;
  std::vector<std::atomic<bool>> busy_;
  std::vector<std::atomic<uint32_t>> done_;
  std::vector<std::atomic<int>> runs_;
};

void expect_all_ran(TaskPool& pool, std::vector<uint32_t> steps,
                    std::chrono::microseconds delay = {}) {
  Counting program(std::move(steps), pool.n_threads());
  program.delay = delay;
  pool.run(program);
  EXPECT_TRUE(program.each_once());
  EXPECT_EQ(program.early, 0);
  EXPECT_EQ(program.shared_threads, 0);
}

TEST(TaskPool, RunsEachTaskOnceAndStepsInOrder) {
  std::mt19937 engine(7);
  std::uniform_int_distribution<uint32_t> tasks(1, 40);
  for (const int n_threads : {1, 2, 3, 8}) {
    TaskPool pool(n_threads);
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (int round = 0; round < 300; ++round) {
      std::vector<uint32_t> steps(engine() % 30);
      std::ranges::generate(steps, [&] { return engine() % 3 == 0 ? 1 : tasks(engine); });
      expect_all_ran(pool, steps);
    }
  }
}

TEST(TaskPool, RunsOnExecuTorchsThreads) {
  std::mt19937 engine(8);
  std::shared_ptr<TaskPool> pool;
  ASSERT_TRUE(TaskPool::acquire(1, {}, ThreadSource::ExecuTorch, pool).ok());
  EXPECT_EQ(pool->n_threads(), 1);
  expect_all_ran(*pool, {3, 1, 2});
  ASSERT_TRUE(TaskPool::acquire(500, {}, ThreadSource::ExecuTorch, pool).ok());
  EXPECT_EQ(pool->n_threads(), executorch_thread_count());
  // Also more than there are.
  TaskPool many(executorch_thread_count() + 3, {}, ThreadSource::ExecuTorch);
  for (TaskPool* const each : {pool.get(), &many}) {
    for (int round = 0; round < 300; ++round) {
      std::vector<uint32_t> steps(engine() % 30);
      std::ranges::generate(steps, [&] { return 1 + engine() % 40; });
      expect_all_ran(*each, steps);
    }
    // Tasks longer than a thread spins.
    expect_all_ran(*each, {4, 1, 2, 9}, std::chrono::microseconds(300));
  }
}

TEST(TaskPool, RunsWithinACallOnExecuTorchsThreads) {
  TaskPool pool(4, {}, ThreadSource::ExecuTorch);
  std::atomic<int> calls = 0;
  std::thread other([&pool] {
    for (int round = 0; round < 100; ++round) {
      expect_all_ran(pool, {3, 1, 5, 2});
    }
  });
  for (int round = 0; round < 100; ++round) {
    run_on_executorch_threads(4, [&](int) {
      ++calls;
      expect_all_ran(pool, {3, 1, 5, 2});
    });
  }
  other.join();
  EXPECT_EQ(calls, 400);
}

TEST(TaskPool, WakesThreadsThatSleep) {
  TaskPool pool(4);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    // A task takes longer than a waiting thread spins.
    expect_all_ran(pool, {4, 1, 2, 9}, std::chrono::microseconds(300));
  }
}

TEST(TaskPool, RunsOneProgramAtATime) {
  TaskPool pool(2);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&pool] {
      for (int round = 0; round < 100; ++round) {
        expect_all_ran(pool, {3, 1, 5, 2});
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
}

// Tasks that store apart, each delayed now and then for longer than others wait for it.
class Apart final : public TaskProgram {
 public:
  Apart(std::vector<uint32_t> steps, int n_threads, unsigned seed)
      : steps_(std::move(steps)),
        seed_(seed),
        left_(static_cast<size_t>(n_threads)),
        stores_(steps_.size() * kMostTasks),
        done_(steps_.size()) {}

  static constexpr uint32_t kMostTasks = 16;

  std::span<const uint32_t> steps() const override { return steps_; }
  bool stores_apart(uint32_t step, uint32_t task) const override { return (step + task) % 4 != 0; }

  void run_task(uint32_t step, uint32_t task, int thread) override {
    ++running;
    ++runs;
    const unsigned draw = (seed_ + runs.load()) * 2654435761U >> 16U;
    if (draw % 16 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    left_[static_cast<size_t>(thread)] = {step, task};
    if (!stores_apart(step, task)) {
      store_task(step, task, thread);
    }
    --running;
  }

  void store_task(uint32_t step, uint32_t task, int thread) override {
    const auto [left_step, left_task] = left_[static_cast<size_t>(thread)];
    wrong += left_step != step || left_task != task ? 1 : 0;
    for (uint32_t before = 0; before < step; ++before) {
      wrong += done_[before] < steps_[before] ? 1 : 0;
    }
    ++stores_[size_t{step} * kMostTasks + task];
    ++done_[step];
  }

  bool each_stored_once() const {
    for (size_t step = 0; step < steps_.size(); ++step) {
      for (size_t task = 0; task < kMostTasks; ++task) {
        if (stores_[step * kMostTasks + task] != (task < steps_[step] ? 1 : 0)) {
          return false;
        }
      }
    }
    return true;
  }

  std::atomic<int> running = 0;
  std::atomic<unsigned> runs = 0;
  std::atomic<int> wrong = 0;

 private:
  const std::vector<uint32_t> steps_;
  const unsigned seed_;
  std::vector<std::pair<uint32_t, uint32_t>> left_;  // by thread
  std::vector<std::atomic<int>> stores_;
  std::vector<std::atomic<uint32_t>> done_;
};

TEST(TaskPool, StoresOneResultOfTasksThatSeveralRun) {
  std::mt19937 engine(11);
  unsigned runs = 0;
  unsigned tasks = 0;
  for (const int n_threads : {1, 2, 3, 8}) {
    TaskPool pool(n_threads);
    for (int round = 0; round < 60; ++round) {
      std::vector<uint32_t> steps(1 + engine() % 12);
      std::ranges::generate(steps, [&] { return 1 + engine() % Apart::kMostTasks; });
      Apart program(steps, n_threads, static_cast<unsigned>(engine()));
      pool.run(program);
      EXPECT_TRUE(program.each_stored_once());
      EXPECT_EQ(program.wrong, 0);
      EXPECT_EQ(program.running, 0) << "the program is still in use";
      runs += program.runs;
      tasks += std::accumulate(steps.begin(), steps.end(), 0U);
    }
  }
  EXPECT_GT(runs, tasks) << "no task was run again";
}

// The first thread that takes the task is not back before the program has gone on.
class Stuck final : public TaskProgram {
 public:
  std::span<const uint32_t> steps() const override { return steps_; }
  bool stores_apart(uint32_t step, uint32_t /*task*/) const override { return step == 0; }

  void run_task(uint32_t step, uint32_t task, int /*thread*/) override {
    if (step == 1) {
      went_on = true;
    } else if (task == 0 && !taken_.exchange(true)) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!went_on && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
      }
      came_back = true;
    }
  }

  std::atomic<bool> went_on = false;
  std::atomic<bool> came_back = false;

 private:
  const std::vector<uint32_t> steps_ = {2, 2};
  std::atomic<bool> taken_ = false;
};

TEST(TaskPool, GoesOnWithoutAThreadThatIsPutAside) {
  TaskPool pool(2);
  for (int round = 0; round < 20; ++round) {
    Stuck program;
    const auto begin = std::chrono::steady_clock::now();
    pool.run(program);
    EXPECT_TRUE(program.went_on);
    EXPECT_TRUE(program.came_back) << "the program ended while a task ran";
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
}

// Notes the CPUs that each thread may use while it runs a task.
class Places final : public TaskProgram {
 public:
  explicit Places(int n_threads, bool apart = false)
      : seen(static_cast<size_t>(n_threads)), apart_(apart) {}

  bool stores_apart(uint32_t /*step*/, uint32_t /*task*/) const override { return apart_; }
  std::span<const uint32_t> steps() const override { return steps_; }
  void run_task(uint32_t /*step*/, uint32_t /*task*/, int thread) override {
    seen[static_cast<size_t>(thread)] = allowed_cpus();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the others get some as well
  }

  std::vector<std::vector<int>> seen;

 private:
  const bool apart_;
  const std::vector<uint32_t> steps_ = {20};
};

TEST(TaskPool, KeepsThreadsOnTheirCpusAndGivesTheCallersBack) {
  const std::vector<int> allowed = allowed_cpus();
  if (allowed.size() < 2) {
    GTEST_SKIP() << "needs two CPUs, and a system that binds threads to them";
  }
  const std::vector<int> two = {allowed[1], allowed[0]};
  {
    TaskPool pool(2, {two, /*always=*/true});
    Places places(2);
    pool.run(places);
    EXPECT_EQ(places.seen[0], std::vector{two[0]});
    EXPECT_EQ(places.seen[1], std::vector{two[1]});
    EXPECT_EQ(allowed_cpus(), allowed);
  }
  {
    TaskPool pool(2, {{two[0]}, /*always=*/true});
    Places places(2);
    pool.run(places);
    EXPECT_EQ(places.seen[0], std::vector{two[0]});
    EXPECT_EQ(places.seen[1], std::vector{two[0]});
  }
  {
    TaskPool pool(2, {two, /*always=*/false});
    for (const bool apart : {true, false, true}) {
      Places places(2, apart);
      pool.run(places);
      EXPECT_EQ(places.seen[1], apart ? std::vector{two[1]} : allowed);
      EXPECT_EQ(allowed_cpus(), allowed);
    }
  }
  {
    const CpuBinding binding(std::span<const int>(two).first(1));
    EXPECT_EQ(allowed_cpus(), std::vector{two[0]});
    const CpuBinding other(std::span<const int>(two).last(1));  // which this thread may not use now
    EXPECT_EQ(allowed_cpus(), std::vector{two[0]});
  }
  TaskPool pool(2);
  Places places(2);
  pool.run(places);
  EXPECT_EQ(places.seen[1], allowed);
}

TEST(TaskPool, IsSharedByAllWhoAskForAsManyThreads) {
  std::shared_ptr<TaskPool> a;
  std::shared_ptr<TaskPool> b;
  std::shared_ptr<TaskPool> c;
  ASSERT_TRUE(TaskPool::acquire(2, {}, ThreadSource::Own, a).ok());
  ASSERT_TRUE(TaskPool::acquire(2, {}, ThreadSource::Own, b).ok());
  ASSERT_TRUE(TaskPool::acquire(3, {}, ThreadSource::Own, c).ok());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  if (const std::vector<int> allowed = allowed_cpus(); !allowed.empty()) {
    ASSERT_TRUE(TaskPool::acquire(2, {{allowed[0]}, true}, ThreadSource::Own, c).ok());
    EXPECT_NE(a, c);
  }
  EXPECT_EQ(TaskPool::acquire(0, {}, ThreadSource::Own, a).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(TaskPool::acquire(100000, {}, ThreadSource::Own, a).code(),
            StatusCode::InvalidArgument);
}

}  // namespace
}  // namespace executorch_ggml
