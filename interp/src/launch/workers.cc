#include "workers.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

#include "float_environment.h"

namespace pallasim::interp {

int default_workers() {
  static const int n = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return n;
}

// TBB orders its tasks after the thread that starts them and before its going on, but ThreadSanitizer does not see into
// its library. This is the same order where it sees it; what hands a task to us is not looked at.
class HandOver {
 public:
  void give() { edge_.fetch_add(1, std::memory_order_release); }
  void take() { edge_.load(std::memory_order_acquire); }

 private:
  std::atomic<int> edge_{0};
};
#define PALLASIM_UNSEEN __attribute__((no_sanitize("thread")))

namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("yield");
#endif
}

}  // namespace

void on_workers(int workers, int n, const std::function<void(int)>& task) {
  HandOver hand_over;
  hand_over.give();
  const auto loop = [&] {
    tbb::parallel_for(
        0, n,
        [&](int i) PALLASIM_UNSEEN {
          hand_over.take();
          task(i);
          hand_over.give();
        },
        tbb::simple_partitioner());
  };
  if (workers == default_workers()) {
    loop();
  } else {
    tbb::task_arena arena(workers);
    arena.execute(loop);
  }
  hand_over.take();
}

struct StepWorkers::Tasks {
  HandOver hand_over;
  tbb::task_group group;
};

StepWorkers::StepWorkers(int count) : count_(count) {}

StepWorkers::~StepWorkers() {
  ended_.store(true, std::memory_order_release);
  if (tasks_) tasks_->group.wait();
  helpers_.load(std::memory_order_acquire);  // ThreadSanitizer does not see the wait
}

bool StepWorkers::take(int worker) {
  uint64_t left = untaken_.load(std::memory_order_acquire);
  while (left != 0) {
    const uint64_t from_own = left >> worker % 64 << worker % 64;
    const int unit = std::countr_zero(from_own ? from_own : left);
    if (!untaken_.compare_exchange_weak(left, left & ~(uint64_t{1} << unit), std::memory_order_acq_rel,
                                        std::memory_order_acquire))
      continue;
    for (int i = job_.parts * unit / job_.units; i < job_.parts * (unit + 1) / job_.units; ++i) (*job_.part)(i);
    done_.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

void StepWorkers::help(int worker) {
  constexpr std::chrono::microseconds kLooksOut{100};
  const FloatEnvironment environment;
  auto until = std::chrono::steady_clock::now() + kLooksOut;
  while (!ended_.load(std::memory_order_acquire)) {
    if (take(worker)) {
      until = std::chrono::steady_clock::now() + kLooksOut;
      continue;
    }
    for (int i = 0; i < 16 && untaken_.load(std::memory_order_relaxed) == 0; ++i) relax();
    if (std::chrono::steady_clock::now() > until) break;
  }
  helpers_.fetch_sub(1, std::memory_order_release);
}

// An arena of its own would cost more than a part: who asks for other numbers of workers gets as many parts.
void StepWorkers::call_helpers(int n) {
  if (helpers_.load(std::memory_order_acquire) >= n) return;
  if (!tasks_) tasks_ = std::make_unique<Tasks>();
  tasks_->hand_over.give();
  while (helpers_.load(std::memory_order_relaxed) < n) {
    helpers_.fetch_add(1, std::memory_order_relaxed);
    tasks_->group.run([this, tasks = tasks_.get()]() PALLASIM_UNSEEN {
      tasks->hand_over.take();
      help(std::max(1, tbb::this_task_arena::current_thread_index()));
    });
  }
}

void StepWorkers::run(int n, const std::function<void(int)>& part) {
  const int units = std::min(n, 64);
  job_ = {&part, n, units};
  done_.store(0, std::memory_order_relaxed);
  untaken_.store(~uint64_t{0} >> (64 - units), std::memory_order_release);
  call_helpers(std::min(units, count_) - 1);
  while (take(0)) {}
  for (int waited = 0; done_.load(std::memory_order_acquire) < units; ++waited) {
    constexpr int kSpins = 1000;
    if (waited < kSpins) relax();
    else std::this_thread::yield();
  }
}

}  // namespace pallasim::interp
